/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration requests of a hostile client, and memory that fails later. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "map/sigbus.h"
#include "../../kit/unit.h"
#include "../../kit/mrmap_here.h"

#define VA (1ull << 40)

static int
sealed_memfd(off_t size, int seals)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	if (seals != 0)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* A good request: 8 pages in two pieces of descriptor 0, unaligned ends. */
static struct uroce_reg_mr_req
good_req(void)
{
	return (struct uroce_reg_mr_req){
		.access = ACCESS_WRITE,
		.addr = VA + 100,
		.length = 8 * PAGE - 200,
		.npieces = 2,
		.piece = {{.va = VA, .len = 3 * PAGE, .kind = UROCE_PIECE_FD},
			  {.va = VA + 3 * PAGE,
			   .len = 5 * PAGE,
			   .kind = UROCE_PIECE_FD,
			   .fd_off = 4 * PAGE}},
	};
}

static int
create(const struct uroce_reg_mr_req *req, const int *fds, unsigned nfds)
{
	struct mrmap *map = NULL;
	int err = mrmap_create(getpid(), -1, getuid(), req, fds, nfds, &map);

	assert_int_equal(map == NULL, err != 0);
	mrmap_destroy(map);
	return err;
}

REQUIREMENT("MEM-05")
UNIT_TEST(good_request_is_accepted)
{
	int fd = sealed_memfd(16 * PAGE, F_SEAL_SHRINK);
	struct uroce_reg_mr_req req = good_req();
	struct mrmap *map = NULL;
	uint8_t page[PAGE];

	assert_int_equal(mrmap_create(getpid(), -1, getuid(), &req, &fd, 1, &map), 0);
	assert_int_equal(mrmap_path(map), UROCE_MR_PATH_ADOPTED);
	fill(mrmap_host(map), req.length, 1);
	assert_int_equal(pread(fd, page, PAGE, 0), PAGE);
	assert_true(filled(page + 100, PAGE - 100, 1) && page[99] == 0);
	assert_int_equal(pread(fd, page, PAGE, 4 * PAGE), PAGE);
	assert_true(filled(page, PAGE, 1 + 3 * PAGE - 100));
	/* Not COPY: its copy operations refuse. */
	assert_int_equal(mrmap_copy_ops.read(map, req.addr, page, 10), -EFAULT);
	mrmap_destroy(map);
	close(fd);
}

REQUIREMENT("MEM-05")
UNIT_TEST(malformed_requests_are_refused)
{
	int fd = sealed_memfd(16 * PAGE, F_SEAL_SHRINK);
	struct uroce_reg_mr_req r;

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		r = good_req();                                                                    \
		change;                                                                            \
		assert_int_equal(create(&r, &fd, 1), -EINVAL);                                     \
	} while (0)
	r = good_req();
	assert_int_equal(create(&r, &fd, 1), 0);
	REFUSED(r.npieces = 0);
	REFUSED(r.npieces = 1);
	REFUSED(r.npieces = 3);
	REFUSED(r.npieces = UROCE_MR_MAX_PIECES + 1);
	REFUSED(r.npieces = UINT32_MAX);
	REFUSED(r.length = 0);
	REFUSED(r.length = 8 * PAGE);
	REFUSED(r.length = 3 * PAGE - 100); /* the second piece is outside */
	REFUSED(r.length = UINT64_MAX);
	REFUSED(r.length = UINT64_MAX - VA - 99);
	REFUSED(r.addr = VA - 1);
	REFUSED(r.addr = VA + 3 * PAGE); /* the first piece is outside */
	REFUSED(r.addr = UINT64_MAX - 10);
	REFUSED(r.piece[0].va += 1);
	REFUSED(r.piece[0].va += PAGE);
	REFUSED(r.piece[1].va += PAGE); /* a gap */
	REFUSED(r.piece[1].va -= PAGE); /* twice the same page */
	REFUSED(r.piece[1].va = UINT64_MAX - PAGE + 1);
	REFUSED(r.piece[0].len = 0);
	REFUSED(r.piece[0].len -= 1);
	REFUSED(r.piece[1].len = 0ull - PAGE);
	REFUSED(r.piece[1].len = 1ull << 63);
	REFUSED(r.piece[1].kind = 3);
	REFUSED(r.piece[1].kind = UINT32_MAX);
	REFUSED(r.piece[1].fd_index = 1);
	REFUSED(r.piece[1].fd_index = UINT32_MAX);
	REFUSED(r.piece[1].fd_off = 1);
	REFUSED(r.piece[1].fd_off = 0ull - PAGE);
	REFUSED(r.piece[1].fd_off = 1ull << 63);
	REFUSED(r.piece[1].kind = UROCE_PIECE_MAP_FILE); /* outside its own mapping */
	/* Beyond the end of the file. */
	r = good_req();
	r.piece[1].fd_off = 12 * PAGE;
	assert_int_equal(create(&r, &fd, 1), -EFAULT);
	r.piece[1].fd_off = 1ull << 50;
	assert_int_equal(create(&r, &fd, 1), -EFAULT);
	/* More than there are addresses. */
	r = good_req();
	r.piece[1].len = (1ull << 62) - 4 * PAGE;
	r.length = 1ull << 61;
	assert_int_equal(create(&r, &fd, 1), -ENOMEM);
	close(fd);
}

