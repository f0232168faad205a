/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on registered memory: register more, free, move. Forks: test_fork.c. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "map/vma.h"
#include "mr_adopt.h"
#include "page_swap.h"
#include "../../kit/unit.h"

static void
client_twice(void)
{
	uint8_t *p = map_private(32 * PAGE);
	struct reg a, b;

	fill(p, 32 * PAGE, 1);
	CHECK(client_reg(&a, p, 32 * PAGE, ACCESS_WRITE) == 0);
	CHECK(client_reg(&b, p + 10, 30 * PAGE, ACCESS_WRITE) == 0);
	CHECK(a.path == UROCE_MR_PATH_ADOPTED && b.path == UROCE_MR_PATH_ADOPTED);
	CHECK(filled(p, 32 * PAGE, 1));
	CHECK(daemon_fill(&a, p, 32 * PAGE, 2) == 0 && filled(p, 32 * PAGE, 2));
	CHECK(daemon_sees(&b, p + 10, 30 * PAGE));
	client_dereg(&a);
	CHECK(!is_private(p) && filled(p, 32 * PAGE, 2));
	CHECK(is_private(p + 31 * PAGE));
	CHECK(daemon_fill(&b, p + 10, 30 * PAGE, 3) == 0 && filled(p + 10, 30 * PAGE, 3));
	client_dereg(&b);
	CHECK(is_private(p) && filled(p + 10, 30 * PAGE, 3));
}

static void
client_overlap(void)
{
	uint8_t *p = map_private(64 * PAGE);
	struct reg a, b, c;

	fill(p, 64 * PAGE, 1);
	CHECK(client_reg(&a, p + 10 * PAGE, 20 * PAGE, ACCESS_WRITE) == 0);
	CHECK(client_reg(&b, p + 20 * PAGE, 20 * PAGE, ACCESS_WRITE) == 0);
	CHECK(client_reg(&c, p + 5 * PAGE + 1, 50 * PAGE, ACCESS_WRITE) == 0);
	CHECK(b.path == UROCE_MR_PATH_ADOPTED && c.path == UROCE_MR_PATH_ADOPTED);
	CHECK(filled(p, 64 * PAGE, 1));
	CHECK(daemon_fill(&c, p + 6 * PAGE, 40 * PAGE, 5) == 0);
	CHECK(filled(p + 6 * PAGE, 40 * PAGE, 5));
	client_dereg(&c);
	CHECK(is_private(p + 9 * PAGE) && is_private(p + 40 * PAGE) && !is_private(p + 39 * PAGE));
	CHECK(daemon_sees(&a, p + 10 * PAGE, 20 * PAGE) &&
	      daemon_sees(&b, p + 20 * PAGE, 20 * PAGE));
	client_dereg(&a);
	CHECK(is_private(p + 19 * PAGE) && !is_private(p + 20 * PAGE));
	CHECK(daemon_fill(&b, p + 20 * PAGE, 20 * PAGE, 6) == 0);
	CHECK(filled(p + 20 * PAGE, 20 * PAGE, 6));
	client_dereg(&b);
	CHECK(is_private(p + 20 * PAGE) && is_private(p + 39 * PAGE));
	CHECK(filled(p + 20 * PAGE, 20 * PAGE, 6) && filled(p + 6 * PAGE, 14 * PAGE, 5));
}

static struct reg traffic_reg;
static atomic_bool stop;
static atomic_uint filled_n; /* by traffic */

static void *
traffic(void *arg)
{
	uint64_t n = 0;

	for (; !stop; n++, filled_n++)
		CHECK(daemon_fill(&traffic_reg, traffic_reg.addr, 8 * PAGE, n) == 0);
	return NULL;
}

/*
 * A copied region over pages that other regions adopt and return: its accesses would fail while
 * pages move, so the pages do not move as long as it lives.
 */
