/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat: what is held, told, sent again, and refused (doc/selective-repeat.md). */
#include "harness.h"
#include "probe.h"
#include "wire/sack.h"

#define SQ  0x001000u
#define RQ  0x555000u
#define MTU 1024u

static const struct wire_sack good = {.version = WIRE_SACK_VERSION};

static void
sack_expect(struct conn *c, uint32_t psn, uint64_t held)
{
	struct wire_pkt p = pkt_expect(c, WIRE_OPCODE_SACK, psn);
	struct wire_sack s = {0};

	assert_true(wire_sack_get(&p, &s));
	assert_int_equal(rte_le_to_cpu_64(s.held[0]), held);
	assert_int_equal(p.payload_len, WIRE_SACK_LEN(1)); /* no words behind it */
	pkt_none(c);
}

REQUIREMENT("SR-02")
BENCH_TEST(early_requests_are_held_and_executed_in_order)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t i;

	for (i = 0; i < 3; i++)
		recv_post(c, 10 + i, i * 64, 64);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	sack_expect(c, RQ, 2);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 8, 8);
	sack_expect(c, RQ, 6);
	cqe_none(c);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 16, 8);
	sack_expect(c, RQ + 3, 0);
	for (i = 0; i < 3; i++)
		recv_cqe(c, 10 + i, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, RSP_HELD), 2);
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 0);
	/* A duplicate of a request that was held. */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	sack_expect(c, RQ + 3, 0);
	cqe_none(c);
}

/* The harness has eight buffers to keep, two of them for a lone peer: the third is copied. */
REQUIREMENT("SR-03")
BENCH_TEST(early_requests_stay_in_their_buffers_up_to_a_limit)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	const struct qp_sr_pool *pool = c->b->engine.env.sr;
	uint32_t i;

	for (i = 0; i < 4; i++)
		recv_post(c, i, i * 64, 64);
	for (i = 1; i < 4; i++)
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + i, i * 8, 8);
	pkt_count(c);
	assert_non_null(qp_held_at(pool, c->qp->bind.reorder, RQ + 1)->buf);
	assert_non_null(qp_held_at(pool, c->qp->bind.reorder, RQ + 2)->buf);
	assert_null(qp_held_at(pool, c->qp->bind.reorder, RQ + 3)->buf);
	assert_int_equal(pool->kept.nfree, 6);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	for (i = 0; i < 4; i++)
		recv_cqe(c, i, QP_WC_SUCCESS);
	assert_int_equal(pool->kept.nfree, 8);
	assert_int_equal(OBS(c, RSP_HELD), 3);
}

/* Ports accept longer frames than the pool's: the length is checked before the copy (SR-02). */
BENCH_TEST(early_request_longer_than_the_mtu_is_not_held)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, MTU + 4);
	answer_expect(c, RQ, NAK_SYN(PSN_SEQ));
	assert_int_equal(OBS(c, RSP_HELD), 0);
	cqe_none(c);
}

/* What another worker would not know: held requests, lost packets, a probe that is due. */
REQUIREMENT("SR-02")
BENCH_TEST(qp_does_not_move_while_packets_are_missing)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t i;

	for (i = 0; i < 2; i++)
		recv_post(c, i, 0, 64);
	assert_null(engine_may_give(c->qp));
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	assert_non_null(engine_may_give(c->qp));
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	for (i = 0; i < 2; i++)
		recv_cqe(c, i, QP_WC_SUCCESS);
	assert_null(engine_may_give(c->qp));
	for (i = 0; i < 5; i++)
		client_sends(c, i, 8);
	pkt_count(c);
	peer_sack(c, SQ, 30, good);
	assert_non_null(engine_may_give(c->qp));
	pkt_count(c);
	assert_non_null(engine_may_give(c->qp));
	peer_ack(c, SQ + 4);
	for (i = 0; i < 5; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	assert_null(engine_may_give(c->qp));
	/* A probe has no scoreboard if the peer has not agreed. */
	c = conn_sr(state, QP_SR_CAN);
	client_does(c, 0, UROCE_WR_RDMA_READ, 8);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	c->b->now = c->qp->bind.timer_at_ns;
	engine_timer(&c->b->engine, c->b->now, c->qp);
	assert_non_null(engine_may_give(c->qp));
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	assert_null(engine_may_give(c->qp));
}

