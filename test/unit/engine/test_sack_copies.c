/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to many requests are sent twice while packets are lost (doc/selective-repeat.md). */
#include "harness.h"
#include "probe.h"
#include "wire/sack.h"

#define SQ   0x001000u
#define RQ   0x555000u
#define MANY 8u  /* requests of an answer that is sent twice */
#define ACKS 64u /* such answers after the last loss */

/* The peer's WRITEs of one burst, psn to psn + n - 1. */
static void
peer_writes(struct conn *c, uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, psn + i, REMOTE_VA, 8, 0, 8);
}

static struct wire_sack
sack_expect(struct conn *c, uint32_t psn, uint8_t flags)
{
	struct wire_pkt p = pkt_expect(c, WIRE_OPCODE_SACK, psn);
	struct wire_sack s = {0};

	assert_true(wire_sack_get(&p, &s));
	assert_int_equal(s.flags, flags);
	return s;
}

/* A SACK of many requests is followed by its copy, and so is the one that closes the gap. */
REQUIREMENT("SR-05")
BENCH_TEST(sack_of_many_requests_is_sent_twice)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	struct wire_sack one, two;

	peer_writes(c, RQ + 1, MANY);
	one = sack_expect(c, RQ, 0);
	two = sack_expect(c, RQ, WIRE_SACK_COPY);
	assert_memory_equal(one.held, two.held, sizeof(one.held));
	pkt_none(c);
	/* Requests that a SACK has reported do not count again. */
	peer_writes(c, RQ + 1 + MANY, MANY - 1);
	sack_expect(c, RQ, 0);
	pkt_none(c);
	peer_writes(c, RQ, 1);
	sack_expect(c, RQ + 2 * MANY, 0);
	sack_expect(c, RQ + 2 * MANY, WIRE_SACK_COPY);
	pkt_none(c);
}

/* The copy tells of a duplicate as the SACK does: either may be lost. */
REQUIREMENT("SR-05")
BENCH_TEST(copy_tells_of_a_duplicate)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	peer_writes(c, RQ + 1, MANY);
	peer_writes(c, RQ + 1, 1);
	sack_expect(c, RQ, WIRE_SACK_DUPLICATE);
	sack_expect(c, RQ, WIRE_SACK_DUPLICATE | WIRE_SACK_COPY);
	peer_writes(c, RQ + 1 + MANY, 1);
	sack_expect(c, RQ, 0);
	pkt_none(c);
}

/* After a loss, ACKs of many requests have copies; without one none has. */
REQUIREMENT("SR-05")
BENCH_TEST(acks_are_sent_twice_for_a_while)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t psn = RQ, i;

	peer_writes(c, psn, MANY);
	psn += MANY;
	answer_expect(c, psn - 1, ACK_SYN);
	pkt_none(c);
	peer_writes(c, psn + 1, 1);
	sack_expect(c, psn, 0);
	peer_writes(c, psn, 1);
	psn += 2;
	sack_expect(c, psn, 0);
	pkt_none(c);
	for (i = 0; i < ACKS; i++, psn += MANY) {
		peer_writes(c, psn, MANY);
		pkt_expect(c, WIRE_OP_ACK, psn + MANY - 1);
		sack_expect(c, psn + MANY, WIRE_SACK_COPY);
		pkt_none(c);
	}
	peer_writes(c, psn, MANY);
	answer_expect(c, psn + MANY - 1, ACK_SYN);
	pkt_none(c);
}

/* The peer's copy of its answer to all before psn. */
static void
peer_copy(struct conn *c, uint32_t psn)
{
	static const struct wire_sack copy = {.version = WIRE_SACK_VERSION,
					      .flags = WIRE_SACK_COPY};

	peer_sack(c, psn, 0, copy);
}

/* If the answer was lost, its copy does the same; else it does nothing. */
REQUIREMENT("SR-05")
BENCH_TEST(copy_replaces_the_answer)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	struct qp_conn was;

	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	peer_copy(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	cqe_none(c);
	was = c->qp->conn;
	peer_copy(c, SQ + 1);
	was.rx_bytes = c->qp->conn.rx_bytes;
	assert_memory_equal(&c->qp->conn, &was, sizeof(was));
	pkt_none(c);
	cqe_none(c);
}

/* The copy of an ACK that came before the probe's does not show that the probe was in vain. */
REQUIREMENT("REQ-04", "SR-05")
BENCH_TEST(copy_is_no_second_response)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t was;

	c->b->engine.env.plain = 0;
	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, 10000);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	was = c->qp->conn.loss.srtt_ns;
	assert_true(was != 0);
	client_sends(c, 2, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	bench_pass(c->b, c->qp->conn.snd.wait_ns);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	bench_pass(c->b, 10000);
	peer_ack(c, SQ + 1);
	send_cqe(c, 2, QP_WC_SUCCESS);
	peer_copy(c, SQ + 1); /* of the ACK of the first message, delayed */
	assert_int_equal(OBS(c, REQ_PROBE_VAIN), 0);
	assert_int_equal(c->qp->conn.loss.srtt_ns, was);
}
