/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP segments for the kernel that follow each other become one super-frame, as its own GRO makes
 * them. DPDK's GRO library is not used: it changes the order of frames, merges no IPv6, and does
 * not check the checksums that the kernel then takes for checked.
 */
#include <string.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include "hostif/parts.h"

#define L3          RTE_ETHER_HDR_LEN
#define TCP_MIN     20u
#define IP_MAX      65535u /* bytes of a packet */
#define FLAGS_PLAIN RTE_TCP_ACK_FLAG
#define FLAGS_LAST  (RTE_TCP_ACK_FLAG | RTE_TCP_PSH_FLAG)

/* Lengths and offsets of a TCP segment over IPv4 without options or IPv6 without extensions. */
struct segment {
	uint8_t *f;
	uint32_t l4, payload, len; /* offsets of TCP and payload, end of the IP packet */
	bool v6;
};

/* Finds the headers and checks the IP header. False: not such a segment. */
static bool
parse_ip(struct segment *s, struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *v4;
	const struct rte_ipv6_hdr *v6;

	/* Headers are changed in place, so the frame must have no other reference. */
	if (m->nb_segs != 1 || rte_mbuf_refcnt_read(m) != 1 || m->data_len < L3 + sizeof(*v6))
		return false;
	s->f = rte_pktmbuf_mtod(m, uint8_t *);
	s->v6 = eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6);
	if (s->v6) {
		v6 = (const struct rte_ipv6_hdr *)(s->f + L3);
		s->l4 = L3 + sizeof(*v6);
		s->len = s->l4 + rte_be_to_cpu_16(v6->payload_len);
		return s->f[L3] >> 4 == 6 && v6->proto == IPPROTO_TCP && s->len <= m->data_len;
	}
	v4 = (const struct rte_ipv4_hdr *)(s->f + L3);
	s->l4 = L3 + sizeof(*v4);
	s->len = L3 + rte_be_to_cpu_16(v4->total_length);
	return eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) &&
	       v4->version_ihl == RTE_IPV4_VHL_DEF && v4->next_proto_id == IPPROTO_TCP &&
	       (v4->fragment_offset & rte_cpu_to_be_16((uint16_t)~RTE_IPV4_HDR_DF_FLAG)) == 0 &&
	       s->len <= m->data_len && rte_raw_cksum(v4, sizeof(*v4)) == UINT16_MAX;
}

static struct rte_tcp_hdr *
tcp_of(const struct segment *s)
{
	return (struct rte_tcp_hdr *)(s->f + s->l4);
}

/* Finds the headers of m and checks all checksums. False: m cannot be part of a super-frame. */
static bool
parse(struct segment *s, struct rte_mbuf *m)
{
	const struct rte_tcp_hdr *tcp;

	if (!parse_ip(s, m) || s->len < s->l4 + TCP_MIN)
		return false;
	tcp = tcp_of(s);
	s->payload = s->l4 + (tcp->data_off >> 4) * 4u;
	if (s->payload < s->l4 + TCP_MIN || s->payload >= s->len)
		return false;
	if (tcp->tcp_flags != FLAGS_PLAIN && tcp->tcp_flags != FLAGS_LAST)
		return false;
	return s->v6 ? rte_ipv6_udptcp_cksum_verify((struct rte_ipv6_hdr *)(s->f + L3), tcp) == 0
		     : rte_ipv4_udptcp_cksum_verify((struct rte_ipv4_hdr *)(s->f + L3), tcp) == 0;
}

