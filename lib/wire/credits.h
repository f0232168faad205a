/* SPDX-License-Identifier: BSD-3-Clause */
/* End-to-end credits as an ACK's syndrome carries them (IBTA 9.7.7.2, table of credit codes). */
#ifndef WIRE_CREDITS_H
#define WIRE_CREDITS_H

#include <stdint.h>

/*
 * How many receive WQEs code (0 .. 30) says that the responder has: 0, 1, 2, 3, 4, 6, 8, 12 and so
 * on to 32768. Code 31, WIRE_SYN_NO_CREDITS, stands for no number and is the caller's.
 */
static inline uint32_t
wire_credit_count(uint32_t code)
{
	return code < 2 ? code : (2 + (code & 1)) << (code / 2 - 1);
}

#endif
