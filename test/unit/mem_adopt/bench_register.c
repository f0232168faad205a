/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Costs of registration on each path, and of an access on the copy path: the figures of
 * doc/memory.md. Prints the median of several runs. The client's times are processor time, because
 * the machine may be shared.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "harness.h"
#include "mr_adopt.h"
#include "../../kit/unit.h"
#include "../../kit/mrmap_here.h"

#define MAX_RUNS 301

static double
clock_us(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double
now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

static double
cpu_us(void)
{
	return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare);
	return v[n / 2];
}

static int
runs_of(size_t len)
{
	return len > (16u << 20) ? 5 : MAX_RUNS;
}

/* flags: of mmap(); huge: transparent huge pages */
static uint8_t *
fresh(size_t len, int flags, int huge)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, -1, 0);

	CHECK(p != MAP_FAILED);
	if (huge)
		madvise(p, len, MADV_HUGEPAGE);
	return p;
}

static void
measure(const char *what, size_t len, int flags, int touched, int huge, const char *mode)
{
	static double build[MAX_RUNS], daemon[MAX_RUNS], release[MAX_RUNS];
	int runs = runs_of(len), path = -1;

	setenv("UROCE_MR_MODE", mode, 1);
	for (int i = 0; i < runs; i++) {
		struct uroce_reg_mr_req req = {.access = ACCESS_WRITE, .length = len};
		uint8_t *p = fresh(len, flags, huge);
		int fds[MR_ADOPT_MAX_FDS], id;
		struct mr_pin *hold;
		double cpu, wall;
		unsigned nfds;

		if (touched)
			memset(p, 1, len);
		req.addr = (uintptr_t)p;
		cpu = cpu_us();
		CHECK(mr_pieces_build(req.addr, len, req.piece, &req.npieces, fds, &nfds, &hold) ==
		      0);
		build[i] = cpu_us() - cpu;
		wall = now_us();
		CHECK(client_send_reg(&req, fds, nfds, &id, &path) == 0);
		daemon[i] = now_us() - wall;
		client_send_dereg(id);
		cpu = cpu_us();
		mr_pieces_release(hold);
		release[i] = cpu_us() - cpu;
		munmap(p, len);
	}
	fprintf(stderr,
		"%-24s %9zu KiB  path %d  client %10.1f us  daemon %8.1f us  dereg %10.1f us\n",
		what, len / 1024, path, median(build, runs), median(daemon, runs),
		median(release, runs));
}

/* What registration is compared with: memcpy() into memory that was never touched. */
static void
measure_memcpy(size_t len, int huge)
{
	static double copied[MAX_RUNS];
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *from = fresh(len, flags, huge);
	int runs = runs_of(len);

	memset(from, 1, len);
	for (int i = 0; i < runs; i++) {
		uint8_t *to = fresh(len, flags, huge);
		double t0 = cpu_us();

		memcpy(to, from, len);
		__asm__ volatile("" : : "r"(to) : "memory");
		copied[i] = cpu_us() - t0;
		munmap(to, len);
	}
	munmap(from, len);
	fprintf(stderr, "%-24s %9zu KiB          client %10.1f us\n",
		huge ? "memcpy, THP" : "memcpy", len / 1024, median(copied, runs));
}

static void
client_register(void)
{
	static const size_t size[] = {4096, 1 << 20, 64 << 20, 256 << 20};

	for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		measure_memcpy(size[i], 0);
		measure("private, adopted", size[i], MAP_PRIVATE | MAP_ANONYMOUS, 1, 0, "auto");
		measure("private, untouched", size[i], MAP_PRIVATE | MAP_ANONYMOUS, 0, 0, "auto");
		measure("shared", size[i], MAP_SHARED | MAP_ANONYMOUS, 1, 0, "auto");
		measure("copy", size[i], MAP_PRIVATE | MAP_ANONYMOUS, 1, 0, "copy");
		if (size[i] % HUGE != 0)
			continue;
		measure("hugetlb, adopted", size[i], MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, 1,
			0, "auto");
		measure_memcpy(size[i], 1);
		measure("THP, adopted", size[i], MAP_PRIVATE | MAP_ANONYMOUS, 1, 1, "auto");
	}
}

static void
report(const char *what, double t0, int n)
{
	fprintf(stderr, "%-32s %6.2f us\n", what, (now_us() - t0) / n);
}

static uint64_t late; /* copies that had to be requested again */

static void
copy(struct mrmap *map, uint64_t va, void *dst, const void *src, uint32_t n)
{
	while ((src != NULL ? mrmap_copy_ops.write(map, va, src, n, 0)
			    : mrmap_copy_ops.read(map, va, dst, n)) == -EAGAIN) {
		late++;
		sched_yield();
	}
}

/* The daemon's side of the copy path, chunks of 4 KiB out of 16 MiB of another process. */
static void
copy_path(void)
{
	const int n = 20000, chunks = 4096;
	size_t len = (size_t)chunks * PAGE;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uroce_reg_mr_req req = {
		.access = ACCESS_WRITE,
		.addr = (uintptr_t)p,
		.length = len,
		.npieces = 1,
		.piece = {{.va = (uintptr_t)p, .len = len}},
	};
	struct mrmap *map = NULL;
	uint8_t buf[PAGE];
	char path[48];
	double t0;
	pid_t pid;
	int mem;

	memset(p, 1, len);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(p, 2, len);
		pause();
		_exit(0);
	}
	usleep(200000);
	assert_int_equal(mrmap_create(pid, -1, getuid(), &req, NULL, 0, &map), 0);
	t0 = now_us();
	for (int i = 0; i < n; i++)
		copy(map, req.addr + (uint64_t)(i % chunks) * PAGE, buf, NULL, PAGE);
	report("copy path, read 4 KiB", t0, n);
	t0 = now_us();
	for (int i = 0; i < n; i++)
		copy(map, req.addr + (uint64_t)(i % chunks) * PAGE, NULL, buf, PAGE);
	report("copy path, write 4 KiB", t0, n);
	t0 = now_us();
	for (int i = 0; i < n; i++)
		copy(map, req.addr + (uint64_t)(i % chunks) * PAGE, buf, NULL, 64);
	report("copy path, read 64 B", t0, n);
	fprintf(stderr, "%-32s %6llu\n", "of these, late", (unsigned long long)late);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	t0 = now_us();
	for (int i = 0; i < n; i++)
		copier_mem_write(mem, req.addr + (uint64_t)(i % chunks) * PAGE, buf, PAGE);
	report("/proc/PID/mem, write 4 KiB", t0, n);
	t0 = now_us();
	for (int i = 0; i < n; i++)
		copier_mem_read(mem, req.addr + (uint64_t)(i % chunks) * PAGE, buf, 64);
	report("/proc/PID/mem, read 64 B", t0, n);
	close(mem);
	t0 = now_us();
	for (int i = 0; i < n; i++) {
		struct iovec to = {buf, PAGE};
		struct iovec from = {p + (size_t)(i % chunks) * PAGE, PAGE};

		process_vm_readv(pid, &to, 1, &from, 1, 0);
	}
	report("process_vm_readv, 4 KiB", t0, n);
	t0 = now_us();
	for (int i = 0; i < n; i++)
		memcpy(buf, p + (size_t)(i % chunks) * PAGE, PAGE);
	report("mapped memory, 4 KiB", t0, n);
	mrmap_destroy(map);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

UNIT_TEST(bench)
{
	huge_pages_get(260);
	harness_run(client_register);
	huge_pages_restore();
	copy_path();
}

UNIT_NEEDS(harness_can_run);
