/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/timer.h"

#define CODE_MASK 31u

/* In units of 10 us, as in the specification (NAK-11). */
static const uint32_t rnr_10us[CODE_MASK + 1] = {
	65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
	48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint64_t
wire_rnr_timer_ns(uint32_t code)
{
	return (uint64_t)rnr_10us[code & CODE_MASK] * 10000;
}

uint64_t
wire_ack_timeout_ns(uint32_t code)
{
	code &= CODE_MASK;
	return code ? UINT64_C(4096) << code : 0;
}
