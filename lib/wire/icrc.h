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

/*
 * The ICRC of an IPv4 packet whose identification is not known, or is not the one that the ICRC was
 * computed with. A kernel socket chooses the identification when it sends and does not show it when
 * it receives, but the ICRC covers it.
 *
 * A CRC is linear: when some bits of a packet flip, its CRC changes by a value that depends on
 * these bits and on how many bytes follow them, and on nothing else. Here the bits are those of one
 * word, IPv4 identification and fragment field (bytes 4 to 7 of the header). Words and changes of
 * the ICRC correspond one to one.
 *
 * Pure functions, any thread.
 */

/* The bytes that the word depends on in front: it ends 8 bytes behind the start of the IP header.
 */
#define WIRE_ICRC_ID_END 8

/*
 * For packets in which `after` bytes (below 2^16) stand between the word and the ICRC: the factor
 * for wire_icrc_id_change. after is the IP total length less WIRE_ICRC_ID_END and WIRE_ICRC_LEN.
 */
uint32_t wire_icrc_id_factor(uint32_t after);

/*
 * What the stored ICRC (its four bytes read as memcpy into a uint32_t does) is to be XORed with
 * when the identification changes by the bits of delta, host order. factor: wire_icrc_id_factor.
 */
uint32_t wire_icrc_id_change(uint32_t factor, uint16_t delta);

/*
 * True when the ICRC behind pkt's pad is right for some identification, with or without the
 * don't-fragment bit. pkt is IPv4 and as wire_icrc_check takes it; the headers in the frame hold
 * any identification. This accepts 2^17 values of the ICRC, so it keeps 15 bits of its strength: it
 * is for packets that came through a socket of the kernel, which has checked the UDP checksum.
 */
bool wire_icrc_check_any_id(const struct wire_pkt *pkt);

#endif
