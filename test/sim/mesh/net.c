/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links from each node to each other: frames are lost, duplicated, delayed, corrupted, or dropped
 * at a full queue. A received frame goes to one of the node's workers, as by a port's RSS.
 */
#include <string.h>
#include <rte_common.h>
#include "mesh.h"
#include "wire/icrc.h"

void
mesh_net_reset(struct mesh *m)
{
	uint32_t i;

	m->nfree_pkt = MESH_PKTS;
	for (i = 0; i < MESH_PKTS; i++) {
		m->free_pkt[i] = (uint16_t)(MESH_PKTS - 1 - i);
		m->pkt[i].m = NULL;
	}
	for (i = 0; i < m->cfg.nodes && m->cfg.blackout_ns != 0; i++) {
		m->node[i].dark_from = m->now_ns + sim_below(&m->netr, 600000);
		m->node[i].dark_to = m->node[i].dark_from + sim_below(&m->netr, m->cfg.blackout_ns);
	}
}

void
mesh_net_drain(struct mesh *m)
{
	uint32_t i, k;

	for (i = 0; i < MESH_PKTS; i++)
		rte_pktmbuf_free(m->pkt[i].m);
	for (i = 0; i < m->cfg.nodes * SIM_WORKERS; i++) {
		struct mesh_worker *w = &m->node[i / SIM_WORKERS].worker[i % SIM_WORKERS];

		for (k = 0; k < w->rx_n; k++)
			rte_pktmbuf_free(w->rx[k]);
		for (k = 0; k < w->in_n; k++)
			rte_pktmbuf_free(w->in[k]);
	}
}

static struct rte_mbuf *
net_copy(struct mesh *m, struct rte_mbuf *from)
{
	struct rte_mbuf *c = rte_pktmbuf_alloc(m->net_pool);

	if (c == NULL || rte_pktmbuf_tailroom(c) < from->data_len) {
		rte_pktmbuf_free(c);
		return NULL;
	}
	memcpy(rte_pktmbuf_append(c, from->data_len), rte_pktmbuf_mtod(from, void *),
	       from->data_len);
	return c;
}

/* Flips one to three bits, or cuts off the tail. */
static void
net_damage(struct mesh *m, struct rte_mbuf *frame)
{
	uint8_t *p = rte_pktmbuf_mtod(frame, uint8_t *);
	uint32_t n, range;

	m->stats.damaged++;
	if (sim_chance(&m->netr, 100000)) {
		n = 1 + sim_below(&m->netr, frame->data_len - 1u);
		frame->data_len = (uint16_t)n;
		frame->pkt_len = n;
		return;
	}
	for (n = sim_between(&m->netr, 1, 3); n > 0; n--) {
		range = sim_chance(&m->netr, 500000) ? RTE_MIN(frame->data_len, 80u)
						     : frame->data_len;
		range = sim_below(&m->netr, 8 * range);
		p[range / 8] ^= (uint8_t)(1u << (range % 8));
	}
}

/* The worker of node that gets the frame: the flow's, or any. */
static uint8_t
net_worker(struct mesh *m, const struct rte_mbuf *frame)
{
	const uint8_t *p = rte_pktmbuf_mtod(frame, const uint8_t *);

	if (m->cfg.rss || frame->data_len < 50)
		return (uint8_t)sim_below(&m->netr, m->cfg.workers);
	return (uint8_t)((p[34] ^ p[35] ^ p[45]) % m->cfg.workers);
}

static void
net_launch(struct mesh *m, struct mesh_node *from, uint32_t to, struct rte_mbuf *frame)
{
	const struct mesh_cfg *c = &m->cfg;
	uint32_t i = m->free_pkt[--m->nfree_pkt];
	uint64_t at;

	from->free_ns =
		RTE_MAX(from->free_ns, m->now_ns) + (uint64_t)frame->pkt_len * c->byte_ps / 1000;
	at = from->free_ns + c->delay_ns;
	if (c->jitter_ns != 0)
		at += sim_below(&m->netr, c->jitter_ns);
	if (sim_chance(&m->netr, c->reorder))
		at += sim_below(&m->netr, c->hold_ns);
	frame->port = m->node[to].dev;
	frame->hash.usr = 0xdeadbeef;
	frame->ol_flags = 0;
	m->pkt[i] = (struct mesh_pkt){frame, (uint8_t)to, net_worker(m, frame)};
	if (sim_chance(&m->netr, c->corrupt))
		net_damage(m, frame);
	if (!sim_heap_push(&m->heap, at, SIM_EV_FRAME, i))
		sim_fail(&m->sim, "simulator: too many events");
}

/*
 * A changed copy of a UC or UD frame with a correct ICRC: another P_Key, Q_Key or PSN, or other
 * bytes. model.c decides what must happen to it.
 */
