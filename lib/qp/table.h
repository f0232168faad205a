/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs by their number. */
#ifndef QP_TABLE_H
#define QP_TABLE_H

#include <stdint.h>
#include "qp/qp.h"

/*
 * Table of QPs by QPN. The control thread writes, workers read (a slot is a pointer store). The
 * slot is the QPN's low bits; the other bits detect stale QPNs. A slot without a QP also has an
 * owner: its last one, initially worker 0.
 */
struct qp_table {
	struct qp **slot;
	uint8_t *owner; /* by slot: index of the worker, or QP_TABLE_COMES; atomic */
	uint32_t mask;
};
/*
 * Control thread, before any worker uses t. nslots: a power of two, at most 2^23. Returns 0,
 * -EINVAL or -ENOMEM; on error there is nothing to free.
 */
int qp_table_init(struct qp_table *t, uint32_t nslots);
/* Control thread, after all workers have ended. The caller frees the QPs. */
void qp_table_free(struct qp_table *t);

/* Any thread. The QP with this QPN, or NULL. */
static inline struct qp *
qp_table_find(const struct qp_table *t, uint32_t qpn)
{
	struct qp *qp = __atomic_load_n(&t->slot[qpn & t->mask], __ATOMIC_ACQUIRE);

	return qp != NULL && qp->conn.qpn == qpn ? qp : NULL;
}

/*
 * Owner of a QP that moves, in addition to the worker's index: that worker does not have the QP
 * yet. It keeps packets for the QP until then; other workers pass them to it.
 */
#define QP_TABLE_COMES 0x80u

/*
 * Any thread. The worker that handles qpn's packets, even if there is no such QP. Not an index if
 * the QP is on its way there: qp_table_owner(t, qpn) & ~QP_TABLE_COMES is.
 */
static inline uint32_t
qp_table_owner(const struct qp_table *t, uint32_t qpn)
{
	return __atomic_load_n(&t->owner[qpn & t->mask], __ATOMIC_RELAXED);
}

/*
 * Set the owner of qpn. Control thread, if its slot is empty; otherwise the worker that has the QP
 * and gives it away, and the worker that has got it.
 */
static inline void
qp_table_own(const struct qp_table *t, uint32_t qpn, uint32_t worker)
{
	__atomic_store_n(&t->owner[qpn & t->mask], (uint8_t)worker, __ATOMIC_RELAXED);
}

#endif
