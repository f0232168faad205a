/* SPDX-License-Identifier: BSD-3-Clause */
/* Timer values that packets and QP attributes carry as a 5-bit code. */
#ifndef WIRE_TIMER_H
#define WIRE_TIMER_H

#include <stdint.h>

/*
 * Shortest time in nanoseconds that a requester waits after an RNR NAK with this timer code
 * (NAK-11, IBTA table 45). Code 0 is the longest, 655.36 ms. Only the lower five bits count.
 */
uint64_t wire_rnr_timer_ns(uint32_t code);

/*
 * Local ACK timeout in nanoseconds of code 1..31: 4096 << code (REQ-04). Returns 0, no timeout, for
 * code 0. Only the lower five bits count.
 */
uint64_t wire_ack_timeout_ns(uint32_t code);

#endif
