/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks (CE) of received packets, and the CNPs that follow them (CC-01, CC-02). */
#include <string.h>
#include "cc/param.h"
#include "harness.h"
#include "qp/congestion.h"

#define US 1000ull

static void
peer_tclass(struct conn *c, uint8_t tclass)
{
	c->peer_path.tclass = tclass;
	wire_tmpl_init(&c->peer, &c->peer_path, c->qp->conn.qpn, 0xffff);
}

/* The number of CNPs that were sent since the last call; other packets are ignored. */
static uint32_t
cnps(struct conn *c)
{
	static uint64_t last;
	static struct bench *of;
	uint64_t now;

	if (of != c->b || c->b->counters.ctr[COUNTER_NP_CNP_SENT] < last)
		last = 0;
	of = c->b;
	bench_run(c->b);
	now = c->b->counters.ctr[COUNTER_NP_CNP_SENT] - last;
	last += now;
	return (uint32_t)now;
}

REQUIREMENT("CC-01", "CC-02")
BENCH_TEST(a_marked_request_leads_to_a_cnp)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct wire_pkt pkt;

	peer_tclass(c, 0xb8 | 3);
	peer_write(c, WIRE_OP_WRITE_ONLY, conn_rc.rq_psn, REMOTE_VA, 8, 0, 8);
	assert_int_equal(OBS(c, NP_MARKED), 1);
	assert_true(c->qp->conn.ecn.marks == 1);
	bench_run(c->b);
	pkt = pkt_expect(c, WIRE_OPCODE_CNP, 0);
	assert_true(pkt.becn && !pkt.fecn && !pkt.ackreq && !pkt.migreq);
	assert_int_equal(pkt.tclass, ENGINE_CNP_DSCP << 2);
	assert_int_equal(pkt.qpn, c->qp->conn.dest_qpn);
	pkt_expect(c, WIRE_OP_ACK, conn_rc.rq_psn);
	pkt_none(c);
	assert_int_equal(OBS(c, NP_CNP_SENT), 1);
	assert_true(c->qp->conn.ecn.cnps_sent == 1);
}

REQUIREMENT("CC-02")
BENCH_TEST(cnps_have_an_interval)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t psn = conn_rc.rq_psn;

	(void)cnps(c);
	peer_tclass(c, 3);
	peer_write(c, WIRE_OP_WRITE_ONLY, psn++, REMOTE_VA, 8, 0, 8);
	assert_int_equal(cnps(c), 1);
	bench_pass(c->b, 50 * US - 1);
	peer_write(c, WIRE_OP_WRITE_ONLY, psn++, REMOTE_VA, 8, 0, 8);
	assert_int_equal(cnps(c), 0);
	bench_pass(c->b, 1);
	assert_int_equal(cnps(c), 0); /* marks lead to CNPs, not time */
	peer_write(c, WIRE_OP_WRITE_ONLY, psn++, REMOTE_VA, 8, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, psn++, REMOTE_VA, 8, 0, 8);
	assert_int_equal(cnps(c), 1);
	assert_int_equal(OBS(c, NP_MARKED), 4);
	engine_set_cnp(&c->b->engine, BENCH_DEV, 0, 48);
	bench_pass(c->b, 100 * US);
	peer_write(c, WIRE_OP_WRITE_ONLY, psn++, REMOTE_VA, 8, 0, 8);
	assert_int_equal(cnps(c), 0);
	engine_set_cnp(&c->b->engine, BENCH_DEV, 1000, 10);
	peer_write(c, WIRE_OP_WRITE_ONLY, psn++, REMOTE_VA, 8, 0, 8);
	assert_int_equal(cnps(c), 1);
	assert_int_equal(OBS(c, NP_MARKED), 6);
}

