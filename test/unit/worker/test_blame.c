/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose memory a worker waits for: accounts, the thread that looks, and the engines' pauses. */
#include <fcntl.h>
#include <pthread.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <rte_eal.h>
#include "map/sigbus.h"
#include "worker/worker_parts.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

#define MS     1000000ull
#define S      1000000000ull
#define USER   7
#define HANG_S 120 /* ends a test that hangs */

/* ---- accounts ---- */

UNIT_TEST(waits_within_the_credit_cost_nothing)
{
	struct blame_account a = {0};
	uint64_t now = 5;

	assert_int_equal(blame_charge(&a, now, BLAME_BURST_NS), 0);
	/* A part of the time, forever. */
	for (unsigned i = 0; i < 1000; i++) {
		now += MS * BLAME_PART;
		assert_int_equal(blame_charge(&a, now, MS), 0);
	}
	/* No more than the burst is saved up. */
	now += 1000 * S;
	assert_int_equal(blame_charge(&a, now, BLAME_BURST_NS), 0);
	assert_true(blame_charge(&a, now, 1) != 0);
}

UNIT_TEST(a_pause_lasts_until_the_debt_is_paid)
{
	struct blame_account a = {0};
	uint64_t now = 5, until = blame_charge(&a, now, BLAME_BURST_NS + 100 * MS);

	assert_int_equal(until, now + 100 * MS * BLAME_PART);
	/* One that goes on is added. */
	assert_int_equal(blame_charge(&a, now, MS), until + MS * BLAME_PART);
	until += MS * BLAME_PART;
	assert_int_equal(blame_charge(&a, until, 0), 0);
	/* It has a shortest and a longest time. */
	assert_int_equal(blame_charge(&a, until, 1), until + BLAME_PAUSE_NS);
	assert_int_equal(blame_charge(&a, until, 1000 * S), until + BLAME_DEBT_NS * BLAME_PART);
}

/* ---- the thread, with one worker: a thread that waits in the kernel ---- */

static struct uroce_worker_state state_of;
static struct worker_set set;
static struct worker worker;
static uint32_t events; /* atomic */
static int hold[2];     /* a pipe: the child reads until it is closed */

static uint64_t
real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

/*
 * The thread's clock: a millisecond passes between two looks at it, however long a busy machine
 * lets the thread wait. A pause would otherwise be over, and begin again, before the next look.
 */
static uint64_t clock_ns; /* atomic */
uint64_t
timer_now_ns(void)
{
	return __atomic_add_fetch(&clock_ns, MS, __ATOMIC_RELAXED);
}

/* The clock when the thread first ended a wait; 0: it has not. */
static uint64_t released_ns; /* atomic */
int
sigbus_guard_release(pid_t tid, uint8_t owner)
{
	assert_int_equal(tid, worker.tid);
	assert_int_equal(owner, USER);
	if (released_ns == 0)
		__atomic_store_n(&released_ns, clock_ns, __ATOMIC_RELAXED);
	return 0;
}

void
event_paused(struct worker_set *ws, uint8_t user)
{
	assert_ptr_equal(ws, &set);
	assert_int_equal(user, USER);
	__atomic_fetch_add(&events, 1, __ATOMIC_RELAXED);
}

/* Where the kernel says that the worker waits. */
static const char *waits_at;
int
open(const char *path, int flags, ...)
{
	va_list args;
	int fd;

	if (strstr(path, "/wchan") != NULL) {
		size_t len = strlen(waits_at);

		fd = memfd_create("wchan", MFD_CLOEXEC);
		return fd >= 0 && pwrite(fd, waits_at, len, 0) == (ssize_t)len ? fd : -1;
	}
	va_start(args, flags);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags,
			  (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0);
	va_end(args);
	return fd;
}

/* The caller of vfork waits without being interruptible (state D) until its child has ended. */
static void *
blocked_main(void *arg)
{
	char byte;

	__atomic_store_n(&worker.tid, (uint32_t)rte_gettid(), __ATOMIC_RELEASE);
	if (vfork() == 0) {
		close(hold[1]);
		(void)!read(hold[0], &byte, 1);
		_exit(0);
	}
	return NULL;
}

/* One that can be interrupted (state S). */
static void *
waiting_main(void *arg)
{
	char byte;

	__atomic_store_n(&worker.tid, (uint32_t)rte_gettid(), __ATOMIC_RELEASE);
	(void)!read(hold[0], &byte, 1);
	return NULL;
}

