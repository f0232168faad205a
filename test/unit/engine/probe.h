/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections whose requester probes, and round trips that it can measure. */
#ifndef TEST_UNIT_ENGINE_PROBE_H
#define TEST_UNIT_ENGINE_PROBE_H

#include <stdint.h>
#include "qp/selective.h"

struct conn;

/* An RC connection with probes and NAKs that are repeated (env.plain is 0), in RTS. */
struct conn *conn_with(void **state, uint32_t timeout, uint32_t retry_cnt);

/* The same with a peer that has agreed to selective repeat (QP_SR_ON), or has not. */
struct conn *conn_sr(void **state, enum qp_sr_state sr);

/* Sends one message, which has this PSN, and acknowledges it after ns. */
void round_trip(struct conn *c, uint32_t psn, uint64_t ns);

/*
 * Nothing is sent until a nanosecond before ns have passed; then the packet psn with this opcode
 * and AckReq, and nothing else.
 */
void expect_probe_after(struct conn *c, uint64_t ns, uint8_t op, uint32_t psn);

#endif
