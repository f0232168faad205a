/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC states as polynomials over GF(2) modulo that of CRC-32. As in the state, bit 31 is x^0. A
 * byte more, if it is zero, multiplies a state by x^8.
 */
#include "wire/icrc_id.h"
#include <string.h>
#include "wire/icrc.h"

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
