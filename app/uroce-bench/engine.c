/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "engine": cost of requester and responder on one core, without client or daemon. The four
 * steps are separate functions so that callgrind can count them (test/bench).
 * A pair of engines (test/kit/engine_pair.h) with a clock, whose frames go through a pair of
 * net_ring ports.
 */
#include <stdio.h>
#include <string.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include "cc/param.h"
#include "bench.h"
#include "port/port.h"
#include "test/kit/engine_pair.h"
#include "wire/hdr.h"

#define POOL_MBUFS        16383
#define PORT_SLOTS        4096
#define MEM_BYTES         (64u * 1024) /* memory for messages, unless one is larger */

#define ENGINE_LINK_BURST 32 /* frames taken from a port at a time, as a worker does */

struct engine_link {
	struct bench_options o;
	struct engine_pair pair;
	uint64_t now_ns;
	uint64_t lost_rng; /* --loss: state of the random numbers; the same in every run */
};

static struct rte_mempool *pool;
static struct port ports[2];

static void
ports_open(void)
{
	static const char *const name[2] = {"net_ring_bencha", "net_ring_benchb"};

	if (pool != NULL)
		return;
	pool = rte_pktmbuf_pool_create("bench", POOL_MBUFS, 256, 0,
				       RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + 4096, 0);
	if (pool == NULL)
		bench_die("no memory for packets");
	if (port_ring_pair("bencha", "benchb", 1, PORT_SLOTS) != 0)
		bench_die("net_ring: no ports");
	for (unsigned i = 0; i < 2; i++) {
		struct port_params p = {.name = name[i], .nqueues = 1, .link_mtu = 4200};

		if (port_open(&ports[i], &p, pool) != 0)
			bench_die("net_ring: a port does not start");
	}
}

#define LINK_KBPS 100000000u /* that the policy assumes: more than an engine sends */

static void
policy_set(struct cc_param *policy, const char *text)
{
	char err[256];

	if (!cc_param_parse(policy, text, err, sizeof(err)) ||
	    !cc_param_fill(policy, LINK_KBPS, err, sizeof(err)))
		bench_die("--policy: %s", err);
}

/* Connected, nothing posted. Exits with 1 when there is no memory. */
static void
engine_link_open(struct engine_link *l, const struct bench_options *o)
{
	uint32_t stride = RTE_MAX(RTE_ALIGN_CEIL(o->size, 64), 64u);
	struct engine_pair_params params = {
		.mtu = o->mtu,
		.qps = o->qps,
		.depth = o->depth,
		.size = o->size,
		.places = stride >= MEM_BYTES ? 1 : MEM_BYTES / stride,
		.sr = o->loss > 0,
	};

	policy_set(&params.policy, o->policy != NULL ? o->policy : "fixed");
	ports_open();
	params.pool = pool;
	for (unsigned side = 0; side < 2; side++) {
		params.dev[side] = ports[side].id;
		memcpy(params.mac[side], ports[side].mac, 6);
	}
	l->o = *o;
	l->now_ns = 1000000000;
	l->lost_rng = 1;
	engine_pair_open(&l->pair, &params);
	for (unsigned side = 0; side < 2; side++)
		engine_set_lcore(&l->pair.node[side].engine, rte_lcore_id());
}

/* Post the next message on connection i and, for SEND, its receive on the other side. */
static void
engine_link_post(struct engine_link *l, uint32_t i)
{
	if (l->o.op == BENCH_SEND)
		engine_pair_post_recv(&l->pair, i, l->pair.posted);
	engine_pair_post(&l->pair, i, bench_opcode[l->o.op]);
}

/* Send the frames that a node's engine has built. */
static void
engine_link_send(struct engine_link *l, unsigned side)
{
	struct engine_pair_node *n = &l->pair.node[side];
	struct qp_env *env = &n->engine.env;

	if (env->tx_n != 0)
		engine_pair_sent(n,
				 rte_eth_tx_burst(ports[side].id, 0, env->tx, (uint16_t)env->tx_n));
}

/* Frees the frames that are lost. Returns the number of the others, in order in m. */
static uint32_t
lose(struct engine_link *l, struct rte_mbuf **m, uint32_t n)
{
	uint32_t most = (uint32_t)(l->o.loss / 100 * UINT32_MAX), kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		l->lost_rng = l->lost_rng * 6364136223846793005u + 1442695040888963407u;
		if (l->lost_rng >> 32 < most)
			rte_pktmbuf_free(m[i]);
		else
			m[kept++] = m[i];
	}
	return kept;
}