/* Without memory for an early request the peer gets a NAK, and does not wait for its probe. */
REQUIREMENT("SR-03")
BENCH_TEST(early_request_without_memory_is_nakked)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct conn *c = conn_sr(state, QP_SR_ON);
		struct qp_sr_pool *pool = c->b->engine.env.sr;
		uint32_t lists = pool->reorders.nfree, frames = pool->frames.nfree;
		uint32_t kept = pool->kept.nfree;

		pool->reorders.nfree = i == 0 ? 0 : lists;
		pool->frames.nfree = pool->kept.nfree = 0;
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
		pool->reorders.nfree = lists;
		pool->frames.nfree = frames;
		pool->kept.nfree = kept;
		answer_expect(c, RQ, NAK_SYN(PSN_SEQ));
		assert_int_equal(OBS(c, RSP_HELD), 0);
	}
}

/* The held requests stay. Only the one for which there is no memory is sent again. */
REQUIREMENT("SR-03")
BENCH_TEST(early_request_without_memory_is_lost_if_others_are_held)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	struct qp_sr_pool *pool = c->b->engine.env.sr;
	uint32_t frames = pool->frames.nfree, kept, i;

	for (i = 0; i < 4; i++)
		recv_post(c, i, i * 64, 64);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 8, 8);
	sack_expect(c, RQ, 1 << 1);
	kept = pool->kept.nfree;
	pool->frames.nfree = pool->kept.nfree = 0;
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 16, 8);
	sack_expect(c, RQ, 1 << 1);
	assert_int_equal(DROPS(c, OUT_OF_SEQ), 1);
	pool->frames.nfree = frames;
	pool->kept.nfree = kept;
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 3, 24, 8);
	sack_expect(c, RQ, 1 << 1 | 1 << 3);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	sack_expect(c, RQ + 2, 1 << 1);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 16, 8);
	for (i = 0; i < 4; i++)
		recv_cqe(c, i, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, RSP_SEQ_NAK) + OBS(c, RSP_HELD_LOST), 0);
	assert_true(qp_sr_pool_whole(pool));
}

/* No agreement: the peer gets what the specification says, and nothing else. */
REQUIREMENT("SR-01")
BENCH_TEST(no_sack_without_agreement)
{
	enum qp_sr_state sr;

	for (sr = QP_SR_OFF; sr <= QP_SR_CAN; sr++) {
		struct conn *c = conn_sr(state, sr);

		recv_post(c, 1, 0, 64);
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
		answer_expect(c, RQ, NAK_SYN(PSN_SEQ));
		assert_int_equal(OBS(c, RSP_HELD), 0);
	}
}

/* Too far ahead: dropped with a NAK, and with it what is held, because all is sent again. */
REQUIREMENT("SR-03")
BENCH_TEST(request_beyond_the_window_ends_in_go_back_n)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	peer_send(c, WIRE_OP_SEND_ONLY, RQ + QP_SR_WINDOW - 1, 0, 8);
	pkt_expect(c, WIRE_OPCODE_SACK, RQ);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + QP_SR_WINDOW, 0, 8);
	answer_expect(c, RQ, NAK_SYN(PSN_SEQ));
	assert_int_equal(OBS(c, RSP_HELD_LOST), 1);
	assert_true(qp_sr_pool_whole(c->b->engine.env.sr));
	/* Silent until the ePSN arrives (NAK-04). */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 0, 8);
	pkt_none(c);
}

/* A held request fails as it would have in order, and what is behind it is given up. */
REQUIREMENT("SR-02")
BENCH_TEST(held_request_that_fails_is_nakked_at_its_turn)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	recv_post(c, 1, 0, 64);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, 1, 8, 0, 8); /* no such address */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 0, 8);
	pkt_count(c);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	answer_expect(c, RQ + 1, NAK_SYN(REM_ACCESS));
	recv_cqe(c, 1, QP_WC_SUCCESS);
	state_expect(c, QP_ERR);
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	assert_true(qp_sr_pool_whole(c->b->engine.env.sr));
}

