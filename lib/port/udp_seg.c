/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/udp_seg.h"
#include <string.h>
#include "net/net.h"
#include "wire/csum.h"

#define HDR4 (WIRE_ETH_LEN + WIRE_IPV4_LEN + WIRE_UDP_LEN)
#define HDR6 (WIRE_ETH_LEN + WIRE_IPV6_LEN + WIRE_UDP_LEN)
_Static_assert(HDR4 == UDP_HDR_V4 && HDR6 == UDP_HDR_MAX, "the lengths of headers");

static bool
read_v4(const uint8_t *ip, uint32_t ip_bytes, struct udp_head *h)
{
	const struct wire_ipv4 *v4 = (const struct wire_ipv4 *)ip;
	uint32_t total = rte_be_to_cpu_16(v4->total_len);

	if (v4->ver_ihl != 0x45 || v4->proto != WIRE_IPPROTO_UDP || total > ip_bytes ||
	    total < WIRE_IPV4_LEN + WIRE_UDP_LEN)
		return false;
	h->hdr_len = (uint16_t)(h->hdr_len + WIRE_IPV4_LEN + WIRE_UDP_LEN);
	h->payload = (uint16_t)(total - WIRE_IPV4_LEN - WIRE_UDP_LEN);
	h->v6 = false;
	return true;
}

static bool
read_v6(const uint8_t *ip, uint32_t ip_bytes, struct udp_head *h)
{
	const struct wire_ipv6 *v6 = (const struct wire_ipv6 *)ip;
	uint32_t len = rte_be_to_cpu_16(v6->payload_len);

	if (ip[0] >> 4 != 6 || v6->next != WIRE_IPPROTO_UDP || len + WIRE_IPV6_LEN > ip_bytes ||
	    len < WIRE_UDP_LEN)
		return false;
	h->hdr_len = (uint16_t)(h->hdr_len + WIRE_IPV6_LEN + WIRE_UDP_LEN);
	h->payload = (uint16_t)(len - WIRE_UDP_LEN);
	h->v6 = true;
	return true;
}

bool
udp_head_read(const struct rte_mbuf *m, struct udp_head *h)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	const struct wire_eth *eth = (const struct wire_eth *)frame;
	rte_be16_t type = m->data_len >= HDR4 ? eth->type : 0;

	h->l2 = frame;
	h->hdr_len = WIRE_ETH_LEN;
	if (type == rte_cpu_to_be_16(WIRE_ETHERTYPE_VLAN)) {
		type = ((const struct wire_vlan *)(frame + WIRE_ETH_LEN))->type;
		h->hdr_len += WIRE_VLAN_LEN;
	}
	h->ip = frame + h->hdr_len;
	if (type == rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV4) &&
	    m->data_len >= h->hdr_len + WIRE_IPV4_LEN + WIRE_UDP_LEN)
		return read_v4(h->ip, m->pkt_len - h->hdr_len, h);
	if (type == rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV6) &&
	    m->data_len >= h->hdr_len + WIRE_IPV6_LEN + WIRE_UDP_LEN)
		return read_v6(h->ip, m->pkt_len - h->hdr_len, h);
	return false;
}

/*
 * Compares MACs, tag, class, addresses and ports, and for IPv4 the fields that the ICRC covers.
 * Equal Ethernet headers have equal types, and thus equal lengths.
 */
bool
udp_head_same_path(const struct udp_head *a, const struct udp_head *b)
{
	if (a->v6 != b->v6 || memcmp(a->l2, b->l2, (size_t)(a->ip - a->l2)) != 0)
		return false;
	if (a->v6) /* class and flow label; hop limit; addresses; ports */
		return memcmp(a->ip, b->ip, 4) == 0 && a->ip[7] == b->ip[7] &&
		       memcmp(a->ip + 8, b->ip + 8, 32 + 4) == 0;
	/* TOS; identification, fragment field, TTL; addresses, ports */
	return a->ip[1] == b->ip[1] && memcmp(a->ip + 4, b->ip + 4, 5) == 0 &&
	       memcmp(a->ip + 12, b->ip + 12, 8 + 4) == 0;
}

