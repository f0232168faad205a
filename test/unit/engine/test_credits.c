/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * End-to-end credits of the peer (RSP-07, IBTA 9.7.7.2): of messages that take a receive WQE at
 * most one more than it has credits is outstanding.
 */
#include "harness.h"
#include "wire/credits.h"

#define SQ            0x001000u
#define MTU           1024u
#define RNR_MS        0x2cu /* RNR NAK, 0.64 ms */

#define CREDITS(code) (WIRE_SYN_ACK | (code))

static void
send_n(struct conn *c, uint32_t n, uint8_t op, uint32_t len)
{
	while (n-- != 0)
		post(c, (struct wr){.op = op, .flags = SIG, .len = len});
}

/* A connection whose peer sent credit code with its first ACK, of SQ. */
static struct conn *
conn_limited(void **state, uint32_t code)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	c = conn_open(*state, cfg);
	send_n(c, 1, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_nak(c, SQ, CREDITS(code));
	send_cqe(c, 0, QP_WC_SUCCESS);
	return c;
}

REQUIREMENT("RSP-07")
UNIT_TEST(credit_codes_match_the_specification)
{
	static const uint32_t count[] = {0,    1,    2,    3,     4,     6,     8,    12,
					 16,   24,   32,   48,    64,    96,    128,  192,
					 256,  384,  512,  768,   1024,  1536,  2048, 3072,
					 4096, 6144, 8192, 12288, 16384, 24576, 32768};
	uint32_t code;

	for (code = 0; code < WIRE_SYN_NO_CREDITS; code++)
		assert_int_equal(wire_credit_count(code), count[code]);
}

REQUIREMENT("RSP-07")
BENCH_TEST(one_message_beyond_the_credits_is_sent)
{
	uint32_t code;

	for (code = 0; code < 8; code++) {
		struct conn *c = conn_limited(state, code);
		uint32_t i, n = wire_credit_count(code) + 1;

		send_n(c, 20, UROCE_WR_SEND, 8);
		for (i = 0; i + 1 < n; i++)
			pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1 + i);
		/* The last one requests an ACK, which brings more credits. */
		assert_true(pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + n).ackreq);
		pkt_none(c);
		/* One is done, and the peer has as many left: one more. */
		peer_nak(c, SQ + 1, CREDITS(code));
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + n + 1);
		pkt_none(c);
		/* All are, and it has no limit any more. */
		peer_nak(c, SQ + n + 1, ACK_SYN);
		assert_int_equal(pkt_count(c), 20 - (n + 1));
		assert_int_equal(conn_to(c, QP_RESET), 0);
	}
}

REQUIREMENT("RSP-07")
BENCH_TEST(sender_has_no_limit_before_the_first_credits)
{
	struct conn *c = conn_open(*state, conn_rc);

	send_n(c, 50, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 50);
	/* 49 are outstanding now and count, so no more may start. */
	peer_nak(c, SQ, CREDITS(4));
	send_n(c, 5, UROCE_WR_SEND, 8);
	pkt_none(c);
	peer_nak(c, SQ + 44, CREDITS(4)); /* 5 of them are left */
	pkt_none(c);
	peer_nak(c, SQ + 46, CREDITS(4)); /* 3 */
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 50);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 51);
	pkt_none(c);
}

/* After a rewind only messages that were sent again since are outstanding. */
REQUIREMENT("RSP-07")
BENCH_TEST(first_credits_after_a_rewind_count_what_was_sent_again)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct wire_fields nak = {.opcode = WIRE_OP_ACK,
				  .psn = SQ + 2,
				  .syndrome = NAK_SYN(PSN_SEQ)};
	struct wire_fields ack = {.opcode = WIRE_OP_ACK, .psn = SQ + 3, .syndrome = CREDITS(1)};

	send_n(c, 12, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 12);
	peer_put(c, nak, 0, 0); /* one burst */
	peer_put(c, ack, 0, 0);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 5);
	pkt_none(c);
}

REQUIREMENT("RSP-07")
BENCH_TEST(only_messages_that_consume_a_receive_count_as_credit)
{
	struct conn *c = conn_limited(state, 0);

	send_n(c, 3, UROCE_WR_RDMA_WRITE, 8);
	send_n(c, 1, UROCE_WR_RDMA_READ, 8);
	send_n(c, 1, UROCE_WR_RDMA_WRITE_IMM, 8);
	send_n(c, 2, UROCE_WR_RDMA_WRITE, 8);
	send_n(c, 1, UROCE_WR_SEND_IMM, 8);
	send_n(c, 1, UROCE_WR_RDMA_WRITE, 8); /* in order, therefore after the SEND */
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 2);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 3);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 4);
	pkt_expect(c, WIRE_OP_WRITE_ONLY_IMM, SQ + 5);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 6);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 7);
	pkt_none(c);
	/* A READ response carries credits, too. */
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_READ_RESP_ONLY,
				      .psn = SQ + 4,
				      .syndrome = CREDITS(1)},
		 0, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY_IMM, SQ + 8);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 9);
	pkt_none(c);
}