/*
 * A piece has no page that the region does not need: such pages would be mapped here although no
 * quota counts them, and a few of the largest files use up all addresses.
 */
REQUIREMENT("MEM-05")
UNIT_TEST(pieces_larger_than_the_region_are_refused)
{
	const uint64_t huge_file = 1ull << 42;
	int fd = sealed_memfd((off_t)huge_file, F_SEAL_SHRINK);
	struct uroce_reg_mr_req r = {
		.access = ACCESS_WRITE,
		.addr = VA,
		.length = 1,
		.npieces = 1,
		.piece = {{.va = VA, .len = huge_file, .kind = UROCE_PIECE_FD}},
	};

	assert_int_equal(create(&r, &fd, 1), -EINVAL);
	r.piece[0].len = 2 * PAGE;
	assert_int_equal(create(&r, &fd, 1), -EINVAL);
	r.length = PAGE + 1;
	assert_int_equal(create(&r, &fd, 1), 0);
	r.addr = VA + PAGE - 1;
	r.length = 2;
	assert_int_equal(create(&r, &fd, 1), 0);
	r.addr = VA + PAGE;
	assert_int_equal(create(&r, &fd, 1), -EINVAL);
	close(fd);
}

REQUIREMENT("MEM-05")
UNIT_TEST(descriptor_must_be_sealed)
{
	struct uroce_reg_mr_req r = good_req();
	int bad[] = {
		sealed_memfd(16 * PAGE, 0),
		sealed_memfd(16 * PAGE, F_SEAL_GROW),
		open("/dev/zero", O_RDWR),
		open("/proc/self/mem", O_RDWR),
		open("/dev/null", O_RDWR),
		open("/tmp", O_RDWR | O_TMPFILE, 0600),
		-1,
	};
	int fd;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(create(&r, &bad[i], 1), -EINVAL);
		close(bad[i]);
	}
	/* Also sealed against writing: only a read-only region can be registered. */
	fd = sealed_memfd(16 * PAGE, F_SEAL_SHRINK | F_SEAL_WRITE);
	assert_int_equal(create(&r, &fd, 1), -EPERM);
	r.access = ACCESS_READ;
	assert_int_equal(create(&r, &fd, 1), 0);
	close(fd);
}

