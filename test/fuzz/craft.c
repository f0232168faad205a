/* SPDX-License-Identifier: BSD-3-Clause */
#include "craft.h"
#include <string.h>
#include "wire/csum.h"
#include "wire/sack.h"
#include "wire/icrc.h"
#include "wire/parse.h"

#define MAX_REST (STEP_MAX_FRAME - WIRE_MAX_OVERHEAD)

uint32_t
rng_below(struct rng *r, uint32_t n)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

/* Bytes of the extended headers of an opcode; unknown opcodes included. */
static uint32_t
ext_len(uint8_t opcode)
{
	return wire_op_table[opcode].hdr_len - WIRE_BTH_LEN;
}

static uint32_t
bth_offset(const uint8_t *frame, uint32_t len)
{
	uint32_t off = WIRE_ETH_LEN + WIRE_IPV4_LEN + WIRE_UDP_LEN;

	if (len > WIRE_ETH_LEN && frame[12] == 0x86)
		off = WIRE_ETH_LEN + WIRE_IPV6_LEN + WIRE_UDP_LEN;
	return off < len ? off : len;
}

#define CE 3u /* of the ECN bits, the last two of the traffic class */

static bool
is_marked(const uint8_t *frame)
{
	uint8_t second = frame[WIRE_ETH_LEN + 1]; /* byte of the IP header */

	return ((frame[12] == 0x86 ? second >> 4 : second) & CE) == CE;
}

bool
craft_take(struct craft *c, const uint8_t *frame, uint32_t len, struct rng *r)
{
	uint32_t off = bth_offset(frame, len), q;
	struct wire_bth bth = {0};

	memcpy(&bth, frame + off, len - off < sizeof(bth) ? len - off : sizeof(bth));
	off += sizeof(bth);
	c->rest_len = off + WIRE_ICRC_LEN < len ? len - off - WIRE_ICRC_LEN : 0;
	if (c->rest_len > MAX_REST)
		c->rest_len = MAX_REST;
	memcpy(c->rest, frame + off, c->rest_len);
	c->opcode = bth.opcode;
	c->solicited = bth.se_m_pad_ver & WIRE_BTH_SE;
	c->migreq = bth.se_m_pad_ver & WIRE_BTH_MIGREQ;
	c->marked = len > WIRE_ETH_LEN + 1 && is_marked(frame);
	c->ackreq = rte_be_to_cpu_32(bth.a_psn) & WIRE_BTH_ACKREQ;
	c->psn = rte_be_to_cpu_32(bth.a_psn) & WIRE_PSN_MASK;
	/* Pad is not payload; without its count it would grow with every round. */
	if (c->rest_len >= ext_len(c->opcode) + WIRE_BTH_PAD(bth.se_m_pad_ver))
		c->rest_len -= WIRE_BTH_PAD(bth.se_m_pad_ver);
	q = (rte_be_to_cpu_32(bth.fb_qpn) & WIRE_QPN_MASK) - WORLD_QPN;
	if (q == WORLD_QPS)
		q = WORLD_CONSUMER;
	c->q = q < WORLD_QPS || q == WORLD_CONSUMER ? q : rng_below(r, WORLD_PEERS);
	return q < WORLD_QPS;
}

uint8_t
craft_opcode(uint32_t q, struct rng *r)
{
	uint8_t svc = world_peer(q)->svc, op;

	if (svc == WIRE_SVC_RC && rng_one_in(r, 6))
		return WIRE_OPCODE_SACK;
	if (svc != WIRE_SVC_UD && rng_one_in(r, 12))
		return WIRE_OPCODE_CNP;
	do
		op = svc | (uint8_t)rng_below(r, WIRE_OP_MASK + 1);
	while (wire_op_table[op].flags == 0);
	return op;
}

static uint8_t
draw_syndrome(struct rng *r)
{
	static const uint8_t kinds[] = {WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS,
					WIRE_SYN_ACK,
					WIRE_SYN_RNR,
					WIRE_SYN_NAK,
					WIRE_SYN_NAK,
					0x40,
					0xe0};
	uint8_t kind = kinds[rng_below(r, sizeof(kinds))];

	return rng_one_in(r, 3) ? kind : kind | (uint8_t)rng_below(r, 6);
}

static uint64_t
draw_va(uint32_t region, struct rng *r)
{
	uint64_t iova = REGION_IOVA(region == REGION_WINDOW ? REGION_RW : region);

	switch (rng_below(r, 6)) {
	case 0:
		return iova;
	case 1: /* its end, or a little before or after it */
		return iova + REGION_BYTES - rng_below(r, 64) + rng_below(r, 16);
	case 2: /* for atomics */
		return iova + rng_below(r, REGION_BYTES) / 8 * 8;
	case 3:
		return rng_one_in(r, 4) ? 0 - (uint64_t)rng_below(r, 8192) : iova - 1;
	default:
		return iova + rng_below(r, REGION_BYTES);
	}
}

