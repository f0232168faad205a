/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copied memory whose access is late: -EAGAIN of mem/mr.h. Only its own QP waits, no operation is
 * executed twice, and neither side uses up retries. test_late_rc.c: how a request waits.
 */
#include <errno.h>
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "wire/timer.h"

#define SQ  conn_rc.sq_psn
#define RQ  conn_rc.rq_psn
#define MTU 1024
#define MS  1000000ull

static struct conn *
conn_late(void **state)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.access |= MEM_REMOTE_ATOMIC;
	c = conn_open(*state, cfg);
	c->remote->mr.access |= MEM_REMOTE_ATOMIC;
	region_by_ops(c->local, UINT32_MAX);
	region_by_ops(c->remote, UINT32_MAX);
	return c;
}

/* --- requester --- */

#define LEAST_NS 10000u /* of engine.c: between two attempts */

/* The QP gets no turn until then. */
REQUIREMENT("MEM-05")
BENCH_TEST(late_payload_is_tried_again_later)
{
	struct conn *c = conn_late(state);

	c->local->late = 3;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .flags = SIG, .len = 2 * MTU + 5});
	for (uint32_t left = 2; left != 0; left--) {
		bench_pass(c->b, LEAST_NS - 1);
		assert_int_equal(c->local->late, left);
		bench_pass(c->b, 1);
	}
	pkt_none(c);
	bench_pass(c->b, LEAST_NS);
	pkt_expect(c, WIRE_OP_WRITE_FIRST, SQ);
	pkt_expect(c, WIRE_OP_WRITE_MIDDLE, SQ + 1);
	c->local->late = 1;
	pkt_expect(c, WIRE_OP_WRITE_LAST, SQ + 2);
	pkt_none(c);
	peer_ack(c, SQ + 2);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* Memory that does not respond costs few attempts, however many QPs wait for it. */
REQUIREMENT("MEM-05")
BENCH_TEST(stuck_payload_is_tried_less_and_less_often)
{
	struct conn *c = conn_late(state);

	c->local->late = 1000000;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	bench_pass(c->b, MS);
	assert_in_range(1000000 - c->local->late, 10, 25);
	c->local->late = 1000000;
	bench_pass(c->b, 1000 * MS);
	assert_in_range(1000000 - c->local->late, 80, 120);
	/* The next one that is late is tried again soon. */
	c->local->late = 0;
	bench_pass(c->b, 10 * MS);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	c->local->late = 1;
	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	pkt_none(c);
	bench_pass(c->b, LEAST_NS);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
}

