/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "wire/parse.h"
#include "wire/csum.h"
#include "wire/cursor.h"
#include "wire/icrc.h"

const char *const wire_verdict_name[WIRE_VERDICTS] = {
	[WIRE_OK] = "ok",
	[WIRE_NOT_ROCE] = "not_roce",
	[WIRE_RUNT] = "runt",
	[WIRE_BAD_IP] = "bad_ip",
	[WIRE_FRAGMENT] = "fragment",
	[WIRE_BAD_UDP] = "bad_udp",
	[WIRE_BAD_TVER] = "bad_tver",
	[WIRE_BAD_OPCODE] = "bad_opcode",
	[WIRE_BAD_PAD] = "bad_pad",
	[WIRE_BAD_LENGTH] = "bad_length",
	[WIRE_BAD_ICRC] = "bad_icrc",
	[WIRE_STACKED_VLAN] = "stacked_vlan",
	[WIRE_ETHERTYPE] = "ethertype",
	[WIRE_IP_PROTOCOL] = "ip_protocol",
	[WIRE_IPV6_EXTENSION] = "ipv6_extension",
	[WIRE_OTHER_PORT] = "udp_port",
};

#define TYPE_VLAN  RTE_BE16(WIRE_ETHERTYPE_VLAN)
#define TYPE_SVLAN RTE_BE16(WIRE_ETHERTYPE_SVLAN)
#define TYPE_ARP   RTE_BE16(WIRE_ETHERTYPE_ARP)
#define TYPE_IPV4  RTE_BE16(WIRE_ETHERTYPE_IPV4)
#define TYPE_IPV6  RTE_BE16(WIRE_ETHERTYPE_IPV6)

/* Parses Ethernet and at most one VLAN tag. *type: the next protocol. */
static inline enum wire_verdict
parse_l2(struct wire_cur *c, struct wire_pkt *pkt, rte_be16_t *type)
{
	const struct wire_eth *eth = wire_cur_get(c, struct wire_eth);
	const struct wire_vlan *vlan;

	if (eth == NULL)
		return WIRE_RUNT;
	pkt->l2 = (const uint8_t *)eth;
	pkt->vlan_tci = 0;
	*type = eth->type;
	if (*type != TYPE_VLAN)
		return WIRE_OK;

	vlan = wire_cur_get(c, struct wire_vlan);
	if (vlan == NULL)
		return WIRE_RUNT;
	pkt->vlan_tci = rte_be_to_cpu_16(vlan->tci);
	*type = vlan->type;
	return WIRE_OK;
}

/* Parses UDP. The port is checked first: packets of other protocols are not validated. */
static inline enum wire_verdict
parse_udp(struct wire_cur *c)
{
	uint32_t ip_payload = wire_cur_left(c);
	const struct wire_udp *udp = wire_cur_get(c, struct wire_udp);

	if (udp == NULL)
		return WIRE_RUNT;
	if (rte_be_to_cpu_16(udp->dport) != WIRE_UDP_PORT)
		return WIRE_OTHER_PORT;
	if (rte_be_to_cpu_16(udp->len) != ip_payload)
		return WIRE_BAD_UDP;
	return WIRE_OK;
}

static enum wire_verdict
parse_ipv4(struct wire_cur *c, struct wire_pkt *pkt)
{
	const struct wire_ipv4 *ip = wire_cur_get(c, struct wire_ipv4);
	uint32_t total_len;
	enum wire_verdict v;

	if (ip == NULL)
		return WIRE_RUNT;
	if (ip->ver_ihl >> 4 != 4)
		return WIRE_BAD_IP;
	if (ip->proto != WIRE_IPPROTO_UDP)
		return ip->proto == WIRE_IPPROTO_ICMP || ip->proto == WIRE_IPPROTO_IGMP
			       ? WIRE_NOT_ROCE
			       : WIRE_IP_PROTOCOL;
	/* Nobody sends IPv4 options with RoCE, and the ICRC is not defined for them. */
	if (ip->ver_ihl != 0x45)
		return WIRE_BAD_IP;
	if (ip->frag_off & rte_cpu_to_be_16(WIRE_IPV4_FRAG))
		return WIRE_FRAGMENT;
	total_len = rte_be_to_cpu_16(ip->total_len);
	if (total_len < WIRE_IPV4_LEN || !wire_cur_limit(c, total_len - WIRE_IPV4_LEN))
		return WIRE_BAD_IP;

	v = parse_udp(c);
	if (v == WIRE_OTHER_PORT)
		return v;
	if (!wire_ipv4_sum_ok(ip))
		return WIRE_BAD_IP;
	pkt->ip = (const uint8_t *)ip;
	pkt->is_v6 = false;
	pkt->tclass = ip->tos;
	return v;
}

