/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads payload ahead from regions that are accessed by ops (mem/mr.h), where an operation of many
 * packets costs hardly more than one of a single packet. Only within one message and one turn of a
 * QP, so that no byte is older than the turn that sends it.
 */
#ifndef QP_AHEAD_H
#define QP_AHEAD_H

#include <stdint.h>
#include "mem/mr.h"

#define QP_AHEAD_BYTES (64u * 1024)

/* What a worker has read: the bytes of mr from addr on. All zero at first. */
struct qp_ahead {
	const struct mr *mr;
	uint64_t addr;
	uint32_t len; /* 0: nothing */
	uint8_t bytes[QP_AHEAD_BYTES];
};

/* Worker. Forgets what was read: at the start of a turn and of a message. */
static inline void
qp_ahead_forget(struct qp_ahead *a)
{
	a->len = 0;
}

/*
 * Worker. Copies [addr, addr + len) of mr to dst; the range was checked by a lookup in this burst.
 * more: bytes behind it that this message sends next, also within mr. Returns as mr_read.
 */
int qp_ahead_read(struct qp_ahead *a, const struct mr *mr, uint64_t addr, void *dst, uint32_t len,
		  uint32_t more);

#endif
