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
#include "mem/late.h"
#include "../../kit/unit.h"

static struct copier_credit credit;
static struct copier *copier;
static struct copier_area *area;
static pthread_t server;
static bool hold, quit; /* atomic: begin a job and do not end it; end the server */
static unsigned executed;

/*
 * at_ns: what the clock says, and step_ns later each time, until it stops at stop_ns (atomic);
 * 0: the kernel's clock.
 */
static struct {
	uint64_t at_ns, step_ns, stop_ns;
} fake;

/* Replaces libc's. */
int
clock_gettime(clockid_t id, struct timespec *ts)
{
	if (fake.at_ns == 0)
		return (int)syscall(SYS_clock_gettime, id, ts);
	ts->tv_sec = (time_t)(fake.at_ns / 1000000000u);
	ts->tv_nsec = (long)(fake.at_ns % 1000000000u);
	if (fake.at_ns < __atomic_load_n(&fake.stop_ns, __ATOMIC_RELAXED))
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
	fake.stop_ns = UINT64_MAX;
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

	executed = 0;
	hold = false;
	fake.at_ns = 0;
	credit = (struct copier_credit){.at_ns = copier_now_ns()};
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

/*
 * Whether a call has to be repeated: the thread was late. A thread that gets no core for two
 * seconds also seems to have been lost.
 */
static bool
is_late(int rc)
{
	return rc == -EAGAIN || rc == -ETIMEDOUT;
}

/* Until it is not late any more. */
static int
atomic_until(uint64_t va, const struct mem_atomic *a, uint64_t *orig)
{
	struct mem_late late = {0};
	int rc;

	while (is_late(rc = copier_atomic(copier, va, a, &late, orig)) &&
	       late.state == MEM_LATE_NONE)
		sched_yield();
	while (late.state == MEM_LATE_PENDING) {
		sched_yield();
		copier_late_poll(&late);
		rc = late.state == MEM_LATE_DONE ? 0 : -EIO;
		*orig = late.orig;
	}
	return rc;
}

static int
add(struct mem_late *late, uint64_t *orig)
{
	struct mem_atomic a = {.value = 1};

	return copier_atomic(copier, 4096, &a, late, orig);
}

static int
add_until(uint64_t *orig)
{
	struct mem_atomic a = {.value = 1};

	return atomic_until(4096, &a, orig);
}

/*
 * Holds one copy until let_go. Time stands still meanwhile: it never waits too long by itself.
 * late: whose result is needed; NULL: nobody's.
 */
static void
hold_one(struct mem_late *late)
{
	uint64_t orig;

	__atomic_store_n(&hold, true, __ATOMIC_RELEASE);
	while (copier_settled(copier))
		assert_true(is_late(add(late, &orig)));
	assert_true(late == NULL || late->state == MEM_LATE_PENDING);
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

/* All slots are free: no result waits in one. */
static void
slots_are_free(void)
{
	for (uint32_t i = 0; i < COPIER_SLOTS; i++)
		assert_int_equal(area->slot[i].state, COPY_FREE);
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

REQUIREMENT("MEM-05", "RSP-01")
TEST(abandoned_copy_is_made_once)
{
	struct mem_late late = {0}, other = {0};
	uint64_t orig = 99;

	serve();
	assert_int_equal(add_until(&orig), 0);
	assert_int_equal(orig, 0);
	hold_one(&late);
	/* Nothing overtakes it. */
	for (int i = 0; i < 100; i++)
		assert_int_equal(add(&other, &orig), -EAGAIN);
	assert_int_equal(other.state, MEM_LATE_NONE);
	assert_int_equal(executed, 1);
	copier_late_poll(&late);
	assert_int_equal(late.state, MEM_LATE_PENDING);
	let_go();
	/* Other copies continue, and its result waits for its owner. */
	assert_int_equal(add_until(&orig), 0);
	assert_int_equal(orig, 2);
	copier_late_poll(&late);
	assert_int_equal(late.state, MEM_LATE_DONE);
	assert_int_equal(late.orig, 1);
	assert_int_equal(executed, 3);
	serve_no_more();
	slots_are_free();
}

/* The result outlives the copier, because the region may be gone before it is asked for. */
REQUIREMENT("MEM-05", "RSP-01")
TEST(result_outlives_the_copier)
{
	struct mem_late late = {0};

	serve();
	hold_one(&late);
	let_go();
	copier_destroy(copier);
	copier_late_poll(&late);
	assert_int_equal(late.state, MEM_LATE_DONE);
	assert_int_equal(late.orig, 0);
	serve_no_more();
	copier_area_unmap(area);
	setup(state);
	serve();
	/* Not if the copy has not ended: it counts as not executed. */
	late = (struct mem_late){0};
	hold_one(&late);
	assert_true(copier_destroy(copier));
	copier_late_poll(&late);
	assert_int_equal(late.state, MEM_LATE_NONE);
	__atomic_store_n(&hold, false, __ATOMIC_RELEASE);
	serve_no_more();
	copier_area_unmap(area);
	setup(state);
}

/* Nobody asks for the result, or not any more, before the copy ends and after. Its slot is free. */
REQUIREMENT("MEM-05")
TEST(slots_of_abandoned_copies_are_freed)
{
	struct mem_late late;
	uint64_t orig;

	serve();
	for (uint32_t i = 0; i < 3 * COPIER_SLOTS; i++) {
		late = (struct mem_late){0};
		hold_one(i % 3 == 0 ? NULL : &late);
		if (i % 3 == 1)
			copier_late_forget(&late);
		let_go();
		if (i % 3 != 2)
			continue;
		if (i % 2)
			assert_int_equal(add_until(&orig), 0); /* settles it */
		copier_late_forget(&late);
		assert_int_equal(late.state, MEM_LATE_NONE);
	}
	assert_int_equal(add_until(&orig), 0);
	serve_no_more();
	slots_are_free();
}

/* Lent bytes stay until they are released, and leave slots for other jobs. */
REQUIREMENT("MEM-05")
TEST(lent_bytes_stay)
{
	struct mem_part part = {.va = 4096, .len = 1};
	struct mem_lent lent[COPIER_LENT + 1];
	uint64_t orig;
	int rc;

	serve();
	for (uint8_t i = 0; i < COPIER_LENT; i++) {
		while (is_late(rc = copier_lend(copier, &part, 1, &lent[i])))
			sched_yield();
		assert_int_equal(rc, 0);
		*(uint8_t *)(uintptr_t)lent[i].bytes = i;
	}
	assert_int_equal(copier_lend(copier, &part, 1, &lent[COPIER_LENT]), -ENOBUFS);
	assert_int_equal(add_until(&orig), 0);
	copier_destroy(copier);
	for (uint8_t i = 0; i < COPIER_LENT; i++) {
		assert_int_equal(*lent[i].bytes, i);
		copier_release(&lent[i]);
		assert_null(lent[i].bytes);
	}
	serve_no_more();
	slots_are_free();
	copier_area_unmap(area);
	setup(state);
}

REQUIREMENT("MEM-05")
TEST(copy_that_waits_too_long_fails)
{
	uint64_t orig;

	serve();
	hold_one(NULL);
	fake.at_ns += COPIER_LIMIT_NS / 2;
	assert_int_equal(add(NULL, &orig), -EAGAIN);
	fake.at_ns += COPIER_LIMIT_NS / 2;
	assert_int_equal(add(NULL, &orig), -ETIMEDOUT);
	assert_false(copier_settled(copier));
	let_go();
	assert_int_equal(add_until(&orig), 0);
	serve_no_more();
}

#define STEP_NS 1000000 /* a tenth of the time that a job is waited for */

REQUIREMENT("MEM-05")
TEST(thread_that_never_polls_is_detected)
{
	uint64_t orig;
	int rc;

	fake_clock(STEP_NS); /* a worker that is late itself does not count them */
	while ((rc = add(NULL, &orig)) == -EAGAIN)
		;
	assert_int_equal(rc, -ETIMEDOUT);
	/* All requests were withdrawn. */
	for (uint32_t i = 0; i < COPIER_SLOTS; i++)
		assert_int_equal(area->slot[i].state, COPY_FREE);
	/* The thread returns after a while. Time stands still: no job is abandoned, and then
	 * executed, too. */
	fake_clock(0);
	serve();
	assert_int_equal(add(NULL, &orig), 0);
	assert_int_equal(executed, 1);
	serve_no_more();
}

REQUIREMENT("MEM-05")
TEST(copier_without_a_thread_fails)
{
	uint64_t orig;

	copier_area_refuse(area);
	assert_int_equal(add(NULL, &orig), -ENOMEM);
	assert_int_equal(copier_read(copier, 0, &orig, COPIER_BYTES + 1), -EINVAL);
}

/* Another thread with another area takes over; copies that the lost one had begun do not matter. */
REQUIREMENT("MEM-05")
TEST(lost_thread_is_replaced)
{
	struct copier_area *lost = area;
	uint64_t orig;
	int shared;

	serve();
	hold_one(NULL);
	assert_int_equal(copier_renew(copier, &shared), 0);
	assert_true(copier_settled(copier));
	fake.at_ns = 0;
	hold = false;
	serve_no_more();
	area = copier_area_map(shared);
	close(shared);
	assert_non_null(area);
	serve();
	assert_int_equal(add_until(&orig), 0);
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
	struct mem_lent lent;
	int rc;

	for (uint32_t i = 0; i < COPIER_BYTES; i++)
		bytes[i] = (uint8_t)(i / 3);
	do {
		/* On a busy machine the thread may still have to count a job that was abandoned. */
		while (!copier_settled(copier))
			sched_yield();
		begun = __atomic_load_n(&area->begun, __ATOMIC_ACQUIRE);
		rc = copier_lend(copier, part, 3, &lent);
	} while (is_late(rc));
	assert_int_equal(rc, 0);
	memcpy(seen, lent.bytes, 9097);
	copier_release(&lent);
	assert_int_equal(__atomic_load_n(&area->begun, __ATOMIC_ACQUIRE), begun + 1);
	assert_memory_equal(seen, bytes + 9000, 5000);
	assert_memory_equal(seen + 5000, bytes + 3, 1);
	assert_memory_equal(seen + 5001, bytes + 100, 4096);
	memset(bytes, 0, COPIER_BYTES);
	while (is_late(rc = copier_write_parts(copier, part, 3, src, 3, NULL)))
		;
	assert_int_equal(rc, 0);
	assert_memory_equal(seen, bytes + 9000, 5000);
	assert_memory_equal(seen + 5000, bytes + 3, 1);
	assert_memory_equal(seen + 5001, bytes + 100, 4096);
	assert_int_equal(bytes[2] + bytes[4] + bytes[8999] + bytes[14000], 0);
	assert_int_equal(copier_write_parts(copier, part, 3, src, 2, NULL), -EINVAL);
	src[2].len++;
	assert_int_equal(copier_write_parts(copier, part, 3, src, 3, NULL), -EINVAL);
	part[2].len = COPIER_BYTES - 5000;
	assert_int_equal(copier_lend(copier, part, 3, &lent), -EINVAL);
	assert_int_equal(copier_write_parts(copier, part, 0, src, 0, NULL), -EINVAL);
	assert_int_equal(copier_lend(copier, part, MEM_MAX_PARTS + 1, &lent), -EINVAL);
}

/* This process is also the client. The thread sleeps in between and ends with its copier. */
REQUIREMENT("MEM-05", "RSP-04")
TEST(thread_copies_to_and_from_a_process)
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
			rc = copier_write(copier, va, seen, sizeof(seen), NULL);
		while (is_late(rc));
		assert_int_equal(rc, 0);
		assert_memory_equal(bytes, seen, sizeof(seen));
		memset(bytes, i + 1, sizeof(bytes));
		do
			rc = copier_read(copier, va, seen, sizeof(seen));
		while (is_late(rc));
		assert_int_equal(rc, 0);
		assert_memory_equal(bytes, seen, sizeof(seen));
		if (i % 10 == 0)
			usleep(1000);
	}
	check_parts(bytes, seen);
	memcpy(bytes, &word, sizeof(word));
	for (int i = 0; i < 2; i++) { /* the second finds something else there */
		assert_int_equal(atomic_until(va, &swap, &orig), 0);
		assert_int_equal(orig, 5 + i);
		memcpy(&word, bytes, sizeof(word));
		assert_int_equal(word, 6);
	}
	while (is_late(rc = copier_read(copier, 0, seen, 8)))
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
		while (is_late(rc = copier_read(copier, (uintptr_t)bytes, seen, sizeof(seen))))
			;
		assert_int_equal(rc, 0);
		usleep(1000);
	}
	assert_int_equal(__atomic_load_n(&area->bound, __ATOMIC_RELAXED), cpu + 1);
}

