/* SPDX-License-Identifier: BSD-3-Clause */
/* Modification of frames by faults. Private to drivers/impair. */
#ifndef IMPAIR_FRAME_H
#define IMPAIR_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include "wire/parse.h"

/* Next number of a random sequence (splitmix64); any state is valid. */
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
 * Make the frame linear and exclusive: returns m or a copy of it. Returns NULL, with m unchanged,
 * if out of buffers.
 */
struct rte_mbuf *impair_frame_own(struct rte_mbuf *m);

/* The next three modify frames from impair_frame_own. pkt: the result of wire_parse. */

/*
 * Flip bits (1 .. IMPAIR_MAX_BITS) different bits between the IP header and the end of the ICRC,
 * excluding those that routers may change. Receivers always detect up to three.
 */
void impair_frame_corrupt(const struct wire_pkt *pkt, uint32_t bits, uint64_t *rng);
/* Flip bits different bits between the BTH and the ICRC, and recompute the ICRC. */
void impair_frame_corrupt_fixed(const struct wire_pkt *pkt, uint32_t bits, uint64_t *rng);
/* Set the CE mark, even if the sender does not support ECN, and update IPv4's checksum. */
void impair_frame_mark_ce(const struct wire_pkt *pkt);

/*
 * Sets the CE mark in a frame from impair_frame_own that holds an IPv4 or IPv6 packet, of any
 * protocol, whose sender supports ECN, and updates IPv4's checksum. Returns false, with the frame
 * unchanged, for other frames.
 */
bool impair_frame_mark_ect(struct rte_mbuf *m);

#endif
