/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch and its lines against a small model that keeps departure times instead of queues. */
#include <string.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "../../kit/unit.h"
#include "../eal.h"
#include "measure.h"
#include "switch.h"
#include "wire/build.h"
#include "wire/icrc.h"
#include "wire/opcode.h"
#include "wire/parse.h"

#define POOL_MBUFS 4095
#define PORTS      4u
#define NS_PER_B   1 /* 8 Gb/s */
#define BPS        8000000000ull
#define DELAY_NS   500
#define ECT0       2
#define FRAMES     3000

static struct rte_mempool *pool;
static struct fabric_switch sw;

static int
group_setup(void **state)
{
	sim_eal_open("test-switch", "64");
	pool = rte_pktmbuf_pool_create("switch", POOL_MBUFS, 0, 0, RTE_PKTMBUF_HEADROOM + 4200, 0);
	return pool != NULL ? 0 : -1;
}

static int
setup(void **state)
{
	memset(&sw, 0, sizeof(sw));
	return 0;
}

static int
teardown(void **state)
{
	for (uint32_t i = 0; i < PORTS; i++)
		line_drain(&sw.port[i].out);
	return (int)rte_mempool_in_use_count(pool);
}

UNIT_PROGRAM(group_setup, NULL);

#define SWITCH_TEST(name) UNIT_TEST_IN(name, setup, teardown)

static void
make(const struct switch_params *p)
{
	switch_init(&sw, p, 1);
	for (uint32_t i = 0; i < p->ports; i++) {
		sw.port[i].out.bps = BPS;
		sw.port[i].out.delay_ns = DELAY_NS;
	}
}

/* A RoCEv2 frame for a port, with this ECN field. */
static struct rte_mbuf *
frame(uint32_t port, uint32_t payload, uint8_t ecn, bool v6)
{
	struct wire_path path = {.smac = {2, 0, 0, 0, 0, 9},
				 .dmac = {2, 0, 0, 0, 0, (uint8_t)port},
				 .udp_sport = 0xc001,
				 .hop_limit = 64,
				 .tclass = ecn};
	struct wire_fields f = {.opcode = WIRE_OP_SEND_ONLY, .psn = 7};
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct wire_tmpl t;
	uint8_t *p;
	uint32_t hdr;

	assert_non_null(m);
	memcpy(path.sgid + 10, v6 ? "\x01\x02" : "\xff\xff", 2);
	memcpy(path.dgid + 10, v6 ? "\x01\x02" : "\xff\xff", 2);
	path.sgid[15] = 1;
	path.dgid[15] = 2;
	wire_tmpl_init(&t, &path, 0x11, 0xffff);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	hdr = wire_hdr_put(&t, &f, payload, p);
	memset(p + hdr, 0x5a, payload);
	assert_non_null(rte_pktmbuf_append(m, (uint16_t)wire_frame_finish(&t, p, hdr, payload)));
	return m;
}

/* Sends what is due at all ports, and takes what has arrived behind them. Returns frames taken. */
static uint32_t
run_until(uint64_t now_ns, uint64_t *last_arrival)
{
	enum switch_flow flow;
	uint32_t in, bytes, taken = 0;
	struct rte_mbuf *m;

	for (uint32_t i = 0; i < PORTS; i++) {
		while (switch_send(&sw, now_ns, i, &in, &bytes, &flow))
			;
		while ((m = line_arrived(&sw.port[i].out, now_ns)) != NULL) {
			taken++;
			*last_arrival = now_ns;
			rte_pktmbuf_free(m);
		}
	}
	return taken;
}

/* The model: frames that were accepted, with the time when the last bit leaves. */
struct model {
	uint32_t n;
	struct {
		uint64_t done_ns;
		uint32_t out, bytes;
	} frame[FRAMES];
};

/* Bytes that wait at a port (PORTS: at all) at now_ns. */
static uint64_t
model_queue(const struct model *m, uint64_t now_ns, uint32_t out)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < m->n; i++)
		if ((out == PORTS || m->frame[i].out == out) && m->frame[i].done_ns > now_ns)
			sum += m->frame[i].bytes;
	return sum;
}

static void
model_accept(struct model *m, uint64_t now_ns, uint32_t out, uint32_t bytes)
{
	uint64_t begin = now_ns;

	for (uint32_t i = 0; i < m->n; i++)
		if (m->frame[i].out == out)
			begin = RTE_MAX(begin, m->frame[i].done_ns);
	m->frame[m->n].done_ns = begin + (uint64_t)bytes * NS_PER_B;
	m->frame[m->n].out = out;
	m->frame[m->n++].bytes = bytes;
}

