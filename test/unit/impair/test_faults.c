/* SPDX-License-Identifier: BSD-3-Clause */
/* Each fault by itself, with all frames or a random part of them. */
#include <string.h>
#include "impair_fixture.h"
#include "wire/csum.h"
#include "wire/icrc.h"

FIXTURE_TEST(nothing_configured_changes_nothing)
{
	struct fixture *r = *state;
	struct rte_mbuf *m[3];
	uint32_t i;

	fixture_config(r, "");
	for (i = 0; i < 3; i++)
		m[i] = fixture_frame(WIRE_OP_SEND_ONLY, false, RIG_QPN, i, RIG_PAYLOAD);
	fixture_put(r, m, 3);
	assert_int_equal(r->out_n, 3);
	for (i = 0; i < 3; i++)
		assert_ptr_equal(r->out[i], m[i]);
	EXPECT(r, 0, 1, 2);
	assert_int_equal(CTR(r, RECEIVED), 3);
	assert_int_equal(CTR(r, DELIVERED), 3);
	for (i = 0; i < IMPAIR_RECEIVED; i++)
		assert_int_equal(r->core.ctr[i], 0);
}

FIXTURE_TEST(drop_all)
{
	struct fixture *r = *state;

	fixture_config(r, "drop=100%");
	fixture_stream(r, 0, 100, 32);
	fixture_put_one(r, fixture_arp());
	assert_int_equal(r->out_n, 0);
	assert_int_equal(CTR(r, DROP), 101);
	assert_int_equal(rte_mempool_in_use_count(fixture_pool()), 0);
}

FIXTURE_TEST(drop_a_tenth)
{
	struct fixture *r = *state;

	fixture_config(r, "drop=10%,seed=3");
	fixture_stream(r, 0, 4000, 32);
	/* Four standard deviations of 4000 tosses. */
	assert_in_range(CTR(r, DROP), 400 - 76, 400 + 76);
	assert_int_equal(CTR(r, DROP) + r->out_n, 4000);
}

FIXTURE_TEST(dup_all)
{
	struct fixture *r = *state;
	uint32_t i;

	fixture_config(r, "dup=100%");
	fixture_stream(r, 5, 3, 3);
	EXPECT(r, 5, 5, 6, 6, 7, 7);
	assert_int_equal(CTR(r, DUP), 3);
	for (i = 0; i < 6; i += 2) {
		assert_ptr_not_equal(r->out[i], r->out[i + 1]);
		assert_int_equal(r->out[i]->pkt_len, r->out[i + 1]->pkt_len);
		assert_memory_equal(rte_pktmbuf_mtod(r->out[i], char *),
				    rte_pktmbuf_mtod(r->out[i + 1], char *), r->out[i]->data_len);
	}
	/* A separate copy: its receiver may change it. */
	rte_pktmbuf_mtod(r->out[0], char *)[60] ^= 1;
	assert_memory_not_equal(rte_pktmbuf_mtod(r->out[0], char *),
				rte_pktmbuf_mtod(r->out[1], char *), r->out[0]->data_len);
}

/* More than the caller has room for comes with the next bursts, in order. */
FIXTURE_TEST(dup_over_the_callers_room)
{
	struct fixture *r = *state;
	uint32_t i;

	fixture_config(r, "dup=100%");
	fixture_stream(r, 0, 32, 32);
	assert_int_equal(r->out_n, 32);
	fixture_pass(r, 1);
	assert_int_equal(r->out_n, 64);
	for (i = 0; i < 64; i++)
		assert_int_equal(fixture_psn(r, i), i / 2);
}

FIXTURE_TEST(dup_without_buffers)
{
	struct rte_mbuf *all[8192], *m;
	struct fixture *r = *state;
	uint32_t n = 0;

	fixture_config(r, "dup=100%");
	m = fixture_frame(WIRE_OP_SEND_ONLY, false, RIG_QPN, 1, RIG_PAYLOAD);
	while (n < 8192 && (all[n] = rte_pktmbuf_alloc(fixture_pool())) != NULL)
		n++;
	fixture_put_one(r, m);
	while (n > 0)
		rte_pktmbuf_free(all[--n]);
	EXPECT(r, 1);
	assert_int_equal(CTR(r, NO_MBUF), 1);
	assert_int_equal(CTR(r, DUP), 0);
}

