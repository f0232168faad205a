/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC of RoCEv2 (WIRE-03, annex A17): CRC-32 (0xEDB88320 reflected) over eight bytes
 * of ones, the IP header, UDP header and BTH with their changeable fields masked to ones, the other
 * headers, payload and pad. Stored little endian. ISA-L does the arithmetic.
 */
#ifndef WIRE_ICRC_H
#define WIRE_ICRC_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/parse.h"

/*
 * What the CRC of a frame begins with: IP, UDP and the first 8 bytes of the BTH. They are the same
 * in all packets of a flow that have the same opcode and length, and so is the CRC state behind
 * them: a memo keeps it for some of those seen last. A cache of a pure function: which frames it
 * has seen makes no difference to what anybody gets. One thread at a time; all zero at first.
 */
#define WIRE_ICRC_HEAD4 (WIRE_IPV4_LEN + WIRE_UDP_LEN + 8)
#define WIRE_ICRC_HEAD6 (WIRE_IPV6_LEN + WIRE_UDP_LEN + 8)
#define WIRE_ICRC_MEMO  64 /* a power of two */

struct wire_icrc_memo {
	struct wire_icrc_entry {
		uint8_t head[WIRE_ICRC_HEAD6]; /* as it stood in the frame */
		uint32_t head_len;             /* WIRE_ICRC_HEAD4 or 6; 0: nothing is kept */
		uint32_t state;
	} entry[WIRE_ICRC_MEMO];
};

/*
 * ICRC, as it is to be stored, of the contiguous frame whose IP header (without options) is at ip
 * and whose last byte of pad is before end. memo: NULL, or what makes it faster.
 */
uint32_t wire_icrc_frame(const uint8_t *ip, bool is_v6, const uint8_t *end,
			 struct wire_icrc_memo *memo);

/*
 * The same in pieces: CRC state over the masked IP, UDP and BTH headers that start at ip
 * (contiguous, no IP options). Continue with wire_icrc_update over what follows the BTH, end with
 * wire_icrc_final.
 */
uint32_t wire_icrc_start(const uint8_t *ip, bool is_v6);
/* The same state before the BTH's last WIRE_BTH_PSN_LEN bytes: WIRE_ICRC_HEAD4 or 6 bytes. */
uint32_t wire_icrc_head(const uint8_t *ip, bool is_v6);
uint32_t wire_icrc_update(uint32_t state, const void *buf, uint32_t len);
/* The value to store, ready for memcpy into the frame (little endian in memory). */
uint32_t wire_icrc_final(uint32_t state);

/*
 * True when the ICRC behind a parsed packet's pad is right. pkt as wire_parse left it with WIRE_OK,
 * WIRE_BAD_OPCODE, WIRE_BAD_PAD or WIRE_BAD_LENGTH. memo as above.
 */
bool wire_icrc_check_with(const struct wire_pkt *pkt, struct wire_icrc_memo *memo);
static inline bool
wire_icrc_check(const struct wire_pkt *pkt)
{
	return wire_icrc_check_with(pkt, NULL);
}

#endif