static uint32_t
draw_len(const struct craft *c, struct rng *r)
{
	uint32_t payload = c->rest_len - ext_len(c->opcode);

	switch (rng_below(r, 5)) {
	case 0:
		return rng_below(r, 10000);
	case 1: /* more packets to come */
		return payload + rng_below(r, 3000);
	case 2:
		return rng_one_in(r, 4) ? 0x80000000u - rng_below(r, 2) : rng_below(r, 3);
	default:
		return payload;
	}
}

/* Overwrites the frame with the headers of the opcode, in their order. */
static void
put_ext(struct craft *c, uint32_t which, struct rng *r)
{
	uint32_t flags = wire_op_table[c->opcode].flags & which,
		 all = wire_op_table[c->opcode].flags;
	uint32_t region = rng_one_in(r, 2) ? (uint32_t)REGION_RW : rng_below(r, WORLD_REGIONS);
	rte_be32_t key = rte_cpu_to_be_32(world_key(region));
	rte_be64_t va = rte_cpu_to_be_64(draw_va(region, r));
	uint8_t *p = c->rest;

	if (flags & WIRE_F_DETH)
		*(struct wire_deth *)p =
			(struct wire_deth){.qkey = rte_cpu_to_be_32(WORLD_QKEY),
					   .src_qpn = rte_cpu_to_be_32(WORLD_PEER)};
	p += all & WIRE_F_DETH ? sizeof(struct wire_deth) : 0;
	if (flags & WIRE_F_RETH)
		*(struct wire_reth *)p =
			(struct wire_reth){.va = va,
					   .rkey = key,
					   .dmalen = rte_cpu_to_be_32(draw_len(c, r))};
	p += all & WIRE_F_RETH ? sizeof(struct wire_reth) : 0;
	if (flags & WIRE_F_ATOMICETH) {
		((struct wire_atomiceth *)p)->va = va;
		((struct wire_atomiceth *)p)->rkey = key;
	}
	p += all & WIRE_F_ATOMICETH ? sizeof(struct wire_atomiceth) : 0;
	if (flags & WIRE_F_AETH)
		*(struct wire_aeth *)p = (struct wire_aeth){
			.syn_msn = rte_cpu_to_be_32((uint32_t)draw_syndrome(r) << 24 |
						    rng_below(r, 16))};
	p += all & WIRE_F_AETH ? sizeof(struct wire_aeth) : 0;
	if (flags & WIRE_F_IETH)
		*(struct wire_ieth *)p = (struct wire_ieth){
			.rkey = rte_cpu_to_be_32(world_key(REGION_WINDOW) + rng_below(r, 2))};
}

static void
make_room(struct craft *c)
{
	uint32_t need = ext_len(c->opcode);

	if (c->rest_len >= need)
		return;
	memset(c->rest + c->rest_len, 0, need - c->rest_len);
	c->rest_len = need;
}

void
craft_aim(struct craft *c, struct rng *r)
{
	make_room(c);
	put_ext(c, WIRE_F_DETH | WIRE_F_RETH | WIRE_F_ATOMICETH | WIRE_F_IETH, r);
}

void
craft_redraw(struct craft *c, struct rng *r)
{
	make_room(c);
	put_ext(c, ~0u, r);
}

/* A few of the next packets have arrived. */
static void
put_sack(struct craft *c, struct rng *r)
{
	struct wire_sack s = {.version = WIRE_SACK_VERSION,
			      .flags = (uint8_t)rng_below(r, 4),
			      .dups = rte_cpu_to_be_16((uint16_t)rng_below(r, 4))};
	uint32_t n = rng_below(r, 8);

	while (n-- > 0)
		s.held[0] |= rte_cpu_to_le_64(2ull << rng_below(r, 16));
	if (rng_one_in(r, 4))
		s.held[rng_below(r, WIRE_SACK_WORDS)] |= rte_cpu_to_le_64(2ull << rng_below(r, 63));
	c->rest[0] = (uint8_t)(WIRE_SYN_ACK | rng_below(r, 32));
	memcpy(c->rest + sizeof(struct wire_aeth), &s, sizeof(s));
	c->rest_len = (uint32_t)sizeof(struct wire_aeth) +
		      (uint32_t)WIRE_SACK_LEN(1 + rng_below(r, WIRE_SACK_WORDS));
}

