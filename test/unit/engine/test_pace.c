/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A congestion policy that takes every report and sets a pace: the run list parks a QP until its
 * next packet may go, and no timer is armed for that.
 */
#include <string.h>
#include "harness.h"
#include "probe.h"
#include "qp/migrate.h"

#define SQ  0x001000u
#define RQ  0x555000u
#define MTU 1024u
#define US  1000ull
#define MS  1000000ull
#define GAP (10 * US)
#define CNP_ALL_ZERO                                                                               \
	(struct wire_fields)                                                                       \
	{                                                                                          \
		.opcode = WIRE_OPCODE_CNP, .becn = true                                            \
	}

/* The reports to the policy. */
static struct told {
	uint32_t init, sent, ack, cnp, loss, timeout, probe, spurious;
	uint32_t sent_bytes, acked_bytes;
	bool ce;
	uint64_t now_ns;
} told;
static uint64_t gap_ns = GAP;

static void
pace_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc->most_pkts = cc->window_pkts = CC_WINDOW_PKTS;
	flow->own[0] = gap_ns;
	told.init++;
}

static void
pace_on_sent(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes)
{
	assert_true(flow->next_send_ns <= now_ns);
	flow->next_send_ns = now_ns + flow->own[0];
	told.sent++;
	told.sent_bytes += bytes;
	told.now_ns = now_ns;
}

static void
pace_on_ack(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, const struct cc_ack *ack)
{
	told.ack++;
	told.acked_bytes += ack->bytes;
	told.ce = ack->ce;
}

static void
pace_on_cnp(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	flow->own[0] *= 2;
	told.cnp++;
}

static void
pace_on_loss(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	told.loss++;
}

static void
pace_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	told.timeout++;
}

static void
pace_on_probe(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, bool again)
{
	told.probe++;
}

const struct cc_ops cc_test = {
	.name = "pace",
	.init = pace_init,
	.on_sent = pace_on_sent,
	.on_ack = pace_on_ack,
	.on_cnp = pace_on_cnp,
	.on_loss = pace_on_loss,
	.on_timeout = pace_on_timeout,
	.on_probe = pace_on_probe,
};

static struct conn *
conn_paced(void **state, enum qp_type type)
{
	struct conn_cfg cfg = conn_rc, raise = conn_rc;
	struct conn *c;

	memset(&told, 0, sizeof(told));
	cfg.type = raise.type = type;
	raise.access |= MEM_REMOTE_ATOMIC;
	cfg.state = QP_RESET;
	c = conn_open(*state, cfg);
	c->b->engine.env.plain = 0;
	c->qp->conn.cc_flow.param.policy = CC_TEST;
	conn_raise(c, &raise);
	c->remote->mr.access |= MEM_REMOTE_ATOMIC;
	assert_int_equal(told.init, 1);
	bench_run(c->b);
	return c;
}

/* One packet, of this opcode and PSN, leaves after ns, and none before. */
static void
pkt_after(struct conn *c, uint64_t ns, uint8_t op, uint32_t psn)
{
	bench_pass(c->b, ns - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, op, psn);
	pkt_none(c);
	assert_true(told.now_ns == c->b->now);
}

BENCH_TEST(pace_spaces_the_packets_of_all_requests)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);
	uint32_t i;

	client_does(c, 1, UROCE_WR_SEND, 2 * MTU + 8);
	client_does(c, 2, UROCE_WR_RDMA_WRITE, 8);
	client_does(c, 3, UROCE_WR_RDMA_READ, MTU);
	client_does(c, 4, UROCE_WR_ATOMIC_FETCH_ADD, 8);
	pkt_expect(c, WIRE_OP_SEND_FIRST, SQ);
	pkt_none(c);
	pkt_after(c, GAP, WIRE_OP_SEND_MIDDLE, SQ + 1);
	pkt_after(c, GAP, WIRE_OP_SEND_LAST, SQ + 2);
	pkt_after(c, GAP, WIRE_OP_WRITE_ONLY, SQ + 3);
	pkt_after(c, GAP, WIRE_OP_READ_REQ, SQ + 4);
	pkt_after(c, GAP, WIRE_OP_FETCH_ADD, SQ + 5);
	assert_int_equal(told.sent, 6);
	assert_in_range(told.sent_bytes, 2 * MTU + 16 + 6 * 54, 2 * MTU + 16 + 6 * 100);
	peer_ack(c, SQ + 3);
	for (i = 1; i <= 2; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	assert_int_equal(told.acked_bytes, 2 * MTU + 16);
	/* The pace lies behind, so the next packet leaves at once. */
	bench_pass(c->b, GAP);
	client_does(c, 5, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 6);
}

