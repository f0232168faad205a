/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared receive queue that gets another size while it is in use (SRQ-01, qp/srq.h). */
#include <stdlib.h>
#include <string.h>
#include "harness.h"

#define RQ 0x555000u

/* The SRQ, a QP that receives from it, and the ring to resize to. */
struct resize {
	struct bench *b;
	struct bench_srq *s;
	struct conn *c;
	struct bench_ring next;
	struct qp_ring to;
	uint32_t head, prod;
	uint32_t psn;
	void *old;
};

static struct resize
resize_open(void **state, uint32_t entries)
{
	struct conn_cfg cfg = conn_rc;
	struct resize r = {.b = *state, .psn = RQ};

	r.s = srq_open(r.b, entries);
	cfg.srq = &r.s->srq;
	r.c = conn_open(r.b, cfg);
	return r;
}

static void
resize_close(struct resize *r)
{
	free(r->old);
	srq_close(r->s);
}

/* The daemon's part before the worker's. */
static void
resize_begin(struct resize *r, uint32_t entries)
{
	size_t bytes = UROCE_RING_HDR + (size_t)entries * r->s->ring.stride;

	r->next = r->s->ring;
	r->next.entries = entries;
	r->next.hdr = calloc(1, bytes);
	assert_non_null(r->next.hdr);
	r->next.slots = (uint8_t *)r->next.hdr + UROCE_RING_HDR;
	r->to = r->s->srq.rq;
	r->to.hdr = r->next.hdr;
	r->to.slots = r->next.slots;
	r->to.mask = entries - 1;
	assert_true(srq_look(&r->s->srq, &r->head, &r->prod));
	srq_copy(&r->s->srq, &r->to, r->head, r->prod);
}

/* Then the client continues in the new ring. The old one is not used any more. */
static void
resize_end(struct resize *r)
{
	free(r->old);
	r->old = r->s->ring.hdr;
	srq_switch(&r->s->srq, &r->to, r->prod);
	memset(r->s->ring.slots, 0xee, (size_t)r->s->ring.entries * r->s->ring.stride);
	r->s->ring = r->next;
}

static void
resize_to(struct resize *r, uint32_t entries)
{
	resize_begin(r, entries);
	resize_end(r);
}

static void
post_many(struct resize *r, uint64_t first, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		srq_post(r->s, first + i, (uint32_t)(first + i) % 64 * 64, 64);
}

/* A SEND takes the WQE with this id, and its bytes arrive at that WQE's address. */
static void
expect_taken(struct resize *r, uint64_t id)
{
	uint32_t off = (uint32_t)id % 64 * 64;

	peer_send(r->c, WIRE_OP_SEND_ONLY, r->psn++, (uint32_t)id % 997, 33);
	recv_cqe(r->c, id, QP_WC_SUCCESS);
	assert_memory_equal(r->s->mem->bytes + off, bench_bytes + id % 997, 33);
	assert_int_equal(r->s->ring.hdr->cons, r->s->srq.head);
}

static void
take_many(struct resize *r, uint64_t first, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		expect_taken(r, first + i);
}

/*
 * Larger and smaller rings; empty, full and partly filled; starting at other slots than the first.
 */
REQUIREMENT("SRQ-01")
BENCH_TEST(resize_keeps_posted_wqes)
{
	static const uint32_t sizes[] = {8, 32, 4, 1, 2, 64, 8, 8, 16};
	uint32_t i, waiting, k;

	for (waiting = 0; waiting <= 4; waiting++) {
		struct resize r = resize_open(state, 8);
		uint64_t posted = 100, taken = 100;

		post_many(&r, posted, 5); /* the oldest WQE is not in the first slot */
		posted += 5;
		take_many(&r, taken, 5);
		taken += 5;
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			k = waiting < sizes[i] ? waiting : sizes[i];
			k = k < r.s->ring.entries ? k : r.s->ring.entries;
			while (posted - taken > k)
				expect_taken(&r, taken++);
			post_many(&r, posted, k - (uint32_t)(posted - taken));
			posted = taken + k;
			resize_to(&r, sizes[i]);
			/* All of its slots can be used, and no more is there than was. */
			post_many(&r, posted, sizes[i] - k);
			posted = taken + sizes[i];
			take_many(&r, taken, sizes[i] - 1);
			taken = posted - 1;
		}
		resize_close(&r);
		assert_int_equal(bench_teardown(state), 0);
		bench_setup(state);
	}
}

