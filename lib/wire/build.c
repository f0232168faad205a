/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "wire/build.h"
#include "wire/csum.h"

static bool
gid_is_ipv4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

/* Writes the Ethernet header and VLAN tag, if any. Returns their length. */
static uint32_t
put_l2(uint8_t *out, const struct wire_path *path, uint16_t type)
{
	struct wire_eth *eth = (struct wire_eth *)out;
	struct wire_vlan *vlan = (struct wire_vlan *)(out + WIRE_ETH_LEN);

	memcpy(eth->dmac, path->dmac, sizeof(eth->dmac));
	memcpy(eth->smac, path->smac, sizeof(eth->smac));
	eth->type = rte_cpu_to_be_16(type);
	if (path->vlan_tci == 0)
		return WIRE_ETH_LEN;
	eth->type = rte_cpu_to_be_16(WIRE_ETHERTYPE_VLAN);
	vlan->tci = rte_cpu_to_be_16(path->vlan_tci);
	vlan->type = rte_cpu_to_be_16(type);
	return WIRE_ETH_LEN + WIRE_VLAN_LEN;
}

/* Writes the IP header without its packet-dependent fields. Returns its length. */
static uint32_t
put_ip(uint8_t *out, const struct wire_path *path, bool is_v6)
{
	if (is_v6) {
		struct wire_ipv6 *ip = (struct wire_ipv6 *)out;

		ip->ver_tc_flow = rte_cpu_to_be_32(6u << 28 | (uint32_t)path->tclass << 20 |
						   (path->flow_label & 0xfffff));
		ip->next = WIRE_IPPROTO_UDP;
		ip->hop_limit = path->hop_limit;
		memcpy(ip->src, path->sgid, 16);
		memcpy(ip->dst, path->dgid, 16);
		return WIRE_IPV6_LEN;
	} else {
		struct wire_ipv4 *ip = (struct wire_ipv4 *)out;

		ip->ver_ihl = 0x45;
		ip->tos = path->tclass;
		ip->frag_off = rte_cpu_to_be_16(WIRE_IPV4_DF);
		ip->ttl = path->hop_limit;
		ip->proto = WIRE_IPPROTO_UDP;
		memcpy(ip->src, path->sgid + 12, 4);
		memcpy(ip->dst, path->dgid + 12, 4);
		return WIRE_IPV4_LEN;
	}
}

void
wire_tmpl_init(struct wire_tmpl *t, const struct wire_path *path, uint32_t qpn, uint16_t pkey)
{
	struct wire_udp *udp;
	struct wire_bth *bth;
	uint32_t off;

	memset(t, 0, sizeof(*t));
	t->is_v6 = !gid_is_ipv4(path->dgid);
	off = put_l2(t->bytes, path, t->is_v6 ? WIRE_ETHERTYPE_IPV6 : WIRE_ETHERTYPE_IPV4);
	t->ip_off = (uint8_t)off;
	off += put_ip(t->bytes + off, path, t->is_v6);
	if (!t->is_v6)
		t->ip_sum = wire_ipv4_sum(t->bytes + t->ip_off);

	udp = (struct wire_udp *)(t->bytes + off);
	udp->sport = rte_cpu_to_be_16(path->udp_sport);
	udp->dport = rte_cpu_to_be_16(WIRE_UDP_PORT);
	off += WIRE_UDP_LEN;

	t->tclass = path->tclass;
	t->bth_off = (uint8_t)off;
	bth = (struct wire_bth *)(t->bytes + off);
	bth->se_m_pad_ver = WIRE_BTH_MIGREQ;
	bth->pkey = rte_cpu_to_be_16(pkey);
	bth->fb_qpn = rte_cpu_to_be_32(qpn & WIRE_QPN_MASK);
	t->len = (uint8_t)(off + WIRE_BTH_LEN);
}

void
wire_tmpl_set_pkey(struct wire_tmpl *t, uint16_t pkey)
{
	struct wire_bth *bth = (struct wire_bth *)(t->bytes + t->bth_off);

	if (t->len == 0)
		return;
	bth->pkey = rte_cpu_to_be_16(pkey);
	t->shape = 0;
}