/* Verdict on a next header other than UDP; MLD has 8 bytes of hop-by-hop options (RFC 3810 5). */
static enum wire_verdict
not_udp6(uint8_t next, struct wire_cur c)
{
	const uint8_t *options;

	switch (next) {
	case WIRE_IPPROTO_ICMP6:
		return WIRE_NOT_ROCE;
	case WIRE_IPPROTO_FRAG:
		return WIRE_FRAGMENT;
	case 0: /* hop by hop */
		options = wire_cur_take(&c, 8);
		return options != NULL && options[0] == WIRE_IPPROTO_ICMP6 && options[1] == 0
			       ? WIRE_NOT_ROCE
			       : WIRE_IPV6_EXTENSION;
	case 43:  /* routing */
	case 50:  /* ESP */
	case 51:  /* AH */
	case 60:  /* destination options */
	case 135: /* mobility */
	case 139: /* HIP */
	case 140: /* shim6 */
		return WIRE_IPV6_EXTENSION;
	default:
		return WIRE_IP_PROTOCOL;
	}
}

static enum wire_verdict
parse_ipv6(struct wire_cur *c, struct wire_pkt *pkt)
{
	const struct wire_ipv6 *ip = wire_cur_get(c, struct wire_ipv6);
	uint32_t vtf;

	if (ip == NULL)
		return WIRE_RUNT;
	vtf = rte_be_to_cpu_32(ip->ver_tc_flow);
	if (vtf >> 28 != 6)
		return WIRE_BAD_IP;
	if (ip->next != WIRE_IPPROTO_UDP)
		return not_udp6(ip->next, *c);
	if (!wire_cur_limit(c, rte_be_to_cpu_16(ip->payload_len)))
		return WIRE_BAD_IP;
	pkt->ip = (const uint8_t *)ip;
	pkt->is_v6 = true;
	pkt->tclass = (uint8_t)(vtf >> 20);
	return parse_udp(c);
}

/* Reads the BTH up to the PSN. */
static void
read_bth(const struct wire_bth *bth, struct wire_pkt *pkt)
{
	uint32_t fb_qpn = rte_be_to_cpu_32(bth->fb_qpn);

	pkt->bth = (const uint8_t *)bth;
	pkt->opcode = bth->opcode;
	pkt->op = &wire_op_table[bth->opcode];
	pkt->pkey = rte_be_to_cpu_16(bth->pkey);
	pkt->qpn = fb_qpn & WIRE_QPN_MASK;
	pkt->solicited = bth->se_m_pad_ver & WIRE_BTH_SE;
	pkt->migreq = bth->se_m_pad_ver & WIRE_BTH_MIGREQ;
	pkt->fecn = fb_qpn & WIRE_BTH_FECN;
	pkt->becn = fb_qpn & WIRE_BTH_BECN;
}

/* The header at p, typed; advances p. The caller has bounds-checked all headers together. */
#define NEXT(p, type) ((const type *)(((p) += sizeof(type)) - sizeof(type)))

/* Reads the headers with addresses, which only requests have. Returns the next header. */
static __rte_always_inline const uint8_t *
read_request_headers(const uint8_t *p, uint32_t flags, struct wire_pkt *pkt)
{
	if (flags & WIRE_F_DETH) {
		const struct wire_deth *h = NEXT(p, struct wire_deth);

		pkt->qkey = rte_be_to_cpu_32(h->qkey);
		pkt->src_qpn = rte_be_to_cpu_32(h->src_qpn) & WIRE_QPN_MASK;
	}
	if (flags & WIRE_F_RETH) {
		const struct wire_reth *h = NEXT(p, struct wire_reth);

		pkt->va = rte_be_to_cpu_64(h->va);
		pkt->rkey = rte_be_to_cpu_32(h->rkey);
		pkt->dmalen = rte_be_to_cpu_32(h->dmalen);
	}
	if (flags & WIRE_F_ATOMICETH) {
		const struct wire_atomiceth *h = NEXT(p, struct wire_atomiceth);

		pkt->va = rte_be_to_cpu_64(h->va);
		pkt->rkey = rte_be_to_cpu_32(h->rkey);
		pkt->swap_add = rte_be_to_cpu_64(h->swap_add);
		pkt->compare = rte_be_to_cpu_64(h->compare);
	}
	return p;
}

