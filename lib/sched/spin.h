/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHED_SPIN_H
#define SCHED_SPIN_H

#include <stdint.h>
#include "sched/backoff.h"

#define SPIN_NS       50000ull /* a request and its reply, each with a wake-up, take longer */
#define SPIN_SKIP_MAX 255u     /* waits without a spin after spins in vain */

/*
 * Waits for up to SPIN_NS until fd is readable, without sleeping: a thread that writes to fd
 * then need not wake this one, which costs about 10 us if it is on another CPU of a virtual
 * machine. Yields to the other threads of this CPU, one of which may be the writer. If spins are in
 * vain, the next calls return at once (sched/backoff.h); the caller blocks afterwards in any case.
 * Errors of poll count as readable: the caller's read reports them. b belongs to fd's reader.
 */
void sched_spin_readable(struct backoff *b, int fd);

#endif