/* Others have their turns meanwhile. */
REQUIREMENT("MEM-05")
BENCH_TEST(late_payload_delays_its_own_qp_only)
{
	struct conn *c = conn_late(state), *other;
	struct conn_cfg cfg = conn_rc;

	cfg.qpn = BENCH_QPN + 2;
	other = conn_open(*state, cfg);
	c->local->late = 1000;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	for (uint32_t i = 0; i < 20; i++) {
		post(other, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
		bench_run_once(c->b);
		bench_run_once(c->b);
		assert_int_equal(other->qp->conn.snd.next_psn, SQ + i + 1);
		assert_int_equal(c->qp->conn.snd.next_psn, SQ);
	}
	assert_true(c->local->late >= 1000 - 20 * 4);
	/* The QP is no longer in use. */
	conn_to(c, QP_ERR);
	send_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(pkt_count(other), 20);
}

REQUIREMENT("MEM-05", "CQE-04")
BENCH_TEST(payload_that_never_comes_ends_the_wqe)
{
	struct conn *c = conn_late(state);

	c->local->good = 0;
	c->local->late = 2;
	c->local->error = -ETIMEDOUT;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	bench_pass(c->b, 2 * LEAST_NS);
	send_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	pkt_none(c);
	state_expect(c, QP_ERR);
}

REQUIREMENT("MEM-05")
BENCH_TEST(datagram_waits_for_a_late_payload)
{
	struct conn *c = conn_open(*state, CONN(cfg.type = QP_TYPE_UC));

	region_by_ops(c->local, UINT32_MAX);
	c->local->late = 2;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	pkt_none(c);
	bench_pass(c->b, 2 * LEAST_NS);
	pkt_expect(c, WIRE_SVC_UC | WIRE_OP_SEND_ONLY, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(c->local->late, 0);
}

#define RETRY_NS 100000u /* of rx_late.c */

/* A response waits for its memory, and those behind it wait with it. No retry is used. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(read_response_waits_for_late_memory)
{
	struct conn *c = conn_late(state);

	c->qp->conn.snd.retry_left = c->qp->conn.attr.retry_cnt;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 2 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	c->local->late = 1000000;
	for (uint32_t i = 0; i < 3; i++) { /* copies take no places */
		peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, MTU);
		peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 1, MTU, MTU);
		assert_int_equal(c->b->engine.late.n, 2);
		assert_int_equal(DROPS(c, MEMORY_LATE), 2 * i);
	}
	bench_pass(c->b, 1000 * MS); /* many times the ACK timeout: nothing is sent again */
	pkt_none(c);
	cqe_none(c);
	assert_int_equal(OBS(c, REQ_TIMEOUT) + OBS(c, REQ_PROBE), 0);
	assert_int_equal(c->qp->conn.snd.retry_left, c->qp->conn.attr.retry_cnt);
	c->local->late = 0;
	bench_pass(c->b, RETRY_NS);
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU);
	assert_int_equal(c->local->stores, 1);
	assert_int_equal(c->b->engine.late.n, 0);
	pkt_none(c);
}

/* An ACK behind it does not show a gap: it waits, too. Requests of the peer do not. */
REQUIREMENT("MEM-05", "REQ-07", "REQ-08")
BENCH_TEST(ack_behind_a_late_response_waits)
{
	struct conn *c = conn_late(state);

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	c->local->late = 2;
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, MTU);
	peer_ack(c, SQ + 1);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ);
	assert_int_equal(c->b->engine.late.n, 2);
	bench_pass(c->b, RETRY_NS);
	pkt_none(c);
	cqe_none(c);
	bench_pass(c->b, RETRY_NS);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, REQ_READ_GAP), 0);
	pkt_none(c);
}

