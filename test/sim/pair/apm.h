/* SPDX-License-Identifier: BSD-3-Clause */
/* Path migration in the simulator (cfg.apm); without it all of this does and says nothing. */
#ifndef PAIR_APM_H
#define PAIR_APM_H

#include "pair.h"

/* The alternate of path, and what a modify to a state has to say of it besides. */
void pair_apm_path(const struct pair_side *side, const struct qp_path *path, struct qp_path *alt);
uint32_t pair_apm_attrs(struct pair_side *side, enum qp_state to);
/* Is a frame on its way to a link lost, because its path is dead? */
bool pair_apm_lost(struct pair *s, const struct pair_view *v);
/* side has raised PATH_MIG. */
void pair_apm_event(struct pair_side *side);
/* side has built a frame: it goes the right way and has the right MigReq. */
void pair_apm_built(struct pair_side *side, const struct wire_pkt *pkt, struct pair_view *v);
/* Who gets the frame has left the path that it comes by. */
bool pair_apm_stranger(const struct pair_view *v);
/* The schedule is over. */
void pair_apm_check(struct pair *s, const struct pair_side *side);

#endif