static pthread_t
worker_begin(void *(*run)(void *), uint8_t serves)
{
	pthread_t t;

	memset(&set, 0, sizeof(set));
	memset(&worker, 0, sizeof(worker));
	memset(&state_of, 0, sizeof(state_of));
	events = 0;
	released_ns = 0;
	waits_at = "wait_for_vfork_done";
	set.n = 1;
	set.worker[0] = &worker;
	worker.ws = &set;
	worker.state = &state_of;
	worker.ran_ns = 1;
	worker.engine.env.serves = serves;
	assert_int_equal(pipe(hold), 0);
	assert_int_equal(pthread_create(&t, NULL, run, NULL), 0);
	while (__atomic_load_n(&worker.tid, __ATOMIC_ACQUIRE) == 0)
		poll(NULL, 0, 1);
	return t;
}

static void
worker_end(pthread_t t)
{
	close(hold[1]);
	pthread_join(t, NULL);
	close(hold[0]);
	blame_stop(&set);
}

/* Waits until *at is not 0. */
static uint64_t
comes(const uint64_t *at)
{
	uint64_t end = real_ns() + HANG_S * S, value;

	while ((value = __atomic_load_n(at, __ATOMIC_ACQUIRE)) == 0) {
		assert_true(real_ns() < end);
		poll(NULL, 0, 1);
	}
	return value;
}

/* The thread looks this many times. */
static void
looks_pass(unsigned n)
{
	uint64_t seen = 0, now;

	while (n > 0) {
		now = __atomic_load_n(&set.blame.looked_ns, __ATOMIC_RELAXED);
		n -= now != seen;
		seen = now;
		poll(NULL, 0, 1);
	}
}

UNIT_TEST(a_user_whose_memory_blocks_a_worker_is_paused)
{
	pthread_t t = worker_begin(blocked_main, USER);
	uint64_t until;

	assert_int_equal(worker_blame_start(&set), 0);
	worker_blame_several(&set, true);
	until = comes(&set.blame.paused_until_ns[USER]);
	assert_int_equal(events, 1);
	/* It goes on, and so does the pause; the control thread hears of it once. */
	while (__atomic_load_n(&set.blame.paused_until_ns[USER], __ATOMIC_RELAXED) == until)
		poll(NULL, 0, 1);
	assert_int_equal(events, 1);
	assert_int_equal(set.blame.copies_until_ns, 0);
	worker_end(t);
	for (unsigned i = 0; i < QP_USERS; i++)
		assert_int_equal(set.blame.paused_until_ns[i] != 0, i == USER);
}

/* The control thread: here the one that is blocked, as if it had started all. */
UNIT_TEST(a_user_whose_memory_blocks_the_control_thread_is_paused)
{
	pthread_t t = worker_begin(blocked_main, 0);

	__atomic_store_n(&worker.ran_ns, real_ns() + 1000 * S,
			 __ATOMIC_RELAXED); /* not the worker */
	assert_int_equal(worker_blame_start(&set), 0);
	set.blame.control_tid = worker.tid;
	worker_control_serves(&set, USER);
	worker_blame_several(&set, true);
	comes(&set.blame.paused_until_ns[USER]);
	worker_control_serves(&set, 0);
	looks_pass(3);
	events = 0;
	__atomic_store_n(&set.blame.paused_until_ns[USER], 0, __ATOMIC_RELAXED);
	looks_pass(100);
	worker_end(t);
	assert_int_equal(events, 0);
	assert_int_equal(set.blame.paused_until_ns[USER], 0);
	assert_int_equal(set.blame.copies_until_ns, 0);
}

UNIT_TEST(a_wait_for_unknown_memory_ends_zero_copy)
{
	pthread_t t = worker_begin(blocked_main, 0);

	assert_int_equal(worker_blame_start(&set), 0);
	worker_blame_several(&set, true);
	comes(&set.blame.copies_until_ns);
	worker_end(t);
	for (unsigned i = 0; i < QP_USERS; i++)
		assert_int_equal(set.blame.paused_until_ns[i], 0);
}

/* A pause is of no use to the worker that waits at one hole after the other. */
UNIT_TEST(a_wait_at_holes_that_does_not_end_is_ended)
{
	pthread_t t = worker_begin(blocked_main, USER);
	uint64_t ran_ns = timer_now_ns();

	waits_at = "shmem_fault";
	__atomic_store_n(&worker.ran_ns, ran_ns, __ATOMIC_RELAXED);
	assert_int_equal(worker_blame_start(&set), 0);
	worker_blame_several(&set, true);
	assert_true(comes(&released_ns) - ran_ns >= BLAME_RELEASE_NS);
	assert_true(set.blame.paused_until_ns[USER] != 0);
	assert_false(worker_trusts(&set, USER));
	worker_end(t);
}

