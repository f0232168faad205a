/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "../eal.h"
#include "goodput.h"
#include "link.h"
#include "test/kit/engine_pair.h"

#define POOL_MBUFS 16383
#define POLL_NS    1000
#define MTU        4096u
#define PLACES     4
#define RX_BURST   32

static struct rte_mempool *pool;

static struct {
	struct goodput_run run;
	struct engine_pair pair;
	struct link link[2]; /* from node 0, from node 1 */
	uint64_t poll_ns[2]; /* time of the next iteration of the node's worker */
	uint64_t now_ns;
	uint64_t *took_ns, posted_ns; /* with a depth of 1: of each message; of the last one */
	uint64_t selective,
		settled; /* packets sent again alone; sent at all when it last changed */
} world;

void
goodput_open(void)
{
	sim_eal_open("uroce-loss", "160");
	pool = rte_pktmbuf_pool_create("loss", POOL_MBUFS, 0, 0,
				       RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + MTU, 0);
	if (pool == NULL) {
		fprintf(stderr, "uroce-loss: no memory for frames\n");
		exit(2);
	}
}

static struct rc_conn *
requester(void)
{
	return &world.pair.node[0].rc.conn[0];
}

static void
post_recvs(uint32_t n)
{
	for (; n > 0; n--)
		engine_pair_post_recv(&world.pair, 0, world.pair.node[1].rc.conn[0].rq.prod);
}

static void
post_sends(void)
{
	static const uint8_t opcode[GOODPUT_OPS] = {UROCE_WR_RDMA_WRITE, UROCE_WR_SEND,
						    UROCE_WR_RDMA_READ};
	uint64_t had = world.pair.posted;

	if (world.took_ns != NULL && had != 0 && requester()->done == had)
		world.took_ns[had - 1] = world.now_ns - world.posted_ns;
	while (world.pair.posted < world.run.messages &&
	       world.pair.posted - requester()->done < world.run.depth)
		engine_pair_post(&world.pair, 0, opcode[world.run.op]);
	if (world.pair.posted == had)
		return;
	world.posted_ns = world.now_ns;
	engine_pair_publish(&world.pair, 0);
}

/* One iteration of a worker. Returns the time of the next. */
static uint64_t
poll_node(unsigned side)
{
	struct engine_pair_node *n = &world.pair.node[side];
	struct link *out = &world.link[side], *in = &world.link[1 - side];
	struct qp *qp = n->rc.conn[0].qp;
	struct qp_env *env = &n->engine.env;
	struct rte_mbuf *m[RX_BURST];
	uint32_t k = link_recv(in, world.now_ns, m, RX_BURST), took;
	uint64_t next;
	bool more;

	if (k != 0)
		engine_rx(&n->engine, world.now_ns, 0, m, k);
	took = engine_pair_poll(&world.pair, side);
	if (side == 0)
		post_sends();
	else
		post_recvs(took);
	if (k != RX_BURST && qp->bind.timer_at_ns != 0 && qp->bind.timer_at_ns <= world.now_ns)
		engine_timer(&n->engine, world.now_ns, qp);
	more = engine_run(&n->engine, world.now_ns);
	if (n->counters.ctr[COUNTER_REQ_SELECTIVE] != world.selective && side == 0) {
		world.selective = n->counters.ctr[COUNTER_REQ_SELECTIVE];
		world.settled = out->sent;
	}
	engine_pair_sent(n, link_send(out, world.now_ns, env->tx, env->tx_n));
	if (more || env->tx_n != 0 || requester()->done != world.pair.posted)
		next = world.now_ns + POLL_NS;
	else
		next = UINT64_MAX;
	if (!more && env->tx_n == 0) {
		next = link_next(in);
		if (qp->bind.timer_at_ns != 0)
			next = RTE_MIN(next, qp->bind.timer_at_ns);
	}
	return RTE_MAX(next, world.now_ns + POLL_NS);
}

static void
go(void)
{
	uint64_t *poll_ns = world.poll_ns;
	unsigned side;

	while (requester()->done < world.run.messages && !world.pair.failed &&
	       world.now_ns < world.run.most_ns) {
		side = poll_ns[1] < poll_ns[0];
		if (poll_ns[side] == UINT64_MAX) {
			world.pair.failed = true;
			return;
		}
		world.now_ns = poll_ns[side];
		poll_ns[side] = poll_node(side);
		/* Sent frames may arrive before the other side's next poll. */
		poll_ns[1 - side] = RTE_MIN(poll_ns[1 - side], RTE_MAX(link_next(&world.link[side]),
								       world.now_ns + 1));
	}
}

static int
ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t
p99_ns(uint32_t n)
{
	if (world.took_ns == NULL || n == 0)
		return 0;
	qsort(world.took_ns, n, sizeof(*world.took_ns), ascending);
	return world.took_ns[n * 99 / 100];
}

struct goodput_result
goodput_measure(const struct goodput_run *r)
{
	struct engine_pair_params params = {
		.pool = pool,
		.mtu = MTU,
		.qps = 1,
		.depth = GOODPUT_DEPTH,
		.size = r->size,
		.places = PLACES,
		.sr = r->sr,
		.mac = {{2, 0, 0, 0, 0, 0}, {2, 0, 0, 0, 0, 1}},
	};
	const uint64_t *c = world.pair.node[0].counters.ctr;
	struct goodput_result res;
	uint32_t done;
	unsigned i;

	memset(&world, 0, sizeof(world));
	world.run = *r;
	if (r->depth == 1) {
		world.took_ns = calloc(r->messages, sizeof(*world.took_ns));
		if (world.took_ns == NULL) {
			fprintf(stderr, "uroce-loss: no memory for %u times\n", r->messages);
			exit(2);
		}
	}
	engine_pair_open(&world.pair, &params);
	for (i = 0; i < 2; i++) {
		world.pair.node[i].engine.env.plain = r->plain[i];
		world.link[i].loss_ppm = r->loss_ppm[i];
		world.link[i].queue = r->queue;
		world.link[i].delay_ns = r->delay_ns;
		world.link[i].late = i == 0 ? r->late : 0;
		sim_rng_init(&world.link[i].rng, r->seed, i);
	}
	post_recvs(GOODPUT_DEPTH);
	world.now_ns = 1000;
	go();
	done = requester()->done;
	res = (struct goodput_result){
		.gbps = (double)done * r->size * 8 / (double)world.now_ns,
		.p99_ns = p99_ns(done),
		.done = done,
		.failed = world.pair.failed ||
			  (done == r->messages && !engine_pair_verify(&world.pair)),
		.probes = c[COUNTER_REQ_PROBE],
		.spurious = c[COUNTER_REQ_PROBE_VAIN],
		.timeouts = c[COUNTER_REQ_TIMEOUT],
		.naks = c[COUNTER_REQ_SEQ_NAK],
		.gaps = c[COUNTER_REQ_READ_GAP],
		.resent = c[COUNTER_REQ_RETRANS],
		.lost = world.link[0].lost + world.link[1].lost,
		.selective = c[COUNTER_REQ_SELECTIVE],
		.vain = c[COUNTER_REQ_SPURIOUS],
		.settled = world.settled,
	};
	for (i = 0; i < 2; i++)
		link_drain(&world.link[i]);
	engine_pair_close(&world.pair);
	free(world.took_ns);
	return res;
}
