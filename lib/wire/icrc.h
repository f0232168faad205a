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
 * CRC state over the masked IP, UDP and BTH headers that start at ip (contiguous, no IP options).
 * Continue with wire_icrc_update over what follows the BTH, end with wire_icrc_final.
 */
uint32_t wire_icrc_start(const uint8_t *ip, bool is_v6);
uint32_t wire_icrc_update(uint32_t state, const void *buf, uint32_t len);
/* The value to store, ready for memcpy into the frame (little endian in memory). */
uint32_t wire_icrc_final(uint32_t state);

/*
 * True when the ICRC behind a parsed packet's pad is right. pkt as wire_parse left it with WIRE_OK,
 * WIRE_BAD_OPCODE, WIRE_BAD_PAD or WIRE_BAD_LENGTH.
 */
bool wire_icrc_check(const struct wire_pkt *pkt);

#endif