static void
client_overlap_copy(void)
{
	uint8_t *p = map_private(32 * PAGE), stack[100];
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	int fds[MR_ADOPT_MAX_FDS];
	struct mr_pin *hold;
	struct reg early;
	unsigned n, nfds;
	pthread_t t;

	CHECK(mmap(p + 31 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
		   open("/proc/self/exe", O_RDONLY), 0) == p + 31 * PAGE);
	CHECK(client_reg(&early, p + 4 * PAGE, 4 * PAGE, ACCESS_WRITE) == 0);
	CHECK(early.path == UROCE_MR_PATH_ADOPTED);
	CHECK(client_reg(&traffic_reg, p, 32 * PAGE, ACCESS_WRITE) == 0);
	CHECK(traffic_reg.path == UROCE_MR_PATH_COPY);
	client_dereg(&early);
	CHECK(!is_private(p + 4 * PAGE));
	check_region(p + 10, 3 * PAGE, UROCE_MR_PATH_COPY, true);
	check_region(p + 4 * PAGE, 4 * PAGE, UROCE_MR_PATH_ADOPTED, false);
	check_region(stack + 1, 98, UROCE_MR_PATH_COPY, true);
	CHECK(pthread_create(&t, NULL, traffic, NULL) == 0);
	for (unsigned i = 0; i < harness_count(3000) || filled_n <= 10; i++) {
		CHECK(mr_pieces_build((uintptr_t)p + PAGE, 6 * PAGE, piece, &n, fds, &nfds,
				      &hold) == 0);
		mr_pieces_release(hold);
		mr_pieces_settle();
	}
	stop = true;
	CHECK(pthread_join(t, NULL) == 0);
	stop = false;
	client_dereg(&traffic_reg);
	CHECK(is_private(p + 4 * PAGE));
	check_region(p + 10, 3 * PAGE, UROCE_MR_PATH_ADOPTED, true);
}

/* Many registrations in one page while the heap stays in use. */
static void
client_neighbours(void)
{
	enum { N = 64 };
	uint8_t *buf[N], *other[N];
	struct reg r[N];

	for (int i = 0; i < N; i++) {
		buf[i] = malloc(100);
		other[i] = malloc(100);
		fill(buf[i], 100, (uint64_t)i);
		fill(other[i], 100, (uint64_t)i + 1000);
		CHECK(client_reg(&r[i], buf[i], 100, ACCESS_WRITE) == 0);
	}
	for (int i = 0; i < N; i++) {
		CHECK(filled(buf[i], 100, (uint64_t)i));
		CHECK(daemon_fill(&r[i], buf[i], 100, (uint64_t)i + 5000) == 0);
		free(other[i]);
		other[i] = malloc(77);
	}
	for (int i = 0; i < N; i += 2)
		client_dereg(&r[i]);
	for (int i = 0; i < N; i++) {
		CHECK(filled(buf[i], 100, (uint64_t)i + 5000));
		if (i % 2)
			CHECK(daemon_sees(&r[i], buf[i], 100));
	}
	for (int i = 1; i < N; i += 2)
		client_dereg(&r[i]);
	for (int i = 0; i < N; i++) {
		CHECK(is_private(buf[i]));
		free(other[i]);
		free(buf[i]);
	}
}

static void
client_realloc(void)
{
	size_t len = 1 << 20, more = 64 << 20;
	uint8_t *p = malloc(len), *q;
	struct reg r;

	fill(p, len, 1);
	CHECK(client_reg(&r, p, len, ACCESS_WRITE) == 0);
	q = realloc(p, more);
	CHECK(q != NULL && filled(q, len, 1));
	fill(q, more, 2);
	CHECK(filled(q, more, 2));
	/* The region keeps the addresses it was registered with. */
	CHECK(daemon_fill(&r, r.addr, len, 3) == 0);
	client_dereg(&r);
	q = realloc(q, 2 * more);
	CHECK(q != NULL);
	fill(q, 2 * more, 4);
	CHECK(filled(q, 2 * more, 4));
	free(q);
}

/* Only part of what is reallocated is registered: the heap cannot mremap it and copies instead. */
static void
client_realloc_part(void)
{
	size_t len = 1 << 20;
	uint8_t *p = malloc(len), *q;
	struct reg r;

	fill(p, len, 1);
	CHECK(client_reg(&r, p + 300000, 300000, ACCESS_WRITE) == 0);
	q = realloc(p, 16 * len);
	CHECK(q != NULL && filled(q, len, 1));
	fill(q, 16 * len, 2);
	client_dereg(&r);
	CHECK(filled(q, 16 * len, 2));
	free(q);
}

/*
 * The program calls mremap: the mapping cannot grow, because it would get the adopted memory after
 * it. A moved page keeps its part of the region.
 */
