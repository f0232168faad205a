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
 * Reads the addresses before the device is visible. Returns 0, or after logging the error
 * -EADDRNOTAVAIL if there are none, or another -errno if the kernel cannot be queried.
 */
int host_addrs_first(struct device *dev);
/* Starts following the kernel's changes. Returns 0 or -errno. */
int host_follow(struct device *dev);
void host_unfollow(struct device *dev);
/* Call periodically: reads the addresses again if that has failed, for lack of descriptors. */
void host_tick(struct device *dev);

#endif
