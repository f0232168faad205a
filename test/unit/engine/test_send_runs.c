/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SENDs into copied memory: packets that arrive in one burst are written at once
 * (responder/write_run.c), with the same checks, completions and answers as one by one.
 */
#include <errno.h>
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"

#define RQ  conn_rc.rq_psn
#define MTU 1024

#define OLD 7 /* in all bytes of the region before a SEND */

static struct conn *
conn_copied(void **state, struct conn_cfg cfg)
{
	struct conn *c = conn_open(*state, cfg);

	memset(c->local->bytes, OLD, BENCH_BYTES);
	region_by_ops(c->local, UINT32_MAX);
	return c;
}

/* A packet of a burst. Its payload begins where that of the packet before it ends. */
struct piece {
	uint8_t op;
	uint32_t len;
	uint32_t skip; /* PSNs that are missing before it */
	bool solicited;
};
#define BURST(c, psn, ...)                                                                         \
	burst(c, psn, (const struct piece[]){__VA_ARGS__},                                         \
	      sizeof((const struct piece[]){__VA_ARGS__}) / sizeof(struct piece))

static void
burst(struct conn *c, uint32_t psn, const struct piece *p, uint32_t n)
{
	struct rte_mbuf *m[8];
	uint32_t off = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct wire_fields f = {.opcode = p[i].op,
					.psn = psn + i,
					.ackreq = i + 1 == n,
					.solicited = p[i].solicited,
					.imm = 77,
					.inv_rkey = c->remote->mr.key};
		uint8_t frame[MTU + WIRE_MAX_OVERHEAD];
		uint32_t len;

		psn += p[i].skip;
		f.psn += p[i].skip;
		off += p[i].skip * MTU;
		len = peer_frame(c, f, off, p[i].len, frame);
		off += p[i].len;
		m[i] = rte_pktmbuf_alloc(c->b->engine.env.pool);
		assert_non_null(m[i]);
		memcpy(rte_pktmbuf_append(m[i], (uint16_t)len), frame, len);
	}
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, n);
}

REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(packets_of_sends_are_written_at_once)
{
	struct conn *c = conn_copied(state, conn_rc);

	recv_post(c, 1, 64, 3 * MTU);
	recv_post(c, 2, 8 * MTU, 2 * MTU);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU},
	      {WIRE_OP_SEND_LAST, MTU - 5}, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_LAST, 1});
	ack_expect(c, RQ + 4);
	assert_int_equal(c->local->stores, 1);
	assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, 3 * MTU - 5);
	assert_int_equal(recv_cqe(c, 2, QP_WC_SUCCESS).byte_len, MTU + 1);
	assert_memory_equal(c->local->bytes + 64, bench_bytes, 3 * MTU - 5);
	assert_memory_equal(c->local->bytes + 8 * MTU, bench_bytes + 3 * MTU - 5, MTU + 1);
}

/* A message counts as written only if its receive is the one that was expected. */
REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(changed_receive_is_written_when_it_is_taken)
{
	struct conn *c = conn_copied(state, conn_rc);
	const struct mr *mr = &c->local->mr;
	const uint32_t psn = RQ, pkts = 1;
	struct mem_part at = {.va = mr->va + 4 * MTU, .len = MTU};

	recv_post(c, 1, 4 * MTU, MTU);
	qp_ahead_prewrite(&c->b->engine.ahead, c->b->now, c->qp, mr, 1, &at, &psn, &pkts);
	BURST(c, RQ, {WIRE_OP_SEND_ONLY, MTU});
	recv_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(c->local->stores, 0);
	c->qp->conn.rcv.epsn = RQ;
	recv_post(c, 2, 6 * MTU, MTU);
	qp_ahead_prewrite(&c->b->engine.ahead, c->b->now, c->qp, mr, 1, &at, &psn, &pkts);
	BURST(c, RQ, {WIRE_OP_SEND_ONLY, MTU});
	recv_cqe(c, 2, QP_WC_SUCCESS);
	assert_int_equal(c->local->stores, 1);
	assert_memory_equal(c->local->bytes + 6 * MTU, bench_bytes, MTU);
}

