/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts messages to frames. A super-frame holds consecutive datagrams of one length, each of
 * which needs headers in front of it in a separate buffer. A message is therefore received into
 * chunks of the length that the last long super-frame's datagrams had, each in its own packet
 * buffer behind space for headers: if the length is the same again, the kernel's copy has cut the
 * message. Otherwise the datagrams are copied once, like those behind the last chunk. A single
 * datagram that is no longer than a chunk is never copied.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include "port/log.h"
#include "port/socket.h"
#include "port/udp.h"
#include "wire/hdr.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define BULK_MSGS  4   /* per recvmmsg while long super-frames come: more would leave the cache */
#define BULK_CALLS 64  /* without a long super-frame before none is expected any more */
#define CHUNK_MIN  512 /* shorter datagrams cost less to copy than to scatter */
#define ROOM_FRONT 64  /* space for headers in front of a payload */
_Static_assert(ROOM_FRONT >= UDP_HDR_MAX, "headers fit");

static uint8_t *
payload_of(struct rte_mbuf *m)
{
	return (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM + ROOM_FRONT;
}

/* Fills the slot with up to want buffers. Returns false if there is none at all. */
static bool
slot_fill(struct port_udp *u, struct udp_slot *s, uint32_t want)
{
	uint32_t have = 0;

	for (uint32_t i = 0; i < s->nm; i++) {
		if (s->m[i] != NULL)
			s->m[have++] = s->m[i];
	}
	if (have < want && udp_buffers_take(u->pool, s->m + have, want - have))
		have = want;
	if (have == 0 && (s->m[0] = rte_pktmbuf_alloc(u->pool)) != NULL)
		have = 1;
	s->nm = have;
	s->chunk = u->rx.chunk;
	for (uint32_t i = 0; i < have; i++)
		s->iov[i] = (struct iovec){payload_of(s->m[i]), s->chunk};
	s->iov[have] = (struct iovec){s->spill, UDP_SPILL};
	return have != 0;
}

/* Prepares n messages. Returns how many got buffers. */
static uint32_t
slots_fill(struct port_udp *u, uint32_t n)
{
	uint32_t want = u->rx.bulk == 0 ? 1 : UDP_BYTES_MAX / u->rx.chunk + 1, i;

	if (want > UDP_SEGS_MAX)
		want = UDP_SEGS_MAX;
	for (i = 0; i < n; i++) {
		struct udp_slot *s = &u->rx.slot[i];

		if (s->fresh && s->chunk == u->rx.chunk && s->nm >= want)
			continue;
		if (!slot_fill(u, s, want))
			break;
		s->fresh = true;
		u->rx.msg[i].msg_hdr = (struct msghdr){
			.msg_name = &s->from,
			.msg_namelen = sizeof(s->from),
			.msg_iov = s->iov,
			.msg_iovlen = s->nm + 1,
			.msg_control = s->control,
			.msg_controllen = sizeof(s->control),
		};
	}
	return i;
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

static void
gid_of_v4(uint8_t gid[16], const void *v4)
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, v4, 4);
}

/* Reads one control message. Sets *gso if it has the segment length. */
static void
control_take(struct port_udp *u, const struct cmsghdr *c, struct udp_from *from, int *gso)
{
	switch (c->cmsg_level << 16 | c->cmsg_type) {
	case SOL_SOCKET << 16 | SO_RXQ_OVFL:
		u->stats.rx_socket_full = (uint32_t)int_of(c);
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
		gid_of_v4(from->dst, &((const struct in_pktinfo *)CMSG_DATA(c))->ipi_addr);
		break;
	case IPPROTO_IPV6 << 16 | IPV6_PKTINFO:
		memcpy(from->dst, &((const struct in6_pktinfo *)CMSG_DATA(c))->ipi6_addr, 16);
		break;
	default:
		break;
	}
}

/* Reads the message's addresses. Returns its segment length or 0. */
static int
message_read(struct port_udp *u, struct msghdr *msg, struct udp_from *from)
{
	const struct sockaddr_in6 *in6 = msg->msg_name;
	const struct sockaddr_in *in = msg->msg_name;
	int gso = 0;

	*from = (struct udp_from){.ttl = 1};
	memcpy(from->dst, u->gid, 16);
	if (in->sin_family == AF_INET) {
		gid_of_v4(from->src, &in->sin_addr);
		from->sport = ntohs(in->sin_port);
	} else {
		memcpy(from->src, &in6->sin6_addr, 16);
		from->sport = ntohs(in6->sin6_port);
		from->v6 = !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c))
		control_take(u, c, from, &gso);
	return gso;
}

/* Headers of a super-frame's segments, all of one length, and what changes their ICRCs. */
struct segment_head {
	uint8_t hdr[UDP_HDR_MAX];
	uint32_t hdr_len, payload;
	/*
	 * Segment k has identification k if its sender's kernel assigned it and the super-frame was
	 * not cut on the way. The engine sees identification 0, so its ICRC differs by change[k].
	 * NULL: there is no such difference.
	 */
	const uint32_t *change;
};

static void
head_make(struct port_udp *u, struct segment_head *h, const struct udp_from *from, uint32_t payload)
{
	h->hdr_len = udp_headers_put(h->hdr, u->mac, from, payload);
	h->payload = payload;
	h->change = NULL;
	if (!from->v6 && payload >= WIRE_BTH_LEN + WIRE_ICRC_LEN)
		h->change = udp_icrc_row_of(&u->rows, payload)->change;
}