REQUIREMENT("CC-01")
BENCH_TEST(only_accepted_packets_count)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct wire_fields f = {.opcode = WIRE_OP_SEND_ONLY, .psn = conn_rc.rq_psn};
	uint8_t frame[2048];
	uint32_t len;

	(void)cnps(c);
	peer_tclass(c, 2); /* ECT(0) is not a mark */
	peer_write(c, WIRE_OP_WRITE_ONLY, conn_rc.rq_psn, REMOTE_VA, 8, 0, 8);
	assert_int_equal(OBS(c, NP_MARKED), 0);
	peer_tclass(c, 3);
	len = peer_frame(c, f, 0, 8, frame);
	frame[len - 1] ^= 1;
	frame_rx(c->b, frame, len); /* ICRC */
	c->peer_path.sgid[15] ^= 1;
	peer_tclass(c, 3);
	peer_put(c, f, 0, 8); /* another peer */
	c->peer_path.sgid[15] ^= 1;
	peer_tclass(c, 3);
	wire_tmpl_init(&c->peer, &c->peer_path, 0xabcdef, 0xffff);
	peer_put(c, f, 0, 8); /* no QP */
	peer_tclass(c, 3);
	peer_put(c, (struct wire_fields){.opcode = WIRE_OPCODE_CNP, .becn = true}, 0, 0);
	assert_int_equal(OBS(c, NP_MARKED), 0);
	assert_int_equal(cnps(c), 0);
}

/* A burst in which marked and other packets of the same form follow each other. */
REQUIREMENT("CC-01")
BENCH_TEST(every_mark_of_a_burst_counts)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct rte_mbuf *m[16];
	uint8_t frame[2048];

	for (uint32_t i = 0; i < 16; i++) {
		struct wire_fields f = {.opcode = WIRE_OP_WRITE_ONLY,
					.psn = conn_rc.rq_psn + i,
					.va = REMOTE_VA,
					.rkey = c->remote->mr.key,
					.dmalen = 8};
		uint32_t len;

		if (i == 0 || i == 5 || i == 9)
			peer_tclass(c, i == 5 ? 3 : 2);
		len = peer_frame(c, f, 0, 8, frame);
		m[i] = rte_pktmbuf_alloc(c->b->engine.env.pool);
		memcpy(rte_pktmbuf_append(m[i], (uint16_t)len), frame, len);
	}
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, 16);
	assert_int_equal(OBS(c, NP_MARKED), 4);
	assert_int_equal(OBS(c, RX_ROCE), 16);
}

REQUIREMENT("CC-02")
BENCH_TEST(a_destroyed_qp_sends_no_cnp)
{
	struct conn *c = conn_open(*state, conn_rc);

	peer_tclass(c, 3);
	peer_write(c, WIRE_OP_WRITE_ONLY, conn_rc.rq_psn, REMOTE_VA, 8, 0, 8);
	assert_int_equal(c->b->engine.marked_n, 1);
	engine_forget(&c->b->engine, c->qp);
	assert_int_equal(c->b->engine.marked_n, 0);
}