/* A response that the network has lost behind it is requested again when the memory answers. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(gap_behind_a_late_response_is_requested_again)
{
	struct conn *c = conn_late(state);

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 4 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	c->local->late = 1;
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 2, 2 * MTU, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 3, 3 * MTU, MTU);
	pkt_none(c);
	bench_pass(c->b, RETRY_NS);
	assert_int_equal(pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1).dmalen, 3 * MTU);
	pkt_none(c);
	assert_int_equal(c->b->engine.late.n, 0);
}

/* Responses that had no place are requested again when those that wait were stored. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(responses_without_a_place_are_requested_again)
{
	enum { N = RX_LATE_CAP / 4 + 3 };
	struct conn *c = conn_late(state);

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = N * 1024});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	c->local->late = 1;
	for (uint32_t i = 0; i < N; i++)
		peer_read_resp(c,
			       i == 0       ? WIRE_OP_READ_RESP_FIRST
			       : i < N - 1u ? WIRE_OP_READ_RESP_MIDDLE
					    : WIRE_OP_READ_RESP_LAST,
			       SQ + i, i * MTU, MTU);
	assert_int_equal(c->b->engine.late.n, RX_LATE_CAP / 4);
	assert_int_equal(DROPS(c, MEMORY_LATE), 3);
	bench_pass(c->b, RETRY_NS);
	assert_int_equal(c->b->engine.late.n, 0);
	pkt_none(c);
	bench_pass(c->b, MS);
	assert_int_equal(pkt_expect(c, WIRE_OP_READ_REQ, SQ + RX_LATE_CAP / 4).dmalen, 3 * MTU);
	assert_memory_equal(c->local->bytes, bench_bytes, RX_LATE_CAP / 4 * MTU);
}

/* Without any place data is dropped and requested again a millisecond later; no retry is used. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(read_response_without_a_place_is_requested_again)
{
	struct conn *c = conn_late(state);

	c->qp->conn.snd.retry_left = c->qp->conn.attr.retry_cnt;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 2 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	for (int i = 0; i < 20; i++) {
		c->local->late = 1;
		c->local->late_done = i & 1;
		c->b->engine.late.of_user[c->qp->bind.run_user] = RX_LATE_CAP;
		peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, MTU);
		c->b->engine.late.of_user[c->qp->bind.run_user] = 0;
		peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 1, MTU, MTU);
		pkt_none(c);
		assert_int_equal(DROPS(c, MEMORY_LATE), i + 1);
		bench_pass(c->b, MS - 1);
		pkt_none(c);
		bench_pass(c->b, 1);
		assert_int_equal(pkt_expect(c, WIRE_OP_READ_REQ, SQ).dmalen, 2 * MTU);
		assert_int_equal(c->qp->conn.snd.retry_left, c->qp->conn.attr.retry_cnt);
	}
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 1, MTU, MTU);
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 0);
}

/* The QP may be reset while a response waits. */
REQUIREMENT("MEM-05")
BENCH_TEST(reset_forgets_the_response_that_waits)
{
	struct conn *c = conn_late(state);

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	c->local->late = 1;
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, MTU);
	conn_to(c, QP_RESET);
	bench_pass(c->b, RETRY_NS);
	pkt_none(c);
	assert_int_equal(c->local->stores, 0);
	assert_int_equal(c->b->engine.late.n, 0);
}

REQUIREMENT("MEM-05")
BENCH_TEST(memory_that_never_comes_at_the_requester_ends_the_read)
{
	struct conn *c = conn_late(state);

	c->local->good = 0;
	c->local->error = -ETIMEDOUT;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, MTU);
	send_cqe(c, 1, QP_WC_LOC_PROT_ERR);
}

/* --- responder --- */

/* The WRITE was executed after the copy was abandoned: its retransmission is not executed again. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_write_is_executed_once)
{
	struct conn *c = conn_late(state);

	c->remote->late = 1;
	c->remote->late_done = true;
	peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA, 2 * MTU, 0, MTU);
	pkt_none(c);
	memset(c->remote->bytes, 7, MTU); /* the program has seen it */
	peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA, 2 * MTU, 0, MTU);
	peer_write(c, WIRE_OP_WRITE_LAST, RQ + 1, REMOTE_VA, 2 * MTU, MTU, MTU);
	ack_expect(c, RQ + 1);
	assert_int_equal(c->remote->stores, 2);
	assert_int_equal(c->remote->bytes[0], 7);
	/* The same request with a new PSN is another operation. */
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 2, REMOTE_VA, MTU, 0, MTU);
	ack_expect(c, RQ + 2);
	assert_int_equal(c->remote->stores, 3);
}

/*
 * The peer sends packets of a WRITE of npkts packets to REMOTE_VA in one burst: those whose bits
 * are in mask. The last one is cut bytes shorter than the MTU. The message's first PSN is RQ.
 */
static void
write_burst(struct conn *c, uint32_t mask, uint32_t npkts, uint32_t cut)
{
	struct rte_mbuf *m[8];
	uint32_t n = 0;

	for (uint32_t i = 0; i < npkts; i++) {
		struct wire_fields f = {.opcode = i == 0           ? WIRE_OP_WRITE_FIRST
						  : i + 1 == npkts ? WIRE_OP_WRITE_LAST
								   : WIRE_OP_WRITE_MIDDLE,
					.psn = RQ + i,
					.ackreq = i + 1 == npkts,
					.va = REMOTE_VA,
					.rkey = c->remote->mr.key,
					.dmalen = npkts * MTU - cut};
		uint8_t frame[MTU + WIRE_MAX_OVERHEAD];
		uint32_t len = MTU - (i + 1 == npkts ? cut : 0);

		if (!(mask >> i & 1))
			continue;
		len = peer_frame(c, f, i * MTU, len, frame);
		m[n] = rte_pktmbuf_alloc(c->b->engine.env.pool);
		assert_non_null(m[n]);
		memcpy(rte_pktmbuf_append(m[n++], (uint16_t)len), frame, len);
	}
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, n);
}