REQUIREMENT("SR-03")
BENCH_TEST(only_the_hole_is_sent_again)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t i;

	for (i = 0; i < 8; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 8);
	/* Two behind the hole may be reordering. */
	peer_sack(c, SQ + 1, 6, good);
	send_cqe(c, 0, QP_WC_SUCCESS);
	pkt_none(c);
	peer_sack(c, SQ + 1, 14, good);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_none(c);
	peer_sack(c, SQ + 1, 30, good); /* it is on its way */
	pkt_none(c);
	peer_ack(c, SQ + 7);
	for (i = 1; i < 8; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, REQ_SELECTIVE), 1);
	assert_int_equal(OBS(c, REQ_SPURIOUS), 0);
}

/* A queue on the path is too short for the window: it is halved, and grows by a packet a round. */
REQUIREMENT("CC-06")
BENCH_TEST(many_losses_at_once_reduce_the_window)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	const struct cc *cc = &c->qp->conn.snd.cc;
	uint32_t i, round;

	for (i = 0; i < 14; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 14);
	peer_sack(c, SQ, 0x3f80, good); /* 7 are lost: more than 6, but not a sixth */
	assert_int_equal(pkt_count(c), 7);
	assert_int_equal(cc->most_pkts, CC_WINDOW_PKTS);
	c->qp->conn.snd.cc.window_pkts = c->qp->conn.snd.cc.most_pkts = 36;
	peer_ack(c, SQ + 13);
	for (i = 0; i < 14; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	for (i = 0; i < 14; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 14);
	peer_sack(c, SQ + 14, 0x3f80, good);
	assert_int_equal(pkt_count(c), 7);
	assert_int_equal(cc->most_pkts, 18);
	assert_int_equal(cc->window_pkts, 18);
	peer_ack(c, SQ + 27);
	for (i = 0; i < 14; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	for (round = 1; round <= CC_WINDOW_PKTS - 18; round++) {
		assert_int_equal(cc->most_pkts, RTE_MIN(18 + round, CC_WINDOW_PKTS));
		client_sends(c, 1, 8);
		assert_int_equal(pkt_count(c), 1);
		peer_ack(c, SQ + 27 + round);
		send_cqe(c, 1, QP_WC_SUCCESS);
	}
	assert_int_equal(c->qp->conn.snd.watch & QP_WATCH_CAPPED, 0);
}

/* After some round trips of 500 us; those after the shortest are longer. */
static void
measure_long_path(struct conn *c)
{
	for (uint32_t i = 0; i < CC_ROUND_TRIPS; i++) {
		assert_int_equal(c->qp->conn.snd.cc.most_pkts, CC_WINDOW_PKTS);
		round_trip(c, SQ + i, 500000 + i * 1000);
	}
}

/* A window of CC_WINDOW_PKTS would leave a long path idle. */
REQUIREMENT("CC-06")
BENCH_TEST(long_path_is_filled)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	const uint32_t first = SQ + CC_ROUND_TRIPS, full = 1000;
	struct qp_snd *snd = &c->qp->conn.snd;
	struct wire_sack s = good;
	uint32_t i, sent;

	measure_long_path(c);
	assert_int_equal(snd->cc.most_pkts, full);
	for (i = 0; i < 9; i++)
		client_does(c, i, UROCE_WR_RDMA_WRITE, BENCH_BYTES);
	sent = pkt_count(c);
	assert_int_equal(sent, CC_WINDOW_PKTS);
	for (i = 0; i < 3; i++) {
		peer_ack(c, first + i);
		sent += pkt_count(c);
		assert_int_equal(sent, 1 + i + RTE_MIN(CC_WINDOW_PKTS << (i + 1), full));
	}
	/* A lost packet stops nothing: what the peer holds is not in flight. */
	for (i = 1; i < full / 64; i++)
		s.held[i] = UINT64_MAX;
	s.held[i] = rte_cpu_to_le_64((UINT64_C(1) << full % 64) - 1);
	peer_sack(c, first + 3, ~UINT64_C(1), s);
	pkt_expect(c, WIRE_OP_WRITE_MIDDLE, first + 3);
	sent += pkt_count(c);
	assert_int_equal(sent, 3 + QP_SR_WINDOW);
	assert_int_equal(snd->cc.most_pkts, full);
	/* The loss of more than a 16th halves it: of 80 packets before the last 69. */
	peer_ack(c, first + 2 + full);
	sent += pkt_count(c);
	assert_int_equal(sent, 9 * 128);
	s = good;
	s.held[1] = rte_cpu_to_le_64(UINT64_MAX << 16);
	s.held[2] = rte_cpu_to_le_64((UINT64_C(1) << 21) - 1);
	peer_sack(c, first + 3 + full, 0, s);
	assert_int_equal(pkt_count(c), 80);
	assert_int_equal(snd->cc.most_pkts, full / 2);
	peer_ack(c, first + 9 * 128 - 1);
	for (i = 0; i < 9; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	/* It widens each round trip. */
	i = snd->cc.most_pkts;
	assert_in_range(i, full / 2 + 1, full - 1);
	round_trip(c, first + 9 * 128, 500000);
	assert_int_equal(snd->cc.most_pkts, i + full / 64);
}

/* A NAK and a timeout halve it, too; a peer that has not agreed keeps the ordinary one. */
REQUIREMENT("CC-06")
BENCH_TEST(wide_window_needs_a_peer_that_agrees)
{
	struct conn *c = conn_sr(state, QP_SR_ON), *other = conn_sr(state, QP_SR_CAN);
	struct qp_snd *snd = &c->qp->conn.snd;

	measure_long_path(other);
	assert_int_equal(other->qp->conn.snd.cc.most_pkts, CC_WINDOW_PKTS);
	qp_sr_agree(&c->b->engine.env, other->qp);
	for (uint32_t i = 0; i < CC_ROUND_TRIPS; i++)
		round_trip(other, SQ + CC_ROUND_TRIPS + i, 500000);
	assert_int_equal(other->qp->conn.snd.cc.most_pkts, 1000);

	measure_long_path(c);
	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	peer_nak(c, SQ + CC_ROUND_TRIPS, NAK_SYN(PSN_SEQ));
	assert_int_equal(pkt_count(c), 2);
	assert_int_equal(snd->cc.most_pkts, 500);
	assert_int_equal(snd->cc.window_pkts, CC_AGAIN_PKTS);
	peer_ack(c, SQ + CC_ROUND_TRIPS + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	assert_int_equal(snd->cc.most_pkts, 500 + 1000 / 64);
	/* Without selective repeat a loss costs the whole window. */
	qp_sr_set(c->b->engine.env.sr, c->qp, QP_SR_OFF);
	assert_int_equal(snd->cc.most_pkts, CC_WINDOW_PKTS);
	assert_in_range(snd->cc.window_pkts, 1, CC_WINDOW_PKTS);
}

/*
 * The wide window, over the same long path, to a peer that has told its receive buffer. *told: in
 * units of QP_PEER_BUFFER_BYTES.
 */
static uint32_t
window_with_buffer(void **state, uint8_t told)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	qp_sr_told(c->qp, told);
	for (uint32_t i = 0; i < CC_ROUND_TRIPS; i++)
		round_trip(c, SQ + i, 500000);
	return c->qp->conn.snd.cc.most_pkts;
}

/*
 * 13 units: what Linux gives with net.core.rmem_max=212992. Three quarters of it hold 293 packets
 * of 1088 bytes, those of a unit 22.
 */
REQUIREMENT("CC-06")
BENCH_TEST(wide_window_fits_the_receive_buffer_of_the_peer)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	assert_int_equal(c->qp->conn.mtu, 1024);
	assert_int_equal(window_with_buffer(state, 13), 293);
	assert_int_equal(window_with_buffer(state, 1), 22);
	assert_int_equal(window_with_buffer(state, 255), 1000);
	assert_int_equal(window_with_buffer(state, 0), 1000);
	/* The next peer may have another one. */
	qp_sr_told(c->qp, 13);
	qp_sr_set(c->b->engine.env.sr, c->qp, QP_SR_ON);
	measure_long_path(c);
	assert_int_equal(c->qp->conn.snd.cc.most_pkts, 1000);
}

