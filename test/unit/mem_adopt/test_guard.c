/* SPDX-License-Identifier: BSD-3-Clause */
/* The guard that repairs memory whose file shrank under the daemon (lib/map/sigbus.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "map/mrmap.h"
#include "map/sigbus.h"
#include "../../kit/unit.h"

/* A mapping of pages past the end of its file. */
static uint8_t *
failing_page(void)
{
	int fd = memfd_create("empty", 0);
	void *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_true(p != MAP_FAILED);
	close(fd);
	return p;
}

REQUIREMENT("MEM-05")
UNIT_TEST(guard_repairs_a_failing_page)
{
	uint64_t before = sigbus_guard_failures();
	volatile uint8_t *p = failing_page();

	assert_int_equal(sigbus_guard_install(), 0);
	assert_int_equal(sigbus_guard_add((void *)p, 4 * PAGE, 77, 0), 0);
	assert_false(sigbus_guard_failed(77));
	assert_int_equal(p[PAGE], 0);
	p[2 * PAGE] = 5;
	assert_int_equal(p[2 * PAGE], 5);
	assert_true(sigbus_guard_failed(77));
	assert_int_equal(sigbus_guard_failures(), before + 1);
	sigbus_guard_del(77);
	assert_false(sigbus_guard_failed(77));
	sigbus_guard_del(77);
	sigbus_guard_del(0);
	assert_int_equal(munmap((void *)p, 4 * PAGE), 0);
}

#define MANY (2l << 20) /* mappings: more would take minutes, or all memory */

/* How many mappings this machine lets a process have. */
static long
most_mappings(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	long n = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld", &n), 1);
	fclose(f);
	return n;
}

/* Mappings until there can be no more. How many. */
static unsigned
use_up_mappings(void)
{
	unsigned n = 0;

	/* Neighbours of different protection are not merged. */
	while (mmap(NULL, PAGE, n % 2 != 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0) != MAP_FAILED)
		n++;
	return n;
}

