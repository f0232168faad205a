/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of path migration: a connection with an alternate path, and a peer that sends
 * on either path with the MigReq bit it is given.
 */
#ifndef TEST_ENGINE_APM_H
#define TEST_ENGINE_APM_H

#include "harness.h"
#include "qp/migrate.h"

#define SQ          0x001000u
#define RQ          0x555000u
#define TIMEOUT     (4096ull << 14) /* conn_rc's */
#define ALT_CODE    16
#define ALT_TIMEOUT (4096ull << ALT_CODE)
#define RETRIES     3

extern const uint8_t apm_alt_mac[6];
extern const uint8_t apm_alt_hop[16]; /* the neighbour that the alternate path goes through */

/* Make c->alt: the same but 192.0.2.11 to .12, or the like in IPv6. */
void apm_alt_paths(struct conn *c);
/* Attributes of a modify with QP_ALT_PATH and QP_PATH_MIG_STATE. */
struct uroce_qp_attr apm_alt_attr(uint32_t mig);

/* A connection in RTS. c->alt is filled in but not loaded. */
struct conn *apm_open_type(void **state, enum qp_type type);
/* An RC conn with the alternate path loaded, in a migration state. */
struct conn *apm_open_in(void **state, uint32_t mig);
struct conn *apm_open_rearm(void **state);
struct conn *apm_open_armed(void **state);
struct conn *apm_open_unresolved(void **state); /* ARMED, next hop of the alternate unknown */

/* QP_PATH_MIG_STATE, and mask. */
int apm_modify(struct conn *c, uint32_t mask, uint32_t mig);
uint32_t apm_state(struct conn *c); /* by qp_query */
#define mig_expect(c, m) assert_int_equal(apm_state(c), QP_MIG_##m)
/* Moves the QP from REARM to ARMED by an old ACK, or by a WRITE packet if the type has no ACKs. */
void apm_arm(struct conn *c);
void apm_arm_by(struct conn *c, uint8_t op, uint32_t psn);

/* Frames of the peer from now on: which way, and with which MigReq. */
void apm_peer_is(struct conn *c, const struct qp_path *path, uint16_t pkey, bool migreq);
/* Ours are expected there from now on, with this MigReq. */
void apm_ours_are(struct conn *c, const struct qp_path *path, bool migreq);
/* Only its headers matter: it acknowledges a PSN that was acknowledged long ago. */
void apm_peer_murmurs(struct conn *c);
/* It has migrated just now: state, event, and both sides' frames from now on. */
void apm_went_over(struct conn *c);

/* A SEND of 8 bytes. */
void apm_send_one(struct conn *c, uint64_t id);
/* Retransmits the first SEND without a response; ends 1 ns before the last retry runs out. */
void apm_run_out(struct conn *c, uint64_t timeout);
/* It does, and the alternate path cannot be used. */
void apm_gives_up(struct conn *c);

#endif