SWITCH_TEST(queues_and_drops_are_those_of_the_model)
{
	static struct model model;
	struct switch_params p = {.ports = PORTS, .shared_bytes = 60000, .port_bytes = 30000};
	uint64_t now = 1000, dropped = 0, last;
	struct sim_rng rng;

	make(&p);
	model.n = 0;
	sim_rng_init(&rng, 11, 0);
	for (uint32_t i = 0; i < FRAMES; i++) {
		uint32_t out = sim_below(&rng, PORTS - 1), in = PORTS - 1;
		struct rte_mbuf *m = frame(out, sim_between(&rng, 0, 4000), 0, false);
		uint32_t bytes = m->pkt_len;
		bool fits;

		now += sim_below(&rng, 800);
		run_until(now, &last);
		for (uint32_t k = 0; k < PORTS; k++)
			assert_int_equal(sw.port[k].out.waiting_bytes, model_queue(&model, now, k));
		assert_int_equal(sw.used_bytes, model_queue(&model, now, PORTS));
		fits = sw.used_bytes + bytes <= p.shared_bytes &&
		       model_queue(&model, now, out) + bytes <= p.port_bytes;
		switch_receive(&sw, now, in, m);
		if (fits)
			model_accept(&model, now, out, bytes);
		else
			dropped++;
	}
	for (uint32_t k = 0; k < PORTS; k++)
		dropped -= sw.port[k].dropped;
	assert_int_equal(dropped, 0);
	/* The load was such that both happen often. */
	assert_in_range(model.n, FRAMES / 4, FRAMES * 3 / 4);
}

/* 1000 frames of 4096 B payload at 100 Gb/s take their bits' time, although one takes no whole ns.
 */
SWITCH_TEST(no_time_is_lost_between_frames)
{
	struct switch_params p = {.ports = PORTS, .shared_bytes = 1 << 30, .port_bytes = 1 << 30};
	struct line *out = &sw.port[0].out;
	uint64_t bits = 0;

	make(&p);
	out->bps = 96000000000ull;
	for (uint32_t i = 0; i < 1000; i++) {
		struct rte_mbuf *m = frame(0, 4096, 0, false);

		bits += m->pkt_len * 8;
		switch_receive(&sw, 0, 1, m);
	}
	for (uint64_t now = line_next(out), last;; now = line_next(out)) {
		run_until(now, &last);
		if (out->waiting_bytes != 0)
			continue;
		assert_int_equal(now, bits / 96);
		assert_int_equal(line_next(out), RTE_MIN(line_next(out), now + DELAY_NS));
		break;
	}
}

SWITCH_TEST(frames_arrive_in_order_after_the_delay)
{
	struct switch_params p = {.ports = PORTS, .shared_bytes = 1 << 20, .port_bytes = 1 << 20};
	uint64_t last = 0, done = 0;
	uint32_t len[3], in, bytes;
	enum switch_flow flow;

	make(&p);
	for (uint32_t i = 0; i < 3; i++) {
		struct rte_mbuf *m = frame(2, 100 * (i + 1), 0, false);

		len[i] = m->pkt_len;
		switch_receive(&sw, 0, 1, m);
	}
	for (uint32_t i = 0; i < 3; i++) {
		done += len[i];
		assert_false(switch_send(&sw, done - 1, 2, &in, &bytes, &flow));
		assert_true(switch_send(&sw, done, 2, &in, &bytes, &flow));
		assert_int_equal(in, 1);
		assert_int_equal(bytes, len[i]);
	}
	assert_int_equal(run_until(len[0] + DELAY_NS - 1, &last), 0);
	assert_int_equal(run_until(len[0] + DELAY_NS, &last), 1);
	assert_int_equal(run_until(done + DELAY_NS, &last), 2);
	assert_int_equal(line_next(&sw.port[2].out), UINT64_MAX);
}

SWITCH_TEST(probability_of_a_mark_follows_the_queue)
{
	struct switch_params p = {.kmin_bytes = 100000, .kmax_bytes = 400000, .pmax_ppm = 200000};

	assert_int_equal(switch_mark_ppm(&p, 0), 0);
	assert_int_equal(switch_mark_ppm(&p, 100000), 0);
	assert_int_equal(switch_mark_ppm(&p, 250000), 100000);
	assert_int_equal(switch_mark_ppm(&p, 399999), 199999);
	assert_int_equal(switch_mark_ppm(&p, 400000), 1000000);
	p.kmax_bytes = 0;
	assert_int_equal(switch_mark_ppm(&p, 1000000), 0);
}

/* Share of marked frames, when 20 kB wait before each of n frames. */
static uint64_t
marks_at(uint64_t kmin, uint64_t kmax, uint8_t ecn, uint32_t n)
{
	struct switch_params p = {.ports = PORTS,
				  .shared_bytes = 1 << 20,
				  .port_bytes = 1 << 20,
				  .kmin_bytes = kmin,
				  .kmax_bytes = kmax,
				  .pmax_ppm = 500000};

	memset(&sw, 0, sizeof(sw));
	make(&p);
	for (uint32_t i = 0; i < n; i++) {
		sw.port[0].out.waiting_bytes = 20000;
		switch_receive(&sw, 0, 1, frame(0, 64, ecn, i % 2 != 0));
		if (i % 64 == 63)
			line_drain(&sw.port[0].out);
		sw.used_bytes = 0;
	}
	line_drain(&sw.port[0].out);
	return sw.port[0].marked;
}

