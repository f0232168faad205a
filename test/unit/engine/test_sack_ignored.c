/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that agreed to selective repeat and ignores SACKs (doc/selective-repeat.md). */
#include "harness.h"
#include "probe.h"
#include "wire/sack.h"

#define RQ 0x555000u

/*
 * The peer retransmits n requests behind a gap although SACKs have reported them. Returns the next
 * PSN.
 */
static uint32_t
gap_without_sacks(struct conn *c, uint32_t psn, uint32_t n)
{
	uint32_t i;

	for (i = 0; i <= n; i++)
		recv_post(c, i, 0, 64);
	for (i = 1; i <= n; i++)
		peer_send(c, WIRE_OP_SEND_ONLY, psn + i, 0, 8);
	for (i = 0; i <= n; i++)
		peer_send(c, WIRE_OP_SEND_ONLY, psn + i, 0, 8);
	pkt_count(c);
	for (i = 0; i <= n; i++)
		recv_cqe(c, i, QP_WC_SUCCESS);
	return psn + n + 1;
}

static void
falls_back(struct conn *c, uint32_t psn)
{
	assert_int_equal(OBS(c, RSP_SR_FALLBACK), 1);
	assert_int_equal(c->qp->conn.sr.state, QP_SR_CAN);
	peer_send(c, WIRE_OP_SEND_ONLY, psn + 1, 0, 8);
	answer_expect(c, psn, NAK_SYN(PSN_SEQ));
	/* ACKs have no copies any more. */
	for (uint32_t i = 0; i < 12; i++) {
		recv_post(c, i, 0, 64);
		peer_send(c, WIRE_OP_SEND_ONLY, psn + i, 0, 8);
	}
	answer_expect(c, psn + 11, ACK_SYN);
}

/* A peer that retransmits requests reported as held, four times in a row, gets NAKs. */
REQUIREMENT("SR-01")
BENCH_TEST(peer_that_ignores_sacks_gets_naks)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t pass, psn = RQ;

	for (pass = 0; pass < 4; pass++) {
		assert_int_equal(OBS(c, RSP_SR_FALLBACK), 0);
		psn = gap_without_sacks(c, psn, 4);
	}
	falls_back(c, psn);
}

/* The same for one that sends only a few packets ahead. */
REQUIREMENT("SR-01")
BENCH_TEST(peer_with_a_short_window_that_ignores_sacks_gets_naks)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t pass, psn = RQ;

	for (pass = 0; pass < 16; pass++) {
		assert_int_equal(OBS(c, RSP_SR_FALLBACK), 0);
		psn = gap_without_sacks(c, psn, 1 + pass % 3);
	}
	falls_back(c, psn);
}

/* One gap that is repaired alone shows that the peer uses SACKs. */
REQUIREMENT("SR-01")
BENCH_TEST(peer_that_uses_a_sack_keeps_selective_repeat)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t pass, i, psn = RQ;

	for (pass = 0; pass < 40; pass++) {
		psn = gap_without_sacks(c, psn, 1 + pass % 2);
		if (pass % 15 != 14)
			continue;
		for (i = 0; i < 2; i++)
			recv_post(c, i, 0, 64);
		peer_send(c, WIRE_OP_SEND_ONLY, psn + 1, 0, 8);
		peer_send(c, WIRE_OP_SEND_ONLY, psn, 0, 8);
		for (i = 0; i < 2; i++)
			recv_cqe(c, i, QP_WC_SUCCESS);
		psn += 2;
	}
	assert_int_equal(OBS(c, RSP_SR_FALLBACK), 0);
}

/*
 * Gaps that the peer repairs alone, and between them lost ACKs, after which it retransmits the
 * request that came last: it ignores nothing.
 */
REQUIREMENT("SR-01")
BENCH_TEST(other_duplicates_do_not_count)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t pass, i, psn = RQ;

	for (pass = 0; pass < 40; pass++, psn += 3) {
		for (i = 0; i < 3; i++)
			recv_post(c, i, 0, 64);
		peer_send(c, WIRE_OP_SEND_ONLY, psn + 1, 0, 8);
		peer_send(c, WIRE_OP_SEND_ONLY, psn, 0, 8);
		peer_send(c, WIRE_OP_SEND_ONLY, psn + 2, 0, 8);
		peer_send(c, WIRE_OP_SEND_ONLY, psn + 2, 0, 8);
		pkt_count(c);
		for (i = 0; i < 3; i++)
			recv_cqe(c, i, QP_WC_SUCCESS);
	}
	assert_int_equal(OBS(c, RSP_SR_FALLBACK), 0);
}

/* Expects a SACK that tells of duplicates, and returns their number. */
static uint32_t
sack_dups(struct conn *c, uint32_t psn)
{
	struct wire_pkt p = pkt_expect(c, WIRE_OPCODE_SACK, psn);
	struct wire_sack s = {0};

	assert_true(wire_sack_get(&p, &s));
	assert_int_equal(s.flags, WIRE_SACK_DUPLICATE);
	return rte_be_to_cpu_16(s.dups);
}

/* The network loses every SACK: requests that come again and again are acknowledged by ACKs. */
REQUIREMENT("SR-01", "RSP-01")
BENCH_TEST(duplicate_that_comes_again_gets_an_ack)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t i;

	for (i = 0; i < 3; i++)
		recv_post(c, i, 0, 64);
	for (i = 0; i < 3; i++)
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + i, 0, 8);
	answer_expect(c, RQ + 2, ACK_SYN);
	/* A probe, and another; each has one response. */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	pkt_expect(c, WIRE_OPCODE_SACK, RQ + 3);
	pkt_none(c);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	answer_expect(c, RQ + 2, ACK_SYN);
	/* Go-back-N after the ACK timeout. */
	for (i = 0; i < 3; i++)
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + i, 0, 8);
	answer_expect(c, RQ + 2, ACK_SYN);
	/* The next SACK tells of all duplicates. */
	recv_post(c, 3, 0, 64);
	recv_post(c, 4, 0, 64);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 4, 0, 8);
	assert_int_equal(sack_dups(c, RQ + 3), 5);
	/* The same behind a gap. The peer probes the oldest request without an answer. */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 0, 8);
	answer_expect(c, RQ + 2, ACK_SYN);
}
