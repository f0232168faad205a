/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of DPDK's telemetry socket (dpdk-telemetry.py) under /uroce/. DPDK calls them on its
 * threads, which do not access the daemon's state: they hand the request to the control thread and
 * wait at most TELEMETRY_WAIT_S for the reply.
 */
#ifndef UROCED_TELEMETRY_H
#define UROCED_TELEMETRY_H

struct daemon;

#define TELEMETRY_WAIT_S 2

/* Control thread. Registers the commands. Failures are logged: the daemon works without them. */
void telemetry_start(struct daemon *d);
/* Control thread. Refuses further commands, which DPDK cannot unregister. */
void telemetry_stop(struct daemon *d);

#endif
