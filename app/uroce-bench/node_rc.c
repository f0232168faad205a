/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker as in the daemon: its loop, timers and transmission. The client runs inside the loop, in
 * the callback of a doorbell ring that always reports overflow, which the worker calls once in each
 * iteration. Both cores therefore do the same work as for users; only the client's core is missing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rte_mbuf.h>
#include "node_pair.h"
#include "qp/doorbell.h"
#include "test/kit/rc_connect.h"
#include "worker/worker.h"

#define LOOK_US 2000 /* poll interval of the main thread, which shares the worker's core */
#define GROUP   16   /* messages posted together, the last signaled; or a quarter of --depth */

struct rc {
	struct node_shared *sh;
	struct node_side *me, *peer;
	unsigned side;
	struct worker_set *ws;
	struct worker *w;
	struct port *port;
	struct rc_side s;
	struct uroce_db_ring *db;
	uint64_t posted, done;
	uint32_t group;
	uint32_t step; /* that the worker has reached */
};

static void
conn_open(struct rc *rc, uint32_t i)
{
	struct rc_conn *c = &rc->s.conn[i];
	/* the sender may be a queue ahead of what the receiving client has seen */
	uint32_t sq = rc_entries(rc->sh->o.depth);

	c->place = i;
	if (!rc_conn_open(&rc->s, i, sq, 2 * sq, rc->port->id,
			  worker_counters(rc->w, rc->port->id)) ||
	    worker_adopt_qp(rc->w, c->qp) != 0)
		node_fail("no memory for a QP");
}

static void
conn_raise(struct rc *rc, uint32_t i)
{
	struct qp_path path = rc_path(rc->me->mac, rc->peer->mac, rc->side, RC_QPN_BASE + i);

	if (rc->sh->o.port == BENCH_PORT_UDP)
		path.wire.udp_sport = WIRE_UDP_PORT; /* the socket's, under the ICRC */
	/* half a second of timeout: a worker may have to wait for its core */
	if (!rc_connect(&worker_engine(rc->w)->env, rc->s.conn[i].qp, rc->sh->o.mtu,
			RC_QPN_BASE + i, 17, &path))
		node_fail("a QP cannot be connected");
}

/* --- the client, on the worker ------------------------------------------------------------------
 */

/* Offset of the next message of c, the same on both sides. */
static uint64_t
next_place(const struct rc *rc, struct rc_conn *c)
{
	uint64_t place = c->place;

	c->place += rc->sh->o.qps;
	while (c->place >= rc->sh->slots)
		c->place -= rc->sh->slots;
	return place * rc->sh->stride;
}

static void
post_recv(struct rc *rc, struct rc_conn *c)
{
	rc_post_recv(&rc->s, c, 1ull << 32 | (uint64_t)(c - rc->s.conn), next_place(rc, c),
		     rc->sh->o.size);
}

/* Fill in the constant fields of all WQEs once, so that posting is cheap. */
static void
prepare_sends(const struct rc *rc, struct rc_conn *c)
{
	static const uint8_t opcode[BENCH_OPS] = {
		[BENCH_WRITE] = UROCE_WR_RDMA_WRITE,
		[BENCH_SEND] = UROCE_WR_SEND,
		[BENCH_READ] = UROCE_WR_RDMA_READ,
		[BENCH_ATOMIC] = UROCE_WR_ATOMIC_FETCH_ADD,
	};
	struct uroce_send_wqe w = {
		.opcode = opcode[rc->sh->o.op],
		.num = rc->sh->o.size != 0,
		.rdma = {.rkey = rc->peer->key},
	};
	struct uroce_sge sge = {.length = rc->sh->o.size, .lkey = rc->s.mr.key};

	for (uint32_t i = 0; i <= c->sq.mask; i++) {
		uint8_t *slot = c->sq.slots + (size_t)i * c->sq.stride;

		memcpy(slot, &w, sizeof(w));
		memcpy(slot + sizeof(w), &sge, sizeof(sge));
	}
}

