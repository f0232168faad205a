/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-loss: the goodput of one RC connection over a wire that loses frames. Two engines, a
 * virtual clock and a seeded wire, so a table is the same each time. The wire carries 90 Gb/s and
 * loses a share of the frames of either direction; each node's worker iterates once a microsecond.
 *
 *   link.c     the wire
 *   goodput.c  the clients and the clock of two engines (test/kit/engine_pair.h)
 *   main.c     runs, the table, the goals (B.19's: against a peer that does plain go-back-N)
 */
#ifndef LOSS_LINK_H
#define LOSS_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include "../prng.h"

#define LINK_FRAMES      8192 /* in flight at most; also the size of a receive queue */
#define LINK_BYTE_PS     90   /* 89 Gb/s */
#define LINK_FRAME_BYTES 4170 /* approximate size of the longest frame */

struct rte_mbuf;

struct link {
	struct rte_mbuf *frame[LINK_FRAMES];
	uint64_t at_ns[LINK_FRAMES];
	uint32_t head, tail; /* free running */
	uint32_t delay_ns;   /* one way */
	uint32_t queue;      /* frames that fit before the first is sent; 1 .. LINK_FRAMES */
	uint64_t free_ns;    /* time at which the last byte is sent */
	uint32_t loss_ppm;
	uint32_t late; /* one frame in 2 * late is overtaken by up to late others; 0: none */
	struct sim_rng rng;
	uint64_t sent, lost;
};

/* Accepts as many of n frames as the port has space for, and consumes them. */
uint32_t link_send(struct link *l, uint64_t now_ns, struct rte_mbuf **m, uint32_t n);
/* Receives at most n frames that have arrived by now_ns. */
uint32_t link_recv(struct link *l, uint64_t now_ns, struct rte_mbuf **m, uint32_t n);
/* Arrival of the next frame; UINT64_MAX if none is in flight. */
uint64_t link_next(const struct link *l);
void link_drain(struct link *l);

#endif
