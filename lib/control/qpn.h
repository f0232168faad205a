/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocation of QPNs. The low bits are the slot in the QP table. The bits above change each time a
 * slot is used, from an unpredictable start, so that a packet for a destroyed QP does not reach the
 * next QP of its slot. Control thread only.
 */
#ifndef CONTROL_QPN_H
#define CONTROL_QPN_H

#include <stdbool.h>
#include <stdint.h>
#include "qp/table.h"

struct qpn_alloc {
	struct qp_table *table; /* a slot is free while it holds NULL */
	uint32_t nworkers;      /* each owns every nworkers-th slot */
	uint32_t slot_bits;
	uint16_t *gen; /* by slot: value for its next QPN */
	bool *held;    /* by slot: in use by a QP that has left the table */
	uint32_t cursor[UROCE_MAX_WORKERS];
};

/*
 * Initialises the allocator. nworkers: 1 .. UROCE_MAX_WORKERS, fewer than the table's slots.
 * Returns 0, -EINVAL or -ENOMEM.
 */
int qpn_init(struct qpn_alloc *a, struct qp_table *table, uint32_t nworkers);
void qpn_free(struct qpn_alloc *a);
/*
 * Allocates a QPN of a free slot that worker owns: never 0, 1 (reserved for management) or 0xffffff
 * (multicast). The caller stores its QP in the slot before the next call. Returns 0 or -ENOSPC.
 */
int qpn_take(struct qpn_alloc *a, uint32_t worker, uint32_t *qpn);
/*
 * Reserves the slot of qpn until qpn_release, when its QP is about to leave the table. The worker
 * still has the QP, and resources for one QP per slot.
 */
void qpn_hold(struct qpn_alloc *a, uint32_t qpn);
void qpn_release(struct qpn_alloc *a, uint32_t qpn);

#endif
