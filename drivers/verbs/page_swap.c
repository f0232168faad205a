/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include "page_return.h"
#include "page_swap.h"
#include "raw_mm.h"

#define BASE_PAGE   4096u
#define CHUNK_BYTES (4ull << 20) /* bounds how long a store may wait: about 2 ms */

#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

#define HUGE_SHIFT 26 /* MAP_HUGE_SHIFT: log2 of the page size in the mmap flags */

static int
uffd_new(void)
{
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	int dev;

	if (fd >= 0 || errno != EPERM)
		return fd < 0 ? -errno : (int)fd;
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return -EPERM;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(dev);
	return (int)fd;
}

int
page_swap_uffd(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int fd = uffd_new();
	int err;

	if (fd < 0)
		return fd;
	if (ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int
page_swap_open(struct page_swap *swap)
{
	const uint64_t need = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;

	swap->return_uffd = -1;
	swap->return_fails = false;
	swap->unpopulated = true;
	swap->uffd = page_swap_uffd(need | UFFD_FEATURE_WP_UNPOPULATED);
	if (swap->uffd == -EINVAL) {
		swap->unpopulated = false;
		swap->uffd = page_swap_uffd(need);
	}
	return swap->uffd < 0 ? swap->uffd : 0;
}

void
page_swap_close(struct page_swap *swap)
{
	if (swap->uffd >= 0)
		close(swap->uffd);
	if (swap->return_uffd >= 0)
		close(swap->return_uffd);
	swap->uffd = -1;
	swap->return_uffd = -1;
}

static struct page_swap process_swap = {.uffd = -1, .return_uffd = -1};
static pid_t process_pid; /* whose memory the descriptors work on */

struct page_swap *
page_swap_process(int *err)
{
	pid_t pid = getpid();

	if (process_swap.uffd >= 0 && process_pid != pid)
		page_swap_close(&process_swap);
	*err = process_swap.uffd >= 0 ? 0 : page_swap_open(&process_swap);
	process_pid = pid;
	return *err == 0 ? &process_swap : NULL;
}

void
page_swap_forget(void)
{
	page_swap_close(&process_swap);
}

static int
write_protect(const struct page_swap *swap, uint64_t addr, uint64_t len)
{
	struct uffdio_writeprotect wp = {
		.range = {.start = addr, .len = len},
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	while (ioctl(swap->uffd, UFFDIO_WRITEPROTECT, &wp) != 0) {
		if (errno != EAGAIN)
			return -errno;
	}
	return 0;
}

static int
set_prot(uint64_t addr, uint64_t len, int prot)
{
	return prot == (PROT_READ | PROT_WRITE) ? 0 : raw_mprotect(addr, len, prot);
}

/*
 * A mapping of len bytes to be moved over the range; 0 on failure, with errno. Aligned as mmap
 * does for the page size.
 */
static uint64_t
stage(const struct page_swap_job *job)
{
	int flags = job->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;

	if (job->fd < 0 && job->page_size > BASE_PAGE)
		flags |= MAP_HUGETLB | __builtin_ctz(job->page_size) << HUGE_SHIFT;
	return raw_mmap(job->len, PROT_READ | PROT_WRITE, flags, job->fd,
			job->fd >= 0 ? job->fd_off : 0);
}

/*
 * Whole pages, whatever lies in them. Between the program's objects AddressSanitizer keeps bytes
 * that nobody may read: it must neither check this loop nor see it turned into a memcpy.
 */
static __attribute__((no_sanitize("address"), noinline)) void
copy_pages(uint64_t to, uint64_t from, uint64_t len)
{
	const volatile uint64_t *f = raw_ptr(from);
	uint64_t *t = raw_ptr(to);

	for (uint64_t i = 0; i < len / sizeof(*t); i++)
		t[i] = f[i];
}

/*
 * The contents, in the way that costs least: write(2) fills a memfd's pages without clearing them
 * first, and either advice saves a fault a page. Where an advice does not work the copy faults.
 */
static int
copy_chunk(const struct page_swap_job *job, uint64_t addr, uint64_t len, uint64_t staged)
{
	uint64_t off = job->fd_off + (addr - job->addr), done = 0;

	if (job->fd < 0 || job->page_size > BASE_PAGE) {
		raw_madvise(staged, len, MADV_POPULATE_WRITE);
		copy_pages(staged, addr, len);
		return 0;
	}
	while (done < len) {
		long n = syscall(SYS_pwrite64, job->fd, addr + done, len - done, off + done);

		if (n <= 0)
			return n == 0 ? -EIO : -errno;
		done += (uint64_t)n;
	}
	raw_madvise(staged, len, MADV_POPULATE_READ);
	return 0;
}

/* One chunk, the range being registered with the userfaultfd. */
static int
swap_chunk(const struct page_swap *swap, const struct page_swap_job *job, uint64_t addr,
	   uint64_t len, uint64_t staged)
{
	struct uffdio_range range = {.start = addr, .len = len};
	uint64_t alias = 0;
	int err;

	/*
	 * A page that is not there cannot be protected by kernels before 6.4; a zero page can. With
	 * newer ones this only saves faults while copying.
	 */
	if (raw_madvise(addr, len, MADV_POPULATE_READ) != 0 && !swap->unpopulated)
		return -errno;
	err = write_protect(swap, addr, len);
	if (err != 0)
		return err;
	err = copy_chunk(job, addr, len, staged);
	if (err == 0)
		err = set_prot(staged, len, job->prot);
	if (err != 0)
		return err;
	if (job->release_source) {
		alias = raw_mremap_alias(addr, len);
	}
	/*
	 * Again, only to be told (ENOENT) if the program unmapped the range while it was being
	 * copied: the mremap would put it back.
	 */
	err = write_protect(swap, addr, len);
	if (err == 0)
		err = raw_mremap_onto(staged, len, addr);
	if (alias != 0) {
		if (err == 0)
			raw_madvise(alias, len, MADV_REMOVE);
		raw_munmap(alias, len);
	}
	ioctl(swap->uffd, UFFDIO_WAKE, &range);
	return err;
}

/* Takes the protection off what was not replaced and wakes who waits there. */
static void
unprotect(const struct page_swap *swap, const struct page_swap_job *job, uint64_t done)
{
	struct uffdio_range rest = {.start = job->addr + done, .len = job->len - done};

	ioctl(swap->uffd, UFFDIO_UNREGISTER, &rest);
}

/*
 * Chunk by chunk; with no staging mapping (0) by page_return. A signal handler could touch the
 * chunk and so is held back; the library's function would spare its internal signals.
 */
static int
swap_chunks(const struct page_swap *swap, const struct page_swap_job *job, uint64_t staged,
	    uint64_t *done)
{
	uint64_t chunk = job->page_size > CHUNK_BYTES ? job->page_size : CHUNK_BYTES;
	uint64_t all = ~0ull, old;
	int err = 0;

	while (err == 0 && *done < job->len) {
		uint64_t len = job->len - *done < chunk ? job->len - *done : chunk;
		uint64_t addr = job->addr + *done;

		syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(all));
		if (staged == 0)
			err = page_return_chunk(swap->return_uffd, addr, len, job->prot,
						job->release_source);
		else
			err = swap_chunk(swap, job, addr, len, staged + *done);
		if (err == 0)
			*done += len;
		else if (staged != 0)
			unprotect(swap, job, *done);
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	}
	return err;
}

static int
swap_staged(const struct page_swap *swap, const struct page_swap_job *job, uint64_t *done)
{
	struct uffdio_register reg = {
		.range = {.start = job->addr, .len = job->len},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	uint64_t staged = stage(job);
	int err;

	if (staged == 0)
		return -errno;
	err = ioctl(swap->uffd, UFFDIO_REGISTER, &reg) == 0 ? 0 : -errno;
	if (err == 0)
		err = swap_chunks(swap, job, staged, done);
	if (*done < job->len)
		raw_munmap(staged + *done, job->len - *done);
	return err;
}

/* Huge pages come from a file of their own either way: nothing would merge. */
static bool
can_return(struct page_swap *swap, const struct page_swap_job *job)
{
	if (job->fd >= 0 || job->page_size > BASE_PAGE || swap->return_fails)
		return false;
	if (swap->return_uffd < 0)
		swap->return_uffd = page_return_open();
	swap->return_fails = swap->return_uffd < 0;
	return !swap->return_fails;
}

int
page_swap_run(struct page_swap *swap, const struct page_swap_job *job, uint64_t *done)
{
	*done = 0;
	if (can_return(swap, job))
		return swap_chunks(swap, job, 0, done);
	return swap_staged(swap, job, done);
}

int
page_swap_privatize(uint64_t addr, uint64_t len, uint32_t page_size, int prot)
{
	struct page_swap_job job = {
		.addr = addr, .len = len, .page_size = page_size, .prot = prot, .fd = -1};
	uint64_t staged = stage(&job);
	int err;

	if (staged == 0 && page_size > BASE_PAGE) {
		job.page_size = BASE_PAGE;
		staged = stage(&job);
	}
	if (staged == 0)
		return -errno;
	raw_madvise(staged, len, MADV_POPULATE_WRITE);
	copy_pages(staged, addr, len);
	err = set_prot(staged, len, prot);
	if (err != 0)
		return err;
	return raw_mremap_onto(staged, len, addr);
}
