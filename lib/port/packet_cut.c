/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts received messages into frames. As in udp_rx.c, a message is received into chunks of the
 * length that the last long super-frame's segments had: if the length is the same again, the
 * kernel's copy has cut the message. Otherwise the segments are copied once. A lone frame that is
 * no longer than header and chunk is never copied.
 *
 * Segment k of a super-frame has the headers of the super-frame, with its own lengths. Over IPv4 it
 * would have the identification of the super-frame plus k if the kernel had cut it. The engine is
 * quicker if all segments have equal headers, so they keep the identification of the super-frame,
 * and their ICRCs are changed to match. Only segments that are not RoCE get their identifications.
 * UDP checksums become 0, because the super-frame has only one, and the ICRC covers more.
 */
#include <string.h>
#include "port/packet_seg.h"
#include "wire/csum.h"
#include "wire/icrc.h"

#define BULK_CALLS 64  /* without a long super-frame before none is expected any more */
#define CHUNK_MIN  512 /* shorter segments cost less to copy than to scatter */
#define ROOM_FRONT 64  /* space for headers in front of a payload, besides the headroom */
#define MACS_LEN   12
#define FLOW_TRUST 32 /* super-frames of a flow between two looks at its identifications */
_Static_assert(ROOM_FRONT + RTE_PKTMBUF_HEADROOM >= PACKET_HDR_MAX + WIRE_VLAN_LEN, "headers fit");

/* A super-frame that is being cut. */
struct cut {
	struct packet_slot *s;
	uint8_t hdr[PACKET_HDR_MAX + WIRE_VLAN_LEN]; /* of its segments, with the tag */
	uint32_t hdr_len;                            /* bytes in hdr */
	uint32_t ip_at;                              /* offset of the IP header in hdr */
	uint32_t in_len;                             /* bytes of headers in the message */
	uint32_t bytes, gso;                         /* UDP payload; of a segment */
	bool v6;
	bool roce;                      /* by its UDP port */
	uint16_t id;                    /* IPv4 identification of the first */
	bool fixed;                     /* the ICRCs of all segments are for that */
	const struct udp_icrc_row *row; /* for ICRCs of segments of this length; NULL: none */
};

