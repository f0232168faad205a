/* SPDX-License-Identifier: BSD-3-Clause */
/* End-to-end credits as encoded in an ACK's syndrome (IBTA 9.7.7.2, table of credit codes). */
#ifndef WIRE_CREDITS_H
#define WIRE_CREDITS_H

#include <stdint.h>

/*
 * Number of receive WQEs that credit code 0 .. 30 stands for: 0, 1, 2, 3, 4, 6, 8, 12 and so on to
 * 32768. The caller handles code 31, WIRE_SYN_NO_CREDITS.
 */
static inline uint32_t
wire_credit_count(uint32_t code)
{
	return code < 2 ? code : (2 + (code & 1)) << (code / 2 - 1);
}

#endif
