/* SPDX-License-Identifier: BSD-3-Clause */
/* A QP that frames must not reach, and a frame that may. */
#ifndef UNIT_ENGINE_VICTIM_H
#define UNIT_ENGINE_VICTIM_H

#include "harness.h"

#define RQ        0x555000u
#define MAX_FRAME (WIRE_MAX_OVERHEAD + 64)

struct victim {
	struct conn *c;
	struct qp was;
	uint64_t drops;
};

/* A QP ready for the request of good_frame, and a copy of its state. */
struct victim victim_open(void **state, bool v6);
/* An intact WRITE to the victim, at most MAX_FRAME bytes. Returns its length. */
uint32_t good_frame(struct conn *c, uint8_t *frame);
/* Exactly one frame was dropped since the last call, for this reason; the victim is as it was. */
void expect_dropped(struct victim *v, enum drop_reason why);
/* The intact frame is accepted, so the change was the reason of the drop. */
void expect_taken(struct victim *v);

#endif
