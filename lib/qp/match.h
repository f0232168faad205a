/* SPDX-License-Identifier: BSD-3-Clause */
/* Does a packet for a QP come the way that the QP is connected by? */
#ifndef QP_MATCH_H
#define QP_MATCH_H

#include <string.h>
#include "qp/qp.h"
#include "wire/parse.h"

/* Addresses must be those the QP is connected to: an IP address spoofed is a QP hijacked. */
static inline bool
qp_gids_match(const struct qp *qp, const struct wire_pkt *pkt)
{
	if (pkt->is_v6 != qp->conn.tmpl.is_v6)
		return false;
	if (pkt->is_v6)
		return memcmp(pkt->ip + 8, qp->conn.dgid, 16) == 0 &&
		       memcmp(pkt->ip + 24, qp->conn.sgid, 16) == 0;
	return memcmp(pkt->ip + 12, qp->conn.dgid + 12, 4) == 0 &&
	       memcmp(pkt->ip + 16, qp->conn.sgid + 12, 4) == 0;
}

/*
 * Partitions agree on 15 bits and one side at least is a full member (WIRE-09). There is no
 * partition 0: it is what an empty entry of the table has. So of the two together the top bit is
 * set, and another.
 */
static inline bool
qp_pkeys_match(uint16_t a, uint16_t b)
{
	return ((a ^ b) & 0x7fff) == 0 && (a | b) > 0x8000;
}

#endif
