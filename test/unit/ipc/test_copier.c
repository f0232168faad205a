/* SPDX-License-Identifier: BSD-3-Clause */
/* Copiers: the worker's side against a controlled thread and against the real one. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "map/copier_area.h"
#include "mem/fate.h"
#include "suite.h"
#include "../../kit/requirement.h"

static struct copier_credit credit;
static struct copier *copier;
static struct copier_area *area;
static pthread_t server;
static bool hold, quit; /* atomic: begin a job and do not end it; end the server */
static unsigned executed;

/* at_ns: what the clock says, and step_ns later each time; 0: the kernel's clock. */
static struct {
	uint64_t at_ns, step_ns;
} fake;

/* Replaces libc's. */
int
clock_gettime(clockid_t id, struct timespec *ts)
{
	if (fake.at_ns == 0)
		return (int)syscall(SYS_clock_gettime, id, ts);
	ts->tv_sec = (time_t)(fake.at_ns / 1000000000u);
	ts->tv_nsec = (long)(fake.at_ns % 1000000000u);
	fake.at_ns += fake.step_ns;
	return 0;
}

/* From now on the clock moves by step_ns whenever it is read. Only one thread may read it. */
static void
fake_clock(uint64_t step_ns)
{
	fake.at_ns = 0;
	fake.at_ns = copier_now_ns();
	fake.step_ns = step_ns;
}

