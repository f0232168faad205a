/* SPDX-License-Identifier: BSD-3-Clause */
#include "impair_frame.h"
#include <string.h>
#include "impair_core.h"
#include "wire/csum.h"
#include "wire/hdr.h"
#include "wire/icrc.h"

#define ECN_CE 3

struct rte_mbuf *
impair_frame_own(struct rte_mbuf *m)
{
	struct rte_mbuf *copy;

	if (m->nb_segs == 1 && RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1)
		return m;
	copy = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
	if (copy == NULL)
		return NULL;
	if (rte_pktmbuf_linearize(copy) != 0) {
		rte_pktmbuf_free(copy);
		return NULL;
	}
	rte_pktmbuf_free(m);
	return copy;
}

/* We own the frame and may change it; only wire_parse's pointers are const. */
static uint8_t *
bytes(const uint8_t *p)
{
	return (uint8_t *)(uintptr_t)p;
}

static uint8_t *
icrc_of(const struct wire_pkt *pkt)
{
	return bytes(pkt->payload) + pkt->payload_len + pkt->pad_len;
}

/* May routers change the byte at p, so that no end-to-end check covers it? */
static bool
is_variant(const struct wire_pkt *pkt, const uint8_t *p)
{
	uint32_t ip = (uint32_t)(p - pkt->ip);

	if (p == pkt->bth + 4) /* FECN, BECN, reserved */
		return true;
	if (p == pkt->bth - 1 || p == pkt->bth - 2) /* UDP checksum */
		return true;
	/* The checksum of IPv4 covers its whole header. */
	return pkt->is_v6 && (ip < 4 || ip == 7);
}

static void
flip(const struct wire_pkt *pkt, uint8_t *from, const uint8_t *to, uint32_t n, uint64_t *rng)
{
	uint64_t bit, all = (uint64_t)(to - from) * 8;
	uint64_t done[IMPAIR_MAX_BITS];
	uint32_t i, k = 0;

	while (k < n) {
		bit = impair_random_below(rng, all);
		/* Flipping a bit twice would undo it. */
		for (i = 0; i < k && done[i] != bit; i++)
			;
		if (i < k || is_variant(pkt, from + bit / 8))
			continue;
		from[bit / 8] ^= (uint8_t)(1u << bit % 8);
		done[k++] = bit;
	}
}

void
impair_frame_corrupt(const struct wire_pkt *pkt, uint32_t n, uint64_t *rng)
{
	flip(pkt, bytes(pkt->ip), icrc_of(pkt) + WIRE_ICRC_LEN, n, rng);
}

void
impair_frame_corrupt_fixed(const struct wire_pkt *pkt, uint32_t n, uint64_t *rng)
{
	uint8_t *end = icrc_of(pkt), *rest = bytes(pkt->bth) + WIRE_BTH_LEN;
	uint32_t icrc;

	flip(pkt, bytes(pkt->bth), end, n, rng);
	icrc = wire_icrc_start(pkt->ip, pkt->is_v6);
	icrc = wire_icrc_final(wire_icrc_update(icrc, rest, (uint32_t)(end - rest)));
	memcpy(end, &icrc, sizeof(icrc));
}

void
impair_frame_mark_ce(const struct wire_pkt *pkt)
{
	struct wire_ipv4 *ip = (struct wire_ipv4 *)bytes(pkt->ip);

	if (pkt->is_v6) {
		struct wire_ipv6 *ip6 = (struct wire_ipv6 *)ip;

		ip6->ver_tc_flow |= rte_cpu_to_be_32(ECN_CE << 20);
		return;
	}
	ip->tos |= ECN_CE;
	ip->csum = 0;
	ip->csum = (rte_be16_t)~wire_ipv4_sum(ip);
}

/* Offset of the IP header, and the Ethernet type behind at most one VLAN tag. */
static uint32_t
ip_offset(const uint8_t *frame, uint32_t len, rte_be16_t *type)
{
	const struct wire_eth *eth = (const struct wire_eth *)frame;
	const struct wire_vlan *vlan = (const struct wire_vlan *)(frame + WIRE_ETH_LEN);

	*type = 0;
	if (len < WIRE_ETH_LEN + WIRE_VLAN_LEN)
		return len;
	*type = eth->type;
	if (*type != rte_cpu_to_be_16(WIRE_ETHERTYPE_VLAN))
		return WIRE_ETH_LEN;
	*type = vlan->type;
	return WIRE_ETH_LEN + WIRE_VLAN_LEN;
}

/* The header may have options, so its checksum is updated instead of computed. */
static bool
mark_ect_v4(struct wire_ipv4 *ip)
{
	rte_be16_t before, after;

	if ((ip->tos & ECN_CE) == 0)
		return false;
	memcpy(&before, ip, sizeof(before));
	ip->tos |= ECN_CE;
	memcpy(&after, ip, sizeof(after));
	ip->csum = (rte_be16_t)~wire_sum_add((uint16_t)~ip->csum, (rte_be16_t)~before, after);
	return true;
}

bool
impair_frame_mark_ect(struct rte_mbuf *m)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	rte_be16_t type;
	uint32_t at = ip_offset(frame, m->data_len, &type);
	struct wire_ipv6 *ip6 = (struct wire_ipv6 *)(frame + at);

	if (type == rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV4) && at + WIRE_IPV4_LEN <= m->data_len)
		return mark_ect_v4((struct wire_ipv4 *)(frame + at));
	if (type != rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV6) || at + WIRE_IPV6_LEN > m->data_len ||
	    (ip6->ver_tc_flow & rte_cpu_to_be_32(ECN_CE << 20)) == 0)
		return false;
	ip6->ver_tc_flow |= rte_cpu_to_be_32(ECN_CE << 20);
	return true;
}