/* A message may begin in one burst and end in another. */
REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(run_begins_in_the_middle_of_a_message)
{
	struct conn *c = conn_copied(state, conn_rc);

	recv_post(c, 1, 0, 4 * MTU);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU});
	ack_expect(c, RQ + 1);
	cqe_none(c);
	assert_int_equal(c->local->bytes[2 * MTU], OLD);
	BURST(c, RQ + 2, {WIRE_OP_SEND_MIDDLE, MTU}, {WIRE_OP_SEND_LAST, 9});
	ack_expect(c, RQ + 3);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(c->local->stores, 2);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU);
	assert_memory_equal(c->local->bytes + 2 * MTU, bench_bytes, MTU + 9);
	assert_int_equal(c->local->bytes[3 * MTU + 9], OLD);
}

/* The second message of the burst has no receive; its packets write nothing. */
REQUIREMENT("MEM-05", "NAK-10")
BENCH_TEST(run_ends_where_a_receive_is_missing)
{
	struct conn *c = conn_copied(state, conn_rc);

	recv_post(c, 1, 0, 2 * MTU);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_LAST, MTU}, {WIRE_OP_SEND_FIRST, MTU},
	      {WIRE_OP_SEND_LAST, MTU});
	answer_expect(c, RQ + 2, WIRE_SYN_RNR | conn_rc.min_rnr_timer);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	cqe_none(c);
	assert_int_equal(c->local->stores, 1);
	assert_int_equal(c->local->bytes[2 * MTU], OLD);
	recv_post(c, 2, 4 * MTU, 2 * MTU);
	BURST(c, RQ + 2, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_LAST, MTU});
	ack_expect(c, RQ + 3);
	recv_cqe(c, 2, QP_WC_SUCCESS);
	assert_int_equal(c->local->stores, 2);
	assert_memory_equal(c->local->bytes + 4 * MTU, bench_bytes, 2 * MTU);
}

/* The packet that does not fit is refused; those before it are written, those behind it are not. */
REQUIREMENT("MEM-05", "NAK-07")
BENCH_TEST(run_ends_at_the_end_of_the_receive)
{
	struct conn *c = conn_copied(state, conn_rc);

	recv_post(c, 1, 0, 3 * MTU - 1);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU},
	      {WIRE_OP_SEND_MIDDLE, MTU}, {WIRE_OP_SEND_LAST, 8});
	answer_expect(c, RQ + 2, NAK_SYN(INV_REQ));
	recv_cqe(c, 1, QP_WC_LOC_LEN_ERR);
	state_expect(c, QP_ERR);
	assert_int_equal(c->local->stores, 1);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU);
	assert_int_equal(c->local->bytes[2 * MTU], OLD);
}

/* Each element of a list is one operation; mapped elements are written, too. */
REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(run_is_scattered_over_a_list)
{
	struct conn_cfg cfg = conn_rc;
	struct bench_region *mapped;
	struct uroce_sge sge[3];
	struct conn *c;

	cfg.max_sge = 3;
	c = conn_copied(state, cfg);
	mapped = region_add(c->b, cfg.pd, 0x30000000, MTU, MEM_LOCAL_WRITE);
	sge[0] = (struct uroce_sge){LOCAL_VA, MTU / 2, c->local->mr.key};
	sge[1] = (struct uroce_sge){0x30000000, MTU, mapped->mr.key};
	sge[2] = (struct uroce_sge){LOCAL_VA + 4 * MTU, 2 * MTU, c->local->mr.key};
	recv_post_sges(c, 1, sge, 3);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU},
	      {WIRE_OP_SEND_LAST, MTU});
	ack_expect(c, RQ + 2);
	assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, 3 * MTU);
	assert_int_equal(c->local->stores, 2);
	assert_memory_equal(c->local->bytes, bench_bytes, MTU / 2);
	assert_memory_equal(mapped->bytes, bench_bytes + MTU / 2, MTU);
	assert_memory_equal(c->local->bytes + 4 * MTU, bench_bytes + 3 * MTU / 2, 3 * MTU / 2);
}

