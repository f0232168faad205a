/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who drops the last reference to a file of a client. That frees all its pages, however few of them
 * the region had, so the thread that serves all clients must not do it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "map/mrfill.h"
#include "map/page.h"
#include "mem/mr.h"
#include "../../kit/close_huge.h"
#include "../../kit/unit.h"
#include "../../kit/mrmap_here.h"

#define VA (1ull << 40)

static unsigned unmapped; /* pages of files that this thread has unmapped */

static bool
is_file(const void *at)
{
	unsigned long from, to, inode;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	bool is = false;

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) == 3 &&
		    (uintptr_t)at >= from && (uintptr_t)at < to)
			is = inode != 0;
	}
	assert_non_null(maps);
	fclose(maps);
	return is;
}

/* Replaces libc's. */
int
munmap(void *at, size_t len)
{
	if (pthread_equal(pthread_self(), self) && is_file(at))
		unmapped += (unsigned)(len / page_bytes());
	return (int)syscall(SYS_munmap, at, len);
}

static int
memfd_make(off_t size)
{
	int fd = memfd_create("last", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	assert_return_code(fd, errno);
	assert_return_code(ftruncate(fd, size), errno);
	assert_return_code(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), errno);
	return fd;
}

/* A region of a page, which the client makes part of a larger file afterwards. */
UNIT_TEST(page_of_a_huge_file_is_unmapped_by_another_thread)
{
	struct uroce_reg_mr_req req = {
		.access = MEM_LOCAL_WRITE,
		.addr = VA,
		.length = page_bytes(),
		.npieces = 1,
		.piece = {{.va = VA, .len = page_bytes(), .kind = UROCE_PIECE_FD}},
	};
	int debt, fd = memfd_make((off_t)page_bytes());
	struct mrmap *map;
	void *paid;

	assert_int_equal(mrmap_create(getpid(), -1, getuid(), &req, &fd, 1, &map), 0);
	assert_return_code(ftruncate(fd, HUGE), errno);
	syscall(SYS_close, fd);
	self = pthread_self();
	unmapped = 0;
	assert_true(mrmap_destroy_slowly(map, &debt));
	while ((paid = mrfill_unmapped()) == NULL)
		sched_yield();
	assert_ptr_equal(paid, &debt);
	assert_int_equal(unmapped, 0);
}

/* The daemon has a descriptor of it for as long as it takes to map it. */
UNIT_TEST(descriptor_of_a_huge_file_is_closed_by_another_thread)
{
	int small = memfd_make((off_t)page_bytes()), huge = memfd_make(HUGE);

	self = pthread_self();
	dropped = 0;
	mrfill_close(huge);
	mrfill_close(small);
	assert_int_equal(dropped, 0);
	while (fcntl(huge, F_GETFD) >= 0)
		sched_yield();
	while (fcntl(small, F_GETFD) >= 0)
		sched_yield();
}
