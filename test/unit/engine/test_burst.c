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
static void
frames_of_several_qps_in_one_burst_reach_their_qps(void **state)
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

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		bench_test(frames_of_several_qps_in_one_burst_reach_their_qps),
	};

	return cmocka_run_group_tests(tests, bench_group_setup, NULL);
}