FIXTURE_TEST(reorder_by_k)
{
	struct fixture *r = *state;

	fixture_config(r, "rule:psn=1,action=reorder,reorder_by=2");
	fixture_stream(r, 0, 6, 6);
	EXPECT(r, 0, 2, 3, 1, 4, 5);
	assert_int_equal(CTR(r, REORDER), 1);
}

/* Two frames held back at once keep their distance and do not overtake each other. */
FIXTURE_TEST(reorder_two)
{
	struct fixture *r = *state;

	fixture_config(r, "rule:psn=0-1,action=reorder,reorder_by=2");
	fixture_stream(r, 0, 5, 1);
	EXPECT(r, 2, 3, 0, 1, 4);
}

FIXTURE_TEST(reorder_ends_without_followers)
{
	struct fixture *r = *state;

	fixture_config(r, "reorder=100%");
	fixture_stream(r, 0, 2, 2);
	fixture_pass(r, IMPAIR_BACK_NS - 1);
	assert_int_equal(r->out_n, 0);
	fixture_pass(r, 1);
	EXPECT(r, 0, 1);
}

/* No more than the core has room for are held back: the rest pass them. */
FIXTURE_TEST(reorder_is_bounded)
{
	struct fixture *r = *state;

	fixture_config(r, "reorder=100%,reorder_by=1000");
	fixture_stream(r, 0, IMPAIR_MAX_BACK + 10, 32);
	assert_int_equal(r->out_n, 10);
	assert_int_equal(fixture_psn(r, 0), IMPAIR_MAX_BACK);
	assert_int_equal(CTR(r, REORDER), IMPAIR_MAX_BACK);
}

FIXTURE_TEST(delay)
{
	struct fixture *r = *state;

	fixture_config(r, "delay=100us");
	fixture_stream(r, 0, 2, 2);
	fixture_pass(r, 40 * US);
	fixture_stream(r, 2, 1, 1);
	assert_int_equal(r->out_n, 0);
	fixture_pass(r, 60 * US - 1);
	assert_int_equal(r->out_n, 0);
	fixture_pass(r, 1);
	EXPECT(r, 0, 1);
	fixture_pass(r, 40 * US);
	EXPECT(r, 0, 1, 2);
	assert_int_equal(CTR(r, DELAY), 3);
}

FIXTURE_TEST(delay_with_jitter)
{
	uint64_t start, least = UINT64_MAX, most = 0;
	struct fixture *r = *state;
	uint32_t i, passed = 0;

	fixture_config(r, "delay=100us,jitter=20us,seed=9");
	start = r->now;
	fixture_stream(r, 0, 500, 32);
	for (i = 0; i < 121; i++)
		fixture_pass(r, US);
	assert_int_equal(r->out_n, 500);
	for (i = 0; i < 500; i++) {
		uint64_t took = r->out_at[i] - start;

		least = took < least ? took : least;
		most = took > most ? took : most;
		passed += i > 0 && fixture_psn(r, i) < fixture_psn(r, i - 1);
	}
	/* Within the bounds, and near both of them. */
	assert_in_range(least, 80 * US, 82 * US);
	assert_in_range(most, 118 * US, 120 * US);
	assert_true(passed > 100);
}

/* A queue of 8 Mbit/s: a byte a microsecond. */
FIXTURE_TEST(rate)
{
	struct fixture *r = *state;
	uint64_t start, each;
	uint32_t i;

	fixture_config(r, "rate=8Mbit");
	start = r->now;
	fixture_stream(r, 0, 10, 10);
	assert_int_equal(r->out_n, 0);
	for (i = 0; i < 4000; i++)
		fixture_pass(r, US);
	assert_int_equal(r->out_n, 10);
	each = r->out[0]->pkt_len * US;
	for (i = 0; i < 10; i++) {
		assert_int_equal(fixture_psn(r, i), i);
		assert_int_equal(r->out_at[i], start + (i + 1) * each);
	}
	assert_int_equal(CTR(r, RATE), 9);
	/* The link was idle meanwhile: that is not saved up, nor owed. */
	fixture_stream(r, 10, 1, 1);
	fixture_pass(r, each - 1);
	assert_int_equal(r->out_n, 10);
	fixture_pass(r, 1);
	assert_int_equal(r->out_n, 11);
}

