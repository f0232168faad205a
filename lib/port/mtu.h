/* SPDX-License-Identifier: BSD-3-Clause */
/* What a port carries. Private to lib/port. */
#ifndef PORT_MTU_H
#define PORT_MTU_H

#include <stdint.h>
#include <rte_ethdev.h>
#include "port/port.h"

#define PORT_L2_BYTES 18 /* Ethernet header and a VLAN tag */

/*
 * Bytes of IP packet that p carries when want are asked for (0: as many as it does), given buffers
 * of room bytes. p->name, driver and netdev are set. 0: none of use, which is logged.
 */
uint32_t port_find_mtu(const struct port *p, const struct rte_eth_dev_info *info, uint32_t want,
		       uint32_t room);

#endif
