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

/*
 * CRC states as polynomials over GF(2) modulo that of CRC-32. As in the state, bit 31 is x^0. A
 * byte more, if it is zero, multiplies a state by x^8.
 */

#define CRC32_POLY  0xedb88320u
#define LENGTH_BITS 16
#define WORD_BYTES  4
#define DF_IN_MEMORY                                                                               \
	0x0040u /* WIRE_IPV4_DF as the upper half of the word has it, little endian                \
		 */

/* x^(8 * 2^k), and the inverse of that: bytes forward and back. */
static const uint32_t forward[LENGTH_BITS] = {
	0x00800000, 0x00008000, 0xedb88320, 0xb1e6b092, 0xa06a2517, 0xed627dae,
	0x88d14467, 0xd7bbfe6a, 0xec447f11, 0x8e7ea170, 0x6427800e, 0x4d47bae0,
	0x09fe548f, 0x83852d0f, 0x30362f1a, 0x7b5a9cc3,
};
static const uint32_t back[LENGTH_BITS] = {
	0x6567cb95, 0xd7125358, 0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d,
	0x5139de12, 0xba340226, 0x29c45641, 0x12fbc105, 0xecd30c55, 0x3755ebd8,
	0x24ee460c, 0x23783fcf, 0x479933fc, 0xa39442a5,
};

/* a * b */
static uint32_t
multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a != 0; a <<= 1) {
		product ^= b & -(a >> 31);
		b = (b >> 1) ^ (CRC32_POLY & -(b & 1));
	}
	return product;
}

/* a, times step[0] to the power of n */
static uint32_t
shift(uint32_t a, uint32_t n, const uint32_t step[LENGTH_BITS])
{
	for (uint32_t k = 0; n != 0 && k < LENGTH_BITS; k++, n >>= 1) {
		if (n & 1)
			a = multiply(step[k], a);
	}
	return a;
}

uint32_t
wire_icrc_id_factor(uint32_t after)
{
	return shift(1u << 31, after + WORD_BYTES, forward);
}

uint32_t
wire_icrc_id_change(uint32_t factor, uint16_t delta)
{
	uint32_t word = (uint32_t)delta >> 8 | (uint32_t)(delta & 0xff) << 8;

	return rte_cpu_to_le_32(multiply(word, factor));
}

bool
wire_icrc_check_any_id(const struct wire_pkt *pkt)
{
	const uint8_t *end = pkt->payload + pkt->payload_len + pkt->pad_len;
	uint32_t after = (uint32_t)(end - pkt->ip) - WIRE_ICRC_ID_END, stored, word;

	memcpy(&stored, end, sizeof(stored));
	word = rte_le_to_cpu_32(stored ^ wire_icrc_frame(pkt->ip, pkt->is_v6, end));
	word = shift(word, after + WORD_BYTES, back);
	return !pkt->is_v6 && ((word >> 16) & ~DF_IN_MEMORY) == 0;
}