/* What waits is bounded, and what finds no room is dropped and counted. */
FIXTURE_TEST(hold_is_bounded)
{
	struct fixture *r = *state;

	fixture_config(r, "delay=1ms,hold=50");
	fixture_stream(r, 0, 80, 32);
	assert_int_equal(CTR(r, OVERFLOW), 30);
	assert_int_equal(rte_mempool_in_use_count(fixture_pool()), 50);
	fixture_pass(r, MS);
	fixture_pass(r, 1);
	assert_int_equal(r->out_n, 50);
	assert_int_equal(fixture_psn(r, 49), 49);
}

static uint32_t
bits_changed(const uint8_t *a, const uint8_t *b, uint32_t len)
{
	uint32_t i, n = 0;

	for (i = 0; i < len; i++)
		n += (uint32_t)__builtin_popcount(a[i] ^ b[i]);
	return n;
}

/* Put one frame through and return what it was; what it is, is the last that came out. */
static uint32_t
put_and_keep(struct fixture *r, uint32_t psn, uint8_t *was)
{
	static const uint8_t ops[] = {WIRE_OP_SEND_ONLY, WIRE_OP_WRITE_ONLY, WIRE_OP_ACK,
				      WIRE_OP_READ_REQ, WIRE_SVC_UD | WIRE_OP_SEND_ONLY};
	uint8_t op = ops[psn % 5];
	struct rte_mbuf *m =
		fixture_frame(op, psn & 1, RIG_QPN, psn,
			      wire_op_table[op].flags & WIRE_F_PAYLOAD ? psn % 200 : 0);
	uint32_t len = m->data_len;

	memcpy(was, rte_pktmbuf_mtod(m, void *), len);
	fixture_put_one(r, m);
	assert_int_equal(r->out[r->out_n - 1]->data_len, len);
	return len;
}

static void
check_corrupt(struct fixture *r, uint32_t bits)
{
	uint8_t was[2048], *is;
	struct wire_pkt pkt;
	uint32_t i, len;

	for (i = 0; i < 1000; i++) {
		len = put_and_keep(r, i, was);
		is = rte_pktmbuf_mtod(r->out[r->out_n - 1], uint8_t *);
		assert_int_equal(bits_changed(was, is, len), bits);
		/* The Ethernet header is none of the end's business. */
		assert_memory_equal(was, is, WIRE_ETH_LEN);
		assert_true(wire_parse(is, len, &pkt) != WIRE_OK || !wire_icrc_check(&pkt));
	}
	assert_int_equal(CTR(r, CORRUPT), 1000);
}

FIXTURE_TEST(corrupt_is_always_found)
{
	fixture_config(*state, "corrupt=100%");
	check_corrupt(*state, 1);
}

FIXTURE_TEST(corrupt_three_bits)
{
	fixture_config(*state, "corrupt=100%,corrupt_bits=3");
	check_corrupt(*state, 3);
}

FIXTURE_TEST(corrupt_fixed_verifies)
{
	uint32_t i, len, other_op = 0;
	struct wire_pkt before, after;
	uint8_t was[2048], *is;
	struct fixture *r = *state;

	fixture_config(r, "corrupt_fixed=100%,corrupt_bits=2");
	for (i = 0; i < 1000; i++) {
		len = put_and_keep(r, i, was);
		is = rte_pktmbuf_mtod(r->out[r->out_n - 1], uint8_t *);
		assert_int_equal(wire_parse(was, len, &before), WIRE_OK);
		assert_int_equal(bits_changed(was, is, len - WIRE_ICRC_LEN), 2);
		/* All before the BTH is as it was: so is the ICRC's place. */
		assert_memory_equal(was, is, (size_t)(before.bth - was));
		after = before;
		after.ip = is + (before.ip - was);
		after.bth = is + (before.bth - was);
		after.payload = is + (before.payload - was);
		assert_true(wire_icrc_check(&after));
		other_op += after.bth[0] != before.bth[0];
	}
	assert_int_equal(CTR(r, CORRUPT_FIXED), 1000);
	assert_true(other_op > 20); /* headers are hit too */
}

