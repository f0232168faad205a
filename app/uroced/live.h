/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files with a device's port state and counters, which programs read in /sys/class/infiniband and
 * which change while they run. The provider answers libibverbs' own reads. For all other readers
 * the daemon keeps files beside its control socket, in SOCKET.sysfs/DEVICE, and uroce-run links to
 * them. A separate thread writes the files every LIVE_PERIOD_MS, because a write may block in the
 * file system. It writes only files whose contents have changed.
 */
#ifndef UROCED_LIVE_H
#define UROCED_LIVE_H

#include "control/daemon.h"

#define LIVE_PERIOD_MS 1000

/*
 * Control thread. Writes the files of all devices and starts the thread. Called between
 * listen_start and listen_stop, while this daemon owns the socket's path. A failure is logged; the
 * daemon works without the files.
 */
void live_start(struct daemon *d);
/* Control thread. Ends the thread and removes the files. Safe without live_start. */
void live_stop(struct daemon *d);

#endif
