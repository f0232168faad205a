/* SPDX-License-Identifier: BSD-3-Clause */
/* A congestion policy allows two responses to a READ request: READs are requested in parts. */
#include "harness.h"
#include "probe.h"

#define SQ  0x001000u
#define MTU 1024u
#define LEN (5 * MTU)

static uint32_t parts = 2;

static void
parts_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc->most_pkts = cc->window_pkts = CC_WINDOW_PKTS;
}

static uint32_t
parts_read_pkts(const struct cc_flow *flow)
{
	return parts;
}

const struct cc_ops cc_test = {
	.name = "parts",
	.init = parts_init,
	.read_pkts = parts_read_pkts,
};

/* A QP of this policy has posted a READ of five packets. */
static struct conn *
reading_parts(void **state, uint8_t rd_atomic)
{
	struct conn_cfg cfg = conn_rc, raise = conn_rc;
	struct conn *c;

	parts = 2;
	cfg.state = QP_RESET;
	raise.max_rd_atomic = rd_atomic;
	c = conn_open(*state, cfg);
	c->b->engine.env.plain = 0;
	c->qp->conn.cc_flow.param.policy = CC_TEST;
	conn_raise(c, &raise);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = LEN});
	return c;
}

/* The next packet requests n responses from packet k on, and nothing follows it. */
static void
asks(struct conn *c, uint32_t k, uint32_t n)
{
	struct wire_pkt p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + k);

	assert_true(p.va == PEER_VA + k * MTU);
	assert_int_equal(p.dmalen, n * MTU);
	pkt_none(c);
}

static void
responds(struct conn *c, uint8_t op, uint32_t k)
{
	peer_read_resp(c, op, SQ + k, k * MTU, MTU);
}

/* The second READ waits for the last part of the first, although two may be outstanding. */
REQUIREMENT("CC-06", "REQ-02")
BENCH_TEST(a_part_is_requested_when_the_one_before_has_arrived)
{
	struct conn *c = reading_parts(state, 2);

	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	asks(c, 0, 2);
	responds(c, WIRE_OP_READ_RESP_FIRST, 0);
	pkt_none(c);
	responds(c, WIRE_OP_READ_RESP_LAST, 1);
	asks(c, 2, 2);
	responds(c, WIRE_OP_READ_RESP_FIRST, 2);
	responds(c, WIRE_OP_READ_RESP_LAST, 3);
	assert_int_equal(pkt_expect(c, WIRE_OP_READ_REQ, SQ + 4).dmalen, MTU);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 5);
	pkt_none(c);
	responds(c, WIRE_OP_READ_RESP_ONLY, 4);
	send_cqe(c, 1, QP_WC_SUCCESS);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 5, 0, MTU);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

