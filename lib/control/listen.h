/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket that clients connect to, and what becomes of a connection. Control thread only. */
#ifndef CONTROL_LISTEN_H
#define CONTROL_LISTEN_H

#include "control/daemon.h"

/* Take the connections that wait on the listening socket. 0 or -errno, which is logged. */
int listen_start(struct daemon *d);
/* Take no more, and end those there are. */
void listen_stop(struct daemon *d);

#endif
