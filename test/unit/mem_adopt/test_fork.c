/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that forks while its memory is registered. */
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
#include "mr_ref.h"
#include "page_swap.h"
#include "../../kit/unit.h"

static atomic_bool stop;

static void
wait_for(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In a child: the heap works, and stores stay in the child. */
static void
use_memory(uint8_t *p, size_t len)
{
	void *m[100];

	for (int i = 0; i < 100; i++) {
		m[i] = malloc(10 + 97 * (size_t)i);
		memset(m[i], 1, 10 + 97 * (size_t)i);
	}
	for (int i = 0; i < 100; i++)
		free(m[i]);
	fill(p, len, 99);
	CHECK(filled(p, len, 99));
}

/* As the provider would in this process, but without a daemon. */
static void
register_here(uint8_t *p, size_t len)
{
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	int fds[MR_ADOPT_MAX_FDS];
	struct mr_pin *hold;
	unsigned n, nfds;

	fill(p, len, 5);
	CHECK(mr_pieces_build((uintptr_t)p, len, piece, &n, fds, &nfds, &hold) == 0);
	CHECK(piece[0].kind == UROCE_PIECE_FD && !is_private(p));
	mr_pieces_release(hold);
	mr_pieces_settle();
	CHECK(is_private(p) && filled(p, len, 5));
}

static void
client_fork(void)
{
	uint8_t *p = malloc(300000), *s = malloc(50);
	struct reg r, r2;
	pid_t pid;

	fill(p, 300000, 1);
	CHECK(client_reg(&r, p, 300000, ACCESS_WRITE) == 0);
	CHECK(client_reg(&r2, s, 50, ACCESS_WRITE) == 0);
	pid = fork();
	if (pid == 0) {
		pid_t grandchild;

		CHECK(is_private(p) && is_private(s) && filled(p, 300000, 1));
		use_memory(p, 300000);
		/* The parent's claims mean nothing here. */
		mr_pieces_release(r2.hold);
		mr_pieces_settle();
		register_here(p, 300000);
		grandchild = fork();
		if (grandchild == 0) {
			use_memory(p, 300000);
			_exit(0);
		}
		wait_for(grandchild);
		_exit(0);
	}
	CHECK(pid > 0);
	CHECK(!is_private(p));
	CHECK(daemon_fill(&r, p, 300000, 2) == 0);
	wait_for(pid);
	CHECK(filled(p, 300000, 2));
	CHECK(daemon_sees(&r, p, 300000));
	CHECK(daemon_fill(&r2, s, 50, 3) == 0 && filled(s, 50, 3));
	client_dereg(&r2);
	client_dereg(&r);
	CHECK(filled(p, 300000, 2) && is_private(p));
}

/* The child does not see stores that the forking thread makes right after the fork. */
static void
client_fork_snapshot(void)
{
	volatile uint64_t *v = malloc(3 * PAGE);
	struct reg r;

	CHECK(client_reg(&r, (void *)v, 3 * PAGE, ACCESS_WRITE) == 0);
	for (uint64_t i = 1; i < 200; i++) {
		pid_t pid;

		v[0] = i;
		v[1000] = i;
		pid = fork();
		if (pid == 0)
			_exit(v[0] == i && v[1000] == i ? 0 : 1);
		v[0] = ~0ull;
		v[1000] = ~0ull;
		wait_for(pid);
	}
	client_dereg(&r);
}

/* Does a child read p[0 .. len) as filled by 1? */
static bool
child_reads(const uint8_t *p, size_t len)
{
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* not cmocka's handler */
		_exit(!filled(p, len, 1));
	}
	return has_status(pid, false, 0);
}

/* libibverbs marks the pages of a region that are adopted already, before it is registered. */
static void
fork_marked(uint8_t *p, size_t page)
{
	struct reg r, again;

	fill(p, page, 1);
	CHECK(client_reg(&r, p, page, ACCESS_READ) == 0);
	CHECK(madvise(p, page, MADV_DONTFORK) == 0);
	CHECK(!child_reads(p, page));
	CHECK(client_reg(&again, p + page / 2 + 2000, 100, ACCESS_READ) == 0);
	CHECK(child_reads(p, page));
	client_dereg(&again);
	client_dereg(&r);
	CHECK(child_reads(p, page));
}

static void
client_fork_marked(void)
{
	fork_marked(map_private(3 * PAGE) + PAGE, PAGE);
}

static void
client_fork_marked_huge(void)
{
	uint8_t *p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	CHECK(p != MAP_FAILED);
	fork_marked(p, HUGE);
}

static void
client_fork_moved(void)
{
	uint8_t *p = map_private(16 * PAGE), *q;
	struct reg r;
	pid_t pid;

	fill(p, 16 * PAGE, 1);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == 0);
	/* the first page is a separate mapping; before Linux 6.17 mremap moves one at a time */
	q = map_private(16 * PAGE);
	CHECK(mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q);
	CHECK(mremap(p + PAGE, 15 * PAGE, 15 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + PAGE) ==
	      q + PAGE);
	client_dereg(&r);
	pid = fork();
	if (pid == 0) {
		use_memory(q, 16 * PAGE);
		_exit(0);
	}
	wait_for(pid);
	CHECK(filled(q, 16 * PAGE, 1));
}

