/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce-bench latency --breakdown: stamps of both ends become times of steps. */
#include <stdlib.h>
#include <string.h>
#include "breakdown.h"
#include "test/kit/unit.h"

#define TRIPS  100u
#define PERIOD 10000u /* cycles from one round trip to the next */
#define ROOM   (TRIPS * 16)

void
bench_die(const char *fmt, ...)
{
	abort();
}

/* The stamps of both ends, in the order in which each of their threads writes them. */
static struct {
	struct stamp client[2][ROOM], worker[2][ROOM];
	uint32_t nclient[2], nworker[2];
} all;
static struct breakdown b;

static void
stamp(unsigned e, enum stamp_kind kind, uint32_t n, uint64_t tsc)
{
	bool client = kind == STAMP_POST || kind == STAMP_POSTED || kind == STAMP_POLLED;
	struct stamp s = {.tsc = tsc, .n = n, .cpu = client ? 3 : 5, .kind = (uint16_t)kind};

	if (client)
		all.client[e][all.nclient[e]++] = s;
	else
		all.worker[e][all.nworker[e]++] = s;
}

/* Step k of half h of round trip n takes this many cycles. */
static uint64_t
length(uint32_t h, uint32_t k, uint32_t n)
{
	return 10 * (k + 1) + 100 * h + n;
}

/* A round trip in which each step takes length(). */
static void
trip(uint32_t n)
{
	uint64_t tsc = 1000 + (uint64_t)n * PERIOD;

	for (uint32_t i = 0; i < 2 * STAMP_KINDS; i++) {
		uint32_t h = i / STAMP_KINDS, k = i % STAMP_KINDS;

		stamp(k < STAMP_RECEIVED ? h : 1 - h, k, n, tsc);
		tsc += length(h, k, n);
	}
}

static void
add(double ns_per_cycle)
{
	struct breakdown_end end[2];

	for (unsigned e = 0; e < 2; e++)
		end[e] = (struct breakdown_end){all.client[e], all.worker[e], all.nclient[e],
						all.nworker[e]};
	breakdown_add(&b, end, TRIPS, ns_per_cycle);
}

static int
setup(void **state)
{
	memset(&all, 0, sizeof(all));
	memset(&b, 0, sizeof(b));
	return 0;
}

/* Within the resolution of the histogram. */
static void
near(double value, double expected)
{
	assert_true(value > expected * 0.99 - 1 && value < expected * 1.01 + 1);
}

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

TEST(each_step_has_its_time_and_all_are_the_round_trip)
{
	double sum = 0;

	for (uint32_t n = 0; n < TRIPS; n++)
		trip(n);
	add(2.0);
	assert_int_equal(b.incomplete, 0);
	assert_int_equal(b.total.n, TRIPS);
	for (uint32_t i = 0; i < 2 * STAMP_KINDS - 1; i++) {
		uint32_t h = i / STAMP_KINDS, k = i % STAMP_KINDS;

		assert_int_equal(b.step[h][k].n, TRIPS);
		near(client_hist_at(&b.step[h][k], 0.5), 2.0 * (double)length(h, k, TRIPS / 2));
		near(client_hist_at(&b.step[h][k], 0.99), 2.0 * (double)length(h, k, 99));
		sum += b.step_ns[h][k];
	}
	assert_int_equal(b.step[1][STAMP_POLLED].n, 0); /* the next round trip's */
	assert_true(sum > b.total_ns - 1 && sum < b.total_ns + 1);
	assert_int_equal(b.cpu[0][0], 1u << 5);
	assert_int_equal(b.cpu[1][1], 1u << 3);
	assert_int_equal(b.beside[0], 0);
}

static struct stamp *
find(unsigned e, enum stamp_kind kind, uint32_t n)
{
	for (uint32_t i = 0; i < all.nworker[e]; i++) {
		if (all.worker[e][i].kind == kind && all.worker[e][i].n == n)
			return &all.worker[e][i];
	}
	fail();
	return NULL;
}

/* The kernel delivers a frame within the send call, which returns when the peer has it already. */
TEST(call_that_returns_late_counts_until_the_next_step)
{
	for (uint32_t n = 0; n < TRIPS; n++) {
		trip(n);
		find(0, STAMP_SENT, n)->tsc += 5000;
	}
	add(1.0);
	assert_int_equal(b.incomplete, 0);
	/* as long as both together, and the wire takes no time */
	near(client_hist_at(&b.step[0][STAMP_SEND], 0.5),
	     (double)(length(0, STAMP_SEND, TRIPS / 2) + length(0, STAMP_SENT, TRIPS / 2)));
	assert_true(client_hist_at(&b.step[0][STAMP_SENT], 1) == 0);
	near(client_hist_at(&b.step[1][STAMP_SENT], 0.5), (double)length(1, STAMP_SENT, TRIPS / 2));
}

TEST(round_trip_without_a_stamp_is_left_out)
{
	for (uint32_t n = 0; n < TRIPS; n++)
		trip(n);
	find(1, STAMP_PLACED, 7)->n = TRIPS; /* beyond the last one: of no round trip */
	find(0, STAMP_TAKEN, 9)->kind = STAMP_SLEPT;
	add(1.0);
	assert_int_equal(b.incomplete, 2);
	assert_int_equal(b.total.n, TRIPS - 2);
	assert_int_equal(b.step[0][STAMP_POST].n, TRIPS - 2);
}

/* Waits count as far as they are within a round trip; those before the first post do not. */
TEST(waits_belong_to_the_round_trip_in_which_they_end)
{
	struct stamp last;

	stamp(0, STAMP_SLEPT, 400, 900);
	for (uint32_t n = 0; n < TRIPS; n++) {
		trip(n);
		if (n % 4 != 0)
			continue;
		last = all.worker[0][--all.nworker[0]];
		stamp(0, STAMP_YIELDED, 30, 1000 + (uint64_t)n * PERIOD + 500);
		stamp(0, STAMP_SLEPT, 5000, 1000 + (uint64_t)n * PERIOD + 600);
		all.worker[0][all.nworker[0]++] = last;
	}
	add(1.0);
	assert_int_equal(b.incomplete, 0);
	assert_int_equal(b.waited[0][BREAKDOWN_YIELDED], TRIPS / 4);
	assert_int_equal(b.waited_ns[0][BREAKDOWN_YIELDED], TRIPS / 4 * 30);
	assert_int_equal(b.waited[0][BREAKDOWN_SLEPT], TRIPS / 4);
	assert_int_equal(b.waited_ns[0][BREAKDOWN_SLEPT], TRIPS / 4 * 600);
	assert_int_equal(b.waited[0][BREAKDOWN_WOKE], 0);
	assert_int_equal(b.waited[1][BREAKDOWN_SLEPT], 0);
}