void
craft_new(struct craft *c, uint32_t q, uint8_t opcode, uint32_t payload, struct rng *r)
{
	if (payload > 4096)
		payload = 4096;
	c->q = q;
	c->opcode = opcode;
	c->solicited = rng_one_in(r, 4);
	c->ackreq = rng_one_in(r, 2);
	c->migreq = rng_one_in(r, 2);
	c->marked = rng_one_in(r, 8);
	c->rest_len = ext_len(opcode) + payload;
	memset(c->rest, 0x5c, c->rest_len);
	craft_redraw(c, r);
	if (opcode == WIRE_OPCODE_SACK)
		put_sack(c, r);
}

uint32_t
craft_finish(const struct craft *c, uint8_t *frame)
{
	const struct world_peer *peer = world_peer(c->q);
	struct wire_fields f = {.opcode = c->opcode,
				.solicited = c->solicited,
				.ackreq = c->ackreq,
				.psn = c->psn};
	uint32_t ext = ext_len(c->opcode), rest = c->rest_len > ext ? c->rest_len : ext;
	struct wire_tmpl t = peer->tmpl;
	struct wire_path marked = peer->path;
	uint32_t hdr;

	marked.tclass |= CE;
	if (c->marked)
		wire_tmpl_init(&t, &marked, world_qpn(c->q), 0xffff);
	wire_tmpl_set_migreq(&t, c->migreq);
	hdr = wire_hdr_put(&t, &f, rest - ext, frame);
	/* Our extended headers overwrite those of the builder. */
	memset(frame + hdr - ext, 0, rest);
	memcpy(frame + hdr - ext, c->rest, c->rest_len);
	return wire_frame_finish(&t, frame, hdr, rest - ext);
}

static void
reseal(uint8_t *frame, uint32_t len, uint32_t bth)
{
	bool v6 = bth == WIRE_ETH_LEN + WIRE_IPV6_LEN + WIRE_UDP_LEN;
	uint32_t icrc;

	if (len < bth + WIRE_BTH_LEN + WIRE_ICRC_LEN)
		return;
	icrc = wire_icrc_start(frame + WIRE_ETH_LEN, v6);
	icrc = wire_icrc_update(icrc, frame + bth + WIRE_BTH_LEN,
				len - bth - WIRE_BTH_LEN - WIRE_ICRC_LEN);
	icrc = wire_icrc_final(icrc);
	memcpy(frame + len - WIRE_ICRC_LEN, &icrc, sizeof(icrc));
}

void
craft_spoil(uint8_t *frame, uint32_t len, struct rng *r)
{
	uint32_t bth = bth_offset(frame, len), n = 1 + rng_below(r, 3);

	while (n-- > 0)
		frame[rng_below(r, bth + WIRE_BTH_LEN)] ^= (uint8_t)(1 << rng_below(r, 8));
	reseal(frame, len, bth);
}

void
craft_deform(uint8_t *frame, uint32_t len, struct rng *r)
{
	/* Reserved; one that takes no payload, if there is one; one with longer headers. */
	static const uint8_t ops[] = {0x15,        0x18,
				      0x1f,        WIRE_OP_READ_REQ,
				      WIRE_OP_ACK, WIRE_OP_ATOMIC_ACK,
				      0x1c,        WIRE_OP_FETCH_ADD};
	uint32_t bth = bth_offset(frame, len);

	if (len < bth + WIRE_BTH_LEN)
		return;
	if (rng_one_in(r, 2))
		frame[bth] = (frame[bth] & WIRE_SVC_MASK) | ops[rng_below(r, sizeof(ops))];
	else
		frame[bth + 1] ^= (uint8_t)((1 + rng_below(r, 3)) << 4);
	reseal(frame, len, bth);
}

uint32_t
craft_cut(uint8_t *frame, uint32_t len, struct rng *r)
{
	uint32_t bth = bth_offset(frame, len), ip_len, udp_len;
	struct wire_udp *udp = (struct wire_udp *)(frame + bth - WIRE_UDP_LEN);
	struct wire_ipv4 *ip = (struct wire_ipv4 *)(frame + WIRE_ETH_LEN);
	struct wire_ipv6 *ip6 = (struct wire_ipv6 *)ip;

	if (len <= bth)
		return len;
	len = bth + rng_below(r, len - bth);
	ip_len = len - WIRE_ETH_LEN;
	udp_len = len - bth + WIRE_UDP_LEN;
	udp->len = rte_cpu_to_be_16((uint16_t)udp_len);
	if (bth == WIRE_ETH_LEN + WIRE_IPV6_LEN + WIRE_UDP_LEN) {
		ip6->payload_len = rte_cpu_to_be_16((uint16_t)udp_len);
	} else {
		ip->total_len = rte_cpu_to_be_16((uint16_t)ip_len);
		ip->csum = 0;
		ip->csum = (rte_be16_t)~wire_ipv4_sum(ip);
	}
	return len;
}
