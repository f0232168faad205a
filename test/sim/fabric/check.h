/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariants of a host, with and without selective repeat. A violation is printed once for a host
 * and sets host.broken.
 */
#ifndef FABRIC_CHECK_H
#define FABRIC_CHECK_H

#include "host.h"

/* A frame has arrived at h: notes the PSN of a request. */
void check_came(struct host *h, const struct rte_mbuf *m);
/*
 * h sends a frame. The requests of a QP that are not acknowledged fit into its window. A SACK is
 * sent only by a QP that has agreed, and names only requests that have arrived (SR-01, SR-02).
 */
void check_sent(struct host *h, const struct rte_mbuf *m);
/* Message n of connection i of h, the requester, is posted: marks each packet of its source. */
void check_post(struct host *h, uint32_t i, uint64_t n);
/*
 * The message has completed: every packet of it is in place, and no packet of an older message of
 * the same buffer has overwritten one.
 */
void check_complete(struct host *h, uint32_t i, uint64_t n);

#endif