/*
 * Pass the frames that a node's port has received to its engine. Returns their number. With --loss:
 * one burst at most, as a worker does, so that frames wait in the port; drops their share.
 */
static uint32_t
engine_link_receive(struct engine_link *l, unsigned side)
{
	uint16_t port = ports[side].id;
	struct rte_mbuf *m[ENGINE_LINK_BURST];
	uint32_t total = 0, k;

	do {
		k = rte_eth_rx_burst(port, 0, m, ENGINE_LINK_BURST);
		if (l->o.loss > 0) {
			total = k;
			if (side == 1) /* one worker has both engines */
				l->pair.node[0].engine.env.behind = k >= ENGINE_LINK_BURST / 2;
			k = lose(l, m, k);
		}
		if (k != 0)
			engine_rx(&l->pair.node[side].engine, l->now_ns, port, m, k);
		if (l->o.loss > 0)
			return total;
		total += k;
	} while (k == ENGINE_LINK_BURST);
	return total;
}

#define ROUND_NS    1000ull /* step of a link's clock in each iteration */
#define TIMER_TURNS 1024    /* iterations between two checks of the timers */
#define RUN_NS      50e6

struct cost { /* cycles */
	uint64_t client, req_tx, rsp_rx, rsp_tx, req_rx, all;
};

void engine_req_tx(struct engine_link *l);
uint32_t engine_rsp_rx(struct engine_link *l);
void engine_rsp_tx(struct engine_link *l);
uint32_t engine_req_rx(struct engine_link *l);

__attribute__((noinline)) void
engine_req_tx(struct engine_link *l)
{
	engine_run(&l->pair.node[0].engine, l->now_ns);
	engine_link_send(l, 0);
}

__attribute__((noinline)) uint32_t
engine_rsp_rx(struct engine_link *l)
{
	return engine_link_receive(l, 1);
}

__attribute__((noinline)) void
engine_rsp_tx(struct engine_link *l)
{
	engine_run(&l->pair.node[1].engine, l->now_ns);
	engine_link_send(l, 1);
}

__attribute__((noinline)) uint32_t
engine_req_rx(struct engine_link *l)
{
	return engine_link_receive(l, 0);
}

/* The client's part: take completions and post new messages, for all connections in turn. */
static uint64_t
client(struct engine_link *l, uint64_t left)
{
	uint64_t posted = 0;

	engine_pair_poll(&l->pair, 0);
	engine_pair_poll(&l->pair, 1);
	if (l->pair.failed)
		bench_die("a message, a QP or a CQ failed");
	for (uint32_t i = 0; i < l->o.qps && posted < left; i++) {
		struct rc_conn *c = &l->pair.node[0].rc.conn[i];
		uint32_t room = l->o.depth - (c->sq.prod - (uint32_t)c->done), n;

		for (n = 0; n < room && posted < left; n++, posted++)
			engine_link_post(l, i);
		if (n != 0)
			engine_pair_publish(&l->pair, i);
	}
	return posted;
}

static void
timers(struct engine_link *l)
{
	for (unsigned side = 0; side < 2; side++) {
		struct engine_pair_node *n = &l->pair.node[side];

		for (uint32_t i = 0; i < l->o.qps; i++) {
			struct qp *qp = n->rc.conn[i].qp;

			if (qp->bind.timer_at_ns != 0 && qp->bind.timer_at_ns <= l->now_ns)
				engine_timer(&n->engine, l->now_ns, qp);
		}
	}
}

/* Move count messages on all connections together. */
static struct cost
run(struct engine_link *l, uint64_t count)
{
	uint64_t posted = 0, t0, t1, start = rte_rdtsc_precise();
	uint32_t done = l->pair.node[0].rc.cq_cons;
	struct cost c = {0};

	for (uint32_t turn = 1; l->pair.node[0].rc.cq_cons - done < count; turn++) {
		t0 = rte_rdtsc();
		posted += client(l, count - posted);
		t1 = rte_rdtsc();
		c.client += t1 - t0;
		engine_req_tx(l);
		t0 = rte_rdtsc();
		c.req_tx += t0 - t1;
		engine_rsp_rx(l);
		t1 = rte_rdtsc();
		c.rsp_rx += t1 - t0;
		engine_rsp_tx(l);
		t0 = rte_rdtsc();
		c.rsp_tx += t0 - t1;
		engine_req_rx(l);
		t1 = rte_rdtsc();
		c.req_rx += t1 - t0;
		l->now_ns += ROUND_NS;
		if (turn % TIMER_TURNS == 0 || l->o.loss > 0)
			timers(l);
	}
	c.all = rte_rdtsc_precise() - start;
	return c;
}