/* A message's packets of one burst are one operation. */
REQUIREMENT("MEM-05")
BENCH_TEST(packets_of_a_burst_are_copied_at_once)
{
	struct conn *c = conn_late(state);

	write_burst(c, 7, 3, 5);
	ack_expect(c, RQ + 2);
	assert_int_equal(c->remote->stores, 1);
	assert_memory_equal(c->remote->bytes, bench_bytes, 3 * MTU - 5);
	peer_write(c, WIRE_OP_WRITE_FIRST, RQ + 3, REMOTE_VA, 2 * MTU, MTU, MTU);
	peer_write(c, WIRE_OP_WRITE_LAST, RQ + 4, REMOTE_VA, 2 * MTU, 2 * MTU, MTU);
	ack_expect(c, RQ + 4);
	assert_memory_equal(c->remote->bytes, bench_bytes + MTU, 2 * MTU);
	assert_int_equal(c->remote->stores, 3);
}

/* Payload is read ahead in a message; that of responses not into the next one. */
REQUIREMENT("MEM-05")
BENCH_TEST(payload_of_several_packets_is_read_at_once)
{
	struct conn *c = conn_late(state);

	c->local->good = 1;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .flags = SIG, .len = 2 * MTU + 5});
	pkt_expect(c, WIRE_OP_WRITE_FIRST, SQ);
	pkt_expect(c, WIRE_OP_WRITE_MIDDLE, SQ + 1);
	pkt_expect(c, WIRE_OP_WRITE_LAST, SQ + 2);
	assert_int_equal(c->local->good, 0);
	c->remote->good = 2;
	peer_read(c, RQ, REMOTE_VA, 2 * MTU);
	peer_read(c, RQ + 2, REMOTE_VA, 2 * MTU);
	for (uint32_t i = 0; i < 4; i++)
		pkt_expect(c, i & 1 ? WIRE_OP_READ_RESP_LAST : WIRE_OP_READ_RESP_FIRST, RQ + i);
	assert_int_equal(c->remote->good, 0);
}

