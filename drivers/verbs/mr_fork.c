/* SPDX-License-Identifier: BSD-3-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "map/vma.h"
#include "map/page.h"
#include "mr_ref.h"
#include "mr_fork.h"
#include "page_swap.h"
#include "raw_mm.h"

#define FORK_ENABLED 1 /* IBV_FORK_ENABLED */

/* Longest wait for the child's copy; a child stopped by a debugger must not stop the parent. */
#define CHILD_WAIT_MS 10000

#define WORD_WAIT_NS  10000000 /* between two looks, in case a signal interrupts the wait */

/*
 * How the child of the forking thread reports. Usually by a pipe, which ends if the child dies. By
 * a futex in shared memory if this process has no descriptor left. Initial-exec: access must not
 * allocate.
 */
static __thread int done_pipe[2] __attribute__((tls_model("initial-exec")));
static __thread uint32_t *done_word __attribute__((tls_model("initial-exec")));

/*
 * Returns true if libibverbs marks the pages of regions. It cannot tell before version 35; then
 * true. The answer does not change after the first registration.
 */
static bool
libibverbs_marks(void)
{
	enum { UNKNOWN, YES, NO };
	static int known;
	int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
	void *lib;
	int (*ask)(void);

	if (answer != UNKNOWN)
		return answer == YES;
	lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	ask = lib != NULL ? (int (*)(void))dlsym(lib, "ibv_is_fork_initialized") : NULL;
	answer = ask == NULL || ask() == FORK_ENABLED ? YES : NO;
	if (lib != NULL)
		dlclose(lib);
	__atomic_store_n(&known, answer, __ATOMIC_RELAXED);
	return answer == YES;
}

/* Removes the marks mapping by mapping, each rounded to its pages, as far as possible. */
static void
keep_each(uint64_t start, uint64_t end)
{
	struct vma_scan scan;
	struct vma v;

	if (vma_scan_open(&scan, 0) != 0)
		return;
	while (start < end && vma_scan_next(&scan, start, &v) == 0 && v.start < end) {
		uint64_t to = page_ceil(end, v.page_size);

		start = v.start > start ? v.start : page_floor(start, v.page_size);
		to = v.end < to ? v.end : to;
		(void)raw_madvise(start, to - start, MADV_DOFORK);
		start = to;
	}
	vma_scan_close(&scan);
}

void
mr_fork_keep(uint64_t addr, uint64_t len)
{
	uint64_t start = page_floor(addr, page_bytes());
	uint64_t end = page_ceil(addr + len, page_bytes());
	int err = errno;

	/* one call, unless part of the range refuses it: huge pages, devices */
	if (libibverbs_marks() && raw_madvise(start, end - start, MADV_DOFORK) == -EINVAL)
		keep_each(start, end);
	errno = err;
}

static void
close_pipe_end(int end)
{
	if (done_pipe[end] >= 0)
		close(done_pipe[end]);
	done_pipe[end] = -1;
}

static void
unmap_word(void)
{
	if (done_word != NULL)
		raw_munmap((uint64_t)(uintptr_t)done_word, page_bytes());
	done_word = NULL;
}

void
mr_fork_prepare(void)
{
	done_word = NULL;
	if (pipe2(done_pipe, O_CLOEXEC) == 0)
		return;
	done_pipe[0] = -1;
	done_pipe[1] = -1;
	done_word = (uint32_t *)(uintptr_t)raw_mmap(page_bytes(), PROT_READ | PROT_WRITE,
						    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void
wait_for_word(void)
{
	const struct timespec step = {.tv_nsec = WORD_WAIT_NS};

	for (unsigned i = 0; i < CHILD_WAIT_MS * 1000000ull / WORD_WAIT_NS; i++) {
		if (__atomic_load_n(done_word, __ATOMIC_ACQUIRE) != 0)
			return;
		syscall(SYS_futex, done_word, FUTEX_WAIT, 0, &step, NULL, 0);
	}
}

void
mr_fork_parent(void)
{
	struct pollfd p = {.fd = done_pipe[0], .events = POLLIN};

	close_pipe_end(1);
	if (p.fd >= 0) {
		/* Ends early if the child dies and no other thread has forked meanwhile. */
		while (poll(&p, 1, CHILD_WAIT_MS) < 0 && errno == EINTR)
			;
	} else if (done_word != NULL) {
		wait_for_word();
	}
	close_pipe_end(0);
	unmap_word();
}

static int
privatize_all(void)
{
	const struct mr_file *f;
	struct vma_scan scan;
	uint64_t pos = 0;
	struct vma v;
	int err;

	err = vma_scan_open(&scan, 0);
	if (err != 0)
		return err;
	while ((err = vma_scan_next(&scan, pos, &v)) == 0) {
		pos = v.end;
		if (!v.shared || strncmp(v.name, MR_MEMFD_PATH, sizeof(MR_MEMFD_PATH) - 1) != 0)
			continue;
		/* Includes inaccessible memory: the child may make it accessible. */
		if ((v.prot & PROT_READ) == 0)
			raw_mprotect(v.start, v.end - v.start, PROT_READ);
		f = mr_file_find(&v);
		err = page_swap_privatize(v.start, v.end - v.start, v.page_size, v.prot,
					  f != NULL ? f->fd : -1, v.offset);
		if (err != 0)
			break;
	}
	vma_scan_close(&scan);
	return err == -ENOENT ? 0 : err;
}

void
mr_fork_child(void)
{
	static const char msg[] = "uroce: no memory for the child's copy of registered memory\n";

	if (privatize_all() != 0) {
		(void)!write(STDERR_FILENO, msg, sizeof(msg) - 1);
		abort();
	}
	/*
	 * Send a message: closing is not enough, the child of another thread's fork may hold the
	 * other end.
	 */
	if (done_pipe[1] >= 0)
		(void)!write(done_pipe[1], "", 1);
	close_pipe_end(0);
	close_pipe_end(1);
	if (done_word != NULL) {
		__atomic_store_n(done_word, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, done_word, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	unmap_word();
}
