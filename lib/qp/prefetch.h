/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetching what a worker needs of QPs whose turn or packet comes soon. Any worker. */
#ifndef QP_PREFETCH_H
#define QP_PREFETCH_H

#include <stddef.h>
#include <rte_prefetch.h>
#include "qp/qp.h"
#include "qp/table.h"

/*
 * Where there are many QPs, what a worker needs of the next ones must come from far away: it asks
 * for that some time before. First for the QP, then, when it has come, for what it points to. By
 * rte_prefetch0: of __builtin_prefetch GCC (12) thinks that a function which has nothing else need
 * not be called.
 */
#define QP_AHEAD_WQES 4u /* before a turn; and of the WQE that is taken, where QPs wait */

static inline void
qp_prefetch_lines(const struct qp *qp, size_t from, size_t to)
{
	for (size_t off = from; off < to; off += 64)
		rte_prefetch0((const uint8_t *)qp + off);
}

/* What requests need of their QP, and its answer to them, if it has nothing else to do. */
static inline void
qp_prefetch_responder(const struct qp *qp)
{
	qp_prefetch_lines(qp, offsetof(struct qp, conn.qpn), offsetof(struct qp, conn.snd) + 1);
	qp_prefetch_lines(qp, offsetof(struct qp, conn.rcv.write_va), offsetof(struct qp, bind.sq));
	qp_prefetch_lines(qp, offsetof(struct qp, bind.rq), offsetof(struct qp, bind.recv_pd));
}

/* What a turn needs of its QP. */
static inline void
qp_prefetch(const struct qp *qp)
{
	qp_prefetch_lines(qp, offsetof(struct qp, conn.qpn), offsetof(struct qp, conn.snd) + 1);
	qp_prefetch_lines(qp, offsetof(struct qp, conn.rcv.msg_off), offsetof(struct qp, bind.rq));
}

/* The copy of WQE index i, if it has a place. */
static inline void
qp_prefetch_copy(const struct qp *qp, uint32_t i)
{
	if (qp->bind.sqes.chunk[qp_sqes_chunk(&qp->bind.sqes, i)] == NULL)
		return;
	rte_prefetch0(qp_sq_entry(qp, i));
	rte_prefetch0(qp_sq_entry(qp, i) + 1);
}

/* The WQE of index i of an SQ: its first two lines, or its own and the next one's. */
static inline void
qp_prefetch_wqe(const struct qp_ring *sq, uint32_t i)
{
	const uint8_t *slot = sq->slots + (size_t)(i & sq->mask) * sq->stride;

	rte_prefetch0(slot);
	rte_prefetch0(slot + 64);
}

/* WQEs to be taken; and what this writes for the client to see: armed, and later cons. */
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

/* WQEs to be retired. */
static inline void
qp_prefetch_oldest(const struct qp *qp)
{
	rte_prefetch0_write(&qp->bind.sq.hdr->cons);
	qp_prefetch_copy(qp, qp->conn.snd.tail);
}

/* Receive WQEs to be taken. */
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

/* Any worker. The QP of this number will be asked for soon: its slot; and, when that is here, it.
 */
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
