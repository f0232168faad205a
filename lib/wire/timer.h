/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times that cross the wire, or a modify call, as a 5-bit code.
 */
#ifndef WIRE_TIMER_H
#define WIRE_TIMER_H

#include <stdint.h>

/*
 * Nanoseconds that a requester waits at least after an RNR NAK with this timer code (NAK-11, IBTA
 * table 45). Code 0 is the longest, 655.36 ms. Bits above the lower five are ignored.
 */
uint64_t wire_rnr_timer_ns(uint32_t code);

/*
 * Nanoseconds of the local ACK timeout code 1..31: 4096 << code (REQ-04); 0 means no timeout. Bits
 * above the lower five are ignored.
 */
uint64_t wire_ack_timeout_ns(uint32_t code);

#endif
