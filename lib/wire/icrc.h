/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC of RoCEv2 (WIRE-03, annex A17): CRC-32 (0xEDB88320 reflected) over eight bytes
 * of ones, the IP header, UDP header and BTH with their variant fields masked to ones, the other
 * headers, payload and pad. Stored little endian. Computed by ISA-L.
 */
#ifndef WIRE_ICRC_H
#define WIRE_ICRC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "wire/parse.h"

/*
 * Returns the ICRC to store for a contiguous frame. ip: its IP header, without options; end: one
 * past its last pad byte.
 */
uint32_t wire_icrc_frame(const uint8_t *ip, bool is_v6, const uint8_t *end);

/*
 * The same in steps: returns the CRC state over the masked IP, UDP and BTH headers at ip
 * (contiguous, no IP options). Continue with wire_icrc_update over the bytes after the BTH and end
 * with wire_icrc_final.
 */
uint32_t wire_icrc_start(const uint8_t *ip, bool is_v6);
/* The same over the header prefix, WIRE_HEAD4 or 6 bytes; continue with the PSN's bytes. */
uint32_t wire_icrc_head(const uint8_t *ip, bool is_v6);
uint32_t wire_icrc_update(uint32_t state, const void *buf, uint32_t len);
/* The value to store, ready for memcpy into the frame (little endian in memory). */
uint32_t wire_icrc_final(uint32_t state);

/*
 * Is the ICRC of a parsed packet right? pkt: the result of wire_parse or wire_parse_with with
 * WIRE_OK, WIRE_BAD_OPCODE, WIRE_BAD_PAD or WIRE_BAD_LENGTH. If icrc_head is set, the header prefix
 * in the frame must not have changed since parsing.
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
