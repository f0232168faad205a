/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the program removes while another thread makes it private again. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "harness.h"
#include "mr_adopt.h"
#include "../../kit/unit.h"

/* A thread that removes pages while they are returned, and what it is doing; atomic. */
static struct {
	uint8_t *pages;
	sem_t go;
	pid_t tid;
	bool armed, called, done;
} remover;

static void *
remove_two(void *arg)
{
	__atomic_store_n(&remover.tid, gettid(), __ATOMIC_RELEASE);
	sem_wait(&remover.go);
	__atomic_store_n(&remover.called, true, __ATOMIC_RELEASE);
	CHECK(madvise(remover.pages, 2 * PAGE, MADV_DONTNEED) == 0);
	__atomic_store_n(&remover.done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Returns when the thread has removed the pages, or waits for leave to do so. */
static void
let_remove(void)
{
	char path[64], line[64] = "";
	int fd;

	remover.armed = false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", remover.tid);
	sem_post(&remover.go);
	while (!__atomic_load_n(&remover.done, __ATOMIC_ACQUIRE)) {
		bool called = __atomic_load_n(&remover.called, __ATOMIC_ACQUIRE);

		fd = open(path, O_RDONLY);
		CHECK(fd >= 0 && read(fd, line, sizeof(line) - 1) > 0);
		close(fd);
		if (called && strchr("SD", strchr(line, ')')[2]) != NULL)
			return;
	}
}

/* Replaces libc's: the first page of a chunk is about to be filled in. */
int
ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	char *arg;

	va_start(args, request);
	arg = va_arg(args, char *);
	va_end(args);
	if (request == UFFDIO_COPY && remover.armed)
		let_remove();
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

/* Pages that the program removes in the middle of their return stay removed, the others do not. */
static void
client_removes(void)
{
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	int fds[MR_ADOPT_MAX_FDS];
	struct mr_pin *hold;
	unsigned n, nfds;

	for (unsigned round = 0; round < 20; round++) {
		uint8_t *p = map_private(5 * PAGE), zero[2 * PAGE] = {0};
		pthread_t t;

		for (unsigned i = 0; i < 5; i++)
			fill(p + i * PAGE, PAGE, round + i);
		remover.pages = p + PAGE;
		remover.tid = 0;
		remover.called = remover.done = false;
		sem_init(&remover.go, 0, 0);
		CHECK(pthread_create(&t, NULL, remove_two, NULL) == 0);
		while (__atomic_load_n(&remover.tid, __ATOMIC_ACQUIRE) == 0)
			sched_yield();
		CHECK(mr_pieces_build((uintptr_t)p, 5 * PAGE, piece, &n, fds, &nfds, &hold) == 0);
		remover.armed = true;
		mr_pieces_release(hold);
		mr_pieces_settle();
		CHECK(!remover.armed && pthread_join(t, NULL) == 0);
		CHECK(is_private(p) && memcmp(p + PAGE, zero, sizeof(zero)) == 0);
		CHECK(filled(p, PAGE, round) && filled(p + 3 * PAGE, PAGE, round + 3) &&
		      filled(p + 4 * PAGE, PAGE, round + 4));
		munmap(p, 5 * PAGE);
	}
}

REQUIREMENT("MEM-05")
UNIT_TEST(pages_removed_during_their_return_stay_removed)
{
	harness_run(client_removes);
}

UNIT_NEEDS(harness_can_run);