/* Returns true if m[0 .. n) begins with a frame like h. */
static bool
goes_on(struct rte_mbuf *const *m, uint32_t n, const struct udp_head *h)
{
	struct udp_head next;

	return n > 0 && udp_head_read(m[0], &next) && next.payload == h->payload &&
	       udp_head_same_path(h, &next);
}

/* Are the headers of m, over IPv4 without a tag, those at first, byte by byte? */
static inline bool
repeats_v4(const struct rte_mbuf *m, const uint8_t *first)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	uint64_t differ = 0, a, b;

	if (m->data_len < UDP_HDR_V4)
		return false;
	for (uint32_t i = 0; i < 6; i++) {
		uint32_t at = i < 5 ? 8 * i : UDP_HDR_V4 - 8;

		memcpy(&a, frame + at, sizeof(a));
		memcpy(&b, first + at, sizeof(b));
		differ |= a ^ b;
	}
	return differ == 0;
}

uint32_t
udp_run(struct rte_mbuf *const *m, uint32_t n, const struct udp_head *first, uint32_t max_segs)
{
	uint32_t bytes = first->payload, i = 1;
	bool v4 = !first->v6 && first->hdr_len == UDP_HDR_V4;
	struct udp_head h;

	if (n > max_segs)
		n = max_segs;
	for (; i < n; i++) {
		/* Most frames of a long run have equal headers, and thus equal lengths. */
		if (v4 && m[i]->pkt_len == m[0]->pkt_len && repeats_v4(m[i], first->l2) &&
		    bytes + first->payload <= UDP_BYTES_MAX) {
			bytes += first->payload;
			continue;
		}
		if (!udp_head_read(m[i], &h) || h.payload > first->payload ||
		    bytes + h.payload > UDP_BYTES_MAX || !udp_head_same_path(first, &h))
			return i;
		bytes += h.payload;
		if (h.payload < first->payload)
			return i == 1 && goes_on(m + 2, n - 2, &h) ? 1 : i + 1;
	}
	return i;
}

/* Appends a copy of len bytes. */
static void
copy_put(struct udp_pieces *p, const void *bytes, uint32_t len)
{
	struct iovec *last = p->n != 0 ? &p->iov[p->n - 1] : NULL;

	memcpy(p->stage, bytes, len);
	if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == p->stage)
		last->iov_len += len;
	else
		p->iov[p->n++] = (struct iovec){p->stage, len};
	p->stage += len;
}

void
udp_frame_put(struct udp_pieces *p, const struct rte_mbuf *m, uint32_t skip, uint32_t icrc_changes)
{
	for (; m != NULL; m = m->next, skip = 0) {
		uint8_t *from = rte_pktmbuf_mtod_offset(m, uint8_t *, skip);
		uint32_t len = m->data_len - skip, icrc;
		bool changes = m->next == NULL && icrc_changes != 0 && len >= WIRE_ICRC_LEN;

		if (changes)
			len -= WIRE_ICRC_LEN;
		if (len > UDP_SHORT)
			p->iov[p->n++] = (struct iovec){from, len};
		else if (len != 0)
			copy_put(p, from, len);
		if (!changes)
			continue;
		memcpy(&icrc, from + len, sizeof(icrc));
		icrc ^= icrc_changes;
		copy_put(p, &icrc, sizeof(icrc));
	}
}

static uint32_t
put_v4(uint8_t *ip, const struct udp_from *from, uint32_t payload)
{
	struct wire_ipv4 v4 = {
		.ver_ihl = 0x45,
		.tos = from->tos,
		.total_len = rte_cpu_to_be_16((uint16_t)(WIRE_IPV4_LEN + WIRE_UDP_LEN + payload)),
		.frag_off = rte_cpu_to_be_16(WIRE_IPV4_DF),
		.ttl = from->ttl,
		.proto = WIRE_IPPROTO_UDP,
	};

	memcpy(v4.src, from->src + 12, 4);
	memcpy(v4.dst, from->dst + 12, 4);
	v4.csum = (rte_be16_t)~wire_ipv4_sum(&v4);
	memcpy(ip, &v4, sizeof(v4));
	return WIRE_IPV4_LEN;
}

