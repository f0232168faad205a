/* SPDX-License-Identifier: BSD-3-Clause */
/* The doorbell rings of many clients: an iteration looks at a bounded number of them. */
#include <string.h>
#include <sys/mman.h>
#include "worker/worker_parts.h"
#include "../../kit/unit.h"

#define RINGS 300u
#define BOUND 64u /* rings of an iteration */
#define SCANS 8u  /* parts of scans of an iteration: 64 queue pairs each, of 512 doorbells */

static struct worker w;
static struct worker_doorbell bells[RINGS];
static struct uroce_db_ring rings[RINGS];
static uint32_t rang[RINGS + 1]; /* doorbells by QPN */
static unsigned scans;           /* calls of scan */

struct qp *
engine_doorbell(struct engine *e, uint32_t qpn)
{
	rang[qpn]++;
	return NULL;
}

void
hot_queue_rang(struct worker *self, struct qp *qp)
{
}

void
worker_call(struct worker *self, void (*fn)(struct worker *w, void *arg), void *arg)
{
	fn(self, arg);
}

/* A context with so many QPs that no scan ends. */
static bool
scan(struct worker *self, void *ctx, bool first)
{
	scans++;
	return true;
}

static int
setup(void **state)
{
	memset(&w, 0, sizeof(w));
	memset(bells, 0, sizeof(bells));
	memset(rings, 0, sizeof(rings));
	memset(rang, 0, sizeof(rang));
	for (uint32_t i = 0; i < RINGS; i++) {
		bells[i].ring = &rings[i];
		bells[i].waiter = &rings[i].waiter;
		bells[i].overflow = scan;
	}
	w.doorbells = bells;
	w.ndoorbells = RINGS;
	return 0;
}

static void
ring(uint32_t i)
{
	rings[i].qpn[rings[i].prod++ % UROCE_DB_ENTRIES] = i + 1;
}

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

/* Silent clients cost an iteration no more than BOUND looks, and the one that rings is found. */
TEST(silent_rings_are_looked_at_in_turn)
{
	uint32_t i, n;

	ring(RINGS - 1);
	for (i = 0; i < RINGS / BOUND; i++) {
		assert_true(doorbell_waits(&w)); /* no sleep until then */
		assert_int_equal(doorbell_poll(&w), 0);
	}
	assert_int_equal(doorbell_poll(&w), 1);
	assert_int_equal(rang[RINGS], 1);
	assert_false(doorbell_waits(&w));
	/* A ring waits for its turn, however often others ring. */
	doorbell_poll(&w);
	ring(0);
	for (n = 0; rang[1] == 0; n++) {
		for (i = 1; i < RINGS; i++)
			ring(i);
		doorbell_poll(&w);
	}
	assert_true(n <= RINGS / BOUND + 1);
}

/* Each of them has its turn. */
TEST(all_rings_are_read)
{
	uint32_t i;

	for (i = 0; i < RINGS; i++)
		ring(i);
	for (i = 0; i < RINGS / BOUND + 1; i++)
		assert_true(doorbell_poll(&w) <= BOUND);
	for (i = 1; i <= RINGS; i++)
		assert_int_equal(rang[i], 1);
	assert_false(doorbell_waits(&w));
}

/* Few rings: each is read in each iteration. */
TEST(few_rings_are_all_read_at_once)
{
	uint32_t i, k;

	w.ndoorbells = 3;
	for (k = 1; k <= 6; k++) {
		for (i = 0; i < 3; i++)
			ring(i);
		assert_int_equal(doorbell_poll(&w), 3);
		for (i = 1; i <= 3; i++)
			assert_int_equal(rang[i], k);
	}
}

/* A client writes all that it may write, at any time: its doorbells are lost again and again. */
static void
storm(uint32_t i)
{
	rings[i].overflow = 1;
	rings[i].prod += 3 * UROCE_DB_ENTRIES;
}

/* It costs an iteration one part of a scan, and another client's doorbell is read in the same. */
TEST(storm_of_one_client_is_one_scan_in_an_iteration)
{
	w.ndoorbells = 2;
	for (unsigned i = 1; i <= 100; i++) {
		storm(0);
		ring(1);
		doorbell_poll(&w);
		assert_int_equal(scans, i);
		assert_int_equal(rang[2], i);
	}
}

/* An iteration has room for some scans of all clients together, and each ring has its turn. */
TEST(storm_of_many_contexts_is_a_bounded_number_of_scans)
{
	unsigned turns = RINGS / SCANS + 1, before;

	ring(RINGS - 1);
	for (unsigned n = 0; n < 10 * turns; n++) {
		for (uint32_t i = 0; i < RINGS - 1; i++)
			storm(i);
		before = scans;
		doorbell_poll(&w);
		assert_in_range(scans - before, 1, SCANS);
		if (n == turns)
			assert_int_equal(rang[RINGS], 1);
	}
}

/* Looking at the rings of idle contexts writes nothing to them: it would end with a SIGSEGV. */
TEST(silent_rings_are_not_written)
{
	size_t len = RINGS * sizeof(struct uroce_db_ring);
	struct uroce_db_ring *silent =
		mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(silent != MAP_FAILED);
	for (uint32_t i = 0; i < RINGS; i++) {
		bells[i].ring = &silent[i];
		bells[i].waiter = &silent[i].waiter;
	}
	for (uint32_t i = 0; i <= RINGS / BOUND; i++)
		assert_int_equal(doorbell_poll(&w), 0);
	assert_false(doorbell_waits(&w));
	waiters_release(&w);
	munmap(silent, len);
}
