/* SPDX-License-Identifier: BSD-3-Clause */
/* Good and bad frames of several QPs in one burst: each QP gets its own. */
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"

#define CONNS  3
#define FRAMES 75 /* more than two rounds of ENGINE_DONE_CAP */
#define SHORT  9
#define LONG   1500 /* its CRC is taken when it is its turn */

static struct conn *
next_conn(void **state, uint32_t n)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;
	uint32_t i;

	cfg.qpn = BENCH_QPN + 2 * n;
	cfg.mtu_code = 5;
	cfg.rq_psn += 100 * n;
	cfg.rq_entries = 64;
	c = conn_open(*state, cfg);
	for (i = 0; i < 64; i++)
		recv_post(c, i, 0, LONG);
	return c;
}

/* Kind of frame number i: of one of the connections, intact or corrupted, or of no QP. */
BENCH_TEST(frames_of_several_qps_in_one_burst_reach_their_qps)
{
	static uint8_t bytes[LONG + WIRE_MAX_OVERHEAD];
	struct rte_mbuf *m[FRAMES];
	struct bench *b = *state;
	uint32_t sent[CONNS] = {0}, i, k, len, spoilt = 0, unknown = 0;
	struct conn *c[CONNS];

	for (i = 0; i < CONNS; i++)
		c[i] = next_conn(state, i);
	for (i = 0; i < FRAMES; i++) {
		struct wire_fields f = {.opcode = WIRE_OP_SEND_ONLY_IMM};

		k = (i / 2 + i / 7) % CONNS; /* now the same as before, now another */
		f.psn = conn_rc.rq_psn + 100 * k + sent[k];
		f.imm = k << 16 | sent[k];
		len = peer_frame(c[k], f, 0, i % 5 == 3 ? LONG : SHORT, bytes);
		if (i % 11 == 5) {
			bytes[c[k]->peer.bth_off + 6] ^= 0x40; /* QPN */
			frame_seal(c[k], bytes, len);
			unknown++;
		} else if (i % 13 == 4) {
			bytes[len - 1 - spoilt++] ^= 1;
		} else {
			sent[k]++;
		}
		m[i] = rte_pktmbuf_alloc(b->engine.env.pool);
		assert_non_null(m[i]);
		memcpy(rte_pktmbuf_append(m[i], (uint16_t)len), bytes, len);
	}
	assert_true(spoilt > 3 && unknown > 3);
	engine_rx(&b->engine, b->now, BENCH_DEV, m, FRAMES);
	for (k = 0; k < CONNS; k++) {
		assert_true(sent[k] > 10);
		for (i = 0; i < sent[k]; i++)
			assert_int_equal(recv_cqe(c[k], i, QP_WC_SUCCESS).imm, k << 16 | i);
	}
	assert_int_equal(b->counters.drop[DROP_BAD_ICRC], spoilt);
	assert_int_equal(b->counters.drop[DROP_BAD_QPN], unknown);
	assert_int_equal(b->counters.ctr[COUNTER_RX_ROCE], FRAMES - spoilt - unknown);
}

/* Returns a frame of c's peer. */
static struct rte_mbuf *
frame_of(struct conn *c, struct wire_fields f, uint32_t off, uint32_t len)
{
	static uint8_t bytes[LONG + WIRE_MAX_OVERHEAD];
	uint32_t n = peer_frame(c, f, off, len, bytes);
	struct rte_mbuf *m = rte_pktmbuf_alloc(c->b->engine.env.pool);

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)n), bytes, n);
	return m;
}

#define PACKETS 30u
#define MTU     256u
/* A WRITE of PACKETS packets; packet number `spoilt` has a wrong ICRC. */
static void
write_put(struct conn *c, uint32_t first_psn, uint32_t spoilt)
{
	struct rte_mbuf *m[PACKETS];

	for (uint32_t i = 0; i < PACKETS; i++) {
		struct wire_fields f = {.psn = first_psn + i,
					.va = REMOTE_VA,
					.rkey = c->remote->mr.key,
					.dmalen = PACKETS * MTU,
					.opcode = i == 0             ? WIRE_OP_WRITE_FIRST
						  : i == PACKETS - 1 ? WIRE_OP_WRITE_LAST
								     : WIRE_OP_WRITE_MIDDLE};

		m[i] = frame_of(c, f, i * MTU, MTU);
		if (i == spoilt)
			rte_pktmbuf_mtod(m[i], uint8_t *)[m[i]->data_len - 1] ^= 1;
	}
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, PACKETS);
}

