/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WIRE_CHECK_REBUILD_H
#define WIRE_CHECK_REBUILD_H

#include <stdint.h>
#include "wire/build.h"
#include "wire/parse.h"

/*
 * Build a parsed packet's frame again, by lib/wire's builder and from parsed fields; what is the
 * sender's choice (TOS, TTL, IP identification, DF, UDP checksum, TVer, MigReq, FECN) is read from
 * the original. out has room for WIRE_MAX_OVERHEAD bytes more than the payload, and 3 for the
 * builder's padding. Returns the length of the frame.
 */
uint32_t rebuild_frame(const struct wire_pkt *pkt, uint8_t *out);

#endif