/* The key of the list's second element has died: the packet that reaches it fails, no earlier. */
REQUIREMENT("MEM-02", "MEM-05")
BENCH_TEST(bad_key_fails_the_packet_that_needs_it)
{
	struct conn_cfg cfg = conn_rc;
	struct bench_region *gone;
	struct uroce_sge sge[2];
	struct conn *c;

	cfg.max_sge = 2;
	c = conn_copied(state, cfg);
	gone = region_add(c->b, cfg.pd, 0x30000000, 4 * MTU, MEM_LOCAL_WRITE);
	sge[0] = (struct uroce_sge){LOCAL_VA, 2 * MTU + 1, c->local->mr.key};
	sge[1] = (struct uroce_sge){0x30000000, 4 * MTU, gone->mr.key};
	region_drop(c->b, gone);
	recv_post_sges(c, 1, sge, 2);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU},
	      {WIRE_OP_SEND_MIDDLE, MTU}, {WIRE_OP_SEND_LAST, MTU});
	answer_expect(c, RQ + 2, NAK_SYN(REM_OP));
	recv_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU);
	assert_int_equal(c->local->bytes[2 * MTU], OLD);
}

/* Memory behind the second packet was unmapped: the third fails. */
REQUIREMENT("MEM-05", "NAK-09")
BENCH_TEST(lost_memory_fails_the_packet_that_needs_it)
{
	struct conn *c = conn_copied(state, conn_rc);

	c->local->edge = 2 * MTU;
	recv_post(c, 1, 0, 4 * MTU);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU},
	      {WIRE_OP_SEND_MIDDLE, MTU}, {WIRE_OP_SEND_LAST, MTU});
	answer_expect(c, RQ + 2, NAK_SYN(REM_OP));
	recv_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU);
}

REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(run_uses_a_shared_receive_queue)
{
	struct bench_srq *s = srq_open(*state, 4);
	struct conn *c = conn_open(*state, CONN(cfg.srq = &s->srq));

	region_by_ops(s->mem, UINT32_MAX);
	srq_post(s, 5, 0, 3 * MTU);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU},
	      {WIRE_OP_SEND_LAST, MTU}, {WIRE_OP_SEND_FIRST, MTU});
	answer_expect(c, RQ + 3, WIRE_SYN_RNR | conn_rc.min_rnr_timer);
	recv_cqe(c, 5, QP_WC_SUCCESS);
	assert_int_equal(s->mem->stores, 1);
	assert_memory_equal(s->mem->bytes, bench_bytes, 3 * MTU);
	srq_close(s);
}

/* What the last packet carries beyond payload is used when that packet is executed. */
REQUIREMENT("MEM-05", "RSP-05", "MEM-04")
BENCH_TEST(last_packet_of_a_run_is_executed_in_its_turn)
{
	struct conn *c = conn_copied(state, conn_rc);
	struct uroce_cqe cqe;

	recv_post(c, 1, 0, 2 * MTU);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_LAST_IMM, 3, .solicited = true});
	ack_expect(c, RQ + 1);
	cqe = recv_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(cqe.imm, 77);
	assert_int_equal(cqe.flags, UROCE_CQE_WITH_IMM | UROCE_CQE_SOLICITED);
	assert_int_equal(cqe.byte_len, MTU + 3);
	assert_int_equal(c->local->stores, 1);
	/* The key to invalidate is not a window's. Its payload is written all the same. */
	recv_post(c, 2, 4 * MTU, 2 * MTU);
	BURST(c, RQ + 2, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_LAST_INV, 3});
	answer_expect(c, RQ + 3, NAK_SYN(REM_ACCESS));
	recv_cqe(c, 2, QP_WC_LOC_ACCESS_ERR);
	assert_int_equal(c->local->stores, 2);
	assert_memory_equal(c->local->bytes + 4 * MTU, bench_bytes, MTU + 3);
}