static void
client_mremap(void)
{
	uint8_t *p = map_private(16 * PAGE), *q;
	struct reg r;

	fill(p, 16 * PAGE, 1);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == 0);
	CHECK(mremap(p, 16 * PAGE, 1024 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
	CHECK(filled(p, 16 * PAGE, 1));
	q = mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, map_private(PAGE));
	CHECK(q != MAP_FAILED && filled(q, PAGE, 1));
	CHECK(daemon_fill(&r, p, 16 * PAGE, 7) == 0 && filled(q, PAGE, 7));
	fill(q, PAGE, 8);
	client_dereg(&r);
	CHECK(filled(q, PAGE, 8) && filled(p + PAGE, 15 * PAGE, 7 + PAGE));
	p = mremap(p + PAGE, 15 * PAGE, 1024 * PAGE, MREMAP_MAYMOVE);
	CHECK(p != MAP_FAILED && filled(p, 15 * PAGE, 7 + PAGE) && p[1023 * PAGE] == 0);
	CHECK(munmap(p, 1024 * PAGE) == 0 && munmap(q, PAGE) == 0);
}

/* madvise as in doc/memory.md: registered pages stay, others behave as usual. */
static void
client_dontneed(void)
{
	uint8_t *p = map_private(16 * PAGE), zero[PAGE] = {0};
	struct reg r;

	fill(p, 16 * PAGE, 1);
	CHECK(client_reg(&r, p, 8 * PAGE, ACCESS_WRITE) == 0);
	CHECK(r.path == UROCE_MR_PATH_ADOPTED);
	CHECK(madvise(p, 16 * PAGE, MADV_DONTNEED) == 0);
	CHECK(daemon_sees(&r, p, 8 * PAGE) && memcmp(p, zero, PAGE) != 0);
	CHECK(memcmp(p + 8 * PAGE, zero, PAGE) == 0 && memcmp(p + 15 * PAGE, zero, PAGE) == 0);
	CHECK(madvise(p, 8 * PAGE, MADV_FREE) != 0);
	CHECK(daemon_fill(&r, p, 8 * PAGE, 2) == 0 && filled(p, 8 * PAGE, 2));
	client_dereg(&r);
	CHECK(is_private(p) && filled(p, 8 * PAGE, 2));
	CHECK(madvise(p, 8 * PAGE, MADV_DONTNEED) == 0 && memcmp(p, zero, PAGE) == 0);
	CHECK(munmap(p, 16 * PAGE) == 0);
}

/* Unmapped, and something else there: the old region keeps its pages, the new one is registered. */
static void
client_replaced(void)
{
	uint8_t *p = map_private(16 * PAGE);
	struct reg old, new;
	uint64_t before, h;

	fill(p, 16 * PAGE, 1);
	before = hash_of(p, 16 * PAGE);
	CHECK(client_reg(&old, p, 16 * PAGE, ACCESS_WRITE) == 0);
	CHECK(munmap(p, 16 * PAGE) == 0);
	CHECK(daemon_read(&old, p, 16 * PAGE, &h) == 0 && h == before);
	CHECK(mmap(p, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == p);
	fill(p, 16 * PAGE, 2);
	CHECK(client_reg(&new, p, 16 * PAGE, ACCESS_WRITE) == 0);
	CHECK(new.path == UROCE_MR_PATH_ADOPTED &&daemon_sees(&new, p, 16 * PAGE));
	CHECK(daemon_fill(&old, p, 16 * PAGE, 3) == 0);
	CHECK(filled(p, 16 * PAGE, 2));
	client_dereg(&old);
	CHECK(!is_private(p) && filled(p, 16 * PAGE, 2));
	CHECK(daemon_fill(&new, p, 16 * PAGE, 4) == 0 && filled(p, 16 * PAGE, 4));
	client_dereg(&new);
	CHECK(is_private(p) && filled(p, 16 * PAGE, 4));
}

static void
client_hole(void)
{
	uint8_t *p = map_private(16 * PAGE);
	struct reg r;

	fill(p, 16 * PAGE, 1);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == 0);
	CHECK(munmap(p + 4 * PAGE, 4 * PAGE) == 0);
	CHECK(mprotect(p + 10 * PAGE, PAGE, PROT_READ) == 0);
	CHECK(mprotect(p + 12 * PAGE, PAGE, PROT_NONE) == 0);
	client_dereg(&r);
	CHECK(filled(p, 4 * PAGE, 1) && filled(p + 13 * PAGE, 3 * PAGE, 1 + 13 * PAGE));
	CHECK(is_private(p) && is_private(p + 10 * PAGE) && is_private(p + 15 * PAGE));
	CHECK(mincore(p + 4 * PAGE, PAGE, (unsigned char[1]){0}) == -1 && errno == ENOMEM);
	/* The rights of the page are as the program left them. */
	CHECK(pwrite(-1, p, 0, 0) == -1);
	CHECK(syscall(SYS_getrandom, p + 10 * PAGE, 8, 0) == -1 && errno == EFAULT);
	CHECK(filled(p + 10 * PAGE, PAGE, 1 + 10 * PAGE));
}

