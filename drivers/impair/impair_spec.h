/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text form of the fault injector's configurations. Clauses are separated by spaces or ';':
 *
 *   KEY=VALUE,KEY=VALUE..        random faults on all frames, and properties of the link
 *   rule:KEY=VALUE,KEY=VALUE..   faults on the frames that match (16 rules at most)
 *
 *   drop=1%,dup=0.5%,seed=7
 *   delay=2ms,jitter=500us;rate=100Mbit
 *   rate=100Mbit,queue=200kB,kmin=50kB,kmax=150kB,pmax=20%,delay=2ms,jitter=500us,ordered=yes
 *   rule:opcode=RC_SEND_ONLY,qpn=17,nth=3,count=1,action=drop
 *
 *   Random faults  drop dup reorder corrupt corrupt_fixed ce = 0..100% (or ppm: 500ppm)
 *                  delay_prob = 0..100%, probability of delay [100%]
 *   Link           rate = 1kbit..1Tbit per second; hold = 1..4096, most delayed frames [1024; with
 *                  queue 4096]
 *                  queue = 1B..1GB (B kB MB GB), what waits for the link; more is dropped
 *                  [no limit]
 *                  kmin, kmax = 1B..1GB, pmax = 0..100% [100%]: marks CE on frames with ECT;
 *                  kmin defaults to kmax, pmax needs kmax
 *                  ordered = yes no, whether jitter keeps the order of frames [no]
 *                  seed = 0..2^64-1, of all random numbers [1]
 *
 * Parameters of faults, in both kinds of clauses
 *                  delay = 0..10s, jitter = 0..delay (ns us ms s)
 *                  reorder_by = 1..1000 frames [3], at most 10 ms; corrupt_bits = 1..32 [1]
 *
 *   Rule: match    qpn = 0..0xffffff (destination); opcode = name (RC_ACK) or 0..255;
 *                  psn = N or N-M, 0..0xffffff, wraps if M < N;
 *                  dst = IPv4 or IPv6 address (destination)
 *   Rule: when     nth = from the n-th match on [1]; count = at most this often [0: no limit];
 *                  prob = 0..100% [100%]
 *   Rule: what     action = drop dup reorder delay corrupt corrupt_fixed ce
 */
#ifndef IMPAIR_SPEC_H
#define IMPAIR_SPEC_H

#include <stddef.h>
#include "impair_core.h"

#define IMPAIR_SPEC_MAX 512 /* bytes, with the NUL */

/*
 * Parse text into *cfg. Returns 0; or -EINVAL, with *cfg undefined and the error and the legal
 * values in err, one line of at most err_len bytes with the NUL. Any thread.
 */
int impair_spec_parse(const char *text, struct impair_cfg *cfg, char *err, size_t err_len);

#endif