/* The first packet of a late run waits; when it comes again, it is tried alone. */
REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(late_run_takes_one_receive)
{
	for (uint32_t done = 0; done < 2; done++) {
		struct conn_cfg cfg = conn_rc;
		struct conn *c;

		cfg.qpn = BENCH_QPN + 2 * done;
		c = conn_copied(state, cfg);
		recv_post(c, 1, 0, 4 * MTU);
		recv_post(c, 2, 0, 4 * MTU);
		c->local->late = 1;
		c->local->late_done = done;
		for (uint32_t i = 0; i < 2; i++) {
			BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU},
			      {WIRE_OP_SEND_MIDDLE, MTU}, {WIRE_OP_SEND_LAST, MTU});
			if (i == 0)
				pkt_none(c);
		}
		ack_expect(c, RQ + 3);
		recv_cqe(c, 1, QP_WC_SUCCESS);
		cqe_none(c);
		assert_int_equal(c->local->stores, 2 + done);
		assert_memory_equal(c->local->bytes, bench_bytes, 4 * MTU);
	}
}

/* Packets behind a gap, or of another message, are not written with it. */
REQUIREMENT("MEM-05", "NAK-04", "NAK-07")
BENCH_TEST(run_ends_before_packets_that_are_refused)
{
	static const struct {
		struct piece bad;
		uint8_t syndrome;
	} cases[] = {
		{{WIRE_OP_SEND_LAST, MTU, .skip = 1}, NAK_SYN(PSN_SEQ)},
		{{WIRE_OP_SEND_LAST, 0}, NAK_SYN(INV_REQ)},
		{{WIRE_OP_SEND_LAST, MTU + 4}, NAK_SYN(INV_REQ)},
		{{WIRE_OP_SEND_MIDDLE, MTU - 4}, NAK_SYN(INV_REQ)},
		{{WIRE_OP_SEND_FIRST, MTU}, NAK_SYN(INV_REQ)},
		{{WIRE_OP_WRITE_LAST, MTU}, NAK_SYN(INV_REQ)},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct conn_cfg cfg = conn_rc;
		struct conn *c;

		cfg.qpn = BENCH_QPN + 2 * i;
		c = conn_copied(state, cfg);
		recv_post(c, 1, 0, 4 * MTU);
		BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU}, cases[i].bad);
		answer_expect(c, RQ + 2, cases[i].syndrome);
		assert_int_equal(c->local->stores, 1);
		assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU);
		assert_int_equal(c->local->bytes[2 * MTU], OLD);
	}
}

/* PSNs come again after 2^24 packets: a packet with one of a run's PSNs is written. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(run_is_forgotten_after_its_last_packet)
{
	struct conn *c = conn_copied(state, conn_rc);

	recv_post(c, 1, 0, 3 * MTU);
	recv_post(c, 2, 4 * MTU, 3 * MTU);
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU}, {WIRE_OP_SEND_MIDDLE, MTU},
	      {WIRE_OP_SEND_LAST, MTU});
	ack_expect(c, RQ + 2);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	/* All packets in between were for mapped memory; this message's first one was, too. */
	c->qp->conn.rcv.epsn = RQ;
	c->local->mr.host = c->local->bytes;
	BURST(c, RQ, {WIRE_OP_SEND_FIRST, MTU});
	c->local->mr.host = NULL;
	ack_expect(c, RQ);
	BURST(c, RQ + 1, {WIRE_OP_SEND_LAST, MTU});
	ack_expect(c, RQ + 1);
	recv_cqe(c, 2, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes + 5 * MTU, bench_bytes, MTU);
}
