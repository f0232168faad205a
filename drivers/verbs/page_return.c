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
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "page_return.h"
#include "map/page.h"
#include "map/vma.h"
#include "mr_linger.h"
#include "page_swap.h"
#include "raw_mm.h"

#define STACK_BYTES (128u << 10)
#define CHANGES     64u

struct start {
	int uffd;
	sem_t ready;
};

/*
 * What the program does to a chunk, and to the page on either side, by madvise and mremap while the
 * chunk is filled in, in this order. The kernel takes removed pages away once, after the message
 * about it is read, so pages that are filled in after that would come back. The lock covers both
 * the reading of messages and each step of filling in.
 */
static struct {
	pthread_mutex_t lock;
	bool filling;        /* else a moved mapping no longer waits for pages */
	uint64_t start, end; /* the chunk and its neighbours */
	uint64_t fresh;      /* from where the chunk's mapping is moved: not the program's doing */
	unsigned n;
	struct change {
		uint64_t start, end;
		uint64_t to; /* 0: removed */
	} change[CHANGES];
} program = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int watched_by = -1; /* under the caller's lock */

void
page_return_watched_by(int uffd)
{
	watched_by = uffd;
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

/* Page by page if the program has mapped something else in between that refuses it. */
static void
unwatch(int uffd, uint64_t addr, uint64_t len)
{
	struct uffdio_range range = {.start = addr, .len = len};

	if (uffd < 0 || ioctl(uffd, UFFDIO_UNREGISTER, &range) == 0)
		return;
	range.len = page_bytes();
	for (; range.start < addr + len; range.start += page_bytes())
		ioctl(uffd, UFFDIO_UNREGISTER, &range);
}

static void
note_change(int uffd, uint64_t start, uint64_t end, uint64_t to)
{
	if (program.filling && start < program.end && program.start < end)
		program.change[program.n++] = (struct change){start, end, to};
	else if (to != 0 && start != program.fresh)
		unwatch(uffd, to, end - start);
}

/*
 * Returns where the memory of addr is now. Reduces *len to the bytes that have the same fate;
 * *gone: its contents are removed, or other memory was moved there. Locked.
 */
static uint64_t
place_of(uint64_t addr, uint64_t *len, bool *gone)
{
	*gone = false;
	for (unsigned i = 0; i < program.n; i++) {
		const struct change *c = &program.change[i];
		uint64_t over = c->to == 0 ? 0 : c->to + (c->end - c->start);
		const uint64_t bound[] = {c->start, c->end, c->to, over};

		for (unsigned k = 0; k < sizeof(bound) / sizeof(bound[0]); k++)
			if (addr < bound[k] && bound[k] - addr < *len)
				*len = bound[k] - addr;
		if (c->start <= addr && addr < c->end && c->to != 0)
			addr = c->to + (addr - c->start);
		else if ((c->start <= addr && addr < c->end) || (c->to <= addr && addr < over))
			*gone = true;
	}
	return addr;
}

/*
 * A thread waits for the page at addr. If the page is not among those that are filled in, it is one
 * that the program got by growing the mapping, which the kernel registered along with the rest:
 * lets the thread continue. Locked.
 */
static void
note_fault(int uffd, uint64_t addr)
{
	uint64_t at = program.start, n;
	bool gone;

	addr &= ~((uint64_t)page_bytes() - 1);
	for (; program.filling && at < program.end; at += n) {
		n = program.end - at;
		uint64_t place = place_of(at, &n, &gone);

		if (place <= addr && addr < place + n)
			return;
	}
	unwatch(uffd, addr, page_bytes());
}

/*
 * Reading a message about a move or a removal lets the mremap or madvise that caused it continue.
 * Returns false if the descriptor is closed.
 */
static bool
take_messages(int uffd)
{
	struct uffd_msg msg;
	bool open = true;

	pthread_mutex_lock(&program.lock);
	while (program.n < CHANGES) {
		if (syscall(SYS_read, uffd, &msg, sizeof(msg)) < 0) {
			open = errno == EINTR || errno == EAGAIN;
			break;
		}
		if (msg.event == UFFD_EVENT_REMOVE)
			note_change(uffd, msg.arg.remove.start, msg.arg.remove.end, 0);
		else if (msg.event == UFFD_EVENT_REMAP)
			note_change(uffd, msg.arg.remap.from,
				    msg.arg.remap.from + msg.arg.remap.len, msg.arg.remap.to);
		else if (msg.event == UFFD_EVENT_PAGEFAULT)
			note_fault(uffd, msg.arg.pagefault.address);
	}
	pthread_mutex_unlock(&program.lock);
	return open;
}

/* Once ready, the thread touches only its stack and program, which is never registered. */
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
	pthread_mutex_init(&program.lock, NULL);
	program.filling = false;
	program.n = 0;
}

