/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective acknowledgement (doc/selective-repeat.md): a packet of opcode WIRE_OPCODE_SACK with
 * AETH and this payload. The PSN in its BTH is the ePSN: all requests before it were executed.
 * While READ responses are queued it is the PSN of the next one; requests behind it that were
 * executed count as held. Sent only to a peer that has agreed to selective repeat.
 */
#ifndef WIRE_SACK_H
#define WIRE_SACK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "wire/parse.h"

#define WIRE_SACK_VERSION   3u
#define WIRE_SACK_DUPLICATE 1u /* dup_psn is valid */
#define WIRE_SACK_COPY      2u /* of the ACK or SACK sent just before, should that be lost */
#define WIRE_SACK_FLAGS     (WIRE_SACK_DUPLICATE | WIRE_SACK_COPY)
#define WIRE_SACK_WORDS     16u

struct wire_sack {
	uint8_t version;    /* WIRE_SACK_VERSION */
	uint8_t flags;      /* WIRE_SACK_*; other bits are 0 */
	rte_be16_t dups;    /* duplicate requests received on this connection, modulo 2^16 */
	rte_be32_t dup_psn; /* PSN of the last of them */
	/*
	 * Requests behind the ePSN that were received. Bit i of the 1024 (bit i % 64 of word
	 * i / 64) is the request with PSN ePSN + i; bit 0 is 0. Of a READ only the first PSN
	 * counts. Words behind the last one with a bit may be left out; the first one is sent
	 * always.
	 */
	rte_le64_t held[WIRE_SACK_WORDS];
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_sack) == 136, "SACK size");

/* The length in bytes of a SACK with the first words of held, 1 .. WIRE_SACK_WORDS. */
#define WIRE_SACK_LEN(words) (offsetof(struct wire_sack, held) + 8u * (words))

/*
 * Reads the payload of pkt, which has opcode WIRE_OPCODE_SACK and was parsed without error, into
 * *to. Any thread. Returns false if its length, version, flags or syndrome are not those of a
 * selective acknowledgement of this version.
 */
static inline bool
wire_sack_get(const struct wire_pkt *pkt, struct wire_sack *to)
{
	if (pkt->payload_len < WIRE_SACK_LEN(1) || pkt->payload_len > sizeof(*to) ||
	    pkt->payload_len % 8 != 0 || pkt->pad_len != 0 ||
	    (pkt->syndrome & WIRE_SYN_KIND) != WIRE_SYN_ACK)
		return false;
	memset(to, 0, sizeof(*to));
	memcpy(to, pkt->payload, pkt->payload_len);
	return to->version == WIRE_SACK_VERSION && (to->flags & ~WIRE_SACK_FLAGS) == 0 &&
	       (rte_le_to_cpu_64(to->held[0]) & 1) == 0;
}

#endif