/* Also before the agreement, with the buffer of an earlier one. */
REQUIREMENT("CC-06")
BENCH_TEST(small_receive_buffer_of_the_peer_limits_requests)
{
	struct conn *c = conn_sr(state, QP_SR_CAN);

	qp_sr_told(c->qp, 1);
	client_does(c, 1, UROCE_WR_RDMA_WRITE, BENCH_BYTES);
	assert_int_equal(pkt_count(c), 22);
	peer_ack(c, SQ + 6);
	assert_int_equal(pkt_count(c), 7);
	qp_sr_agree(&c->b->engine.env, c->qp);
	qp_sr_told(c->qp, 2);
	peer_ack(c, SQ + 28);
	assert_int_equal(pkt_count(c), 2 * 22 + 1);
}

/* But no READs, neither before a loss of responses nor after one. */
REQUIREMENT("CC-06")
BENCH_TEST(small_receive_buffer_of_the_peer_limits_no_reads)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	qp_sr_told(c->qp, 1);
	for (uint32_t i = 0; i < 3; i++) {
		client_does(c, i, UROCE_WR_RDMA_READ, 20 * 1024);
		pkt_expect(c, WIRE_OP_READ_REQ, SQ + 20 * i);
	}
	c->qp->conn.snd.rd_lossy = true;
	client_does(c, 3, UROCE_WR_RDMA_READ, 68 * 1024);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 60);
	client_does(c, 4, UROCE_WR_RDMA_READ, 1024);
	pkt_none(c); /* CC_WINDOW_PKTS are outstanding */
}