/* Such as one for a lock, or for a swap device. */
UNIT_TEST(other_waits_are_not_ended)
{
	pthread_t t = worker_begin(blocked_main, USER);

	assert_int_equal(worker_blame_start(&set), 0);
	worker_blame_several(&set, true);
	comes(&set.blame.paused_until_ns[USER]);
	looks_pass(2 * (BLAME_RELEASE_NS / MS));
	worker_end(t);
	assert_int_equal(released_ns, 0);
	assert_true(worker_trusts(&set, USER));
}

/* Nobody is blamed for a worker that runs this, and whose last step was at ran_ns. */
static void
nobody_is_blamed(void *(*run)(void *), uint64_t ran_ns)
{
	pthread_t t = worker_begin(run, USER);

	__atomic_store_n(&worker.ran_ns, ran_ns, __ATOMIC_RELAXED);
	assert_int_equal(worker_blame_start(&set), 0);
	worker_blame_several(&set, true);
	looks_pass(100);
	worker_end(t);
	assert_int_equal(set.blame.gen, 0);
	assert_int_equal(released_ns, 0);
}

UNIT_TEST(a_worker_that_can_be_interrupted_blames_nobody)
{
	nobody_is_blamed(waiting_main, 1);
}

UNIT_TEST(one_that_goes_on_blames_nobody)
{
	nobody_is_blamed(blocked_main, real_ns() + 1000 * S);
}

UNIT_TEST(a_lone_user_is_never_paused)
{
	pthread_t t = worker_begin(blocked_main, USER);

	assert_int_equal(worker_blame_start(&set), 0);
	for (unsigned i = 0; i < 100; i++) {
		worker_blame_several(&set, false); /* wakes the thread */
		poll(NULL, 0, 1);
	}
	worker_end(t);
	assert_int_equal(set.blame.gen, 0);
}

UNIT_TEST(workers_do_not_trust_a_user_for_some_time)
{
	uint64_t *until_ns = &set.blame.distrust_until_ns[USER];

	memset(&set, 0, sizeof(set));
	assert_true(worker_trusts(&set, USER));
	*until_ns = clock_ns + BLAME_DISTRUST_NS;
	assert_false(worker_trusts(&set, USER));
	assert_true(worker_trusts(&set, USER + 1));
	clock_ns = *until_ns - 10 * MS;
	assert_false(worker_trusts(&set, USER));
	clock_ns += 10 * MS;
	assert_true(worker_trusts(&set, USER));
}

/* ---- the engine ---- */

UNIT_TEST(engines_follow)
{
	struct blame *b = &set.blame;

	memset(&set, 0, sizeof(set));
	memset(&worker, 0, sizeof(worker));
	run_list_init(&worker.engine.run);
	worker.ws = &set;
	worker.now_ns = 100;
	blame_look(&worker);
	assert_int_equal(worker.blame_next_ns, UINT64_MAX);
	b->paused_until_ns[USER] = 300;
	b->paused_until_ns[QP_USERS - 1] = 200;
	b->copies_until_ns = 250;
	assert_true(blame_serve(&worker, USER));
	b->gen++;
	blame_look(&worker);
	assert_false(blame_serve(&worker, USER));
	assert_int_equal(worker.engine.env.serves, USER);
	assert_false(blame_serve(&worker, QP_USERS - 1));
	assert_true(blame_serve(&worker, USER + 1));
	assert_true(worker.engine.copies);
	worker.now_ns = 200;
	blame_look(&worker);
	assert_int_equal(worker.engine.env.serves, 0);
	assert_true(blame_serve(&worker, QP_USERS - 1));
	assert_false(blame_serve(&worker, USER));
	assert_true(worker.engine.copies);
	worker.now_ns = 299;
	blame_look(&worker);
	assert_false(worker.engine.copies);
	assert_false(blame_serve(&worker, USER));
	worker.now_ns = 300;
	blame_look(&worker);
	assert_true(blame_serve(&worker, USER));
	assert_int_equal(worker.blame_next_ns, UINT64_MAX);
	assert_int_equal(worker.engine.npaused, 0);
}

static int
start(void **state)
{
	return unit_eal_with(NULL, "error", NULL, 0) < 0 ? -1 : 0;
}

UNIT_PROGRAM(start, NULL);