/* Begins the filling of a chunk. Nothing of an earlier one is left. */
static void
fill_begin(uint64_t addr, uint64_t len, uint64_t fresh)
{
	pthread_mutex_lock(&program.lock);
	program.start = addr - page_bytes();
	program.end = addr + len + page_bytes();
	program.fresh = fresh;
	program.filling = true;
	pthread_mutex_unlock(&program.lock);
}

/* Ends the filling: no access to the chunk or its neighbours waits any more. */
static void
fill_end(int uffd)
{
	uint64_t at = program.start, n;
	bool gone;

	pthread_mutex_lock(&program.lock);
	for (; uffd >= 0 && at < program.end; at += n) {
		n = program.end - at;
		uint64_t place = place_of(at, &n, &gone);

		unwatch(uffd, place, n);
	}
	program.filling = false;
	program.n = 0;
	pthread_mutex_unlock(&program.lock);
}

/* Part of a chunk that is filled in. */
struct filling {
	int uffd;
	uint64_t addr, len;
	uint64_t alias;  /* of the shared pages */
	uint64_t done;   /* bytes from addr */
	bool one_by_one; /* page by page: the program has split the mapping */
};

/*
 * Fills in at least a page of len bytes, unless it is to be tried again. A page that is no longer
 * mapped as the chunk was is the program's affair.
 */
static int
fill_some(struct filling *f, uint64_t len)
{
	struct uffdio_copy copy = {.src = f->alias + f->done,
				   .len = f->one_by_one ? page_bytes() : len};
	bool gone, again = false;
	int err = 0;

	pthread_mutex_lock(&program.lock);
	copy.dst = place_of(f->addr + f->done, (uint64_t *)&copy.len, &gone);
	if (gone || ioctl(f->uffd, UFFDIO_COPY, &copy) == 0)
		f->done += copy.len;
	else if (copy.copy > 0)
		f->done += (uint64_t)copy.copy;
	else if (errno == EAGAIN && program.n < CHANGES)
		again = true; /* a message waits to be read */
	else if (errno == ENOENT && copy.len > page_bytes())
		f->one_by_one = true;
	else if (errno == ENOENT)
		f->done += page_bytes();
	else
		err = -errno;
	pthread_mutex_unlock(&program.lock);
	if (again)
		sched_yield();
	return err;
}

/* done counts present bytes only: another thread may store into them at once. */
static int
fill_run(struct filling *f, uint64_t len)
{
	uint64_t end = f->done + len;
	int err = 0;

	raw_madvise(f->alias + f->done, len, MADV_POPULATE_READ); /* saves faults */
	if (f->uffd < 0) {
		page_swap_copy(f->addr + f->done, f->alias + f->done, len);
		f->done = end;
	}
	while (err == 0 && f->done < end)
		err = fill_some(f, end - f->done);
	return err;
}

/* Fills in the chunk, except for holes, which begins at offset off of fd. */
static int
fill_in(struct filling *f, int fd, uint64_t off)
{
	uint64_t pos = off, n;
	int err = 0;

	while (err == 0 &&
	       page_swap_data(fd, f->alias - off, page_bytes(), &pos, off + f->len, &n) == 0) {
		f->done = pos - off;
		err = fill_run(f, n);
		pos += n;
	}
	if (err == 0)
		f->done = f->len;
	return err;
}

/* Out of memory: the rest stays shared, by the second mapping. */
static void
put_rest_back(struct filling *f, int prot)
{
	uint64_t place, n;
	bool gone;

	raw_mprotect(f->alias, f->len, prot);
	pthread_mutex_lock(&program.lock);
	for (; f->done < f->len; f->done += n) {
		n = f->len - f->done;
		place = place_of(f->addr + f->done, &n, &gone);
		if (!gone)
			raw_mremap_onto(f->alias + f->done, n, place);
	}
	pthread_mutex_unlock(&program.lock);
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
	if (!moved)
		raw_munmap(fresh, len);
	raw_munmap(fresh - page_bytes(), page_bytes());
	raw_munmap(fresh + len, page_bytes());
}

/* Does v map the file that st describes? */
static bool
is_of(const struct vma *v, const struct stat *st)
{
	return v->shared && v->inode == st->st_ino && v->dev_major == major(st->st_dev) &&
	       v->dev_minor == minor(st->st_dev);
}

/* Is the chunk still mapped as it was when the job was made? */
static bool
is_mapped(const struct page_swap_job *job, uint64_t addr, uint64_t len)
{
	struct vma_scan scan;
	struct stat st;
	struct vma v;
	bool is;

	if (fstat(job->fd, &st) != 0 || vma_scan_open(&scan, 0) != 0)
		return false;
	is = vma_scan_next(&scan, addr, &v) == 0 && v.start <= addr && addr + len <= v.end &&
	     is_of(&v, &st) && v.prot == job->prot &&
	     v.offset + (addr - v.start) == job->fd_off + (addr - job->addr);
	vma_scan_close(&scan);
	return is;
}

