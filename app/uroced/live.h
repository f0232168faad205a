/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs read of a device in /sys/class/infiniband and what changes while they run: the
 * port's state and its counters. libibverbs' own reads are answered by the provider; for everybody
 * else the daemon keeps files beside its control socket, in SOCKET.sysfs/DEVICE, and uroce-run
 * links to them. A separate thread writes the files, because a write may block in the file system.
 * It runs every LIVE_PERIOD_MS and writes only the files whose contents have changed.
 */
#ifndef UROCED_LIVE_H
#define UROCED_LIVE_H

#include "control/daemon.h"

#define LIVE_PERIOD_MS 1000

/*
 * Control thread. Writes the files of all devices and starts the thread; between listen_start and
 * listen_stop, so that the socket's name is ours. A failure is logged and costs nothing else.
 */
void live_start(struct daemon *d);
/* Control thread. Ends the thread and removes the files. Safe without live_start. */
void live_stop(struct daemon *d);

#endif