REQUIREMENT("RSP-07")
BENCH_TEST(credits_never_stop_a_message_in_the_middle)
{
	struct conn *c = conn_limited(state, 0);

	send_n(c, 2, UROCE_WR_SEND, 3 * MTU);
	assert_int_equal(pkt_count(c), 3);
	peer_nak(c, SQ + 2, CREDITS(0)); /* in its middle: it is outstanding still */
	pkt_none(c);
	peer_nak(c, SQ + 3, CREDITS(0));
	assert_int_equal(pkt_count(c), 3);
	pkt_none(c);
}

/* The responder has posted receives and reports it with an unsolicited ACK. */
REQUIREMENT("RSP-07")
BENCH_TEST(repeated_ack_carries_new_credits)
{
	struct conn *c = conn_limited(state, 0);

	send_n(c, 6, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_none(c);
	peer_nak(c, SQ, CREDITS(2));
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 3);
	pkt_none(c);
	/* An older ACK does not change the credits. */
	peer_nak(c, SQ - 1, CREDITS(30));
	pkt_none(c);
}

REQUIREMENT("RSP-07")
BENCH_TEST(retransmission_after_rnr_counts_credits_again)
{
	struct conn *c = conn_limited(state, 1);

	send_n(c, 4, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	pkt_none(c);
	peer_nak(c, SQ + 1, RNR_MS);
	pkt_none(c);
	bench_pass(c->b, 640000);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_none(c);
	peer_nak(c, SQ + 1, CREDITS(1));
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 3);
	pkt_none(c);
	peer_nak(c, SQ + 3, CREDITS(1));
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	pkt_none(c);
}

/* A NAK acknowledges earlier messages, which use up credits, and brings none. */
REQUIREMENT("RSP-07")
BENCH_TEST(messages_acknowledged_by_a_nak_use_up_credits)
{
	uint32_t rnr;

	for (rnr = 0; rnr < 2; rnr++) {
		struct conn *c = conn_limited(state, 2);

		send_n(c, 8, UROCE_WR_SEND, 8);
		assert_int_equal(pkt_count(c), 3);
		/* Two are taken, which were the two credits; the third is the one beyond. */
		peer_nak(c, SQ + 3, rnr ? RNR_MS : NAK_SYN(PSN_SEQ));
		if (rnr) {
			pkt_none(c);
			bench_pass(c->b, 640000);
		}
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 3);
		pkt_none(c);
		peer_nak(c, SQ + 3, CREDITS(1));
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 5);
		pkt_none(c);
	}
}

/* An ACK with a READ before it still open brings no credits either; the READ is retransmitted. */
REQUIREMENT("RSP-07")
BENCH_TEST(messages_before_missing_read_data_use_credits)
{
	struct conn *c = conn_limited(state, 2);

	send_n(c, 2, UROCE_WR_SEND, 8);
	send_n(c, 1, UROCE_WR_RDMA_READ, 8);
	send_n(c, 3, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 4);
	peer_nak(c, SQ + 4, CREDITS(3));
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 3);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	pkt_none(c);
}

/* An ACK from before a rewind completes messages that were not sent again since. */
REQUIREMENT("RSP-07")
BENCH_TEST(ack_of_packets_before_a_rewind_releases_no_extra_credit)
{
	struct conn *c = conn_limited(state, 3);
	struct wire_fields nak = {.opcode = WIRE_OP_ACK,
				  .psn = SQ + 1,
				  .syndrome = NAK_SYN(PSN_SEQ)};
	struct wire_fields ack = {.opcode = WIRE_OP_ACK, .psn = SQ + 3, .syndrome = CREDITS(1)};

	send_n(c, 12, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 4);
	peer_put(c, nak, 0, 0); /* one burst */
	peer_put(c, ack, 0, 0);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 5);
	pkt_none(c);
}

/* Unsignaled WQEs are retired together and release their credits. */
REQUIREMENT("RSP-07")
BENCH_TEST(unsignaled_messages_release_credits)
{
	struct conn *c = conn_limited(state, 3);
	uint32_t i;

	for (i = 0; i < 12; i++)
		post(c, (struct wr){.op = UROCE_WR_SEND, .len = 8});
	assert_int_equal(pkt_count(c), 4);
	peer_nak(c, SQ + 4, CREDITS(3));
	assert_int_equal(pkt_count(c), 4);
	peer_nak(c, SQ + 8, CREDITS(3));
	assert_int_equal(pkt_count(c), 4);
	assert_int_equal(conn_to(c, QP_RESET), 0);
	/* Nothing of it is left in the QP's next life. */
	c->sq.prod = 0;
	conn_raise(c, &conn_rc);
	send_n(c, 20, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 20);
}

#define MSGS 60u