#define SMALL_HEADERS (WIRE_F_AETH | WIRE_F_ATOMICACKETH | WIRE_F_IMM | WIRE_F_IETH)

/* Reads the short headers, which follow those with addresses. */
static __rte_always_inline void
read_small_headers(const uint8_t *p, uint32_t flags, struct wire_pkt *pkt)
{
	if (!(flags & SMALL_HEADERS))
		return;
	if (flags & WIRE_F_AETH) {
		uint32_t syn_msn = rte_be_to_cpu_32(NEXT(p, struct wire_aeth)->syn_msn);

		pkt->syndrome = (uint8_t)(syn_msn >> 24);
		pkt->msn = syn_msn & WIRE_PSN_MASK;
	}
	if (flags & WIRE_F_ATOMICACKETH)
		pkt->orig = rte_be_to_cpu_64(NEXT(p, struct wire_atomicacketh)->orig);
	if (flags & WIRE_F_IMM)
		pkt->imm = NEXT(p, struct wire_immdt)->imm;
	if (flags & WIRE_F_IETH)
		pkt->inv_rkey = rte_be_to_cpu_32(NEXT(p, struct wire_ieth)->rkey);
}

/* Reads the BTH from the PSN on and all headers after it, which are known to be in the frame. */
static __rte_always_inline void
read_behind_head(const struct wire_bth *bth, struct wire_pkt *pkt)
{
	uint32_t a_psn = rte_be_to_cpu_32(bth->a_psn), flags = pkt->op->flags;

	pkt->psn = a_psn & WIRE_PSN_MASK;
	pkt->ackreq = a_psn & WIRE_BTH_ACKREQ;
	read_small_headers(read_request_headers((const uint8_t *)(bth + 1), flags, pkt), flags,
			   pkt);
}

/* Checks opcode, pad and length. Takes the pad off the payload if all are right. */
static enum wire_verdict
parse_form(const struct wire_bth *bth, struct wire_pkt *pkt)
{
	uint32_t pad = WIRE_BTH_PAD(bth->se_m_pad_ver);

	if (!(pkt->op->flags & WIRE_F_VALID))
		return WIRE_BAD_OPCODE;
	if (pkt->payload_len & 3 || pad > pkt->payload_len)
		return WIRE_BAD_PAD;
	if (pkt->payload_len > 0 && !(pkt->op->flags & WIRE_F_PAYLOAD))
		return WIRE_BAD_LENGTH;
	pkt->payload_len -= pad;
	pkt->pad_len = (uint8_t)pad;
	return WIRE_OK;
}

/* Parses the BTH and the rest; the cursor ends before the ICRC. */
static enum wire_verdict
parse_transport(struct wire_cur *c, struct wire_pkt *pkt)
{
	const struct wire_bth *bth = wire_cur_get(c, struct wire_bth);
	enum wire_verdict v;

	if (bth == NULL)
		return WIRE_RUNT;
	read_bth(bth, pkt);
	if (wire_cur_take(c, pkt->op->hdr_len - WIRE_BTH_LEN) == NULL)
		return WIRE_RUNT;
	read_behind_head(bth, pkt);

	pkt->payload = c->pos;
	pkt->payload_len = wire_cur_left(c);
	pkt->pad_len = 0;
	v = parse_form(bth, pkt);
	/* The rules of other versions are unknown: such packets are never NAKed (NAK-07). */
	return WIRE_BTH_TVER(bth->se_m_pad_ver) == 0 ? v : WIRE_BAD_TVER;
}

