/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page_swap_data finds the pages of a memfd, and page_return_chunk takes them back; syscall() here
 * counts the pages asked for.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "page_return.h"
#include "page_swap.h"
#include "raw_mm.h"
#include "../../kit/unit.h"

#define PAGE  ((size_t)sysconf(_SC_PAGESIZE))
#define PAGES 2112u /* 64 blocks of 33 pages, as Ceph's buffers */

static uint64_t asked_pages;

long
syscall(long nr, ...)
{
	static long (*real)(long nr, ...);
	long arg[6];
	va_list args;

	if (real == NULL)
		real = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
	va_start(args, nr);
	for (unsigned i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (nr == SYS_mincore)
		asked_pages += (uint64_t)arg[1] / PAGE;
	return real(nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* Fills the first `there` pages of each block. Returns how many pages page_swap_data asked for. */
static uint64_t
check_blocks(unsigned block, unsigned there)
{
	static bool found[PAGES];
	int fd = memfd_create("data", MFD_CLOEXEC);
	uint64_t end = (uint64_t)PAGES * PAGE, pos = 0, len;
	char *at;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)end), 0);
	at = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	for (unsigned i = 0; i < PAGES; i++) {
		if (i % block < there)
			at[(size_t)i * PAGE] = 1;
	}
	memset(found, 0, sizeof(found));
	asked_pages = 0;
	for (; page_swap_data(fd, (uintptr_t)at, (uint32_t)PAGE, &pos, end, &len) == 0;
	     pos += len) {
		assert_true(len != 0 && len % PAGE == 0 && pos + len <= end);
		memset(found + pos / PAGE, 1, len / PAGE);
	}
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(found[i], i % block < there);
	munmap(at, end);
	close(fd);
	return asked_pages;
}

UNIT_TEST(finds_runs_of_every_length)
{
	static const unsigned lengths[] = {0,  1,   2,   15,  16,  17,  31,
					   32, 511, 512, 513, 527, 528, 529};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		check_blocks(lengths[i] + 1, lengths[i]);
		check_blocks(lengths[i] + 20, lengths[i]);
		check_blocks(PAGES, lengths[i]);
	}
	check_blocks(PAGES, PAGES);
}

/* The kernel looks up each absent page that it is asked for. */
UNIT_TEST(asks_for_few_pages_if_runs_are_short)
{
	assert_in_range(check_blocks(33, 1), 1, PAGES);
	assert_in_range(check_blocks(PAGES, PAGES), PAGES, PAGES);
}

/* Every third page of a file, mapped shared. */
static uint8_t *
some_pages(int fd)
{
	uint8_t *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(ftruncate(fd, PAGES * PAGE), 0);
	for (size_t i = 0; i < PAGES; i += 3)
		memset(at + i * PAGE, (int)(i % 251) + 1, PAGE);
	return at;
}

static struct page_swap_job
job_of(int fd, const uint8_t *at)
{
	return (struct page_swap_job){.addr = (uintptr_t)at,
				      .len = PAGES * PAGE,
				      .page_size = (uint32_t)PAGE,
				      .prot = PROT_READ | PROT_WRITE,
				      .fd = fd,
				      .back = true};
}

/* The pages become private, with their contents; the file is empty. */
UNIT_TEST(returns_pages)
{
	int fd = memfd_create("data", MFD_CLOEXEC);
	uint8_t *at = some_pages(fd);
	const struct page_swap_job job = job_of(fd, at);

	assert_int_equal(page_return_chunk(-1, &job, job.addr, job.len), 0);
	assert_int_equal(lseek(fd, 0, SEEK_DATA), -1);
	for (size_t i = 0; i < PAGES; i++) {
		uint8_t want = i % 3 == 0 ? (uint8_t)(i % 251 + 1) : 0;

		assert_int_equal(at[i * PAGE], want);
		assert_int_equal(at[i * PAGE + PAGE - 1], want);
	}
	memset(at, 1, PAGES * PAGE);
	assert_int_equal(lseek(fd, 0, SEEK_DATA), -1); /* private */
	munmap(at, PAGES * PAGE);
	close(fd);
}

/* The program has unmapped the adopted pages meanwhile, and has other memory there. */
UNIT_TEST(other_memory_keeps_its_pages)
{
	int fd = memfd_create("data", MFD_CLOEXEC);
	uint8_t *at = some_pages(fd);
	const struct page_swap_job job = job_of(fd, at);

	assert_ptr_equal(mmap(at, PAGES * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 at);
	memset(at, 7, PAGES * PAGE);
	assert_int_equal(page_return_chunk(-1, &job, job.addr, job.len), -ENOENT);
	for (size_t i = 0; i < PAGES; i++)
		assert_int_equal(at[i * PAGE], 7);
	munmap(at, PAGES * PAGE);
	close(fd);
}