/* One of two packets is lost; returns the largest window after that. */
static uint32_t
window_after_a_loss(struct conn *c, bool behind, uint32_t srtt_ns)
{
	struct qp_snd *snd = &c->qp->conn.snd;
	uint32_t psn = snd->una_psn;

	snd->cc.window_pkts = snd->cc.most_pkts = CC_WINDOW_PKTS;
	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	c->b->engine.env.behind = behind;
	c->qp->conn.loss.srtt_ns = srtt_ns;
	peer_sack(c, psn, 2, good);
	assert_int_equal(pkt_count(c), 1);
	peer_ack(c, psn + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	return snd->cc.most_pkts;
}

/* Packets wait for the processor: fewer of them wait behind a loss. It takes nothing else away. */
REQUIREMENT("CC-06")
BENCH_TEST(a_loss_reduces_the_window_of_a_busy_worker)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	struct qp_snd *snd = &c->qp->conn.snd;
	uint32_t i;

	assert_int_equal(window_after_a_loss(c, false, 10000), CC_WINDOW_PKTS);
	assert_int_equal(window_after_a_loss(c, true, 0), CC_WINDOW_PKTS);
	assert_int_equal(window_after_a_loss(c, true, 200000), CC_WINDOW_PKTS);
	/* The ACK of the retransmission is a round trip. */
	assert_int_equal(window_after_a_loss(c, true, 10000), CC_BEHIND_PKTS + 1);
	for (i = 2; i <= CC_WINDOW_PKTS - CC_BEHIND_PKTS; i++) {
		assert_true(snd->watch & QP_WATCH_CAPPED);
		client_sends(c, 1, 8);
		assert_int_equal(pkt_count(c), 1);
		peer_ack(c, snd->una_psn);
		send_cqe(c, 1, QP_WC_SUCCESS);
		assert_int_equal(snd->cc.most_pkts, CC_BEHIND_PKTS + i);
	}
	assert_false(snd->watch & QP_WATCH_CAPPED);
}

REQUIREMENT("SR-01")
BENCH_TEST(wrong_sacks_are_dropped)
{
	struct conn *c = conn_sr(state, QP_SR_CAN);
	static const uint32_t wrong_len[] = {0, 8, 20, sizeof(good) + 8};
	struct wire_sack version = good, flags = good;
	struct qp_conn was;

	version.version = WIRE_SACK_VERSION + 1;
	flags.flags = 0x80;
	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	was = c->qp->conn;
	peer_sack(c, SQ, 4, good);     /* PSN SQ + 2 was not sent */
	peer_sack(c, SQ + 3, 0, good); /* nor was what it acknowledges */
	peer_sack(c, SQ, 1, good);     /* the ePSN is not held */
	peer_sack(c, SQ + 1, 0, version);
	peer_sack(c, SQ + 1, 0, flags);
	for (uint32_t i = 0; i < RTE_DIM(wrong_len); i++)
		peer_sack_of(c, SQ + 1, 0, good, wrong_len[i]);
	sr_in_order(c, QP_SR_OFF);
	peer_sack(c, SQ + 1, 0, good);
	sr_in_order(c, QP_SR_CAN);
	assert_int_equal(DROPS(c, SACK), 6 + RTE_DIM(wrong_len));
	assert_memory_equal(&c->qp->conn, &was, sizeof(was));
	pkt_none(c);
	cqe_none(c);
	peer_sack_of(c, SQ + 2, 0, good, WIRE_SACK_LEN(1));
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

/* The probe is one packet; what was sent behind it is not sent again. */
REQUIREMENT("SR-04")
BENCH_TEST(probe_sends_the_oldest_packet_alone)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	c->b->engine.env.plain = 0;
	round_trip(c, SQ, 10000);
	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	bench_pass(c->b, c->qp->conn.snd.wait_ns);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_none(c);
	peer_nak(c, SQ + 1, NAK_SYN(PSN_SEQ)); /* a NAK still leads to go-back-N */
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	pkt_none(c);
}

