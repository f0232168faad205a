/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices on kernel sockets that use the host's addresses (PORT_UDP, shared PORT_PACKET). Netlink
 * reports changes of addresses and links; the device updates its GID table and link state and
 * notifies its programs. Control thread only.
 */
#ifndef CONTROL_HOST_H
#define CONTROL_HOST_H

#include "control/device.h"

/*
 * Reads the addresses before the device is visible. Logs an error and returns -EADDRNOTAVAIL if
 * there are none, else returns 0.
 */
int host_addrs_first(struct device *dev);
/* Starts following the kernel's changes. Returns 0 or -errno. */
int host_follow(struct device *dev);
void host_unfollow(struct device *dev);

#endif
