/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts messages to frames. A super-frame holds consecutive segments of one length, each of
 * which needs headers in front of it in a separate buffer. A message is therefore received into
 * chunks of the length that the last long super-frame's segments had, each in its own packet
 * buffer behind space for headers: if the length is the same again, the kernel's copy has cut the
 * message. Otherwise the segments are copied once, like those behind the last chunk. A lone frame
 * that is no longer than header and chunk is never copied.
 *
 * Segment k of a super-frame has the headers of the super-frame, with its own lengths. Over IPv4 it
 * has the identification of the super-frame plus k if the sender's kernel assigned it. The engine
 * is quicker if all segments have equal headers, so they keep the identification of the
 * super-frame, and their ICRCs are changed to match. Only segments that are not RoCE get their
 * identifications.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "port/log.h"
#include "port/socket.h"
#include "wire/csum.h"

#define BULK_MSGS  4   /* per recvmmsg while long super-frames come: more would leave the cache */
#define BULK_CALLS 64  /* without a long super-frame before none is expected any more */
#define CHUNK_MIN  512 /* shorter segments cost less to copy than to scatter */
#define ROOM_FRONT 64  /* space for headers in front of a payload, besides the headroom */
#define FLOW_TRUST 32  /* super-frames of a flow between two looks at its identifications */
_Static_assert(ROOM_FRONT >= UDP_HDR_MAX, "headers fit");
_Static_assert(ROOM_FRONT + RTE_PKTMBUF_HEADROOM >= PACKET_HDR_MAX + WIRE_VLAN_LEN, "headers fit");