/* Data packets and retransmissions have ECT(0) with a policy that wants marks, ACKs do not. */
REQUIREMENT("CC-01", "CC-06")
BENCH_TEST(data_has_ect_and_acks_have_not)
{
	struct conn_cfg cfg = conn_rc, raise = conn_rc;
	struct conn *c;

	cfg.state = QP_RESET;
	c = conn_open(*state, cfg);
	c->qp->bind.cc = (struct cc_param){.policy = CC_DCQCN,
					   .rounds = 5,
					   .link_kbps = 10000000,
					   .max_kbps = 10000000,
					   .min_kbps = 10000,
					   .window_ns = 200000,
					   .alpha_ns = 1000,
					   .decrease_ns = 4000,
					   .increase_ns = 300000,
					   .ai_kbps = 1000,
					   .hai_kbps = 10000,
					   .g_inv = 256};
	conn_raise(c, &raise);
	client_does(c, 1, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_expect(c, WIRE_OP_SEND_ONLY, conn_rc.sq_psn).tclass & 3, 2);
	peer_nak(c, conn_rc.sq_psn, NAK_SYN(PSN_SEQ));
	bench_run(c->b);
	assert_int_equal(pkt_expect(c, WIRE_OP_SEND_ONLY, conn_rc.sq_psn).tclass & 3, 2);
	assert_true(c->qp->conn.ecn.again_bytes > 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, conn_rc.rq_psn, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	assert_int_equal(pkt_expect(c, WIRE_OP_ACK, conn_rc.rq_psn).tclass & 3, 0);
	peer_read(c, conn_rc.rq_psn + 1, REMOTE_VA, 8);
	bench_run(c->b);
	assert_int_equal(pkt_expect(c, WIRE_OP_READ_RESP_ONLY, conn_rc.rq_psn + 1).tclass & 3, 2);
	/* A CNP is obeyed. */
	peer_put(c, (struct wire_fields){.opcode = WIRE_OPCODE_CNP, .becn = true}, 0, 0);
	assert_int_equal(OBS(c, RP_CNP_HANDLED), 1);
	assert_true(c->qp->conn.ecn.cnps_got == 1);
	assert_int_equal(c->qp->conn.cc_flow.dcqcn.rate_kbps, 5000000);
}

/* A policy that changes while WQEs are in flight: they are paced and acknowledged, and continue. */
REQUIREMENT("CC-04")
BENCH_TEST(a_policy_changes_with_wqes_in_flight)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct cc_param p = {.policy = CC_DCQCN,
			     .rounds = 5,
			     .link_kbps = 10000000,
			     .max_kbps = 1000000, /* 1 Gb/s: a limit is always paced */
			     .min_kbps = 10000,
			     .window_ns = 200000,
			     .alpha_ns = 1000,
			     .decrease_ns = 4000,
			     .increase_ns = 300000,
			     .ai_kbps = 1000,
			     .hai_kbps = 10000,
			     .g_inv = 256};
	static const struct cc_param fixed = {.policy = CC_FIXED};
	uint32_t sq = conn_rc.sq_psn, i;

	for (i = 0; i < 4; i++)
		client_does(c, i, UROCE_WR_RDMA_WRITE, 1024);
	for (i = 0; i < 4; i++)
		pkt_expect(c, WIRE_OP_WRITE_ONLY, sq + i);
	qp_cc_change(&c->b->engine.env, c->qp, &p);
	assert_true(c->qp->conn.snd.cc_active);
	peer_nak(c, sq + 1, NAK_SYN(PSN_SEQ)); /* fast-path WQEs go again, paced */
	send_cqe(c, 0, QP_WC_SUCCESS);
	bench_run(c->b);
	for (i = 1; i < 4; i++) {
		assert_int_equal(pkt_expect(c, WIRE_OP_WRITE_ONLY, sq + i).tclass & 3, 2);
		if (i == 1)
			pkt_none(c); /* about 9 us each */
		bench_pass(c->b, 10 * US);
	}
	peer_ack(c, sq + 2);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	client_does(c, 4, UROCE_WR_RDMA_WRITE, 1024);
	client_does(c, 5, UROCE_WR_RDMA_WRITE, 1024);
	qp_cc_change(&c->b->engine.env, c->qp, &fixed); /* one is held back */
	bench_run(c->b);
	assert_int_equal(pkt_count(c), 2);
	assert_false(c->qp->conn.snd.cc_active);
	peer_ack(c, sq + 5);
	for (i = 3; i < 6; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	client_does(c, 6, UROCE_WR_RDMA_WRITE, 8);
	assert_int_equal(pkt_expect(c, WIRE_OP_WRITE_ONLY, sq + 6).tclass & 3, 0);
}

/* At the full rate a policy costs no more than `fixed`: WQEs take the fast path. A CNP ends that.
 */
REQUIREMENT("CC-04")
BENCH_TEST(a_policy_takes_packets_only_while_it_limits)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct cc_param p = {.policy = CC_DCQCN,
			     .rounds = 1,
			     .link_kbps = 1000000,
			     .max_kbps = 1000000,
			     .min_kbps = 10000,
			     .window_ns = 2000000,
			     .alpha_ns = 55000,
			     .decrease_ns = 4000,
			     .increase_ns = 30000,
			     .ai_kbps = 500000,
			     .hai_kbps = 500000,
			     .g_inv = 256};
	uint32_t sq = conn_rc.sq_psn, i;

	qp_cc_change(&c->b->engine.env, c->qp, &p);
	assert_false(c->qp->conn.snd.cc_active);
	for (i = 0; i < 4; i++)
		client_does(c, i, UROCE_WR_RDMA_WRITE, 1024);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pkt_expect(c, WIRE_OP_WRITE_ONLY, sq + i).tclass & 3, 2);
		assert_int_equal(qp_sqes_at(&c->qp->bind.sqes, i)->fast, QP_WQE_ONE_PACKET);
	}
	peer_put(c, (struct wire_fields){.opcode = WIRE_OPCODE_CNP, .becn = true}, 0, 0);
	assert_int_equal(OBS(c, RP_CNP_HANDLED), 1);
	assert_true(c->qp->conn.snd.cc_active);
	assert_int_equal(c->qp->conn.cc_flow.dcqcn.rate_kbps, 500000);
	peer_nak(c, sq + 1, NAK_SYN(PSN_SEQ)); /* retransmitted at the new pace */
	send_cqe(c, 0, QP_WC_SUCCESS);
	bench_run(c->b);
	for (i = 1; i < 4; i++) {
		pkt_expect(c, WIRE_OP_WRITE_ONLY, sq + i);
		if (i == 1)
			pkt_none(c); /* about 18 us each */
		bench_pass(c->b, 20 * US);
	}
	bench_pass(c->b, 400 * US); /* the rate recovers */
	peer_ack(c, sq + 3);
	for (i = 1; i < 4; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	assert_int_equal(c->qp->conn.cc_flow.dcqcn.rate_kbps, 1000000);
	assert_false(c->qp->conn.snd.cc_active);
	for (i = 4; i < 8; i++)
		client_does(c, i, UROCE_WR_RDMA_WRITE, 1024);
	for (i = 4; i < 8; i++)
		pkt_expect(c, WIRE_OP_WRITE_ONLY, sq + i);
}

