/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>
#include "page_return.h"
#include "map/page.h"
#include "page_swap.h"
#include "raw_mm.h"

#define STACK_BYTES (128u << 10)
#define REMOVALS    64u

struct start {
	int uffd;
	sem_t ready;
};

/*
 * What the program removes by madvise while a chunk is filled in. The kernel takes the pages away
 * once, after the message about it is read, so pages that are filled in after that would come back.
 * The lock covers both the reading of messages and each step of filling in.
 */
static struct {
	pthread_mutex_t lock;
	bool filling; /* else removals do not matter, and are not noted */
	unsigned n;
	struct {
		uint64_t start, end;
	} range[REMOVALS];
} removed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Reading a message about a move or a removal lets the mremap or madvise that caused it continue.
 * Messages about faults need no reply: the pages will be filled in. Returns false if the descriptor
 * is closed.
 */
static bool
take_messages(int uffd)
{
	struct uffd_msg msg;
	bool open = true;

	pthread_mutex_lock(&removed.lock);
	while (removed.n < REMOVALS) {
		if (syscall(SYS_read, uffd, &msg, sizeof(msg)) < 0) {
			open = errno == EINTR || errno == EAGAIN;
			break;
		}
		if (msg.event != UFFD_EVENT_REMOVE || !removed.filling)
			continue;
		removed.range[removed.n].start = msg.arg.remove.start;
		removed.range[removed.n++].end = msg.arg.remove.end;
	}
	pthread_mutex_unlock(&removed.lock);
	return open;
}

/* Once ready, the thread touches only its stack and removed, which is never registered. */
static void *
acknowledge(void *arg)
{
	struct start *start = arg;
	struct pollfd fd = {.fd = start->uffd, .events = POLLIN};

	take_messages(fd.fd); /* binds the symbols */
	sem_post(&start->ready);
	do
		syscall(SYS_ppoll, &fd, 1, NULL, NULL, 0);
	while (take_messages(fd.fd));
	return NULL;
}

/*
 * Waits until the thread is ready. While it starts, the C library or a sanitizer may touch a page
 * for the first time; that access would block if the page were next to a range being moved.
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
	int uffd = page_swap_uffd(UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE);
	int err;

	if (uffd < 0)
		return uffd;
	err = fcntl(uffd, F_SETFL, O_NONBLOCK) != 0 ? -errno : start_thread(uffd);
	if (err != 0) {
		close(uffd);
		return err;
	}
	return uffd;
}

void
page_return_forget(void)
{
	pthread_mutex_init(&removed.lock, NULL);
	removed.filling = false;
	removed.n = 0;
}

/* Begins or ends the filling of a chunk. Notes nothing of an earlier one. */
static void
removed_begin(bool filling)
{
	pthread_mutex_lock(&removed.lock);
	removed.filling = filling;
	removed.n = 0;
	pthread_mutex_unlock(&removed.lock);
}

/* Returns how many of the len bytes at addr have the same fate; *gone: they are removed. Locked. */
static uint64_t
removed_part(uint64_t addr, uint64_t len, bool *gone)
{
	uint64_t end = addr + len;

	*gone = false;
	for (unsigned i = 0; i < removed.n; i++) {
		uint64_t from = removed.range[i].start, to = removed.range[i].end;

		if (from <= addr && addr < to) {
			*gone = true;
			return (to < addr + len ? to : addr + len) - addr;
		}
		if (addr < from && from < end)
			end = from;
	}
	return end - addr;
}

/* Fills in at least a page of len bytes at to + *done, unless it is to be tried again. */
static int
fill_some(int uffd, uint64_t to, uint64_t from, uint64_t len, uint64_t *done)
{
	struct uffdio_copy copy = {.dst = to + *done, .src = from + *done};
	bool gone, again = false;
	int err = 0;

	pthread_mutex_lock(&removed.lock);
	copy.len = removed_part(copy.dst, len, &gone);
	if (gone || ioctl(uffd, UFFDIO_COPY, &copy) == 0)
		*done += copy.len;
	else if (copy.copy > 0)
		*done += (uint64_t)copy.copy;
	else if (errno == EAGAIN && removed.n < REMOVALS)
		again = true; /* a message waits to be read */
	else
		err = -errno;
	pthread_mutex_unlock(&removed.lock);
	if (again)
		sched_yield();
	return err;
}

/* *done counts present bytes only: another thread may store into them at once. */
static int
fill_run(int uffd, uint64_t to, uint64_t from, uint64_t len, uint64_t *done)
{
	uint64_t end = *done + len;
	int err = 0;

	if (uffd < 0) {
		page_swap_copy(to + *done, from + *done, len);
		*done = end;
	}
	while (err == 0 && *done < end)
		err = fill_some(uffd, to, from, end - *done, done);
	return err;
}

/* Part of a memfd that is also mapped at alias. */
struct source {
	uint64_t alias;
	int fd;
	uint64_t off;
};

/*
 * Fills [addr, addr + len) from the source, except for holes. Returns 0 or -errno, and the number
 * of bytes that are done.
 */
