/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket that clients connect to; accepts and refuses connections. Control thread only. */
#ifndef CONTROL_LISTEN_H
#define CONTROL_LISTEN_H

#include "control/daemon.h"

/* Starts to accept connections. Returns 0 or -errno, which is logged. */
int listen_start(struct daemon *d);
/* Stops accepting and ends all connections. */
void listen_stop(struct daemon *d);

#endif
