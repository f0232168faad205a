/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Use of memory that was just deregistered or made inaccessible, and failed registrations while a
 * thread forks.
 */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "mr_adopt.h"
#include "page_swap.h"
#include "../../kit/unit.h"

/* The result of mr_pieces_build. */
struct built {
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
	int fds[MR_ADOPT_MAX_FDS];
	struct mr_pin *hold;
	unsigned n, nfds;
};

static int
build(struct built *b, const void *p, size_t len)
{
	return mr_pieces_build((uintptr_t)p, len, b->piece, &b->n, b->fds, &b->nfds, &b->hold);
}

/*
 * malloc returns large buffers to the kernel and gets the same addresses again: lingering pages
 * belong to the old buffer and disturb nothing.
 */
static void
client_mapped_anew(void)
{
	enum { ROUNDS = 100 };
	uint8_t *first = map_private(64 * PAGE);
	struct built b;

	munmap(first, 64 * PAGE);
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint8_t *p = mmap(first, 64 * PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		CHECK(p == first);
		fill(p, 64 * PAGE, round);
		/* not always quite the same part */
		CHECK(build(&b, p + round % 3 * PAGE, 60 * PAGE) == 0);
		CHECK(b.n == 1 && b.piece[0].kind == UROCE_PIECE_FD);
		CHECK(filled(p, 64 * PAGE, round));
		mr_pieces_release(b.hold);
		munmap(p, 64 * PAGE);
	}
}

/* As realloc does with a separate mapping. */
static uint8_t *
grow(uint8_t *p, size_t len, size_t more)
{
	uint8_t *q = mremap(p, len, more, MREMAP_MAYMOVE);

	if (q != MAP_FAILED)
		return q;
	q = map_private(more);
	memcpy(q, p, len);
	CHECK(munmap(p, len) == 0);
	return q;
}

/*
 * A buffer grows while registered or just after: malloc calls mremap, and must not get the pages of
 * another buffer. The other buffer lies after it, as malloc's mappings do.
 */
static void
check_growing(bool registered)
{
	enum { PAGES = 80 };
	const size_t len = PAGES * PAGE;
	uint8_t *p = map_private(2 * len), *other = p + len, *q;
	struct built a, b;

	fill(other, len, 1);
	fill(p, len, 2);
	CHECK(build(&a, other, len) == 0 && build(&b, p, len) == 0);
	CHECK(!is_private(other) && !is_private(p));
	if (!registered)
		mr_pieces_release(b.hold);
	q = grow(p, len, 2 * len);
	CHECK(filled(q, len, 2));
	memset(q + len, 0xee, len);
	CHECK(filled(other, len, 1));
	fill(other, len, 3);
	for (size_t i = len; i < 2 * len; i++)
		CHECK(q[i] == 0xee);
	if (registered)
		mr_pieces_release(b.hold);
	mr_pieces_release(a.hold);
	mr_pieces_settle();
	CHECK(is_private(other) && filled(other, len, 3) && filled(q, len, 2));
	/* One mapping again: it may grow like any other. */
	CHECK(mremap(other, len, 4 * len, MREMAP_MAYMOVE) != MAP_FAILED);
	CHECK(munmap(q, 2 * len) == 0);
}

static void
client_grows_registered(void)
{
	check_growing(true);
}

static void
client_grows_lingering(void)
{
	check_growing(false);
}

