/* SPDX-License-Identifier: BSD-3-Clause */
/* Path migration in the simulator (cfg.apm); without it all of this does and says nothing. */
#ifndef SIM_APM_H
#define SIM_APM_H

#include "sim.h"

/* The alternate of path, and what a modify to a state has to say of it besides. */
void sim_apm_path(const struct sim_side *side, const struct qp_path *path, struct qp_path *alt);
uint32_t sim_apm_attrs(struct sim_side *side, enum qp_state to);
/* Is a frame on its way to a link lost, because its path is dead? */
bool sim_apm_lost(struct sim *s, const struct sim_view *v);
/* side has raised PATH_MIG. */
void sim_apm_event(struct sim_side *side);
/* side has built a frame: it goes the right way and has the right MigReq. */
void sim_apm_built(struct sim_side *side, const struct wire_pkt *pkt, struct sim_view *v);
/* Who gets the frame has left the path that it comes by. */
bool sim_apm_stranger(const struct sim_view *v);
/* The schedule is over. */
void sim_apm_check(struct sim *s, const struct sim_side *side);

#endif