/* Responses of a burst are stored at once, also those to a second READ into the same memory. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(read_responses_of_a_burst_are_stored_at_once)
{
	static const uint8_t op[] = {WIRE_OP_READ_RESP_FIRST, WIRE_OP_READ_RESP_MIDDLE,
				     WIRE_OP_READ_RESP_LAST, WIRE_OP_READ_RESP_ONLY};
	struct conn *c = conn_late(state);
	struct rte_mbuf *m[4];

	memset(c->local->bytes, 7, 8 * MTU);
	post_quiet(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 3 * MTU});
	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 9});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 3);
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_fields f = {.opcode = op[i], .psn = SQ + i, .syndrome = WIRE_SYN_ACK};
		uint8_t frame[MTU + WIRE_MAX_OVERHEAD];
		uint32_t len = peer_frame(c, f, i * MTU, i < 3 ? MTU : 9, frame);

		m[i] = rte_pktmbuf_alloc(c->b->engine.env.pool);
		assert_non_null(m[i]);
		memcpy(rte_pktmbuf_append(m[i], (uint16_t)len), frame, len);
	}
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, 4);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	assert_int_equal(c->local->stores, 1);
	assert_memory_equal(c->local->bytes, bench_bytes + 3 * MTU, 9);
	assert_memory_equal(c->local->bytes + 9, bench_bytes + 9, 3 * MTU - 9);
	assert_int_equal(c->local->bytes[3 * MTU], 7);
}

/* What follows a gap is neither written nor taken for written. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(burst_with_a_gap_is_copied_up_to_the_gap)
{
	struct conn *c = conn_late(state);

	memset(c->remote->bytes, 7, 4 * MTU);
	write_burst(c, 0xb, 4, 0);
	answer_expect(c, RQ + 2, NAK_SYN(PSN_SEQ));
	assert_int_equal(c->remote->stores, 1);
	assert_memory_equal(c->remote->bytes, bench_bytes, 2 * MTU);
	assert_int_equal(c->remote->bytes[2 * MTU], 7);
	assert_int_equal(c->remote->bytes[3 * MTU], 7);
	write_burst(c, 0xc, 4, 0);
	ack_expect(c, RQ + 3);
	assert_memory_equal(c->remote->bytes, bench_bytes, 4 * MTU);
	assert_int_equal(c->remote->stores, 2);
}

/*
 * Three packets were executed after their copy was abandoned. They come again in bursts of other
 * sizes: none is executed again, and the one behind them is.
 */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_packets_of_a_burst_are_executed_once)
{
	static const uint32_t again[][2] = {{0x1, 0xe}, {0x3, 0xc}, {0x7, 0x8}, {0xf, 0}};

	for (uint32_t k = 0; k < sizeof(again) / sizeof(again[0]); k++) {
		struct conn_cfg cfg = conn_rc;
		struct conn *c;

		cfg.qpn = BENCH_QPN + 2 * k;
		c = conn_open(*state, cfg);
		region_by_ops(c->remote, UINT32_MAX);
		c->remote->late = 1;
		c->remote->late_done = true;
		write_burst(c, 0x7, 4, 0);
		pkt_none(c);
		assert_int_equal(c->remote->stores, 1);
		memset(c->remote->bytes, 7, 4 * MTU); /* the program has seen it */
		write_burst(c, again[k][0], 4, 0);
		if (again[k][1] != 0)
			write_burst(c, again[k][1], 4, 0);
		ack_expect(c, RQ + 3);
		assert_int_equal(c->remote->stores, 2);
		assert_int_equal(c->remote->bytes[0], 7);
		assert_int_equal(c->remote->bytes[3 * MTU - 1], 7);
		assert_memory_equal(c->remote->bytes + 3 * MTU, bench_bytes + 3 * MTU, MTU);
	}
}

/* What a late burst has written is not written again when it is tried again. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_burst_is_executed_once_if_it_waits)
{
	for (uint32_t done = 0; done < 2; done++) {
		struct conn_cfg cfg = conn_rc;
		struct conn *c;

		cfg.qpn = BENCH_QPN + 2 * done;
		c = conn_open(*state, cfg);
		region_by_ops(c->remote, UINT32_MAX);
		memset(c->remote->bytes, 7, 4 * MTU);
		c->remote->late = 1;
		c->remote->late_done = done != 0;
		write_burst(c, 0x7, 4, 0);
		pkt_none(c);
		bench_pass(c->b, MS);
		pkt_none(c);
		assert_int_equal(c->remote->stores, 1);
		assert_memory_equal(c->remote->bytes, bench_bytes, 3 * MTU);
		write_burst(c, 0x8, 4, 0);
		ack_expect(c, RQ + 3);
		assert_int_equal(c->remote->stores, 2);
		assert_memory_equal(c->remote->bytes, bench_bytes, 4 * MTU);
	}
}

static void
peer_add(struct conn *c, uint32_t psn)
{
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_FETCH_ADD,
				      .psn = psn,
				      .va = REMOTE_VA,
				      .rkey = c->remote->mr.key,
				      .swap_add = 1},
		 0, 0);
}

REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_atomic_is_executed_once)
{
	struct conn *c = conn_late(state);
	uint64_t word = 41;

	memcpy(c->remote->bytes, &word, sizeof(word));
	for (uint32_t i = 0; i < 4; i++) {
		c->remote->late = 1;
		c->remote->late_done = i & 1;
		peer_add(c, RQ + i);
		pkt_none(c);
		peer_add(c, RQ + i);
		assert_int_equal(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + i).orig, 41 + i);
	}
	memcpy(&word, c->remote->bytes, sizeof(word));
	assert_int_equal(word, 45);
	assert_int_equal(c->remote->stores, 4);
}

/* A message takes one receive WQE however often it is late. */
REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(late_send_takes_one_receive)
{
	struct conn *c = conn_late(state);

	recv_post(c, 1, 0, 100);
	recv_post(c, 2, 200, 100);
	for (uint32_t i = 0; i < 3; i++) {
		c->local->late = 1;
		peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 100);
		pkt_none(c);
		cqe_none(c);
	}
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 100);
	ack_expect(c, RQ);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 100);
	ack_expect(c, RQ + 1);
	recv_cqe(c, 2, QP_WC_SUCCESS);
}

