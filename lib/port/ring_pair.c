/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>
#include "port/log.h"
#include "port/port.h"

#define MAX_QUEUES RTE_PMD_RING_MAX_RX_RINGS

/* Creates the rings for the frames that port name sends, one per queue. */
static int
make_rings(const char *name, unsigned n, unsigned entries, struct rte_ring **rings)
{
	char ring[RTE_RING_NAMESIZE];
	int rc;

	for (unsigned q = 0; q < n; q++) {
		snprintf(ring, sizeof(ring), "tx%u_%s", q, name);
		rings[q] = rte_ring_create(ring, entries, SOCKET_ID_ANY,
					   RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (rings[q] != NULL)
			continue;
		rc = -rte_errno;
		PORT_LOG(ERR, name, "cannot create a ring of %u entries: %s", entries,
			 rte_strerror(-rc));
		while (q-- > 0)
			rte_ring_free(rings[q]);
		return rc;
	}
	return 0;
}

int
port_ring_pair(const char *a, const char *b, unsigned nqueues, unsigned entries)
{
	struct rte_ring *ab[MAX_QUEUES], *ba[MAX_QUEUES];
	int rc;

	if (nqueues == 0 || nqueues > MAX_QUEUES)
		return -EINVAL;
	rc = make_rings(a, nqueues, entries, ab);
	if (rc != 0)
		return rc;
	rc = make_rings(b, nqueues, entries, ba);
	if (rc != 0)
		goto free_ab;
	if (rte_eth_from_rings(a, ba, nqueues, ab, nqueues, SOCKET_ID_ANY) < 0)
		goto free_both;
	if (rte_eth_from_rings(b, ab, nqueues, ba, nqueues, SOCKET_ID_ANY) < 0) {
		/* The first port keeps its rings: a port can only be removed by EAL's cleanup. */
		return -rte_errno;
	}
	return 0;

free_both:
	rc = rte_errno != 0 ? -rte_errno : -EEXIST;
	for (unsigned q = 0; q < nqueues; q++)
		rte_ring_free(ba[q]);
free_ab:
	for (unsigned q = 0; q < nqueues; q++)
		rte_ring_free(ab[q]);
	return rc;
}