FIXTURE_TEST(ce_marks)
{
	struct fixture *r = *state;
	struct wire_pkt pkt;
	int v6;

	fixture_config(r, "ce=100%");
	for (v6 = 0; v6 < 2; v6++) {
		fixture_put_one(r, fixture_frame(WIRE_OP_SEND_ONLY, v6, RIG_QPN, 7, RIG_PAYLOAD));
		pkt = fixture_pkt(r, (uint32_t)v6); /* which checks IPv4's checksum */
		assert_int_equal(pkt.tclass, 3);
		assert_true(wire_icrc_check(&pkt));
		assert_int_equal(pkt.is_v6, v6);
		if (!v6)
			assert_int_equal(wire_ipv4_sum(pkt.ip), 0xffff);
	}
	assert_int_equal(CTR(r, CE), 2);
}

/* What is not RoCEv2 has no check that would find it: never changed. */
FIXTURE_TEST(other_frames_are_not_changed)
{
	struct rte_mbuf *was = fixture_arp();
	struct fixture *r = *state;
	uint32_t i;

	fixture_config(r, "corrupt=100%,corrupt_fixed=100%,ce=100% rule:action=drop");
	for (i = 0; i < 20; i++)
		fixture_put_one(r, fixture_arp());
	assert_int_equal(r->out_n, 20);
	for (i = 0; i < 20; i++)
		assert_memory_equal(rte_pktmbuf_mtod(r->out[i], void *),
				    rte_pktmbuf_mtod(was, void *), 60);
	assert_int_equal(CTR(r, CORRUPT) + CTR(r, CORRUPT_FIXED) + CTR(r, CE), 0);
	rte_pktmbuf_free(was);
}

/* A frame with another reference is copied before it is changed. */
FIXTURE_TEST(shared_frame_is_copied)
{
	struct rte_mbuf *m = fixture_frame(WIRE_OP_SEND_ONLY, false, RIG_QPN, 1, RIG_PAYLOAD);
	struct fixture *r = *state;
	struct wire_pkt pkt;

	fixture_config(r, "corrupt=100%");
	rte_mbuf_refcnt_update(m, 1);
	fixture_put_one(r, m);
	assert_ptr_not_equal(r->out[0], m);
	assert_int_equal(rte_mbuf_refcnt_read(m), 1);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, &pkt), WIRE_OK);
	assert_true(wire_icrc_check(&pkt));
	rte_pktmbuf_free(m);
}

FIXTURE_TEST(segments_are_joined)
{
	struct rte_mbuf *m = fixture_frame(WIRE_OP_SEND_ONLY, false, RIG_QPN, 1, RIG_PAYLOAD);
	struct rte_mbuf *tail = rte_pktmbuf_alloc(fixture_pool());
	struct fixture *r = *state;
	uint32_t len = m->data_len;

	/* The last 50 bytes in a separate buffer. */
	memcpy(rte_pktmbuf_append(tail, 50), rte_pktmbuf_mtod(m, char *) + len - 50, 50);
	rte_pktmbuf_trim(m, 50);
	assert_int_equal(rte_pktmbuf_chain(m, tail), 0);
	fixture_config(r, "ce=100%");
	fixture_put_one(r, m);
	assert_int_equal(r->out[0]->nb_segs, 1);
	assert_int_equal(fixture_pkt(r, 0).tclass, 3);
	assert_int_equal(r->out[0]->data_len, len);
}

UNIT_PROGRAM(fixture_group_setup, NULL);