/* Post the next n messages of c with one completion. */
static void
post_sends(struct rc *rc, struct rc_conn *c, uint32_t n)
{
	struct uroce_send_wqe *w = NULL;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *slot = rc_next_slot(&c->sq);
		uint64_t addr = rc_addr(next_place(rc, c));

		w = (struct uroce_send_wqe *)slot;
		w->flags = 0;
		w->rdma.remote_addr = addr;
		memcpy(slot + sizeof(*w) + offsetof(struct uroce_sge, addr), &addr, sizeof(addr));
	}
	if (w == NULL)
		return;
	w->flags = UROCE_WQE_SIGNALED;
	w->wr_id = (uint64_t)n << 32 | (uint64_t)(c - rc->s.conn);
	rc->posted += n;
}

/* Publish the posted WQEs; ring the doorbell if the queue is armed. */
static void
publish(struct rc *rc, struct rc_conn *c)
{
	if (qp_doorbell_publish_here(c->sq.hdr, c->sq.prod))
		engine_doorbell(worker_engine(rc->w), c->qp->conn.qpn);
}

/* Take completions; for each, post the next messages or receive of its connection. */
static void
reap(struct rc *rc, bool more)
{
	uint32_t first = rc->s.cq_cons;
	const struct uroce_cqe *cqe;
	struct rc_conn *open = NULL;

	while ((cqe = rc_next_cqe(&rc->s)) != NULL) {
		struct rc_conn *c;
		uint64_t n;

		if (cqe->status != QP_WC_SUCCESS)
			node_fail("a message completed with status %u", cqe->status);
		c = &rc->s.conn[(uint32_t)cqe->wr_id];
		n = cqe->wr_id >> 32;
		c->done += n;
		rc->done += n;
		if (rc->side == 1) {
			post_recv(rc, c);
			continue;
		}
		if (!more || rc->posted >= rc->sh->until)
			continue;
		if (open != NULL && open != c)
			publish(rc, open);
		post_sends(rc, c, (uint32_t)RTE_MIN(n, rc->sh->until - rc->posted));
		open = c;
	}
	if (open != NULL)
		publish(rc, open);
	if (rc->s.cq_cons == first)
		return;
	rc_cqes_done(&rc->s);
	if (rc->side == 0)
		__atomic_store_n(&rc->me->count, rc->done, __ATOMIC_RELAXED);
}

static void
fill(struct rc *rc)
{
	uint32_t depth = rc->sh->o.depth;

	for (uint32_t k = 0; k < depth; k += rc->group)
		for (uint32_t i = 0; i < rc->sh->o.qps && rc->posted < rc->sh->until; i++)
			post_sends(rc, &rc->s.conn[i],
				   (uint32_t)RTE_MIN(RTE_MIN(rc->group, depth - k),
						     rc->sh->until - rc->posted));
	for (uint32_t i = 0; i < rc->sh->o.qps; i++)
		publish(rc, &rc->s.conn[i]);
}

/* Places that have certainly been written: the minimum over the connections, times their number. */
static uint64_t
places_filled(const struct rc *rc)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < rc->sh->o.qps; i++)
		least = RTE_MIN(least, rc->s.conn[i].done);
	return RTE_MIN(least * rc->sh->o.qps, (uint64_t)rc->sh->slots);
}

/* Called once in each iteration of the worker while the ring reports overflow. */
static bool
client(struct worker *w, void *ctx, bool first)
{
	struct rc *rc = ctx;
	uint32_t step = __atomic_load_n(&rc->sh->step, __ATOMIC_ACQUIRE);
	uint32_t phase = rc->sh->phase;

	if (step != rc->step && phase == NODE_PROBE)
		node_probe(rc->sh, rc->side);
	if (step != rc->step && phase == NODE_RUN && rc->side == 0)
		fill(rc);
	reap(rc, phase == NODE_RUN);
	if (phase == NODE_REST && rc->side == 0 && rc->done != rc->posted)
		step = rc->step; /* not at rest yet */
	if (step != rc->step && phase == NODE_REST)
		rc->me->full = places_filled(rc);
	if (step != rc->step)
		node_reached(rc->me, step);
	rc->step = step;
	/* The responder runs a client only for SEND, so that its loop stays unchanged otherwise. */
	if (rc->side == 0 ? phase == NODE_RUN || rc->done != rc->posted
			  : phase == NODE_RUN && rc->sh->o.op == BENCH_SEND)
		__atomic_store_n(&rc->db->overflow, 1, __ATOMIC_RELAXED);
	return false;
}

