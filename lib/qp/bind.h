/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP's local resources: completion queues, rings, the worker's timer and run list, counters.
 * qp_create makes them for any connection that the QP will have; they do not outlive the QP.
 */
#ifndef QP_BIND_H
#define QP_BIND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "cc/cc.h"
#include "cq/cq.h"
#include "counters/counters.h"
#include "mem/late.h"
#include "qp/ah.h"
#include "qp/ring.h"
#include "qp/sqe.h"
#include "qp/srq.h"

struct qp;
struct qp_recorder;

/*
 * Users share QP_USERS - 1 places, by a hash of their uid, for turns and for pauses. Place 0 is
 * nobody's.
 */
#define QP_USERS 256u
static inline uint8_t
qp_user_place(uint32_t uid)
{
	uint8_t place = (uint8_t)(uid * 0x9e3779b1u >> 24); /* Fibonacci hashing */

	return place != 0 ? place : QP_USERS - 1;
}

/* The WRITE or atomic of a peer whose memory was late (mem/late.h). */
struct qp_late_op {
	struct mem_late op;
	uint32_t psn, rkey; /* op.state != NONE: of the request */
	uint32_t len;       /* .. bytes */
	uint16_t pkts;      /* .. packets of a WRITE, from psn on */
	bool atomic;
};

/* Its packets of one kind that wait in the engine for memory (engine/rx_late.c). */
struct qp_late_pkts {
	uint64_t since_ns; /* when the first of them came */
	uint32_t last_psn; /* of the last one */
	uint32_t id;       /* changes when n becomes nonzero */
	uint32_t pass;     /* the last attempt in which the memory was late */
	uint16_t n;        /* their number; 0 after a reset */
	bool lost;         /* responses: some behind the last one had no place */
};

struct qp_bind {
	/* the rest of the last line of qp_conn */
	TAILQ_ENTRY(qp) run;            /* the engine's run list (engine/run_list.h) */
	struct counter_block *counters; /* of its worker and device */
	uint64_t timer_at_ns;           /* time the worker's timer is set to; 0 = not set */
	uint32_t pd;
	uint16_t port;    /* ethdev port id = device */
	uint8_t run_user; /* qp_user_place of its uid */
	bool on_run_list : 1;
	bool parked : 1;         /* on the run list until a time, not ready for a turn */
	bool armed : 1;          /* the client must ring the doorbell (qp/doorbell.h) */
	bool polled : 1;         /* the worker polls the SQ all the time: no doorbell needed */
	bool requests_first : 1; /* paced: READ responses were sent in the last turn */

	/* used by the requester: two lines */
	struct qp_ring sq;
	struct qp_sqes sqes; /* copies of the WQEs snd.tail .. snd.head */
	struct cq *send_cq;
	uint64_t user_handle;

	/* used by receive WQEs and UD: one line */
	struct qp_ring rq; /* mask 0 and hdr NULL with an SRQ */
	struct cq *recv_cq;
	struct srq *srq;               /* or NULL: rq */
	const struct qp_ah_table *ahs; /* of its context (UD) */
	const uint16_t *pkeys;         /* as in struct qp_create */

	uint32_t recv_pd;        /* domain of the receive buffers: the SRQ's, or pd */
	uint16_t worker;         /* qp_worker */
	uint16_t run_slot;       /* parked: slot of the run list */
	bool in_eal;             /* the QP's memory is from the EAL heap */
	bool fixed;              /* never moves to another worker (qp_create) */
	bool pinned;             /* moves only if the operator wants it; atomic */
	uint64_t moved_ns;       /* time of the last move; 0: never moved */
	uint64_t moves;          /* how often it has moved */
	uint64_t rx_bytes_asked; /* conn.rx_bytes when another worker last asked for it */
	uint8_t plain;           /* QP_PLAIN_*, in addition to the env's */
	uint8_t sr_peer;         /* its peer's place among the user's (struct qp_sr_place) */
	void *timer;             /* the worker's */
	void *owner;             /* the control thread's object */
	struct qp_recorder *recorder;
	struct cc_param cc; /* congestion policy of connections that begin (qp/congestion.h) */
	struct qp_late_pkts late_req, late_resp; /* requests, responses */
	/* since when the memory that it sends from next is late; 0: it is not */
	uint64_t tx_late_ns;
	struct qp_late_op late_op;
	struct qp_reorder
		*reorder; /* its early requests (qp/selective.h); not NULL iff rcv.holding */
	struct qp_scoreboard *scoreboard; /* what its peer lacks; NULL: nothing known */
};

#endif
