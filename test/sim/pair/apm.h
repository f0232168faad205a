/* SPDX-License-Identifier: BSD-3-Clause */
/* Path migration in the simulator (cfg.apm); without it these functions have no effect. */
#ifndef PAIR_APM_H
#define PAIR_APM_H

#include "pair.h"

/* The alternate of path, and the additional attributes of a modify to a state. */
void pair_apm_path(const struct pair_side *side, const struct qp_path *path, struct qp_path *alt);
uint32_t pair_apm_attrs(struct pair_side *side, enum qp_state to);
/* Is a frame on a link lost because its path has failed? */
bool pair_apm_lost(struct pair *s, const struct pair_view *v);
/* side has raised PATH_MIG. */
void pair_apm_event(struct pair_side *side);
/* side has built a frame: checks its path and its MigReq. */
void pair_apm_built(struct pair_side *side, const struct wire_pkt *pkt, struct pair_view *v);
/* Has the receiver left the path that the frame uses? */
bool pair_apm_stranger(const struct pair_view *v);
/* Checks at the end of the schedule. */
void pair_apm_check(struct pair *s, const struct pair_side *side);

#endif