BENCH_TEST(pace_needs_no_timer)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);
	uint32_t i, had = c->b->timers_set;

	for (i = 0; i < 9; i++)
		client_does(c, i, UROCE_WR_RDMA_WRITE, 8);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ);
	for (i = 1; i < 9; i++) {
		assert_true(c->qp->bind.parked && !c->qp->bind.on_run_list);
		assert_true(engine_next_ns(&c->b->engine) == c->b->now + GAP);
		assert_false(engine_run(&c->b->engine, c->b->now)); /* nothing is ready */
		pkt_after(c, GAP, WIRE_OP_WRITE_ONLY, SQ + i);
	}
	assert_false(c->qp->bind.parked);
	assert_true(engine_next_ns(&c->b->engine) == UINT64_MAX);
	assert_int_equal(c->b->timers_set, had + 1); /* for the first probe */
	assert_false(qp_deadline_is_set(&c->qp->conn, QP_DEADLINE_PACE));
}

BENCH_TEST(pace_of_an_unreliable_connection)
{
	struct conn *c = conn_paced(state, QP_TYPE_UC);

	client_does(c, 1, UROCE_WR_SEND, 2 * MTU);
	pkt_expect(c, WIRE_SVC_UC | WIRE_OP_SEND_FIRST, SQ);
	cqe_none(c);
	pkt_after(c, GAP, WIRE_SVC_UC | WIRE_OP_SEND_LAST, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

REQUIREMENT("RSP-02")
BENCH_TEST(a_parked_qp_answers_at_once)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	client_does(c, 1, UROCE_WR_SEND, 8);
	client_does(c, 2, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, GAP / 2);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	ack_expect(c, RQ);
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_FETCH_ADD,
				      .ackreq = true,
				      .psn = RQ + 1,
				      .va = REMOTE_VA,
				      .rkey = c->remote->mr.key,
				      .swap_add = 1},
		 0, 0);
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + 1);
	assert_true(c->qp->bind.parked);
	pkt_after(c, GAP / 2, WIRE_OP_SEND_ONLY, SQ + 1);
}

REQUIREMENT("CC-06")
BENCH_TEST(pace_spaces_read_responses)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);
	uint32_t had = c->b->timers_set;

	peer_read(c, RQ, REMOTE_VA, 2 * MTU + 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	pkt_none(c);
	assert_true(c->qp->bind.parked && !c->qp->bind.on_run_list);
	assert_true(engine_next_ns(&c->b->engine) == c->b->now + GAP);
	assert_false(engine_run(&c->b->engine, c->b->now)); /* nothing is ready */
	pkt_after(c, GAP, WIRE_OP_READ_RESP_MIDDLE, RQ + 1);
	bench_pass(c->b, GAP - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, WIRE_OP_READ_RESP_LAST, RQ + 2);
	ack_expect(c, RQ + 3); /* behind the READ, and not paced itself */
	assert_int_equal(told.sent, 3);
	assert_in_range(told.sent_bytes, 2 * MTU + 8 + 3 * 54, 2 * MTU + 8 + 3 * 100);
	assert_int_equal(c->b->timers_set, had);
	assert_false(c->qp->bind.parked);
	assert_true(engine_next_ns(&c->b->engine) == UINT64_MAX);
	assert_int_equal(c->qp->conn.snd.deadlines, 0);
}

/* A QP that only responds stays in RTR; it has its policy, too. */
REQUIREMENT("CC-06")
BENCH_TEST(pace_of_a_responder_that_never_sends)
{
	struct conn_cfg cfg = conn_rc, raise = conn_rc;
	struct conn *c;

	memset(&told, 0, sizeof(told));
	cfg.state = QP_RESET;
	raise.state = QP_RTR;
	c = conn_open(*state, cfg);
	c->qp->conn.cc_flow.param.policy = CC_TEST;
	conn_raise(c, &raise);
	assert_int_equal(told.init, 1);
	peer_read(c, RQ, REMOTE_VA, 2 * MTU);
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_LAST, RQ + 1);
}

REQUIREMENT("CC-06")
BENCH_TEST(cnps_slow_read_responses)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	peer_read(c, RQ, REMOTE_VA, 3 * MTU);
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	peer_put(c, CNP_ALL_ZERO, 0, 0);
	assert_int_equal(told.cnp, 1);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_MIDDLE, RQ + 1);
	pkt_after(c, 2 * GAP, WIRE_OP_READ_RESP_LAST, RQ + 2);
}