/* Moves a fresh private mapping over the chunk, and fills it in. */
static int
replace(const struct page_swap_job *job, struct filling *f)
{
	/* Nobody sees the mapping before it is complete if no other thread runs. */
	int prot = f->uffd < 0 ? PROT_READ | PROT_WRITE : job->prot;
	uint64_t fresh = map_fresh(f->len, prot, job->fd);
	bool moved;
	int err;

	if (fresh == 0)
		return -errno;
	fill_begin(f->addr, f->len, fresh);
	err = watch(f->uffd, fresh, f->len);
	/*
	 * A mapping shares its neighbours' anon_vma when it gets its first page, and can merge with
	 * them later, only if its flags equal theirs: so watch the neighbours meanwhile.
	 */
	if (err == 0) {
		watch(f->uffd, f->addr - page_bytes(), page_bytes());
		watch(f->uffd, f->addr + f->len, page_bytes());
	}
	if (err == 0 && !is_mapped(job, f->addr, f->len))
		err = -ENOENT;
	if (err == 0)
		err = raw_mremap_onto(fresh, f->len, f->addr);
	moved = err == 0;
	if (moved)
		err = fill_in(f, job->fd, job->fd_off + (f->addr - job->addr));
	if (moved && err != 0)
		put_rest_back(f, job->prot);
	if (moved && prot != job->prot)
		raw_mprotect(f->addr, f->len, job->prot);
	fill_end(f->uffd);
	unmap_fresh(fresh, f->len, moved);
	return err;
}

void
page_return_free(int fd, uint64_t off, uint64_t len)
{
	if (fd >= 0)
		syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len);
}

/*
 * Makes a second mapping of the chunk. Of a long one it takes the page table entries along, which
 * saves mapping each page there and unmapping it here (Linux 5.13): a fifth of the time. If the
 * program replaced a short one now, which it may free while it lingers, it would lose its pages.
 * Memory that another userfaultfd watches is not moved: this thread would wait for the message to
 * be read. Returns as raw_mmap.
 */
static uint64_t
map_again(int uffd, const struct page_swap_job *job, uint64_t addr, uint64_t len)
{
	uint64_t at = 0;

	if (len > MR_LINGER_MAX && (job->prot & PROT_READ) != 0 && is_mapped(job, addr, len) &&
	    watch(uffd, addr, len) == 0) {
		unwatch(uffd, addr, len);
		at = raw_mremap_aside(addr, len);
	}
	return at != 0 ? at
		       : raw_mmap(len, PROT_READ, MAP_SHARED, job->fd,
				  job->fd_off + (addr - job->addr));
}

bool
page_return_is_disturbed(void)
{
	struct uffdio_writeprotect nothing = {.range.len = page_bytes()};

	return watched_by >= 0 && ioctl(watched_by, UFFDIO_WRITEPROTECT, &nothing) != 0 &&
	       errno == EAGAIN;
}

/*
 * Unmaps the parts of a returned chunk whose pages are still mapped elsewhere: the program has
 * moved them before. A mapping that begins in front of them has grown instead: it does not count.
 * Returns true if there are some.
 */
static bool
unmap_moved(const struct page_swap_job *job, uint64_t addr, uint64_t len)
{
	uint64_t off = job->fd_off + (addr - job->addr), pos = 0;
	struct vma_scan scan;
	bool found = false;
	struct stat st;
	struct vma v;

	if (fstat(job->fd, &st) != 0 || vma_scan_open(&scan, 0) != 0)
		return false;
	while (vma_scan_next(&scan, pos, &v) == 0) {
		uint64_t from = v.offset > off ? v.offset : off;
		uint64_t to = v.offset + (v.end - v.start);

		pos = v.end;
		to = to < off + len ? to : off + len;
		if (!is_of(&v, &st) || from >= to || v.offset < off)
			continue;
		raw_munmap(addr + (from - off), to - from);
		found = true;
	}
	vma_scan_close(&scan);
	return found;
}

int
page_return_chunk(int uffd, const struct page_swap_job *job, uint64_t addr, uint64_t len)
{
	struct filling f = {
		.uffd = uffd,
		.addr = addr,
		.len = len,
		.alias = map_again(uffd, job, addr, len),
	};
	int err;

	if (f.alias == 0)
		return -errno;
	err = replace(job, &f);
	raw_munmap(f.alias, len);
	/* A moved page may also be mapped by memory in front of it that has grown. */
	if (err == 0 && !job->moved && page_return_is_disturbed() && unmap_moved(job, addr, len))
		err = -ENOENT;
	if (err == 0)
		page_return_free(job->fd, job->fd_off + (addr - job->addr), len);
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
