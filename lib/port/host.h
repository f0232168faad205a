/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel says of this host's interfaces and addresses, in the network namespace of the
 * process. Needs no privilege. Control thread.
 */
#ifndef PORT_HOST_H
#define PORT_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include "net/net.h"

/*
 * The addresses of an interface, or, if gid is not NULL, this one alone if the interface has it.
 * Returns how many of them were stored in addr[0 .. max).
 */
uint32_t host_addrs(const char *netdev, const uint8_t *gid, struct net_addr *addr, uint32_t max);
/* The name of the interface that has the address; netdev has IF_NAMESIZE bytes. False: none has. */
bool host_netdev_of(const uint8_t gid[16], char *netdev);
/* MAC of an interface, all zero if it has none. False: there is no such interface. */
bool host_mac(const char *netdev, uint8_t mac[6]);
/*
 * Is the interface up, with a carrier? Also true if the kernel cannot be queried. A driver on a
 * socket of an interface (af_packet, af_xdp) reports its link as up as long as the driver
 * is started.
 */
bool host_runs(const char *netdev);
/*
 * The next hop of packets to dgid that leave by this interface, by the kernel's routes: a gateway,
 * or dgid itself. GIDs; IPv4 may have a gateway of IPv6. Returns 0, -ENETUNREACH if there is no
 * route, or another -errno.
 */
int host_route(uint32_t ifindex, const uint8_t dgid[16], uint8_t hop[16]);

#endif
