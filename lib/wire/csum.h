/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WIRE_CSUM_H
#define WIRE_CSUM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "wire/hdr.h"

/*
 * One's complement sum, folded to 16 bits, of the 20 bytes of an IPv4 header without options:
 * 0xffff where its checksum is right; ~ of it is the checksum where that field is 0. Byte order
 * does not matter to the sum (RFC 1071).
 */
static inline uint16_t
wire_ipv4_sum(const void *ip)
{
	uint32_t w[WIRE_IPV4_LEN / 4];
	uint64_t sum;

	memcpy(w, ip, sizeof(w));
	sum = (uint64_t)w[0] + w[1] + w[2] + w[3] + w[4];
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* Is the checksum in an IPv4 header right? The same as wire_ipv4_sum(ip) == 0xffff, but shorter. */
static inline bool
wire_ipv4_sum_ok(const void *ip)
{
	uint64_t a, b;
	uint32_t c;

	memcpy(&a, ip, 8);
	memcpy(&b, (const uint8_t *)ip + 8, 8);
	memcpy(&c, (const uint8_t *)ip + 16, 4);
	/* 2^16, 2^32 .. are all 1 modulo 0xffff; a header is not all zero. */
	return ((a & 0xffffffff) + (a >> 32) + (b & 0xffffffff) + (b >> 32) + c) % 0xffff == 0;
}

/* The sum with two more 16-bit fields in it, that were 0 before. */
static inline uint16_t
wire_sum_add(uint16_t sum, rte_be16_t a, rte_be16_t b)
{
	uint32_t s = (uint32_t)sum + a + b;

	s = (s & 0xffff) + (s >> 16);
	return (uint16_t)(s + (s >> 16));
}

#endif
