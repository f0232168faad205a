/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All interleavings of two threads that use the same pages, on the real kernel. The first thread
 * executes an operation of the provider. Before one of its steps (a system call, or a lock that it
 * takes or releases) it stops, and the second thread executes another operation until that is done
 * or waits for the first thread. Then the first one continues. Each pair of operations runs once
 * for each step of the first one. The provider's operations exclude each other by one lock, and
 * those of the program are single system calls, so nothing else can happen between two threads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "map/vma.h"
#include "mr_adopt.h"
#include "../../kit/hang.h"
#include "../../kit/unit.h"

#define PAGES    4u /* of private memory, .. */
#define AROUND   3u /* .. between as many inaccessible ones on either side */
#define BUF_LEN  24u
#define BUF_AT   100u /* of the first buffer in its page */
#define BUF2_AT  200u /* of another one */
#define STORE_AT 300u /* of what the second thread stores */
#define LIMIT    400u /* no operation has so many steps */
#define STORED   ((uint8_t)0x5a)

/* The memory of a run. */
static struct {
	uint8_t *window, *page; /* page: the one with the buffers; neighbours on both sides */
	uint8_t *moved_to;      /* page after mremap */
	struct reg reg[3];
	bool live[3];
	int err; /* of the last registration */
	bool child_bad, grown_bad;
} w;

/* How far page's contents are determined after a pair of operations. */
enum fate { KEEPS, UNMAPPED, ZERO, MOVED, ANY };

static int failures;
static unsigned at_step, stop_at, runs;
static const char *first_name, *second_name;
static pid_t process;
static __thread bool walks; /* this thread stops at its steps */
/* Not before it moves one mapping over another, which the kernel does whatever that one is. (The
 * provider notices afterwards if it was moved.) */
static bool spare_moves;

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond) && failures++ < 20)                                                    \
			fprintf(stderr, "%s:%d: %s, at step %u of it %s: %s\n", __FILE__,          \
				__LINE__, first_name, stop_at, second_name, #cond);                \
	} while (0)

/* ---- the second thread ---- */

static struct {
	sem_t go;
	pid_t tid;
	void (*run)(void);
	bool started;
	bool called, done; /* atomic */
} second;

static void *
second_main(void *arg)
{
	__atomic_store_n(&second.tid, gettid(), __ATOMIC_RELEASE);
	for (;;) {
		while (sem_wait(&second.go) != 0)
			;
		__atomic_store_n(&second.called, true, __ATOMIC_RELEASE);
		second.run();
		__atomic_store_n(&second.done, true, __ATOMIC_RELEASE);
	}
	return NULL;
}

static bool
second_done(void)
{
	return __atomic_load_n(&second.done, __ATOMIC_ACQUIRE);
}

/* Done, or asleep in the kernel or stopped: it waits for the first thread. */
static bool
second_rests(void)
{
	char path[64], line[256] = "", state;
	int fd;

	if (second_done())
		return true;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", second.tid);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
	CHECK(fd >= 0 && syscall(SYS_read, fd, line, sizeof(line) - 1) > 0);
	syscall(SYS_close, fd);
	state = strchr(line, ')')[2];
	return state == 't' ||
	       (strchr("SD", state) != NULL && __atomic_load_n(&second.called, __ATOMIC_ACQUIRE));
}

static void
start_second(void)
{
	second.started = true;
	sem_post(&second.go);
}

static void
step(void)
{
	int err = errno;

	if (!walks || syscall(SYS_getpid) != process)
		return;
	if (at_step++ == stop_at) {
		walks = false;
		start_second();
		while (!second_rests())
			sched_yield();
		walks = true;
	}
	errno = err;
}

/* ---- the first thread's steps: these replace libc's functions ---- */

static long (*real_syscall)(long n, ...);
static int (*real_ioctl)(int fd, unsigned long request, ...);
static int (*real_open)(const char *path, int flags, ...);
static int (*real_lock)(pthread_mutex_t *m), (*real_unlock)(pthread_mutex_t *m);