/* Five packets are sent, SQ + 1 and on; none is acknowledged, and the first one is probed. */
static struct conn *
first_of_five_is_probed(void **state)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	c->b->engine.env.plain = 0;
	round_trip(c, SQ, 10000);
	for (uint32_t i = 0; i < 5; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 5);
	bench_pass(c->b, c->qp->conn.snd.wait_ns);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_none(c);
	return c;
}

/* The SACK of a duplicate of psn - 1, the dups-th in all. All before psn has arrived. */
static void
peer_sack_dup(struct conn *c, uint32_t psn, uint16_t dups)
{
	struct wire_sack told = {.version = WIRE_SACK_VERSION,
				 .flags = WIRE_SACK_DUPLICATE,
				 .dups = rte_cpu_to_be_16(dups),
				 .dup_psn = rte_cpu_to_be_32(psn - 1)};

	peer_sack(c, psn, 0, told);
}

/* Sends a message with this PSN; nothing is heard of it until it is probed. */
static void
send_and_probe(struct conn *c, uint32_t psn)
{
	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	pkt_none(c);
	bench_pass(c->b, c->qp->conn.snd.wait_ns);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	pkt_none(c);
}

/*
 * The only response to a probe is no measurement: it came a wait after the original. Losses of
 * requests and of ACKs in any order leave the round trip, and with it the wait, as they were.
 */
REQUIREMENT("REQ-04")
BENCH_TEST(lost_requests_and_lost_acks_give_no_round_trip)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t was, psn = SQ + 1, i;

	c->b->engine.env.plain = 0;
	round_trip(c, SQ, 10000);
	was = c->qp->conn.loss.srtt_ns;
	for (i = 0; i < 8; i++) {
		send_and_probe(c, psn); /* the request was lost */
		bench_pass(c->b, 10000);
		peer_ack(c, psn++);
		send_cqe(c, 1, QP_WC_SUCCESS);
		send_and_probe(c, psn++); /* the ACK was lost */
		bench_pass(c->b, 10000);
		peer_sack_dup(c, psn, (uint16_t)(i + 1));
		send_cqe(c, 1, QP_WC_SUCCESS);
	}
	assert_int_equal(c->qp->conn.loss.srtt_ns, was);
	assert_int_equal(OBS(c, REQ_PROBE_VAIN), 0);
}

/* Two responses to a packet and its probe: the first one was to the packet, and late. */
REQUIREMENT("REQ-04")
BENCH_TEST(response_before_that_of_the_probe_gives_a_round_trip)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t was;

	c->b->engine.env.plain = 0;
	round_trip(c, SQ, 10000);
	was = c->qp->conn.loss.srtt_ns;
	send_and_probe(c, SQ + 1);
	bench_pass(c->b, 1000);
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	peer_sack_dup(c, SQ + 2, 1);
	assert_true(c->qp->conn.loss.srtt_ns > was);
	assert_int_equal(OBS(c, REQ_PROBE_VAIN), 1);
}

/*
 * All of five packets are lost. The ACK of the probed one shows that the peer lacks the second one,
 * too; the SACK of the last one shows that it lacks all of them: two round trips instead of five
 * probes.
 */
REQUIREMENT("SR-04")
BENCH_TEST(lost_tail_is_found_by_its_last_packet)
{
	struct conn *c = first_of_five_is_probed(state);

	peer_ack(c, SQ + 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 5);
	pkt_none(c);
	peer_sack(c, SQ + 2, 1 << 3, good);
	for (uint32_t i = 2; i < 5; i++)
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + i);
	pkt_none(c);
}

/*
 * Of eight packets, SQ + 1 and on, all are lost, and again each time that they are sent together.
 * Probes of the oldest and the last packet arrive. SQ + 3 .. SQ + 6 were sent three times.
 */
