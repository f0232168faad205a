/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include "hostif/parts.h"

#define IPV4_MIN 20u
#define IPV6_LEN 40u
#define TCP_MIN  20u
#define TCP_ONCE (RTE_TCP_FIN_FLAG | RTE_TCP_PSH_FLAG) /* of the last piece only */

/* A TCP super-frame: header lengths within it, all checked. */
struct super {
	const uint8_t *frame;
	uint32_t len;
	uint32_t l3, l4, payload; /* offsets of IP, TCP, payload */
	uint32_t piece;           /* payload bytes of each but the last */
	bool v6;
};

/* A buffer with bytes[0 .. len), or NULL. */
static struct rte_mbuf *
copy(struct rte_mempool *pool, const uint8_t *bytes, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	char *to = m != NULL && len <= UINT16_MAX ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;

	if (to == NULL) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	memcpy(to, bytes, len);
	return m;
}

/* Finishes a checksum that the kernel has begun with the pseudo header. False: out of the frame. */
static bool
finish_checksum(struct rte_mbuf *m, const struct virtio_net_hdr *vh)
{
	uint32_t start = vh->csum_start, at = start + vh->csum_offset;
	uint16_t sum;

	if (start >= m->data_len || at + sizeof(sum) > m->data_len)
		return false;
	sum = (uint16_t)~rte_raw_cksum(rte_pktmbuf_mtod_offset(m, void *, start),
				       m->data_len - start);
	if (sum == 0)
		sum = UINT16_MAX; /* zero means none in UDP; both are right for others */
	memcpy(rte_pktmbuf_mtod_offset(m, void *, at), &sum, sizeof(sum));
	return true;
}

/* Finds the headers of a super-frame. False: it is none, or malformed. */
static bool
parse(struct super *s, const struct virtio_net_hdr *vh)
{
	const uint8_t *f = s->frame;
	uint32_t type_at = 12, l3;
	uint16_t type;

	if (s->len < 18)
		return false;
	memcpy(&type, f + type_at, sizeof(type));
	if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN)) {
		type_at += 4;
		memcpy(&type, f + type_at, sizeof(type));
	}
	l3 = s->l3 = type_at + 2;
	s->v6 = type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6);
	if (!s->v6 && type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4))
		return false;
	s->l4 = vh->csum_start;
	if (s->l4 < l3 + (s->v6 ? IPV6_LEN : IPV4_MIN) || s->l4 + TCP_MIN > s->len)
		return false;
	if (!s->v6 && s->l4 != l3 + (f[l3] & 15u) * 4)
		return false;
	s->payload = s->l4 + (f[s->l4 + 12] >> 4) * 4u;
	s->piece = vh->gso_size;
	return s->payload >= s->l4 + TCP_MIN && s->payload < s->len && s->piece != 0;
}

/* Writes the lengths into the IPv6 header of m; returns the sum of the pseudo header. */
static uint16_t
finish_ipv6(const struct super *s, struct rte_mbuf *m)
{
	struct rte_ipv6_hdr *ip = rte_pktmbuf_mtod_offset(m, void *, s->l3);
	struct {
		uint8_t src[16], dst[16];
		rte_be32_t len, proto;
	} pseudo = {
		.len = rte_cpu_to_be_32(m->data_len - s->l4), /* without extension headers */
		.proto = rte_cpu_to_be_32(IPPROTO_TCP),
	};

	ip->payload_len = rte_cpu_to_be_16((uint16_t)(m->data_len - s->l3 - IPV6_LEN));
	memcpy(pseudo.src, &ip->src_addr, 16);
	memcpy(pseudo.dst, &ip->dst_addr, 16);
	return rte_raw_cksum(&pseudo, sizeof(pseudo));
}

/* The same for IPv4, and identification and checksum of the header. */
static uint16_t
finish_ipv4(const struct super *s, struct rte_mbuf *m, uint32_t index)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, void *, s->l3);

	ip->total_length = rte_cpu_to_be_16((uint16_t)(m->data_len - s->l3));
	ip->packet_id = rte_cpu_to_be_16((uint16_t)(rte_be_to_cpu_16(ip->packet_id) + index));
	ip->hdr_checksum = 0;
	ip->hdr_checksum = (uint16_t)~rte_raw_cksum(ip, s->l4 - s->l3);
	return rte_ipv4_phdr_cksum(ip, 0);
}

/* Builds piece number index, whose payload is s->frame[from .. to). NULL: no buffer. */
static struct rte_mbuf *
build(const struct super *s, struct rte_mempool *pool, uint32_t index, uint32_t from, uint32_t to)
{
	struct rte_mbuf *m = copy(pool, s->frame, s->payload);
	struct rte_tcp_hdr *tcp;
	uint32_t sum;
	char *data;

	data = m != NULL ? rte_pktmbuf_append(m, (uint16_t)(to - from)) : NULL;
	if (data == NULL) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	memcpy(data, s->frame + from, to - from);
	tcp = rte_pktmbuf_mtod_offset(m, struct rte_tcp_hdr *, s->l4);
	tcp->sent_seq = rte_cpu_to_be_32(rte_be_to_cpu_32(tcp->sent_seq) + from - s->payload);
	if (to != s->len)
		tcp->tcp_flags &= (uint8_t)~TCP_ONCE;
	if (index != 0)
		tcp->tcp_flags &= (uint8_t)~RTE_TCP_CWR_FLAG;
	tcp->cksum = 0;
	sum = s->v6 ? finish_ipv6(s, m) : finish_ipv4(s, m, index);
	sum += rte_raw_cksum(tcp, m->data_len - s->l4);
	tcp->cksum = (uint16_t) ~((sum & 0xffff) + (sum >> 16));
	return m;
}

static uint32_t
cut_super(const struct super *s, struct rte_mempool *pool, struct rte_mbuf **m, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t from = s->payload; from < s->len; from += s->piece) {
		uint32_t to = from + s->piece < s->len ? from + s->piece : s->len;

		struct rte_mbuf *piece = n < max ? build(s, pool, n, from, to) : NULL;

		if (piece == NULL) {
			rte_pktmbuf_free_bulk(m, n);
			return 0;
		}
		m[n++] = piece;
	}
	return n;
}

uint32_t
hostif_cut(const struct virtio_net_hdr *vh, const uint8_t *frame, uint32_t len,
	   struct rte_mempool *pool, struct rte_mbuf **m, uint32_t max)
{
	struct super s = {.frame = frame, .len = len};

	if (max == 0 || len < RTE_ETHER_HDR_LEN)
		return 0;
	switch (vh->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_NONE:
		m[0] = copy(pool, frame, len);
		if (m[0] == NULL)
			return 0;
		if (!(vh->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || finish_checksum(m[0], vh))
			return 1;
		rte_pktmbuf_free(m[0]);
		return 0;
	case VIRTIO_NET_HDR_GSO_TCPV4:
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return parse(&s, vh) ? cut_super(&s, pool, m, max) : 0;
	default:
		return 0;
	}
}
