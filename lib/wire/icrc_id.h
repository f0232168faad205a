/* SPDX-License-Identifier: BSD-3-Clause */
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
#ifndef WIRE_ICRC_ID_H
#define WIRE_ICRC_ID_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/parse.h"

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