static uint32_t
put_v6(uint8_t *ip, const struct udp_from *from, uint32_t payload)
{
	struct wire_ipv6 v6 = {
		.payload_len = rte_cpu_to_be_16((uint16_t)(WIRE_UDP_LEN + payload)),
		.next = WIRE_IPPROTO_UDP,
		.hop_limit = from->ttl,
	};

	memcpy(v6.src, from->src, 16);
	memcpy(v6.dst, from->dst, 16);
	memcpy(ip, &v6, sizeof(v6));
	ip[0] = (uint8_t)(0x60 | from->tos >> 4);
	ip[1] = (uint8_t)(from->tos << 4);
	return WIRE_IPV6_LEN;
}

uint32_t
udp_headers_put(uint8_t *out, const uint8_t mac[6], const struct udp_from *from, uint32_t payload)
{
	struct wire_eth eth = {
		.smac = {2},
		.type = rte_cpu_to_be_16(from->v6 ? WIRE_ETHERTYPE_IPV6 : WIRE_ETHERTYPE_IPV4),
	};
	struct wire_udp udp = {
		.sport = rte_cpu_to_be_16(from->sport),
		.dport = rte_cpu_to_be_16(WIRE_UDP_PORT),
		.len = rte_cpu_to_be_16((uint16_t)(WIRE_UDP_LEN + payload)),
	};
	uint8_t *p = out + WIRE_ETH_LEN;

	if (net_gid_is_mcast(from->dst))
		net_mcast_mac(from->dst, eth.dmac);
	else
		memcpy(eth.dmac, mac, 6);
	memcpy(out, &eth, sizeof(eth));
	p += from->v6 ? put_v6(p, from, payload) : put_v4(p, from, payload);
	memcpy(p, &udp, sizeof(udp));
	return (uint32_t)(p - out) + WIRE_UDP_LEN;
}

void
udp_lengths_put(uint8_t *ip, bool v6, uint32_t payload)
{
	rte_be16_t udp_len = rte_cpu_to_be_16((uint16_t)(WIRE_UDP_LEN + payload));
	struct wire_ipv4 *v4 = (struct wire_ipv4 *)ip;

	if (v6) {
		((struct wire_ipv6 *)ip)->payload_len = udp_len;
		((struct wire_udp *)(ip + WIRE_IPV6_LEN))->len = udp_len;
		return;
	}
	v4->total_len = rte_cpu_to_be_16((uint16_t)(WIRE_IPV4_LEN + WIRE_UDP_LEN + payload));
	v4->csum = 0;
	v4->csum = (rte_be16_t)~wire_ipv4_sum(v4);
	((struct wire_udp *)(ip + WIRE_IPV4_LEN))->len = udp_len;
}

bool
udp_buffers_take(struct rte_mempool *pool, struct rte_mbuf **m, uint32_t n)
{
	if (rte_mempool_get_bulk(pool, (void **)m, n) != 0)
		return false;
	/* one segment, one reference, like every mbuf in a pool */
	for (uint32_t i = 0; i < n; i++)
		m[i]->ol_flags &= RTE_MBUF_F_EXTERNAL;
	return true;
}

void
udp_copy_out(const struct iovec *iov, uint32_t n, uint32_t off, uint8_t *to, uint32_t len)
{
	for (; n > 0 && len > 0; iov++, n--) {
		uint32_t part;

		if (off >= iov->iov_len) {
			off -= (uint32_t)iov->iov_len;
			continue;
		}
		part = (uint32_t)iov->iov_len - off;
		if (part > len)
			part = len;
		memcpy(to, (const uint8_t *)iov->iov_base + off, part);
		to += part;
		len -= part;
		off = 0;
	}
}

void
udp_icrc_row_fill(struct udp_icrc_row *row, uint32_t after)
{
	row->after = after;
	row->factor = wire_icrc_id_factor(after);
	row->change[0] = 0;
	for (uint32_t k = 1; k < UDP_SEGS_MAX; k++) {
		uint32_t less = k & (k - 1);

		/* linear: the lowest bit and the others */
		row->change[k] = less != 0 ? row->change[less] ^ row->change[k ^ less]
					   : wire_icrc_id_change(row->factor, (uint16_t)k);
	}
}