/* --- set-up, on the main thread -----------------------------------------------------------------
 */

static void
connect_on_worker(struct worker *w, void *arg)
{
	struct rc *rc = arg;

	for (uint32_t i = 0; i < rc->sh->o.qps; i++) {
		conn_open(rc, i);
		prepare_sends(rc, &rc->s.conn[i]);
		conn_raise(rc, i);
		for (uint32_t k = 0; rc->side == 1 && k <= rc->s.conn[i].rq.mask; k++)
			post_recv(rc, &rc->s.conn[i]);
	}
}

static void
worker_open(struct rc *rc, struct rte_mempool *pool)
{
	static const unsigned lcore = 1;
	struct worker_params p = {.nworkers = 1,
				  .lcores = &lcore,
				  .idle = rc->sh->yields ? WORKER_IDLE_ADAPTIVE : WORKER_IDLE_POLL,
				  .mrs = &rc->s.mrs,
				  .qps = &rc->s.qps,
				  .pool = pool};
	const struct node_shared *sh = rc->sh;

	if (!rc_side_open(&rc->s, rc->side, node_region(rc->sh, rc->side), sh->slots * sh->stride,
			  sh->o.qps, rc_entries(3 * sh->o.qps * rc_entries(sh->o.depth))))
		node_fail("no memory");
	rc->me->key = rc->s.mr.key;
	rc->ws = worker_set_create(&p);
	if (rc->ws == NULL)
		node_fail("no worker: %s", strerror(errno));
	rc->w = worker_get(rc->ws, 0);
	rc->db = rc_zalloc(sizeof(*rc->db));
	if (rc->db == NULL || worker_add_port(rc->ws, rc->port) != 0 ||
	    worker_add_doorbell(rc->w, rc->db, &rc->db->waiter, client, rc) != 0)
		node_fail("no memory");
}

/* Take the worker's events, which must not be lost. Other kinds are errors. */
static void
take_events(struct rc *rc)
{
	struct worker_event ev[32];
	unsigned n = worker_events(rc->ws, ev, 32);

	for (unsigned i = 0; i < n; i++) {
		if (ev[i].kind == WORKER_EV_FRAME)
			rte_pktmbuf_free(ev[i].obj);
		else if (ev[i].kind == WORKER_EV_ASYNC && ev[i].ev != QP_EVENT_COMM_EST)
			node_fail("a QP or CQ failed: event %u", ev[i].ev);
	}
}

void
node_rc_main(struct node_shared *sh, unsigned side, struct port *port, struct rte_mempool *pool)
{
	static struct rc rc;
	uint32_t step = sh->step;

	rc = (struct rc){.sh = sh,
			 .me = &sh->side[side],
			 .peer = &sh->side[1 - side],
			 .side = side,
			 .port = port,
			 .group = RTE_MAX(1u, RTE_MIN(sh->o.depth / 4, (uint32_t)GROUP)),
			 .step = step};
	worker_open(&rc, pool);
	node_reached(rc.me, step);
	for (;;) {
		uint32_t now = __atomic_load_n(&sh->step, __ATOMIC_ACQUIRE);

		take_events(&rc);
		if (now == step) {
			usleep(LOOK_US);
			continue;
		}
		step = now;
		if (sh->phase == NODE_CONNECT) {
			node_link_wait(port);
			worker_call(rc.w, connect_on_worker, &rc);
			node_reached(rc.me, step);
			continue;
		}
		/* the worker does the other phases */
		__atomic_store_n(&rc.db->overflow, 1, __ATOMIC_RELEASE);
	}
}
