/* SPDX-License-Identifier: BSD-3-Clause */
/* Copier, daemon side: a worker's wait for a job. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "map/copier_area.h"
#include "sched/relax.h"

#define WAIT_ALL_NS 10000000u /* limit including time in which other threads ran */
#define SPIN_NS     2000      /* spin before sleeping, if the thread is not urgent */
#define NAP_NS      1000000   /* longest sleep */
#define LOOK_NS     5000u /* most time charged between two polls; other threads ran in the rest */
#define SPINS       8u    /* polls per clock read */

static void
sleep_on_slot(struct copy_slot *slot, uint32_t state)
{
	const struct timespec limit = {.tv_nsec = NAP_NS};

	__atomic_store_n(&slot->waits, 1, __ATOMIC_RELAXED);
	/* Partner: copier_serve.c, serve_slot. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	syscall(SYS_futex, &slot->state, FUTEX_WAIT, state, &limit, NULL, 0);
}

/* The part of the last took_ns, in which the worker slept, during which the thread had the job. */
static int64_t
begun_part(const struct copy_slot *slot, uint64_t now, uint64_t took_ns)
{
	uint64_t begun = __atomic_load_n(&slot->begun_ns, __ATOMIC_RELAXED);
	uint64_t ended = __atomic_load_n(&slot->ended_ns, __ATOMIC_RELAXED);

	if (ended == 0)
		ended = now;
	if (begun == 0 || begun >= ended)
		return 0;
	return (int64_t)(ended - begun < took_ns ? ended - begun : took_ns);
}

bool
copier_await(const struct copier_area *a, struct copy_slot *slot, int64_t limit_ns, uint64_t *now,
	     int64_t *cost_ns)
{
	bool urgent = __atomic_load_n(&a->urgent, __ATOMIC_RELAXED) != 0, slept = false;
	bool here = __atomic_load_n(&a->bound, __ATOMIC_RELAXED) == slot->cpu + 1;
	uint64_t from = *now, took;
	uint32_t state = COPY_ASKED, before;

	*cost_ns = 0;
	for (uint32_t n = 1;; n++) {
		before = state;
		state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
		if (state != COPY_DONE && n % SPINS != 0 && !slept && !here) {
			sched_relax();
			continue;
		}
		took = copier_now_ns() - *now;
		*now += took;
		if (before == COPY_BEGUN)
			*cost_ns += (int64_t)(slept || took < LOOK_NS ? took : LOOK_NS);
		else if (slept)
			*cost_ns += begun_part(slot, *now, took);
		if (state == COPY_DONE)
			return true;
		if (*cost_ns >= limit_ns || *now - from >= WAIT_ALL_NS)
			return false;
		slept = !urgent && (here || *now - from >= SPIN_NS);
		if (slept)
			sleep_on_slot(slot, state);
	}
}
