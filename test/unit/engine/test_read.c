/* SPDX-License-Identifier: BSD-3-Clause */
/* READ at the requester: data that arrives, is missing, or arrives twice (REQ-07, REQ-08). */
#include <string.h>
#include <uroce/errors.h>
#include "qp/recorder.h"
#include "harness.h"

#define SQ  0x001000u
#define MTU 1024u

/* A READ of len bytes into the local region, which is cleared first. */
static struct conn *
reading(void **state, uint32_t len)
{
	struct conn *c = conn_open(*state, conn_rc);

	memset(c->local->bytes, 0, BENCH_BYTES);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = len});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	return c;
}

static uint8_t
resp_op(uint32_t k, uint32_t n)
{
	if (k == 0)
		return n == 1 ? WIRE_OP_READ_RESP_ONLY : WIRE_OP_READ_RESP_FIRST;
	return k + 1 == n ? WIRE_OP_READ_RESP_LAST : WIRE_OP_READ_RESP_MIDDLE;
}

/* Response k of n of a READ of len bytes that began at offset base and PSN SQ + base / MTU. */
static void
respond(struct conn *c, uint32_t base, uint32_t k, uint32_t len)
{
	uint32_t n = len == 0 ? 1 : (len + MTU - 1) / MTU, off = k * MTU;

	peer_read_resp(c, resp_op(k, n), SQ + base / MTU + k, base + off,
		       k + 1 < n ? MTU : len - off);
}

/* Expects the request for the bytes from off on. */
static void
expect_request(struct conn *c, uint32_t off, uint32_t len)
{
	struct wire_pkt p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + off / MTU);

	assert_true(p.va == PEER_VA + off);
	assert_int_equal(p.rkey, PEER_RKEY);
	assert_int_equal(p.dmalen, len - off);
}

static void
expect_done(struct conn *c, uint32_t len)
{
	struct uroce_cqe cqe = send_cqe(c, 1, QP_WC_SUCCESS);

	assert_int_equal(cqe.opcode, UROCE_CQE_RDMA_READ);
	assert_int_equal(cqe.byte_len, len);
	assert_memory_equal(c->local->bytes, bench_bytes, len);
	assert_int_equal(c->local->bytes[len], 0);
}

REQUIREMENT("REQ-08")
BENCH_TEST(read_data_lands_at_its_addresses)
{
	static const uint32_t lens[] = {0, 1, 3, MTU - 1, MTU, MTU + 1, 2 * MTU, 5 * MTU + 5};
	uint32_t i, k;

	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct conn *c = reading(state, lens[i]);

		for (k = 0; k == 0 || k * MTU < lens[i]; k++) {
			cqe_none(c);
			respond(c, 0, k, lens[i]);
		}
		expect_done(c, lens[i]);
		pkt_none(c);
		assert_int_equal(conn_to(c, QP_RESET), 0);
		c->b->qps.slot[BENCH_QPN & c->b->qps.mask] = NULL;
	}
}

REQUIREMENT("REQ-08")
BENCH_TEST(read_scatters_over_sges)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t key = c->local->mr.key;
	struct uroce_sge sge[] = {{LOCAL_VA + 100, 1000, key},
				  {LOCAL_VA, 0, 0},
				  {LOCAL_VA + 50000, 48, key},
				  {LOCAL_VA + BENCH_BYTES - 1, 1, key}};

	memset(c->local->bytes, 0, BENCH_BYTES);
	post(c,
	     (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .sge = sge, .nsge = 4});
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 1, MTU, 25);
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes + 100, bench_bytes, 1000);
	assert_int_equal(c->local->bytes[1100], 0);
	assert_memory_equal(c->local->bytes + 50000, bench_bytes + 1000, 48);
	assert_int_equal(c->local->bytes[50048], 0);
	assert_int_equal(c->local->bytes[BENCH_BYTES - 1], bench_bytes[1048]);
}

/* An SGE ends within a later response: bytes past its end are not written. */
REQUIREMENT("REQ-08")
BENCH_TEST(read_writes_no_byte_past_an_sge)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t key = c->local->mr.key, k;
	struct uroce_sge sge[] = {{LOCAL_VA, 1500, key}, {LOCAL_VA + 50000, 1500, key}};

	memset(c->local->bytes, 0, BENCH_BYTES);
	post(c,
	     (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .sge = sge, .nsge = 2});
	for (k = 0; k < 3; k++)
		respond(c, 0, k, 3000);
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes, bench_bytes, 1500);
	assert_memory_equal(c->local->bytes + 50000, bench_bytes + 1500, 1500);
	for (k = 1500; k < 50000; k++)
		assert_int_equal(c->local->bytes[k], 0);
}

