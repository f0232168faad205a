/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices on sockets of the kernel (PORT_UDP): their addresses are the host's. Netlink tells when
 * an address or a link changes; the device's GID table and link state follow, and its programs hear
 * of it. Control thread only.
 */
#ifndef CONTROL_HOST_H
#define CONTROL_HOST_H

#include "control/device.h"

/* Before anybody knows the device: the addresses that there are. 0, or -EADDRNOTAVAIL, logged. */
int host_addrs_first(struct device *dev);
/* Follow the kernel from now on. 0 or -errno. */
int host_follow(struct device *dev);
void host_unfollow(struct device *dev);

#endif
