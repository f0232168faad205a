/* SPDX-License-Identifier: BSD-3-Clause */
/* Adoption by a process without the right to a userfaultfd. */
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "../../kit/unit.h"

#define NOBODY 65534u
#define LONG   (9ull << 20) /* several chunks */

static sem_t begun, stop;

static void *
wait_to_stop(void *arg)
{
	sem_post(&begun);
	sem_wait(&stop);
	return NULL;
}

static pthread_t
start_thread(void)
{
	pthread_t t;

	sem_init(&begun, 0, 0);
	sem_init(&stop, 0, 0);
	CHECK(pthread_create(&t, NULL, wait_to_stop, NULL) == 0);
	sem_wait(&begun);
	return t;
}

static void
stop_thread(pthread_t t)
{
	struct stat st;

	sem_post(&stop);
	CHECK(pthread_join(t, NULL) == 0);
	/* The kernel counts the thread until it has left this folder: two links, and one a thread.
	 */
	do {
		sched_yield();
		CHECK(stat("/proc/self/task", &st) == 0);
	} while (st.st_nlink > 3);
}

static void
client_alone(void)
{
	uint8_t *p = map_private(LONG + 2 * PAGE);
	uint8_t *heap = malloc(3 * PAGE), zero[PAGE] = {0};
	struct reg r;

	check_region(p + PAGE, LONG, UROCE_MR_PATH_ADOPTED, true);
	CHECK(is_private(p + PAGE));
	check_region(p + 17, 100, UROCE_MR_PATH_ADOPTED, true);
	check_region(heap + 17, PAGE, UROCE_MR_PATH_ADOPTED, true);
	CHECK(is_private(heap));
	/* Absent pages stay so. */
	CHECK(madvise(p, LONG, MADV_DONTNEED) == 0);
	p[5 * PAGE] = 7;
	CHECK(client_reg(&r, p, LONG, ACCESS_WRITE) == 0 && r.path == UROCE_MR_PATH_ADOPTED);
	CHECK(memcmp(p + 4 * PAGE, zero, PAGE) == 0 && p[5 * PAGE] == 7);
	CHECK(daemon_sees(&r, p, 16 * PAGE));
	client_dereg(&r);
	CHECK(memcmp(p + 4 * PAGE, zero, PAGE) == 0 && p[5 * PAGE] == 7 && is_private(p));
	/* Memory that the program has protected meanwhile. */
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == 0 && r.path == UROCE_MR_PATH_ADOPTED);
	CHECK(mprotect(p, 8 * PAGE, PROT_READ) == 0 && mprotect(p, PAGE, PROT_NONE) == 0);
	client_dereg(&r);
	CHECK(is_private(p) && is_private(p + PAGE) && p[5 * PAGE] == 7);
}

UNIT_TEST(process_with_one_thread_adopts_without_userfaultfd)
{
	harness_run_as(client_alone, NOBODY);
}

static void
client_with_thread(void)
{
	uint8_t *p = map_private(16 * PAGE);
	pthread_t t = start_thread();

	check_region(p, 16 * PAGE, UROCE_MR_PATH_COPY, false);
	stop_thread(t);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_ADOPTED, false);
}

UNIT_TEST(process_with_threads_gets_copies)
{
	harness_run_as(client_with_thread, NOBODY);
}

/* The daemon stops the other threads: without a userfaultfd, and without copies. */
static void
client_with_pauses(void)
{
	struct io_uring_params params = {0};
	uint8_t *p = map_private(16 * PAGE);
	pthread_t t = start_thread();
	long ring;

	client_allow_pauses(true);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_ADOPTED, false);
	CHECK(is_private(p));
	/* An io_uring stores without a thread. */
	ring = syscall(SYS_io_uring_setup, 4, &params);
	if (ring >= 0) {
		check_region(p, 16 * PAGE, UROCE_MR_PATH_COPY, false);
		close((int)ring);
	}
	check_region(p, 16 * PAGE, UROCE_MR_PATH_ADOPTED, false);
	stop_thread(t);
}

UNIT_TEST(process_with_threads_adopts_if_the_daemon_stops_them)
{
	harness_run_as(client_with_pauses, NOBODY);
}

static void
client_gets_thread(void)
{
	uint8_t *p = map_private(16 * PAGE), zero[PAGE] = {0};
	struct reg r, again;
	pthread_t t;

	fill(p, 16 * PAGE, 3);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == 0 && r.path == UROCE_MR_PATH_ADOPTED);
	t = start_thread();
	client_dereg(&r);
	CHECK(!is_private(p) && filled(p, 16 * PAGE, 3));
	/* Its second registration needs no move. */
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == 0 && r.path == UROCE_MR_PATH_ADOPTED);
	/* Unmapped while registered: the region keeps its pages, whatever else becomes free. */
	CHECK(mmap(p, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == p);
	stop_thread(t);
	p[0] = 1;
	CHECK(client_reg(&again, p, 16 * PAGE, ACCESS_WRITE) == 0);
	CHECK(again.path == UROCE_MR_PATH_ADOPTED && p[0] == 1);
	CHECK(memcmp(p + PAGE, zero, PAGE) == 0 && daemon_sees(&again, p, 16 * PAGE));
	client_dereg(&again);
	CHECK(is_private(p) && p[0] == 1);
	uint8_t *was = malloc(16 * PAGE);
	uint64_t h;

	fill(was, 16 * PAGE, 3);
	CHECK(daemon_read(&r, p, 16 * PAGE, &h) == 0 && h == hash_of(was, 16 * PAGE));
	client_dereg(&r);
}

UNIT_TEST(memory_stays_shared_if_threads_start_before_it_is_returned)
{
	harness_run_as(client_gets_thread, NOBODY);
}

static void
client_with_ring(void)
{
	struct io_uring_params params = {0};
	uint8_t *p = map_private(16 * PAGE);
	long ring = syscall(SYS_io_uring_setup, 4, &params);

	if (ring < 0)
		return;
	check_region(p, 16 * PAGE, UROCE_MR_PATH_COPY, false);
	close((int)ring);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_ADOPTED, false);
}

UNIT_TEST(process_with_an_io_uring_gets_copies)
{
	harness_run_as(client_with_ring, NOBODY);
}

static void
client_forks(void)
{
	uint8_t *p = map_private(16 * PAGE);
	struct reg r;
	int status;
	pid_t pid;

	fill(p, 16 * PAGE, 3);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == 0 && r.path == UROCE_MR_PATH_ADOPTED);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(is_private(p) && filled(p, 16 * PAGE, 3));
		fill(p, 16 * PAGE, 4);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(filled(p, 16 * PAGE, 3) && daemon_sees(&r, p, 16 * PAGE));
	client_dereg(&r);
	CHECK(is_private(p) && filled(p, 16 * PAGE, 3));
}

UNIT_TEST(child_gets_its_own_copy)
{
	harness_run_as(client_forks, NOBODY);
}

UNIT_NEEDS(harness_can_run);