static uint8_t *
payload_of(const struct rte_mbuf *m)
{
	return (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM + ROOM_FRONT;
}

int
packet_cutter_init(struct packet_cutter *c, struct rte_mempool *pool, uint32_t mtu,
		   struct port_udp_stats *stats)
{
	c->pool = pool;
	c->stats = stats;
	c->room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM - ROOM_FRONT;
	if (mtu > c->room || mtu <= WIRE_IPV6_LEN + WIRE_UDP_LEN)
		return -EINVAL;
	c->hdr = WIRE_ETH_LEN + WIRE_IPV4_LEN + WIRE_UDP_LEN;
	c->chunk = mtu - WIRE_IPV4_LEN - WIRE_UDP_LEN;
	return 0;
}

void
packet_cutter_fini(struct packet_cutter *c)
{
	rte_pktmbuf_free_bulk(c->ready + c->ready_at, c->ready_n - c->ready_at);
	c->ready_n = c->ready_at = 0;
}

bool
packet_slot_fill(struct packet_cutter *c, struct packet_slot *s)
{
	uint32_t want = c->bulk == 0 ? 1 : UDP_BYTES_MAX / c->chunk + 1, have = 0;

	if (want > UDP_SEGS_MAX)
		want = UDP_SEGS_MAX;
	if (s->fresh && s->chunk == c->chunk && s->hdr == c->hdr && s->nm >= want)
		return true;
	for (uint32_t i = 0; i < s->nm; i++) {
		if (s->m[i] != NULL)
			s->m[have++] = s->m[i];
	}
	if (have < want && udp_buffers_take(c->pool, s->m + have, want - have))
		have = want;
	if (have == 0 && (s->m[0] = rte_pktmbuf_alloc(c->pool)) != NULL)
		have = 1;
	s->nm = have;
	s->chunk = c->chunk;
	s->hdr = c->hdr;
	if (have == 0)
		return false;
	s->iov[0] = (struct iovec){&s->vnet, sizeof(s->vnet)};
	s->iov[1] = (struct iovec){payload_of(s->m[0]) - s->hdr, s->hdr + s->chunk};
	for (uint32_t i = 1; i < have; i++)
		s->iov[1 + i] = (struct iovec){payload_of(s->m[i]), s->chunk};
	s->iov[1 + have] = (struct iovec){s->spill, PACKET_SPILL};
	s->fresh = true;
	return true;
}

void
packet_slot_free(struct packet_slot *s)
{
	for (uint32_t i = 0; i < s->nm; i++)
		rte_pktmbuf_free(s->m[i]);
	s->nm = 0;
}

static void
ready(struct packet_cutter *c, struct rte_mbuf *m, uint8_t *frame, uint32_t len)
{
	m->data_off = (uint16_t)(frame - (uint8_t *)m->buf_addr);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	c->ready[c->ready_n++] = m;
}

/* Puts the tag that the kernel took out behind the MACs: 4 bytes at `at`. */
static void
tag_put(uint8_t *at, const struct packet_about *about)
{
	const rte_be16_t tag[2] = {rte_cpu_to_be_16(about->tpid), rte_cpu_to_be_16(about->tci)};

	memcpy(at, tag, sizeof(tag));
}

/* Takes a message that is one frame of len bytes. */
static void
frame_take(struct packet_cutter *c, struct packet_slot *s, const struct packet_about *about,
	   uint32_t len)
{
	struct rte_mbuf *m = s->m[0];
	uint8_t *frame = payload_of(m) - s->hdr;
	uint32_t in_place = s->hdr + s->chunk;

	if (len > c->room + s->hdr) {
		c->stats->rx_too_long++;
		return;
	}
	if (len > in_place)
		udp_copy_out(s->iov + 2, s->nm, 0, frame + in_place, len - in_place);
	s->m[0] = NULL;
	if (about->tagged) {
		memmove(frame - WIRE_VLAN_LEN, frame, MACS_LEN);
		frame -= WIRE_VLAN_LEN;
		len += WIRE_VLAN_LEN;
		tag_put(frame + MACS_LEN, about);
	}
	ready(c, m, frame, len);
}

/* Reads the headers of a super-frame of len bytes. Returns false if they do not fit it. */
static bool
cut_read(struct cut *cut, struct packet_slot *s, const struct packet_about *about, uint32_t len)
{
	uint32_t in_place = s->hdr + s->chunk;
	const struct wire_ipv4 *v4;
	const struct wire_udp *udp;
	struct udp_head h;
	struct rte_mbuf m = {
		.buf_addr = payload_of(s->m[0]) - s->hdr,
		.data_len = (uint16_t)(len < in_place ? len : in_place),
		.pkt_len = len,
	};

	if (!udp_head_read(&m, &h))
		return false;
	v4 = (const struct wire_ipv4 *)h.ip;
	udp = (const struct wire_udp *)(h.l2 + h.hdr_len - WIRE_UDP_LEN);
	if (rte_be_to_cpu_16(udp->len) != WIRE_UDP_LEN + h.payload ||
	    (!h.v6 && (v4->frag_off & rte_cpu_to_be_16(WIRE_IPV4_FRAG)) != 0))
		return false;
	*cut = (struct cut){
		.s = s,
		.hdr_len = h.hdr_len,
		.ip_at = (uint32_t)(h.ip - h.l2),
		.in_len = h.hdr_len,
		.bytes = h.payload,
		.gso = s->vnet.gso_size,
		.v6 = h.v6,
		.roce = udp->dport == rte_cpu_to_be_16(WIRE_UDP_PORT),
		.id = h.v6 ? 0 : rte_be_to_cpu_16(v4->id),
	};
	if (about->tagged) {
		memcpy(cut->hdr, h.l2, MACS_LEN);
		tag_put(cut->hdr + MACS_LEN, about);
		memcpy(cut->hdr + MACS_LEN + WIRE_VLAN_LEN, h.l2 + MACS_LEN, h.hdr_len - MACS_LEN);
		cut->hdr_len += WIRE_VLAN_LEN;
		cut->ip_at += WIRE_VLAN_LEN;
	} else {
		memcpy(cut->hdr, h.l2, h.hdr_len);
	}
	((struct wire_udp *)(cut->hdr + cut->hdr_len - WIRE_UDP_LEN))->csum = 0;
	return true;
}

/* Returns the flow's entry, new if it had none. */
static struct packet_flow *
flow_of(struct packet_cutter *c, const struct cut *cut)
{
	const struct wire_ipv4 *v4 = (const struct wire_ipv4 *)(cut->hdr + cut->ip_at);
	struct packet_flow *f;
	uint32_t key, ports;

	memcpy(&key, v4->src, sizeof(key));
	memcpy(&ports, v4 + 1, sizeof(ports));
	key = (key ^ ports * 2654435761u) | 1;
	f = &c->flow[(key ^ key >> 12) / 2 % PACKET_FLOWS];
	if (f->key != key)
		*f = (struct packet_flow){.key = key};
	return f;
}

/* Sets the identification of the frame at ip to that of segment k, and its checksum. */
static void
id_put(const struct cut *cut, uint8_t *ip, uint32_t k)
{
	struct wire_ipv4 *v4 = (struct wire_ipv4 *)ip;

	v4->id = rte_cpu_to_be_16((uint16_t)(cut->id + k));
	v4->csum = 0;
	v4->csum = (rte_be16_t)~wire_ipv4_sum(v4);
}

/* Returns the change of an ICRC between the identifications of the first segment and segment k. */
static inline uint32_t
icrc_change(const struct cut *cut, uint32_t k)
{
	uint16_t delta = cut->id ^ (uint16_t)(cut->id + k);

	return likely(delta < UDP_SEGS_MAX) ? cut->row->change[delta]
					    : wire_icrc_id_change(cut->row->factor, delta);
}

/*
 * Looks whether the ICRC of segment 1, complete in m, is that of the identification in its header,
 * which is the first segment's, or of the next one.
 */
static void
ids_look(struct packet_cutter *c, struct cut *cut, const struct rte_mbuf *m)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	const uint8_t *end = frame + m->data_len - WIRE_ICRC_LEN;
	struct packet_flow *f = flow_of(c, cut);
	uint32_t want, have;

	if (f->left != 0) {
		f->left--;
		cut->fixed = f->fixed;
		return;
	}
	memcpy(&have, end, sizeof(have));
	want = wire_icrc_frame(frame + cut->ip_at, false, end);
	cut->fixed = have == want;
	if (cut->fixed || (have ^ want) == icrc_change(cut, 1)) {
		f->fixed = cut->fixed;
		f->left = FLOW_TRUST;
	}
}

