/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MADs between uroce daemons, of a vendor's class with an OUI; other RoCE devices ignore them.
 * The attribute says whose: 0x5352 sr_peer.c, 0x5052 peer_probe.c.
 */
#ifndef CONTROL_VENDOR_MAD_H
#define CONTROL_VENDOR_MAD_H

#include <string.h>
#include "control/slow_path.h"
#include "wire/mad.h"

/* Offsets of fields (doc/selective-repeat.md). */
enum {
	VENDOR_MAD_BASE_VERSION = 0,
	VENDOR_MAD_CLASS = 1,
	VENDOR_MAD_CLASS_VERSION = 2,
	VENDOR_MAD_METHOD = 3,
	VENDOR_MAD_STATUS = 4,     /* 2 bytes */
	VENDOR_MAD_TID = 8,        /* 8 bytes */
	VENDOR_MAD_ATTRIBUTE = 16, /* 2 bytes */
	VENDOR_MAD_OUI = 37,       /* 3 bytes */
	VENDOR_MAD_VERSION = 40,   /* of the fields below, which belong to the attribute */
	VENDOR_MAD_FLAGS = 41,
};
#define VENDOR_MAD_CLASS_UROCE 0x3eu
#define VENDOR_MAD_ASK         0x01u    /* Get */
#define VENDOR_MAD_ANSWER      0x81u    /* GetResp */
#define VENDOR_MAD_OUI_BYTES   "\x02ur" /* locally administered */

/* Sets the fields up to the OUI of mad, WIRE_MAD_LEN zero bytes. */
static inline void
vendor_mad_init(uint8_t *mad, uint8_t method, uint16_t attribute, uint64_t tid)
{
	mad[VENDOR_MAD_BASE_VERSION] = 1;
	mad[VENDOR_MAD_CLASS] = VENDOR_MAD_CLASS_UROCE;
	mad[VENDOR_MAD_CLASS_VERSION] = 1;
	mad[VENDOR_MAD_METHOD] = method;
	memcpy(mad + VENDOR_MAD_TID, &tid, sizeof(tid));
	mad[VENDOR_MAD_ATTRIBUTE] = (uint8_t)(attribute >> 8);
	mad[VENDOR_MAD_ATTRIBUTE + 1] = (uint8_t)attribute;
	memcpy(mad + VENDOR_MAD_OUI, VENDOR_MAD_OUI_BYTES, 3);
}

/*
 * Returns true if g, received for QP1, is at least a MAD and a uroced's with this attribute. A
 * response with a status is not: Linux's MAD layer may return a query that nobody knows with all
 * its other bytes as they were.
 */
static inline bool
vendor_mad_is(const struct slow_datagram *g, uint16_t attribute)
{
	const uint8_t *mad = g->payload;

	return g->len >= WIRE_MAD_LEN && g->qkey == WIRE_GSI_QKEY &&
	       g->remote_qpn == WIRE_GSI_QPN && mad[VENDOR_MAD_BASE_VERSION] == 1 &&
	       mad[VENDOR_MAD_CLASS] == VENDOR_MAD_CLASS_UROCE &&
	       mad[VENDOR_MAD_CLASS_VERSION] == 1 &&
	       (mad[VENDOR_MAD_STATUS] | mad[VENDOR_MAD_STATUS + 1]) == 0 &&
	       (mad[VENDOR_MAD_ATTRIBUTE] << 8 | mad[VENDOR_MAD_ATTRIBUTE + 1]) == attribute &&
	       memcmp(mad + VENDOR_MAD_OUI, VENDOR_MAD_OUI_BYTES, 3) == 0;
}

#endif