static void
client_free_first(void)
{
	for (int i = 0; i < 50; i++) {
		size_t len = 3000 + 20000 * (size_t)i;
		uint8_t *p = malloc(len), *q;
		struct reg r;

		CHECK(client_reg(&r, p, len, ACCESS_WRITE) == 0);
		free(p);
		q = malloc(len);
		fill(q, len, 1);
		client_dereg(&r);
		CHECK(filled(q, len, 1));
		free(q);
	}
}

/* Above the size from which the return of pages frees the memfd's pages as it proceeds. */
static void
client_large(void)
{
	size_t len = 96ull << 20;
	uint8_t *p = map_private(len);
	struct reg r;

	fill(p, len, 1);
	CHECK(client_reg(&r, p, len, ACCESS_WRITE) == 0 && r.path == UROCE_MR_PATH_ADOPTED);
	CHECK(daemon_fill(&r, p, len, 2) == 0);
	client_dereg(&r);
	CHECK(is_private(p) && is_private(p + len - 1) && filled(p, len, 2));
}

/* Touches every page for the first time. */
static void *
toucher(void *arg)
{
	volatile uint8_t *p = arg;

	for (unsigned i = 0; i < 1024; i++)
		p[i * PAGE] = 1;
	return NULL;
}

/*
 * A kernel before 6.4 cannot write-protect absent pages: a store of another thread that touches
 * such a page first must not be lost either.
 */
static void
client_old_kernel(void)
{
	struct uffdio_api api = {.api = UFFD_API,
				 .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP |
					     UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
	struct page_swap swap = {.uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC),
				 .pagemap = -1,
				 .return_uffd = -1};

	CHECK(swap.uffd >= 0 && ioctl(swap.uffd, UFFDIO_API, &api) == 0);
	for (unsigned round = 0; round < harness_count(100); round++) {
		uint8_t *p = map_private(1024 * PAGE);
		struct page_swap_job job = {.addr = (uintptr_t)p,
					    .len = 1024 * PAGE,
					    .page_size = PAGE,
					    .prot = PROT_READ | PROT_WRITE,
					    .fd = memfd_create("old", 0)};
		uint64_t done;
		pthread_t t;

		CHECK(ftruncate(job.fd, 1024 * PAGE) == 0);
		CHECK(pthread_create(&t, NULL, toucher, p) == 0);
		CHECK(page_swap_run(&swap, &job, &done) == 0 && done == 1024 * PAGE);
		pthread_join(t, NULL);
		for (unsigned i = 0; i < 1024; i++)
			CHECK(p[i * PAGE] == 1);
		CHECK(!is_private(p));
		job.back = true;
		CHECK(page_swap_run(&swap, &job, &done) == 0 && done == 1024 * PAGE);
		CHECK(is_private(p) && p[1023 * PAGE] == 1);
		close(job.fd);
		CHECK(munmap(p, 1024 * PAGE) == 0);
	}
	page_swap_close(&swap);
}

/*
 * Between deregistration and return of the pages the program may call madvise, reads zeros then,
 * and its later stores stay.
 */
static void
client_linger(void)
{
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	int fds[MR_ADOPT_MAX_FDS];
	struct mr_pin *hold;
	unsigned n, nfds;

	for (unsigned round = 0; round < harness_count(2000); round++) {
		uint8_t *p = map_private(8 * PAGE);
		int advice = round % 2 ? MADV_DONTNEED : MADV_FREE;

		fill(p, 8 * PAGE, round);
		CHECK(mr_pieces_build((uintptr_t)p, 4 * PAGE, piece, &n, fds, &nfds, &hold) == 0);
		CHECK(!is_private(p));
		mr_pieces_release(hold);
		if (round % 3 == 0) /* again, at once */
			CHECK(mr_pieces_build((uintptr_t)p, 4 * PAGE, piece, &n, fds, &nfds,
					      &hold) == 0);
		if (round % 3 == 0)
			mr_pieces_release(hold);
		CHECK(filled(p, 8 * PAGE, round));
		CHECK(madvise(p + PAGE, 4 * PAGE, advice) == 0);
		CHECK(is_private(p + PAGE));
		if (advice == MADV_DONTNEED)
			CHECK(p[PAGE] == 0 && p[5 * PAGE - 1] == 0);
		CHECK(filled(p, PAGE, round));
		munmap(p, 8 * PAGE);
	}
}

