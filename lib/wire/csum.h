/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WIRE_CSUM_H
#define WIRE_CSUM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "wire/hdr.h"

/*
 * One's complement sum, folded to 16 bits, of the 20 bytes of an IPv4 header without options. The
 * result is 0xffff if the checksum is right. If the checksum field is 0, the complement of the
 * result is the checksum. Independent of byte order (RFC 1071).
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

/* Is the checksum of an IPv4 header right? Equals wire_ipv4_sum(ip) == 0xffff, but is faster. */
static inline bool
wire_ipv4_sum_ok(const void *ip)
{
	uint64_t a, b;
	uint32_t c;

	memcpy(&a, ip, 8);
	memcpy(&b, (const uint8_t *)ip + 8, 8);
	memcpy(&c, (const uint8_t *)ip + 16, 4);
	/* 2^16, 2^32 .. are 1 modulo 0xffff; a header is never all zero. */
	return ((a & 0xffffffff) + (a >> 32) + (b & 0xffffffff) + (b >> 32) + c) % 0xffff == 0;
}

/* Add two 16-bit fields, which were 0 before, to a sum. */
static inline uint16_t
wire_sum_add(uint16_t sum, rte_be16_t a, rte_be16_t b)
{
	uint32_t s = (uint32_t)sum + a + b;

	s = (s & 0xffff) + (s >> 16);
	return (uint16_t)(s + (s >> 16));
}

#endif
