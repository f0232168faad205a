/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-pace: do paced QPs keep their rate (CC-05)? Two engines (test/kit/engine_pair.h) with 1 to
 * 4096 connections on a wire without loss, in virtual time. The QPs share a tenth of a link of
 * 100 Gb/s. Between each packet of a QP and a later one, 10 packet times or 100 us behind it,
 * passes the time that its rate allows, within 5 %. After the round trip was a millisecond, because
 * of a queue that has gone, the policy measures that of the idle wire again: the time between two
 * packets of a QP is no part of it. Exit status 1 if not.
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
#include "qp/loss.h"
#include "test/kit/engine_pair.h"

#define POOL_MBUFS    32767
#define MTU           1024u
#define DEPTH         128u
#define RX_BURST      32
#define STEP_NS       1000u
#define TENTH_MBPS    10000u
#define MOST_QPS      4096u
#define WARM_PKTS     40u /* of each QP, not measured */
#define SPANS         12u /* measured of each QP */
#define TOLERANCE     0.05
#define SHORT_NS      100000.0
#define SPAN_PKTS     10u
#define LONGEST_NS    2000000000ull
#define QUEUE_NS      1000000u /* a round trip with a queue on the path */
#define QUEUE_PKTS    16u
#define QUEUE_SAMPLES 16u
#define RTT_NS        10000u /* without one, two workers that turn once a microsecond included .. */
#define RTT_QP_NS     100u   /* .. and for each QP, because all may send at the same time */

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

/* The longest of the round trips that the QPs' policies measured last; 0: they measure none. */
static uint32_t
longest_delay(void)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < world.qps; i++) {
		const struct qp_conn *c = &world.pair.node[0].rc.conn[i].qp->conn;
		struct cc_view view = {0};

		cc_policies[c->cc_flow.param.policy]->view(&c->snd.cc, &c->cc_flow, &view);
		longest = RTE_MAX(longest, view.delay_ns);
	}
	return longest;
}

static void
open_qp(uint32_t i, const struct cc_param *policy, bool queued)
{
	struct qp_env *env = &world.pair.node[0].engine.env;
	struct qp *qp = world.pair.node[0].rc.conn[i].qp;

	env->now_ns = world.now_ns;
	qp_cc_change(env, qp, policy);
	for (uint32_t k = 0; queued && k < QUEUE_SAMPLES; k++)
		qp_loss_sample(env, qp, QUEUE_NS);
}

/*
 * Returns true if qps QPs with this policy keep their rate. queued: after round trips of QUEUE_NS;
 * only the round trips measured at the end count.
 */
static bool
run(const char *policy, uint32_t qps, bool queued)
{
	struct engine_pair_params params = {
		.pool = pool,
		.mtu = MTU,
		.qps = qps,
		.depth = DEPTH,
		.size = queued ? QUEUE_PKTS * MTU : MTU, /* only the last packet wants an ACK */
		.places = 4,
		.mac = {{2, 0, 0, 0, 0, 0}, {2, 0, 0, 0, 0, 1}},
	};
	uint32_t mbps = TENTH_MBPS / qps, i, delay_ns;
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
	world.link[0].delay_ns = world.link[1].delay_ns = 2000;
	for (i = 0; i < qps; i++)
		open_qp(i, &p, queued);
	while (world.full < qps && !world.pair.failed && world.now_ns < LONGEST_NS) {
		if (world.now_ns / STEP_NS % RTE_MAX(qps / 16, 1u) == 0)
			serve();
		iterate(0, mbps);
		iterate(1, mbps);
		world.now_ns += STEP_NS;
	}
	delay_ns = longest_delay();
	good = world.full == qps && !world.pair.failed &&
	       (queued ? delay_ns <= RTT_NS + qps * RTT_QP_NS : world.worst <= TOLERANCE);
	printf("%-12s %5u QPs of %5u Mb/s: ", policy, qps, mbps);
	if (queued)
		printf("round trip of %.1f us after one of %u us", delay_ns / 1000.0,
		       QUEUE_NS / 1000);
	else
		printf("%u packets within %.2f %% of their time", world.span, 100 * world.worst);
	printf("%s\n", good ? "" : world.full == qps ? " MISSED" : " FAILED");
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
			good &= run(policies[i], qps[k], false);
	}
	for (uint32_t k = 0; k < RTE_DIM(qps) - 1; k++) {
		good &= run("swift", qps[k], true);
		good &= run("timely", qps[k], true);
	}
	return good ? 0 : 1;
}