static struct conn *
burst_is_lost_thrice(void **state)
{
	struct conn *c = conn_sr(state, QP_SR_ON);

	c->b->engine.env.plain = 0;
	round_trip(c, SQ, 10000);
	for (uint32_t i = 0; i < 8; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 8);
	for (uint32_t first = SQ + 1, last = SQ + 8; first < SQ + 3; first++, last--) {
		uint64_t held =
			(UINT64_C(1) << (SQ + 8 - first)) - (UINT64_C(1) << (last - first - 1));

		bench_pass(c->b, c->qp->conn.snd.wait_ns);
		pkt_expect(c, WIRE_OP_SEND_ONLY, first);
		pkt_none(c);
		peer_ack(c, first);
		pkt_expect(c, WIRE_OP_SEND_ONLY, last);
		pkt_none(c);
		peer_sack(c, first + 1, held, good);
		for (uint32_t psn = first + 1; psn < last; psn++)
			pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
		pkt_none(c);
	}
	return c;
}

/* One of them arrives: those sent before it are lost. */
REQUIREMENT("SR-04")
BENCH_TEST(third_loss_shows_when_a_later_packet_arrives)
{
	struct conn *c = burst_is_lost_thrice(state);

	peer_sack(c, SQ + 3, 3 << 4 | 1 << 2, good);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 3);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	pkt_none(c);
}

/* None of them arrives: the probes show it, as they did before. */
REQUIREMENT("SR-04")
BENCH_TEST(third_loss_of_a_burst_is_found_by_its_last_packet)
{
	struct conn *c = burst_is_lost_thrice(state);

	bench_pass(c->b, c->qp->conn.snd.wait_ns);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 3);
	pkt_none(c);
	peer_ack(c, SQ + 3);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 6);
	pkt_none(c);
	peer_sack(c, SQ + 4, 7 << 2, good);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 5);
	pkt_none(c);
}

/*
 * The last packet was held when it was sent again after a probe, without a sign of its loss: its
 * duplicate shows no reordering.
 */
REQUIREMENT("SR-05")
BENCH_TEST(duplicate_of_a_probed_tail_is_no_late_packet)
{
	struct wire_sack told = {.version = WIRE_SACK_VERSION,
				 .flags = WIRE_SACK_DUPLICATE,
				 .dups = rte_cpu_to_be_16(1),
				 .dup_psn = rte_cpu_to_be_32(SQ + 5)};
	struct conn *c = first_of_five_is_probed(state);

	peer_ack(c, SQ + 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 5);
	pkt_none(c);
	peer_sack(c, SQ + 2, 1 << 3, told);
	assert_int_equal(c->qp->conn.sr.threshold, 0);
	assert_int_equal(c->qp->conn.sr.spurious, 0);
}

/* The ACK after a probe covers several packets: they were late, and nothing is known of others. */
BENCH_TEST(late_ack_sends_no_other_packet)
{
	struct conn *c = first_of_five_is_probed(state);

	peer_ack(c, SQ + 3);
	pkt_none(c);
}

/*
 * A packet is acknowledged before the probe could send it again. The packet QP_SR_WINDOW PSNs later
 * has its place in the set of lost ones.
 */
BENCH_TEST(probed_packet_that_arrived_is_forgotten)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t psn = SQ + 8, i;

	for (i = 0; i < 8; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 8);
	peer_sack(c, SQ, 2, good);
	qp_psns_add(&c->qp->bind.scoreboard->lost, SQ + 4); /* as by a probe */
	peer_ack(c, SQ + 7);
	for (i = 0; i < 8; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	for (; psn != SQ + 3 + QP_SR_WINDOW; psn++) {
		client_sends(c, 1, 8);
		assert_int_equal(pkt_count(c), 1);
		peer_ack(c, psn);
		send_cqe(c, 1, QP_WC_SUCCESS);
	}
	for (i = 0; i < 8; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 8);
	peer_sack(c, psn, 126, good);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	pkt_none(c);
}

/* New READs wait while responses to QP_READ_CHUNK_PKTS are expected; a lost one does not. */
BENCH_TEST(lost_read_is_requested_again_whatever_is_expected)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t i;

	client_does(c, 0, UROCE_WR_RDMA_READ, 8);
	for (i = 1; i < 5; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 5);
	c->qp->conn.snd.rd_psns = QP_READ_CHUNK_PKTS;
	peer_sack(c, SQ, 14, good);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_none(c);
}