static uint8_t *
payload_of(const struct rte_mbuf *m)
{
	return (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM + ROOM_FRONT;
}

int
socket_init(struct port_socket *s, struct rte_mempool *pool, uint32_t mtu)
{
	struct socket_rx *rx = &s->rx;

	s->pool = pool;
	rx->room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM - ROOM_FRONT;
	if (mtu > rx->room || mtu <= WIRE_IPV6_LEN + WIRE_UDP_LEN)
		return -EINVAL;
	rx->hdr = s->packet ? UDP_HDR_V4 : 0;
	rx->chunk = mtu - WIRE_IPV4_LEN - WIRE_UDP_LEN;
	for (uint32_t i = 0; i < SOCKET_TX_MSGS && !s->packet; i++) {
		s->tx.msg[i].msg_hdr.msg_name = &s->tx.to[i];
		s->tx.msg[i].msg_hdr.msg_control = s->tx.head[i];
	}
	for (uint32_t i = 0; i < SOCKET_RX_MSGS; i++) {
		struct socket_slot *slot = &rx->slot[i];

		slot->iov[0] = (struct iovec){&slot->vnet, sizeof(slot->vnet)};
		rx->msg[i].msg_hdr.msg_iov = s->packet ? slot->iov : slot->iov + 1;
		rx->msg[i].msg_hdr.msg_name = s->packet ? NULL : &slot->from;
		rx->msg[i].msg_hdr.msg_control = slot->control;
		slot->spill = malloc(SOCKET_SPILL);
		if (slot->spill == NULL)
			return -ENOMEM;
	}
	return 0;
}

void
socket_fini(struct port_socket *s)
{
	struct socket_rx *rx = &s->rx;

	for (uint32_t i = 0; i < SOCKET_RX_MSGS; i++) {
		for (uint32_t k = 0; k < rx->slot[i].nm; k++)
			rte_pktmbuf_free(rx->slot[i].m[k]);
		free(rx->slot[i].spill);
	}
	rte_pktmbuf_free_bulk(rx->ready + rx->ready_at, rx->ready_n - rx->ready_at);
}

/* Fills the slot with up to want buffers. Returns false if there is none at all. */
static bool
slot_fill(struct port_socket *s, struct socket_slot *slot, uint32_t want)
{
	uint32_t have = 0;

	for (uint32_t i = 0; i < slot->nm; i++) {
		if (slot->m[i] != NULL)
			slot->m[have++] = slot->m[i];
	}
	if (have < want && udp_buffers_take(s->pool, slot->m + have, want - have))
		have = want;
	if (have == 0 && (slot->m[0] = rte_pktmbuf_alloc(s->pool)) != NULL)
		have = 1;
	slot->nm = have;
	slot->chunk = s->rx.chunk;
	slot->hdr = s->rx.hdr;
	if (have == 0)
		return false;
	slot->iov[1] = (struct iovec){payload_of(slot->m[0]) - slot->hdr, slot->hdr + slot->chunk};
	for (uint32_t i = 1; i < have; i++)
		slot->iov[1 + i] = (struct iovec){payload_of(slot->m[i]), slot->chunk};
	slot->iov[1 + have] = (struct iovec){slot->spill, SOCKET_SPILL};
	return true;
}

/* Prepares n messages. Returns how many got buffers. */
static uint32_t
slots_fill(struct port_socket *s, uint32_t n)
{
	struct socket_rx *rx = &s->rx;
	uint32_t want = rx->bulk == 0 ? 1 : UDP_BYTES_MAX / rx->chunk + 1, i;

	if (want > UDP_SEGS_MAX)
		want = UDP_SEGS_MAX;
	for (i = 0; i < n; i++) {
		struct socket_slot *slot = &rx->slot[i];
		struct msghdr *msg = &rx->msg[i].msg_hdr;

		if (slot->fresh && slot->chunk == rx->chunk && slot->hdr == rx->hdr &&
		    slot->nm >= want)
			continue;
		if (!slot_fill(s, slot, want))
			break;
		slot->fresh = true;
		msg->msg_iovlen = s->packet ? slot->nm + 2 : slot->nm + 1;
		msg->msg_namelen = s->packet ? 0 : sizeof(slot->from);
		msg->msg_controllen = sizeof(slot->control);
	}
	return i;
}

/* A super-frame that is being cut. */
struct cut {
	struct socket_slot *slot;
	struct socket_head *head;
	uint32_t in_place; /* segments that the receive call's copy has cut */
	bool fixed;        /* the ICRCs of all segments are for head->id */
	/* Changes of the ICRCs of segments of this length; NULL: they have none, or stay. */
	const struct udp_icrc_row *row;
};

/* Queues the frame of len bytes in m, with hdr_len bytes of headers put in front of them. */
static inline void
ready(struct socket_rx *rx, struct rte_mbuf *m, uint8_t *at, uint32_t len,
      const struct socket_head *head)
{
	uint32_t hdr_len = head->hdr_len;

	if (likely(hdr_len == UDP_HDR_V4)) /* a constant length costs less */
		memcpy(at - UDP_HDR_V4, head->hdr, UDP_HDR_V4);
	else
		memcpy(at - hdr_len, head->hdr, hdr_len);
	m->data_off = (uint16_t)(at - hdr_len - (uint8_t *)m->buf_addr);
	m->data_len = (uint16_t)(hdr_len + len);
	m->pkt_len = m->data_len;
	rx->ready[rx->ready_n++] = m;
}

/* Takes a message that is one frame. */
static void
lone_take(struct port_socket *s, struct socket_slot *slot, const struct socket_head *head)
{
	struct rte_mbuf *m = slot->m[0];
	uint8_t *frame = slot->iov[1].iov_base;
	uint32_t len = head->in_len + head->bytes, in_place = slot->hdr + slot->chunk;

	if (len > s->rx.room + slot->hdr) {
		s->stats.rx_too_long++;
		return;
	}
	if (len > in_place)
		udp_copy_out(slot->iov + 2, slot->nm, 0, frame + in_place, len - in_place);
	slot->m[0] = NULL;
	ready(&s->rx, m, frame + head->in_len, head->bytes, head);
}

/* Returns the flow's entry, new if it had none. */
static struct socket_flow *
flow_of(struct socket_rx *rx, const struct wire_ipv4 *v4)
{
	struct socket_flow *f;
	uint32_t key, ports;

	memcpy(&key, v4->src, sizeof(key));
	memcpy(&ports, v4 + 1, sizeof(ports));
	key = (key ^ ports * 2654435761u) | 1;
	f = &rx->flow[(key ^ key >> 12) / 2 % SOCKET_FLOWS];
	if (f->key != key)
		*f = (struct socket_flow){.key = key};
	return f;
}

/* Sets the identification of the frame at ip to that of segment k, and its checksum. */
static void
id_put(const struct cut *cut, uint8_t *ip, uint32_t k)
{
	struct wire_ipv4 *v4 = (struct wire_ipv4 *)ip;

	v4->id = rte_cpu_to_be_16((uint16_t)(cut->head->id + k));
	v4->csum = 0;
	v4->csum = (rte_be16_t)~wire_ipv4_sum(v4);
}

/* Returns the change of an ICRC between the identifications of the first segment and segment k. */
static inline uint32_t
icrc_change(const struct cut *cut, uint32_t k)
{
	return udp_icrc_row_change(cut->row, cut->head->id ^ (uint16_t)(cut->head->id + k));
}

/*
 * Looks whether the ICRC of segment 1, complete in m, is that of the identification in its header,
 * which is the first segment's, or of the next one.
 */
static void
ids_look(struct socket_rx *rx, struct cut *cut, const struct rte_mbuf *m)
{
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, cut->head->ip_at);
	const uint8_t *end =
		rte_pktmbuf_mtod_offset(m, const uint8_t *, m->data_len) - WIRE_ICRC_LEN;
	struct socket_flow *f = flow_of(rx, (const struct wire_ipv4 *)ip);
	uint32_t want, have;

	if (f->left != 0) {
		f->left--;
		cut->fixed = f->fixed;
		return;
	}
	memcpy(&have, end, sizeof(have));
	want = wire_icrc_frame(ip, false, end);
	cut->fixed = have == want;
	if (cut->fixed || (have ^ want) == icrc_change(cut, 1)) {
		f->fixed = cut->fixed;
		f->left = FLOW_TRUST;
	}
}

