/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "net/net.h"
#include "port/host.h"
#include "port/log.h"
#include "port/mtu.h"
#include "port/queue.h"
#include "port/socket.h"
#include "port/udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Sets an option. Returns false if the kernel refuses it. */
static bool
set(const struct port_udp *u, int level, int option, int value)
{
	return port_socket_set(u->fd, level, option, value);
}

/* Finds the address or the interface. Returns 0, or -errno after logging the error. */
static int
find_host(struct port *p, const struct port_params *params)
{
	struct port_udp *u = p->udp;
	char ip[INET6_ADDRSTRLEN + 1] = "";
	uint8_t v4[4];
	int rc;

	if (params->udp_netdev != NULL) {
		snprintf(p->netdev, sizeof(p->netdev), "%s", params->udp_netdev);
		u->any = true;
		rc = host_ifindex(p->netdev, &u->ifindex);
		if (rc == -ENODEV)
			PORT_LOG(ERR, p->name, "there is no interface %s: `ip link` lists them",
				 p->netdev);
		return rc;
	}
	snprintf(ip, sizeof(ip), "%.*s", (int)strcspn(params->udp_addr, "/"), params->udp_addr);
	if (inet_pton(AF_INET, ip, v4) == 1) {
		memset(u->gid + 10, 0xff, 2);
		memcpy(u->gid + 12, v4, 4);
	} else if (inet_pton(AF_INET6, ip, u->gid) != 1 ||
		   IN6_IS_ADDR_LINKLOCAL((struct in6_addr *)u->gid)) {
		PORT_LOG(ERR, p->name,
			 "%s is not a unicast address; for a link-local one use iface=", ip);
		return -EINVAL;
	}
	rc = host_netdev_of(u->gid, p->netdev);
	if (rc == -EADDRNOTAVAIL)
		PORT_LOG(ERR, p->name, "no interface has the address %s: `ip addr` lists them", ip);
	return rc == 0 ? host_ifindex(p->netdev, &u->ifindex) : rc;
}

/*
 * Creates the socket, not bound. An interface's socket handles both families, if the kernel has
 * IPv6.
 */
