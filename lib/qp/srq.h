/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues (SRQ-01). An SRQ belongs to one worker, and so do all its QPs, so taking a
 * WQE needs no lock. A WQE is copied when it is taken and its slot is free from then on.
 */
#ifndef QP_SRQ_H
#define QP_SRQ_H

#include <stdbool.h>
#include <stdint.h>
#include "qp/ring.h"

struct srq {
	struct qp_ring rq;
	uint32_t head;  /* next WQE to take, free running */
	uint32_t limit; /* raise SRQ_LIMIT_REACHED below so many WQEs, once; 0 = disarmed */
	uint32_t pd;
	uint32_t srqn;
	bool dead;            /* the ring made no sense (EVT-09) */
	uint64_t user_handle; /* the client's name for it, in events */
	void *owner;          /* the control thread's object */
	uint16_t worker;
};

/*
 * Another size while traffic runs. The client posts nothing until it has the new ring, and indices
 * run on in it, so the WQEs that wait can be copied beside the worker, which goes on taking them;
 * those taken meanwhile are copied for nothing.
 *
 * srq_look: owner worker. Where the queue is: WQEs head .. prod - 1 wait. False: the ring makes no
 * sense; whoever takes from it next finds that out (EVT-09).
 */
bool srq_look(const struct srq *srq, uint32_t *head, uint32_t *prod);
/* Control thread. WQEs head .. prod - 1 to to, which has room for them and the same stride. */
void srq_copy(const struct srq *srq, const struct qp_ring *to, uint32_t head, uint32_t prod);
/* Owner worker. Take from to from now on: it holds all that was posted before prod. */
void srq_switch(struct srq *srq, const struct qp_ring *to, uint32_t prod);

#endif