static bool
is_zero(const uint8_t *p, size_t len)
{
	return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

/*
 * A mapping of one page grows and has to move. The kernel gives it the pages that follow in the
 * file, of which the first one belongs to the buffer behind it.
 */
static void
check_page_grows(bool registered, bool neighbour_too)
{
	uint8_t *p = map_private(2 * PAGE), *other = p + PAGE, *q;
	struct built a, b;

	fill(p, PAGE, 2);
	fill(other, PAGE, 1);
	CHECK(build(&a, other, 24) == 0 && build(&b, p, 24) == 0);
	if (!registered)
		mr_pieces_release(b.hold);
	if (!neighbour_too)
		mr_pieces_release(a.hold);
	q = mremap(p, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED && q != p && filled(q, PAGE, 2));
	CHECK(is_zero(q + PAGE, 3 * PAGE) && is_private(q + PAGE));
	CHECK(registered || is_private(q));
	memset(q + PAGE, 0xee, 3 * PAGE);
	CHECK(filled(other, PAGE, 1));
	fill(other, PAGE, 3);
	if (registered)
		mr_pieces_release(b.hold);
	if (neighbour_too)
		mr_pieces_release(a.hold);
	mr_pieces_settle();
	CHECK(is_private(other) && filled(other, PAGE, 3) && is_private(q) && filled(q, PAGE, 2));
	for (size_t i = PAGE; i < 4 * PAGE; i++)
		CHECK(q[i] == 0xee);
	CHECK(munmap(q, 4 * PAGE) == 0 && munmap(other, PAGE) == 0);
}

static void
client_grows_a_page(void)
{
	for (unsigned i = 0; i < 4; i++)
		check_page_grows(i & 1, i & 2);
}

/* It grows where it is: the program is not made to wait, and the new pages are shared at first. */
static void
client_grows_a_page_in_place(void)
{
	for (unsigned registered = 0; registered < 2; registered++) {
		uint8_t *p = map_private(4 * PAGE);
		struct built b;

		CHECK(munmap(p + PAGE, 3 * PAGE) == 0);
		fill(p, PAGE, 2);
		CHECK(build(&b, p, 24) == 0);
		if (!registered)
			mr_pieces_release(b.hold);
		CHECK(mremap(p, PAGE, 4 * PAGE, 0) == p);
		CHECK(is_zero(p + PAGE, 3 * PAGE));
		memset(p + PAGE, 0xee, 3 * PAGE);
		if (registered)
			mr_pieces_release(b.hold);
		mr_pieces_settle();
		for (unsigned i = 0; i < 4; i++)
			CHECK(is_private(p + i * PAGE));
		CHECK(filled(p, PAGE, 2) && p[PAGE] == 0xee && p[4 * PAGE - 1] == 0xee);
		CHECK(munmap(p, 4 * PAGE) == 0);
	}
}

/* Registered in parts, then as a whole: one region over many mappings. */
static void
client_parts(void)
{
	enum { PARTS = 100, EACH = 4 };
	uint8_t *p = map_private(PARTS * EACH * PAGE);
	static struct built part[PARTS], all;

	fill(p, PARTS * EACH * PAGE, 1);
	for (unsigned i = 0; i < PARTS; i++)
		CHECK(build(&part[i], p + i * EACH * PAGE, EACH * PAGE) == 0);
	CHECK(build(&all, p, PARTS * EACH * PAGE) == 0);
	CHECK(all.n == 1 && all.piece[0].kind == UROCE_PIECE_FD);
	CHECK(all.piece[0].len == PARTS * EACH * PAGE);
	for (unsigned i = 0; i < PARTS; i++)
		mr_pieces_release(part[i].hold);
	mr_pieces_release(all.hold);
	mr_pieces_settle();
	CHECK(is_private(p) && filled(p, PARTS * EACH * PAGE, 1));
	/* One mapping again: mremap moves only one mapping. */
	CHECK(mremap(p, PARTS * EACH * PAGE, 2 * PARTS * EACH * PAGE, MREMAP_MAYMOVE) !=
	      MAP_FAILED);
}

/* Memory that is inaccessible when returned is private again and keeps its contents. */
static void
client_inaccessible(void)
{
	enum { SMALL = 8, LARGE = 600 }; /* pages; the latter do not linger */

	for (unsigned round = 0; round < 4; round++) {
		size_t len = (round % 2 ? LARGE : SMALL) * PAGE, half = len / 2;
		int prot = round < 2 ? PROT_NONE : PROT_WRITE;
		uint8_t *p = map_private(len);
		struct built b;

		fill(p, len, 1);
		CHECK(build(&b, p, len) == 0 && !is_private(p));
		CHECK(mprotect(p, half, prot) == 0);
		mr_pieces_release(b.hold);
		mr_pieces_settle();
		CHECK(is_private(p) && is_private(p + half));
		CHECK(mprotect(p, half, PROT_READ | PROT_WRITE) == 0);
		CHECK(filled(p, len, 1));
		CHECK(madvise(p, len, MADV_DONTNEED) == 0 && p[0] == 0 && p[len - 1] == 0);
		munmap(p, len);
	}
}

/* Memory that is inaccessible during a fork is private to the child. */
static void
client_fork_inaccessible(void)
{
	uint8_t *p = map_private(8 * PAGE);
	struct reg r;
	pid_t pid;
	int status;

	fill(p, 8 * PAGE, 1);
	CHECK(client_reg(&r, p, 8 * PAGE, ACCESS_WRITE) == 0);
	CHECK(r.path == UROCE_MR_PATH_ADOPTED);
	CHECK(mprotect(p + PAGE, 2 * PAGE, PROT_NONE) == 0);
	pid = fork();
	if (pid == 0) {
		CHECK(is_private(p + PAGE));
		CHECK(mprotect(p + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
		CHECK(filled(p, 8 * PAGE, 1));
		memset(p, 0xee, 8 * PAGE);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(mprotect(p + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
	CHECK(filled(p, 8 * PAGE, 1));
	client_dereg(&r);
}

/* --- a registration that fails half-way, while a thread is about to fork --- */

static uint8_t *failing; /* two mappings; the second cannot be adopted */
static bool stayed_adopted;

/*
 * A fork in the middle of a page's return would leave the child without that page. Adopted pages
 * therefore stay until the fork is over.
 */
static void
fail_in_prepare(void)
{
	struct built b;

	if (failing == NULL)
		return;
	CHECK(build(&b, failing, 8 * PAGE) == 0 && b.piece[0].kind == UROCE_PIECE_COPY);
	stayed_adopted = !is_private(failing);
	mr_pieces_release(b.hold);
	setenv("UROCE_MR_MODE", "adopt", 1);
	CHECK(build(&b, failing, 8 * PAGE) == EOPNOTSUPP);
	setenv("UROCE_MR_MODE", "auto", 1);
	stayed_adopted &= !is_private(failing);
}

/* Installed before the provider's handlers, so it runs after them. */
static __attribute__((constructor(101))) void
install(void)
{
	pthread_atfork(fail_in_prepare, NULL, NULL);
}

static void
client_fails_while_forking(void)
{
	uint8_t *p = map_private(8 * PAGE);
	struct uffdio_register reg = {
		.range = {.start = (uintptr_t)p + 4 * PAGE, .len = 4 * PAGE},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int uffd = page_swap_uffd(0), status;
	struct built b;
	pid_t pid;

	fill(p, 8 * PAGE, 3);
	CHECK(uffd >= 0 && ioctl(uffd, UFFDIO_REGISTER, &reg) == 0);
	CHECK(build(&b, p, 8 * PAGE) == 0 && b.piece[0].kind == UROCE_PIECE_COPY);
	CHECK(is_private(p)); /* no fork: at once */
	mr_pieces_release(b.hold);
	failing = p;
	pid = fork();
	if (pid == 0)
		_exit(is_private(p) && filled(p, 8 * PAGE, 3) ? 0 : 1);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	failing = NULL;
	CHECK(stayed_adopted);
	CHECK(is_private(p) && filled(p, 8 * PAGE, 3));
}

#define LINGER(id, client)                                                                         \
	UNIT_TEST(id)                                                                              \
	{                                                                                          \
		harness_run(client);                                                               \
	}

/* realloc moves memory that lingers. It is the program's alone: madvise frees it at its new place.
 */
static void
client_moved_then_freed(void)
{
	static const uint8_t zero[PAGE];
	struct built b;

	for (unsigned round = 0; round < 20; round++) {
		uint8_t *p = map_private(4 * PAGE), *q;

		fill(p, 4 * PAGE, round);
		CHECK(build(&b, p + PAGE, 24) == 0);
		mr_pieces_release(b.hold);
		q = mremap(p + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, map_private(PAGE));
		CHECK(q != MAP_FAILED && filled(q, PAGE, round + PAGE));
		CHECK(madvise(q, PAGE, MADV_DONTNEED) == 0);
		CHECK(memcmp(q, zero, PAGE) == 0 && is_private(q));
		CHECK(munmap(q, PAGE) == 0 && munmap(p, 4 * PAGE) == 0);
	}
}

REQUIREMENT("MEM-05")
LINGER(lingering_pages_do_not_disturb_a_new_mapping, client_mapped_anew)
LINGER(registered_buffer_can_grow, client_grows_registered)
LINGER(lingering_buffer_can_grow, client_grows_lingering)
LINGER(mapping_of_one_page_can_grow, client_grows_a_page)
LINGER(mapping_of_one_page_can_grow_in_place, client_grows_a_page_in_place)
LINGER(parts_and_then_the_whole_form_one_region, client_parts)
LINGER(inaccessible_memory_is_returned_private, client_inaccessible)
LINGER(child_of_a_fork_gets_inaccessible_memory_too, client_fork_inaccessible)
LINGER(registration_fails_while_forking, client_fails_while_forking)

REQUIREMENT("MEM-05")
UNIT_TEST(moved_memory_can_be_freed)
{
	harness_run(client_moved_then_freed);
}

UNIT_NEEDS(harness_can_run);