/* A peer that keeps few receives, and a wire that loses one frame of ten, both ways. */
struct meager {
	struct conn *c;
	uint64_t rng;
	uint32_t first[MSGS + 1]; /* PSN of each message; SQ + 1 .. */
	uint32_t takes[MSGS + 1]; /* messages before it that take a receive */
	bool taker[MSGS];
	uint32_t epsn, done, recvs; /* as the responder has it */
	uint32_t una, limit;        /* as the requester knows: messages that take one, at most */
	bool naked;
};

static uint32_t
roll(struct meager *m, uint32_t n)
{
	m->rng = m->rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(m->rng >> 33) % n;
}

static uint32_t
message_of(const struct meager *m, uint32_t psn)
{
	uint32_t i = 0;

	while (i < MSGS && m->first[i + 1] <= psn)
		i++;
	return i;
}

/* The largest code for no more than n. */
static uint32_t
code_of(uint32_t n)
{
	uint32_t code = 0;

	while (code < 8 && wire_credit_count(code + 1) <= n)
		code++;
	return code;
}

static void
answer(struct meager *m, uint32_t psn, uint8_t syndrome)
{
	bool ack = (syndrome & WIRE_SYN_KIND) == WIRE_SYN_ACK;
	uint32_t upto = psn + ack, over;

	if (roll(m, 10) == 0)
		return;
	if (upto > m->una)
		m->una = upto;
	/* Credits count from completed messages and never become negative. */
	over = m->takes[message_of(m, m->una)];
	if (ack && upto == m->una)
		m->limit = over + wire_credit_count(syndrome & WIRE_SYN_VALUE);
	if (m->limit < over)
		m->limit = over;
	peer_put(m->c,
		 (struct wire_fields){.opcode = WIRE_OP_ACK, .psn = psn, .syndrome = syndrome}, 0,
		 0);
}

static void
request(struct meager *m, const struct wire_pkt *p)
{
	uint32_t i = message_of(m, p->psn);

	if (m->taker[i] && p->psn == m->first[i] && m->takes[i] > m->limit)
		fail_msg("message %u, the %uth to take a receive; limit %u", i, m->takes[i] + 1,
			 m->limit);
	if (roll(m, 10) == 0)
		return;
	if (p->psn > m->epsn) {
		if (!m->naked)
			answer(m, m->epsn, NAK_SYN(PSN_SEQ));
		m->naked = true;
		return;
	}
	m->naked = false;
	if (p->psn == m->epsn) {
		if (m->taker[i] && (p->op->flags & WIRE_F_LAST)) {
			if (m->recvs == 0) {
				answer(m, m->epsn, WIRE_SYN_RNR | 1);
				return;
			}
			m->recvs--;
		}
		m->epsn++;
		m->done += m->epsn == m->first[i + 1];
	}
	if (p->ackreq || p->psn + 1 < m->epsn)
		answer(m, m->epsn - 1, CREDITS(code_of(m->recvs)));
}

/* Any messages to it, through loss: all arrive, and it never sees two beyond its credits. */
REQUIREMENT("RSP-07")
BENCH_TEST(peer_with_few_credits_works_through_loss)
{
	static const uint8_t ops[] = {UROCE_WR_SEND, UROCE_WR_SEND_IMM, UROCE_WR_RDMA_WRITE,
				      UROCE_WR_RDMA_WRITE_IMM};
	uint32_t seed, i, step;

	for (seed = 0; seed < BENCH_CONNS; seed++) {
		struct meager m = {.c = conn_limited(state, 0),
				   .rng = seed,
				   .epsn = SQ + 1,
				   .una = SQ + 1};
		struct wire_pkt p;

		m.first[0] = SQ + 1;
		for (i = 0; i < MSGS; i++) {
			uint32_t len = roll(&m, 3 * MTU) + 1, op = roll(&m, 4);

			m.taker[i] = ops[op] != UROCE_WR_RDMA_WRITE;
			m.takes[i + 1] = m.takes[i] + m.taker[i];
			m.first[i + 1] = m.first[i] + (len + MTU - 1) / MTU;
			post(m.c, (struct wr){.id = i, .op = ops[op], .len = len, .flags = SIG});
		}
		m.c->qp->conn.attr.rnr_retry = m.c->qp->conn.rnr_retry = 7;
		m.c->qp->conn.attr.retry_cnt = m.c->qp->conn.retry_cnt = 7;
		m.c->b->engine.env.plain = 0;
		for (step = 0; step < 20000 && m.una < m.first[MSGS]; step++) {
			uint32_t got = 0;

			if (roll(&m, 3) == 0 && m.recvs < 12)
				m.recvs += roll(&m, 3);
			while (pkt_poll(m.c, &p)) {
				request(&m, &p);
				got++;
			}
			if (got == 0)
				bench_pass(m.c->b, 100000);
		}
		for (i = 0; i < MSGS; i++)
			send_cqe(m.c, i, QP_WC_SUCCESS);
		pkt_count(m.c);
		assert_int_equal(m.done, MSGS);
		assert_int_equal(conn_to(m.c, QP_RESET), 0);
	}
}
