/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries the kernel for interfaces, addresses and routes of the process's network namespace.
 * Needs no privilege. Control thread.
 */
#ifndef PORT_HOST_H
#define PORT_HOST_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "net/net.h"

/*
 * Stores the addresses of an interface, or of all if netdev is NULL, in addr[0 .. max). If gid is
 * not NULL, stores only that address. Returns their number, or -errno if the kernel cannot be
 * queried.
 */
int host_addrs(const char *netdev, const uint8_t *gid, struct net_addr *addr, uint32_t max);
/*
 * Finds the interface that has the address gid. netdev: its name, IF_NAMESIZE bytes, unchanged on
 * failure. Returns 0, -EADDRNOTAVAIL if there is none, or another -errno if the kernel cannot be
 * queried.
 */
int host_netdev_of(const uint8_t gid[16], char *netdev);
/* Finds an interface by name. Returns 0, -ENODEV, or another -errno if the kernel does not say. */
int host_ifindex(const char *netdev, uint32_t *ifindex);
/* Gets an interface's MAC: all zero if it has none. Returns false if there is no such interface. */
bool host_mac(const char *netdev, uint8_t mac[6]);
/* Returns the MTU of an interface; 0 if unknown. */
uint32_t host_mtu(const char *netdev);
/*
 * Returns true if the interface is up and has a carrier, or if the kernel cannot be queried. The
 * socket-based drivers af_packet and af_xdp do not report this: they report the link as up while
 * they are started.
 */
bool host_runs(const char *netdev);
/*
 * Looks up the next hop to dgid through this interface in the kernel's routing table: a gateway, or
 * dgid itself. Both are GIDs; an IPv4 destination may have an IPv6 gateway. Returns 0, -ENETUNREACH
 * if there is no route, or another -errno.
 */
int host_route(uint32_t ifindex, const uint8_t dgid[16], uint8_t hop[16]);

/* Executes an ioctl about an interface, whose name this sets in *req. Returns 0 or -errno. */
int host_ioctl(const char *netdev, unsigned long what, struct ifreq *req);

/* A request to the kernel's rtnetlink. */
struct host_ask {
	struct nlmsghdr h;
	uint8_t body[112]; /* the header that its type requires, and attributes */
};

/* Begins a request; head: that header. flags: besides NLM_F_REQUEST. */
void host_ask_begin(struct host_ask *a, uint16_t type, uint16_t flags, const void *head,
		    size_t len);
void host_ask_add(struct host_ask *a, uint16_t type, const void *data, size_t len);
/*
 * Sends the request. answer: aligned to 8 bytes. Returns the bytes of a message that is in answer,
 * 0 if the kernel has acknowledged the request, or -errno.
 */
int host_ask(const struct host_ask *a, void *answer, size_t room);
/* Finds the attribute of this type in attributes of len bytes. Returns NULL if there is none. */
const struct rtattr *host_attr(const struct rtattr *a, size_t len, uint16_t type);

#endif
