/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock of the workers, and one rte_timer for each QP. The timer is armed when the earliest
 * deadline of the QP (qp/deadline.h) is before the timer's expiry. A deadline that moves later does
 * not touch the timer: it expires early, and the engine arms it again. A packet therefore costs no
 * timer operation. A paced QP waits on the run list of the engine instead; only a worker that goes
 * to sleep has to read that time.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <rte_cycles.h>
#include <rte_timer.h>
#include "qp/lines.h"
#include "worker/worker_parts.h"

/* a * b >> 32 in 96 bits */
static uint64_t
mul_shift32(uint64_t a, uint64_t b)
{
	return (a >> 32) * b + (((a & UINT32_MAX) * b) >> 32);
}

/* Nanoseconds per cycle and cycles per nanosecond, times 2^32. Set once, before workers start. */
static struct {
	uint64_t ns_per_cycle, cycles_per_ns, start_cycles;
} clock_rate;

int
timer_init(void)
{
	uint64_t hz = rte_get_timer_hz();
	int rc = rte_timer_subsystem_init();

	if (rc != 0 && rc != -EALREADY)
		return rc;
	clock_rate.ns_per_cycle = ((uint64_t)NS_PER_S << 32) / hz;
	clock_rate.cycles_per_ns = (uint64_t)((double)hz / (double)NS_PER_S * 4294967296.0);
	clock_rate.start_cycles = rte_get_timer_cycles();
	return 0;
}

uint64_t
timer_now_ns(void)
{
	/* Never 0, which means "not set" in deadlines. */
	return 1 + mul_shift32(rte_get_timer_cycles() - clock_rate.start_cycles,
			       clock_rate.ns_per_cycle);
}

/*
 * Timers handled in an iteration. A client's QPs may all lose their peer at once, and the others'
 * packets would wait for all of their retransmissions. Those that are left wait in w->due.
 */
#define TIMERS_MOST 64

struct qp_timer {
	struct rte_timer t;
	struct qp *qp;
	TAILQ_ENTRY(qp_timer) link; /* if due: in w->due */
	bool due;
};

/* The worker of this thread, while rte_timer_manage runs. */
static __thread struct worker *polling;

static void
expired(struct rte_timer *timer, void *arg)
{
	struct qp_timer *t = arg;

	if (t->due)
		return;
	t->due = true;
	TAILQ_INSERT_TAIL(&polling->due, t, link);
}

void
timer_set(void *ctx, struct qp *qp, uint64_t at_ns)
{
	struct qp_timer *t = qp->bind.timer;
	struct worker *w = ctx;
	uint64_t wait_ns = 0;

	if (at_ns > w->now_ns)
		wait_ns = at_ns - w->now_ns;
	/* Rounded down, plus one tick: never before the deadline. */
	if (rte_timer_reset(&t->t, mul_shift32(wait_ns, clock_rate.cycles_per_ns) + 1, SINGLE,
			    w->lcore, expired, t) == 0)
		qp->bind.timer_at_ns = at_ns;
}

unsigned
timer_poll(struct worker *w)
{
	unsigned n = 0;
	struct qp_timer *t;

	polling = w;
	rte_timer_manage();
	for (; n < TIMERS_MOST && (t = TAILQ_FIRST(&w->due)) != NULL; n++) {
		TAILQ_REMOVE(&w->due, t, link);
		t->due = false;
		engine_timer(&w->engine, w->now_ns, t->qp);
	}
	return n;
}

uint64_t
timer_next_ns(const struct worker *w)
{
	int64_t ticks = rte_timer_next_ticks();
	uint64_t ns = UINT64_MAX, at_ns = engine_next_ns(&w->engine), now_ns;

	if (!TAILQ_EMPTY(&w->due))
		return 0;
	if (ticks >= 0)
		ns = mul_shift32((uint64_t)ticks, clock_rate.ns_per_cycle);
	if (at_ns == UINT64_MAX)
		return ns;
	now_ns = timer_now_ns();
	return RTE_MIN(ns, at_ns > now_ns ? at_ns - now_ns : 0);
}

int
worker_adopt_qp(struct worker *w, struct qp *qp)
{
	struct qp_timer *t = qp_lines_zalloc(sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	rte_timer_init(&t->t);
	t->qp = qp;
	qp->bind.timer = t;
	qp->bind.timer_at_ns = 0;
	return 0;
}

static void
last_turn(struct worker *w, struct qp *qp)
{
	const struct qp_env *env = &w->engine.env;
	uint32_t first = env->tx_n;

	engine_last_turn(&w->engine, w->now_ns, qp);
	if (w->ncaps != 0)
		captured_sent(w, env->tx + first, env->tx_n - first);
}

void
worker_send_posted(struct worker *w, struct qp *qp)
{
	last_turn(w, qp);
	engine_wake(&w->engine, qp); /* its next turn arms the doorbell */
}

void
timer_leave(struct worker *w, struct qp *qp)
{
	struct qp_timer *t = qp->bind.timer;

	rte_timer_stop(&t->t);
	if (t->due)
		TAILQ_REMOVE(&w->due, t, link);
	t->due = false;
}

void
worker_forget_qp(struct worker *w, struct qp *qp)
{
	move_forget(w, qp);
	last_turn(w, qp);
	engine_forget(&w->engine, qp);
	hot_queue_forget(w, qp);
	if (qp->bind.timer == NULL)
		return;
	timer_leave(w, qp);
	free(qp->bind.timer);
	qp->bind.timer = NULL;
	qp->bind.timer_at_ns = 0;
}