/* Parses from the IP header on; type: its EtherType. */
static inline enum wire_verdict
parse_ip(struct wire_cur *c, rte_be16_t type, struct wire_pkt *pkt)
{
	enum wire_verdict v;

	if (type == TYPE_IPV4)
		v = parse_ipv4(c, pkt);
	else if (type == TYPE_IPV6)
		v = parse_ipv6(c, pkt);
	else if (type == TYPE_VLAN || type == TYPE_SVLAN)
		v = WIRE_STACKED_VLAN;
	else
		v = type == TYPE_ARP ? WIRE_NOT_ROCE : WIRE_ETHERTYPE;
	if (v != WIRE_OK)
		return v;

	if (wire_cur_left(c) < WIRE_BTH_LEN + WIRE_ICRC_LEN)
		return WIRE_RUNT;
	pkt->udp_len = (uint16_t)(wire_cur_left(c) + WIRE_UDP_LEN);
	pkt->icrc_head = 0;
	wire_cur_limit(c, wire_cur_left(c) - WIRE_ICRC_LEN);
	return parse_transport(c, pkt);
}

enum wire_verdict
wire_parse(const uint8_t *frame, uint32_t len, struct wire_pkt *pkt)
{
	struct wire_cur c = wire_cur_over(frame, len);
	enum wire_verdict v;
	rte_be16_t type;

	v = parse_l2(&c, pkt, &type);
	return v == WIRE_OK ? parse_ip(&c, type, pkt) : v;
}

/* Hash of length, opcode, P_Key and QPN, by which the header prefixes of flows differ. */
static inline uint64_t
head_hash(const uint8_t *bth)
{
	uint64_t udp_len;
	uint32_t qpn;

	memcpy(&udp_len, bth - 4, 8);
	memcpy(&qpn, bth + 4, 4);
	return (udp_len ^ qpn) * 0x9e3779b97f4a7c15ull;
}

static inline struct wire_memo_entry *
memo_entry(struct wire_memo *memo, uint64_t hash)
{
	return &memo->entry[hash >> 32 & (WIRE_MEMO - 1)];
}

/* Are n bytes of two header prefixes equal? n: constant, at least 8. */
static __rte_always_inline bool
heads_equal(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	uint64_t x, y, differ = 0;
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		memcpy(&x, a + i, 8);
		memcpy(&y, b + i, 8);
		differ |= x ^ y;
	}
	if (i < n) {
		memcpy(&x, a + n - 8, 8);
		memcpy(&y, b + n - 8, 8);
		differ |= x ^ y;
	}
	return differ == 0;
}

/* Is e the header prefix at ip? An empty entry never matches, because its IP version is 0. */
static __rte_always_inline bool
is_head(const struct wire_memo_entry *e, const uint8_t *ip, bool is_v6)
{
	return ip[0] >> 4 == (is_v6 ? 6 : 4) && heads_equal(e->head, ip, WIRE_HEAD4) &&
	       (!is_v6 ||
		heads_equal(e->head + WIRE_HEAD4, ip + WIRE_HEAD4, WIRE_HEAD6 - WIRE_HEAD4));
}

/*
 * Fill *pkt, except l2 and vlan_tci, for the packet at c, whose header prefix of n bytes equals
 * that of an earlier valid packet; of_head: that packet's fields. False if the frame is shorter
 * than that packet.
 */
static __rte_always_inline bool
with_head(const struct wire_cur *c, uint32_t n, const uint64_t of_head[3], struct wire_pkt *pkt)
{
	const uint8_t *bth = c->pos + n - 8;

	memcpy(pkt->of_head, of_head, sizeof(pkt->of_head));
	if (wire_cur_left(c) < n - 8 - WIRE_UDP_LEN + pkt->udp_len)
		return false;
	pkt->ip = c->pos;
	pkt->bth = bth;
	pkt->op = &wire_op_table[pkt->opcode];
	pkt->payload = bth + pkt->op->hdr_len;
	read_behind_head((const struct wire_bth *)bth, pkt);
	return true;
}

/* Look up the header prefix at c in the header cache; if found, fill *pkt as with_head does. */
static __rte_always_inline bool
recall(struct wire_memo *memo, const struct wire_cur *c, bool is_v6, struct wire_pkt *pkt)
{
	uint32_t n = is_v6 ? WIRE_HEAD6 : WIRE_HEAD4;
	const struct wire_memo_entry *e;

	if (wire_cur_left(c) < n)
		return false;
	e = memo_entry(memo, head_hash(c->pos + n - 8));
	return is_head(e, c->pos, is_v6) && with_head(c, n, e->of_head, pkt);
}

