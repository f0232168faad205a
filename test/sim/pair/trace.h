/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by trace.c and answers.c. */
#ifndef PAIR_TRACE_H
#define PAIR_TRACE_H

#include "pair.h"

/* The WQE that contains PSN number rel of a side, or NULL. */
struct pair_op *trace_op(struct pair_side *side, uint32_t rel);

/* side has built a response: checks it against the workload of its peer. */
void trace_answer(struct pair_side *side, const struct wire_pkt *pkt, struct pair_view *v);

#endif