/* Makes header and ICRC of segment k, not the first, in m match each other. */
static inline void
segment_identify(struct port_socket *s, struct cut *cut, struct rte_mbuf *m, uint32_t k)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *), *end = frame + m->data_len - WIRE_ICRC_LEN;
	uint32_t icrc;

	if (cut->row == NULL) {
		if (!cut->head->roce && !cut->head->v6)
			id_put(cut, frame + cut->head->ip_at, k);
		return;
	}
	if (k == 1 && s->packet)
		ids_look(&s->rx, cut, m);
	if (cut->fixed) {
		cut->row = NULL;
		return;
	}
	memcpy(&icrc, end, sizeof(icrc));
	icrc ^= icrc_change(cut, k);
	memcpy(end, &icrc, sizeof(icrc));
}

/* Prepares for segments of len bytes. */
static void
cut_length(struct port_socket *s, struct cut *cut, uint32_t len)
{
	struct socket_head *head = cut->head;
	bool changes =
		head->roce && !head->v6 && !cut->fixed && len >= WIRE_BTH_LEN + WIRE_ICRC_LEN;

	udp_lengths_put(head->hdr + head->ip_at, head->v6, len);
	cut->row = changes ? udp_icrc_row_of(&s->rows, len) : NULL;
}

/* Returns a buffer with segment k, of len bytes, in its payload's place; NULL: no buffer. */
static struct rte_mbuf *
segment_take(struct port_socket *s, const struct cut *cut, uint32_t k, uint32_t len)
{
	const struct socket_head *head = cut->head;
	struct socket_slot *slot = cut->slot;
	struct rte_mbuf *m;

	if (k < cut->in_place) {
		m = slot->m[k];
		slot->m[k] = NULL;
		return m;
	}
	m = rte_pktmbuf_alloc(s->pool);
	if (m == NULL) {
		s->stats.rx_no_buffer++;
		return NULL;
	}
	udp_copy_out(slot->iov + 1, slot->nm + 1, head->in_len + k * head->gso, payload_of(m), len);
	s->stats.rx_copied++;
	return m;
}

