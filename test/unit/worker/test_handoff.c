/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-pressure between workers: handoff.c alone, with a clock that the test sets. */
#include <stdlib.h>
#include <string.h>
#include "worker/worker_parts.h"
#include "../../kit/unit.h"

#define HIGH    (WORKER_RING_FRAMES / 2)
#define LOW     (WORKER_RING_FRAMES / 4)
#define WAIT_NS 10000000ull /* handoff.c's FULL_WAIT_NS */

static struct {
	struct worker_set ws;
	struct worker worker[3]; /* the first one hands frames over */
	struct rte_mbuf frame;
} * t;

/* --- of other files: nothing here moves, and no engine runs --- */

bool
move_keeps(struct worker *w, uint32_t worker, uint32_t qpn, struct rte_mbuf *m)
{
	return false;
}

void
move_stray(struct worker *w, const struct rte_mbuf *m, uint32_t worker, uint32_t qpn)
{
}

void
move_asked(struct worker *w, const void *message)
{
}

void
captured_rx(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
}

void
worker_count_rx(struct counter_block *counters, struct rte_mbuf *const *m, unsigned n)
{
}

void
engine_rx(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
}

void
engine_rx_extra(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf *m)
{
}

void
engine_rx_loopback(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
}

bool
engine_own(const struct engine *e, struct rte_mbuf *m)
{
	return true;
}

/* --- */

static int
setup(void **state)
{
	size_t bytes = (size_t)rte_ring_get_memsize(WORKER_RING_FRAMES);

	t = calloc(1, sizeof(*t));
	assert_non_null(t);
	t->ws.n = 3;
	for (unsigned i = 0; i < 3; i++) {
		struct worker *w = &t->worker[i];

		t->ws.worker[i] = w;
		w->ws = &t->ws;
		w->index = i;
		w->now_ns = 1;
		w->in = aligned_alloc(RTE_CACHE_LINE_SIZE, bytes);
		assert_int_equal(rte_ring_init(w->in, "in", WORKER_RING_FRAMES,
					       RING_F_MP_RTS_ENQ | RING_F_SC_DEQ),
				 0);
	}
	return 0;
}

static int
teardown(void **state)
{
	for (unsigned i = 0; i < 3; i++)
		free(t->worker[i].in);
	free(t);
	return 0;
}

/* Hands n frames over to worker `to`. */
static void
hand(uint32_t to, uint32_t n)
{
	while (n-- != 0)
		handoff_to(&t->worker[0], to, 7, &t->frame);
}

/* Worker i takes all frames but n. */
static void
take_to(uint32_t i, uint32_t n)
{
	void *m;

	while (rte_ring_count(t->worker[i].in) > n)
		assert_int_equal(rte_ring_dequeue(t->worker[i].in, &m), 0);
}

static bool
waits(void)
{
	return handoff_waits(&t->worker[0]);
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

TEST(waits_from_half_full_to_a_quarter)
{
	hand(1, HIGH - 1);
	assert_false(waits());
	hand(1, 1);
	assert_true(waits());
	take_to(1, LOW + 1);
	assert_true(waits());
	take_to(1, LOW);
	assert_false(waits());
	assert_int_equal(t->worker[0].full.full, 0);
	hand(1, HIGH - LOW - 1);
	assert_false(waits());
	hand(1, 1);
	assert_true(waits());
	assert_int_equal(t->worker[0].poke, 1u << 1);
}

TEST(a_stuck_worker_is_waited_for_once)
{
	struct worker *w = &t->worker[0];

	hand(1, HIGH);
	w->now_ns += WAIT_NS - 1;
	assert_true(waits());
	w->now_ns++;
	assert_false(waits());
	hand(1, LOW); /* frames are passed on as long as there is space, without a second wait */
	assert_false(waits());
	take_to(1, LOW + 1);
	hand(1, HIGH);
	assert_false(waits());
	/* it runs again */
	take_to(1, LOW);
	assert_false(waits());
	hand(1, HIGH);
	assert_true(waits());
	w->now_ns += WAIT_NS - 1;
	assert_true(waits());
}

TEST(a_stuck_worker_does_not_make_others_waited_for_longer)
{
	hand(1, HIGH);
	t->worker[0].now_ns += WAIT_NS;
	assert_false(waits());
	for (unsigned i = 0; i < 10; i++) {
		hand(2, HIGH);
		assert_true(waits());
		take_to(2, 0);
		assert_false(waits());
	}
}

TEST(waits_for_all_that_are_slow)
{
	hand(1, HIGH);
	hand(2, HIGH);
	take_to(1, 0);
	assert_true(waits());
	take_to(2, 0);
	assert_false(waits());
}

TEST(waits_for_the_answer_while_it_keeps_frames)
{
	struct worker *w = &t->worker[0];

	w->move.nframes = HIGH;
	handoff_full(w, w->index);
	assert_true(waits());
	w->move.nframes = 0; /* move_receive_kept */
	assert_false(waits());
	w->move.nframes = HIGH;
	handoff_full(w, w->index);
	w->now_ns += WAIT_NS;
	assert_false(waits());
	w->move.nframes = 0;
}
