/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "check.h"
#include "host.h"
#include "qp/doorbell.h"

#define TIMEOUT  14 /* 67 ms */
#define RX_BURST 32

static void
die(const char *what)
{
	fprintf(stderr, "uroce-fabric: %s\n", what);
	exit(2);
}

static bool
on_frame(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return true;
}

static void
on_handoff(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

static void
on_set_timer(void *ctx, struct qp *qp, uint64_t at_ns)
{
	qp->bind.timer_at_ns = at_ns;
}

static void
on_cq_event(void *ctx, struct cq *cq)
{
}

static void
on_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
	struct host *h = ctx;

	if (ev != QP_EVENT_COMM_EST)
		h->broken = true;
}

static const struct engine_ops host_ops = {
	.slow_path = on_frame,
	.handoff = on_handoff,
	.set_timer = on_set_timer,
	.cq_event = on_cq_event,
	.async_event = on_async_event,
};

void
host_open(struct host *h, uint32_t idx, struct rte_mempool *pool, bool sr)
{
	uint32_t bytes = HOST_CONNS * HOST_PLACES * HOST_SIZE;
	uint8_t *memory = rc_zalloc(bytes);

	h->idx = idx;
	h->mac[0] = 2;
	h->mac[5] = (uint8_t)idx;
	h->poll_at = UINT64_MAX;
	h->sqes = qp_sqe_pool_create(HOST_CONNS, QP_WQE_CHUNKS);
	h->sr = sr ? qp_sr_pool_create(pool, HOST_SR_BUFS) : NULL;
	if (memory == NULL || h->sqes == NULL || (sr && h->sr == NULL) ||
	    !rc_side_open(&h->rc, idx & 1, memory, bytes, HOST_CONNS,
			  rc_entries(HOST_CONNS * FLOW_DEPTH)))
		die("no memory for a host");
	engine_init(&h->engine, pool, h->sqes, &h->rc.mrs, &h->rc.qps, 0, &host_ops, h);
	engine_add_dev(&h->engine, 0, h->mac, &h->counters);
	engine_set_sr(&h->engine, h->sr);
}

bool
host_close(struct host *h)
{
	bool whole;

	rte_pktmbuf_free_bulk(h->engine.env.tx, h->engine.env.tx_n);
	while (h->rx_tail != h->rx_head)
		rte_pktmbuf_free(h->rx[h->rx_tail++ % HOST_RX]);
	line_drain(&h->up);
	for (uint32_t i = 0; i < h->nconns; i++) {
		engine_forget(&h->engine, h->rc.conn[i].qp);
		qp_sr_drop(h->sr, h->rc.conn[i].qp);
		qp_free(h->rc.conn[i].qp);
	}
	free(h->rc.mr.host);
	h->rc.nconns = h->nconns;
	rc_side_close(&h->rc);
	qp_sqe_pool_free(h->sqes);
	whole = h->sr == NULL || qp_sr_pool_whole(h->sr);
	qp_sr_pool_free(h->sr);
	return whole;
}

/* The path of a QP of h to host peer. */
static struct qp_path
path_to(const struct host *h, const struct host *peer, uint32_t qpn)
{
	struct qp_path path = rc_path(h->mac, peer->mac, 0, qpn);

	path.wire.sgid[15] = (uint8_t)(1 + h->idx);
	path.wire.dgid[15] = (uint8_t)(1 + peer->idx);
	return path;
}

static void
raise_qp(struct host *h, uint32_t i, const struct host *peer, uint32_t peer_i,
	 const struct cc_param *policy)
{
	struct qp_path path = path_to(h, peer, RC_QPN_BASE + i);
	struct qp *qp = h->rc.conn[i].qp;

	qp->bind.cc = *policy;
	if (!rc_connect(&h->engine.env, qp, HOST_MTU, RC_QPN_BASE + peer_i, TIMEOUT, &path))
		die("a QP cannot be connected");
	/*
	 * The hosts have talked before: their round trip was measured. An incast of first flights
	 * would measure how long a QP waits for a peer that it does not know (qp/loss.h).
	 */
	qp->conn.loss.eager = true;
	if (h->sr != NULL)
		qp_sr_set(h->sr, qp, QP_SR_ON);
	qp_loss_rewait(&h->engine.env, qp);
}