/* Executes a job by counting it: an atomic brings the number of those before it. */
static void *
server_main(void *arg)
{
	while (!__atomic_load_n(&quit, __ATOMIC_ACQUIRE)) {
		for (uint32_t i = 0; i < COPIER_SLOTS; i++) {
			struct copy_slot *s = &area->slot[i];
			uint32_t state = COPY_ASKED;

			if (!__atomic_compare_exchange_n(&s->state, &state, COPY_BEGUN, false,
							 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				continue;
			while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE))
				sched_yield();
			s->orig = executed++;
			s->result = 0;
			state = COPY_BEGUN;
			if (!__atomic_compare_exchange_n(&s->state, &state, COPY_DONE, false,
							 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				__atomic_store_n(&s->state, COPY_OVER, __ATOMIC_RELEASE);
		}
		sched_yield();
	}
	return NULL;
}

static void
serve(void)
{
	__atomic_store_n(&quit, false, __ATOMIC_RELEASE);
	assert_int_equal(pthread_create(&server, NULL, server_main, NULL), 0);
}

static void
serve_no_more(void)
{
	__atomic_store_n(&quit, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(server, NULL), 0);
}

static int
setup(void **state)
{
	int shared;

	memset(&credit, 0, sizeof(credit));
	executed = 0;
	hold = false;
	fake.at_ns = 0;
	assert_int_equal(copier_create(&credit, &copier, &shared), 0);
	area = copier_area_map(shared);
	close(shared);
	assert_non_null(area);
	return 0;
}

static int
teardown(void **state)
{
	copier_destroy(copier);
	assert_true(copier_area_closed(area));
	copier_area_unmap(area);
	return 0;
}

static int
add(uint64_t once, uint64_t *orig)
{
	struct mem_atomic a = {.value = 1};

	return copier_atomic(copier, 4096, &a, once, orig);
}

/* Until it is not late any more. */
static int
add_until(uint64_t once, uint64_t *orig)
{
	int rc;

	while ((rc = add(once, orig)) == -EAGAIN)
		sched_yield();
	return rc;
}

/* Holds one copy until let_go. Time stands still meanwhile: it never waits too long by itself. */
static void
hold_one(uint64_t once)
{
	uint64_t orig;

	__atomic_store_n(&hold, true, __ATOMIC_RELEASE);
	while (copier_settled(copier))
		assert_int_equal(add(once, &orig), -EAGAIN);
	fake_clock(0);
}

static void
let_go(void)
{
	fake.at_ns = 0;
	__atomic_store_n(&hold, false, __ATOMIC_RELEASE);
	while (!copier_settled(copier))
		sched_yield();
}

REQUIREMENT("MEM-05")
static void
abandoned_copy_is_made_once(void **state)
{
	uint64_t orig = 99;

	serve();
	assert_int_equal(add_until(7, &orig), 0);
	assert_int_equal(orig, 0);
	hold_one(8);
	/* Nothing overtakes it. */
	for (int i = 0; i < 100; i++)
		assert_int_equal(add(9, &orig), -EAGAIN);
	assert_int_equal(executed, 1);
	let_go();
	/* Other copies continue, and its result waits for one repeated request. */
	assert_int_equal(add_until(9, &orig), 0);
	assert_int_equal(orig, 2);
	assert_int_equal(add_until(8, &orig), 0);
	assert_int_equal(orig, 1);
	assert_int_equal(executed, 3);
	assert_int_equal(add_until(8, &orig), 0);
	assert_int_equal(orig, 3);
	serve_no_more();
}

/* The result outlives the copier, because the region may be gone before the request is repeated. */
REQUIREMENT("MEM-05", "RSP-01")
static void
fate_of_an_abandoned_copy_is_recorded(void **state)
{
	struct mem_fate_result res;
	uint64_t orig, next, once = 100;

	serve();
	while (add(++once, &orig) == -EAGAIN)
		sched_yield();                                     /* late on a busy machine */
	assert_int_equal(mem_fate_get(once, &res), MEM_FATE_NONE); /* its caller has the result */
	next = orig + 1;
	hold_one(21);
	assert_int_equal(mem_fate_get(21, &res), MEM_FATE_PENDING);
	assert_int_equal(copier_settle(copier), -EAGAIN);
	let_go();
	assert_int_equal(copier_settle(copier), 0);
	assert_int_equal(mem_fate_get(21, &res), MEM_FATE_DONE);
	assert_int_equal(res.orig, next);
	assert_int_equal(res.len, 8);
	/* Destroying the copier settles it, too. */
	hold_one(22);
	let_go();
	copier_destroy(copier);
	assert_int_equal(mem_fate_get(22, &res), MEM_FATE_DONE);
	serve_no_more();
	copier_area_unmap(area);
	setup(state);
	serve();
	/* Not if the copy has not ended: it counts as not executed. */
	hold_one(23);
	copier_destroy(copier);
	assert_int_equal(mem_fate_get(23, &res), MEM_FATE_NONE);
	__atomic_store_n(&hold, false, __ATOMIC_RELEASE);
	serve_no_more();
	copier_area_unmap(area);
	setup(state);
	/* Withdrawn: nobody serves. */
	assert_int_equal(add(24, &orig), -EAGAIN);
	assert_int_equal(mem_fate_get(24, &res), MEM_FATE_NONE);
}

/* An operation that may be executed twice keeps no result: its slot is free again. */
REQUIREMENT("MEM-05")
static void
slots_of_abandoned_copies_are_freed(void **state)
{
	uint64_t orig;

	serve();
	for (uint32_t i = 0; i < 3 * COPIER_SLOTS; i++) {
		hold_one(0);
		let_go();
	}
	assert_int_equal(add_until(1, &orig), 0);
	serve_no_more();
	for (uint32_t i = 0; i < COPIER_SLOTS; i++)
		assert_int_equal(area->slot[i].state, COPY_FREE);
}

REQUIREMENT("MEM-05")
static void
copy_that_waits_too_long_fails(void **state)
{
	uint64_t orig;

	serve();
	hold_one(0);
	fake.at_ns += COPIER_LIMIT_NS / 2;
	assert_int_equal(add(0, &orig), -EAGAIN);
	fake.at_ns += COPIER_LIMIT_NS / 2;
	assert_int_equal(add(0, &orig), -ETIMEDOUT);
	assert_false(copier_settled(copier));
	let_go();
	assert_int_equal(add_until(0, &orig), 0);
	serve_no_more();
}

#define STEP_NS 1000000 /* a tenth of the time that a job is waited for */

REQUIREMENT("MEM-05")
static void
thread_that_never_polls_is_detected(void **state)
{
	uint64_t orig;
	int rc;

	fake_clock(STEP_NS); /* a worker that is late itself does not count them */
	while ((rc = add(0, &orig)) == -EAGAIN)
		;
	assert_int_equal(rc, -ETIMEDOUT);
	/* All requests were withdrawn. */
	for (uint32_t i = 0; i < COPIER_SLOTS; i++)
		assert_int_equal(area->slot[i].state, COPY_FREE);
	/* The thread returns after a while. */
	serve();
	while ((rc = add(1, &orig)) == -EAGAIN || rc == -ETIMEDOUT)
		sched_yield();
	assert_int_equal(rc, 0);
	assert_int_equal(executed, 1);
	serve_no_more();
}

REQUIREMENT("MEM-05")
static void
without_credit_no_copy_is_requested(void **state)
{
	uint64_t orig;

	/* Uses up as much credit as a day restores, which begins now, not when the machine did. */
	credit.left_ns = -86400ll * 100000000;
	credit.at_ns = copier_now_ns();
	for (int i = 0; i < 1000; i++)
		assert_int_equal(add(0, &orig), -EAGAIN);
	for (uint32_t i = 0; i < COPIER_SLOTS; i++)
		assert_int_equal(area->slot[i].len, 0);
}

REQUIREMENT("MEM-05")
static void
copier_without_a_thread_fails(void **state)
{
	uint64_t orig;

	copier_area_refuse(area);
	assert_int_equal(add(0, &orig), -ENOMEM);
	assert_int_equal(copier_read(copier, 0, &orig, COPIER_BYTES + 1), -EINVAL);
}

/* Another thread with another area takes over; copies that the lost one had begun do not matter. */
REQUIREMENT("MEM-05")
static void
lost_thread_is_replaced(void **state)
{
	struct copier_area *lost = area;
	uint64_t orig;
	int shared;

	serve();
	hold_one(0);
	assert_int_equal(copier_renew(copier, &shared), 0);
	assert_true(copier_settled(copier));
	fake.at_ns = 0;
	hold = false;
	serve_no_more();
	area = copier_area_map(shared);
	close(shared);
	assert_non_null(area);
	serve();
	assert_int_equal(add_until(0, &orig), 0);
	serve_no_more();
	copier_area_unmap(lost);
}

static void *
real_main(void *arg)
{
	static pthread_mutex_t atomics = PTHREAD_MUTEX_INITIALIZER;

	copier_serve(area, *(int *)arg, &atomics);
	return NULL;
}

/* Ends the copier with real_main's thread, and makes another one for teardown. mem: the thread's.
 */
static void
end_real(int mem)
{
	int shared;

	copier_destroy(copier);
	assert_int_equal(pthread_join(server, NULL), 0);
	close(mem);
	assert_int_equal(copier_create(&credit, &copier, &shared), 0);
	copier_area_unmap(area);
	area = copier_area_map(shared);
	close(shared);
}

/* Parts in any order are read and written one behind the other, by one job. */
static void
check_parts(uint8_t *bytes, uint8_t *seen)
{
	uint64_t va = (uintptr_t)bytes, begun;
	struct mem_part part[] = {{va + 9000, 5000}, {va + 3, 1}, {va + 100, 4096}};
	struct mem_bytes src[] = {{seen, 4}, {seen + 4, 6000}, {seen + 6004, 3093}};
	int rc;

	for (uint32_t i = 0; i < COPIER_BYTES; i++)
		bytes[i] = (uint8_t)(i / 3);
	do {
		/* On a busy machine the thread may still have to count a job that was abandoned. */
		while (!copier_settled(copier))
			sched_yield();
		begun = __atomic_load_n(&area->begun, __ATOMIC_ACQUIRE);
		rc = copier_read_parts(copier, part, 3, seen);
	} while (rc == -EAGAIN);
	assert_int_equal(rc, 0);
	assert_int_equal(__atomic_load_n(&area->begun, __ATOMIC_ACQUIRE), begun + 1);
	assert_memory_equal(seen, bytes + 9000, 5000);
	assert_memory_equal(seen + 5000, bytes + 3, 1);
	assert_memory_equal(seen + 5001, bytes + 100, 4096);
	memset(bytes, 0, COPIER_BYTES);
	while ((rc = copier_write_parts(copier, part, 3, src, 3, 0)) == -EAGAIN)
		;
	assert_int_equal(rc, 0);
	assert_memory_equal(seen, bytes + 9000, 5000);
	assert_memory_equal(seen + 5000, bytes + 3, 1);
	assert_memory_equal(seen + 5001, bytes + 100, 4096);
	assert_int_equal(bytes[2] + bytes[4] + bytes[8999] + bytes[14000], 0);
	assert_int_equal(copier_write_parts(copier, part, 3, src, 2, 0), -EINVAL);
	src[2].len++;
	assert_int_equal(copier_write_parts(copier, part, 3, src, 3, 0), -EINVAL);
	part[2].len = COPIER_BYTES - 5000;
	assert_int_equal(copier_read_parts(copier, part, 3, seen), -EINVAL);
	assert_int_equal(copier_write_parts(copier, part, 0, src, 0, 0), -EINVAL);
	assert_int_equal(copier_read_parts(copier, part, MEM_MAX_PARTS + 1, seen), -EINVAL);
}

/* This process is also the client. The thread sleeps in between and ends with its copier. */
REQUIREMENT("MEM-05", "RSP-04")
static void
thread_copies_to_and_from_a_process(void **state)
{
	static _Alignas(8) uint8_t bytes[COPIER_BYTES], seen[COPIER_BYTES];
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC), rc;
	struct mem_atomic swap = {.swap = true, .compare = 5, .value = 6};
	uint64_t word = 5, orig = 0, va = (uintptr_t)bytes;

	assert_true(mem >= 0);
	assert_int_equal(pthread_create(&server, NULL, real_main, &mem), 0);
	for (int i = 0; i < 50; i++) {
		memset(seen, i, sizeof(seen));
		do
			rc = copier_write(copier, va, seen, sizeof(seen), 0);
		while (rc == -EAGAIN);
		assert_int_equal(rc, 0);
		assert_memory_equal(bytes, seen, sizeof(seen));
		memset(bytes, i + 1, sizeof(bytes));
		do
			rc = copier_read(copier, va, seen, sizeof(seen));
		while (rc == -EAGAIN);
		assert_int_equal(rc, 0);
		assert_memory_equal(bytes, seen, sizeof(seen));
		if (i % 10 == 0)
			usleep(1000);
	}
	check_parts(bytes, seen);
	memcpy(bytes, &word, sizeof(word));
	for (int i = 0; i < 2; i++) { /* the second finds something else there */
		/* Its number: on a busy machine it may be late and asked for again. */
		while ((rc = copier_atomic(copier, va, &swap, 31 + i, &orig)) == -EAGAIN)
			;
		assert_int_equal(rc, 0);
		assert_int_equal(orig, 5 + i);
		memcpy(&word, bytes, sizeof(word));
		assert_int_equal(word, 6);
	}
	while ((rc = copier_read(copier, 0, seen, 8)) == -EAGAIN)
		;
	assert_int_equal(rc, -EFAULT);
	end_real(mem);
}

/* Runs jobs of a worker on cpu until the thread is bound to it. */
static void
check_follows(int cpu)
{
	static uint8_t bytes[64], seen[64];
	cpu_set_t set;
	int rc;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
	/* A job may be withdrawn on a busy machine. The thread binds itself after a job is done. */
	for (int i = 0; i < 100 && __atomic_load_n(&area->bound, __ATOMIC_RELAXED) != cpu + 1u;
	     i++) {
		while ((rc = copier_read(copier, (uintptr_t)bytes, seen, sizeof(seen))) == -EAGAIN)
			;
		assert_int_equal(rc, 0);
		usleep(1000);
	}
	assert_int_equal(__atomic_load_n(&area->bound, __ATOMIC_RELAXED), cpu + 1);
}

/* A thread that is not urgent follows its worker to every CPU, one after the other. */
REQUIREMENT("MEM-05")
static void
thread_follows_its_worker(void **state)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	cpu_set_t all;

	assert_true(mem >= 0);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	area->urgent = 2; /* the thread has not begun */
	assert_int_equal(pthread_create(&server, NULL, real_main, &mem), 0);
	while (__atomic_load_n(&area->urgent, __ATOMIC_RELAXED) == 2)
		usleep(100);
	__atomic_store_n(&area->urgent, 0, __ATOMIC_RELAXED); /* root's would be */
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all))
			check_follows(cpu);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	end_real(mem);
}