/* Each response in turn is the one that is lost. */
REQUIREMENT("REQ-08")
BENCH_TEST(read_resumes_at_the_missing_response)
{
	const uint32_t len = 4 * MTU + 7;
	uint32_t lost, k;

	for (lost = 0; lost < 4; lost++) {
		struct conn *c = reading(state, len);

		for (k = 0; k < 5; k++) {
			if (k != lost)
				respond(c, 0, k, len);
		}
		expect_request(c, lost * MTU, len);
		pkt_none(c); /* once, however many arrived after the gap */
		cqe_none(c);
		assert_int_equal(OBS(c, REQ_READ_GAP), lost + 1);
		/* Data after the gap was not written. */
		for (k = lost * MTU; k < len; k++)
			assert_int_equal(c->local->bytes[k], 0);
		for (k = 0; k < 5 - lost; k++)
			respond(c, lost * MTU, k, len - lost * MTU);
		expect_done(c, len);
		pkt_none(c);
		c->b->qps.slot[BENCH_QPN & c->b->qps.mask] = NULL;
	}
}

/* The last response is lost: only the timer detects it. */
REQUIREMENT("REQ-08")
BENCH_TEST(lost_last_response_is_requested_again)
{
	const uint32_t len = 3 * MTU;
	struct conn *c = reading(state, len);

	respond(c, 0, 0, len);
	respond(c, 0, 1, len);
	pkt_none(c);
	bench_pass(c->b, 4096ull << 14);
	expect_request(c, 2 * MTU, len);
	respond(c, 2 * MTU, 0, MTU);
	expect_done(c, len);
}

/* A response to a later request reveals the gap like one within the READ. */
REQUIREMENT("REQ-08")
BENCH_TEST(ack_of_a_later_request_reveals_missing_responses)
{
	struct conn *c = reading(state, 2 * MTU);

	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	respond(c, 0, 0, 2 * MTU);
	peer_ack(c, SQ + 2);
	cqe_none(c); /* the SEND must not complete before the READ */
	expect_request(c, MTU, 2 * MTU);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	respond(c, MTU, 0, MTU);
	expect_done(c, 2 * MTU);
	peer_ack(c, SQ + 2);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

REQUIREMENT("REQ-08")
BENCH_TEST(duplicate_responses_write_nothing)
{
	const uint32_t len = 3 * MTU;
	struct conn *c = reading(state, len);

	respond(c, 0, 0, len);
	respond(c, 0, 1, len);
	/* The same PSNs with other data. */
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 9000, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 1, 9000, MTU);
	assert_int_equal(DROPS(c, STALE_RESP), 2);
	respond(c, 0, 2, len);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 2, 9000, MTU);
	expect_done(c, len);
	cqe_none(c);
	pkt_none(c);
}

/*
 * The rest of a READ is requested in parts that end every QP_READ_AGAIN_PKTS packets of it, one at
 * a time while the window is small; each part's last response may say that it is the last.
 */
REQUIREMENT("REQ-08")
BENCH_TEST(the_rest_of_a_long_read_is_requested_in_parts)
{
	struct conn_cfg cfg = conn_rc;
	const uint32_t len = 1u << 31, half = QP_READ_CHUNK_PKTS * 256;
	struct uroce_sge sge = {.addr = LOCAL_VA * 2ull, .length = len};
	struct wire_pkt p;
	struct conn *c;
	uint32_t k;

	cfg.mtu_code = 1;
	c = conn_open(*state, cfg);
	sge.lkey = region_add(c->b, cfg.pd, sge.addr, len, MEM_LOCAL_WRITE)->mr.key;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .len = len, .sge = &sge, .nsge = 1});
	p = pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	assert_int_equal(p.dmalen, half);
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, 256);
	bench_pass(c->b, 4096ull << 14);
	p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	assert_true(p.va == PEER_VA + 256);
	assert_int_equal(p.dmalen, (QP_READ_AGAIN_PKTS - 1) * 256);
	pkt_none(c);
	for (k = 1; k < QP_READ_AGAIN_PKTS - 1; k++)
		peer_read_resp(c, k == 1 ? WIRE_OP_READ_RESP_FIRST : WIRE_OP_READ_RESP_MIDDLE,
			       SQ + k, k * 256, 256);
	p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + QP_READ_AGAIN_PKTS);
	assert_true(p.va == PEER_VA + QP_READ_AGAIN_PKTS * 256);
	assert_int_equal(p.dmalen, QP_READ_AGAIN_PKTS * 256);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + k, k * 256, 256);
	assert_int_equal(c->qp->conn.state, QP_RTS);
	pkt_none(c);
}

