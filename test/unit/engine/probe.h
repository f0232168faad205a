/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections whose requester probes, and round trips that it can measure. */
#ifndef TEST_UNIT_ENGINE_PROBE_H
#define TEST_UNIT_ENGINE_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include "qp/selective.h"
#include "wire/sack.h"

struct conn;

/*
 * An RC connection with probes and NAKs that are repeated (env.plain is 0), in RTS. Its round trip
 * is not known now, but was once: the first probe comes after QP_PROBE_FORGOT_NS.
 */
struct conn *conn_with(void **state, uint32_t timeout, uint32_t retry_cnt);
/* Was the round trip of the connection's path ever measured? */
void conn_met(struct conn *c, bool met);

/*
 * The peer has agreed to selective repeat (QP_SR_ON), or has not. The network is known to keep
 * packets in order: three behind a gap show that it is lost.
 */
void sr_in_order(struct conn *c, enum qp_sr_state sr);
/* conn_with and sr_in_order. */
struct conn *conn_sr(void **state, enum qp_sr_state sr);

/* A SACK from the peer: bit i of held is PSN psn + i. s: its other fields. */
void peer_sack(struct conn *c, uint32_t psn, uint64_t held, struct wire_sack s);
/* The same with n bytes of payload, a multiple of 4 up to sizeof(s) + 8. */
void peer_sack_of(struct conn *c, uint32_t psn, uint64_t held, struct wire_sack s, uint32_t n);

/* Sends one message, which has this PSN, and acknowledges it after ns. */
void round_trip(struct conn *c, uint32_t psn, uint64_t ns);

/*
 * Nothing is sent until a nanosecond before ns have passed; then the packet psn with this opcode
 * and AckReq, and nothing else.
 */
void expect_probe_after(struct conn *c, uint64_t ns, uint8_t op, uint32_t psn);

#endif