/* Requests and responses of one QP take turns at its pace. */
REQUIREMENT("CC-06")
BENCH_TEST(read_responses_and_requests_share_the_pace)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);
	uint32_t i;

	peer_read(c, RQ, REMOTE_VA, 4 * MTU);
	client_does(c, 1, UROCE_WR_SEND, 3 * MTU);
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	pkt_none(c);
	for (i = 0; i < 2; i++) {
		pkt_after(c, GAP, i == 0 ? WIRE_OP_SEND_FIRST : WIRE_OP_SEND_MIDDLE, SQ + i);
		pkt_after(c, GAP, WIRE_OP_READ_RESP_MIDDLE, RQ + 1 + i);
	}
	pkt_after(c, GAP, WIRE_OP_SEND_LAST, SQ + 2);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_LAST, RQ + 3);
	bench_pass(c->b, 5 * GAP);
	pkt_none(c);
	assert_false(c->qp->bind.parked);
}

/* What no longer needs its time does not keep it. */
REQUIREMENT("CC-06", "QP-19")
BENCH_TEST(paced_read_responses_end_with_the_qp)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	peer_read(c, RQ, REMOTE_VA, 3 * MTU);
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	assert_true(c->qp->bind.parked);
	conn_to(c, QP_ERR);
	bench_run(c->b);
	bench_pass(c->b, 5 * GAP);
	pkt_none(c);
	assert_false(c->qp->bind.parked);
	assert_int_equal(c->qp->conn.snd.deadlines, 0);
}

/* A lost response is sent again at the pace, and the new READ replaces the rest of the old one. */
REQUIREMENT("CC-06", "RSP-01")
BENCH_TEST(pace_of_a_repeated_read)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	peer_read(c, RQ, REMOTE_VA, 3 * MTU);
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	peer_read(c, RQ, REMOTE_VA, 3 * MTU);
	bench_run(c->b);
	pkt_none(c);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_FIRST, RQ);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_MIDDLE, RQ + 1);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_LAST, RQ + 2);
	bench_pass(c->b, 5 * GAP);
	pkt_none(c);
}

/*
 * Late copies of requests for parts of a READ are answered, too. Once the last response has left,
 * the requester may start another READ, so nothing that is left of the first may use its resource.
 */
REQUIREMENT("CC-06", "RSP-01", "RSP-03")
BENCH_TEST(repeated_reads_use_no_resource_once_the_last_response_is_sent)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	c->qp->conn.attr.max_dest_rd_atomic = 1;
	peer_read(c, RQ, REMOTE_VA, 3 * MTU);
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	peer_read(c, RQ + 1, REMOTE_VA + MTU, 2 * MTU);
	peer_read(c, RQ, REMOTE_VA, 3 * MTU);
	bench_run(c->b);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_FIRST, RQ);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_MIDDLE, RQ + 1);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_LAST, RQ + 2);
	peer_read(c, RQ + 3, REMOTE_VA, MTU);
	bench_run(c->b);
	pkt_after(c, GAP, WIRE_OP_READ_RESP_ONLY, RQ + 3);
	bench_pass(c->b, 5 * GAP);
	pkt_none(c);
}

/* Some beyond the wheel, some in one slot, in the order of their times. */
BENCH_TEST(pace_of_many_qps)
{
	static const uint64_t gaps[] = {5 * MS, 300, 700, 40 * US, 3 * MS, 1023 * US, 1 * MS, 100};
	struct conn *c[RTE_DIM(gaps)];
	uint32_t i, n, left = 2 * RTE_DIM(gaps);
	uint32_t sent[RTE_DIM(gaps)];
	uint64_t at[RTE_DIM(gaps)], end;
	struct bench *b;

	for (i = 0; i < RTE_DIM(gaps); i++) {
		gap_ns = gaps[i];
		c[i] = conn_paced(state, QP_TYPE_RC);
	}
	gap_ns = GAP;
	b = c[0]->b;
	end = b->now + 60 * MS;
	for (i = 0; i < RTE_DIM(gaps); i++) {
		for (n = 0; n < 3; n++)
			client_does(c[i], n, UROCE_WR_RDMA_WRITE, 8);
		assert_int_equal(pkt_count(c[i]), 1);
		at[i] = b->now + gaps[i];
		sent[i] = 1;
	}
	while (left != 0 && b->now < end) {
		uint64_t next = engine_next_ns(&b->engine), first = UINT64_MAX;

		for (i = 0; i < RTE_DIM(gaps); i++)
			first = at[i] < first ? at[i] : first;
		assert_true(next <= first);
		assert_true(next > b->now);
		b->now = next;
		bench_run(b);
		for (i = 0; i < RTE_DIM(gaps); i++) {
			if (at[i] > b->now)
				continue;
			sent[i]++;
			left--;
			at[i] = sent[i] == 3 ? UINT64_MAX : b->now + gaps[i];
		}
		for (i = 0; i < RTE_DIM(gaps); i++)
			assert_int_equal(c[i]->qp->conn.snd.high_psn, SQ + sent[i]);
	}
	assert_int_equal(left, 0);
	assert_true(engine_next_ns(&b->engine) == UINT64_MAX);
}

