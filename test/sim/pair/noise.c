/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that must be ignored: random bytes, and copies of valid frames with one header field
 * changed, other payload, and an ICRC that is right for the new contents.
 */
#include <string.h>
#include <rte_common.h>
#include "net.h"
#include "pair.h"
#include "wire/csum.h"
#include "wire/icrc.h"
#include "wire/psn.h"

enum forgery {
	FORGE_SOURCE,  /* another IP address: a QP is connected to one peer */
	FORGE_DEST,    /* not the QP's own address of the connection */
	FORGE_PKEY,    /* another partition (WIRE-09) */
	FORGE_QPN,     /* no such QP */
	FORGE_SERVICE, /* opcode of another service */
	FORGE_TVER,    /* transport version (WIRE-04) */
	FORGE_OLD,     /* from before the connection's first PSN: a duplicate of nothing (RSP-01) */
	FORGE_GHOST,   /* response with a PSN that the connection never reaches (REQ-07) */
	FORGE_KINDS,
};

static const struct pair_view noise_view;

/* Random bytes, some with an Ethernet header for this node. */
static void
noise_random(struct pair *s, struct pair_link *link)
{
	struct rte_mbuf *m;
	uint8_t *bytes;
	uint32_t len;

	if (!sim_chance(&s->netr, s->cfg.noise) || s->nfree_pkt == 0)
		return;
	m = rte_pktmbuf_alloc(s->net_pool);
	if (m == NULL)
		return;
	len = sim_scale(&s->netr, 1, 2000);
	bytes = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	sim_rand_fill(&s->netr, bytes, len);
	if (len >= 14) {
		memcpy(bytes, s->node[1 - (link - s->link)].mac, 6);
		bytes[12] = sim_chance(&s->netr, 500000) ? 0x08 : 0x86;
		bytes[13] = bytes[12] == 0x08 ? 0 : 0xdd;
	}
	pair_net_launch(s, link, m, &noise_view);
}

static void
noise_bend_ip(uint8_t *ip, bool v6, bool source)
{
	uint16_t sum = 0;

	ip[v6 ? (source ? 23 : 39) : (source ? 15 : 19)] ^= 0x40;
	if (v6)
		return;
	memcpy(ip + 10, &sum, 2);
	sum = (uint16_t)~wire_ipv4_sum(ip);
	memcpy(ip + 10, &sum, 2);
}

static void
noise_bend(struct pair *s, uint8_t *ip, bool v6, enum forgery kind, const struct pair_view *v)
{
	struct wire_bth *bth = (struct wire_bth *)(ip + (v6 ? 40 : 20) + 8);
	struct pair_side *space = v->flags & WIRE_F_REQ ? v->from : v->to;
	bool ghost = kind == FORGE_GHOST && !(v->flags & WIRE_F_REQ);
	uint32_t off =
		ghost ? space->total + 1 + sim_below(&s->netr, 100) : ~sim_below(&s->netr, 100);
	uint32_t psn = psn_add(space->attr.sq_psn, off);

	switch (kind) {
	case FORGE_SOURCE:
	case FORGE_DEST:
		noise_bend_ip(ip, v6, kind == FORGE_SOURCE);
		break;
	case FORGE_PKEY:
		bth->pkey ^= rte_cpu_to_be_16(0x0100);
		break;
	case FORGE_QPN:
		bth->fb_qpn ^= rte_cpu_to_be_32(1u << sim_between(&s->netr, 6, 23));
		break;
	case FORGE_SERVICE:
		bth->opcode |= WIRE_SVC_UC;
		break;
	case FORGE_TVER:
		bth->se_m_pad_ver |= 1;
		break;
	case FORGE_OLD:
	case FORGE_GHOST:
		bth->a_psn = rte_cpu_to_be_32(psn |
					      (sim_chance(&s->netr, 500000) ? WIRE_BTH_ACKREQ : 0));
		break;
	case FORGE_KINDS:
		break;
	}
}

static void
noise_forge(struct pair *s, struct pair_link *link, const struct rte_mbuf *m,
	    const struct pair_view *v)
{
	struct rte_mbuf *c;
	struct wire_pkt pkt;
	uint32_t head, crc;
	uint8_t *p, *ip;

	if (!sim_chance(&s->netr, s->cfg.forge) || s->nfree_pkt == 0)
		return;
	c = pair_net_copy(s, m);
	if (c == NULL)
		return;
	p = rte_pktmbuf_mtod(c, uint8_t *);
	if (wire_parse(p, c->data_len, &pkt) != WIRE_OK)
		sim_fail(&s->sim, "simulator: the frame to forge is not a frame");
	ip = p + (pkt.ip - p);
	sim_rand_fill(&s->netr, p + (pkt.payload - p), pkt.payload_len);
	noise_bend(s, ip, pkt.is_v6, (enum forgery)sim_below(&s->netr, FORGE_KINDS), v);
	head = (uint32_t)(pkt.bth - pkt.ip) + WIRE_BTH_LEN;
	crc = wire_icrc_update(wire_icrc_start(ip, pkt.is_v6), ip + head,
			       (uint32_t)(p + c->data_len - WIRE_ICRC_LEN - ip) - head);
	crc = wire_icrc_final(crc);
	memcpy(p + c->data_len - WIRE_ICRC_LEN, &crc, WIRE_ICRC_LEN);
	pair_net_launch(s, link, c, &noise_view);
}

void
pair_noise(struct pair *s, struct pair_link *link, const struct rte_mbuf *m,
	   const struct pair_view *v)
{
	noise_random(s, link);
	noise_forge(s, link, m, v);
}
