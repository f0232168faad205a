/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include "net/frame.h"
#include "net/net.h"
#include "port/host.h"
#include "port/log.h"
#include "port/socket.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* Gets the interface's MAC, or derives one from the address if it has none (lo). */
static void
find_mac(struct port *p)
{
	static const uint8_t none[6];

	if (host_mac(p->netdev, p->mac) && memcmp(p->mac, none, 6) != 0)
		return;
	p->mac[0] = 2;
	p->mac[1] = (uint8_t)p->sockets->ifindex;
	memcpy(p->mac + 2, p->sockets->gid + 12, 4);
}

/* Finds the address or the interface. Returns 0, or -errno after logging the error. */
static int
find_host(struct port *p, const struct port_params *params)
{
	struct port_socket *s = p->sockets;
	char ip[INET6_ADDRSTRLEN + 1] = "";
	struct in6_addr v6;
	uint8_t v4[4];
	int rc;

	if (params->udp_netdev != NULL) {
		snprintf(p->netdev, sizeof(p->netdev), "%s", params->udp_netdev);
		s->any = true;
		rc = host_ifindex(p->netdev, &s->ifindex);
		if (rc == -ENODEV)
			PORT_LOG(ERR, p->name, "there is no interface %s: `ip link` lists them",
				 p->netdev);
		return rc;
	}
	snprintf(ip, sizeof(ip), "%.*s", (int)strcspn(params->udp_addr, "/"), params->udp_addr);
	if (inet_pton(AF_INET, ip, v4) == 1) {
		memset(s->gid + 10, 0xff, 2);
		memcpy(s->gid + 12, v4, 4);
	} else if (inet_pton(AF_INET6, ip, &v6) == 1 && !IN6_IS_ADDR_LINKLOCAL(&v6)) {
		memcpy(s->gid, &v6, sizeof(s->gid));
	} else {
		PORT_LOG(ERR, p->name,
			 "%s is not a unicast address; for a link-local one use iface=", ip);
		return -EINVAL;
	}
	rc = host_netdev_of(s->gid, p->netdev);
	if (rc == -EADDRNOTAVAIL)
		PORT_LOG(ERR, p->name, "no interface has the address %s: `ip addr` lists them", ip);
	return rc == 0 ? host_ifindex(p->netdev, &s->ifindex) : rc;
}

/*
 * Creates the socket, not bound. An interface's socket handles both families, if the kernel has
 * IPv6.
 */