/*
 * Once a response was lost no READ is begun with QP_READ_WINDOW_PKTS responses outstanding, which
 * would fill the queues on their path. Before that only max_rd_atomic limits READs. A READ whose
 * first response is lost is requested again as a whole: the peer may not know it.
 */
REQUIREMENT("REQ-02", "REQ-08")
BENCH_TEST(after_a_loss_reads_wait_for_responses_before_them)
{
	const uint32_t n = QP_READ_WINDOW_PKTS + 2, len = n * MTU;
	struct conn *c = reading(state, len);
	struct wire_pkt p;
	uint32_t k;

	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 2 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + n);
	for (k = 0; k < n; k++)
		respond(c, 0, k, len);
	expect_done(c, len);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + n + 1, MTU, MTU);
	p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + n);
	assert_int_equal(p.dmalen, 2 * MTU);
	post(c, (struct wr){.id = 3, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = len});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + n + 2);
	post(c, (struct wr){.id = 4, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + n, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + n + 1, MTU, MTU);
	send_cqe(c, 2, QP_WC_SUCCESS);
	pkt_none(c);
	for (k = 0; k < 2; k++)
		respond(c, (n + 2) * MTU, k, len);
	pkt_none(c);
	respond(c, (n + 2) * MTU, 2, len);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 2 * n + 2);
}

/* Two responses are swapped: the late one is accepted, the early one is requested again. */
REQUIREMENT("REQ-08")
BENCH_TEST(read_completes_after_reordered_responses)
{
	const uint32_t len = 3 * MTU;
	struct conn *c = reading(state, len);

	respond(c, 0, 1, len);
	respond(c, 0, 0, len);
	respond(c, 0, 2, len);
	cqe_none(c);
	pkt_count(c);
	respond(c, MTU, 0, len - MTU);
	respond(c, MTU, 1, len - MTU);
	expect_done(c, len);
	cqe_none(c);
}

/* Two outstanding READs, and the first one's responses are all lost. */
REQUIREMENT("REQ-08")
BENCH_TEST(lost_responses_of_two_reads_are_requested_again)
{
	struct conn *c = reading(state, MTU);

	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 2 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + 1, 0, MTU);
	expect_request(c, 0, MTU);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	pkt_none(c);
	cqe_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, MTU);
	expect_done(c, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + 1, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 2, MTU, MTU);
	assert_int_equal(send_cqe(c, 2, QP_WC_SUCCESS).byte_len, 2 * MTU);
}

/* One response per timeout is progress, however long the READ takes. */
REQUIREMENT("REQ-08")
BENCH_TEST(slow_responses_count_as_progress)
{
	const uint32_t len = 30 * MTU;
	struct conn *c = reading(state, len);
	uint32_t k;

	for (k = 0; k < 29; k++) {
		bench_pass(c->b, (4096ull << 14) * 3);
		pkt_count(c);
		respond(c, 0, k, len);
	}
	cqe_none(c);
	respond(c, 0, 29, len);
	expect_done(c, len);
}

/* Memory is deregistered while the responses arrive. The report says which bytes were refused. */
REQUIREMENT("REQ-08", "CQE-16")
BENCH_TEST(read_writes_no_byte_into_deregistered_memory)
{
	struct conn *c = reading(state, 2 * MTU);
	const struct qp_fault *f = &c->qp->bind.recorder->fault;

	respond(c, 0, 0, 2 * MTU);
	region_drop(c->b, c->local);
	respond(c, 0, 1, 2 * MTU);
	send_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	assert_memory_equal(c->local->bytes, bench_bytes, MTU);
	assert_int_equal(c->local->bytes[MTU], 0);
	state_expect(c, QP_ERR);
	assert_int_equal(f->reason, UROCE_ERROR_LKEY_UNKNOWN);
	assert_true(f->addr == LOCAL_VA + MTU);
	assert_int_equal(f->length, MTU);
}

/* NAK-03 from the requester's side: the NAK replaces the response. */
REQUIREMENT("REQ-08")
BENCH_TEST(nak_instead_of_a_later_response_ends_the_read)
{
	struct conn *c = reading(state, 3 * MTU);

	respond(c, 0, 0, 3 * MTU);
	peer_nak(c, SQ + 1, NAK_SYN(REM_ACCESS));
	send_cqe(c, 1, QP_WC_REM_ACCESS_ERR);
}
