/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement with peers on selective repeat (doc/selective-repeat.md). A peer is a pair of GIDs,
 * local and remote. When an RC QP that uses a pair goes to RTR, the daemon sends a query to the
 * peer's QP1, a datagram of a vendor's management class, which others ignore. QPs begin with
 * go-back-N and switch when the reply arrives. Only a reply to such a query counts, because any
 * host can send a query. A reply is valid for new QPs for SR_PEER_FRESH_NS.
 *
 * A daemon that receives a query often does not know the sender's MAC yet, because the query may
 * overtake the reply to an ARP request. Its reply then waits until the MAC is known.
 *
 * Control thread only.
 */
#ifndef CONTROL_SR_PEER_H
#define CONTROL_SR_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "qp/selective.h"

#define SR_PEERS         256u /* of a device; the oldest of the user with the most is forgotten */
#define SR_PEER_FRESH_NS 2000000000ull
#define SR_PEER_TRIES    5u  /* queries, one every 100 ms or more */
#define SR_PEER_OWED     16u /* replies that wait, half to peers of QPs; the oldest is given up */

struct device;
struct slow_datagram;

struct sr_peer {
	uint8_t local[16], remote[16];
	uint64_t tid;      /* transaction id of the queries; 0: unused entry */
	uint64_t asked_ns; /* time of the last query; 0: none could be sent yet */
	uint64_t first_ns; /* time of the first query with this tid */
	uint64_t told_ns;  /* time of the reply; 0: none yet */
	uid_t uid;         /* of the QP that caused the query */
	uint8_t tries;     /* queries left */
	bool unsent;       /* the last query was not sent: the MAC of the next hop is unknown */
	bool agreed;       /* according to the last reply */
	uint8_t buffer;    /* its socket's receive buffer, likewise (qp_sr_told); 0: no limit */
};

/* A reply that waits for the MAC of its next hop. */
struct sr_owed {
	uint8_t local[16], remote[16];
	uint64_t tid;
	uint64_t since_ns; /* time of the first query; 0: unused entry */
	uid_t uid;
	uint16_t pkey;
};

struct sr_peers {
	bool on; /* the device uses selective repeat */
	uint32_t owed_next;
	struct sr_peer peer[SR_PEERS];
	struct sr_owed owed[SR_PEER_OWED];
};

/*
 * Returns the initial state of a QP of the device with this pair. *buffer: what to tell it then
 * (qp_sr_told), also from a reply that is not valid any more; unchanged without one.
 */
enum qp_sr_state sr_peer_state(const struct device *dev, const uint8_t local[16],
			       const uint8_t remote[16], uint8_t *buffer);
/* Queries the peer of this pair for a QP of uid that has begun with QP_SR_CAN, unless just done. */
void sr_peer_ask(struct device *dev, const uint8_t local[16], const uint8_t remote[16], uid_t uid);
/* Repeats queries that are due, and sends replies whose next hop has become known. */
void sr_peer_tick(struct device *dev);
/* Handles a datagram for QP1. Returns false if it is not such a query or reply. */
bool sr_peer_rx(const struct slow_datagram *g);

#endif