/* ns of CRC and copy for one message on one side. Every byte passes both on either side. */
struct bytes {
	double crc, copy;
};

static struct bytes
bytes_ns(const struct bench_options *o)
{
	uint32_t full = o->size / o->mtu, rest = o->size % o->mtu;
	struct bytes ns = {0};

	if (full != 0) {
		ns.crc += full * bench_crc_ns(o->mtu + BENCH_CRC_HEADERS);
		ns.copy += full * bench_copy_ns(o->mtu);
	}
	if (rest != 0 || full == 0)
		ns.crc += bench_crc_ns(rest + BENCH_CRC_HEADERS);
	if (rest != 0)
		ns.copy += bench_copy_ns(rest);
	return ns;
}

static double
here(const struct bench_options *o)
{
	return o->no_probe ? 0 : bench_speed_here();
}

/* Reports retransmissions, held requests, SACKs and probes per message, for the last n messages. */
static void
add_losses(struct engine_link *l, struct bench_report *r, double n)
{
	uint64_t *requester = l->pair.node[0].counters.ctr,
		 *responder = l->pair.node[1].counters.ctr;

	bench_add(r, "resent", "packets", (double)requester[COUNTER_REQ_SELECTIVE] / n);
	bench_add(r, "held", "packets", (double)responder[COUNTER_RSP_HELD] / n);
	bench_add(r, "sacks", "", (double)responder[COUNTER_RSP_SACK] / n);
	bench_add(r, "probes", "", (double)requester[COUNTER_REQ_PROBE] / n);
	requester[COUNTER_REQ_SELECTIVE] = requester[COUNTER_REQ_PROBE] = 0;
	responder[COUNTER_RSP_HELD] = responder[COUNTER_RSP_SACK] = 0;
}

/* Measure one operation and size. False: the received bytes differ. */
static bool
measure(const struct bench_options *o, struct bench_report *r)
{
	uint64_t count = o->count;
	static struct engine_link l;
	bool equal;

	engine_link_open(&l, o);
	if (count == 0) {
		uint64_t probe = 2ull * o->qps * o->depth;
		double ns;

		run(&l, probe);
		ns = bench_ns(run(&l, probe).all) / (double)probe;
		count = (uint64_t)(RUN_NS / ns) + 1;
	}
	for (uint32_t i = 0; i < o->runs; i++) {
		struct bytes bytes = bytes_ns(o);
		double n = (double)count, before = here(o);
		struct cost c = run(&l, count);
		double engine = bench_ns(c.all - c.client) / n, after = here(o);
		double q = bench_ns(c.req_tx + c.req_rx) / n, s = bench_ns(c.rsp_rx + c.rsp_tx) / n;

		bench_add(r, "messages", "M/s", 1e3 / engine);
		bench_add(r, "goodput", "Gb/s", o->size * 8 / engine);
		bench_add(r, "requester", "ns", q);
		bench_add(r, "responder", "ns", s);
		bench_add(r, "requester_protocol", "ns", q - bytes.crc - bytes.copy);
		bench_add(r, "responder_protocol", "ns", s - bytes.crc - bytes.copy);
		bench_add(r, "crc", "ns", bytes.crc);
		bench_add(r, "copy", "ns", bytes.copy);
		if (o->loss > 0)
			add_losses(&l, r, n);
		bench_add(r, "client", "ns", bench_ns(c.client) / n);
		if (!o->no_probe)
			bench_add(r, "core_speed", "ns", before > after ? before : after);
	}
	/* atomics change only the responder's words; the requester gets their old values */
	equal = o->op == BENCH_ATOMIC || engine_pair_verify(&l.pair);
	bench_report_row(r, "engine, RC %s, %u B, MTU %u, %u QP%s%s", bench_op_name[o->op], o->size,
			 o->mtu, o->qps, o->qps == 1 ? "" : "s", equal ? "" : ": BYTES DIFFER");
	engine_pair_close(&l.pair); /* the ports stay, for the next link */
	return equal;
}

int
bench_engine(const struct bench_options *o, struct bench_report *r)
{
	static const uint32_t sizes[] = {8, 64, 1024, 4096, 65536, 1 << 20};
	bool equal = true;

	if (!o->sweep)
		return measure(o, r) ? 0 : 1;
	for (unsigned op = 0; op < BENCH_OPS; op++) {
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct bench_options one = *o;

			one.op = op;
			one.size = sizes[i];
			if (op == BENCH_ATOMIC && sizes[i] != 8)
				continue;
			equal &= measure(&one, r);
		}
	}
	return equal ? 0 : 1;
}