void
host_connect(struct host *a, struct host *b, struct flow *flow, const struct cc_param *policy)
{
	uint32_t i = a->nconns++, k = b->nconns++;

	if (i == HOST_CONNS || k == HOST_CONNS ||
	    !rc_conn_open(&a->rc, i, 16, 16, 0, &a->counters) ||
	    !rc_conn_open(&b->rc, k, 16, 16, 0, &b->counters))
		die("no memory for a QP");
	a->conn[i] = (struct host_conn){.flow = flow, .peer = b, .peer_conn = k};
	b->conn[k] = (struct host_conn){.peer = a, .peer_conn = i};
	flow->next_ns = flow->start_ns;
	raise_qp(a, i, b, k, policy);
	raise_qp(b, k, a, i, policy);
}

void
host_arrive(struct host *h, struct rte_mbuf *m)
{
	if (h->rx_head - h->rx_tail == HOST_RX) {
		h->rx_lost++;
		rte_pktmbuf_free(m);
		return;
	}
	check_came(h, m);
	h->rx[h->rx_head++ % HOST_RX] = m;
}

/* Hands over a burst of arrived frames. Returns true if more are left. */
static bool
receive(struct host *h, uint64_t now_ns)
{
	struct rte_mbuf *m[RX_BURST];
	uint32_t n = 0;

	while (n < RX_BURST && h->rx_tail != h->rx_head)
		m[n++] = h->rx[h->rx_tail++ % HOST_RX];
	if (n != 0)
		engine_rx(&h->engine, now_ns, 0, m, n);
	return h->rx_tail != h->rx_head;
}

static void
run_timers(struct host *h, uint64_t now_ns)
{
	for (uint32_t i = 0; i < h->nconns; i++) {
		struct qp *qp = h->rc.conn[i].qp;

		if (qp->bind.timer_at_ns != 0 && qp->bind.timer_at_ns <= now_ns)
			engine_timer(&h->engine, now_ns, qp);
	}
}

static void
complete(struct host *h, uint32_t i, uint64_t now_ns, uint8_t status)
{
	struct flow *f = h->conn[i].flow;

	if (status != QP_WC_SUCCESS) {
		f->failed = true;
		return;
	}
	check_complete(h, i, f->done);
	if (f->nlat < FLOW_LAT)
		f->lat_ns[f->nlat++] = (uint32_t)(now_ns - f->posted_at[f->done % FLOW_DEPTH]);
	f->done++;
	f->next_ns = now_ns + f->gap_ns;
}

static void
take_completions(struct host *h, uint64_t now_ns)
{
	const struct uroce_cqe *cqe;
	bool any = false;

	for (; (cqe = rc_next_cqe(&h->rc)) != NULL; any = true)
		complete(h, (uint32_t)cqe->wr_id, now_ns, cqe->status);
	if (any)
		rc_cqes_done(&h->rc);
}

