/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "engine": cost of requester and responder on one core, without client or daemon. The four
 * steps are separate functions so that callgrind can count them (test/bench).
 */
#include <stdio.h>
#include <string.h>
#include <rte_cycles.h>
#include "engine_link.h"

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

	engine_link_poll(l, 0);
	engine_link_poll(l, 1);
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
		double n = (double)count, before = here(o),
		       sender = o->loss > 0 ? 0 : engine_link_bare_ns(&l);
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
		else
			bench_add(r, "bare_requester", "ns", sender);
		bench_add(r, "client", "ns", bench_ns(c.client) / n);
		if (!o->no_probe)
			bench_add(r, "core_speed", "ns", before > after ? before : after);
	}
	equal = engine_link_verify(&l);
	bench_report_row(r, "engine, RC %s, %u B, MTU %u, %u QP%s%s", bench_op_name[o->op], o->size,
			 o->mtu, o->qps, o->qps == 1 ? "" : "s", equal ? "" : ": BYTES DIFFER");
	engine_link_close(&l);
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