/* All packets but the first and last have equal headers; the one behind a lost one is early. */
BENCH_TEST(packets_of_a_write_in_one_burst_are_executed_in_order)
{
	struct conn *c;

	for (uint32_t spoilt = 1; spoilt < PACKETS; spoilt++) {
		struct conn_cfg cfg = conn_rc;

		cfg.mtu_code = 1;
		c = conn_open(*state, cfg);
		memset(c->remote->bytes, 0, PACKETS * MTU);
		write_put(c, cfg.rq_psn, spoilt);
		assert_memory_equal(c->remote->bytes, bench_bytes, spoilt * MTU);
		for (uint32_t i = spoilt * MTU; i < PACKETS * MTU; i++)
			assert_int_equal(c->remote->bytes[i], 0);
		assert_int_equal(DROPS(c, BAD_ICRC), 1);
		assert_int_equal(DROPS(c, OUT_OF_SEQ),
				 spoilt + 2 < PACKETS ? PACKETS - spoilt - 2 : 0);
		assert_int_equal(c->qp->conn.rcv.epsn, cfg.rq_psn + spoilt);
		write_put(c, cfg.rq_psn, PACKETS); /* once more, whole */
		assert_memory_equal(c->remote->bytes, bench_bytes, PACKETS * MTU);
		assert_int_equal(c->qp->conn.rcv.epsn, cfg.rq_psn + PACKETS);
		assert_int_equal(bench_teardown(state), 0);
		assert_int_equal(bench_setup(state), 0);
	}
}

/* A right that a modify takes away, and a key that is gone, count for the rest of a message. */
BENCH_TEST(middle_of_a_write_needs_right_and_key)
{
	for (uint32_t gone = 0; gone < 3; gone++) {
		struct conn_cfg cfg = conn_rc;
		struct wire_fields f = {.opcode = WIRE_OP_WRITE_FIRST, .va = REMOTE_VA};
		struct rte_mbuf *m;
		struct conn *c;

		cfg.mtu_code = 1;
		c = conn_open(*state, cfg);
		memset(c->remote->bytes, 0, 4 * MTU);
		f.psn = cfg.rq_psn;
		f.rkey = c->remote->mr.key;
		f.dmalen = 4 * MTU;
		m = frame_of(c, f, 0, MTU);
		engine_rx(&c->b->engine, c->b->now, BENCH_DEV, &m, 1);
		if (gone == 0)
			c->qp->conn.access &= ~(uint32_t)MEM_REMOTE_WRITE;
		else if (gone == 1)
			c->remote->mr.access &= ~(uint32_t)MEM_REMOTE_WRITE;
		else
			c->remote->mr.len = 4 * MTU - 1;
		f.opcode = WIRE_OP_WRITE_MIDDLE;
		f.psn++;
		m = frame_of(c, f, MTU, MTU);
		engine_rx(&c->b->engine, c->b->now, BENCH_DEV, &m, 1);
		assert_true(c->qp->conn.rcv.fatal);
		assert_memory_equal(c->remote->bytes, bench_bytes, MTU);
		for (uint32_t i = MTU; i < 4 * MTU; i++)
			assert_int_equal(c->remote->bytes[i], 0);
		assert_int_equal(bench_teardown(state), 0);
		assert_int_equal(bench_setup(state), 0);
	}
}

/* A frame fails its QP; the next one has the same header, and finds the QP in another state. */
BENCH_TEST(frames_behind_one_that_fails_the_qp_are_dropped)
{
	struct conn_cfg cfg = conn_rc;
	struct rte_mbuf *m[8];
	struct conn *c;

	cfg.type = QP_TYPE_UC;
	c = conn_open(*state, cfg);
	for (uint32_t i = 0; i < 8; i++) {
		struct wire_fields f = {.opcode = WIRE_SVC_UC | WIRE_OP_SEND_ONLY,
					.psn = cfg.rq_psn + i};

		recv_post(c, i, 0, i == 5 ? SHORT - 1 : SHORT);
		m[i] = frame_of(c, f, 0, SHORT);
	}
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, 8);
	state_expect(c, QP_ERR);
	assert_int_equal(DROPS(c, QP_STATE), 2);
	for (uint32_t i = 0; i < 5; i++)
		recv_cqe(c, i, QP_WC_SUCCESS);
	recv_cqe(c, 5, QP_WC_LOC_LEN_ERR);
}