/* Serves the area's jobs with their times, and holds each for HELD_NS. */
#define HELD_NS 500000

static void *
slow_main(void *arg)
{
	const struct timespec nap = {.tv_nsec = HELD_NS};
	const struct sched_param first = {.sched_priority = 1};
	struct copy_slot *s = &area->slot[0];

	/* As root: on a busy machine the job is withdrawn if the thread waits long for a core. */
	(void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
	while (!__atomic_load_n(&quit, __ATOMIC_ACQUIRE)) {
		uint32_t state = COPY_ASKED;
		struct timespec t;

		/* The worker, whose CPU this thread shares as far as it knows, sleeps before. */
		if (__atomic_load_n(&s->waits, __ATOMIC_ACQUIRE) == 0 ||
		    !__atomic_compare_exchange_n(&s->state, &state, COPY_BEGUN, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			usleep(20);
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &t);
		s->begun_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
		nanosleep(&nap, NULL);
		clock_gettime(CLOCK_MONOTONIC, &t);
		s->ended_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
		s->result = 0;
		state = COPY_BEGUN;
		if (!__atomic_compare_exchange_n(&s->state, &state, COPY_DONE, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			__atomic_store_n(&s->state, COPY_OVER, __ATOMIC_RELEASE);
		syscall(SYS_futex, &s->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
	return NULL;
}

/* A worker that sleeps before the thread begins is charged, too, for the time of slow memory. */
REQUIREMENT("MEM-05")
static void
slow_copy_is_charged_to_a_sleeping_worker(void **state)
{
	uint64_t orig, at_ns;
	int64_t left;
	int rc;

	quit = false;
	assert_int_equal(pthread_create(&server, NULL, slow_main, NULL), 0);
	assert_int_equal(add_until(0, &orig), 0);
	do { /* a job may be withdrawn on a busy machine */
		left = credit.left_ns;
		at_ns = credit.at_ns;
		rc = add(0, &orig);
	} while (rc == -EAGAIN);
	assert_int_equal(rc, 0);
	left += (int64_t)(credit.at_ns - at_ns) / 10; /* the refill, if there was one */
	assert_true(credit.left_ns < left - HELD_NS / 2);
	serve_no_more();
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		T(abandoned_copy_is_made_once),
		T(fate_of_an_abandoned_copy_is_recorded),
		T(slots_of_abandoned_copies_are_freed),
		T(copy_that_waits_too_long_fails),
		T(thread_that_never_polls_is_detected),
		T(thread_follows_its_worker),
		T(slow_copy_is_charged_to_a_sleeping_worker),
		T(without_credit_no_copy_is_requested),
		T(copier_without_a_thread_fails),
		T(lost_thread_is_replaced),
		T(thread_copies_to_and_from_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