/* The worker takes WQEs while the control thread copies: these do not appear again. */
REQUIREMENT("SRQ-01")
BENCH_TEST(resize_works_while_wqes_are_outstanding)
{
	uint32_t n;

	for (n = 0; n <= 6; n++) {
		struct resize r = resize_open(state, 8);

		post_many(&r, 1, 6);
		resize_begin(&r, 16);
		take_many(&r, 1, n);
		resize_end(&r);
		assert_int_equal(r.s->ring.hdr->cons, n);
		assert_int_equal(r.s->ring.hdr->prod, 6);
		post_many(&r, 7, 3);
		take_many(&r, 1 + n, 9 - n);
		peer_send(r.c, WIRE_OP_SEND_ONLY, r.psn, 0, 8);
		cqe_none(r.c);
		assert_int_equal(OBS(r.c, RSP_RNR_NAK), 1); /* empty now */
		resize_close(&r);
		assert_int_equal(bench_teardown(state), 0);
		bench_setup(state);
	}
}

/* A message in progress keeps its WQE, whatever happens to its slot. */
REQUIREMENT("SRQ-01")
BENCH_TEST(resize_works_within_a_message)
{
	struct resize r = resize_open(state, 4);

	srq_post(r.s, 1, 0, 4096);
	srq_post(r.s, 2, 4096, 64);
	peer_send(r.c, WIRE_OP_SEND_FIRST, RQ, 0, 1024);
	bench_run(r.b);
	resize_to(&r, 1);
	peer_send(r.c, WIRE_OP_SEND_LAST, RQ + 1, 1024, 50);
	assert_int_equal(recv_cqe(r.c, 1, QP_WC_SUCCESS).byte_len, 1074);
	assert_memory_equal(r.s->mem->bytes, bench_bytes, 1074);
	peer_send(r.c, WIRE_OP_SEND_ONLY, RQ + 2, 5, 50);
	recv_cqe(r.c, 2, QP_WC_SUCCESS);
	resize_close(&r);
}

/* Free-running indices pass 2^32 among the posted WQEs. */
REQUIREMENT("SRQ-01")
BENCH_TEST(resize_works_when_the_indices_wrap)
{
	struct resize r = resize_open(state, 8);

	r.s->srq.head = r.s->ring.prod = r.s->ring.hdr->prod = UINT32_MAX - 2;
	post_many(&r, 1, 7);
	resize_to(&r, 16);
	post_many(&r, 8, 9);
	resize_to(&r, 32);
	take_many(&r, 1, 16);
	assert_int_equal(r.s->srq.head, 13);
	resize_close(&r);
}

REQUIREMENT("SRQ-01", "EVT-10")
BENCH_TEST(resize_keeps_the_limit)
{
	struct resize r = resize_open(state, 8);

	post_many(&r, 1, 4);
	r.s->srq.limit = 3;
	resize_to(&r, 32);
	take_many(&r, 1, 1);
	event_none(r.b);
	take_many(&r, 2, 1);
	event_expect(r.b, QP_EVENT_SRQ_LIMIT_REACHED);
	resize_close(&r);
}

/* A ring with more WQEs than it can hold, or of an SRQ in error, is not copied. */
REQUIREMENT("SRQ-01", "EVT-09")
BENCH_TEST(corrupt_ring_is_not_copied_by_a_resize)
{
	struct resize r = resize_open(state, 8);
	uint32_t head, prod;

	post_many(&r, 1, 8);
	assert_true(srq_look(&r.s->srq, &head, &prod));
	assert_int_equal(prod - head, 8);
	r.s->ring.hdr->prod = 9;
	assert_false(srq_look(&r.s->srq, &head, &prod));
	r.s->ring.hdr->prod = UINT32_MAX;
	assert_false(srq_look(&r.s->srq, &head, &prod));
	r.s->ring.hdr->prod = 8;
	r.s->srq.dead = true;
	assert_false(srq_look(&r.s->srq, &head, &prod));
	resize_close(&r);
}