static int
make_socket(struct port_udp *u)
{
	u->v6 = u->any || !net_gid_is_v4(u->gid);
	u->fd = socket(u->v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (u->fd < 0 && u->any && errno == EAFNOSUPPORT) {
		u->v6 = false;
		u->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	return u->fd >= 0 ? 0 : -errno;
}

static int
bind_socket(const struct port_udp *u, const char *netdev)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};

	if (u->any &&
	    setsockopt(u->fd, SOL_SOCKET, SO_BINDTODEVICE, netdev, (socklen_t)strlen(netdev)) != 0)
		return -errno;
	if (!u->v6) {
		memcpy(&in.sin_addr, u->gid + 12, 4);
		return bind(u->fd, (struct sockaddr *)&in, sizeof(in)) == 0 ? 0 : -errno;
	}
	memcpy(&in6.sin6_addr, u->gid, 16);
	if (!u->any)
		set(u, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	else
		set(u, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	return bind(u->fd, (struct sockaddr *)&in6, sizeof(in6)) == 0 ? 0 : -errno;
}

/*
 * Multicast: the engine copies datagrams to members of the same device, and groups that other
 * programs of this host have joined must not be received. If an option fails, extra datagrams
 * arrive.
 */
static void
set_groups(const struct port_udp *u)
{
	set(u, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	set(u, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	if (!u->v6)
		return;
	set(u, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
	set(u, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
}

/*
 * Sets the socket options that the ICRC and the GRH of a datagram require. Returns false if this
 * kernel lacks one.
 */
static bool
set_headers(const struct port_udp *u)
{
	bool v4 = !u->v6 || u->any;

	/*
	 * DF, and thus identification 0; the ICRC covers both. The interface's MTU is the limit: a
	 * path MTU that the kernel learns from ICMP, which anyone may send, would stop a peer's
	 * QPs for ten minutes, and QPs cannot change theirs.
	 */
	if (v4 && !(set(u, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) &&
		    set(u, IPPROTO_IP, IP_RECVTOS, 1) && set(u, IPPROTO_IP, IP_RECVTTL, 1)))
		return false;
	if (v4 && u->any && !u->v6 && !set(u, IPPROTO_IP, IP_PKTINFO, 1))
		return false;
	if (v4 && !(set(u, IPPROTO_IP, IP_TTL, 64) && set(u, IPPROTO_IP, IP_MULTICAST_TTL, 64)))
		return false;
	if (!u->v6)
		return true;
	/* RoCE devices send no UDP checksum, which the kernel drops for IPv6 */
	return set(u, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1) &&
	       set(u, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) &&
	       set(u, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) &&
	       set(u, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1) &&
	       set(u, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64) &&
	       set(u, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 64) &&
	       (!u->any || set(u, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
}

static void
set_offloads(struct port_udp *u, bool first)
{
	u->tx.gso = set(u, IPPROTO_UDP, UDP_SEGMENT, 0);
	if (!u->tx.gso && first)
		PORT_LOG(NOTICE, u->name,
			 "this kernel has no UDP_SEGMENT: sending one datagram per call");
	set(u, SOL_SOCKET, SO_RXQ_OVFL, 1);
	if (!set(u, IPPROTO_UDP, UDP_GRO, 1) && first)
		PORT_LOG(NOTICE, u->name,
			 "this kernel has no UDP_GRO: receiving one datagram per call");
}

/*
 * Attaches a BPF program that spreads received packets over the sockets by destination QPN. The
 * program reads the BTH, at the start of the UDP payload, and returns the number of the socket, in
 * the order in which the sockets were bound.
 */
static int
steer(const struct port *p)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct wire_bth, fb_qpn)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffffu & (p->nrxq - 1u)),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = {.len = RTE_DIM(code), .filter = code};

	if (setsockopt(p->udp->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
		       sizeof(program)) != 0)
		return -errno;
	return 0;
}

/*
 * Binds the first socket without SO_REUSEPORT, which fails if another socket has the address. Then
 * binds the other sockets to the same address. Another uroced cannot join them, because its first
 * bind fails.
 */
static int
bind_queue(const struct port *p, const struct port_udp *u)
{
	int rc;

	if (u != p->udp && !set(u, SOL_SOCKET, SO_REUSEPORT, 1))
		return -errno;
	rc = bind_socket(u, p->netdev);
	if (rc == 0 && u == p->udp && p->nrxq > 1 && !set(u, SOL_SOCKET, SO_REUSEPORT, 1))
		rc = -errno;
	return rc;
}

static int
open_socket(struct port *p, struct port_udp *u)
{
	bool first = u == p->udp;
	int rc = make_socket(u);

	if (rc == 0 && !set_headers(u))
		rc = -errno;
	if (rc == 0) {
		set_groups(u);
		port_socket_buffers(u->fd, u->name, first);
		set_offloads(u, first);
		rc = bind_queue(p, u);
	}
	if (rc == -EADDRINUSE)
		PORT_LOG(ERR, p->name,
			 "UDP port %u is in use on this address, by another uroced, the kernel's "
			 "rxe (`rdma link`) or another program: `ss -ulpn sport = %u` lists them",
			 WIRE_UDP_PORT, WIRE_UDP_PORT);
	else if (rc != 0)
		PORT_LOG(ERR, p->name, "no UDP socket on %s: %s", p->netdev, strerror(-rc));
	return rc;
}

static int
make_slots(struct port_udp *u)
{
	for (uint32_t i = 0; i < UDP_RX_MSGS; i++) {
		u->rx.slot[i].spill = malloc(UDP_SPILL);
		if (u->rx.slot[i].spill == NULL)
			return -ENOMEM;
	}
	return 0;
}

/* Opens the sockets of all queues. Only the first holds the state that they share. */
static int
open_sockets(struct port *p)
{
	struct port_udp *u = p->udp;
	int rc = 0;

	for (uint16_t q = 0; q < p->nrxq && rc == 0; q++) {
		if (q != 0) {
			u[q].any = u->any;
			memcpy(u[q].gid, u->gid, sizeof(u->gid));
			u[q].ifindex = u->ifindex;
			u[q].rx.room = u->rx.room;
			u[q].rx.chunk = u->rx.chunk;
		}
		rc = make_slots(&u[q]);
		if (rc == 0)
			rc = open_socket(p, &u[q]);
	}
	if (rc == 0 && p->nrxq > 1 && steer(p) != 0)
		PORT_LOG(
			NOTICE, p->name,
			"this kernel does not steer packets by QPN: workers pass them on, which is "
			"slower");
	return rc;
}

/* Gets the interface's MAC, or derives one from the address if it has none (lo). */
static void
find_mac(struct port *p)
{
	static const uint8_t none[6];

	if (host_mac(p->netdev, p->mac) && memcmp(p->mac, none, 6) != 0)
		goto out;
	p->mac[0] = 2;
	p->mac[1] = (uint8_t)p->udp->ifindex;
	memcpy(p->mac + 2, p->udp->gid + 12, 4);
out:
	for (uint16_t q = 0; q < p->nrxq; q++)
		memcpy(p->udp[q].mac, p->mac, 6);
}

/* Checks the MTU. Returns 0, or -EINVAL, logged. */
static int
find_limits(struct port *p, const struct port_params *params)
{
	struct port_udp *u = p->udp;
	uint32_t mtu = port_netdev_mtu(p->netdev);

	u->rx.room = rte_pktmbuf_data_room_size(u->pool) - RTE_PKTMBUF_HEADROOM - 64;
	if (mtu > u->rx.room)
		mtu = u->rx.room;
	if (params->link_mtu != 0 && params->link_mtu < mtu)
		mtu = params->link_mtu;
	if (mtu < 576) {
		PORT_LOG(ERR, p->name, "MTU %u of %s is less than 576", mtu, p->netdev);
		return -EINVAL;
	}
	p->link_mtu = mtu;
	u->rx.chunk = mtu - WIRE_IPV4_LEN - WIRE_UDP_LEN;
	return 0;
}

int
port_udp_open(struct port *p, const struct port_params *params, struct rte_mempool *pool)
{
	uint16_t nqueues = (uint16_t)params->nqueues;
	struct port_udp *u = calloc(nqueues, sizeof(*u));
	int rc;

	memset(p, 0, sizeof(*p));
	p->id = PORT_IDS_MAX;
	if (u == NULL)
		return -ENOMEM;
	p->udp = u;
	for (uint16_t q = 0; q < nqueues; q++) {
		u[q].fd = -1;
		u[q].pool = pool;
	}
	p->kind = PORT_UDP;
	snprintf(p->name, sizeof(p->name), "udp:%.*s",
		 params->udp_netdev != NULL ? 40 : (int)strcspn(params->udp_addr, "/"),
		 params->udp_netdev != NULL ? params->udp_netdev : params->udp_addr);
	for (uint16_t q = 0; q < nqueues; q++)
		memcpy(u[q].name, p->name, sizeof(u->name));
	snprintf(p->driver, sizeof(p->driver), "udp");
	p->nrxq = p->ntxq = nqueues;
	p->tx_multi_seg = p->tx_copies = true;
	rc = find_host(p, params);
	if (rc == 0)
		rc = find_limits(p, params);
	if (rc == 0)
		rc = open_sockets(p);
	if (rc == 0) {
		p->id = port_id_take();
		if (p->id == PORT_IDS_MAX)
			rc = -ENOSPC;
	}
	if (rc != 0) {
		port_udp_close(p);
		return rc;
	}
	find_mac(p);
	p->rx_fd = u->fd;
	p->started = true;
	port_poll_link(p);
	return 0;
}

static void
queue_close(struct port_udp *u)
{
	if (u->fd >= 0)
		close(u->fd);
	for (uint32_t i = 0; i < UDP_RX_MSGS; i++) {
		struct udp_slot *s = &u->rx.slot[i];

		for (uint32_t k = 0; k < s->nm; k++)
			rte_pktmbuf_free(s->m[k]);
		free(s->spill);
	}
	rte_pktmbuf_free_bulk(u->rx.ready + u->rx.ready_at, u->rx.ready_n - u->rx.ready_at);
}

void
port_udp_close(struct port *p)
{
	for (uint16_t q = 0; q < p->nrxq; q++)
		queue_close(&p->udp[q]);
	free(p->udp);
	p->udp = NULL;
	p->started = false;
	__atomic_store_n(&p->link_up, false, __ATOMIC_RELAXED);
	if (p->id < PORT_IDS_MAX)
		port_id_give(p->id);
}

/* Returns true if if_indextoname failed with err because there is no such interface. */
static bool
no_such_interface(int err)
{
	return err == ENXIO || err == ENODEV;
}

bool
port_udp_present(struct port *p)
{
	const struct port_udp *u = p->udp;

	if (!u->any)
		return host_netdev_of(u->gid, p->netdev) != -EADDRNOTAVAIL;
	/* a socket is bound to its interface by index, whatever its name; not to one made later */
	return if_indextoname(u->ifindex, p->netdev) != NULL || !no_such_interface(errno);
}

int
port_udp_addrs(const struct port *p, struct net_addr *addr, uint32_t max)
{
	const struct port_udp *u = p->udp;
	char netdev[IF_NAMESIZE];

	if (!u->any)
		return host_addrs(NULL, u->gid, addr, max);
	if (if_indextoname(u->ifindex, netdev) == NULL)
		return no_such_interface(errno) ? 0 : -errno;
	return host_addrs(netdev, NULL, addr, max);
}

bool
port_udp_stats(const struct port *p, struct port_udp_stats *sum)
{
	/* the structure contains only counters */
	uint64_t *to = (uint64_t *)sum;

	memset(sum, 0, sizeof(*sum));
	if (p->kind != PORT_UDP)
		return false;
	for (uint16_t q = 0; q < p->nrxq; q++) {
		const uint64_t *from = (const uint64_t *)&p->udp[q].stats;

		for (uint32_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
			to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
	return true;
}

int
port_udp_fd(const struct port *p, uint16_t queue)
{
	return p->udp[queue].fd;
}

struct port_udp *
port_udp_of(const struct port *p, uint16_t queue)
{
	return p->kind == PORT_UDP && queue < p->nrxq ? &p->udp[queue] : NULL;
}

/*
 * Multicast groups of a port udp. The first socket joins them: the kernel gives a datagram to a
 * group to every socket that has joined it.
 */

/* Joins or leaves a group. Returns 0 or -errno. */
static int
group_change(const struct port_udp *u, const uint8_t gid[16], bool join)
{
	struct ip_mreqn v4 = {.imr_ifindex = (int)u->ifindex};
	struct ipv6_mreq v6 = {.ipv6mr_interface = u->ifindex};
	int rc;

	if (net_gid_is_v4(gid)) {
		memcpy(&v4.imr_multiaddr, gid + 12, 4);
		rc = setsockopt(u->fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
				&v4, sizeof(v4));
	} else {
		memcpy(&v6.ipv6mr_multiaddr, gid, 16);
		rc = setsockopt(u->fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &v6,
				sizeof(v6));
	}
	return rc == 0 ? 0 : -errno;
}

bool
port_takes_groups(const struct port *p)
{
	return p->kind != PORT_UDP || p->udp->any;
}

int
port_group_join(const struct port *p, const uint8_t gid[16])
{
	if (p->kind != PORT_UDP)
		return 0;
	return p->udp->any ? group_change(p->udp, gid, true) : -EOPNOTSUPP;
}

void
port_group_leave(const struct port *p, const uint8_t gid[16])
{
	if (p->kind == PORT_UDP)
		(void)group_change(p->udp, gid, false);
}
