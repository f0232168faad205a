/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads and system calls store into memory while it is registered and deregistered: no store is
 * lost or fails.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "harness.h"
#include "mr_adopt.h"
#include "../../kit/unit.h"

#define NOBODY    65534u
#define RUN_S     3
#define COUNTERS  512u /* of each thread, spread over the whole buffer */
#define NTHREADS  3u
#define MIN_ROUND 60u /* however busy the machine is */
#define MAX_ROUND 3000u

struct buffer {
	uint8_t *base;
	size_t len;
	atomic_bool stop;
};

static volatile uint64_t *
counter(struct buffer *b, unsigned thread, unsigned i)
{
	size_t stride = (b->len - 4 * PAGE) / COUNTERS & ~(size_t)63;

	return (volatile uint64_t *)(b->base + i * stride + thread * 8);
}

/* Blocked while other threads start, so that only the registering thread handles it. */
static void
timer_signal(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(how, &set, NULL);
}

static atomic_uint next_thread, next_registrar;
static unsigned registrations = 3000; /* of each registrar, and of the page with a lock */
static _Atomic uint64_t lost, stores, read_errors, reads;

/* Increments its own counters by plain and atomic stores and checks that none is lost. */
static void *
storer(void *arg)
{
	uint64_t mine[COUNTERS] = {0};
	struct buffer *b = arg;
	unsigned me = atomic_fetch_add(&next_thread, 1) % NTHREADS;

	while (!b->stop) {
		for (unsigned i = 0; i < COUNTERS; i++) {
			volatile uint64_t *c = counter(b, me, i);

			if (*c != mine[i]) {
				atomic_fetch_add(&lost, 1);
				mine[i] = *c;
			}
			if (i & 1)
				__atomic_fetch_add(c, 1, __ATOMIC_RELAXED);
			else
				*c = mine[i] + 1;
			mine[i]++;
		}
		atomic_fetch_add(&stores, COUNTERS);
	}
	for (unsigned i = 0; i < COUNTERS; i++)
		if (*counter(b, me, i) != mine[i])
			atomic_fetch_add(&lost, 1);
	return NULL;
}

/* The kernel stores too: read(2) from a pipe into a separate part of the buffer. */
static void *
reader(void *arg)
{
	struct buffer *b = arg;
	uint8_t *at = b->base + b->len - 3 * PAGE, text[2 * PAGE];
	int pipe_fd[2];

	CHECK(pipe(pipe_fd) == 0);
	for (uint64_t i = 0; !b->stop; i++) {
		ssize_t n;

		fill(text, sizeof(text), i);
		CHECK(write(pipe_fd[1], text, sizeof(text)) == sizeof(text));
		n = read(pipe_fd[0], at + i % 64, sizeof(text));
		if (n != sizeof(text) || !filled(at + i % 64, sizeof(text), i))
			atomic_fetch_add(&read_errors, 1);
		if (n != sizeof(text))
			break;
		atomic_fetch_add(&reads, 1);
	}
	return NULL;
}

/* A signal handler of the registering thread stores too; it may not run while stores wait. */
static volatile uint64_t *signal_counter;
static volatile uint64_t signals;

static void
on_timer(int sig)
{
	++*signal_counter;
	++signals;
}

static void
timer_start(struct buffer *b, timer_t *timer)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec often = {.it_interval.tv_nsec = 300000, .it_value.tv_nsec = 300000};

	signal_counter = counter(b, NTHREADS, 0);
	signal(SIGUSR1, on_timer);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, timer) == 0);
	CHECK(timer_settime(*timer, 0, &often, NULL) == 0);
}

static void
register_once(struct buffer *b, size_t off, size_t len)
{
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	int fds[MR_ADOPT_MAX_FDS];
	struct mr_pin *hold;
	unsigned n, nfds;

	CHECK(mr_pieces_build((uintptr_t)b->base + off, len, piece, &n, fds, &nfds, &hold) == 0);
	CHECK(piece[0].kind == UROCE_PIECE_FD);
	mr_pieces_release(hold);
	mr_pieces_settle();
}

/*
 * However long a busy machine lets them wait, the threads and the handler have to store. The reader
 * ends at its first error.
 */
static bool
all_have_run(void)
{
	return signals > 50 && stores > 100 && reads > 10;
}