/* Are the IP headers of one flow and treatment? Identifications count up, or do not matter (DF). */
static bool
same_ip(const struct segment *a, const struct segment *b, uint32_t index)
{
	const struct rte_ipv4_hdr *x = (const struct rte_ipv4_hdr *)(a->f + L3);
	const struct rte_ipv4_hdr *y = (const struct rte_ipv4_hdr *)(b->f + L3);

	if (memcmp(a->f, b->f, L3) != 0)
		return false;
	if (a->v6) /* all but the length */
		return memcmp(a->f + L3, b->f + L3, 4) == 0 &&
		       memcmp(a->f + L3 + 6, b->f + L3 + 6, sizeof(struct rte_ipv6_hdr) - 6) == 0;
	return x->type_of_service == y->type_of_service && x->time_to_live == y->time_to_live &&
	       x->fragment_offset == y->fragment_offset && x->src_addr == y->src_addr &&
	       x->dst_addr == y->dst_addr &&
	       (x->fragment_offset != 0 ||
		rte_be_to_cpu_16(y->packet_id) ==
			(uint16_t)(rte_be_to_cpu_16(x->packet_id) + index));
}

/* Does b continue the super-frame that begins with a and has this many bytes of payload? */
static bool
goes_on(const struct segment *a, const struct segment *b, uint32_t index, uint32_t bytes)
{
	const struct rte_tcp_hdr *x = tcp_of(a), *y = tcp_of(b);
	uint32_t options = a->payload - a->l4 - TCP_MIN, piece = a->len - a->payload;

	return a->payload == b->payload && b->len - b->payload <= piece &&
	       a->payload + bytes + (b->len - b->payload) <= IP_MAX && same_ip(a, b, index) &&
	       x->src_port == y->src_port && x->dst_port == y->dst_port &&
	       rte_be_to_cpu_32(y->sent_seq) == rte_be_to_cpu_32(x->sent_seq) + bytes &&
	       x->recv_ack == y->recv_ack && x->data_off == y->data_off && x->rx_win == y->rx_win &&
	       x->tcp_urp == y->tcp_urp && memcmp(x + 1, y + 1, options) == 0;
}

/* Makes the headers of a those of the super-frame; checksums of its pieces are right. */
static void
finish(const struct segment *a, uint32_t bytes, uint8_t flags, struct virtio_net_hdr *vh)
{
	struct rte_tcp_hdr *tcp = tcp_of(a);
	uint32_t end = a->payload + bytes;

	*vh = (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = a->v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4,
		.hdr_len = (uint16_t)a->payload,
		.gso_size = (uint16_t)(a->len - a->payload),
		.csum_start = (uint16_t)a->l4,
		.csum_offset = offsetof(struct rte_tcp_hdr, cksum),
	};
	tcp->tcp_flags = flags;
	if (a->v6) {
		struct rte_ipv6_hdr *ip = (struct rte_ipv6_hdr *)(a->f + L3);

		ip->payload_len = rte_cpu_to_be_16((uint16_t)(end - a->l4));
		tcp->cksum = rte_ipv6_phdr_cksum(ip, 0);
	} else {
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(a->f + L3);

		ip->total_length = rte_cpu_to_be_16((uint16_t)(end - L3));
		ip->hdr_checksum = 0;
		ip->hdr_checksum = rte_ipv4_cksum(ip);
		tcp->cksum = rte_ipv4_phdr_cksum(ip, 0);
	}
}

uint32_t
hostif_merge(struct rte_mbuf *const *m, uint32_t n, struct virtio_net_hdr *vh, struct iovec *v)
{
	struct segment a, b;
	uint32_t bytes, i = 1;
	uint8_t flags;

	memset(vh, 0, sizeof(*vh)); /* checksums are in the frame */
	v[0] = (struct iovec){rte_pktmbuf_mtod(m[0], void *), m[0]->data_len};
	if (n == 1 || !parse(&a, m[0]))
		return 1;
	bytes = a.len - a.payload;
	flags = tcp_of(&a)->tcp_flags;
	while (i < n && flags == FLAGS_PLAIN && parse(&b, m[i]) && goes_on(&a, &b, i, bytes)) {
		v[i++] = (struct iovec){b.f + b.payload, b.len - b.payload};
		bytes += b.len - b.payload;
		flags = tcp_of(&b)->tcp_flags;
		if (b.len != a.len)
			break; /* only the last piece may be shorter */
	}
	if (i == 1)
		return 1;
	v[0].iov_len = a.len; /* without the padding of the Ethernet frame */
	finish(&a, bytes, flags, vh);
	return i;
}
