/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configurations of the fault injector as text. Clauses, apart by spaces or ';': any number of
 *
 *   KEY=VALUE,KEY=VALUE..        what happens at random to every frame, and how the link is
 *   rule:KEY=VALUE,KEY=VALUE..   what happens to the frames that it describes (16 rules at most)
 *
 *   drop=1%,dup=0.5%,seed=7
 *   delay=2ms,jitter=500us;rate=100Mbit
 *   rule:opcode=RC_SEND_ONLY,qpn=17,nth=3,count=1,action=drop
 *
 * At random      drop dup reorder corrupt corrupt_fixed ce = 0..100% (or ppm: 500ppm)
 *                delay_prob = 0..100%, of the frames that delay applies to [100%]
 * Link           rate = 1kbit..1Tbit a second; hold = 1..4096 frames that may wait [1024]
 *                seed = 0..2^64-1 of everything random [1]
 * Both, of the fault they belong to
 *                delay = 0..10s, jitter = 0..delay (ns us ms s)
 *                reorder_by = 1..1000 frames [3], at most 10 ms; corrupt_bits = 1..32 [1]
 * Rule, which    qpn = 0..0xffffff (destination); opcode = name (RC_ACK) or 0..255;
 *                psn = N or N-M, 0..0xffffff, round the end of the circle where M < N;
 *                dst = IPv4 or IPv6 address (destination)
 * Rule, when     nth = from the n-th of these frames on [1]; count = so often [0: always];
 *                prob = 0..100% [100%]
 * Rule, what     action = drop dup reorder delay corrupt corrupt_fixed ce
 */
#ifndef IMPAIR_SPEC_H
#define IMPAIR_SPEC_H

#include <stddef.h>
#include "impair_core.h"

#define IMPAIR_SPEC_MAX 512 /* bytes, with the NUL */

/*
 * Make *cfg of text. 0; or -EINVAL, with *cfg undefined and what is wrong and what is legal in
 * err, a line of at most err_len bytes with the NUL. Any thread.
 */
int impair_spec_parse(const char *text, struct impair_cfg *cfg, char *err, size_t err_len);

#endif
