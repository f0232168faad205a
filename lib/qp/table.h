/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs by their number. */
#ifndef QP_TABLE_H
#define QP_TABLE_H

#include <stdint.h>
#include "qp/qp.h"

/*
 * Table of QPs by QPN. The control thread writes, workers read (a slot is a pointer store). The
 * slot is the QPN's low bits; the rest tells a stale QPN from a live one.
 */
struct qp_table {
	struct qp **slot;
	uint32_t mask;
};
int qp_table_init(struct qp_table *t, uint32_t nslots); /* power of two; 0 or -errno */
void qp_table_free(struct qp_table *t);

static inline struct qp *
qp_table_find(const struct qp_table *t, uint32_t qpn)
{
	struct qp *qp = __atomic_load_n(&t->slot[qpn & t->mask], __ATOMIC_ACQUIRE);

	return qp != NULL && qp->qpn == qpn ? qp : NULL;
}

#endif