/* The repair needs a mapping, of which a client may have used up all. */
REQUIREMENT("MEM-05")
UNIT_TEST(guard_repairs_pages_at_the_mapping_limit)
{
	uint64_t before = sigbus_guard_failures();
	volatile uint8_t *p[8];
	int status;
	pid_t pid;

	if (most_mappings() > MANY)
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		sigbus_guard_install();
		for (unsigned i = 0; i < 8; i++) {
			p[i] = failing_page();
			sigbus_guard_add((void *)p[i], 4 * PAGE, 80 + i, 0);
		}
		for (unsigned round = 0; round < 2; round++) {
			if (use_up_mappings() == 0 && round == 0)
				_exit(1);
			for (unsigned i = 4 * round; i < 4 * round + 4; i++)
				p[i][PAGE] = 5;
			sigbus_guard_refill();
		}
		_exit(sigbus_guard_failures() == before + 8 ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

REQUIREMENT("MEM-05")
UNIT_TEST(faults_outside_guarded_ranges_still_kill)
{
	uint8_t *guarded = failing_page();
	volatile uint8_t *p = failing_page();
	pid_t pid;

	assert_int_equal(sigbus_guard_install(), 0);
	assert_int_equal(sigbus_guard_add(guarded, 4 * PAGE, 78, 0), 0);
	pid = fork();
	if (pid == 0) {
		p[0] = 1;
		_exit(0);
	}
	assert_true(has_status(pid, true, SIGBUS));
	pid = fork();
	if (pid == 0) {
		raise(SIGBUS);
		_exit(0);
	}
	assert_true(has_status(pid, true, SIGBUS));
	sigbus_guard_del(78);
	pid = fork();
	if (pid == 0) {
		guarded[0] = 1;
		_exit(0);
	}
	assert_true(has_status(pid, true, SIGBUS));
	assert_int_equal(munmap(guarded, 4 * PAGE), 0);
	assert_int_equal(munmap((void *)p, 4 * PAGE), 0);
}

REQUIREMENT("MEM-05")
UNIT_TEST(guard_repairs_many_ranges)
{
	enum { N = 1000 };
	static uint8_t *p[N];

	assert_int_equal(sigbus_guard_install(), 0);
	for (uint64_t i = 0; i < N; i++) {
		p[i] = failing_page();
		assert_int_equal(sigbus_guard_add(p[i], 4 * PAGE, 1000 + i, 0), 0);
	}
	for (unsigned i = 0; i < N; i += 3)
		p[i][PAGE] = 1;
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(sigbus_guard_failed(1000 + i), i % 3 == 0);
	for (uint64_t i = 0; i < N; i++) {
		sigbus_guard_del(1000 + i);
		assert_int_equal(munmap(p[i], 4 * PAGE), 0);
	}
	assert_int_equal(sigbus_guard_add(NULL, PAGE, 1, 0), -EINVAL);
	assert_int_equal(sigbus_guard_add((void *)PAGE, 0, 1, 0), -EINVAL);
	assert_int_equal(sigbus_guard_add((void *)PAGE, 100, 1, 0), -EINVAL);
	assert_int_equal(sigbus_guard_add((void *)PAGE, PAGE, 0, 0), -EINVAL);
}

/* ---- accesses that wait ---- */

#define OURS   7
#define OTHERS 8

/* A thread that copies a page whose content does not come. */
static struct {
	uint8_t *from, *to;
	_Atomic pid_t tid;
	int uffd;
} waiting;

static void *
waiting_main(void *arg)
{
	atomic_store(&waiting.tid, (pid_t)syscall(SYS_gettid));
	memcpy(waiting.to, waiting.from, PAGE);
	return arg;
}

/* The thread has begun to wait when this returns. */
static pthread_t
waiting_begin(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	struct pollfd fd;
	pthread_t t;

	waiting.from =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	waiting.to =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(waiting.from != MAP_FAILED && waiting.to != MAP_FAILED);
	memset(waiting.to, 0xa5, 4 * PAGE);
	waiting.uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	assert_true(waiting.uffd >= 0);
	assert_int_equal(ioctl(waiting.uffd, UFFDIO_API, &api), 0);
	range.range.start = (uintptr_t)waiting.from;
	range.range.len = 4 * PAGE;
	assert_int_equal(ioctl(waiting.uffd, UFFDIO_REGISTER, &range), 0);
	assert_int_equal(sigbus_guard_install(), 0);
	assert_int_equal(pthread_create(&t, NULL, waiting_main, NULL), 0);
	fd = (struct pollfd){.fd = waiting.uffd, .events = POLLIN};
	assert_int_equal(poll(&fd, 1, -1), 1);
	return t;
}

static void
waiting_end(void)
{
	sigbus_guard_del(90);
	sigbus_guard_del(91);
	munmap(waiting.from, 4 * PAGE);
	munmap(waiting.to, 4 * PAGE);
	close(waiting.uffd);
}

/* The range that the thread copies into belongs to another user. */
REQUIREMENT("MEM-05")
UNIT_TEST(guard_releases_a_thread_that_waits)
{
	pthread_t t = waiting_begin();

	assert_int_equal(sigbus_guard_add(waiting.from, 4 * PAGE, 90, OURS), 0);
	assert_int_equal(sigbus_guard_add(waiting.to, 4 * PAGE, 91, OTHERS), 0);
	/* The handler gives up while sigbus_guard_failed has the lock. -ESRCH: the thread has
	 * ended. */
	while (!sigbus_guard_failed(90))
		(void)sigbus_guard_release(waiting.tid, OURS);
	pthread_join(t, NULL);
	assert_false(sigbus_guard_failed(91));
	for (unsigned i = 0; i < PAGE; i++)
		assert_int_equal(waiting.to[i], 0);
	assert_int_equal(waiting.to[PAGE], 0xa5);
	waiting_end();
}

/* Memory of an owner that the thread does not wait for stays, also if its registers point to it. */
REQUIREMENT("MEM-05")
UNIT_TEST(guard_releases_one_owner)
{
	struct uffdio_zeropage page = {.mode = 0};
	pthread_t t = waiting_begin();

	assert_int_equal(sigbus_guard_add(waiting.from, 4 * PAGE, 90, OURS), 0);
	assert_int_equal(sigbus_guard_add(waiting.to, 4 * PAGE, 91, 0), 0);
	assert_int_equal(sigbus_guard_release(waiting.tid, OTHERS), 0);
	page.range.start = (uintptr_t)waiting.from;
	page.range.len = PAGE;
	assert_int_equal(ioctl(waiting.uffd, UFFDIO_ZEROPAGE, &page), 0);
	pthread_join(t, NULL);
	assert_false(sigbus_guard_failed(90));
	assert_false(sigbus_guard_failed(91));
	waiting_end();
	assert_int_equal(sigbus_guard_release(-1, OURS), -EINVAL);
}

UNIT_NEEDS(harness_can_run);