REQUIREMENT("MEM-05")
UNIT_TEST(misaligned_hugetlb_ranges_are_refused)
{
	struct uroce_reg_mr_req r = good_req();
	int fd = memfd_create("huge", MFD_HUGETLB | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, 4 * HUGE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(create(&r, &fd, 1), -EINVAL);
	close(fd);
}

/* ---- with a client process ---- */

static int
shared_piece(struct uroce_reg_mr_req *req, void *addr, size_t len, uint32_t access)
{
	*req = (struct uroce_reg_mr_req){
		.access = access,
		.addr = (uintptr_t)addr,
		.length = len,
		.npieces = 1,
		.piece = {{.va = (uintptr_t)addr,
			   .len = len,
			   .kind = UROCE_PIECE_MAP_FILE,
			   .vm_start = (uintptr_t)addr,
			   .vm_end = (uintptr_t)addr + len}},
	};
	return 0;
}

static void *
map_file(int fd, size_t len, int prot, int flags)
{
	void *p = mmap(NULL, len, prot, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* The request says shared, but the mapping is private, absent, or replaced by now. */
static void
client_false_shared(void)
{
	int id, path, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *p = map_file(-1, 8 * PAGE, PROT_READ | PROT_WRITE, flags);
	struct uroce_reg_mr_req req;
	struct reg r = {.addr = p};

	shared_piece(&req, p, 8 * PAGE, ACCESS_WRITE);
	CHECK(client_send_reg(&req, NULL, 0, &id, &path) == 0);
	CHECK(path == UROCE_MR_PATH_COPY);
	r.id = id;
	CHECK(daemon_fill(&r, p, 8 * PAGE, 5) == 0 && filled(p, 8 * PAGE, 5));
	/* Only the registered range. */
	CHECK(daemon_fill(&r, p + 8 * PAGE - 1, 2, 5) == EFAULT);
	CHECK(daemon_fill(&r, p - 1, 2, 5) == EFAULT);
	CHECK(daemon_fill(&r, (void *)(UINTPTR_MAX - 1), 4, 5) == EFAULT);
	CHECK(munmap(p + 4 * PAGE, PAGE) == 0);
	CHECK(daemon_fill(&r, p, 8 * PAGE, 6) == EFAULT);
	client_send_dereg(id);
	CHECK(client_send_reg(&req, NULL, 0, &id, &path) == EFAULT);
	CHECK(munmap(p, 8 * PAGE) == 0);
	CHECK(client_send_reg(&req, NULL, 0, &id, &path) == EFAULT);
}

/* A file that the client may only read is not written for it. */
static void
client_read_only_file(void)
{
	char name[] = "/dev/shm/uroce-ro-XXXXXX";
	int wr = mkstemp(name), rd = open(name, O_RDONLY), id, path;
	struct uroce_reg_mr_req req;
	uint8_t *p;

	CHECK(unlink(name) == 0 && ftruncate(wr, 4 * PAGE) == 0);
	p = map_file(rd, 4 * PAGE, PROT_READ, MAP_SHARED);
	shared_piece(&req, p, 4 * PAGE, ACCESS_WRITE);
	CHECK(client_send_reg(&req, NULL, 0, &id, &path) == EFAULT);
	req.piece[0].kind = UROCE_PIECE_COPY;
	CHECK(client_send_reg(&req, NULL, 0, &id, &path) == EFAULT);
	shared_piece(&req, p, 4 * PAGE, ACCESS_READ);
	CHECK(client_send_reg(&req, NULL, 0, &id, &path) == 0 && path == UROCE_MR_PATH_SHARED);
}

struct swapper {
	uint8_t *at;
	int own, other; /* one it may write, one it may only read */
	atomic_bool stop;
};

/* Now this file, now that, at the same address. */
static void *
swap_mappings(void *arg)
{
	struct swapper *s = arg;

	while (!s->stop) {
		CHECK(mmap(s->at, 4 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, s->other, 0) ==
		      s->at);
		CHECK(mmap(s->at, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, s->own,
			   0) == s->at);
	}
	return NULL;
}

/* While the daemon checks the mapping, the client replaces it by a file that it may only read. */
static void
client_swaps_mappings(void)
{
	char name[] = "/dev/shm/uroce-sw-XXXXXX";
	int wr = mkstemp(name), id, path;
	struct swapper s = {.other = open(name, O_RDONLY),
			    .own = open("/dev/shm", O_RDWR | O_TMPFILE, 0600)};
	struct uroce_reg_mr_req req;
	unsigned mapped = 0;
	uint8_t page[PAGE];
	struct reg r;
	pthread_t t;

	CHECK(unlink(name) == 0 && ftruncate(wr, 4 * PAGE) == 0);
	CHECK(ftruncate(s.own, 4 * PAGE) == 0);
	s.at = map_file(s.own, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	CHECK(pthread_create(&t, NULL, swap_mappings, &s) == 0);
	shared_piece(&req, s.at, 4 * PAGE, ACCESS_WRITE);
	for (unsigned i = 0; i < harness_count(20000) || mapped <= 10; i++) {
		if (client_send_reg(&req, NULL, 0, &id, &path) != 0)
			continue;
		r.id = id;
		if (path == UROCE_MR_PATH_SHARED) {
			mapped++;
			CHECK(daemon_fill(&r, s.at, 4 * PAGE, 1) == 0);
		}
		client_send_dereg(id);
	}
	s.stop = true;
	pthread_join(t, NULL);
	for (unsigned i = 0; i < 4; i++) {
		CHECK(pread(wr, page, PAGE, i * PAGE) == PAGE);
		for (unsigned k = 0; k < PAGE; k++)
			CHECK(page[k] == 0);
	}
}

/* The file shrinks under a region that is in use: zeros and a mark, and the daemon lives. */
static void
client_truncates(void)
{
	char name[] = "/dev/shm/uroce-tr-XXXXXX";
	int fd = mkstemp(name);
	struct reg r, ok;
	uint64_t h;
	uint8_t *p, *q, zero[64] = {0};

	CHECK(unlink(name) == 0 && ftruncate(fd, 64 * PAGE) == 0);
	p = map_file(fd, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	q = map_file(-1, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
	fill(p, 64 * PAGE, 1);
	CHECK(client_reg(&r, p, 64 * PAGE, ACCESS_WRITE) == 0 && r.path == UROCE_MR_PATH_SHARED);
	CHECK(client_reg(&ok, q, 8 * PAGE, ACCESS_WRITE) == 0);
	CHECK(!daemon_failed(&r));
	CHECK(ftruncate(fd, PAGE) == 0);
	CHECK(daemon_read(&r, p + 32 * PAGE, 64, &h) == 0 && h == hash_of(zero, 64));
	CHECK(daemon_failed(&r) && !daemon_failed(&ok));
	CHECK(daemon_fill(&r, p, 64 * PAGE, 7) == 0);
	CHECK(daemon_fill(&ok, q, 8 * PAGE, 8) == 0 && filled(q, 8 * PAGE, 8));
	client_dereg(&r);
	/* Registering beyond the end fails at once. */
	CHECK(client_reg(&r, p, 64 * PAGE, ACCESS_WRITE) == EFAULT);
	CHECK(client_reg(&r, p, 100, ACCESS_WRITE) == 0 && r.path == UROCE_MR_PATH_SHARED);
}

/* A sealed memfd of huge pages, of which none are free when the daemon needs one. */
static void
client_huge_vanish(void)
{
	int fd = memfd_create("huge", MFD_HUGETLB | MFD_ALLOW_SEALING), id, path;
	struct uroce_reg_mr_req req = {
		.access = ACCESS_WRITE,
		.addr = VA,
		.length = 1024 * HUGE,
		.npieces = 1,
		.piece = {{.va = VA, .len = 1024 * HUGE, .kind = UROCE_PIECE_FD}},
	};
	struct reg r = {.addr = (uint8_t *)VA};
	long spare = huge_pages_spare();
	int err;

	/* The machine may have many: these are taken first. */
	if (spare > 0)
		map_file(-1, (size_t)spare * HUGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB);
	CHECK(ftruncate(fd, 1024 * HUGE) == 0);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	/* The daemon's mapping may be refused, or fail on access: either way it lives. */
	err = client_send_reg(&req, &fd, 1, &id, &path);
	if (err == 0) {
		r.id = id;
		CHECK(daemon_fill(&r, (void *)(VA + 1000 * HUGE), 100, 1) == 0);
		CHECK(daemon_failed(&r));
	} else {
		CHECK(err == ENOMEM);
	}
}

/* Seven bytes at its beginning, read or written, as often as they are late. */
static int
copied(struct mrmap *map, const struct uroce_reg_mr_req *req, char *dst, const char *src)
{
	int rc;

	do
		rc = src != NULL ? mrmap_copy_ops.write(map, req->addr, src, 7, 0)
				 : mrmap_copy_ops.read(map, req->addr, dst, 7);
	while (rc == -EAGAIN);
	return rc;
}

/* After an exec the process is not the one that registered the memory. */
static void
client_execs(void)
{
	static uint8_t data[PAGE] = "secret";
	int pair[2], ready[2];
	struct uroce_reg_mr_req req;
	struct mrmap *map = NULL;
	char c, buf[16];
	pid_t pid;
	uint8_t *p;

	/* This process is the daemon here, its child the client. */
	CHECK(pipe(pair) == 0 && pipe2(ready, O_CLOEXEC) == 0);
	p = data;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		CHECK(read(pair[0], &c, 1) == 1);
		execl("/bin/sleep", "sleep", "100", NULL);
		_exit(1);
	}
	close(ready[1]);
	req = (struct uroce_reg_mr_req){
		.access = ACCESS_WRITE,
		.addr = (uintptr_t)p,
		.length = 100,
		.npieces = 1,
		.piece = {{.va = (uintptr_t)p & ~(uint64_t)(PAGE - 1), .len = 2 * PAGE}},
	};
	CHECK(mrmap_create(pid, -1, 0, &req, NULL, 0, &map) == 0);
	CHECK(mrmap_path(map) == UROCE_MR_PATH_COPY);
	CHECK(copied(map, &req, buf, NULL) == 0 && strcmp(buf, "secret") == 0);
	CHECK(write(pair[1], "x", 1) == 1);
	CHECK(read(ready[0], &c, 1) == 0); /* closed by the exec */
	CHECK(copied(map, &req, buf, NULL) == -ESRCH);
	CHECK(copied(map, &req, NULL, buf) == -ESRCH);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	CHECK(copied(map, &req, buf, NULL) == -ESRCH);
	mrmap_destroy(map);
}

/* The process belongs to another user, or is not dumpable. */
static void
client_not_dumpable(void)
{
	uint8_t *s = map_file(-1, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
	uint8_t stack[100];
	struct reg r;

	CHECK(client_reg(&r, stack, 100, ACCESS_WRITE) == 0);
	client_dereg(&r);
	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
	CHECK(client_reg(&r, stack, 100, ACCESS_WRITE) == EPERM);
	CHECK(client_reg(&r, s, 4 * PAGE, ACCESS_WRITE) == EPERM);
}

REQUIREMENT("MEM-05")
UNIT_TEST(mapping_that_is_not_shared_is_copied)
{
	harness_run(client_false_shared);
}

REQUIREMENT("MEM-05")
UNIT_TEST(read_only_file_is_refused)
{
	harness_run(client_read_only_file);
}

REQUIREMENT("MEM-05")
UNIT_TEST(mapping_swapped_during_the_check_is_detected)
{
	harness_run(client_swaps_mappings);
}

REQUIREMENT("MEM-05")
UNIT_TEST(truncated_file_is_refused)
{
	uint64_t before = sigbus_guard_failures();

	harness_run(client_truncates);
	assert_int_equal(sigbus_guard_failures(), before + 1);
}

REQUIREMENT("MEM-05")
UNIT_TEST(daemon_survives_a_lack_of_huge_pages)
{
	harness_run(client_huge_vanish);
}

REQUIREMENT("MEM-05")
UNIT_TEST(a_client_that_execs_is_refused)
{
	harness_run(client_execs);
}

REQUIREMENT("MEM-05")
UNIT_TEST(process_that_is_not_dumpable_is_refused)
{
	harness_run_as(client_not_dumpable, 65534);
}

REQUIREMENT("MEM-05")
UNIT_TEST(memory_of_another_process_is_refused)
{
	static uint8_t data[100];
	struct uroce_reg_mr_req req = {
		.addr = (uintptr_t)data,
		.length = sizeof(data),
		.npieces = 1,
		.piece = {{.va = (uintptr_t)data & ~(uint64_t)(PAGE - 1), .len = 2 * PAGE}},
	};
	struct mrmap *map = NULL;
	int pidfd;
	pid_t pid;

	/* Ours is root's process, not user 65534's. */
	assert_int_equal(mrmap_create(getpid(), -1, 65534, &req, NULL, 0, &map), -EPERM);
	/* A pid that was given to another process after the client went. */
	pid = fork();
	if (pid == 0)
		_exit(0);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	assert_true(pidfd >= 0);
	assert_true(has_status(pid, false, 0));
	assert_int_equal(mrmap_create(getpid(), pidfd, 0, &req, NULL, 0, &map), -EPERM);
	assert_int_equal(mrmap_create(pid, -1, 0, &req, NULL, 0, &map), -EPERM);
	assert_null(map);
	close(pidfd);
}

/* What a client describes as its file is copied all the same if the daemon maps no memory. */
REQUIREMENT("MEM-05")
UNIT_TEST(memory_of_a_copied_client_is_not_mapped)
{
	static uint8_t bytes[PAGE * 2];
	uint64_t page = ((uintptr_t)bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	struct uroce_reg_mr_req req = {
		.access = ACCESS_WRITE,
		.addr = page,
		.length = PAGE,
		.npieces = 1,
		.piece = {{.va = page, .len = PAGE, .vm_start = page, .vm_end = page + PAGE}},
	};
	struct mrmap_client c = {
		.pid = getpid(), .pidfd = -1, .uid = getuid(), .copied = true, .mem.fd = -1};
	int fd = sealed_memfd(PAGE, F_SEAL_SHRINK);
	struct mrmap_found found;
	struct mrmap_files files;

	for (uint32_t kind = UROCE_PIECE_COPY; kind <= UROCE_PIECE_KEPT; kind++) {
		req.piece[0].kind = kind;
		mrmap_find(&c, &req, &fd, 1, &found, &files);
		assert_int_equal(found.err, 0);
		assert_int_equal(found.path, UROCE_MR_PATH_COPY);
		assert_int_equal(found.nruns, 0);
		mrmap_files_close(&found, &files);
	}
	close(c.mem.fd);
	close(fd);
}

/* Whether the broker uses this descriptor for copies. It has O_NONBLOCK; what the broker opens has
 * not. */
static bool
is_taken(int fd)
{
	static uint8_t byte[PAGE * 2];
	uint64_t page = (uintptr_t)byte & ~(uint64_t)(PAGE - 1);
	const struct uroce_reg_mr_req req = {
		.access = ACCESS_WRITE,
		.addr = page,
		.length = PAGE,
		.npieces = 1,
		.piece = {{.va = page, .len = PAGE, .kind = UROCE_PIECE_COPY}},
	};
	struct mrmap_client c = {.pid = getpid(), .pidfd = -1, .uid = getuid(), .mem.fd = -1};
	struct mrmap_found found;
	struct mrmap_files files;
	bool taken;

	assert_true(fd >= 0);
	mrmap_find(&c, &req, &fd, 1, &found, &files);
	assert_int_equal(found.err, 0);
	assert_int_equal(c.mem.writable, true);
	taken = (fcntl(c.mem.fd, F_GETFL) & O_NONBLOCK) != 0;
	mrmap_files_close(&found, &files);
	close(c.mem.fd);
	close(fd);
	return taken;
}

/* An attached descriptor is used if it is the client's memory, which the kernel may open for nobody
 * else. */
REQUIREMENT("MEM-05")
UNIT_TEST(only_the_clients_own_memory_is_taken)
{
	char path[32];
	pid_t other = fork();

	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	assert_true(other > 0);
	assert_true(is_taken(open("/proc/self/mem", O_RDWR | O_NONBLOCK | O_CLOEXEC)));
	assert_false(is_taken(open("/proc/self/mem", O_RDONLY | O_NONBLOCK | O_CLOEXEC)));
	assert_false(is_taken(open("/proc/self/mem", O_PATH | O_CLOEXEC)));
	assert_false(is_taken(open("/proc/self/oom_score_adj", O_RDWR | O_NONBLOCK | O_CLOEXEC)));
	assert_false(is_taken(open("/dev/zero", O_RDWR | O_NONBLOCK | O_CLOEXEC)));
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)other);
	assert_false(is_taken(open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)));
	kill(other, SIGKILL);
	assert_true(has_status(other, true, SIGKILL));
}

UNIT_NEEDS(harness_can_run);
