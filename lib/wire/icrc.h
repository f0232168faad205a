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
#include <string.h>
#include "wire/parse.h"

/*
 * ICRC, as it is to be stored, of the contiguous frame whose IP header (without options) is at ip
 * and whose last byte of pad is before end.
 */
uint32_t wire_icrc_frame(const uint8_t *ip, bool is_v6, const uint8_t *end);

/*
 * The same in pieces: CRC state over the masked IP, UDP and BTH headers that start at ip
 * (contiguous, no IP options). Continue with wire_icrc_update over what follows the BTH, end with
 * wire_icrc_final.
 */
uint32_t wire_icrc_start(const uint8_t *ip, bool is_v6);
/* The same over the head alone, WIRE_HEAD4 or 6 bytes: continue with WIRE_BTH_PSN_LEN bytes. */
uint32_t wire_icrc_head(const uint8_t *ip, bool is_v6);
uint32_t wire_icrc_update(uint32_t state, const void *buf, uint32_t len);
/* The value to store, ready for memcpy into the frame (little endian in memory). */
uint32_t wire_icrc_final(uint32_t state);

/*
 * True when the ICRC behind a parsed packet's pad is right. pkt as wire_parse or wire_parse_with
 * left it with WIRE_OK, WIRE_BAD_OPCODE, WIRE_BAD_PAD or WIRE_BAD_LENGTH. Where icrc_head is known,
 * the head in the frame must still be what it was then.
 */
static inline bool
wire_icrc_check(const struct wire_pkt *pkt)
{
	const uint8_t *rest = pkt->bth + WIRE_BTH_LEN - WIRE_BTH_PSN_LEN;
	const uint8_t *end = pkt->payload + pkt->payload_len + pkt->pad_len;
	uint32_t state = pkt->icrc_head, stored;

	if (state == 0)
		state = wire_icrc_head(pkt->ip, pkt->is_v6);
	memcpy(&stored, end, sizeof(stored));
	state = wire_icrc_update(state, rest, (uint32_t)(end - rest));
	return stored == wire_icrc_final(state);
}

#endif
