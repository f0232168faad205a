/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce-bench client: what counts as moved, and percentiles. */
#include <stdlib.h>
#include <string.h>
#include "client.h"
#include "../../kit/unit.h"

#define SLOTS  8
#define STRIDE 128
#define SEED   77

static uint8_t from[SLOTS * STRIDE], to[SLOTS * STRIDE];

static struct client
client_of(enum bench_op op, uint32_t size, uint32_t qps)
{
	struct client c = {
		.plan = {.op = op, .size = size, .qps = qps},
		.from = from,
		.to = to,
		.slots = SLOTS,
		.stride = STRIDE,
		.has = {true, true},
	};

	client_pattern(&c, SEED);
	return c;
}

static void
move(struct client *c, uint32_t slot)
{
	memcpy(c->to + slot * STRIDE, c->from + slot * STRIDE, c->plan.size);
}

UNIT_TEST(no_message_is_not_taken_for_all_messages)
{
	struct client c = client_of(BENCH_WRITE, 100, 1);

	assert_true(client_verify(&c, SEED, 0));
	assert_false(client_verify(&c, SEED, 1));
	move(&c, 3);
	assert_true(client_verify(&c, SEED, 1));
	assert_false(client_verify(&c, SEED, 2));
}

UNIT_TEST(every_message_has_its_slot)
{
	struct client c = client_of(BENCH_READ, STRIDE, 2);

	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_false(client_verify(&c, SEED, 2000));
		move(&c, i);
	}
	assert_true(client_verify(&c, SEED, 2000));
}

UNIT_TEST(one_wrong_byte_is_detected)
{
	struct client c = client_of(BENCH_SEND, 61, 1);

	for (uint32_t i = 0; i < SLOTS; i++)
		move(&c, i);
	assert_true(client_verify(&c, SEED, SLOTS));
	for (uint32_t i = 0; i < 61; i++) {
		c.to[5 * STRIDE + i] ^= 1;
		assert_false(client_verify(&c, SEED, SLOTS));
		c.to[5 * STRIDE + i] ^= 1;
	}
	/* a byte that was not written counts as wrong, too */
	c.to[5 * STRIDE + 60] ^= 0xff;
	assert_false(client_verify(&c, SEED, SLOTS));
}

UNIT_TEST(bytes_of_another_run_or_slot_are_detected)
{
	struct client c = client_of(BENCH_WRITE, 64, 1);

	for (uint32_t i = 0; i < SLOTS; i++)
		move(&c, i);
	assert_false(client_verify(&c, SEED + 1, SLOTS));
	memcpy(c.to + STRIDE, c.from, 64);
	assert_false(client_verify(&c, SEED, SLOTS));
}

UNIT_TEST(atomics_are_counted)
{
	struct client c = client_of(BENCH_ATOMIC, 8, 3);

	assert_true(client_verify(&c, SEED, 0));
	c.to[0] = 200;
	c.to[STRIDE] = 55;
	assert_true(client_verify(&c, SEED, 255));
	assert_false(client_verify(&c, SEED, 254));
	assert_false(client_verify(&c, SEED, 256));
}

UNIT_TEST(side_that_receives_nothing_has_nothing_to_verify)
{
	struct client c = client_of(BENCH_WRITE, 64, 1);

	c.has[1] = false;
	assert_true(client_verify(&c, SEED, 1000));
	c.plan.op = BENCH_READ;
	assert_false(client_verify(&c, SEED, 1000));
}

UNIT_TEST(percentiles_are_those_of_the_samples)
{
	static struct client_hist h, other;

	assert_true(client_hist_at(&h, 0.5) == 0);
	assert_true(client_hist_low(&h) == 0);
	for (uint32_t i = 1; i <= 100; i++)
		client_hist_add(i % 2 != 0 ? &h : &other, i);
	client_hist_merge(&h, &other);
	assert_int_equal(h.n, 100);
	assert_true(client_hist_at(&h, 0.5) == 51);
	assert_true(client_hist_at(&h, 0.99) == 100);
	assert_true(client_hist_at(&h, 0) == 1);
	assert_true(client_hist_at(&h, 1) == 100);
	assert_true(client_hist_low(&h) == 25.5);
}

UNIT_TEST(histogram_keeps_values_to_one_part_in_128)
{
	for (uint64_t ns = 1; ns < UINT32_MAX; ns = ns * 3 / 2 + 1) {
		struct client_hist *h = calloc(1, sizeof(*h));
		double at;

		assert_non_null(h);
		client_hist_add(h, ns);
		at = client_hist_at(h, 0.5);
		assert_true(at >= (double)ns * (1 - 1.0 / 128));
		assert_true(at <= (double)ns * (1 + 1.0 / 128));
		free(h);
	}
}

UNIT_TEST(values_beyond_the_histogram_count_in_its_last_bucket)
{
	static struct client_hist h;

	client_hist_add(&h, UINT64_MAX);
	assert_true(client_hist_at(&h, 1) > 4.2e9);
}
