/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links. Each takes the frames of one node (or loops them back to it), sends them at its rate, and
 * applies the configured faults. A frame arrives in an mbuf as a driver would deliver it.
 */
#include <stdio.h>
#include <string.h>
#include <rte_common.h>
#include "apm.h"
#include "qp/env.h"
#include "net.h"
#include "pair.h"
#include "wire/icrc.h"

void
pair_net_reset(struct pair *s)
{
	uint32_t i;

	memset(s->link, 0, sizeof(s->link));
	s->nfree_pkt = PAIR_MAX_PKTS;
	for (i = 0; i < PAIR_MAX_PKTS; i++)
		s->free_pkt[i] = (uint16_t)(PAIR_MAX_PKTS - 1 - i);
	for (i = 0; i < PAIR_LINK_LOOPBACK && s->cfg.blackout_ns != 0; i++) {
		s->link[i].dark_from = s->now_ns + sim_below(&s->netr, 400000);
		s->link[i].dark_to = s->link[i].dark_from + sim_below(&s->netr, s->cfg.blackout_ns);
	}
}

void
pair_pkt_free(struct pair *s, struct pair_pkt *p)
{
	rte_pktmbuf_free(p->m);
	p->m = NULL;
	s->link[p->link].inflight--;
	s->free_pkt[s->nfree_pkt++] = (uint16_t)(p - s->pkt);
}

static void
net_log(struct pair *s, const struct pair_link *link, const struct pair_view *v, uint32_t id,
	uint32_t bytes, const char *fate)
{
	char what[64] = "";

	if (!s->verbose)
		return;
	if (v->flags & WIRE_F_AETH)
		snprintf(what, sizeof(what), " syndrome %02x", v->syndrome);
	sim_log(&s->sim, "#%-5u link %d qp %06x -> %06x %-24s psn %-6u%s %u bytes: %s", id,
		(int)(link - s->link), v->from ? v->from->qpn : 0, v->to ? v->to->qpn : 0,
		pair_op_text(v->opcode), v->psn, what, bytes, fate);
}

struct rte_mbuf *
pair_net_copy(struct pair *s, const struct rte_mbuf *m)
{
	struct rte_mbuf *c = rte_pktmbuf_alloc(s->net_pool);
	const void *bytes;
	char *room;

	if (c == NULL)
		return NULL;
	room = rte_pktmbuf_append(c, (uint16_t)m->pkt_len);
	if (room == NULL) {
		rte_pktmbuf_free(c);
		return NULL;
	}
	bytes = rte_pktmbuf_read(m, 0, m->pkt_len, room);
	if (bytes != room)
		memcpy(room, bytes, m->pkt_len);
	return c;
}

/* Would a receiver accept this frame as valid? Then its bytes are those sent: see net_damage. */
static bool
net_good(const struct pair_node *to, const struct rte_mbuf *m)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(m, const uint8_t *);
	struct wire_pkt pkt;

	return m->data_len >= WIRE_ETH_LEN && memcmp(bytes, to->mac, 6) == 0 &&
	       wire_parse(bytes, m->data_len, &pkt) == WIRE_OK && wire_icrc_check(&pkt) &&
	       (pkt.vlan_tci & WIRE_VID_MASK) == pair_vid(to->pair);
}

/* Do the first len bytes of two frames differ in a byte that the ICRC covers (WIRE-03)? */
static bool
net_covered_differs(const uint8_t *a, const uint8_t *b, uint32_t len)
{
	uint32_t ip = a[12] == 0x81 ? 18 : 14;
	bool v6 = a[ip] >> 4 == 6;
	uint32_t udp = ip + (v6 ? 40 : 20), bth = udp + 8, from = ip + (v6 ? 8 : 12);

	/* The IP addresses, the ports and the length, the BTH except one byte, and all the rest. */
	return memcmp(a + from, b + from, udp + 6 - from) != 0 ||
	       memcmp(a + bth, b + bth, 4) != 0 ||
	       memcmp(a + bth + 5, b + bth + 5, len - bth - 5) != 0;
}