static __attribute__((constructor)) void
find_real(void)
{
	*(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
	*(void **)&real_ioctl = dlsym(RTLD_NEXT, "ioctl");
	*(void **)&real_open = dlsym(RTLD_NEXT, "open");
	*(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	*(void **)&real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
}

/* Reads six arguments, however many there are. */
__attribute__((no_sanitize("address"))) long
syscall(long n, ...)
{
	long a[6];
	va_list args;

	va_start(args, n);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (n == SYS_mremap && (a[3] & MREMAP_FIXED) != 0 && spare_moves)
		at_step++;
	else if (n != SYS_getpid)
		step();
	return real_syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int
ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	char *arg;

	va_start(args, request);
	arg = va_arg(args, char *);
	va_end(args);
	step();
	return real_ioctl(fd, request, arg);
}

int
open(const char *path, int flags, ...)
{
	step();
	return real_open(path, flags, 0);
}

int
pthread_mutex_lock(pthread_mutex_t *m)
{
	if (real_lock == NULL)
		find_real();
	step();
	return real_lock(m);
}

int
pthread_mutex_unlock(pthread_mutex_t *m)
{
	int rc = real_unlock(m);

	step();
	return rc;
}

/* ---- operations ---- */

/* The harness has one connection: a request and its response are one step. */
static pthread_mutex_t connection = PTHREAD_MUTEX_INITIALIZER;

static int
reg_at(unsigned i, uint8_t *addr, size_t len)
{
	struct uroce_reg_mr_req req = {.access = ACCESS_WRITE,
				       .addr = (uintptr_t)addr,
				       .length = len,
				       .iova = (uintptr_t)addr};
	struct reg *r = &w.reg[i];
	int fds[MR_ADOPT_MAX_FDS];
	unsigned nfds;
	int err;

	err = mr_pieces_build((uintptr_t)addr, len, req.piece, &req.npieces, fds, &nfds, &r->hold);
	if (err != 0)
		return err;
	step();
	real_lock(&connection);
	err = client_send_reg(&req, fds, nfds, &r->id, &r->path);
	real_unlock(&connection);
	step();
	if (err != 0) {
		mr_pieces_release(r->hold);
		return err;
	}
	r->addr = addr;
	r->len = len;
	w.live[i] = true;
	return 0;
}

static void
dereg_at(unsigned i)
{
	if (!w.live[i])
		return;
	w.live[i] = false;
	real_lock(&connection);
	client_send_dereg(w.reg[i].id);
	real_unlock(&connection);
	step();
	mr_pieces_release(w.reg[i].hold);
}

static void
op_reg(void)
{
	w.err = reg_at(0, w.page + BUF_AT, BUF_LEN);
}

/* Buffers of which a part is in the next page. */
static void
op_reg_two_pages(void)
{
	w.err = reg_at(0, w.page + BUF_AT, PAGE);
}

static void
op_dereg(void)
{
	dereg_at(0);
}

static void
op_dereg_other(void)
{
	dereg_at(1);
}

static void
op_return(void)
{
	mr_pieces_settle();
}

static void
op_dereg_return(void)
{
	dereg_at(0);
	mr_pieces_settle();
}

static bool
pattern(const uint8_t *page)
{
	return filled(page, STORE_AT, 1) &&
	       filled(page + STORE_AT + 1, PAGE - STORE_AT - 1, 1 + STORE_AT + 1);
}

static bool neighbours(void);
static enum fate fate;

/* The child must have the memory that its parent had when it called fork. */
static void
op_fork(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fate == KEEPS && !(pattern(w.page) && is_private(w.page)));
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	w.child_bad |= status != 0;
}

static void
op_reg_other(void)
{
	int err = reg_at(2, w.page + BUF2_AT, BUF_LEN);

	EXPECT(err == 0);
}

static void
op_reg_neighbour(void)
{
	int err = reg_at(2, w.page + PAGE + BUF_AT, BUF_LEN);

	EXPECT(err == 0);
}

static void
op_store(void)
{
	*(volatile uint8_t *)(w.page + STORE_AT) = STORED;
}

static void
op_load(void)
{
	EXPECT(pattern(w.page));
}

static void
op_unmap(void)
{
	EXPECT(munmap(w.page, PAGE) == 0);
}

/* As an allocator that gets the same addresses again. */
static void
op_map_anew(void)
{
	munmap(w.page, PAGE);
	EXPECT(mmap(w.page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		    -1, 0) == w.page);
}

static void
op_move(void)
{
	EXPECT(mremap(w.page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, w.moved_to) == w.moved_to);
}

/* The kernel gives the mapping the next page of the file, which is not the program's next page. */
static void
op_grow(void)
{
	uint8_t *q = mremap(w.page, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, w.moved_to);

	EXPECT(q == w.moved_to);
	for (unsigned i = 0; q != MAP_FAILED && i < PAGE; i++) {
		w.grown_bad |= q[PAGE + i] != 0;
		q[PAGE + i] = STORED;
	}
}

static void
op_free_page(void)
{
	int rc = madvise(w.page, PAGE, MADV_DONTNEED);

	EXPECT(rc == 0);
}

static void
op_protect(void)
{
	EXPECT(mprotect(w.page, PAGE, PROT_READ) == 0);
}

static void
op_unmap_neighbour(void)
{
	EXPECT(munmap(w.page + PAGE, PAGE) == 0);
}

static void
op_map_beside(void)
{
	EXPECT(mmap(w.window, 2 * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == w.window);
}

static void
op_free_neighbour(void)
{
	EXPECT(madvise(w.page + PAGE, PAGE, MADV_DONTNEED) == 0);
}

static void
op_protect_neighbour(void)
{
	EXPECT(mprotect(w.page + PAGE, PAGE, PROT_READ) == 0);
}

/* ---- pairs ---- */

enum before { NOTHING, HELD, OTHER_HELD, BOTH_HELD, LINGERS, TWO_LINGER, NEXT_LINGERS };

static const struct first {
	const char *name;
	enum before before;
	void (*run)(void);
	bool uses_page; /* the program may not free the page meanwhile, although this harms nobody
			   else */
	bool uses_next;
} firsts[] = {
	{"register", NOTHING, op_reg, true},
	{"register beside a region", OTHER_HELD, op_reg, true},
	{"register what lingers", LINGERS, op_reg, true},
	{"register a page more", OTHER_HELD, op_reg_two_pages, true, true},
	{"deregister", HELD, op_dereg, true},
	{"deregister, return", HELD, op_dereg_return, true},
	{"deregister beside a region", BOTH_HELD, op_dereg_return, true},
	{"return what lingers", LINGERS, op_return},
	{"return two pages", TWO_LINGER, op_return},
	{"return the next page first", NEXT_LINGERS, op_return},
	{"fork", NOTHING, op_fork},
	{"fork with a region", HELD, op_fork, true},
	{"fork while a region lingers", LINGERS, op_fork},
};

static const struct second_op {
	const char *name;
	void (*run)(void);
	enum fate fate;
	bool frees;       /* the page, or changes its mapping */
	bool next;        /* changes the next page */
	bool needs_other; /* OTHER_HELD or BOTH_HELD */
} seconds[] = {
	{"stores", op_store, KEEPS},
	{"loads", op_load, KEEPS},
	{"unmaps the page", op_unmap, UNMAPPED, .frees = true},
	{"maps the page anew", op_map_anew, ZERO, .frees = true},
	{"moves the page", op_move, MOVED, .frees = true},
	{"grows the page", op_grow, MOVED, .frees = true},
	{"frees the page", op_free_page, ZERO, .frees = true},
	{"protects the page", op_protect, KEEPS, .frees = true},
	{"unmaps the next page", op_unmap_neighbour, KEEPS, .next = true},
	{"frees the next page", op_free_neighbour, KEEPS, .next = true},
	{"protects the next page", op_protect_neighbour, KEEPS, .next = true},
	{"maps pages in front", op_map_beside, KEEPS},
	{"registers in the page", op_reg_other, KEEPS},
	{"registers in the next page", op_reg_neighbour, KEEPS},
	{"deregisters in the page", op_dereg_other, KEEPS, .needs_other = true},
	{"returns what lingers", op_return, KEEPS},
	{"forks", op_fork, KEEPS},
};

static bool
is_mapped(const uint8_t *p)
{
	unsigned char in;

	return mincore((void *)(uintptr_t)p, PAGE, &in) == 0;
}

/* Pages that neither operation names. */
static bool
neighbours(void)
{
	return filled(w.page - PAGE, PAGE, 2) && filled(w.page + 2 * PAGE, PAGE, 4);
}

static void
set_up(enum before before)
{
	uint8_t *mem = w.window + AROUND * PAGE;

	CHECK(mmap(w.window, (PAGES + 2 * AROUND) * PAGE, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == w.window);
	CHECK(mprotect(mem, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
	w.page = mem + PAGE;
	w.moved_to = w.window + (AROUND + PAGES + 1) * PAGE;
	fill(w.page - PAGE, PAGE, 2);
	fill(w.page, PAGE, 1);
	fill(w.page + PAGE, PAGE, 3);
	fill(w.page + 2 * PAGE, PAGE, 4);
	w.child_bad = w.grown_bad = false;
	w.err = 0;
	if (before == NEXT_LINGERS) {
		CHECK(reg_at(0, w.page + PAGE + BUF_AT, BUF_LEN) == 0);
		dereg_at(0);
	}
	if (before == HELD || before == BOTH_HELD || before == LINGERS || before == NEXT_LINGERS)
		CHECK(reg_at(0, w.page + BUF_AT, BUF_LEN) == 0);
	if (before == OTHER_HELD || before == BOTH_HELD)
		CHECK(reg_at(1, w.page + BUF2_AT, BUF_LEN) == 0);
	if (before == TWO_LINGER)
		CHECK(reg_at(0, w.page + BUF_AT, PAGE) == 0);
	if (before == LINGERS || before == TWO_LINGER || before == NEXT_LINGERS)
		dereg_at(0);
}

static int
prot_of(const uint8_t *p)
{
	struct vma_scan scan;
	struct vma v;

	CHECK(vma_scan_open(&scan, 0) == 0);
	CHECK(vma_scan_next(&scan, (uintptr_t)p, &v) == 0 && v.start <= (uintptr_t)p);
	vma_scan_close(&scan);
	return v.prot;
}

/* The page of a program that may free it now, or of one that has not freed it. */
static void
check_page(const struct second_op *s)
{
	static const uint8_t zero[PAGE];
	uint8_t *p = fate == MOVED ? w.moved_to : w.page;

	if (fate == ANY)
		return;
	EXPECT(is_mapped(w.page) == (fate != UNMAPPED) || fate == MOVED);
	if (fate == UNMAPPED || !is_mapped(p))
		return;
	if (fate == ZERO) {
		EXPECT(memcmp(p, zero, PAGE) == 0);
		return;
	}
	EXPECT(pattern(p));
	if (s->run == op_store)
		EXPECT(p[STORE_AT] == STORED);
	for (unsigned i = 0; fate == KEEPS && i < 3; i++) {
		size_t len = s->next && w.reg[i].len > BUF_LEN ? BUF_LEN : w.reg[i].len;

		if (w.live[i])
			EXPECT(daemon_sees(&w.reg[i], w.reg[i].addr, len));
	}
	if (s->run == op_protect)
		EXPECT(prot_of(p) == PROT_READ);
}

static void
check_next(const struct second_op *s)
{
	static const uint8_t zero[PAGE];
	const uint8_t *next = w.page + PAGE;

	if (s->run == op_unmap_neighbour)
		EXPECT(!is_mapped(next));
	else if (s->run == op_free_neighbour)
		EXPECT(memcmp(next, zero, PAGE) == 0);
	else
		EXPECT(filled(next, PAGE, 3));
	if (s->run == op_protect_neighbour)
		EXPECT(prot_of(next) == PROT_READ);
}

static bool
filled_with(const uint8_t *page, uint8_t byte)
{
	return page[0] == byte && memcmp(page, page + 1, PAGE - 1) == 0;
}

/* No page of an adopted file is mapped any more, and the page is private again. */
static void
check_end(bool grew)
{
	struct vma_scan scan;
	struct vma v;
	uint64_t pos = 0;

	for (unsigned i = 0; i < 3; i++)
		dereg_at(i);
	mr_pieces_settle();
	if (fate == KEEPS)
		EXPECT(pattern(w.page) && is_private(w.page));
	if (fate == MOVED)
		EXPECT(pattern(w.moved_to) && is_private(w.moved_to));
	if (grew)
		EXPECT(filled_with(w.moved_to + PAGE, STORED) && is_private(w.moved_to + PAGE));
	CHECK(munmap(w.window, (PAGES + 2 * AROUND) * PAGE) == 0);
	CHECK(vma_scan_open(&scan, 0) == 0);
	while (vma_scan_next(&scan, pos, &v) == 0) {
		pos = v.end;
		EXPECT(strncmp(v.name, "/memfd:uroce-mr", 15) != 0);
	}
	vma_scan_close(&scan);
}

/* Returns false if the first operation has no step stop_at. */
static bool
run_once(const struct first *f, const struct second_op *s)
{
	bool stopped;

	runs++;
	fate = s->frees && f->uses_page ? ANY : s->fate;
	spare_moves = (s->frees || s->next) && s->run != op_move;
	set_up(f->before);
	second.run = s->run;
	second.started = second.called = second.done = false;
	at_step = 0;
	walks = true;
	f->run();
	walks = false;
	stopped = at_step > stop_at;
	if (!second.started)
		start_second(); /* after the first operation */
	CHECK(COMES_TRUE(second_done()));
	EXPECT(w.err == 0 || (w.err == EFAULT && (s->frees || (s->next && f->uses_next))));
	EXPECT(!w.child_bad && !w.grown_bad);
	EXPECT(neighbours());
	if (!s->next || !f->uses_next)
		check_next(s);
	check_page(s);
	check_end(s->run == op_grow);
	return stopped;
}

static void
client_pairs(void)
{
	const size_t nf = sizeof(firsts) / sizeof(firsts[0]);
	const size_t ns = sizeof(seconds) / sizeof(seconds[0]);
	pthread_t t;

	process = getpid();
	sem_init(&second.go, 0, 0);
	CHECK(pthread_create(&t, NULL, second_main, NULL) == 0);
	CHECK(COMES_TRUE(__atomic_load_n(&second.tid, __ATOMIC_ACQUIRE) != 0));
	w.window = map_private((PAGES + 2 * AROUND) * PAGE);
	first_name = second_name = "";
	set_up(HELD); /* starts the provider's threads */
	check_end(false);
	for (size_t i = 0; i < nf; i++) {
		unsigned before = runs, most = 0;

		for (size_t j = 0; j < ns; j++) {
			const struct second_op *s = &seconds[j];

			if (s->needs_other && firsts[i].before != OTHER_HELD &&
			    firsts[i].before != BOTH_HELD)
				continue;
			if (s->run == op_grow && firsts[i].uses_page)
				continue; /* it stores into the page */
			first_name = firsts[i].name;
			second_name = s->name;
			stop_at = 0;
			while (run_once(&firsts[i], s))
				CHECK(++stop_at < LIMIT);
			most = stop_at > most ? stop_at : most;
		}
		printf("%s: %u runs, up to %u steps\n", firsts[i].name, runs - before, most);
	}
	CHECK(failures == 0);
}

REQUIREMENT("MEM-05")
UNIT_TEST(pairs_of_operations_at_each_step)
{
	harness_run(client_pairs);
}

/* Without a userfaultfd the first thread has the second one stopped while pages move. */
static void
client_pairs_with_pauses(void)
{
	client_allow_pauses(true);
	client_pairs();
}

REQUIREMENT("MEM-05")
UNIT_TEST(pairs_of_operations_with_pauses)
{
	harness_run_as(client_pairs_with_pauses, 65534);
}

UNIT_NEEDS(harness_can_run);
