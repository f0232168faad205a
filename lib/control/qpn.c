/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/qpn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define QPN_BITS 24

int
qpn_init(struct qpn_alloc *a, struct qp_table *table, uint32_t nworkers)
{
	uint32_t nslots = table->mask + 1;
	size_t bytes = nslots * sizeof(*a->gen);

	if (nworkers == 0 || nworkers > UROCE_MAX_WORKERS || nslots <= nworkers)
		return -EINVAL;
	a->table = table;
	a->nworkers = nworkers;
	a->slot_bits = (uint32_t)__builtin_ctz(nslots);
	a->gen = malloc(bytes);
	a->held = calloc(nslots, sizeof(*a->held));
	if (a->gen == NULL || a->held == NULL) {
		qpn_free(a);
		return -ENOMEM;
	}
	for (size_t done = 0; done < bytes;) {
		ssize_t n = getrandom((char *)a->gen + done, bytes - done, 0);

		if (n > 0)
			done += (size_t)n;
	}
	for (uint32_t w = 0; w < nworkers; w++)
		a->cursor[w] = w;
	return 0;
}

void
qpn_free(struct qpn_alloc *a)
{
	free(a->gen);
	free(a->held);
	a->gen = NULL;
	a->held = NULL;
}

static uint32_t
qpn_make(struct qpn_alloc *a, uint32_t slot)
{
	uint32_t qpn;

	do {
		uint32_t gen = a->gen[slot]++ & ((1u << (QPN_BITS - a->slot_bits)) - 1);

		qpn = gen << a->slot_bits | slot;
	} while (qpn <= 1 || qpn == 0xffffff);
	return qpn;
}

int
qpn_take(struct qpn_alloc *a, uint32_t worker, uint32_t *qpn)
{
	uint32_t nslots = a->table->mask + 1;
	uint32_t slot = a->cursor[worker];

	for (uint32_t i = worker; i < nslots; i += a->nworkers) {
		uint32_t here = slot;

		slot += a->nworkers;
		if (slot >= nslots)
			slot = worker;
		if (a->table->slot[here] != NULL || a->held[here])
			continue;
		a->cursor[worker] = slot;
		*qpn = qpn_make(a, here);
		qp_table_own(a->table, *qpn, (uint8_t)worker);
		return 0;
	}
	return -ENOSPC;
}

void
qpn_hold(struct qpn_alloc *a, uint32_t qpn)
{
	a->held[qpn & a->table->mask] = true;
}

void
qpn_release(struct qpn_alloc *a, uint32_t qpn)
{
	a->held[qpn & a->table->mask] = false;
}