/* Flips one to three bits, or cuts off or adds a tail. True if a receiver must still accept it. */
static bool
net_damage(struct pair *s, const struct pair_node *to, struct rte_mbuf *m)
{
	uint8_t *bytes = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t die = sim_below(&s->netr, 10), i, n, len = m->data_len;

	if (die == 0) {
		n = 1 + sim_below(&s->netr, len);
		m->data_len = m->pkt_len = (uint16_t)RTE_MAX(len - RTE_MIN(n, len), 1u);
		if (net_good(to, m))
			sim_fail(&s->sim, "WIRE-04: a frame that lost its tail passes for good");
		return false;
	}
	if (die == 1) { /* Ethernet padding */
		n = RTE_MIN(sim_between(&s->netr, 1, 64), rte_pktmbuf_tailroom(m) + 0u);
		sim_rand_fill(&s->netr, bytes + len, n);
		m->data_len = m->pkt_len = (uint16_t)(len + n);
		return true;
	}
	memcpy(s->scratch, bytes, len);
	n = sim_between(&s->netr, 1, 3);
	for (i = 0; i < n; i++) {
		/* Half of the flips are in the headers. */
		uint32_t range = sim_chance(&s->netr, 500000) ? RTE_MIN(len, 80u) : len;
		uint32_t bit = sim_below(&s->netr, 8 * range);

		bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
	if (!net_good(to, m))
		return false;
	if (net_covered_differs(s->scratch, bytes, len))
		sim_fail(&s->sim, "WIRE-03: a damaged frame passes the ICRC");
	return true;
}

/* The time at which this frame's last bit arrives. */
static uint64_t
net_when(struct pair *s, struct pair_link *link, uint32_t bytes)
{
	const struct pair_cfg *c = &s->cfg;
	uint64_t at;

	link->free_ns = RTE_MAX(link->free_ns, s->now_ns) + (uint64_t)bytes * c->byte_ps / 1000;
	at = link->free_ns + c->delay_ns;
	if (c->jitter_ns != 0)
		at += sim_below(&s->netr, c->jitter_ns);
	if (sim_chance(&s->netr, c->reorder))
		at += sim_below(&s->netr, c->hold_ns);
	return at;
}

void
pair_net_launch(struct pair *s, struct pair_link *link, struct rte_mbuf *m,
		const struct pair_view *v)
{
	uint32_t l = (uint32_t)(link - s->link), i = s->free_pkt[--s->nfree_pkt];
	struct pair_pkt *p = &s->pkt[i];

	*p = (struct pair_pkt){.m = m, .view = *v, .link = (uint8_t)l, .intact = true};
	p->node = (uint8_t)(l < PAIR_LINK_LOOPBACK ? 1 - l : l - PAIR_LINK_LOOPBACK);
	p->id = s->next_id++;
	link->inflight++;
	m->port = s->node[p->node].dev;
	m->hash.usr = 0xdeadbeef; /* the rx side must not rely on the tx side's value */
	m->ol_flags = 0;
	if (l < PAIR_LINK_LOOPBACK && sim_chance(&s->netr, s->cfg.corrupt)) {
		p->intact = net_damage(s, &s->node[p->node], m);
		s->stats.damaged++;
	}
	net_log(s, link, v, p->id, m->pkt_len, p->intact ? "goes" : "damaged");
	sim_at(&s->sim, net_when(s, link, m->pkt_len), SIM_EV_FRAME, i);
}

static bool
net_lost(struct pair *s, struct pair_link *link, const struct pair_view *v)
{
	if (link >= &s->link[PAIR_LINK_LOOPBACK])
		return false;
	if (pair_apm_lost(s, v))
		return true;
	if (s->now_ns >= link->dark_from && s->now_ns < link->dark_to)
		return true;
	/* Later packets reveal the gap: no timeout is needed (NAK-04, REQ-08). */
	if (v->fresh && !(v->flags & WIRE_F_LAST) && sim_chance(&s->netr, s->cfg.skip))
		return true;
	if (link->burst > 0) {
		link->burst--;
		return true;
	}
	if (!sim_chance(&s->netr, s->cfg.loss))
		return false;
	link->burst = sim_below(&s->netr, 2 * s->cfg.burst);
	return true;
}

static bool
net_full(struct pair *s, struct pair_link *link)
{
	uint64_t wait_ns = link->free_ns > s->now_ns ? link->free_ns - s->now_ns : 0;

	if (s->nfree_pkt < 2)
		return true;
	return wait_ns * 1000 > (uint64_t)s->cfg.queue * 1024 * s->cfg.byte_ps;
}

void
pair_net_send(struct sim_worker *w, struct rte_mbuf *m)
{
	struct pair_node *n = container_of(w, struct pair_node, worker);
	struct pair *s = n->pair;
	bool loop = m->hash.usr == QP_TX_LOOPBACK;
	struct pair_link *link = &s->link[loop ? PAIR_LINK_LOOPBACK + n->idx : n->idx];
	struct pair_view v = *(struct pair_view *)rte_mbuf_to_priv(m);
	struct rte_mbuf *c = NULL;

	s->stats.frames++;
	sim_digest_frame(&s->digest, m);
	s->more.bytes += m->pkt_len;
	if (!loop)
		pair_noise(s, link, m, &v);
	if (net_full(s, link) || net_lost(s, link, &v)) {
		net_log(s, link, &v, 0, m->pkt_len, net_full(s, link) ? "overflow" : "lost");
		s->stats.lost++;
		rte_pktmbuf_free(m);
		return;
	}
	if (!loop && sim_chance(&s->netr, s->cfg.dup))
		c = pair_net_copy(s, m);
	/* The engine's own mbuf is sent, unless mbufs are scarce or it is not a simple one. */
	if (s->cfg.small_pool || m->nb_segs != 1 || rte_mbuf_refcnt_read(m) != 1 ||
	    !RTE_MBUF_DIRECT(m)) {
		struct rte_mbuf *own = pair_net_copy(s, m);

		rte_pktmbuf_free(m);
		m = own;
	}
	if (m != NULL)
		pair_net_launch(s, link, m, &v);
	if (c != NULL) {
		s->stats.doubled++;
		pair_net_launch(s, link, c, &v);
	}
}

void
pair_net_arrive(struct sim *sim, uint32_t pkt)
{
	struct pair *s = container_of(sim, struct pair, sim);
	struct pair_pkt *p = &s->pkt[pkt];
	struct pair_node *n = &s->node[p->node];

	if (n->rxq_n >= RTE_MIN(s->cfg.rx_ring, PAIR_MAX_RXQ + 0u)) {
		if (s->verbose)
			sim_log(&s->sim, "#%-5u node %u: receive ring full", p->id, n->idx);
		s->more.overflow++;
		pair_pkt_free(s, p);
		return;
	}
	n->rxq[n->rxq_n++] = p;
	sim_wake(&n->worker, sim_below(&s->netr, s->cfg.poll_ns + 1));
}

void
pair_net_drain(struct pair *s)
{
	uint32_t i;

	for (i = 0; i < PAIR_MAX_PKTS; i++) {
		if (s->pkt[i].m != NULL)
			pair_pkt_free(s, &s->pkt[i]);
	}
}