REQUIREMENT("QP-19")
BENCH_TEST(a_parked_qp_flushes_at_once)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	client_does(c, 1, UROCE_WR_SEND, 8);
	client_does(c, 2, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	conn_to(c, QP_ERR);
	bench_run(c->b);
	send_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	assert_false(c->qp->bind.parked);
	assert_true(engine_next_ns(&c->b->engine) == UINT64_MAX);
	assert_int_equal(c->qp->conn.snd.deadlines, 0);
}

BENCH_TEST(pace_forgotten_qps_leave_their_slot)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	client_does(c, 1, UROCE_WR_SEND, 8);
	client_does(c, 2, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_true(c->qp->bind.parked);
	engine_forget(&c->b->engine, c->qp);
	engine_forget(&c->b->engine, c->qp);
	assert_true(engine_next_ns(&c->b->engine) == UINT64_MAX);
	bench_pass(c->b, 20 * GAP);
	pkt_none(c);
}

/* A worker that sleeps until then must not wake before it can do anything for the QP. */
BENCH_TEST(a_parked_qp_that_was_reset_wakes_once)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);
	uint64_t next_ns;

	client_does(c, 1, UROCE_WR_SEND, 8);
	client_does(c, 2, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	conn_to(c, QP_RESET);
	assert_true(c->qp->bind.parked);
	next_ns = engine_next_ns(&c->b->engine);
	assert_in_range(next_ns, c->b->now + 1, c->b->now + 2 * GAP);
	engine_run(&c->b->engine, next_ns);
	assert_false(c->qp->bind.parked);
	assert_true(engine_next_ns(&c->b->engine) == UINT64_MAX);
}

/* An RNR wait is longer than the pace, and the pace still holds after it. */
REQUIREMENT("REQ-06")
BENCH_TEST(rnr_wait_of_a_parked_qp)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	client_does(c, 1, UROCE_WR_SEND, 8);
	client_does(c, 2, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_true(c->qp->bind.parked);
	peer_nak(c, SQ, WIRE_SYN_RNR | 5); /* 60 us */
	bench_pass(c->b, 60 * US - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	pkt_after(c, GAP, WIRE_OP_SEND_ONLY, SQ + 1);
}

BENCH_TEST(cc_policy_is_told_of_cnps)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	client_does(c, 1, UROCE_WR_SEND, 3 * MTU);
	pkt_expect(c, WIRE_OP_SEND_FIRST, SQ);
	peer_put(c, CNP_ALL_ZERO, 0, 0);
	assert_int_equal(told.cnp, 1);
	assert_int_equal(OBS(c, RP_CNP_HANDLED), 1);
	assert_int_equal(OBS(c, RX_ROCE), 1);
	assert_int_equal(DROPS(c, CNP), 0);
	/* It slows what follows, not the packet that has its time already. */
	pkt_after(c, GAP, WIRE_OP_SEND_MIDDLE, SQ + 1);
	pkt_after(c, 2 * GAP, WIRE_OP_SEND_LAST, SQ + 2);
}

BENCH_TEST(cc_policy_is_told_of_marks)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);
	struct wire_fields ack = {.opcode = WIRE_OP_ACK, .syndrome = ACK_SYN, .psn = SQ};

	client_does(c, 1, UROCE_WR_SEND, 2 * MTU);
	bench_pass(c->b, GAP);
	assert_int_equal(pkt_count(c), 2);
	ack.becn = true;
	peer_put(c, ack, 0, 0);
	assert_int_equal(told.ack, 1);
	assert_true(told.ce);
	ack.psn = SQ + 1;
	ack.becn = false;
	peer_put(c, ack, 0, 0);
	assert_int_equal(told.ack, 2);
	assert_false(told.ce);
	assert_int_equal(told.acked_bytes, 2 * MTU);
}

REQUIREMENT("REQ-04", "REQ-05")
BENCH_TEST(cc_policy_is_told_of_losses)
{
	struct conn *c = conn_paced(state, QP_TYPE_RC);

	conn_met(c, true);
	client_does(c, 1, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, GAP);
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	bench_run(c->b);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(told.loss, 1);
	bench_pass(c->b, 70 * MS); /* the ACK timeout is 67 ms */
	assert_int_equal(told.timeout, 1);
	assert_true(told.probe > 1);
	assert_int_equal(told.sent, pkt_count(c) + 2);
}
