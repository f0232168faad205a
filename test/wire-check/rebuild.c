/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "rebuild.h"
#include "wire/csum.h"

static const struct wire_udp *
udp_of(const struct wire_pkt *pkt)
{
	return (const struct wire_udp *)(pkt->ip + (pkt->is_v6 ? WIRE_IPV6_LEN : WIRE_IPV4_LEN));
}

static struct wire_path
path_of(const struct wire_pkt *pkt)
{
	const struct wire_eth *eth = (const struct wire_eth *)pkt->l2;
	const struct wire_ipv4 *ip4 = (const struct wire_ipv4 *)pkt->ip;
	const struct wire_ipv6 *ip6 = (const struct wire_ipv6 *)pkt->ip;
	struct wire_path path = {
		.udp_sport = rte_be_to_cpu_16(udp_of(pkt)->sport),
		.vlan_tci = pkt->ip - pkt->l2 == WIRE_ETH_LEN ? 0 : pkt->vlan_tci | 1,
		.tclass = pkt->tclass,
		.hop_limit = pkt->is_v6 ? ip6->hop_limit : ip4->ttl,
		.flow_label = pkt->is_v6 ? rte_be_to_cpu_32(ip6->ver_tc_flow) & 0xfffff : 0,
	};

	memcpy(path.smac, eth->smac, sizeof(path.smac));
	memcpy(path.dmac, eth->dmac, sizeof(path.dmac));
	wire_src_gid(pkt, path.sgid);
	wire_dst_gid(pkt, path.dgid);
	return path;
}

/* What uroce itself always sends in one way, but other senders need not. */
static void
copy_senders_choice(struct wire_tmpl *t, const struct wire_pkt *pkt)
{
	struct wire_bth *bth = (struct wire_bth *)(t->bytes + t->bth_off);
	struct wire_udp *udp = (struct wire_udp *)(t->bytes + t->bth_off - WIRE_UDP_LEN);

	if (!pkt->is_v6) {
		const struct wire_ipv4 *from = (const struct wire_ipv4 *)pkt->ip;

		wire_tmpl_set_ip_id(t, rte_be_to_cpu_16(from->id));
		((struct wire_ipv4 *)(t->bytes + t->ip_off))->frag_off = from->frag_off;
		t->ip_sum = wire_ipv4_sum(t->bytes + t->ip_off);
	}
	/* A tag of all zero (priority 0, no VLAN): path_of asked for one that the builder puts. */
	if (pkt->ip - pkt->l2 == WIRE_ETH_LEN + WIRE_VLAN_LEN)
		memcpy(t->bytes + WIRE_ETH_LEN, pkt->l2 + WIRE_ETH_LEN, 2);
	udp->csum = udp_of(pkt)->csum;
	bth->se_m_pad_ver |= WIRE_BTH_TVER(((const struct wire_bth *)pkt->bth)->se_m_pad_ver);
	if (!pkt->migreq)
		bth->se_m_pad_ver &= (uint8_t)~WIRE_BTH_MIGREQ;
	if (pkt->fecn)
		bth->fb_qpn |= rte_cpu_to_be_32(WIRE_BTH_FECN);
}

/* Fields of headers that the opcode has not are undefined in pkt, and ignored by the builder. */
static struct wire_fields
fields_of(const struct wire_pkt *pkt)
{
	return (struct wire_fields){
		.opcode = pkt->opcode,
		.solicited = pkt->solicited,
		.ackreq = pkt->ackreq,
		.becn = pkt->becn,
		.psn = pkt->psn,
		.va = pkt->va,
		.rkey = pkt->rkey,
		.dmalen = pkt->dmalen,
		.swap_add = pkt->swap_add,
		.compare = pkt->compare,
		.orig = pkt->orig,
		.syndrome = pkt->syndrome,
		.msn = pkt->msn,
		.qkey = pkt->qkey,
		.src_qpn = pkt->src_qpn,
		.imm = pkt->imm,
		.inv_rkey = pkt->inv_rkey,
	};
}

uint32_t
rebuild_frame(const struct wire_pkt *pkt, uint8_t *out)
{
	struct wire_path path = path_of(pkt);
	struct wire_fields fields = fields_of(pkt);
	struct wire_tmpl t;
	uint32_t hdr_len;

	wire_tmpl_init(&t, &path, pkt->qpn, pkt->pkey);
	copy_senders_choice(&t, pkt);
	hdr_len = wire_hdr_put(&t, &fields, pkt->payload_len, out);
	memcpy(out + hdr_len, pkt->payload, pkt->payload_len);
	return wire_frame_finish(&t, out, hdr_len, pkt->payload_len);
}
