/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <isa-l/crc.h>
#include "wire/icrc.h"
#include "wire/hdr.h"

/*
 * A state is a CRC as crc32_gzip_refl takes and returns it: inverted on input and on output, so
 * that calls chain and the last state is the ICRC. The eight bytes of ones that replace the LRH
 * leave the register at 0xdebb20e3.
 */
#define STATE_AFTER_ONES (~0xdebb20e3u)

#define COVER4           (WIRE_IPV4_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN)
#define COVER6           (WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN)

/* Ones over each bit that a router or NIC on the path may change (annex A17.3.3). */
static const uint8_t mask4[COVER4] = {
	[1] = 0xff, /* TOS */
	[8] = 0xff, /* TTL */
	[10] = 0xff,
	[11] = 0xff,                /* header checksum */
	[WIRE_IPV4_LEN + 6] = 0xff, /* UDP checksum */
	[WIRE_IPV4_LEN + 7] = 0xff,
	[WIRE_IPV4_LEN + WIRE_UDP_LEN + 4] = 0xff, /* FECN, BECN, reserved */
};
static const uint8_t mask6[COVER6] = {
	[0] = 0x0f,
	[1] = 0xff,
	[2] = 0xff,
	[3] = 0xff, /* traffic class, flow label */
	[7] = 0xff, /* hop limit */
	[WIRE_IPV6_LEN + 6] = 0xff,
	[WIRE_IPV6_LEN + 7] = 0xff,
	[WIRE_IPV6_LEN + WIRE_UDP_LEN + 4] = 0xff,
};

uint32_t
wire_icrc_update(uint32_t state, const void *buf, uint32_t len)
{
	return crc32_gzip_refl(state, buf, len);
}

/* CRC state over n bytes of headers at ip, with the bits of mask set to 1. */
static inline uint32_t
cover(const uint8_t *ip, const uint8_t *mask, uint32_t n)
{
	uint8_t buf[COVER6];
	uint32_t i;

	for (i = 0; i < n; i++)
		buf[i] = ip[i] | mask[i];
	return crc32_gzip_refl(STATE_AFTER_ONES, buf, n);
}

uint32_t
wire_icrc_start(const uint8_t *ip, bool is_v6)
{
	return is_v6 ? cover(ip, mask6, COVER6) : cover(ip, mask4, COVER4);
}

__rte_noinline uint32_t
wire_icrc_head(const uint8_t *ip, bool is_v6)
{
	return is_v6 ? cover(ip, mask6, WIRE_HEAD6) : cover(ip, mask4, WIRE_HEAD4);
}

uint32_t
wire_icrc_final(uint32_t state)
{
	return rte_cpu_to_le_32(state);
}

uint32_t
wire_icrc_frame(const uint8_t *ip, bool is_v6, const uint8_t *end)
{
	const uint8_t *rest = ip + (is_v6 ? WIRE_HEAD6 : WIRE_HEAD4);

	return wire_icrc_final(
		crc32_gzip_refl(wire_icrc_head(ip, is_v6), rest, (uint64_t)(end - rest)));
}
