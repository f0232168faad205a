/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "ipc/vma.h"
#include "mr_fork.h"
#include "page_swap.h"

/* Longest wait for the child's copy; a child stopped by a debugger must not stop the parent. */
#define CHILD_WAIT_MS 10000

/* Written and read under ops->lock: set by prepare, used by parent and child. */
static const struct mr_fork_ops *fork_ops;
static int done_pipe[2] = {-1, -1};

static void
fork_prepare(void)
{
	fork_ops->lock();
	if (pipe2(done_pipe, O_CLOEXEC) != 0) {
		done_pipe[0] = -1;
		done_pipe[1] = -1;
	}
}

static void
close_pipe_end(int end)
{
	if (done_pipe[end] >= 0)
		close(done_pipe[end]);
	done_pipe[end] = -1;
}

static void
fork_parent(void)
{
	struct pollfd p = {.fd = done_pipe[0], .events = POLLIN};

	close_pipe_end(1);
	if (p.fd >= 0) {
		/* Ends early if the child dies: no one else holds the other end. */
		while (poll(&p, 1, CHILD_WAIT_MS) < 0 && errno == EINTR)
			;
	}
	close_pipe_end(0);
	fork_ops->unlock();
}

static int
privatize_all(void)
{
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
		if ((v.prot & PROT_READ) == 0)
			continue;
		err = page_swap_privatize(v.start, v.end - v.start, v.page_size, v.prot);
		if (err != 0)
			break;
	}
	vma_scan_close(&scan);
	return err == -ENOENT ? 0 : err;
}

static void
fork_child(void)
{
	static const char msg[] = "uroce: no memory for the child's copy of registered memory\n";

	if (privatize_all() != 0) {
		/* Going on would let the child store into the parent's memory. */
		(void)!write(STDERR_FILENO, msg, sizeof(msg) - 1);
		abort();
	}
	close_pipe_end(0);
	close_pipe_end(1);
	fork_ops->forget();
	fork_ops->unlock();
}

int
mr_fork_install(const struct mr_fork_ops *ops)
{
	fork_ops = ops;
	return -pthread_atfork(fork_prepare, fork_parent, fork_child);
}