/* A thread that is not urgent follows its worker to every CPU, one after the other. */
REQUIREMENT("MEM-05")
TEST(thread_follows_its_worker)
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

/* Begins the job of a worker that sleeps, and holds it. From then on the clock moves. */
static void *
slow_main(void *arg)
{
	struct copy_slot *s = &area->slot[COPIER_SLOTS - 1];

	while (!__atomic_load_n(&quit, __ATOMIC_ACQUIRE)) {
		uint32_t state = COPY_ASKED;

		if (__atomic_load_n(&s->waits, __ATOMIC_ACQUIRE) == 0 ||
		    !__atomic_compare_exchange_n(&s->state, &state, COPY_BEGUN, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			sched_yield();
			continue;
		}
		__atomic_store_n(&s->begun_ns, __atomic_load_n(&fake.at_ns, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
		__atomic_store_n(&fake.stop_ns, UINT64_MAX, __ATOMIC_RELAXED);
		while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE))
			sched_yield();
		__atomic_store_n(&s->state, COPY_OVER, __ATOMIC_RELEASE);
	}
	return NULL;
}

#define READ_NS 10000 /* between two looks at the clock */

/*
 * Lets a worker abandon a job. Returns what that has cost. The clock stops until the job has begun,
 * however long a busy machine lets the thread wait: else the job could be withdrawn, or have too
 * little time left.
 */
static int64_t
abandon_one(void)
{
	int64_t before = credit.left_ns;
	uint64_t orig;

	__atomic_store_n(&hold, true, __ATOMIC_RELEASE);
	fake_clock(READ_NS);
	fake.stop_ns = fake.at_ns + 10 * READ_NS; /* the worker sleeps by then */
	assert_int_equal(add(NULL, &orig), -EAGAIN);
	assert_false(copier_settled(copier));
	let_go();
	return before - credit.left_ns;
}

/*
 * The time that a job runs while its worker sleeps counts, too: that of slow memory. It is waited
 * for as long as there is credit, which that uses up.
 */
REQUIREMENT("MEM-05")
TEST(slow_copies_use_up_the_credit)
{
	const uint64_t second_ns = 1000000000;

	quit = false;
	assert_int_equal(pthread_create(&server, NULL, slow_main, NULL), 0);
	credit.at_ns = copier_now_ns() + 1000 * second_ns; /* no refill */
	credit.left_ns = 3000000;
	assert_in_range(abandon_one(), 2000000, 2000000 + 2 * READ_NS);
	assert_in_range(abandon_one(), 1000000 - 2 * READ_NS, 1000000 + 2 * READ_NS);
	assert_true(credit.left_ns <= 0);
	assert_in_range(abandon_one(), 0, 2 * READ_NS);
	credit.at_ns = copier_now_ns() - second_ns;                /* at least 5 ms of credit */
	assert_in_range(-abandon_one(), 2900000, COPIER_BURST_NS); /* refilled, less 2 ms */
	serve_no_more();
}
