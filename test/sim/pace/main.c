/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-pace: do paced QPs keep their rate (CC-05)? Two engines (test/kit/engine_pair.h) with 1 to
 * 4096 connections on a wire without loss, in virtual time. The QPs share a tenth of a link of
 * 100 Gb/s. Between each packet of a QP and a later one, 10 packet times or 100 us behind it,
 * passes the time that its rate allows, within 5 %. Exit status 1 if not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "../eal.h"
#include "../loss/link.h"
#include "cc/param.h"
#include "qp/congestion.h"
#include "test/kit/engine_pair.h"

#define POOL_MBUFS 32767
#define MTU        1024u
#define DEPTH      128u
#define RX_BURST   32
#define STEP_NS    1000u
#define TENTH_MBPS 10000u
#define MOST_QPS   4096u
#define WARM_PKTS  40u /* of each QP, not measured */
#define SPANS      12u /* measured of each QP */
#define TOLERANCE  0.05
#define SHORT_NS   100000.0
#define SPAN_PKTS  10u
#define LONGEST_NS 2000000000ull

static struct rte_mempool *pool;

/* What left of a QP. */
struct sent {
	uint64_t pkts, span_ns; /* packets; time of the packet at which the span began */
	uint32_t spans;
};

static struct {
	struct engine_pair pair;
	struct link link[2];
	struct sent sent[MOST_QPS];
	uint64_t now_ns;
	uint32_t qps, span; /* packets of a span */
	double packet_ns;   /* between two packets of a QP */
	double worst;       /* largest deviation of a span, relative */
	uint32_t full;      /* QPs with SPANS spans */
} world;

static void
count(struct rte_mbuf *m, uint32_t mbps)
{
	struct sent *s = &world.sent[(m->hash.fdir.hi & QP_TX_QPN_MASK) - RC_QPN_BASE];

	if (world.packet_ns == 0) {
		world.packet_ns = m->pkt_len * 8e3 / mbps;
		world.span = RTE_MAX(SPAN_PKTS, (uint32_t)(SHORT_NS / world.packet_ns) + 1);
	}
	if (s->pkts++ < WARM_PKTS) {
		s->span_ns = world.now_ns;
	} else if ((s->pkts - WARM_PKTS) % world.span == 0 && s->spans < SPANS) {
		double took = (double)(world.now_ns - s->span_ns) / (world.span * world.packet_ns);

		world.worst = RTE_MAX(world.worst, took > 1 ? took - 1 : 1 - took);
		s->span_ns = world.now_ns;
		world.full += ++s->spans == SPANS;
	}
}

/* One iteration of a node's worker. */
static void
iterate(unsigned side, uint32_t mbps)
{
	struct engine_pair_node *n = &world.pair.node[side];
	struct qp_env *env = &n->engine.env;
	struct rte_mbuf *m[RX_BURST];
	uint32_t k, i;

	while ((k = link_recv(&world.link[1 - side], world.now_ns, m, RX_BURST)) != 0)
		engine_rx(&n->engine, world.now_ns, 0, m, k);
	engine_run(&n->engine, world.now_ns);
	for (i = 0; side == 0 && i < env->tx_n; i++)
		count(env->tx[i], mbps);
	engine_pair_sent(n, link_send(&world.link[side], world.now_ns, env->tx, env->tx_n));
}

/* The clients, and the timers of node 0. */
static void
serve(void)
{
	uint32_t i;

	engine_pair_poll(&world.pair, 0);
	engine_pair_poll(&world.pair, 1);
	for (i = 0; i < world.qps; i++) {
		struct rc_conn *c = &world.pair.node[0].rc.conn[i];
		bool post = c->sq.prod - (uint32_t)c->done < DEPTH;

		while (c->sq.prod - (uint32_t)c->done < DEPTH)
			engine_pair_post(&world.pair, i, UROCE_WR_RDMA_WRITE);
		if (post)
			engine_pair_publish(&world.pair, i);
		if (c->qp->bind.timer_at_ns != 0 && c->qp->bind.timer_at_ns <= world.now_ns)
			engine_timer(&world.pair.node[0].engine, world.now_ns, c->qp);
	}
}

/* Returns true if qps QPs with this policy keep their rate. */
static bool
run(const char *policy, uint32_t qps)
{
	struct engine_pair_params params = {
		.pool = pool,
		.mtu = MTU,
		.qps = qps,
		.depth = DEPTH,
		.size = MTU,
		.places = 4,
		.mac = {{2, 0, 0, 0, 0, 0}, {2, 0, 0, 0, 0, 1}},
	};
	uint32_t mbps = TENTH_MBPS / qps, i;
	char text[96], err[200];
	struct cc_param p;
	bool good;

	snprintf(text, sizeof(text), "%s:rate=%u:limit=%u", policy, 10 * TENTH_MBPS, mbps);
	if (!cc_param_parse(&p, text, err, sizeof(err)) ||
	    !cc_param_fill(&p, 0, err, sizeof(err))) {
		fprintf(stderr, "uroce-pace: %s: %s\n", text, err);
		exit(2);
	}
	memset(&world, 0, sizeof(world));
	world.qps = qps;
	world.now_ns = 1000000;
	engine_pair_open(&world.pair, &params);
	world.link[0].queue = world.link[1].queue = LINK_FRAMES;
	for (i = 0; i < qps; i++)
		qp_cc_change(&world.pair.node[0].engine.env, world.pair.node[0].rc.conn[i].qp, &p);
	while (world.full < qps && !world.pair.failed && world.now_ns < LONGEST_NS) {
		if (world.now_ns / STEP_NS % RTE_MAX(qps / 16, 1u) == 0)
			serve();
		iterate(0, mbps);
		iterate(1, mbps);
		world.now_ns += STEP_NS;
	}
	good = world.full == qps && !world.pair.failed && world.worst <= TOLERANCE;
	printf("%-12s %5u QPs of %5u Mb/s: %u packets within %.2f %% of their time%s\n", policy,
	       qps, mbps, world.span, 100 * world.worst,
	       good                ? ""
	       : world.full == qps ? " BEYOND 5 %"
				   : " FAILED");
	link_drain(&world.link[0]);
	link_drain(&world.link[1]);
	engine_pair_close(&world.pair);
	return good;
}

int
main(void)
{
	static const char *const policies[] = {"swift", "dcqcn", "timely"};
	static const uint32_t qps[] = {1, 16, 256, 4096};
	bool good = true;

	sim_eal_open("uroce-pace", "400");
	pool = rte_pktmbuf_pool_create("pace", POOL_MBUFS, 0, 0,
				       RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + MTU, 0);
	if (pool == NULL) {
		fprintf(stderr, "uroce-pace: no memory for frames\n");
		return 2;
	}
	for (uint32_t i = 0; i < RTE_DIM(policies); i++) {
		for (uint32_t k = 0; k < RTE_DIM(qps); k++)
			good &= run(policies[i], qps[k]);
	}
	return good ? 0 : 1;
}
