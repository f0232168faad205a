/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WIRE_CSUM_H
#define WIRE_CSUM_H

#include <stdint.h>
#include <string.h>
#include "wire/hdr.h"

/*
 * One's complement sum, folded to 16 bits, of the 20 bytes of an IPv4 header without options and of
 * more: 16-bit fields added up, in memory order, that are still 0 in the header (0 for none; below
 * 2^31). ~ of it is the checksum of a header whose checksum field is 0. Byte order does not matter
 * to the sum (RFC 1071).
 */
static inline uint16_t
wire_ipv4_sum_with(const void *ip, uint32_t more)
{
	uint32_t w[WIRE_IPV4_LEN / 4];
	uint64_t sum;

	memcpy(w, ip, sizeof(w));
	sum = (uint64_t)w[0] + w[1] + w[2] + w[3] + w[4] + more;
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* The same of a header that is complete: 0xffff where its checksum is right. */
static inline uint16_t
wire_ipv4_sum(const void *ip)
{
	return wire_ipv4_sum_with(ip, 0);
}

#endif