static void
post(struct host *h, uint32_t i, uint64_t now_ns)
{
	struct flow *f = h->conn[i].flow;
	struct rc_conn *c = &h->rc.conn[i];
	struct uroce_sge sge = {.addr = rc_addr(host_place(i, f->posted)),
				.length = f->size,
				.lkey = h->rc.mr.key};
	struct uroce_send_wqe w = {
		.wr_id = i,
		.opcode = f->read ? UROCE_WR_RDMA_READ : UROCE_WR_RDMA_WRITE,
		.flags = UROCE_WQE_SIGNALED,
		.num = 1,
		.rdma = {.remote_addr = rc_addr(host_place(h->conn[i].peer_conn, f->posted)),
			 .rkey = h->conn[i].peer->rc.mr.key},
	};
	uint8_t *slot = rc_next_slot(&c->sq);

	/* Both memories may begin with the same bytes. */
	if (f->read && f->posted < HOST_PLACES)
		memset((uint8_t *)h->rc.mr.host + host_place(i, f->posted), 0, f->size);
	check_post(h, i, f->posted);
	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), &sge, sizeof(sge));
	f->posted_at[f->posted++ % FLOW_DEPTH] = now_ns;
	if (qp_doorbell_publish_here(c->sq.hdr, c->sq.prod))
		engine_doorbell(&h->engine, c->qp->conn.qpn);
}

/* Posts what flows want to post now. Returns the time of the next post that waits for time. */
static uint64_t
post_all(struct host *h, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < h->nconns; i++) {
		struct flow *f = h->conn[i].flow;

		while (f != NULL && !f->failed && f->posted - f->done < f->depth &&
		       f->next_ns <= now_ns && now_ns < f->stop_ns)
			post(h, i, now_ns);
		if (f != NULL && f->posted - f->done < f->depth && f->next_ns > now_ns &&
		    f->next_ns < f->stop_ns)
			next = RTE_MIN(next, f->next_ns);
	}
	return next;
}

/* Puts built frames into the line, as far as its ring has space. Returns true if some are left. */
static bool
transmit(struct host *h, uint64_t now_ns)
{
	struct qp_env *env = &h->engine.env;
	uint32_t n = 0;

	while (n < env->tx_n && h->up.waiting_bytes < HOST_TX_BYTES) {
		check_sent(h, env->tx[n]);
		if (!line_push(&h->up, now_ns, env->tx[n], 0))
			break;
		n++;
	}
	env->tx_n -= n;
	memmove(env->tx, env->tx + n, env->tx_n * sizeof(env->tx[0]));
	return env->tx_n != 0;
}

uint64_t
host_poll(struct host *h, uint64_t now_ns)
{
	bool busy = receive(h, now_ns);
	uint64_t next;

	run_timers(h, now_ns);
	take_completions(h, now_ns);
	next = post_all(h, now_ns);
	busy |= engine_run(&h->engine, now_ns);
	busy |= transmit(h, now_ns);
	/* engine_run may have completed something. */
	take_completions(h, now_ns);
	h->last_poll_ns = now_ns;
	if (busy)
		return now_ns + HOST_POLL_NS;
	next = RTE_MIN(next, engine_next_ns(&h->engine));
	for (uint32_t i = 0; i < h->nconns; i++) {
		uint64_t timer = h->rc.conn[i].qp->bind.timer_at_ns;

		if (timer != 0)
			next = RTE_MIN(next, timer);
	}
	return next == UINT64_MAX ? next : RTE_MAX(next, now_ns + HOST_POLL_NS);
}

bool
host_idle(const struct host *h)
{
	for (uint32_t i = 0; i < h->nconns; i++) {
		const struct flow *f = h->conn[i].flow;

		if (f != NULL && !f->failed && f->posted != f->done)
			return false;
	}
	return true;
}

bool
host_verify(const struct host *h, uint32_t i)
{
	const struct host_conn *c = &h->conn[i];

	for (uint64_t n = 0; n < HOST_PLACES && n < c->flow->done; n++) {
		if (memcmp((uint8_t *)h->rc.mr.host + host_place(i, n),
			   (uint8_t *)c->peer->rc.mr.host + host_place(c->peer_conn, n),
			   c->flow->size) != 0)
			return false;
	}
	return true;
}

uint32_t
host_expected_psn(const struct host *h, uint32_t i)
{
	return h->rc.conn[i].qp->conn.rcv.epsn;
}

uint32_t
host_una_psn(const struct host *h, uint32_t i)
{
	return h->rc.conn[i].qp->conn.snd.una_psn;
}