bool
wire_parse_like(const uint8_t *frame, uint32_t len, const struct wire_pkt *prev,
		struct wire_pkt *pkt)
{
	uint32_t n = prev->is_v6 ? WIRE_HEAD6 : WIRE_HEAD4, l2 = (uint32_t)(prev->ip - prev->l2);
	struct wire_cur c = wire_cur_over(frame, len);

	if (len < l2 + n || !heads_equal(prev->l2, frame, WIRE_ETH_LEN) ||
	    (l2 != WIRE_ETH_LEN &&
	     memcmp(prev->l2 + WIRE_ETH_LEN, frame + WIRE_ETH_LEN, WIRE_VLAN_LEN) != 0) ||
	    !heads_equal(prev->ip, frame + l2, WIRE_HEAD4) ||
	    (prev->is_v6 &&
	     !heads_equal(prev->ip + WIRE_HEAD4, frame + l2 + WIRE_HEAD4, WIRE_HEAD6 - WIRE_HEAD4)))
		return false;
	pkt->l2 = frame;
	pkt->vlan_tci = prev->vlan_tci;
	c.pos += l2;
	return with_head(&c, n, prev->of_head, pkt);
}

/* Cache the header prefix of a valid packet that was not in the cache. */
static inline void
remember(struct wire_memo *memo, struct wire_pkt *pkt)
{
	uint64_t hash = head_hash(pkt->bth);
	struct wire_memo_entry *e = memo_entry(memo, hash);
	uint32_t mark;

	/* For IPv4: the checksum, and with it the identification; for IPv6: part of an address. */
	memcpy(&mark, pkt->ip + 8, sizeof(mark));
	mark ^= (uint32_t)hash;
	if (e->missed != mark) {
		e->missed = mark;
		return;
	}
	pkt->icrc_head = wire_icrc_head(pkt->ip, pkt->is_v6);
	memcpy(e->of_head, pkt->of_head, sizeof(e->of_head));
	memcpy(e->head, pkt->ip, pkt->is_v6 ? WIRE_HEAD6 : WIRE_HEAD4);
}

/* Full parse from the IP header on. */
static __rte_noinline enum wire_verdict
parse_unknown(struct wire_cur c, rte_be16_t type, struct wire_memo *memo, struct wire_pkt *pkt)
{
	enum wire_verdict v = parse_ip(&c, type, pkt);

	if (v == WIRE_OK)
		remember(memo, pkt);
	return v;
}

__rte_noinline enum wire_verdict
wire_parse_with(const uint8_t *frame, uint32_t len, struct wire_memo *memo, struct wire_pkt *pkt)
{
	struct wire_cur c = wire_cur_over(frame, len);
	enum wire_verdict v;
	rte_be16_t type;

	v = parse_l2(&c, pkt, &type);
	if (v != WIRE_OK)
		return v;
	if (type == TYPE_IPV4 ? recall(memo, &c, false, pkt)
			      : type == TYPE_IPV6 && recall(memo, &c, true, pkt))
		return WIRE_OK;
	return parse_unknown(c, type, memo, pkt);
}

/* GID of the address at addr4 (IPv4 packet) or addr6. */
static void
gid_of(const struct wire_pkt *pkt, const uint8_t *addr4, const uint8_t *addr6, uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (pkt->is_v6) {
		memcpy(gid, addr6, 16);
		return;
	}
	memcpy(gid, mapped, sizeof(mapped));
	memcpy(gid + sizeof(mapped), addr4, 4);
}

void
wire_src_gid(const struct wire_pkt *pkt, uint8_t gid[16])
{
	gid_of(pkt, pkt->ip + offsetof(struct wire_ipv4, src),
	       pkt->ip + offsetof(struct wire_ipv6, src), gid);
}

void
wire_dst_gid(const struct wire_pkt *pkt, uint8_t gid[16])
{
	gid_of(pkt, pkt->ip + offsetof(struct wire_ipv4, dst),
	       pkt->ip + offsetof(struct wire_ipv6, dst), gid);
}

bool
wire_dst_is_group(const struct wire_pkt *pkt)
{
	if (pkt->is_v6)
		return pkt->ip[offsetof(struct wire_ipv6, dst)] == 0xff;
	return pkt->ip[offsetof(struct wire_ipv4, dst)] >= 224;
}