static int
make_socket(struct port_socket *s)
{
	s->v6 = s->any || !net_gid_is_v4(s->gid);
	s->fd = socket(s->v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0 && s->any && errno == EAFNOSUPPORT) {
		s->v6 = false;
		s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	return s->fd >= 0 ? 0 : -errno;
}

static int
bind_socket(const struct port_socket *s, const char *netdev)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};

	if (s->any &&
	    setsockopt(s->fd, SOL_SOCKET, SO_BINDTODEVICE, netdev, (socklen_t)strlen(netdev)) != 0)
		return -errno;
	if (!s->v6) {
		memcpy(&in.sin_addr, s->gid + 12, 4);
		return bind(s->fd, (struct sockaddr *)&in, sizeof(in)) == 0 ? 0 : -errno;
	}
	memcpy(&in6.sin6_addr, s->gid, 16);
	if (!s->any)
		socket_set(s, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	else
		socket_set(s, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	return bind(s->fd, (struct sockaddr *)&in6, sizeof(in6)) == 0 ? 0 : -errno;
}

/*
 * Multicast: the engine copies datagrams to members of the same device, and groups that other
 * programs of this host have joined must not be received. If an option fails, extra datagrams
 * arrive.
 */
static void
set_groups(const struct port_socket *s)
{
	socket_set(s, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	socket_set(s, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	if (!s->v6)
		return;
	socket_set(s, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
	socket_set(s, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
}

/*
 * Sets the socket options that the ICRC and the GRH of a datagram require. Returns false if this
 * kernel lacks one.
 */
static bool
set_headers(const struct port_socket *s)
{
	bool v4 = !s->v6 || s->any;

	/*
	 * DF, and thus identification 0; the ICRC covers both. The interface's MTU is the limit: a
	 * path MTU that the kernel learns from ICMP, which anyone may send, would stop a peer's
	 * QPs for ten minutes, and QPs cannot change theirs.
	 */
	if (v4 &&
	    !(socket_set(s, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) &&
	      socket_set(s, IPPROTO_IP, IP_RECVTOS, 1) && socket_set(s, IPPROTO_IP, IP_RECVTTL, 1)))
		return false;
	if (v4 && s->any && !s->v6 && !socket_set(s, IPPROTO_IP, IP_PKTINFO, 1))
		return false;
	if (v4 && !(socket_set(s, IPPROTO_IP, IP_TTL, 64) &&
		    socket_set(s, IPPROTO_IP, IP_MULTICAST_TTL, 64)))
		return false;
	if (!s->v6)
		return true;
	/* RoCE devices send no UDP checksum, which the kernel drops for IPv6 */
	return socket_set(s, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1) &&
	       socket_set(s, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) &&
	       socket_set(s, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) &&
	       socket_set(s, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1) &&
	       socket_set(s, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64) &&
	       socket_set(s, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 64) &&
	       (!s->any || socket_set(s, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
}

/* A sandbox may lack offloads that every kernel has. tell: logs it. */
static void
set_offloads(struct port_socket *s, bool tell)
{
	s->tx.gso = socket_set(s, IPPROTO_UDP, UDP_SEGMENT, 0);
	if (!s->tx.gso && tell)
		PORT_LOG(NOTICE, s->name,
			 "this kernel has no UDP_SEGMENT: sending one datagram per call");
	socket_set(s, SOL_SOCKET, SO_RXQ_OVFL, 1);
	if (!socket_set(s, IPPROTO_UDP, UDP_GRO, 1) && tell)
		PORT_LOG(NOTICE, s->name,
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
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, p->qpn_mask),
		BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, p->nrxq),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = {.len = RTE_DIM(code), .filter = code};

	if (setsockopt(p->sockets->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
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
bind_queue(const struct port *p, const struct port_socket *s)
{
	int rc;

	if (s != p->sockets && !socket_set(s, SOL_SOCKET, SO_REUSEPORT, 1))
		return -errno;
	rc = bind_socket(s, p->netdev);
	if (rc == 0 && s == p->sockets && p->nrxq > 1 &&
	    !socket_set(s, SOL_SOCKET, SO_REUSEPORT, 1))
		rc = -errno;
	return rc;
}

static int
open_socket(struct port *p, struct port_socket *s)
{
	int rc = make_socket(s);

	if (rc == 0 && !set_headers(s))
		rc = -errno;
	if (rc == 0) {
		set_groups(s);
		socket_buffers(s, s == p->sockets);
		set_offloads(s, s == p->sockets);
		rc = bind_queue(p, s);
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

int
udp_find(struct port *p, const struct port_params *params)
{
	int rc = find_host(p, params);

	if (rc == 0)
		find_mac(p);
	return rc;
}

int
udp_open(struct port *p)
{
	struct port_socket *s = p->sockets;
	int rc = 0;

	for (uint16_t q = 0; q < p->nrxq && rc == 0; q++) {
		s[q].any = s->any;
		memcpy(s[q].gid, s->gid, sizeof(s->gid));
		s[q].ifindex = s->ifindex;
		rc = open_socket(p, &s[q]);
	}
	if (rc == 0 && p->nrxq > 1 && steer(p) != 0)
		PORT_LOG(
			NOTICE, p->name,
			"this kernel does not steer packets by QPN: workers pass them on, which is "
			"slower");
	return rc;
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
	const struct port_socket *s = p->sockets;

	if (!s->any)
		return host_netdev_of(s->gid, p->netdev) != -EADDRNOTAVAIL;
	/* a socket is bound to its interface by index, whatever its name; not to one made later */
	return if_indextoname(s->ifindex, p->netdev) != NULL || !no_such_interface(errno);
}

int
port_udp_addrs(const struct port *p, struct net_addr *addr, uint32_t max)
{
	const struct port_socket *s = p->sockets;
	char netdev[IF_NAMESIZE];

	if (!s->any)
		return host_addrs(NULL, s->gid, addr, max);
	if (if_indextoname(s->ifindex, netdev) == NULL)
		return no_such_interface(errno) ? 0 : -errno;
	return host_addrs(netdev, NULL, addr, max);
}

/*
 * Multicast groups of a port udp. The first socket joins them: the kernel gives a datagram to a
 * group to every socket that has joined it.
 */

/* Joins or leaves a group. Returns 0 or -errno. */
static int
group_change(const struct port_socket *s, const uint8_t gid[16], bool join)
{
	struct ip_mreqn v4 = {.imr_ifindex = (int)s->ifindex};
	struct ipv6_mreq v6 = {.ipv6mr_interface = s->ifindex};
	int rc;

	if (net_gid_is_v4(gid)) {
		memcpy(&v4.imr_multiaddr, gid + 12, 4);
		rc = setsockopt(s->fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
				&v4, sizeof(v4));
	} else {
		memcpy(&v6.ipv6mr_multiaddr, gid, 16);
		rc = setsockopt(s->fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &v6,
				sizeof(v6));
	}
	return rc == 0 ? 0 : -errno;
}

bool
port_takes_groups(const struct port *p)
{
	return p->kind != PORT_UDP || p->sockets->any;
}

int
port_group_join(const struct port *p, const uint8_t gid[16])
{
	if (p->kind != PORT_UDP)
		return 0;
	return p->sockets->any ? group_change(p->sockets, gid, true) : -EOPNOTSUPP;
}

void
port_group_leave(const struct port *p, const uint8_t gid[16])
{
	if (p->kind == PORT_UDP)
		(void)group_change(p->sockets, gid, false);
}

/* ---- addresses and control messages of a message ---- */

/* Sets destination and source, for an IPv4 socket. */
static void
put_v4(const struct port_socket *s, const struct udp_head *h, struct msghdr *msg)
{
	const struct wire_ipv4 *ip = (const struct wire_ipv4 *)h->ip;
	struct sockaddr_in *to = msg->msg_name;

	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};
	memcpy(&to->sin_addr, ip->dst, 4);
	msg->msg_namelen = sizeof(*to);
	if (s->any) {
		struct in_pktinfo info = {0};

		memcpy(&info.ipi_spec_dst, ip->src, 4);
		socket_control_put(msg, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	}
}

/* The same for an IPv6 socket, which handles both families. */
static void
put_v6(const struct port_socket *s, const struct udp_head *h, struct msghdr *msg)
{
	const struct wire_ipv4 *v4 = (const struct wire_ipv4 *)h->ip;
	const struct wire_ipv6 *v6 = (const struct wire_ipv6 *)h->ip;
	struct sockaddr_in6 *to = msg->msg_name;
	struct in6_pktinfo info = {0};

	*to = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT)};
	if (h->v6) {
		memcpy(&to->sin6_addr, v6->dst, 16);
		memcpy(&info.ipi6_addr, v6->src, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&to->sin6_addr) ||
		    IN6_IS_ADDR_MC_LINKLOCAL(&to->sin6_addr))
			to->sin6_scope_id = s->ifindex;
	} else {
		net_gid_from_v4(to->sin6_addr.s6_addr, v4->dst);
		net_gid_from_v4(info.ipi6_addr.s6_addr, v4->src);
	}
	msg->msg_namelen = sizeof(*to);
	if (s->any)
		socket_control_put(msg, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
}

/* Adds class and hop limit, if they differ from the socket's. */
static inline void
class_put(struct msghdr *msg, int level, int tos_type, int tos, int ttl_type, int ttl)
{
	if (tos != 0)
		socket_control_put(msg, level, tos_type, &tos, sizeof(tos));
	if (ttl != NET_HOP_LIMIT)
		socket_control_put(msg, level, ttl_type, &ttl, sizeof(ttl));
}

void
udp_message_put(const struct port_socket *s, const struct udp_head *h, uint16_t gso,
		struct msghdr *msg)
{
	const uint8_t *ip = h->ip;

	msg->msg_controllen = 0;
	if (s->v6)
		put_v6(s, h, msg);
	else
		put_v4(s, h, msg);
	if (h->v6)
		class_put(msg, IPPROTO_IPV6, IPV6_TCLASS, (ip[0] << 4 | ip[1] >> 4) & 0xff,
			  IPV6_HOPLIMIT, ip[7]);
	else
		class_put(msg, IPPROTO_IP, IP_TOS, ip[1], IP_TTL, ip[8]);
	if (gso != 0)
		socket_control_put(msg, IPPROTO_UDP, UDP_SEGMENT, &gso, sizeof(gso));
}

static int
int_of(const struct cmsghdr *c)
{
	int value = 0;

	if (c->cmsg_len == CMSG_LEN(1)) /* IP_TOS */
		return *(const uint8_t *)CMSG_DATA(c);
	if (c->cmsg_len >= CMSG_LEN(sizeof(value)))
		memcpy(&value, CMSG_DATA(c), sizeof(value));
	return value;
}

/* Reads one control message. Sets *gso if it has the segment length. */
static void
control_take(struct port_socket *s, const struct cmsghdr *c, struct udp_from *from, int *gso)
{
	switch (c->cmsg_level << 16 | c->cmsg_type) {
	case SOL_SOCKET << 16 | SO_RXQ_OVFL:
		s->stats.rx_socket_full = (uint32_t)int_of(c);
		break;
	case IPPROTO_UDP << 16 | UDP_GRO:
		*gso = int_of(c);
		break;
	case IPPROTO_IP << 16 | IP_TOS:
	case IPPROTO_IPV6 << 16 | IPV6_TCLASS:
		from->tos = (uint8_t)int_of(c);
		break;
	case IPPROTO_IP << 16 | IP_TTL:
	case IPPROTO_IPV6 << 16 | IPV6_HOPLIMIT:
		from->ttl = (uint8_t)int_of(c);
		break;
	case IPPROTO_IP << 16 | IP_PKTINFO:
		net_gid_from_v4(
			from->dst,
			(const uint8_t *)&((const struct in_pktinfo *)CMSG_DATA(c))->ipi_addr);
		break;
	case IPPROTO_IPV6 << 16 | IPV6_PKTINFO:
		memcpy(from->dst, &((const struct in6_pktinfo *)CMSG_DATA(c))->ipi6_addr, 16);
		break;
	default:
		break;
	}
}

void
udp_message_read(struct port_socket *s, struct msghdr *msg, uint32_t len, struct socket_head *head)
{
	const union socket_address *at = msg->msg_name;
	struct udp_from from = {.ttl = 1};
	int gso = 0;

	memcpy(from.dst, s->gid, 16);
	if (at->v4.sin_family == AF_INET) {
		net_gid_from_v4(from.src, (const uint8_t *)&at->v4.sin_addr);
		from.sport = ntohs(at->v4.sin_port);
	} else {
		memcpy(from.src, &at->v6.sin6_addr, 16);
		from.sport = ntohs(at->v6.sin6_port);
		from.v6 = !IN6_IS_ADDR_V4MAPPED(&at->v6.sin6_addr);
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c))
		control_take(s, c, &from, &gso);
	head->in_len = 0;
	head->bytes = len;
	head->gso = gso <= 0 || (uint32_t)gso > len ? len : (uint32_t)gso;
	head->hdr_len = udp_headers_put(head->hdr, s->mac, &from, head->gso);
	head->ip_at = WIRE_ETH_LEN;
	head->v6 = from.v6;
	head->roce = true;
	head->id = 0; /* the socket does not report it */
}