/* Mappings of [p, p + bytes): others come and go with an allocator's, a sanitizer's above all. */
static unsigned
count_mappings(const void *p, size_t bytes)
{
	uint64_t pos = (uintptr_t)p, end = pos + bytes;
	struct vma_scan scan;
	unsigned n = 0;
	struct vma v;

	CHECK(vma_scan_open(&scan, 0) == 0);
	for (; pos < end && vma_scan_next(&scan, pos, &v) == 0 && v.start < end; pos = v.end)
		n++;
	vma_scan_close(&scan);
	return n;
}

/*
 * Private memory between pages without access. Beside other private memory, such as a thread's
 * stack before Linux 6.7, a page that is returned may merge with that instead of the rest.
 */
static uint8_t *
map_apart(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && mprotect(p + PAGE, bytes, PROT_READ | PROT_WRITE) == 0);
	return p + PAGE;
}

/* After any registrations there are as many mappings as before. */
static void
check_mappings_merge(void (*crowd)(void), size_t each)
{
	enum { N = 200 };
	const size_t bytes = 2 * N * each;
	uint8_t *touched = map_apart(bytes), *fresh = map_apart(bytes);
	struct reg r[2 * N];

	if (crowd != NULL)
		crowd();
	fill(touched, bytes, 1);
	check_region(touched, PAGE, UROCE_MR_PATH_ADOPTED, false);
	fill(touched, PAGE, 1);
	for (unsigned i = 0; i < N; i++) {
		CHECK(client_reg(&r[i], touched + 2 * i * each, each, ACCESS_WRITE) == 0);
		CHECK(client_reg(&r[N + i], fresh + 2 * i * each, each, ACCESS_WRITE) == 0);
	}
	CHECK(count_mappings(touched, bytes) >= 2 * N && count_mappings(fresh, bytes) >= 2 * N);
	for (unsigned i = 0; i < 2 * N; i++)
		client_dereg(&r[i]);
	CHECK(filled(touched, bytes, 1));
	CHECK(count_mappings(touched, bytes) == 1);
	/* Where absent pages are copied, parts of the gaps between regions may stay mappings. */
	CHECK(count_mappings(fresh, bytes) <= (kernel_protects_absent_pages() ? 1 : 2 * N));
}

static void
client_mappings_merge(void)
{
	check_mappings_merge(NULL, PAGE);
	check_mappings_merge(NULL, 3 * PAGE);
}

/*
 * The highest gap of one or two pages lies between pages in use: the kernel merges mappings there
 * with those.
 */
static void
crowd(void)
{
	uint8_t *p;

	for (unsigned i = 0; i < 1000; i++)
		CHECK(mmap(NULL, PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	p = map_private(4 * PAGE);
	fill(p, 4 * PAGE, 1);
	CHECK(munmap(p + PAGE, 2 * PAGE) == 0);
}

static void
client_mappings_merge_crowded(void)
{
	check_mappings_merge(crowd, PAGE);
}

#define LIFE(id, client)                                                                           \
	UNIT_TEST(id)                                                                              \
	{                                                                                          \
		harness_run(client);                                                               \
	}

REQUIREMENT("MEM-05")
LIFE(memory_can_be_registered_twice, client_twice)
LIFE(overlapping_regions_can_be_registered, client_overlap)
LIFE(regions_can_share_a_page, client_neighbours)
LIFE(realloc_keeps_the_contents_of_registered_memory, client_realloc)
LIFE(mremap_moves_registered_pages_but_cannot_grow_them, client_mremap)
LIFE(realloc_copies_a_partly_registered_block, client_realloc_part)
LIFE(madvise_dontneed_keeps_registered_pages, client_dontneed)
LIFE(pages_under_a_copied_region_do_not_move, client_overlap_copy)
LIFE(mappings_merge_again_after_deregistration, client_mappings_merge)
LIFE(mappings_merge_again_between_pages_in_use, client_mappings_merge_crowded)
LIFE(new_mapping_at_the_addresses_of_a_region_is_separate, client_replaced)
LIFE(deregistration_keeps_holes_and_protection, client_hole)
LIFE(memory_can_be_freed_before_deregistration, client_free_first)
LIFE(large_region_is_registered, client_large)
LIFE(no_store_is_lost_on_a_kernel_before_6_4, client_old_kernel)
LIFE(madvise_dontneed_after_deregistration_reads_zeros, client_linger)

UNIT_NEEDS(harness_can_run);