static void
client_fork_huge(void)
{
	uint8_t *p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	struct reg r;
	pid_t pid;

	CHECK(p != MAP_FAILED);
	fill(p, 2 * HUGE, 1);
	CHECK(client_reg(&r, p, 2 * HUGE, ACCESS_WRITE) == 0);
	CHECK(r.path == UROCE_MR_PATH_ADOPTED);
	pid = fork();
	if (pid == 0) {
		CHECK(is_private(p) && filled(p, 2 * HUGE, 1));
		use_memory(p, 2 * HUGE);
		_exit(0);
	}
	wait_for(pid);
	CHECK(filled(p, 2 * HUGE, 1));
	client_dereg(&r);
	CHECK(is_private(p) && filled(p, 2 * HUGE, 1));
}

static void *
register_in_a_loop(void *arg)
{
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	uint8_t *p = malloc(200000);
	int fds[MR_ADOPT_MAX_FDS];
	struct mr_pin *hold;
	unsigned n, nfds;

	while (!stop) {
		CHECK(mr_pieces_build((uintptr_t)p, 200000, piece, &n, fds, &nfds, &hold) == 0);
		memset(p, 1, 200000);
		mr_pieces_release(hold);
		mr_pieces_settle();
	}
	free(p);
	return arg;
}

static void
client_fork_while_registering(void)
{
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&t[i], NULL, register_in_a_loop, NULL) == 0);
	for (int i = 0; i < 100; i++) {
		uint8_t *p = malloc(5000);
		pid_t pid = fork();

		if (pid == 0) {
#ifndef __SANITIZE_ADDRESS__ /* its allocator does not survive the fork of a busy process */
			use_memory(p, 5000);
#endif
			fill(p, 5000, 99);
			_exit(filled(p, 5000, 99) ? 0 : 1);
		}
		CHECK(pid > 0);
		wait_for(pid);
		free(p);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

#define RELEASES 1000u

static uint8_t *handlers_memory; /* what the handler registers and releases; NULL: nothing */
static unsigned handlers_refs;   /* references to it at its end */

/* The references to adopted memory in p's file. */
static unsigned
count_refs(const uint8_t *p)
{
	const struct mr_file *f;
	struct vma_scan scan;
	unsigned n = 0;
	struct vma v;

	CHECK(vma_scan_open(&scan, 0) == 0);
	CHECK(vma_scan_next(&scan, (uintptr_t)p, &v) == 0);
	f = mr_file_find(&v);
	vma_scan_close(&scan);
	CHECK(f != NULL);
	for (unsigned i = 0; i < MR_REF_BUCKETS; i++)
		for (const struct mr_ref *c = f->bucket[i]; c != NULL; c = c->next)
			n++;
	return n;
}

static void
register_in_handler(void)
{
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	int fds[MR_ADOPT_MAX_FDS];
	struct mr_pin *hold;
	unsigned n, nfds;

	if (handlers_memory == NULL)
		return;
	for (unsigned i = 0; i < RELEASES; i++) {
		CHECK(mr_pieces_build((uintptr_t)handlers_memory, 3 * PAGE, piece, &n, fds, &nfds,
				      &hold) == 0);
		mr_pieces_release(hold);
	}
	handlers_refs = count_refs(handlers_memory);
}

/* Installed before the provider's handlers, so it runs between its prepare and the fork. */
__attribute__((constructor(101))) static void
install_handler(void)
{
	pthread_atfork(register_in_handler, NULL, NULL);
}

/*
 * Pages stay adopted until the child has its copies. One released registration keeps them so: the
 * others are not kept, each of which would make the next one slower.
 */
static void
client_fork_releases(void)
{
	uint8_t *p = map_private(3 * PAGE);
	pid_t pid;

	fill(p, 3 * PAGE, 1);
	handlers_memory = p;
	pid = fork();
	if (pid == 0)
		_exit(!is_private(p) || !filled(p, 3 * PAGE, 1));
	handlers_memory = NULL;
	memset(p, 0x77, 3 * PAGE);
	wait_for(pid);
	CHECK(handlers_refs == 1);
	CHECK(is_private(p));
}

#define LIFE(id, client)                                                                           \
	UNIT_TEST(id)                                                                              \
	{                                                                                          \
		harness_run(client);                                                               \
	}

REQUIREMENT("MEM-05")
LIFE(child_of_a_fork_sees_the_registered_memory, client_fork)
LIFE(stores_after_a_fork_are_not_seen_by_the_child, client_fork_snapshot)
LIFE(a_child_has_pages_that_libibverbs_marked, client_fork_marked)
LIFE(fork_works_after_pages_were_moved, client_fork_moved)
LIFE(fork_works_while_a_thread_registers, client_fork_while_registering)
LIFE(releases_between_prepare_and_fork_keep_one_registration, client_fork_releases)

REQUIREMENT("MEM-05")
UNIT_TEST(child_of_a_fork_has_its_own_huge_pages)
{
	if (!huge_pages_get(6))
		skip();
	harness_run(client_fork_huge);
	harness_run(client_fork_marked_huge);
	huge_pages_restore();
}

UNIT_NEEDS(harness_can_run);