/* Makes header and ICRC of segment k, not the first, in m match each other. */
static inline void
segment_identify(struct packet_cutter *c, struct cut *cut, struct rte_mbuf *m, uint32_t k)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *), *end = frame + m->data_len - WIRE_ICRC_LEN;
	uint32_t icrc;

	if (cut->v6)
		return;
	if (!cut->roce) {
		id_put(cut, frame + cut->ip_at, k);
		return;
	}
	if (cut->row == NULL)
		return;
	if (k == 1)
		ids_look(c, cut, m);
	if (cut->fixed)
		return;
	memcpy(&icrc, end, sizeof(icrc));
	icrc ^= icrc_change(cut, k);
	memcpy(end, &icrc, sizeof(icrc));
}

/* Prepares for segments of len bytes. */
static void
cut_length(struct packet_cutter *c, struct cut *cut, uint32_t len)
{
	bool has_icrc = !cut->v6 && len >= WIRE_BTH_LEN + WIRE_ICRC_LEN;

	packet_lengths_put(cut->hdr + cut->ip_at, cut->v6, len);
	cut->row = has_icrc ? udp_icrc_row_of(&c->rows, len) : NULL;
}

/* Returns a buffer with segment k, of len bytes, in its payload's place; NULL: no buffer. */
static struct rte_mbuf *
segment_take(struct packet_cutter *c, const struct cut *cut, uint32_t k, uint32_t len)
{
	struct packet_slot *s = cut->s;
	struct rte_mbuf *m;

	if (cut->gso == s->chunk && cut->in_len == s->hdr && k < s->nm) {
		m = s->m[k];
		s->m[k] = NULL;
		return m;
	}
	m = rte_pktmbuf_alloc(c->pool);
	if (m == NULL) {
		c->stats->rx_no_buffer++;
		return NULL;
	}
	udp_copy_out(s->iov + 1, s->nm + 1, cut->in_len + k * cut->gso, payload_of(m), len);
	c->stats->rx_copied++;
	return m;
}

static void
segments_cut(struct packet_cutter *c, struct cut *cut)
{
	uint32_t len = cut->gso;

	cut_length(c, cut, len);
	for (uint32_t k = 0, off = 0; off < cut->bytes; k++, off += len) {
		struct rte_mbuf *m;
		uint8_t *frame;

		if (cut->bytes - off < cut->gso) {
			len = cut->bytes - off;
			cut_length(c, cut, len);
		}
		m = segment_take(c, cut, k, len);
		if (m == NULL)
			continue;
		frame = payload_of(m) - cut->hdr_len;
		memcpy(frame, cut->hdr, cut->hdr_len);
		ready(c, m, frame, cut->hdr_len + len);
		if (k != 0)
			segment_identify(c, cut, m, k);
	}
	/* two may be a coincidence; more are a stream */
	if (cut->gso < CHUNK_MIN || cut->bytes <= 2 * cut->gso)
		return;
	c->bulk = BULK_CALLS;
	c->chunk = cut->gso;
	c->hdr = cut->in_len;
}

void
packet_cut(struct packet_cutter *c, struct packet_slot *s, const struct packet_about *about)
{
	uint32_t len = about->len - PACKET_VNET_LEN;
	struct cut cut;

	s->fresh = false;
	c->stats->rx_messages++;
	if (about->truncated) {
		c->stats->rx_truncated++;
	} else if (about->len < PACKET_VNET_LEN + WIRE_ETH_LEN) {
		c->stats->rx_malformed++;
	} else if (s->vnet.gso_type == VIRTIO_NET_HDR_GSO_NONE) {
		frame_take(c, s, about, len);
	} else if ((s->vnet.gso_type & ~VIRTIO_NET_HDR_GSO_ECN) != VIRTIO_NET_HDR_GSO_UDP_L4 ||
		   s->vnet.gso_size == 0 || !cut_read(&cut, s, about, len)) {
		c->stats->rx_malformed++;
	} else if (cut.bytes <= cut.gso) {
		frame_take(c, s, about, len);
	} else if (cut.gso > c->room) {
		c->stats->rx_too_long++;
	} else if (cut.bytes > PACKET_SEGS_MAX * cut.gso) {
		c->stats->rx_too_many++;
	} else {
		segments_cut(c, &cut);
	}
}