/* Threads store into all of it but the end, which the reader has. */
static void
storm(struct buffer *b)
{
	struct timespec t0, t;
	pthread_t th[NTHREADS + 1];
	unsigned rounds = 0;
	timer_t timer;

	timer_signal(SIG_BLOCK);
	timer_start(b, &timer);
	for (unsigned i = 0; i < NTHREADS; i++)
		CHECK(pthread_create(&th[i], NULL, storer, b) == 0);
	CHECK(pthread_create(&th[NTHREADS], NULL, reader, b) == 0);
	timer_signal(SIG_UNBLOCK);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	do {
		register_once(b, 0, b->len);
		register_once(b, b->len / 3, b->len / 2);
		rounds += 2;
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while (rounds < harness_count(MIN_ROUND) ||
		 (t.tv_sec - t0.tv_sec < RUN_S && rounds < MAX_ROUND) ||
		 !(all_have_run() || read_errors != 0));
	b->stop = true;
	for (unsigned i = 0; i <= NTHREADS; i++)
		pthread_join(th[i], NULL);
	CHECK(timer_delete(timer) == 0);
	CHECK(*signal_counter == signals);
	fprintf(stderr, "%zu KiB: %u registrations, %lu stores, %lu lost; %lu reads, %lu failed\n",
		b->len / 1024, rounds, (unsigned long)stores, (unsigned long)lost,
		(unsigned long)reads, (unsigned long)read_errors);
	CHECK(lost == 0 && read_errors == 0);
}

static void
client_heap(void)
{
	struct buffer b = {.len = 1 << 20};

	b.base = calloc(1, b.len + 8 * PAGE);
	b.base = (uint8_t *)(((uintptr_t)b.base + PAGE) & ~(uintptr_t)(PAGE - 1));
	storm(&b);
}

/* Several chunks: while one is moved, the others are stored into. */
static void
client_chunks(void)
{
	struct buffer b = {.len = 24 << 20};

	b.base = mmap(NULL, b.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(b.base != MAP_FAILED);
	storm(&b);
}

static void
client_huge(void)
{
	struct buffer b = {.len = 2 * HUGE};

	b.base = mmap(NULL, b.len, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	CHECK(b.base != MAP_FAILED);
	storm(&b);
}

/* Transparent huge pages are split on the way, and stay correct. */
static void
client_thp(void)
{
	struct buffer b = {.len = 4 * HUGE};

	b.base = mmap(NULL, b.len + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	CHECK(b.base != MAP_FAILED);
	b.base = (uint8_t *)(((uintptr_t)b.base + HUGE - 1) & ~(HUGE - 1));
	CHECK(madvise(b.base, b.len, MADV_HUGEPAGE) == 0);
	storm(&b);
}

static struct {
	pthread_mutex_t lock;
	uint64_t value;
} * on_heap;

static void *
locker(void *arg)
{
	struct buffer *b = arg;
	uint64_t n = 0;

	while (!b->stop) {
		pthread_mutex_lock(&on_heap->lock);
		on_heap->value++;
		pthread_mutex_unlock(&on_heap->lock);
		n++;
	}
	return (void *)(uintptr_t)n;
}

/* Locks are in the pages that move, and so are the futexes that threads sleep on. */
static void
client_futex(void)
{
	struct buffer b = {.len = PAGE};
	pthread_t th[NTHREADS];
	uint64_t sum = 0;

	b.base = aligned_alloc(PAGE, PAGE);
	on_heap = (void *)b.base;
	memset(on_heap, 0, sizeof(*on_heap));
	pthread_mutex_init(&on_heap->lock, NULL);
	for (unsigned i = 0; i < NTHREADS; i++)
		CHECK(pthread_create(&th[i], NULL, locker, &b) == 0);
	for (unsigned i = 0; i < registrations; i++)
		register_once(&b, 0, PAGE);
	b.stop = true;
	for (unsigned i = 0; i < NTHREADS; i++) {
		void *n;

		pthread_join(th[i], &n);
		sum += (uintptr_t)n;
	}
	CHECK(on_heap->value == sum);
}

/* Registers parts of the buffer at random, up to eight at a time, and stores between. */
static void *
registrar(void *arg)
{
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	struct mr_pin *hold[8] = {NULL};
	struct buffer *b = arg;
	unsigned seed = atomic_fetch_add(&next_registrar, 1);
	int fds[MR_ADOPT_MAX_FDS];
	unsigned n, nfds;

	for (unsigned i = 0; i < registrations || stores <= 100; i++) {
		struct mr_pin **h = &hold[rand_r(&seed) % 8];
		size_t off = (size_t)rand_r(&seed) % b->len;
		size_t len = 1 + (size_t)rand_r(&seed) % (b->len - off);

		mr_pieces_release(*h);
		mr_pieces_settle();
		CHECK(mr_pieces_build((uintptr_t)b->base + off, len, piece, &n, fds, &nfds, h) ==
		      0);
	}
	for (unsigned i = 0; i < 8; i++)
		mr_pieces_release(hold[i]);
	mr_pieces_settle();
	return NULL;
}

/* Threads register overlapping parts of one buffer at once; in the end all of it is private. */
static void
client_registrars(void)
{
	struct buffer b = {.len = 256 * 1024};
	pthread_t th[2 * NTHREADS];

	b.base = mmap(NULL, b.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(b.base != MAP_FAILED);
	for (unsigned i = 0; i < NTHREADS; i++)
		CHECK(pthread_create(&th[i], NULL, storer, &b) == 0);
	for (unsigned i = NTHREADS; i < 2 * NTHREADS; i++)
		CHECK(pthread_create(&th[i], NULL, registrar, &b) == 0);
	for (unsigned i = NTHREADS; i < 2 * NTHREADS; i++)
		pthread_join(th[i], NULL);
	b.stop = true;
	for (unsigned i = 0; i < NTHREADS; i++)
		pthread_join(th[i], NULL);
	CHECK(lost == 0);
	for (size_t off = 0; off < b.len; off += PAGE)
		CHECK(is_private(b.base + off));
}

REQUIREMENT("MEM-05")
UNIT_TEST(no_store_is_lost_while_pages_move)
{
	harness_run(client_heap);
}

REQUIREMENT("MEM-05")
UNIT_TEST(no_store_is_lost_while_pages_move_in_chunks)
{
	harness_run(client_chunks);
}

REQUIREMENT("MEM-05")
UNIT_TEST(no_store_is_lost_while_huge_pages_move)
{
	if (!huge_pages_get(6))
		skip();
	harness_run(client_huge);
	huge_pages_restore();
}

REQUIREMENT("MEM-05")
UNIT_TEST(no_store_is_lost_while_transparent_huge_pages_move)
{
	harness_run(client_thp);
}

REQUIREMENT("MEM-05")
UNIT_TEST(futexes_work_while_their_page_moves)
{
	harness_run(client_futex);
}

REQUIREMENT("MEM-05")
UNIT_TEST(threads_can_register_the_same_memory)
{
	harness_run(client_registrars);
}

/* The same without a userfaultfd: the daemon stops the other threads. */
static void (*stopped_client)(void);

static void
client_stopped(void)
{
	client_allow_pauses(true);
	registrations /= 10; /* each stops all threads, twice */
	stopped_client();
}

static void
run_stopped(void (*client)(void))
{
	stopped_client = client;
	harness_run_as(client_stopped, NOBODY);
}

REQUIREMENT("MEM-05")
UNIT_TEST(no_store_is_lost_while_threads_are_stopped)
{
	run_stopped(client_heap);
}

REQUIREMENT("MEM-05")
UNIT_TEST(no_store_is_lost_in_chunks_while_threads_are_stopped)
{
	run_stopped(client_chunks);
}

REQUIREMENT("MEM-05")
UNIT_TEST(no_store_is_lost_in_huge_pages_while_threads_are_stopped)
{
	if (!huge_pages_get(6))
		skip();
	run_stopped(client_huge);
	huge_pages_restore();
}

REQUIREMENT("MEM-05")
UNIT_TEST(no_store_is_lost_in_transparent_huge_pages_while_threads_are_stopped)
{
	run_stopped(client_thp);
}

REQUIREMENT("MEM-05")
UNIT_TEST(futexes_work_while_threads_are_stopped)
{
	run_stopped(client_futex);
}

REQUIREMENT("MEM-05")
UNIT_TEST(threads_can_register_the_same_memory_without_userfaultfd)
{
	run_stopped(client_registrars);
}

int
main(void)
{
	if (!harness_can_run())
		return 77;
	registrations = harness_count(registrations);
	return unit_run();
}