static int
fill_in(int uffd, uint64_t addr, uint64_t len, const struct source *src, uint64_t *done)
{
	uint64_t pos = src->off, n;
	int err = 0;

	while (err == 0 && page_swap_data(src->fd, src->alias - src->off, page_bytes(), &pos,
					  src->off + len, &n) == 0) {
		*done = pos - src->off;
		err = fill_run(uffd, addr, src->alias, n, done);
		pos += n;
	}
	if (err == 0)
		*done = len;
	return err;
}

static int
watch(int uffd, uint64_t addr, uint64_t len)
{
	struct uffdio_register reg = {
		.range = {.start = addr, .len = len},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	return uffd < 0 || ioctl(uffd, UFFDIO_REGISTER, &reg) == 0 ? 0 : -errno;
}

static void
unwatch(int uffd, uint64_t addr, uint64_t len)
{
	struct uffdio_range range = {.start = addr, .len = len};

	if (uffd >= 0)
		ioctl(uffd, UFFDIO_UNREGISTER, &range);
}

/*
 * Makes a private mapping without pages and without anonymous bookkeeping (anon_vma). It is placed
 * between pages of the memfd: beside private memory the kernel would merge the two and share that
 * memory's anon_vma. Returns the address, or 0 with errno. unmap_fresh undoes it, whether or not it
 * has been moved.
 */
static uint64_t
map_fresh(uint64_t len, int prot, int fd)
{
	uint64_t base = raw_mmap(len + 2 * page_bytes(), PROT_NONE, MAP_SHARED, fd, 0);
	int err;

	if (base == 0)
		return 0;
	err = raw_mmap_at(base + page_bytes(), len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (err == 0)
		return base + page_bytes();
	raw_munmap(base, len + 2 * page_bytes());
	errno = -err;
	return 0;
}

static void
unmap_fresh(uint64_t fresh, uint64_t len, bool moved)
{
	if (!moved) {
		raw_munmap(fresh - page_bytes(), len + 2 * page_bytes());
		return;
	}
	raw_munmap(fresh - page_bytes(), page_bytes());
	raw_munmap(fresh + len, page_bytes());
}

/* Moves a fresh private mapping over the range, and fills it from the source. */
static int
replace(int uffd, uint64_t addr, uint64_t len, int prot, const struct source *src)
{
	uint64_t fresh = map_fresh(len, prot, src->fd);
	uint64_t done = 0;
	bool moved;
	int err;

	if (fresh == 0)
		return -errno;
	removed_begin(true);
	err = watch(uffd, fresh, len);
	if (err != 0) {
		removed_begin(false);
		unmap_fresh(fresh, len, false);
		return err;
	}
	/*
	 * A mapping shares its neighbours' anon_vma when it gets its first page, and can merge with
	 * them later, only if its flags equal theirs: so watch the neighbours meanwhile.
	 */
	watch(uffd, addr - page_bytes(), page_bytes());
	watch(uffd, addr + len, page_bytes());
	err = raw_mremap_onto(fresh, len, addr);
	moved = err == 0;
	if (moved) {
		err = fill_in(uffd, addr, len, src, &done);
		/* Out of memory: the rest stays shared. */
		if (err != 0)
			raw_mremap_onto(src->alias + done, len - done, addr + done);
		unwatch(uffd, addr, len);
	}
	unmap_fresh(fresh, len, moved);
	unwatch(uffd, addr - page_bytes(), page_bytes());
	unwatch(uffd, addr + len, page_bytes());
	removed_begin(false);
	return err;
}

void
page_return_free(int fd, uint64_t off, uint64_t len)
{
	if (fd >= 0)
		syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len);
}

/*
 * Makes a second mapping of the chunk, which takes its page table entries along: accesses to the
 * chunk find the pages in the file again. Filled in from a mapping without entries, each page would
 * be mapped again first, and the chunk's entries would be removed one by one. The first mapping
 * fails for memory that is not shared, whose pages must not move: the program has replaced the
 * chunk. Before Linux 5.13 entries of a file cannot be moved. Returns as raw_mmap.
 */
static uint64_t
take_aside(uint64_t addr, uint64_t len)
{
	uint64_t at = raw_mremap_alias(addr, page_bytes());

	if (at == 0)
		return 0;
	raw_munmap(at, page_bytes());
	at = raw_mremap_aside(addr, len);
	return at != 0 ? at : raw_mremap_alias(addr, len);
}

int
page_return_chunk(int uffd, uint64_t addr, uint64_t len, int prot, int src_fd, uint64_t src_off)
{
	struct source src = {.alias = take_aside(addr, len), .fd = src_fd, .off = src_off};
	int err;

	if (src.alias == 0)
		return -errno;
	err = replace(uffd, addr, len, prot, &src);
	raw_munmap(src.alias, len);
	if (err == 0)
		page_return_free(src_fd, src_off, len);
	return err;
}

uint64_t
page_return_bytes(int src_fd, uint64_t addr, uint64_t src_off, uint64_t window, uint64_t data)
{
	uint64_t pos = src_off, end = src_off + window, at = addr - src_off, n, sum = 0;

	while (page_swap_data(src_fd, at, page_bytes(), &pos, end, &n) == 0) {
		if (sum + n >= data)
			return pos + (data - sum) - src_off;
		sum += n;
		pos += n;
	}
	return window;
}
