/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <string.h>
#include "net/frame.h"
#include "net/net.h"
#include "port/socket.h"

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
