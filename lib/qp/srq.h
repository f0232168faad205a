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

#endif
