/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events from workers: completions that clients wait for, asynchronous events, frames of
 * neighbours. Control thread only.
 */
#ifndef CONTROL_WORKER_EVENTS_H
#define CONTROL_WORKER_EVENTS_H

#include "control/daemon.h"

/* Starts to watch the workers' event ring. Returns 0 or -errno. */
int worker_events_start(struct daemon *d);
/*
 * Waits for events, at most wait_ns, and handles one batch. Used while the daemon ends: neither
 * clients nor timers get a turn meanwhile.
 */
void worker_events_wait(struct daemon *d, uint64_t wait_ns);
/* Takes the remaining events and stops watching the ring. All clients are gone. */
void worker_events_stop(struct daemon *d);

#endif
