/* SPDX-License-Identifier: BSD-3-Clause */
/* What faults do to a frame's bytes. Private to drivers/impair. */
#ifndef IMPAIR_FRAME_H
#define IMPAIR_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include "wire/parse.h"

/* The next of a random sequence (splitmix64); any state is a good one. */
static inline uint64_t
impair_random(uint64_t *rng)
{
	uint64_t z = *rng += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* A random number below n > 0. */
static inline uint64_t
impair_random_below(uint64_t *rng, uint64_t n)
{
	return (uint64_t)((unsigned __int128)impair_random(rng) * n >> 64);
}

/*
 * The same frame in one piece that nobody else reads: m itself, or a copy in its place. NULL: no
 * buffer for that; m is then as it was.
 */
struct rte_mbuf *impair_frame_own(struct rte_mbuf *m);

/* The next three change frames that are their own (impair_frame_own); pkt: as wire_parse left it.
 */

/*
 * Flip bits (1 .. IMPAIR_MAX_BITS) different bits between the IP header and the end of the ICRC,
 * none of which a router might change: up to three are always found by who checks the frame.
 */
void impair_frame_corrupt(const struct wire_pkt *pkt, uint32_t bits, uint64_t *rng);
/* Flip bits different bits between the BTH and the ICRC, and set the ICRC right. */
void impair_frame_corrupt_fixed(const struct wire_pkt *pkt, uint32_t bits, uint64_t *rng);
/* Mark congestion, whether or not the sender said that it listens, and set IPv4's checksum right.
 */
void impair_frame_mark_ce(const struct wire_pkt *pkt);

#endif
