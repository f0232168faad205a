/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of memory a process can hand to ibv_reg_mr, and the path it takes. */
#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "harness.h"
#include "map/vma.h"
#include "../../kit/unit.h"

static uint8_t data_buf[3 * PAGE] = {1};
static uint8_t bss_buf[64 * PAGE];

static uint8_t *
map_at(void *at, size_t len, int flags, int fd)
{
	void *p =
		mmap(at, len, PROT_READ | PROT_WRITE, flags | (at != NULL ? MAP_FIXED : 0), fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static uint8_t *
map(size_t len, int flags, int fd)
{
	return map_at(NULL, len, flags, fd);
}

/* A file that can be mapped in the daemon: not in an overlay, which is the root of containers. */
static int
temp_file(size_t len)
{
	char name[] = "/dev/shm/uroce-mem-XXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	CHECK(unlink(name) == 0);
	CHECK(ftruncate(fd, (off_t)len) == 0);
	return fd;
}

static void
client_heap_small(void)
{
	uint8_t *p = malloc(5000);

	check_region(p + 17, 4000, UROCE_MR_PATH_ADOPTED, true);
	CHECK(is_private(p));
	free(p);
}

static void
client_heap_large(void)
{
	size_t len = (9u << 20) + 123;
	uint8_t *p = malloc(len + 2);

	check_region(p + 1, len, UROCE_MR_PATH_ADOPTED, true);
	CHECK(is_private(p + 1) && is_private(p + len));
	free(p);
}

/* Pages of p that are there. */
static unsigned
resident(uint8_t *p, size_t len)
{
	unsigned char *there = malloc(len / PAGE);
	unsigned n = 0;

	CHECK(mincore(p, len, there) == 0);
	for (size_t i = 0; i < len / PAGE; i++)
		n += there[i] & 1;
	free(there);
	return n;
}

/* Untouched pages take no memory: neither while registered, nor in a child, nor afterwards. */
static void
client_sparse(void)
{
	enum { LEN = 200 << 20, STEP = 7 << 20, TOUCHED = LEN / STEP + 1 };
	bool sparse = kernel_protects_absent_pages();
	unsigned n = sparse ? TOUCHED : LEN / PAGE, more = sparse ? 1 : 0;
	uint8_t *p = map_private(LEN);
	struct reg r;
	pid_t pid;

	/* Many kernels give every program huge pages (transparent_hugepage/enabled: always). */
	CHECK(madvise(p, LEN, MADV_NOHUGEPAGE) == 0);
	for (size_t at = 0; at < LEN; at += STEP)
		fill(p + at, PAGE, at);
	CHECK(client_reg(&r, p, LEN, ACCESS_WRITE) == 0);
	CHECK(r.path == UROCE_MR_PATH_ADOPTED && !is_private(p));
	CHECK(resident(p, LEN) == n);
	CHECK(daemon_fill(&r, p + PAGE, PAGE, 5) == 0 && filled(p + PAGE, PAGE, 5));
	pid = fork();
	if (pid == 0) {
		CHECK(is_private(p) && resident(p, LEN) == n + more);
		CHECK(filled(p + STEP, PAGE, STEP) && p[STEP - 1] == 0);
		_exit(0);
	}
	CHECK(has_status(pid, false, 0));
	CHECK(resident(p, LEN) == n + more);
	client_dereg(&r);
	CHECK(is_private(p) && resident(p, LEN) == n + more);
	for (size_t at = 0; at < LEN; at += STEP)
		CHECK(filled(p + at, PAGE, at) && p[at + STEP / 2] == 0);
	CHECK(filled(p + PAGE, PAGE, 5));
	munmap(p, LEN);
}

static void
client_stack(void)
{
	uint8_t buf[3 * PAGE];

	check_region(buf + 1, sizeof(buf) - 2, UROCE_MR_PATH_COPY, true);
}

static void *
on_thread_stack(void *arg)
{
	client_stack();
	return arg;
}

static void *
sleeper(void *arg)
{
	volatile uint8_t *buf[1] = {NULL};
	uint8_t mine[8 * PAGE];

	fill(mine, sizeof(mine), 9);
	buf[0] = mine;
	((void **)arg)[0] = (void *)(uintptr_t)buf[0];
	pause();
	return NULL;
}

/* Its own stack, another thread's, and one in memory that the program supplied. */
static void
client_thread_stack(void)
{
	size_t size = 256 * 1024;
	uint8_t *own = map(size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	void *volatile where[2] = {NULL, NULL};
	pthread_attr_t attr;
	pthread_t t[3];

	CHECK(pthread_create(&t[0], NULL, on_thread_stack, NULL) == 0);
	CHECK(pthread_join(t[0], NULL) == 0);
	CHECK(pthread_create(&t[1], NULL, sleeper, (void *)&where[0]) == 0);
	pthread_attr_init(&attr);
	CHECK(pthread_attr_setstack(&attr, own, size) == 0);
	CHECK(pthread_create(&t[2], &attr, sleeper, (void *)&where[1]) == 0);
	while (where[0] == NULL || where[1] == NULL)
		usleep(1000);
	check_region((uint8_t *)where[0] + 100, 4 * PAGE, UROCE_MR_PATH_COPY, false);
	check_region((uint8_t *)where[1] + 100, 4 * PAGE, UROCE_MR_PATH_COPY, false);
	CHECK((uint8_t *)where[1] > own && (uint8_t *)where[1] < own + size);
}

static void
client_static(void)
{
	check_region(data_buf + 5, sizeof(data_buf) - 10, UROCE_MR_PATH_COPY, true);
}

static void
client_bss(void)
{
	check_region(bss_buf + 16 * PAGE, 32 * PAGE, UROCE_MR_PATH_ADOPTED, true);
	CHECK(is_private(bss_buf + 16 * PAGE));
}

static void
client_anon_shared(void)
{
	uint8_t *p = map(64 * PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);

	check_region(p + 100, 60 * PAGE, UROCE_MR_PATH_SHARED, true);
}

static void
client_anon_private(void)
{
	uint8_t *p = map(64 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	check_region(p, 64 * PAGE, UROCE_MR_PATH_ADOPTED, false);
	CHECK(is_private(p));
}

/* Never touched before it is registered: the zero page, or no page at all. */
static void
client_untouched(void)
{
	uint8_t *p = map(64 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct reg r;
	uint64_t h;

	CHECK(p[5 * PAGE] == 0);
	CHECK(client_reg(&r, p, 64 * PAGE, ACCESS_WRITE) == 0);
	CHECK(r.path == UROCE_MR_PATH_ADOPTED);
	CHECK(daemon_read(&r, p, 64 * PAGE, &h) == 0);
	CHECK(h == hash_of(p, 64 * PAGE) && p[63 * PAGE] == 0);
	CHECK(daemon_fill(&r, p, 64 * PAGE, 4) == 0);
	client_dereg(&r);
	CHECK(filled(p, 64 * PAGE, 4));
}

static void
client_file_private(void)
{
	uint8_t *p = map(8 * PAGE, MAP_PRIVATE, temp_file(8 * PAGE));

	check_region(p + 10, 7 * PAGE, UROCE_MR_PATH_COPY, true);
}

static void
client_file_shared(void)
{
	int fd = temp_file(16 * PAGE);
	uint8_t *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4 * PAGE);
	uint8_t back[PAGE];

	CHECK(p != MAP_FAILED);
	check_region(p + 10, 7 * PAGE, UROCE_MR_PATH_SHARED, true);
	CHECK(pread(fd, back, PAGE, 5 * PAGE) == PAGE);
	CHECK(memcmp(back, p + PAGE, PAGE) == 0);
}

/* Pages that come from a disk, or a server, are not waited for by workers. */
static void
client_file_on_disk(void)
{
	char name[] = "/var/tmp/uroce-mem-XXXXXX";
	int fd = mkstemp(name);
	uint8_t *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	uint8_t back[PAGE];
	struct statfs fs;

	CHECK(unlink(name) == 0 && ftruncate(fd, 16 * (off_t)PAGE) == 0 && p != MAP_FAILED);
	if (fstatfs(fd, &fs) != 0 || fs.f_type == TMPFS_MAGIC)
		return; /* /var/tmp is memory here */
	check_region(p + 10, 7 * PAGE, UROCE_MR_PATH_COPY, true);
	CHECK(pread(fd, back, PAGE, PAGE) == PAGE);
	CHECK(memcmp(back, p + PAGE, PAGE) == 0);
}

static void
client_memfd(void)
{
	int fd = memfd_create("test", 0);

	CHECK(ftruncate(fd, 64 * PAGE) == 0);
	check_region(map(64 * PAGE, MAP_SHARED, fd) + 1, 63 * PAGE, UROCE_MR_PATH_SHARED, true);
}

static void
check_sysv(int flags, size_t len)
{
	int id = shmget(IPC_PRIVATE, len, IPC_CREAT | 0600 | flags);
	uint8_t *p;

	CHECK(id >= 0);
	p = shmat(id, NULL, 0);
	CHECK(shmctl(id, IPC_RMID, NULL) == 0);
	CHECK(p != (void *)-1);
	check_region(p + 7, len - 14, UROCE_MR_PATH_SHARED, true);
}

static void
client_sysv(void)
{
	check_sysv(0, 64 * PAGE);
}

static void
client_huge_private(void)
{
	uint8_t *p = map(4 * HUGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);

	check_region(p + HUGE / 2, 2 * HUGE, UROCE_MR_PATH_ADOPTED, true);
	CHECK(is_private(p + HUGE));
}

static void
client_huge_shared(void)
{
	int fd = memfd_create("huge", MFD_HUGETLB);

	CHECK(ftruncate(fd, 3 * (off_t)HUGE) == 0);
	check_region(map(3 * HUGE, MAP_SHARED, fd) + 5, 2 * HUGE, UROCE_MR_PATH_SHARED, true);
	check_sysv(SHM_HUGETLB, 2 * HUGE);
}

/* No free huge page to move to: still works. */
static void
client_huge_exhausted(void)
{
	uint8_t *p = map(4 * HUGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	long spare = huge_pages_spare();

	/* The machine may have more pages than the test requested: these are taken, too. */
	if (spare > 0)
		map((size_t)spare * HUGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	check_region(p, 4 * HUGE, UROCE_MR_PATH_COPY, false);
}

/* One region over private, shared and again private memory; huge pages last. */
static void
client_mixed(void)
{
	uint8_t *p = map(256 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	map_at(p + 16 * PAGE, 16 * PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
	map_at(p + 48 * PAGE, 16 * PAGE, MAP_SHARED, temp_file(16 * PAGE));
	check_region(p + 1000, 90 * PAGE, UROCE_MR_PATH_ADOPTED, true);
	map_at(p + 64 * PAGE, PAGE, MAP_PRIVATE, temp_file(PAGE));
	check_region(p + 1000, 90 * PAGE, UROCE_MR_PATH_COPY, true);
}

static void
client_mixed_huge(void)
{
	uint8_t *room = map(8 * HUGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	uint8_t *p = (uint8_t *)(((uintptr_t)room + 2 * HUGE - 1) & ~(HUGE - 1));

	map_at(p + HUGE, 2 * HUGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	check_region(p + HUGE - 3 * PAGE, 2 * HUGE + 6 * PAGE, UROCE_MR_PATH_ADOPTED, true);
	CHECK(is_private(p + HUGE - PAGE) && is_private(p + HUGE) && is_private(p + 3 * HUGE));
}

/* More mappings than a request has pieces for. */
static void
client_many_mappings(void)
{
	size_t n = 2 * UROCE_MR_MAX_PIECES + 6;
	uint8_t *p = map(n * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	for (size_t i = 0; i < n; i += 2)
		map_at(p + i * PAGE, PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
	check_region(p + 100, 40 * PAGE, UROCE_MR_PATH_COPY, true);
	check_region(p + 100, (n - 1) * PAGE, UROCE_MR_PATH_COPY, true);
	check_region(p + 100, 20 * PAGE, UROCE_MR_PATH_ADOPTED, true);
}

static bool
same_vma(const struct vma *a, const struct vma *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->page_size == b->page_size && a->prot == b->prot &&
	       a->shared == b->shared && strcmp(a->name, b->name) == 0;
}

/* The ioctl of new kernels and the text of /proc/PID/maps agree, also on huge pages. */
static void
client_scan(void)
{
	struct vma_scan query, text;
	struct vma a, b;
	uint64_t pos = 0;
	unsigned n = 0;

	map(HUGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	map(PAGE, MAP_SHARED, temp_file(PAGE));
	CHECK(vma_scan_open(&query, 0) == 0 && vma_scan_open(&text, getpid()) == 0);
	if (!query.query)
		fprintf(stderr, "kernel without PROCMAP_QUERY: both scans read text\n");
	vma_scan_force_text(&text);
	while (vma_scan_next(&query, pos, &a) == 0) {
		CHECK(vma_scan_next(&text, pos, &b) == 0);
		if (!same_vma(&a, &b))
			fprintf(stderr, "%lx-%lx %s | %lx-%lx %s\n", a.start, a.end, a.name,
				b.start, b.end, b.name);
		CHECK(same_vma(&a, &b));
		pos = a.end;
		n++;
	}
	/* The last one in the text is no mapping of the process. */
	CHECK(vma_scan_next(&text, pos, &b) == -ENOENT || strcmp(b.name, "[vsyscall]") == 0);
	CHECK(n > 10);
	CHECK(vma_scan_next(&query, 1ull << 62, &a) == -ENOENT);
	vma_scan_close(&query);
	vma_scan_close(&text);
}

#define KIND(id, client)                                                                           \
	UNIT_TEST(id)                                                                              \
	{                                                                                          \
		harness_run(client);                                                               \
	}
#define HUGE_KIND(id, npages, client)                                                              \
	UNIT_TEST(id)                                                                              \
	{                                                                                          \
		if (!huge_pages_get(npages))                                                       \
			skip();                                                                    \
		harness_run(client);                                                               \
		huge_pages_restore();                                                              \
	}

REQUIREMENT("MEM-05")
KIND(small_heap_block_is_registered, client_heap_small)
KIND(large_heap_block_is_registered, client_heap_large)
KIND(stack_is_registered, client_stack)
KIND(stack_of_a_thread_is_registered, client_thread_stack)
KIND(static_data_is_registered, client_static)
KIND(bss_is_registered, client_bss)
KIND(shared_anonymous_memory_is_registered, client_anon_shared)
KIND(private_anonymous_memory_is_registered, client_anon_private)
KIND(untouched_anonymous_memory_is_registered, client_untouched)
KIND(private_file_mapping_is_registered, client_file_private)
KIND(shared_file_mapping_is_registered, client_file_shared)
KIND(file_on_a_disk_is_copied, client_file_on_disk)
KIND(memfd_is_registered, client_memfd)
KIND(sysv_shared_memory_is_registered, client_sysv)
HUGE_KIND(private_huge_pages_are_registered, 12, client_huge_private)
HUGE_KIND(shared_huge_pages_are_registered, 6, client_huge_shared)
KIND(range_over_several_kinds_is_registered, client_mixed)
HUGE_KIND(range_over_normal_and_huge_pages_is_registered, 8, client_mixed_huge)
KIND(range_over_many_mappings_is_registered, client_many_mappings)
KIND(untouched_pages_of_a_region_stay_untouched, client_sparse)
HUGE_KIND(both_scans_find_the_same_mappings, 1, client_scan)

REQUIREMENT("MEM-05")
UNIT_TEST(exhausted_huge_pages_fall_back_to_copies)
{
	if (!huge_pages_get(4))
		skip();
	harness_run(client_huge_exhausted);
	huge_pages_restore();
}

UNIT_NEEDS(harness_can_run);