static struct rte_mbuf *
net_forge(struct mesh *m, struct rte_mbuf *frame, const struct wire_pkt *was)
{
	struct rte_mbuf *c = net_copy(m, frame);
	uint8_t *p, *bth, *ip;
	uint32_t end = frame->data_len - WIRE_ICRC_LEN, crc;

	if (c == NULL)
		return NULL;
	p = rte_pktmbuf_mtod(c, uint8_t *);
	ip = p + (was->ip - was->l2);
	bth = p + (was->bth - was->l2);
	switch (sim_below(&m->netr, 4)) {
	case 0:
		bth[2] ^= 0x01; /* P_Key (WIRE-09) */
		break;
	case 1:
		bth[11] ^= (uint8_t)sim_between(&m->netr, 1, 255);
		break;
	case 2:
		if (was->op->flags & WIRE_F_DETH)
			bth[12] ^= 0x08; /* Q_Key (WIRE-08) */
		break;
	default:
		if (was->payload_len != 0)
			p[was->payload - was->l2] ^= 0x55;
		break;
	}
	crc = wire_icrc_update(wire_icrc_start(ip, was->is_v6), bth + WIRE_BTH_LEN,
			       (uint32_t)(p + end - bth) - WIRE_BTH_LEN);
	crc = wire_icrc_final(crc);
	memcpy(p + end, &crc, sizeof(crc));
	return c;
}

/*
 * Is pkt of UC or UD? A forged packet of RC with a correct ICRC is not to be told from a real one:
 * an ACK or a SACK with another PSN acknowledges requests that were lost.
 */
static bool
may_forge(const struct wire_pkt *pkt)
{
	uint8_t svc = pkt->opcode & WIRE_SVC_MASK;

	return svc == WIRE_SVC_UC || svc == WIRE_SVC_UD;
}

static bool
net_dark(const struct mesh *m, const struct mesh_node *n)
{
	return m->now_ns >= n->dark_from && m->now_ns < n->dark_to;
}

/* Sends a copy to one node, or loses it. */
static void
net_send_to(struct mesh *m, struct mesh_node *from, uint32_t to, struct rte_mbuf *frame,
	    bool answer)
{
	struct rte_mbuf *c;
	uint32_t copies = 1 + sim_chance(&m->netr, m->cfg.dup);

	if (net_dark(m, from) || net_dark(m, &m->node[to]) || sim_chance(&m->netr, m->cfg.loss) ||
	    (answer && sim_chance(&m->netr, m->cfg.ackloss))) {
		m->stats.lost++;
		return;
	}
	m->stats.doubled += copies - 1;
	for (; copies > 0 && m->nfree_pkt > 0; copies--) {
		c = net_copy(m, frame);
		if (c != NULL)
			net_launch(m, from, to, c);
	}
}

static void
net_loop(struct mesh_worker *w, struct rte_mbuf *frame)
{
	if (w->rx_n >= MESH_RX) {
		w->node->m->stats.lost++;
		rte_pktmbuf_free(frame);
		return;
	}
	w->rx[w->rx_n++] = frame;
}

void
mesh_net_send(struct sim_worker *worker, struct rte_mbuf *frame)
{
	struct mesh_worker *w = container_of(worker, struct mesh_worker, sim_worker);
	struct mesh *m = w->node->m;
	const uint8_t *p = rte_pktmbuf_mtod(frame, const uint8_t *);
	struct rte_mbuf *forged = NULL;
	struct wire_pkt pkt;
	uint32_t i;

	m->stats.frames++;
	sim_digest_frame(&m->digest, frame);
	if (frame->hash.usr == QP_TX_LOOPBACK) {
		net_loop(w, frame);
		return;
	}
	if (wire_parse(p, frame->data_len, &pkt) != WIRE_OK || !wire_icrc_check(&pkt)) {
		sim_fail(&m->sim, "WIRE-01: node %u sends a frame that is none", w->node->idx);
		rte_pktmbuf_free(frame);
		return;
	}
	if (may_forge(&pkt) && sim_chance(&m->netr, m->cfg.forge))
		forged = net_forge(m, frame, &pkt);
	for (i = 0; i < m->cfg.nodes; i++) {
		if (i == w->node->idx || (!(p[0] & 1) && memcmp(p, m->node[i].mac, 6) != 0))
			continue;
		net_send_to(m, w->node, i, frame, (pkt.op->flags & WIRE_F_RESP) != 0);
		if (forged != NULL)
			net_send_to(m, w->node, i, forged, false);
	}
	rte_pktmbuf_free(forged);
	rte_pktmbuf_free(frame);
}

void
mesh_net_arrive(struct sim *sim, uint32_t i)
{
	struct mesh *m = container_of(sim, struct mesh, sim);
	struct mesh_pkt *p = &m->pkt[i];
	struct mesh_worker *w = &m->node[p->node].worker[p->worker];

	if (w->rx_n >= RTE_MIN(m->cfg.rx_ring, MESH_RX + 0u)) {
		m->stats.lost++;
		rte_pktmbuf_free(p->m);
	} else {
		w->rx[w->rx_n++] = p->m;
		sim_wake(&w->sim_worker, sim_below(&m->netr, m->cfg.poll_ns + 1));
	}
	p->m = NULL;
	m->free_pkt[m->nfree_pkt++] = (uint16_t)i;
}
