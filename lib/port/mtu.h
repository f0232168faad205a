/* SPDX-License-Identifier: BSD-3-Clause */
/* MTU of a port. Private to lib/port. */
#ifndef PORT_MTU_H
#define PORT_MTU_H

#include <stdint.h>
#include <rte_ethdev.h>
#include "port/port.h"

#define PORT_L2_BYTES 18 /* Ethernet header and a VLAN tag */

/*
 * Returns the MTU of p in bytes: the longest IP packet that it carries, at most want (0: no limit),
 * with mbufs of room bytes. p->name, driver and netdev are set. Returns 0 and logs why if the MTU
 * is too small for RoCE.
 */
uint32_t port_find_mtu(const struct port *p, const struct rte_eth_dev_info *info, uint32_t want,
		       uint32_t room);

/* Returns the MTU of an interface in this process's network namespace; 0 if unknown. */
uint32_t port_netdev_mtu(const char *netdev);

#endif