/* Makes a frame of m, which has the payload of segment k, and queues it. */
static void
frame_finish(struct port_udp *u, struct rte_mbuf *m, const struct segment_head *h, uint32_t k)
{
	uint32_t hdr_len = h->hdr_len, payload = h->payload;
	uint8_t *data = payload_of(m);

	if (likely(hdr_len == UDP_HDR_V4)) /* a constant length costs less */
		memcpy(data - UDP_HDR_V4, h->hdr, UDP_HDR_V4);
	else
		memcpy(data - hdr_len, h->hdr, hdr_len);
	m->data_off = (uint16_t)(data - hdr_len - (uint8_t *)m->buf_addr);
	m->data_len = (uint16_t)(hdr_len + payload);
	m->pkt_len = m->data_len;
	if (k != 0 && k < UDP_SEGS_MAX && h->change != NULL) {
		uint8_t *at = data + payload - WIRE_ICRC_LEN;
		uint32_t icrc;

		memcpy(&icrc, at, sizeof(icrc));
		icrc ^= h->change[k];
		memcpy(at, &icrc, sizeof(icrc));
	}
	u->rx.ready[u->rx.ready_n++] = m;
}

/* Returns a buffer with bytes off .. off + len of the slot; NULL: no buffer. */
static struct rte_mbuf *
segment_copy(struct port_udp *u, struct udp_slot *s, uint32_t off, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(u->pool);

	if (m == NULL) {
		u->stats.rx_no_buffer++;
		return NULL;
	}
	udp_copy_out(s->iov, s->nm + 1, off, payload_of(m), len);
	u->stats.rx_copied++;
	return m;
}

/* Returns the buffer with segment i, of len bytes, of a super-frame with segments of gso bytes. */
static struct rte_mbuf *
segment_take(struct port_udp *u, struct udp_slot *s, uint32_t i, uint32_t gso, uint32_t len)
{
	struct rte_mbuf *m;

	if (gso != s->chunk || i >= s->nm)
		return segment_copy(u, s, i * gso, len);
	m = s->m[i];
	s->m[i] = NULL;
	return m;
}

static void
super_frame_cut(struct port_udp *u, struct udp_slot *s, const struct udp_from *from, uint32_t bytes,
		uint32_t gso)
{
	struct segment_head h;
	uint32_t len = gso;

	head_make(u, &h, from, gso);
	for (uint32_t i = 0, off = 0; off < bytes; i++, off += len) {
		struct rte_mbuf *m;

		if (bytes - off < gso) {
			len = bytes - off;
			head_make(u, &h, from, len);
		}
		m = segment_take(u, s, i, gso, len);
		if (m != NULL)
			frame_finish(u, m, &h, i);
	}
	/* two may be a coincidence; more are a stream */
	if (gso < CHUNK_MIN || bytes <= 2 * gso)
		return;
	u->rx.bulk = BULK_CALLS;
	u->rx.chunk = gso;
}

static void
datagram_take(struct port_udp *u, struct udp_slot *s, const struct udp_from *from, uint32_t bytes)
{
	struct rte_mbuf *m = s->m[0];
	struct segment_head h;

	if (bytes > s->chunk)
		udp_copy_out(s->iov + 1, s->nm, 0, payload_of(m) + s->chunk, bytes - s->chunk);
	s->m[0] = NULL;
	head_make(u, &h, from, bytes);
	frame_finish(u, m, &h, 0);
}

/* Converts one message of bytes bytes. */
static void
message_cut(struct port_udp *u, struct udp_slot *s, struct msghdr *msg, uint32_t bytes)
{
	struct udp_from from;
	int gso = message_read(u, msg, &from);

	u->stats.rx_messages++;
	if (gso <= 0 || (uint32_t)gso >= bytes)
		gso = (int)bytes;
	if (msg->msg_flags & MSG_TRUNC) {
		u->stats.rx_truncated++;
	} else if ((uint32_t)gso > u->rx.room) {
		u->stats.rx_too_long++;
	} else if ((uint32_t)gso == bytes) {
		datagram_take(u, s, &from, bytes);
	} else if (bytes > UDP_RX_SEGS_MAX * (uint32_t)gso) {
		u->stats.rx_too_many++;
	} else {
		super_frame_cut(u, s, &from, bytes, (uint32_t)gso);
	}
}

/* Receives waiting messages, at most one batch. */
static void
receive(struct port_udp *u)
{
	struct udp_rx *rx = &u->rx;
	uint32_t n = slots_fill(u, rx->bulk != 0 ? BULK_MSGS : UDP_RX_MSGS);
	int got;

	rx->ready_n = rx->ready_at = 0;
	if (n == 0) {
		u->stats.rx_no_buffer++;
		return;
	}
	got = recvmmsg(u->fd, rx->msg, n, MSG_DONTWAIT, NULL);
	if (got < 0 && errno != EAGAIN && errno != EINTR)
		port_socket_failed(u->name, errno, rx->said, &u->stats.rx_errors);
	if (got <= 0)
		return;
	if (rx->bulk != 0)
		rx->bulk--;
	for (int i = 0; i < got; i++) {
		rx->slot[i].fresh = false;
		message_cut(u, &rx->slot[i], &rx->msg[i].msg_hdr, rx->msg[i].msg_len);
	}
}

uint16_t
port_udp_rx(struct port_udp *u, struct rte_mbuf **m, uint16_t n)
{
	struct udp_rx *rx = &u->rx;

	if (rx->ready_at == rx->ready_n)
		receive(u);
	return port_ready_take(m, n, rx->ready, &rx->ready_at, rx->ready_n);
}