/* A QP whose policy is `fixed` counts it. */
REQUIREMENT("CC-02")
BENCH_TEST(a_cnp_is_counted_as_ignored)
{
	struct conn *c = conn_open(*state, conn_rc);

	peer_put(c, (struct wire_fields){.opcode = WIRE_OPCODE_CNP, .becn = true}, 0, 0);
	assert_int_equal(OBS(c, RP_CNP_HANDLED), 0);
	assert_int_equal(OBS(c, RP_CNP_IGNORED), 1);
	assert_int_equal(DROPS(c, CNP), 1);
	assert_true(c->qp->conn.ecn.cnps_got == 1);
}

/* A CNP of a host that is not the peer, of a QPN without a QP, or damaged, slows nobody down. */
REQUIREMENT("CC-02")
BENCH_TEST(foreign_cnps_change_nothing)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct wire_fields f = {.opcode = WIRE_OPCODE_CNP, .becn = true};
	struct cc_param dcqcn;
	uint8_t frame[WIRE_MAX_OVERHEAD + 4];
	char err[200];
	struct qp_conn was;
	uint32_t len;

	assert_true(cc_param_parse(&dcqcn, "dcqcn", err, sizeof(err)));
	assert_true(cc_param_fill(&dcqcn, 0, err, sizeof(err)));
	qp_cc_change(&c->b->engine.env, c->qp, &dcqcn);
	was = c->qp->conn;
	c->peer_path.sgid[15] ^= 1;
	peer_tclass(c, 0);
	frame_rx(c->b, frame, peer_frame(c, f, 0, 0, frame));
	assert_int_equal(DROPS(c, BAD_GID), 1);
	c->peer_path.sgid[15] ^= 1;
	wire_tmpl_init(&c->peer, &c->peer_path, c->qp->conn.qpn + 2, 0xffff);
	frame_rx(c->b, frame, peer_frame(c, f, 0, 0, frame));
	assert_int_equal(DROPS(c, BAD_QPN), 1);
	peer_tclass(c, 0);
	len = peer_frame(c, f, 0, 0, frame);
	frame[len - 1] ^= 1; /* ICRC */
	frame_rx(c->b, frame, len);
	assert_int_equal(DROPS(c, BAD_ICRC), 1);
	frame_rx(c->b, frame, peer_frame(c, f, 0, 4, frame));
	assert_int_equal(DROPS(c, BAD_LENGTH), 1);
	bench_run(c->b);
	assert_memory_equal(&c->qp->conn, &was, sizeof(was));
	assert_int_equal(OBS(c, RP_CNP_HANDLED), 0);
	peer_put(c, f, 0, 0);
	assert_int_equal(OBS(c, RP_CNP_HANDLED), 1);
}
