/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions to the daemon of a peer, for `urocectl doctor`: a datagram to QP1 at its GID, which it
 * returns with the same length. The answer proves that UDP port 4791 is open both ways for packets
 * of that length. A daemon answers every question, as a host answers ICMP echo: the answer is not
 * longer than the question, and goes to its source address.
 *
 * A vendor's MAD (vendor_mad.h) of attribute 0x5052, followed by zeros up to the length:
 *
 *   40      version 1 of the following
 *   42, 43  path MTU of the sender's device in bytes, big endian
 *
 * Control thread only.
 */
#ifndef CONTROL_PEER_PROBE_H
#define CONTROL_PEER_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include "control/handler.h"

#define PEER_PROBES 16u /* the oldest is forgotten */

struct slow_datagram;

struct peer_probe {
	uint64_t tid; /* 0: unused entry */
	uint64_t sent_ns;
	uint64_t answered_ns; /* 0: not yet */
	uint8_t remote[16];
	uint16_t path_mtu; /* of the peer, from the answer */
};

struct peer_probes {
	uint32_t next;
	struct peer_probe probe[PEER_PROBES];
};

/* Handler of ASK_PEER. */
ctrl_handler peer_probe_request;

/* Handles a datagram for QP1. Returns false if it is not a question or an answer. */
bool peer_probe_rx(const struct slow_datagram *g);

#endif
