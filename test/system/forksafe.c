/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that calls ibv_fork_init, as UCX and Ceph do. libibverbs then marks the pages of each
 * region MADV_DONTFORK before it calls the provider. A child must nevertheless have all of these
 * pages, with other data of the program in them, for every kind of memory.
 *
 *   forksafe DEVICE
 *
 * TAP; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"
#include "../kit/requirement.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE  4096u
#define BYTES (2 * PAGE) /* of each buffer */
#define HUGE  (2u << 20)
#define AT    2000u /* of the region in its page */
#define LEN   100u

static struct side side;

static uint8_t data_area[3 * PAGE] = {1}; /* initialised: the file's private mapping */
static uint8_t bss_area[3 * PAGE];

/* Does a child of this moment read value in all bytes, and does its store stay its own? */
static bool
child_has(volatile uint8_t *buf, uint8_t value, bool shared)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		bool bad = false;

		for (unsigned at = 0; at < BYTES; at++)
			bad |= buf[at] != value;
		buf[0] = (uint8_t)(value + 1);
		_exit(bad);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return false;
	if (shared)
		buf[0] = value;
	return buf[0] == value;
}

static struct ibv_mr *
reg(uint8_t *at, size_t len)
{
	return ibv_reg_mr(side.pd, at, len, SIDE_ACCESS);
}

/* Registers, again while the memory may linger, twice at once, and elsewhere by rereg. */
static void
check_kind(uint8_t *buf, bool shared)
{
	struct ibv_mr *mr, *other;

	memset(buf, 7, BYTES);
	mr = reg(buf + AT, LEN);
	CHECK(mr && child_has(buf, 7, shared));
	for (int i = 0; mr && i < 3; i++) {
		CHECK(ibv_dereg_mr(mr) == 0);
		mr = reg(buf + AT, LEN);
		CHECK(mr && child_has(buf, 7, shared));
	}
	other = reg(buf, BYTES);
	CHECK(other && child_has(buf, 7, shared));
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(child_has(buf, 7, shared));
	CHECK(ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf + PAGE, LEN, 0) == 0);
	CHECK(child_has(buf, 7, shared));
	CHECK(ibv_dereg_mr(other) == 0);
	CHECK(child_has(buf, 7, shared));
}

static uint8_t *
mapped(int flags, int fd)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* A mapping of a file without a name. */
static uint8_t *
file_mapped(int flags)
{
	char name[] = "/var/tmp/forksafe-XXXXXX";
	int fd = mkstemp(name);
	uint8_t *p;

	CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, BYTES) == 0);
	p = mapped(flags, fd);
	close(fd);
	return p;
}

static uint8_t *
page_of(uint8_t *area)
{
	return area + (PAGE - (uintptr_t)area % PAGE) % PAGE;
}

REQUIREMENT("MEM-05")
static void
private_memory(void)
{
	check_kind(mapped(MAP_PRIVATE | MAP_ANONYMOUS, -1), false);
}

/* Two small pages in the middle of a huge one. */
REQUIREMENT("MEM-05")
static void
a_transparent_huge_page(void)
{
	uint8_t *p =
		mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	p += HUGE - (uintptr_t)p % HUGE;
	madvise(p, HUGE, MADV_HUGEPAGE); /* fails in kernels without them */
	memset(p, 7, HUGE);
	check_kind(p + HUGE / 2, false);
	for (uint8_t *at = p; at < p + HUGE; at += HUGE - BYTES)
		CHECK(child_has(at, 7, false));
}

/*
 * A region in a page of hugetlbfs. libibverbs marks the whole page, and only with
 * RDMAV_HUGEPAGES_SAFE does it accept such memory. The machine may have no free page.
 */
REQUIREMENT("MEM-05")
static void
a_reserved_huge_page(void)
{
	uint8_t *p;

	if (!getenv("RDMAV_HUGEPAGES_SAFE"))
		return;
	p = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
		 0);
	if (p == MAP_FAILED) {
		printf("# no free huge page\n");
		return;
	}
	check_kind(p, false);
}

REQUIREMENT("MEM-05")
static void
the_heap(void)
{
	check_kind(malloc(BYTES), false);
}

REQUIREMENT("MEM-05")
static void
the_stack(void)
{
	uint8_t area[3 * PAGE];

	check_kind(page_of(area), false);
}

REQUIREMENT("MEM-05")
static void
initialised_data(void)
{
	check_kind(page_of(data_area), false);
}

REQUIREMENT("MEM-05")
static void
zeroed_data(void)
{
	check_kind(page_of(bss_area), false);
}

REQUIREMENT("MEM-05")
static void
shared_memory(void)
{
	check_kind(mapped(MAP_SHARED | MAP_ANONYMOUS, -1), true);
}

REQUIREMENT("MEM-05")
static void
a_private_mapping_of_a_file(void)
{
	check_kind(file_mapped(MAP_PRIVATE), false);
}

REQUIREMENT("MEM-05")
static void
a_shared_mapping_of_a_file(void)
{
	check_kind(file_mapped(MAP_SHARED), true);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(private_memory),
		SIDE_TEST(a_transparent_huge_page),
		SIDE_TEST(a_reserved_huge_page),
		SIDE_TEST(the_heap),
		SIDE_TEST(the_stack),
		SIDE_TEST(initialised_data),
		SIDE_TEST(zeroed_data),
		SIDE_TEST(shared_memory),
		SIDE_TEST(a_private_mapping_of_a_file),
		SIDE_TEST(a_shared_mapping_of_a_file),
	};

	if (ibv_fork_init() != 0 || ibv_is_fork_initialized() != IBV_FORK_ENABLED) {
		printf("Bail out! libibverbs does not mark pages\n");
		return 1;
	}
	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
