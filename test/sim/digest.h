/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A digest of a schedule: its events, the frames that engines built and the completions that
 * clients took, in order. Two builds that print the same digest for a seed ran the same schedule.
 * The digest changes if engines build other frames, or if random numbers are drawn in another
 * order.
 */
#ifndef SIM_DIGEST_H
#define SIM_DIGEST_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include <uroce_abi/cqe.h>
#include "heap.h"

struct sim_digest {
	bool on; /* off: nothing is computed */
	uint64_t value;
};

#define SIM_DIGEST_START 0xcbf29ce484222325u

static inline void
sim_digest_bytes(struct sim_digest *d, const void *data, uint32_t len)
{
	const uint8_t *p = data;

	for (uint32_t i = 0; d->on && i < len; i++)
		d->value = (d->value ^ p[i]) * 0x100000001b3u;
}

static inline void
sim_digest_event(struct sim_digest *d, const struct sim_event *ev)
{
	sim_digest_bytes(d, ev, sizeof(*ev));
}

/* Adds all segments of m. */
static inline void
sim_digest_frame(struct sim_digest *d, const struct rte_mbuf *m)
{
	for (; d->on && m != NULL; m = m->next)
		sim_digest_bytes(d, rte_pktmbuf_mtod(m, const void *), m->data_len);
}

/* Without the reason of an error: a build that names another one has run the same schedule. */
static inline void
sim_digest_cqe(struct sim_digest *d, const struct uroce_cqe *cqe)
{
	struct uroce_cqe plain = *cqe;

	plain.vendor_err = 0;
	sim_digest_bytes(d, &plain, sizeof(plain));
}

#endif
