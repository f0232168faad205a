/* SPDX-License-Identifier: BSD-3-Clause */
/* Between trace.c and answers.c. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "sim.h"

/* The WQE that PSN number rel of a side belongs to, or NULL. */
struct sim_op *trace_op(struct sim_side *side, uint32_t rel);

/* side has built an answer: checked against the workload of its peer. */
void trace_answer(struct sim_side *side, const struct wire_pkt *pkt, struct sim_view *v);

#endif