/* A READ whose policy stops to limit it is finished by one request. */
REQUIREMENT("CC-06")
BENCH_TEST(the_rest_is_requested_at_once_without_a_limit)
{
	struct conn *c = reading_parts(state, 1);

	asks(c, 0, 2);
	parts = UINT32_MAX;
	responds(c, WIRE_OP_READ_RESP_FIRST, 0);
	responds(c, WIRE_OP_READ_RESP_LAST, 1);
	asks(c, 2, 3);
	responds(c, WIRE_OP_READ_RESP_FIRST, 2);
	responds(c, WIRE_OP_READ_RESP_MIDDLE, 3);
	responds(c, WIRE_OP_READ_RESP_LAST, 4);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/*
 * A lost request for a part is new to the peer: the probe repeats it as it was, because a request
 * that reaches beyond one that the peer has executed gets no response (RSP-01). So does the request
 * after a sequence NAK.
 */
REQUIREMENT("REQ-05", "REQ-08")
BENCH_TEST(a_lost_part_is_requested_whole)
{
	struct conn *c = reading_parts(state, 1);

	asks(c, 0, 2);
	responds(c, WIRE_OP_READ_RESP_FIRST, 0);
	responds(c, WIRE_OP_READ_RESP_LAST, 1);
	asks(c, 2, 2);
	parts = 1;
	bench_pass(c->b, QP_PROBE_MIN_NS);
	asks(c, 2, 2);
	peer_nak(c, SQ + 2, NAK_SYN(PSN_SEQ));
	asks(c, 2, 2);
	responds(c, WIRE_OP_READ_RESP_FIRST, 2);
	pkt_none(c);
	responds(c, WIRE_OP_READ_RESP_LAST, 3);
	asks(c, 4, 1);
}

/* A lost response is requested again to the end of its part, not beyond it. */
REQUIREMENT("REQ-08")
BENCH_TEST(a_lost_response_is_requested_within_its_part)
{
	struct conn *c = reading_parts(state, 1);

	asks(c, 0, 2);
	parts = 3;
	responds(c, WIRE_OP_READ_RESP_LAST, 1);
	asks(c, 0, 2);
	responds(c, WIRE_OP_READ_RESP_FIRST, 0);
	responds(c, WIRE_OP_READ_RESP_LAST, 1);
	asks(c, 2, 3);
	responds(c, WIRE_OP_READ_RESP_FIRST, 2);
	bench_pass(c->b, QP_PROBE_MIN_NS);
	asks(c, 3, 1); /* the probe */
	responds(c, WIRE_OP_READ_RESP_ONLY, 3);
	asks(c, 4, 1);
	responds(c, WIRE_OP_READ_RESP_ONLY, 4);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* A response may end with its part only. */
REQUIREMENT("REQ-09")
BENCH_TEST(a_response_that_ends_within_a_part_is_refused)
{
	struct conn *c = reading_parts(state, 1);

	asks(c, 0, 2);
	responds(c, WIRE_OP_READ_RESP_ONLY, 0);
	send_cqe(c, 1, QP_WC_BAD_RESP_ERR);
	state_expect(c, QP_ERR);
}

/*
 * The limit holds for parts of a READ and for READs together, but for those of one packet. Then it
 * ends.
 */
REQUIREMENT("REQ-08")
BENCH_TEST(responses_outstanding_fit_a_socket_that_was_full)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.max_rd_atomic = 4;
	c = conn_open(*state, cfg);
	c->b->engine.env.read_limit_ns = UINT64_MAX;
	c->b->engine.env.read_bytes = 3 * MTU - 1;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 3 * MTU});
	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 2 * MTU});
	post(c, (struct wr){.id = 3, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	asks(c, 0, 2);
	responds(c, WIRE_OP_READ_RESP_FIRST, 0);
	pkt_none(c);
	responds(c, WIRE_OP_READ_RESP_LAST, 1);
	asks(c, 2, 1);
	responds(c, WIRE_OP_READ_RESP_ONLY, 2);
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(pkt_expect(c, WIRE_OP_READ_REQ, SQ + 3).dmalen, 2 * MTU);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 5);
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + 3, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 4, MTU, MTU);
	send_cqe(c, 2, QP_WC_SUCCESS);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 5, 0, MTU);
	send_cqe(c, 3, QP_WC_SUCCESS);
	c->b->engine.env.read_limit_ns = c->b->engine.env.now_ns;
	post(c, (struct wr){.id = 4, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = LEN});
	assert_int_equal(pkt_expect(c, WIRE_OP_READ_REQ, SQ + 6).dmalen, LEN);
}

/* A buffer of less than a packet still lets one response come at a time. */
REQUIREMENT("REQ-08")
BENCH_TEST(a_tiny_socket_lets_one_response_come)
{
	struct conn *c = conn_open(*state, conn_rc);

	c->b->engine.env.read_limit_ns = UINT64_MAX;
	c->b->engine.env.read_bytes = 1;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 2 * MTU});
	asks(c, 0, 1);
	responds(c, WIRE_OP_READ_RESP_ONLY, 0);
	asks(c, 1, 1);
	responds(c, WIRE_OP_READ_RESP_ONLY, 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
}
