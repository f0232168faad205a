/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <isa-l/crc.h>
#include "wire/icrc.h"
#include "wire/hdr.h"

/*
 * A state is a CRC as crc32_gzip_refl takes and returns it: inverted on the way in and on the way
 * out, so that it chains, and the last state is the ICRC. The eight bytes of ones in place of the
 * LRH leave the register at 0xdebb20e3.
 */
#define STATE_AFTER_ONES (~0xdebb20e3u)

#define COVER4           (WIRE_IPV4_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN)
#define COVER6           (WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN)

/* Ones over each bit that a router or a NIC on the way may change (annex A17.3.3). */
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

/* CRC state over n bytes of headers at ip with the mask's bits set. */
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

uint32_t
wire_icrc_head(const uint8_t *ip, bool is_v6)
{
	return is_v6 ? cover(ip, mask6, WIRE_ICRC_HEAD6) : cover(ip, mask4, WIRE_ICRC_HEAD4);
}

uint32_t
wire_icrc_final(uint32_t state)
{
	return rte_cpu_to_le_32(state);
}

/* n bytes, a multiple of 4 and constant. */
static inline bool
heads_equal(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	uint64_t x, y, differ = 0;
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		memcpy(&x, a + i, 8);
		memcpy(&y, b + i, 8);
		differ |= x ^ y;
	}
	if (i < n) {
		memcpy(&x, a + n - 8, 8);
		memcpy(&y, b + n - 8, 8);
		differ |= x ^ y;
	}
	return differ == 0;
}

/* Opcode and QPN, and the length: what tells the heads of a worker's flows from each other. */
static inline uint32_t
memo_place(const uint8_t *head, uint32_t n, bool is_v6)
{
	uint64_t bth;
	uint16_t len;

	memcpy(&bth, head + n - 8, 8);
	memcpy(&len, head + (is_v6 ? 4 : 2), 2);
	return (uint32_t)(((bth ^ (uint64_t)len << 16) * 0x9e3779b97f4a7c15ull) >> 32) &
	       (WIRE_ICRC_MEMO - 1);
}

static inline uint32_t
head_state(const uint8_t *ip, bool is_v6, uint32_t n, struct wire_icrc_memo *memo)
{
	const uint8_t *mask = is_v6 ? mask6 : mask4;
	struct wire_icrc_entry *e;

	if (memo == NULL)
		return cover(ip, mask, n);
	e = &memo->entry[memo_place(ip, n, is_v6)];
	if (e->head_len == n && heads_equal(e->head, ip, n))
		return e->state;
	e->head_len = n;
	memcpy(e->head, ip, n);
	e->state = cover(ip, mask, n);
	return e->state;
}

uint32_t
wire_icrc_frame(const uint8_t *ip, bool is_v6, const uint8_t *end, struct wire_icrc_memo *memo)
{
	const uint8_t *rest = ip + (is_v6 ? WIRE_ICRC_HEAD6 : WIRE_ICRC_HEAD4);
	uint32_t state = is_v6 ? head_state(ip, true, WIRE_ICRC_HEAD6, memo)
			       : head_state(ip, false, WIRE_ICRC_HEAD4, memo);

	return wire_icrc_final(crc32_gzip_refl(state, rest, (uint64_t)(end - rest)));
}

bool
wire_icrc_check_with(const struct wire_pkt *pkt, struct wire_icrc_memo *memo)
{
	const uint8_t *end = pkt->payload + pkt->payload_len + pkt->pad_len;
	uint32_t stored;

	memcpy(&stored, end, sizeof(stored));
	return stored == wire_icrc_frame(pkt->ip, pkt->is_v6, end, memo);
}
