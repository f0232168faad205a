/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a QP works with on this machine: completion queues, rings, the worker's timer and run list,
 * counters. Made by qp_create for whatever connection the QP will have; nothing here outlives it.
 */
#ifndef QP_BIND_H
#define QP_BIND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "cq/cq.h"
#include "counters/counters.h"
#include "qp/ah.h"
#include "qp/ring.h"
#include "qp/sqe.h"
#include "qp/srq.h"

struct qp;

struct qp_bind {
	/* the rest of the line that qp_conn ends in */
	TAILQ_ENTRY(qp) run;            /* the engine's run list (engine/run_list.h) */
	struct counter_block *counters; /* of its worker and device */
	uint64_t timer_at_ns;           /* what the worker's timer is set to; 0 = not set */
	uint32_t pd;
	uint16_t port; /* ethdev port id = device */
	bool on_run_list;
	bool parked : 1; /* on the run list until a time, not ready for a turn */
	bool armed : 1;  /* told the client to ring (qp/doorbell.h) */
	bool polled : 1; /* the worker looks at the SQ all the time: no need to ring */

	/* what the requester needs: two lines */
	struct qp_ring sq;
	struct qp_sqes sqes; /* copies of the WQEs snd.tail .. snd.head */
	struct cq *send_cq;
	uint64_t user_handle;

	/* what receive WQEs and UD need: one line */
	struct qp_ring rq; /* mask 0 and hdr NULL with an SRQ */
	struct cq *recv_cq;
	struct srq *srq;               /* or NULL: rq */
	const struct qp_ah_table *ahs; /* of its context (UD) */
	const uint16_t *pkeys;         /* as in struct qp_create */

	uint32_t recv_pd; /* domain of the receive buffers: the SRQ's, or pd */
	uint16_t worker;
	uint16_t run_slot; /* parked: where */
	bool in_eal;       /* where the QP's memory is from */
	void *timer;       /* the worker's */
	void *owner;       /* the control thread's object */
};

#endif