SWITCH_TEST(as_many_frames_are_marked_as_the_queue_demands)
{
	assert_int_equal(marks_at(20000, 50000, ECT0, 2000), 0);
	assert_int_equal(marks_at(10000, 20000, ECT0, 2000), 2000);
	/* Probability 0.25; four standard deviations of 4000 tosses. */
	assert_in_range(marks_at(10000, 30000, ECT0, 4000), 1000 - 110, 1000 + 110);
	assert_in_range(marks_at(10000, 30000, 1, 4000), 1000 - 110, 1000 + 110);
	assert_int_equal(marks_at(10000, 20000, 0, 2000), 0);
	assert_int_equal(sw.port[0].unmarkable, 2000);
}

SWITCH_TEST(marked_frames_are_valid)
{
	for (int v6 = 0; v6 < 2; v6++) {
		struct rte_mbuf *m = frame(1, 200, ECT0, v6 != 0);
		struct wire_pkt pkt;

		assert_true(switch_mark(m));
		assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, &pkt),
				 WIRE_OK);
		assert_int_equal(pkt.tclass & 3, 3);
		assert_true(wire_icrc_check(&pkt));
		assert_true(switch_mark(m));
		rte_pktmbuf_free(m);
	}
}

SWITCH_TEST(pause_begins_above_xoff_and_ends_at_xon)
{
	struct switch_params p = {.ports = PORTS,
				  .shared_bytes = 1 << 20,
				  .port_bytes = 1 << 20,
				  .xoff_bytes = 1000,
				  .xon_bytes = 500};
	enum switch_flow flow = SWITCH_FLOW_SAME;
	uint32_t in, bytes, sent = 0, len;
	struct rte_mbuf *m;

	make(&p);
	/* Through port 1 to two ports, so that only the ingress port can count them. */
	for (uint32_t i = 0; i < 8; i++) {
		m = frame(2 + i % 2, 200, 0, false);
		len = m->pkt_len;
		flow = switch_receive(&sw, 0, 1, m);
		assert_int_equal(flow, (i + 1) * len > 1000 && i * len <= 1000 ? SWITCH_XOFF
									       : SWITCH_FLOW_SAME);
	}
	assert_int_equal(switch_receive(&sw, 0, 0, frame(2, 200, 0, false)), SWITCH_FLOW_SAME);
	assert_int_equal(sw.port[1].pauses, 1);
	for (uint32_t out = 2; out < 4; out++) {
		while (switch_send(&sw, 100000, out, &in, &bytes, &flow)) {
			sent += in == 1;
			assert_int_equal(flow, in == 1 && (8 - sent) * len <= 500 &&
							       (9 - sent) * len > 500
						       ? SWITCH_XON
						       : SWITCH_FLOW_SAME);
		}
	}
	assert_int_equal(sent, 8);
	assert_int_equal(sw.used_bytes, 0);
}

SWITCH_TEST(a_paused_line_finishes_its_frame)
{
	struct line *l = &sw.port[0].out;
	struct rte_mbuf *m[2] = {frame(0, 100, 0, false), frame(0, 100, 0, false)};
	uint32_t len = m[0]->pkt_len, from, bytes;

	l->bps = BPS;
	assert_true(line_push(l, 0, m[0], 5));
	line_pause(l, 1, true);
	assert_true(line_push(l, 2, m[1], 6));
	assert_true(line_sent(l, len, &from, &bytes));
	assert_int_equal(from, 5);
	assert_false(line_sent(l, 1000000, &from, &bytes));
	line_pause(l, 5000, false);
	assert_false(line_sent(l, 5000 + len - 1, &from, &bytes));
	assert_true(line_sent(l, 5000 + len, &from, &bytes));
	assert_int_equal(from, 6);
}

SWITCH_TEST(frames_for_nobody_are_dropped)
{
	struct switch_params p = {.ports = PORTS, .shared_bytes = 1 << 20, .port_bytes = 1 << 20};

	make(&p);
	switch_receive(&sw, 0, 1, frame(PORTS, 100, 0, false));
	assert_int_equal(sw.port[1].dropped, 1);
	assert_int_equal(sw.used_bytes, 0);
}

SWITCH_TEST(figures)
{
	double equal[] = {3, 3, 3}, one[] = {5, 0, 0, 0};
	uint32_t v[200];

	assert_true(measure_jain(equal, 3) > 0.999999);
	assert_true(measure_jain(one, 4) > 0.249999 && measure_jain(one, 4) < 0.250001);
	for (uint32_t i = 0; i < 200; i++)
		v[i] = 200 - i;
	assert_int_equal(measure_percentile(v, 200, 99), 198);
	assert_int_equal(measure_percentile(v, 200, 50), 100);
	assert_int_equal(measure_percentile(v, 1, 99), 1);
}
