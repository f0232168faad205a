/* SPDX-License-Identifier: BSD-3-Clause */
/* The credit of a uid: how long workers may wait for its copies. Private to lib/map. */
#ifndef UROCE_MAP_COPIER_CREDIT_H
#define UROCE_MAP_COPIER_CREDIT_H

#include "map/copier.h"

/* Any worker. The credit at now (CLOCK_MONOTONIC), after a refill if one is due. May be below 0. */
int64_t credit_left(struct copier_credit *c, uint64_t now);
/* How long a worker may wait for a job of len bytes that has begun. left: from credit_left, > 0. */
int64_t credit_wait_ns(int64_t left, uint32_t len);
/* Any worker. Charges what a wait of waited_ns took longer than a usual copy of len bytes. */
void credit_charge(struct copier_credit *c, int64_t waited_ns, uint32_t len);

#endif
