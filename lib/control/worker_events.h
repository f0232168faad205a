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
/* Takes the remaining events and stops watching the ring. All clients are gone. */
void worker_events_stop(struct daemon *d);

#endif
