/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetches data of QPs whose turn or packet comes soon. Any worker. */
#ifndef QP_PREFETCH_H
#define QP_PREFETCH_H

#include <stddef.h>
#include <rte_prefetch.h>
#include "qp/qp.h"
#include "qp/table.h"

/*
 * With many QPs, the data of the next QP is not in the cache. The worker prefetches it in two
 * steps: first the QP, and later, when that has arrived, the data that it points to. Uses
 * rte_prefetch0, because GCC (12) drops calls of functions that contain nothing but
 * __builtin_prefetch.
 */
#define QP_AHEAD_WQES 4u /* before a turn; also ahead of the WQE taken if QPs wait */

static inline void
qp_prefetch_lines(const struct qp *qp, size_t from, size_t to)
{
	for (size_t off = from; off < to; off += 64)
		rte_prefetch0((const uint8_t *)qp + off);
}

/* Data to receive requests and respond, if the QP has nothing else to do. */
static inline void
qp_prefetch_responder(const struct qp *qp)
{
	qp_prefetch_lines(qp, offsetof(struct qp, conn.qpn), offsetof(struct qp, conn.snd) + 1);
	qp_prefetch_lines(qp, offsetof(struct qp, conn.rcv.write_va), offsetof(struct qp, bind.sq));
	qp_prefetch_lines(qp, offsetof(struct qp, bind.rq), offsetof(struct qp, bind.recv_pd));
}

/* Data for a turn. */
static inline void
qp_prefetch(const struct qp *qp)
{
	qp_prefetch_lines(qp, offsetof(struct qp, conn.qpn), offsetof(struct qp, conn.snd) + 1);
	qp_prefetch_lines(qp, offsetof(struct qp, conn.rcv.msg_off), offsetof(struct qp, bind.rq));
}

/* Copy of WQE index i, if it has memory. */
static inline void
qp_prefetch_copy(const struct qp *qp, uint32_t i)
{
	if (qp->bind.sqes.chunk[qp_sqes_chunk(&qp->bind.sqes, i)] == NULL)
		return;
	rte_prefetch0(qp_sq_entry(qp, i));
	rte_prefetch0(qp_sq_entry(qp, i) + 1);
}

/* WQE index i of an SQ: its first two lines, or its line and the next WQE's. */
static inline void
qp_prefetch_wqe(const struct qp_ring *sq, uint32_t i)
{
	const uint8_t *slot = sq->slots + (size_t)(i & sq->mask) * sq->stride;

	rte_prefetch0(slot);
	rte_prefetch0(slot + 64);
}

/* WQEs to take, and the fields written for the client: armed, and later cons. */
static inline void
qp_prefetch_sq(const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;

	rte_prefetch0_write(&qp->bind.sq.hdr->armed);
	rte_prefetch0_write(&qp->bind.sq.hdr->cons);
	for (uint32_t i = snd->head; i != snd->head + QP_AHEAD_WQES; i++)
		qp_prefetch_wqe(&qp->bind.sq, i);
	qp_prefetch_copy(qp, snd->head);
}

/* WQEs to retire. */
static inline void
qp_prefetch_oldest(const struct qp *qp)
{
	rte_prefetch0_write(&qp->bind.sq.hdr->cons);
	qp_prefetch_copy(qp, qp->conn.snd.tail);
}

/* Receive WQEs to take. */
static inline void
qp_prefetch_rq(const struct qp *qp)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;

	if (qp->bind.srq != NULL)
		return;
	rte_prefetch0(&qp->bind.rq.hdr->prod);
	rte_prefetch0(&qp->bind.rq.hdr->cons);
	rte_prefetch0(qp->bind.rq.slots +
		      (size_t)(rcv->head & qp->bind.rq.mask) * qp->bind.rq.stride);
}

/* Any worker. Prefetch the slot of a QP that is needed soon; when that has arrived, the QP. */
static inline void
qp_table_prefetch(const struct qp_table *t, uint32_t qpn)
{
	rte_prefetch0(&t->slot[qpn & t->mask]);
}
static inline void
qp_table_prefetch_qp(const struct qp_table *t, uint32_t qpn, bool answers)
{
	const struct qp *qp = __atomic_load_n(&t->slot[qpn & t->mask], __ATOMIC_RELAXED);

	if (qp != NULL && answers)
		qp_prefetch_responder(qp);
	else if (qp != NULL)
		qp_prefetch(qp);
}
#endif
