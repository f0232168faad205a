/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts frames to messages. The kernel makes the IP header: segment k of a super-frame gets
 * identification k, and a single datagram 0, because the socket is not connected and sets DF. The
 * engine's ICRC matches the identification in its own header, so the message has a changed copy.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include "net/frame.h"
#include "port/log.h"
#include "port/udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* Appends a control message. */
static void
control_put(struct msghdr *msg, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)msg->msg_control + msg->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	msg->msg_controllen += CMSG_SPACE(len);
}

/* Makes a GID of an IPv4 address in network order. */
static void
mapped(uint8_t gid[16], const uint8_t v4[4])
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, v4, 4);
}

/* Sets destination and source. */
static void
message_address(const struct port_udp *u, const struct udp_head *h, struct msghdr *msg)
{
	const struct wire_ipv4 *v4 = (const struct wire_ipv4 *)h->ip;
	const struct wire_ipv6 *v6 = (const struct wire_ipv6 *)h->ip;

	if (!u->v6) {
		struct in_pktinfo info = {0};

		*(struct sockaddr_in *)msg->msg_name = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(WIRE_UDP_PORT),
		};
		memcpy(&((struct sockaddr_in *)msg->msg_name)->sin_addr, v4->dst, 4);
		msg->msg_namelen = sizeof(struct sockaddr_in);
		memcpy(&info.ipi_spec_dst, v4->src, 4);
		if (u->any)
			control_put(msg, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	} else {
		struct sockaddr_in6 *to = msg->msg_name;
		struct in6_pktinfo info = {0};

		*to = (struct sockaddr_in6){
			.sin6_family = AF_INET6,
			.sin6_port = htons(WIRE_UDP_PORT),
		};
		if (h->v6) {
			memcpy(&to->sin6_addr, v6->dst, 16);
			memcpy(&info.ipi6_addr, v6->src, 16);
			if (IN6_IS_ADDR_LINKLOCAL(&to->sin6_addr) ||
			    IN6_IS_ADDR_MC_LINKLOCAL(&to->sin6_addr))
				to->sin6_scope_id = u->ifindex;
		} else {
			mapped(to->sin6_addr.s6_addr, v4->dst);
			mapped(info.ipi6_addr.s6_addr, v4->src);
		}
		msg->msg_namelen = sizeof(*to);
		if (u->any)
			control_put(msg, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	}
}

/* Adds class and hop limit, if they differ from the socket's. */
static void
message_class(const struct udp_head *h, struct msghdr *msg)
{
	int tos = h->v6 ? (h->ip[0] << 4 | h->ip[1] >> 4) & 0xff : h->ip[1];
	int ttl = h->v6 ? h->ip[7] : h->ip[8];

	if (tos != 0)
		control_put(msg, h->v6 ? IPPROTO_IPV6 : IPPROTO_IP, h->v6 ? IPV6_TCLASS : IP_TOS,
			    &tos, sizeof(tos));
	if (ttl != NET_HOP_LIMIT)
		control_put(msg, h->v6 ? IPPROTO_IPV6 : IPPROTO_IP, h->v6 ? IPV6_HOPLIMIT : IP_TTL,
			    &ttl, sizeof(ttl));
}

/*
 * Makes message i of the run m[0 .. n), whose first headers are *h, of *space, and moves *space
 * behind it.
 */
static void
message_make(struct port_udp *u, uint32_t i, struct rte_mbuf *const *m, uint32_t n,
	     const struct udp_head *h, struct udp_pieces *space)
{
	struct udp_tx *tx = &u->tx;
	struct msghdr *msg = &tx->msg[i].msg_hdr;

	*msg = (struct msghdr){
		.msg_name = &tx->to[i],
		.msg_iov = space->iov,
		.msg_control = tx->control[i],
	};
	message_address(u, h, msg);
	message_class(h, msg);
	if (n > 1)
		control_put(msg, IPPROTO_UDP, UDP_SEGMENT, &h->payload, sizeof(h->payload));
	space->n = 0;
	for (uint32_t k = 0; k < n; k++)
		udp_frame_put(space, m[k], h->hdr_len,
			      udp_icrc_change(&u->rows, h, m[k]->pkt_len - h->hdr_len,
					      (uint16_t)k));
	msg->msg_iovlen = space->n;
	space->iov += space->n;
	tx->frames[i] = n;
}

/*
 * Makes messages of m[0 .. n), n > 0, as many as there is space for. Returns how many; 0: m[0] is
 * not UDP.
 */
static uint32_t
messages_make(struct port_udp *u, struct rte_mbuf *const *m, uint32_t n)
{
	struct udp_tx *tx = &u->tx;
	struct udp_pieces space = {.iov = tx->iov, .stage = tx->stage};
	uint32_t i = 0, at = 0;
	struct udp_head h;

	while (i < UDP_TX_MSGS && at < n && space.iov <= tx->iov + UDP_TX_IOVS &&
	       space.stage <= tx->stage + UDP_TX_STAGE) {
		uint32_t run = 1;

		if (!udp_head_read(m[at], &h))
			break;
		if (tx->gso && tx->single <= at)
			run = udp_run(m + at, n - at, &h, UDP_SEGS_MAX);
		message_make(u, i, m + at, run, &h, &space);
		at += run;
		i++;
	}
	return i;
}

static void
lose(struct port_udp *u, uint32_t frames, int err)
{
	__atomic_store_n(&u->stats.tx_lost, u->stats.tx_lost + frames, __ATOMIC_RELAXED);
	if (err <= 0 || err >= 192 || (u->said[err / 64] >> err % 64 & 1))
		return;
	u->said[err / 64] |= 1ull << err % 64;
	PORT_LOG(WARNING, u->name, "cannot send: %s; packets are lost (logged once)",
		 strerror(err));
}

/*
 * Handles a failed message of n frames, after `before` frames that are done. Returns true if it
 * must be made again, differently.
 */
static bool
refused(struct port_udp *u, uint32_t before, uint32_t n, int err)
{
	struct udp_tx *tx = &u->tx;

	if (n > 1 && err == EIO) {
		PORT_LOG(NOTICE, u->name,
			 "the kernel does not segment (UDP_SEGMENT) on this route: sending one "
			 "datagram per call, which is slower");
		tx->gso = false;
		return true;
	}
	if (n > 1 && (err == EINVAL || err == EMSGSIZE)) {
		tx->single = before + n;
		return true;
	}
	return false;
}

/* Sends the messages. Returns the frames that are done, sent or lost. *blocked: socket full. */
static uint32_t
messages_send(struct port_udp *u, uint32_t n, bool *blocked)
{
	struct udp_tx *tx = &u->tx;
	uint32_t done = 0, i = 0, sent;

	while (i < n) {
		int rc = sendmmsg(u->fd, tx->msg + i, n - i, MSG_DONTWAIT), err = errno;

		for (sent = rc > 0 ? (uint32_t)rc : 0; sent > 0; sent--) {
			u->stats.tx_messages++;
			done += tx->frames[i++];
		}
		if (rc > 0 || err == EINTR)
			continue;
		*blocked = err == EAGAIN || err == ENOBUFS || err == ENOMEM;
		if (*blocked || refused(u, done, tx->frames[i], err))
			break;
		lose(u, tx->frames[i], err);
		done += tx->frames[i++];
	}
	return done;
}

uint16_t
port_udp_tx(struct port_udp *u, struct rte_mbuf **m, uint16_t n)
{
	bool blocked = false;
	uint32_t at = 0;

	while (at < n && !blocked) {
		uint32_t messages = messages_make(u, m + at, n - at), done;

		if (messages == 0) { /* not UDP: the kernel sends such packets itself */
			rte_pktmbuf_free(m[at++]);
			continue;
		}
		done = messages_send(u, messages, &blocked);
		rte_pktmbuf_free_bulk(m + at, done);
		at += done;
		u->tx.single = u->tx.single > done ? u->tx.single - done : 0;
	}
	return (uint16_t)at;
}
