/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What workers report: completions that a client waits for, asynchronous events, frames of the
 * neighbours. Control thread only.
 */
#ifndef CONTROL_WORKER_EVENTS_H
#define CONTROL_WORKER_EVENTS_H

#include "control/daemon.h"

/* Watch the workers' event ring. 0 or -errno. */
int worker_events_start(struct daemon *d);
/* The clients are gone: the rest of the events is taken, and the ring not watched any more. */
void worker_events_stop(struct daemon *d);

#endif
