/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>
#include "page_return.h"
#include "page_swap.h"
#include "raw_mm.h"

#define STACK_BYTES (128u << 10)
#define PAGE_BYTES  4096u

struct start {
	int uffd;
	sem_t ready;
};

/*
 * Reading a message of a move lets the mremap that caused it return. Messages of faults need no
 * answer: the pages are on their way. Once ready, touches nothing but its own stack.
 */
static void *
acknowledge(void *arg)
{
	struct start *start = arg;
	int uffd = start->uffd;
	struct uffd_msg msg;

	syscall(SYS_getppid); /* binds the symbol */
	sem_post(&start->ready);
	while (syscall(SYS_read, uffd, &msg, sizeof(msg)) != -1 || errno == EINTR ||
	       errno == EAGAIN)
		;
	return NULL;
}

/*
 * Waits until the thread is ready: while it starts, the C library or a sanitizer may touch a page
 * for the first time, which waits if it lies next to a range on the move.
 */
static int
start_thread(int uffd)
{
	struct start start = {.uffd = uffd};
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	sem_init(&start.ready, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = pthread_create(&thread, &attr, acknowledge, &start);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	while (err == 0 && sem_wait(&start.ready) != 0)
		;
	return -err;
}

int
page_return_open(void)
{
	int uffd = page_swap_uffd(UFFD_FEATURE_EVENT_REMAP);
	int err;

	if (uffd < 0)
		return uffd;
	err = start_thread(uffd);
	if (err != 0) {
		close(uffd);
		return err;
	}
	return uffd;
}

/* Fill [addr + *done, addr + len) from the alias. 0 or -errno. */
static int
fill_in(int uffd, uint64_t addr, uint64_t len, uint64_t alias, uint64_t *done)
{
	while (*done < len) {
		struct uffdio_copy copy = {
			.dst = addr + *done,
			.src = alias + *done,
			.len = len - *done,
		};

		if (ioctl(uffd, UFFDIO_COPY, &copy) == 0) {
			*done = len;
		} else {
			if (copy.copy > 0)
				*done += (uint64_t)copy.copy;
			else if (errno != EAGAIN)
				return -errno;
		}
	}
	return 0;
}

static int
watch(int uffd, uint64_t addr, uint64_t len)
{
	struct uffdio_register reg = {
		.range = {.start = addr, .len = len},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &reg) == 0 ? 0 : -errno;
}

static void
unwatch(int uffd, uint64_t addr, uint64_t len)
{
	struct uffdio_range range = {.start = addr, .len = len};

	ioctl(uffd, UFFDIO_UNREGISTER, &range);
}

/* Move a fresh private mapping over the range, and the contents of its alias into that. */
static int
replace(int uffd, uint64_t addr, uint64_t len, int prot, uint64_t alias)
{
	uint64_t fresh = raw_mmap(len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t done = 0;
	int err;

	if (fresh == 0)
		return -errno;
	err = watch(uffd, fresh, len);
	if (err != 0) {
		raw_munmap(fresh, len);
		return err;
	}
	/*
	 * Only a mapping whose flags equal its neighbours' shares their bookkeeping (anon_vma) when
	 * it gets its first page, and can be merged with them later: watch them too meanwhile.
	 */
	watch(uffd, addr - PAGE_BYTES, PAGE_BYTES);
	watch(uffd, addr + len, PAGE_BYTES);
	err = raw_mremap_onto(fresh, len, addr);
	if (err == 0) {
		err = fill_in(uffd, addr, len, alias, &done);
		/* No memory: the rest stays shared. */
		if (err != 0)
			raw_mremap_onto(alias + done, len - done, addr + done);
		unwatch(uffd, addr, len);
	} else {
		raw_munmap(fresh, len);
	}
	unwatch(uffd, addr - PAGE_BYTES, PAGE_BYTES);
	unwatch(uffd, addr + len, PAGE_BYTES);
	return err;
}

int
page_return_chunk(int uffd, uint64_t addr, uint64_t len, int prot, bool release)
{
	uint64_t alias = raw_mremap_alias(addr, len);
	int err;

	if (alias == 0)
		return -errno;
	err = replace(uffd, addr, len, prot, alias);
	if (err == 0 && release)
		raw_madvise(alias, len, MADV_REMOVE);
	raw_munmap(alias, len);
	return err;
}
