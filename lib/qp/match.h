/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks whether a packet matches the connection of its QP. */
#ifndef QP_MATCH_H
#define QP_MATCH_H

#include <string.h>
#include "qp/qp.h"
#include "wire/parse.h"

/* Are the addresses those of the QP's connection? Otherwise others could inject packets. */
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
 * P_Keys match if their 15 low bits are equal and at least one side is a full member (WIRE-09).
 * Partition 0 does not exist: it marks empty table entries. A match thus needs the top bit and
 * another bit set in the OR of both.
 */
static inline bool
qp_pkeys_match(uint16_t a, uint16_t b)
{
	return ((a ^ b) & 0x7fff) == 0 && (a | b) > 0x8000;
}

#endif