REQUIREMENT("MEM-05", "NAK-08")
BENCH_TEST(memory_that_never_comes_is_an_operation_error)
{
	struct conn *c = conn_late(state);

	recv_post(c, 1, 0, 100);
	c->local->good = 0;
	c->local->error = -ETIMEDOUT;
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 100);
	answer_expect(c, RQ, NAK_SYN(REM_OP));
	recv_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	state_expect(c, QP_ERR);
}

/*
 * Responses continue where they stopped. A peer that waits long gets an RNR NAK, which uses no ACK
 * retry.
 */
REQUIREMENT("MEM-05", "NAK-10")
BENCH_TEST(read_responses_continue_after_late_memory)
{
	struct conn *c = conn_late(state);
	uint64_t wait = 20 * MS;

	c->remote->late = UINT32_MAX;
	peer_read(c, RQ, REMOTE_VA, 3 * MTU);
	pkt_none(c);
	c->remote->late = 0;
	pkt_none(c);
	bench_pass(c->b, LEAST_NS);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	pkt_expect(c, WIRE_OP_READ_RESP_MIDDLE, RQ + 1);
	pkt_expect(c, WIRE_OP_READ_RESP_LAST, RQ + 2);
	pkt_none(c);
	assert_int_equal(OBS(c, RSP_RNR_NAK), 0);

	c->remote->late = UINT32_MAX;
	peer_read(c, RQ + 3, REMOTE_VA, 2 * MTU);
	bench_run_once(c->b);
	for (uint32_t i = 0, code = 12; i < 6; i++, code = code < 28 ? code + 4 : 0) {
		c->b->now += wait - 1;
		bench_run_once(c->b);
		assert_int_equal(OBS(c, RSP_RNR_NAK), i);
		c->b->now += 1;
		bench_run_once(c->b);
		assert_int_equal(OBS(c, RSP_RNR_NAK), i + 1);
		wait = wire_rnr_timer_ns(code) + 20 * MS;
	}
	c->remote->late = 0;
	bench_pass(c->b, 20 * MS);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(pkt_expect(c, WIRE_OP_ACK, RQ + 3).syndrome & WIRE_SYN_KIND,
				 WIRE_SYN_RNR);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ + 3);
	pkt_expect(c, WIRE_OP_READ_RESP_LAST, RQ + 4);
	pkt_none(c);
}

/* The kept result of a late WRITE does not affect a READ in between, nor the reverse. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_write_and_late_read_keep_separate_results)
{
	struct conn *c = conn_late(state);

	c->remote->late = 2; /* the WRITE's, as requests come first, and the READ's */
	c->remote->late_done = true;
	peer_read(c, RQ, REMOTE_VA, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA + 64, 8, 0, 8);
	pkt_none(c);
	bench_pass(c->b, LEAST_NS);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ);
	pkt_none(c);
	memset(c->remote->bytes + 64, 7, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA + 64, 8, 0, 8);
	ack_expect(c, RQ + 1);
	assert_int_equal(c->remote->stores, 1);
	assert_int_equal(c->remote->bytes[64], 7);
}
