/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat in networks that reorder packets, or may (doc/selective-repeat.md). */
#include "harness.h"
#include "probe.h"

#define SQ 0x001000u

static const struct wire_sack good = {.version = WIRE_SACK_VERSION};

/* The peer had it twice: it was late, so more packets may overtake others from now on. */
REQUIREMENT("SR-05")
BENCH_TEST(duplicate_raises_the_threshold)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	struct wire_sack told = {.version = WIRE_SACK_VERSION,
				 .flags = WIRE_SACK_DUPLICATE,
				 .dups = rte_cpu_to_be_16(1),
				 .dup_psn = rte_cpu_to_be_32(SQ)};
	uint32_t i;

	for (i = 0; i < 8; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 8);
	peer_sack(c, SQ, 14, good);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_sack(c, SQ + 8, 0, told);
	for (i = 0; i < 8; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, REQ_SPURIOUS), 1);
	assert_true(c->qp->conn.sr.threshold > QP_SR_THRESHOLD);
}

/* Nothing shows yet that the network keeps packets in order: many have to be behind a gap. */
REQUIREMENT("SR-05")
BENCH_TEST(unknown_network_may_reorder)
{
	static const uint8_t threshold[] = {72, 36, 18, 9, QP_SR_THRESHOLD};
	struct conn *c = conn_sr(state, QP_SR_ON);
	struct qp_sr *sr = &c->qp->conn.sr;
	uint32_t i;

	for (i = 0; i <= QP_SR_KNOWN; i++) {
		sr->known = (uint8_t)i;
		assert_int_equal(qp_sr_threshold(sr), threshold[i / 4]);
	}
	sr->known = 15;
	for (i = 0; i < 12; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 12);
	peer_sack(c, SQ + 1, 0x1fe, good); /* eight behind SQ + 1 */
	pkt_none(c);
	peer_sack(c, SQ + 1, 0x3fe, good);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_none(c);
	assert_int_equal(sr->known, QP_SR_KNOWN);
	peer_ack(c, SQ + 10);
	assert_int_equal(OBS(c, REQ_SELECTIVE), 1);
}

/* A packet that was late is enough to know that the network reorders. */
REQUIREMENT("SR-05")
BENCH_TEST(late_packet_keeps_the_first_threshold)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	struct qp_sr *sr = &c->qp->conn.sr;
	uint32_t i;

	sr->known = 0;
	for (i = 0; i < 9; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 9);
	peer_sack(c, SQ, 0xfe, good);
	pkt_none(c);
	peer_sack(c, SQ + 8, 0, good);
	pkt_none(c);
	assert_int_equal(sr->threshold, QP_SR_THRESHOLD_FIRST);
	assert_int_equal(sr->known, QP_SR_KNOWN);
	assert_int_equal(OBS(c, REQ_SELECTIVE), 0);
}