void
wire_tmpl_set_migreq(struct wire_tmpl *t, bool migreq)
{
	struct wire_bth *bth = (struct wire_bth *)(t->bytes + t->bth_off);

	bth->se_m_pad_ver = migreq ? WIRE_BTH_MIGREQ : 0;
	t->shape = 0;
}

void
wire_tmpl_set_ip_id(struct wire_tmpl *t, uint16_t id)
{
	t->ip_id = id;
	t->shape = 0;
}

/* Sets the TOS or traffic class in bytes. */
static void
tmpl_set_tclass(struct wire_tmpl *t, uint8_t tclass)
{
	uint8_t *ip = t->bytes + t->ip_off;
	uint16_t was, is;

	if (t->is_v6) {
		ip[0] = (uint8_t)(0x60 | tclass >> 4);
		ip[1] = (uint8_t)(tclass << 4 | (ip[1] & 0xf));
		return;
	}
	memcpy(&was, ip, sizeof(was));
	ip[1] = tclass;
	memcpy(&is, ip, sizeof(is));
	t->ip_sum = wire_sum_add(t->ip_sum, (uint16_t)~was, is);
}

void
wire_tmpl_set_ect(struct wire_tmpl *t, bool ect)
{
	if (t->len == 0 || t->ect == ect)
		return;
	t->ect = ect;
	t->shape = 0;
	tmpl_set_tclass(t, t->tclass);
}

void
wire_tmpl_cnp(struct wire_tmpl *cnp, const struct wire_tmpl *t, uint8_t dscp)
{
	*cnp = *t;
	cnp->ect = false;
	tmpl_set_tclass(cnp, (uint8_t)(dscp << 2));
	wire_tmpl_set_migreq(cnp, false);
}

/* ECN bits of a packet of this opcode, if t->ect (CC-01). */
static uint8_t
ect_tclass(const struct wire_tmpl *t, const struct wire_op_info *op)
{
	bool data = (op->flags & WIRE_F_REQ) ||
		    (op->flags & (WIRE_F_RESP | WIRE_F_PAYLOAD)) == (WIRE_F_RESP | WIRE_F_PAYLOAD);

	return (uint8_t)((t->tclass & ~WIRE_ECN_MASK) | (data ? WIRE_ECN_ECT0 : 0));
}

/* Sets the IP and UDP lengths and the IPv4 checksum. ip_len: IP header and all that follows it. */
static void
tmpl_set_length(struct wire_tmpl *t, uint32_t ip_len)
{
	struct wire_udp *udp = (struct wire_udp *)(t->bytes + t->bth_off - WIRE_UDP_LEN);

	if (t->is_v6) {
		struct wire_ipv6 *ip = (struct wire_ipv6 *)(t->bytes + t->ip_off);

		ip->payload_len = rte_cpu_to_be_16(ip_len - WIRE_IPV6_LEN);
		udp->len = ip->payload_len;
	} else {
		struct wire_ipv4 *ip = (struct wire_ipv4 *)(t->bytes + t->ip_off);

		ip->total_len = rte_cpu_to_be_16(ip_len);
		ip->id = rte_cpu_to_be_16(t->ip_id);
		udp->len = rte_cpu_to_be_16(ip_len - WIRE_IPV4_LEN);
		ip->csum = (rte_be16_t)~wire_sum_add(t->ip_sum, rte_cpu_to_be_16(ip_len),
						     rte_cpu_to_be_16(t->ip_id));
	}
}