static void
super_frame_cut(struct port_socket *s, struct socket_slot *slot, struct socket_head *head)
{
	struct cut cut = {.slot = slot, .head = head};
	uint32_t len = head->gso;

	if (len == slot->chunk && head->in_len == slot->hdr)
		cut.in_place = slot->nm;
	cut_length(s, &cut, len);
	for (uint32_t k = 0, off = 0; off < head->bytes; k++, off += len) {
		struct rte_mbuf *m;

		if (head->bytes - off < head->gso) {
			len = head->bytes - off;
			cut_length(s, &cut, len);
		}
		m = segment_take(s, &cut, k, len);
		if (m == NULL)
			continue;
		ready(&s->rx, m, payload_of(m), len, head);
		if (k != 0)
			segment_identify(s, &cut, m, k);
	}
	/* two may be a coincidence; more are a stream */
	if (head->gso < CHUNK_MIN || head->bytes <= 2 * head->gso)
		return;
	s->rx.bulk = BULK_CALLS;
	s->rx.chunk = head->gso;
	s->rx.hdr = head->in_len;
}

/* Converts message i, of len bytes. */
static void
message_take(struct port_socket *s, uint32_t i, uint32_t len)
{
	struct socket_slot *slot = &s->rx.slot[i];
	struct msghdr *msg = &s->rx.msg[i].msg_hdr;
	struct socket_head head;
	bool good = true;

	slot->fresh = false;
	s->stats.rx_messages++;
	if (s->packet)
		good = packet_message_read(s, slot, msg, len, &head);
	else
		udp_message_read(s, msg, len, &head);
	if (msg->msg_flags & MSG_TRUNC)
		s->stats.rx_truncated++;
	else if (!good)
		s->stats.rx_malformed++;
	else if (head.bytes <= head.gso)
		lone_take(s, slot, &head);
	else if (head.gso > s->rx.room)
		s->stats.rx_too_long++;
	else if (head.bytes > SOCKET_RX_SEGS * head.gso)
		s->stats.rx_too_many++;
	else
		super_frame_cut(s, slot, &head);
}

/* Counts a failed receive call, and logs each errno once. */
static void
failed(struct port_socket *s, int err)
{
	__atomic_store_n(&s->stats.rx_errors, s->stats.rx_errors + 1, __ATOMIC_RELAXED);
	/* the link state tells about an interface that goes down */
	if (err != ENETDOWN && socket_say_once(s->rx.said, err))
		PORT_LOG(WARNING, s->name, "cannot receive: %s (logged once)", strerror(err));
}

/* Receives waiting messages, at most one batch. */
static void
receive(struct port_socket *s)
{
	struct socket_rx *rx = &s->rx;
	uint32_t n = slots_fill(s, rx->bulk != 0 ? BULK_MSGS : SOCKET_RX_MSGS);
	int got;

	rx->ready_n = rx->ready_at = 0;
	if (n == 0) {
		s->stats.rx_no_buffer++;
		return;
	}
	got = recvmmsg(s->fd, rx->msg, n, MSG_DONTWAIT, NULL);
	if (got < 0 && errno != EAGAIN && errno != EINTR)
		failed(s, errno);
	if (got <= 0)
		return;
	if (rx->bulk != 0)
		rx->bulk--;
	for (int i = 0; i < got; i++)
		message_take(s, (uint32_t)i, rx->msg[i].msg_len);
}

uint16_t
port_socket_rx(struct port_socket *s, struct rte_mbuf **m, uint16_t n)
{
	struct socket_rx *rx = &s->rx;
	uint32_t left;

	if (rx->ready_at == rx->ready_n)
		receive(s);
	left = RTE_MIN(rx->ready_n - rx->ready_at, n);
	memcpy(m, rx->ready + rx->ready_at, left * sizeof(*m));
	rx->ready_at += left;
	return (uint16_t)left;
}
