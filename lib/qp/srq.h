/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues (SRQ-01). An SRQ and all its QPs belong to one worker, so taking a WQE
 * needs no lock. A WQE is copied when it is taken; its slot is then free.
 */
#ifndef QP_SRQ_H
#define QP_SRQ_H

#include <stdbool.h>
#include <stdint.h>
#include "qp/ring.h"

struct srq {
	struct qp_ring rq;
	uint32_t head;  /* next WQE to take, free running */
	uint32_t limit; /* raise SRQ_LIMIT_REACHED once below this many WQEs; 0: disarmed */
	uint32_t pd;
	uint32_t srqn;
	bool dead;            /* the ring was corrupt (EVT-09) */
	uint64_t user_handle; /* the client's identifier, for events */
	void *owner;          /* the control thread's object */
	uint16_t worker;
};

/*
 * Resize while traffic runs. The client posts nothing until it has the new ring, and indices
 * continue in it. The waiting WQEs can therefore be copied while the worker continues to take them
 * from the old ring; copies of those taken meanwhile are not used.
 *
 * srq_look: owner worker. Read the queue's indices: WQEs head .. prod - 1 wait. Returns false if
 * the ring is corrupt; the next QP that takes from it handles that (EVT-09).
 */
bool srq_look(const struct srq *srq, uint32_t *head, uint32_t *prod);
/* Control thread. Copy WQEs head .. prod - 1 to ring to, which has space and the same stride. */
void srq_copy(const struct srq *srq, const struct qp_ring *to, uint32_t head, uint32_t prod);
/* Owner worker. Switch to ring to, which holds all WQEs posted before prod. */
void srq_switch(struct srq *srq, const struct qp_ring *to, uint32_t prod);

#endif