void
wire_tmpl_reshape(struct wire_tmpl *t, uint64_t shape)
{
	struct wire_bth *bth = (struct wire_bth *)(t->bytes + t->bth_off);
	uint32_t payload_len = (uint16_t)(shape >> 16), pad = -payload_len & 3;
	const struct wire_op_info *op = &wire_op_table[(uint8_t)shape];

	bth->opcode = (uint8_t)shape;
	bth->se_m_pad_ver &= WIRE_BTH_MIGREQ | WIRE_BTH_TVER(0xff);
	bth->se_m_pad_ver |= (uint8_t)((shape & WIRE_SHAPE_SE ? WIRE_BTH_SE : 0) | pad << 4);
	bth->fb_qpn &= rte_cpu_to_be_32(~WIRE_BTH_BECN);
	if (shape & WIRE_SHAPE_BECN)
		bth->fb_qpn |= rte_cpu_to_be_32(WIRE_BTH_BECN);
	if (t->ect)
		tmpl_set_tclass(t, ect_tclass(t, op));
	tmpl_set_length(t,
			t->bth_off - t->ip_off + op->hdr_len + payload_len + pad + WIRE_ICRC_LEN);
	t->extended = op->flags & WIRE_F_EXTENDED;
	t->icrc_known = false;
	t->shape = shape;
}

void
wire_tmpl_know_icrc(struct wire_tmpl *t)
{
	t->icrc = wire_icrc_head(t->bytes + t->ip_off, t->is_v6);
	t->icrc_known = true;
}

/* The headers are written in wire order. */
uint8_t *
wire_put_extended(uint8_t *p, uint32_t flags, const struct wire_fields *f)
{
	if (flags & WIRE_F_DETH) {
		*(struct wire_deth *)p = (struct wire_deth){
			.qkey = rte_cpu_to_be_32(f->qkey),
			.src_qpn = rte_cpu_to_be_32(f->src_qpn & WIRE_QPN_MASK),
		};
		p += sizeof(struct wire_deth);
	}
	if (flags & WIRE_F_RETH)
		p = wire_put_reth(p, f);
	if (flags & WIRE_F_ATOMICETH) {
		*(struct wire_atomiceth *)p = (struct wire_atomiceth){
			.va = rte_cpu_to_be_64(f->va),
			.rkey = rte_cpu_to_be_32(f->rkey),
			.swap_add = rte_cpu_to_be_64(f->swap_add),
			.compare = rte_cpu_to_be_64(f->compare),
		};
		p += sizeof(struct wire_atomiceth);
	}
	if (flags & WIRE_F_AETH) {
		((struct wire_aeth *)p)->syn_msn =
			rte_cpu_to_be_32((uint32_t)f->syndrome << 24 | (f->msn & WIRE_PSN_MASK));
		p += sizeof(struct wire_aeth);
	}
	if (flags & WIRE_F_ATOMICACKETH) {
		((struct wire_atomicacketh *)p)->orig = rte_cpu_to_be_64(f->orig);
		p += sizeof(struct wire_atomicacketh);
	}
	if (flags & WIRE_F_IMM) {
		((struct wire_immdt *)p)->imm = f->imm;
		p += sizeof(struct wire_immdt);
	}
	if (flags & WIRE_F_IETH) {
		((struct wire_ieth *)p)->rkey = rte_cpu_to_be_32(f->inv_rkey);
		p += sizeof(struct wire_ieth);
	}
	if (flags & WIRE_F_CNP) {
		memset(p, 0, WIRE_CNP_RESERVED_LEN);
		p += WIRE_CNP_RESERVED_LEN;
	}
	return p;
}

void
wire_frame_seal_own(uint8_t *frame, uint32_t len)
{
	const struct wire_eth *eth = (const struct wire_eth *)frame;
	uint8_t *end = frame + len - WIRE_ICRC_LEN;
	uint32_t ip_off = WIRE_ETH_LEN, icrc;

	if (eth->type == rte_cpu_to_be_16(WIRE_ETHERTYPE_VLAN))
		ip_off += WIRE_VLAN_LEN;
	icrc = wire_icrc_frame(frame + ip_off, frame[ip_off] >> 4 == 6, end);
	memcpy(end, &icrc, sizeof(icrc));
}

uint16_t
wire_udp_sport(uint32_t flow_label, uint32_t lqpn, uint32_t rqpn)
{
	uint32_t fl = flow_label & 0xfffff;

	if (fl == 0) {
		uint64_t v = (uint64_t)lqpn * rqpn;

		v ^= v >> 20;
		v ^= v >> 40;
		fl = v & 0xfffff;
	}
	return (uint16_t)(((fl & 0x3fff) ^ (fl >> 14)) | 0xc000);
}
