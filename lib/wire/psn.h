/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PSN arithmetic, modulo 2^24 (WIRE-06). Every comparison of PSNs in the tree goes through here.
 */
#ifndef WIRE_PSN_H
#define WIRE_PSN_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/hdr.h"

/* psn + n packets, modulo 2^24. n: below 2^24, or negative in two's complement. */
static inline uint32_t
psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & WIRE_PSN_MASK;
}

/* Signed distance a - b in packets, -2^23 .. 2^23 - 1. */
static inline int32_t
psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* Distance from b forwards to a in packets, 0 .. 2^24 - 1. */
static inline uint32_t
psn_ahead(uint32_t a, uint32_t b)
{
	return (a - b) & WIRE_PSN_MASK;
}

/* Is a before b? */
static inline bool
psn_lt(uint32_t a, uint32_t b)
{
	return psn_diff(a, b) < 0;
}

/* Is a before b, or equal to it? */
static inline bool
psn_le(uint32_t a, uint32_t b)
{
	return psn_diff(a, b) <= 0;
}

#endif
