/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <sys/types.h>
#include "page_pause.h"
#include "page_return.h"
#include "map/page.h"
#include "page_swap.h"
#include "raw_mm.h"

#define CHUNK_BYTES                                                                                \
	(4ull << 20) /* present bytes of a chunk: they bound a store's wait, to about 2 ms */
#define WINDOW_PAGES                                                                               \
	16384u           /* pages of a chunk, absent ones too: bounds the scan while stores wait */
#define DATA_PAGES  512u /* pages of a memfd checked per call */
#define PROBE_PAGES 16u  /* checked first: mincore walks over holes slowly */
#define TABLE_BYTES (2ull << 20) /* covered by one page table: mremap moves whole tables */

#define HUGE_SHIFT  26 /* MAP_HUGE_SHIFT: log2 of the page size in the mmap flags */

static int
write_protect(const struct page_swap *swap, uint64_t addr, uint64_t len)
{
	struct uffdio_writeprotect wp = {
		.range = {.start = addr, .len = len},
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	while (swap->uffd >= 0 && ioctl(swap->uffd, UFFDIO_WRITEPROTECT, &wp) != 0) {
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

/* The memfd that gets the pages; -1: they become private. */
static int
target_of(const struct page_swap_job *job)
{
	return job->back ? -1 : job->fd;
}

/* A mapping to be moved over part of a range. */
struct staging {
	uint64_t base, bytes; /* the whole mapping */
	uint64_t at;          /* the part that replaces the range */
};

/*
 * Maps staging memory for [addr, addr + len) of job. 0 or -errno. If the range is long enough, the
 * memory is at the same offset within a page table: mremap then moves tables instead of entries.
 */
static int
stage(const struct page_swap_job *job, uint64_t addr, uint64_t len, struct staging *st)
{
	int fd = target_of(job), flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	uint64_t room = len >= TABLE_BYTES && job->page_size == page_bytes() ? TABLE_BYTES : 0;
	uint64_t off = job->fd_off + (addr - job->addr);
	uint64_t ahead = 0;

	if (fd < 0 && job->page_size > page_bytes())
		flags |= MAP_HUGETLB | __builtin_ctz(job->page_size) << HUGE_SHIFT;
	st->bytes = len + room;
	if (room != 0) {
		st->base = raw_mmap(st->bytes, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		ahead = (addr - st->base) & (TABLE_BYTES - 1);
		if (st->base != 0 && raw_mmap_at(st->base + ahead, len, PROT_READ | PROT_WRITE,
						 flags, fd, fd >= 0 ? off : 0) != 0) {
			int err = -errno;

			raw_munmap(st->base, st->bytes);
			return err;
		}
	} else {
		st->base = raw_mmap(len, PROT_READ | PROT_WRITE, flags, fd, fd >= 0 ? off : 0);
	}
	st->at = st->base + ahead;
	return st->base == 0 ? -errno : 0;
}

/* Unmaps the rest of the staging mapping, after len bytes at st->at, or none, were moved away. */
static void
unstage(const struct staging *st, uint64_t len)
{
	uint64_t behind = st->at + len;

	if (st->at > st->base)
		raw_munmap(st->base, st->at - st->base);
	if (behind < st->base + st->bytes)
		raw_munmap(behind, st->base + st->bytes - behind);
}

/* AddressSanitizer must not check this loop, and the compiler must not make it a memcpy. */
__attribute__((no_sanitize("address"), noinline)) void
page_swap_copy(uint64_t to, uint64_t from, uint64_t len)
{
	const volatile uint64_t *f = raw_ptr(from);
	uint64_t *t = raw_ptr(to);

	for (uint64_t i = 0; i < len / sizeof(*t); i++)
		t[i] = f[i];
}

/*
 * The entries of /proc/PID/pagemap for each page of a chunk, before and after it is protected.
 * Under the caller's lock.
 */
static uint64_t page_before[WINDOW_PAGES], page_after[WINDOW_PAGES];

#define PAGE_PRESENT (1ull << 63)
#define PAGE_SWAPPED (1ull << 62) /* or protected while absent */

/* Reads the pagemap entries of a range. Returns false on failure: all pages count as present. */
static bool
look_at_pages(const struct page_swap *swap, const struct page_swap_job *job, uint64_t addr,
	      uint64_t len, uint64_t *page)
{
	uint64_t bytes = len / page_bytes() * sizeof(*page);

	if (swap->pagemap < 0 || !swap->unpopulated || job->back || job->page_size > page_bytes())
		return false;
	return syscall(SYS_pread64, swap->pagemap, page, bytes,
		       addr / page_bytes() * sizeof(*page)) == (long)bytes;
}

static bool
there_before(uint64_t i)
{
	return page_before[i] != 0;
}

static __attribute__((no_sanitize("address"), noinline)) bool
is_zero(uint64_t page)
{
	const volatile uint64_t *p = raw_ptr(page);
	uint64_t bits = 0;

	for (unsigned i = 0; i < page_bytes() / sizeof(*p); i++)
		bits |= p[i];
	return bits == 0;
}

/*
 * Returns true if page i of a protected chunk has contents. A page that was absent and now looks
 * swapped out only carries the mark of the protection, unless it was touched and swapped out in
 * between.
 */
static bool
has_contents(uint64_t chunk, uint64_t i, bool swap_is_on)
{
	if (there_before(i) || (page_after[i] & PAGE_PRESENT) != 0)
		return true;
	return page_after[i] != 0 && swap_is_on && !is_zero(chunk + i * page_bytes());
}

static int
write_pages(int fd, uint64_t addr, uint64_t len, uint64_t off)
{
	uint64_t done = 0;

	while (done < len) {
		long n = syscall(SYS_pwrite64, fd, addr + done, len - done, off + done);

		if (n <= 0)
			return n == 0 ? -EIO : -errno;
		done += (uint64_t)n;
	}
	return 0;
}

/*
 * Copies a run of present pages at the lowest cost: write(2) fills a memfd's pages without clearing
 * them first, and either advice saves one fault per page. If an advice fails, the copy faults.
 */
static int
copy_run(const struct page_swap_job *job, uint64_t addr, uint64_t len, uint64_t to)
{
	int err = 0;

	if (target_of(job) < 0 || job->page_size > page_bytes()) {
		raw_madvise(to, len, MADV_POPULATE_WRITE);
		page_swap_copy(to, addr, len);
	} else {
		err = write_pages(job->fd, addr, len, job->fd_off + (addr - job->addr));
		raw_madvise(to, len, MADV_POPULATE_READ);
	}
	return err;
}

static bool
swap_is_on(void)
{
	struct sysinfo info;

	return sysinfo(&info) != 0 || info.totalswap != 0;
}

/* Copies the contents of a chunk that nobody can change now. known: page_before is valid. */
static int
copy_chunk(const struct page_swap *swap, const struct page_swap_job *job, uint64_t addr,
	   uint64_t len, uint64_t to, bool known)
{
	uint64_t n = len / page_bytes(), end;
	bool swapping;
	int err = 0;

	if (!known || !look_at_pages(swap, job, addr, len, page_after))
		return copy_run(job, addr, len, to);
	swapping = swap_is_on();
	for (uint64_t i = 0; err == 0 && i < n; i = end + 1) {
		for (end = i; end < n && has_contents(addr, end, swapping); end++)
			;
		if (end > i)
			err = copy_run(job, addr + i * page_bytes(), (end - i) * page_bytes(),
				       to + i * page_bytes());
	}
	return err;
}

/* Makes every store into the chunk wait. known: absent pages may stay absent. */
static int
pin_back(const struct page_swap *swap, uint64_t addr, uint64_t len, bool known)
{
	struct uffdio_register reg = {
		.range = {.start = addr, .len = len},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int err;

	if (swap->uffd < 0)
		return 0; /* no other thread runs */
	/*
	 * Kernels before 6.4 cannot protect an absent page, but can protect a zero page. With newer
	 * kernels this only saves faults while copying.
	 */
	if (!known && raw_madvise(addr, len, MADV_POPULATE_READ) != 0 && !swap->unpopulated)
		return -errno;
	if (ioctl(swap->uffd, UFFDIO_REGISTER, &reg) != 0)
		return -errno;
	err = write_protect(swap, addr, len);
	if (err != 0)
		ioctl(swap->uffd, UFFDIO_UNREGISTER, &reg.range);
	return err;
}

/* Copies a protected chunk and moves the copy over it. */
static int
replace(const struct page_swap *swap, const struct page_swap_job *job, uint64_t addr, uint64_t len,
	uint64_t staged, bool known)
{
	struct uffdio_range range = {.start = addr, .len = len};
	int err = copy_chunk(swap, job, addr, len, staged, known);

	if (err == 0)
		err = set_prot(staged, len, job->prot);
	/*
	 * Protect again, only to find out (ENOENT) whether the program unmapped the range during
	 * the copy: the mremap would map it again.
	 */
	if (err == 0)
		err = write_protect(swap, addr, len);
	if (err == 0 && swap->pauses && !page_pause_lasts())
		err = -EBUSY;
	if (err == 0)
		err = raw_mremap_onto(staged, len, addr);
	if (swap->uffd >= 0 && err != 0)
		ioctl(swap->uffd, UFFDIO_UNREGISTER, &range);
	if (swap->uffd >= 0)
		ioctl(swap->uffd, UFFDIO_WAKE, &range);
	return err;
}

static int
swap_chunk(const struct page_swap *swap, const struct page_swap_job *job, uint64_t addr,
	   uint64_t len, bool known)
{
	struct staging st;
	int err = stage(job, addr, len, &st);

	if (err != 0)
		return err;
	err = pin_back(swap, addr, len, known);
	if (err == 0)
		err = replace(swap, job, addr, len, st.at, known);
	unstage(&st, err == 0 ? len : 0);
	return err;
}

/*
 * Returns how much of a window of memory makes a chunk: at most chunk bytes of present pages.
 * page_before is valid for the window.
 */
static uint64_t
cut_chunk(uint64_t addr, uint64_t window, uint64_t chunk)
{
	uint64_t there = 0, cut = 0;

	while (cut < window && there < chunk) {
		there += there_before(cut / page_bytes()) ? page_bytes() : 0;
		cut += page_bytes();
	}
	/* Whole page tables, if there is more than one. */
	return cut == window || cut <= chunk ? cut : cut - ((addr + cut) & (TABLE_BYTES - 1));
}

/*
 * Huge pages return as they came: their mappings would not merge, because each has a separate
 * file.
 */
static bool
by_return(const struct page_swap_job *job)
{
	return job->back && job->page_size == page_bytes();
}

/* Returns the number of bytes to do at once. *known: page_before is valid for them. */
static uint64_t
chunk_bytes(const struct page_swap *swap, const struct page_swap_job *job, uint64_t addr,
	    uint64_t left, bool *known)
{
	uint64_t page = job->page_size, chunk = CHUNK_BYTES > page ? CHUNK_BYTES : page;
	uint64_t window = (uint64_t)WINDOW_PAGES * page_bytes();

	*known = false;
	window = left < window ? left : window;
	if (page == page_bytes())
		chunk -= addr & (TABLE_BYTES - 1);
	*known = look_at_pages(swap, job, addr, window, page_before);
	if (*known)
		return cut_chunk(addr, window, chunk);
	if (by_return(job))
		return page_return_bytes(job->fd, addr, job->fd_off + (addr - job->addr), window,
					 chunk);
	return left < chunk ? left : chunk;
}

/*
 * With pauses: stops the other threads. The kernel's own stores do not stop, so there must be none:
 * a stopped process does not begin any. 0 or -errno.
 */
static int
stores_stop(const struct page_swap *swap)
{
	int err = swap->pauses ? page_pause_begin() : 0;

	if (swap->pauses && err == 0 && process_has_kernel_stores()) {
		page_pause_end();
		err = -EPERM;
	}
	return err;
}

/*
 * Blocks all signals, because a handler could touch the chunk. The C library's function would leave
 * its internal signals unblocked.
 */
static int
swap_chunks(const struct page_swap *swap, const struct page_swap_job *job, uint64_t *done)
{
	uint64_t all = ~0ull, old;
	int err = 0;

	while (err == 0 && *done < job->len) {
		uint64_t addr = job->addr + *done;
		bool known;
		uint64_t len = chunk_bytes(swap, job, addr, job->len - *done, &known);

		syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(all));
		err = stores_stop(swap);
		if (err == 0) {
			err = by_return(job) ? page_return_chunk(swap->return_uffd, job, addr, len)
					     : swap_chunk(swap, job, addr, len, known);
			if (swap->pauses)
				page_pause_end();
		}
		if (err == 0)
			*done += len;
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	}
	return err;
}

/* Gets the descriptor and the thread that returns need. 0 or -errno. */
static int
return_prepare(struct page_swap *swap)
{
	if (swap->uffd < 0)
		return 0; /* no other thread runs */
	if (swap->return_uffd < 0)
		swap->return_uffd = page_return_open();
	return swap->return_uffd < 0 ? swap->return_uffd : 0;
}

int
page_swap_run(struct page_swap *swap, const struct page_swap_job *job, uint64_t *done)
{
	bool unreadable = job->back && !by_return(job) && (job->prot & PROT_READ) == 0;
	int err = by_return(job) ? return_prepare(swap) : 0;

	*done = 0;
	if (err == 0 && unreadable)
		err = raw_mprotect(job->addr, job->len, PROT_READ);
	if (err == 0 && swap->pauses)
		err = page_pause_open();
	if (err == 0)
		err = swap_chunks(swap, job, done);
	if (swap->pauses)
		page_pause_close();
	if (unreadable && *done < job->len)
		raw_mprotect(job->addr + *done, job->len - *done, job->prot);
	if (job->back && !by_return(job))
		page_return_free(job->fd, job->fd_off, *done);
	return err;
}

/* Sets *run to the number of pages in memory from at on, at most n. False if that is unknown. */
static bool
run_in_memory(uint64_t at, uint64_t n, uint64_t *run)
{
	unsigned char there[DATA_PAGES];

	if (syscall(SYS_mincore, at, n * page_bytes(), there) != 0)
		return false;
	for (*run = 0; *run < n && (there[*run] & 1) != 0;)
		++*run;
	return true;
}

/*
 * mincore(2) reports pages in memory, but reports swapped-out pages as holes. Seeking data finds
 * both, but seeking a hole walks over all data up to the hole.
 */
int
page_swap_data(int fd, uint64_t at, uint32_t page_size, uint64_t *pos, uint64_t end, uint64_t *len)
{
	uint64_t n = (end - *pos) / page_bytes(), probe, run, more;

	if (*pos >= end)
		return -ENOENT;
	*len = end - *pos;
	if (fd < 0 || page_size > page_bytes())
		return 0;
	n = n < DATA_PAGES ? n : DATA_PAGES;
	probe = n < PROBE_PAGES ? n : PROBE_PAGES;
	if (!run_in_memory(at + *pos, probe, &run))
		return 0;
	if (run == probe && n > probe &&
	    run_in_memory(at + *pos + probe * page_bytes(), n - probe, &more))
		run += more;
	if (run == 0) {
		off_t data = lseek(fd, (off_t)*pos, SEEK_DATA);

		if (data < 0 && errno != ENXIO)
			return 0;
		if (data < 0 || (uint64_t)data >= end)
			return -ENOENT;
		*pos = (uint64_t)data;
		run = 1;
	}
	*len = run * page_bytes();
	return 0;
}

int
page_swap_privatize(uint64_t addr, uint64_t len, uint32_t page_size, int prot, int fd, uint64_t off)
{
	struct page_swap_job job = {
		.addr = addr, .len = len, .page_size = page_size, .prot = prot, .back = true};
	uint64_t pos = off, n;
	struct staging st;
	int err = stage(&job, addr, len, &st);

	if (err != 0 && page_size > page_bytes()) {
		job.page_size = page_bytes();
		err = stage(&job, addr, len, &st);
	}
	if (err != 0)
		return err;
	for (; page_swap_data(fd, addr - off, page_size, &pos, off + len, &n) == 0; pos += n)
		copy_run(&job, addr + (pos - off), n, st.at + (pos - off));
	err = set_prot(st.at, len, prot);
	if (err == 0)
		err = raw_mremap_onto(st.at, len, addr);
	unstage(&st, err == 0 ? len : 0);
	return err;
}
