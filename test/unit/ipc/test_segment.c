/* SPDX-License-Identifier: BSD-3-Clause */
/* The arena that a client's rings are carved from. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "map/segmap.h"
#include "ipc/segment.h"
#include "map/page.h"
#include "../../kit/unit.h"

#define LIMIT (64u << 20)

static int
setup(void **state)
{
	*state = ipc_arena_create(LIMIT, false, 0);
	return *state == NULL;
}

static int
teardown(void **state)
{
	ipc_arena_destroy(*state);
	return 0;
}

static bool
is_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != 0)
			return false;
	}
	return true;
}

UNIT_TEST(segment_size_is_sealed)
{
	struct ipc_segment seg;

	assert_int_equal(ipc_segment_create(&seg, 5000, false, 0), 0);
	assert_int_equal(seg.bytes, page_ceil(5000, page_bytes()));
	assert_int_equal(ftruncate(seg.fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(seg.fd, 2 * (off_t)seg.bytes), -1);
	assert_int_equal(errno, EPERM);
	/* and the client cannot seal it against the daemon's writes */
	assert_int_equal(fcntl(seg.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(seg.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	ipc_segment_destroy(&seg);
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

/* Random sizes are allocated and freed: they never overlap and are always zeroed and aligned. */
TEST(extents_never_overlap)
{
	struct ipc_arena *a = *state;
	struct ipc_extent ext[100] = {0};

	srandom(1);
	for (int round = 0; round < 5000; round++) {
		unsigned i = (unsigned)random() % 100;
		size_t want = 1 + (size_t)random() % 40000;

		if (ext[i].bytes != 0) {
			/* an overlapping allocation would have changed the mark */
			for (size_t b = 0; b < ext[i].bytes; b++)
				assert_int_equal(ext[i].base[b], i + 1);
			ipc_arena_free(a, &ext[i]);
			assert_int_equal(ext[i].bytes, 0);
			continue;
		}
		assert_int_equal(ipc_arena_alloc(a, want, &ext[i]), 0);
		assert_int_equal(ext[i].off % UROCE_CACHE_LINE, 0);
		assert_true(ext[i].bytes >= want);
		assert_true(is_zero(ext[i].base, ext[i].bytes));
		memset(ext[i].base, (int)i + 1, ext[i].bytes);
	}
	for (unsigned i = 0; i < 100; i++)
		ipc_arena_free(a, &ext[i]);
}

/* Parts freed in any order merge to the whole segment. */
TEST(free_space_coalesces)
{
	static const unsigned order[8] = {3, 0, 7, 5, 4, 1, 6, 2};
	struct ipc_arena *a = *state;
	struct ipc_extent ext[8], whole;

	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(ipc_arena_alloc(a, IPC_SEG_BYTES / 8, &ext[i]), 0);
	assert_int_equal(ipc_arena_bytes(a), IPC_SEG_BYTES);
	for (unsigned i = 0; i < 8; i++)
		ipc_arena_free(a, &ext[order[i]]);
	assert_int_equal(ipc_arena_alloc(a, IPC_SEG_BYTES, &whole), 0);
	assert_int_equal(whole.seg, 0);
	assert_int_equal(whole.off, 0);
	assert_int_equal(ipc_arena_bytes(a), IPC_SEG_BYTES);
	ipc_arena_free(a, &whole);
}

TEST(segment_limit_holds)
{
	struct ipc_arena *a = *state;
	struct ipc_extent ext[64], more;
	unsigned n = 0;

	while (n < 64 && ipc_arena_alloc(a, IPC_SEG_BYTES, &ext[n]) == 0)
		n++;
	assert_int_equal(n, LIMIT / IPC_SEG_BYTES);
	assert_int_equal(ipc_arena_alloc(a, 64, &more), -ENOMEM);
	assert_int_equal(more.bytes, 0);
	ipc_arena_free(a, &ext[5]);
	assert_int_equal(ipc_arena_alloc(a, 64, &more), 0);
	assert_int_equal(more.seg, 5);
	assert_int_equal(ipc_arena_alloc(a, 0, &more), -EINVAL);
	assert_int_equal(ipc_arena_alloc(a, SIZE_MAX, &more), -EINVAL);
}

/* The client's side of it: a descriptor once a segment, and the same bytes. */
TEST(client_finds_the_ring)
{
	struct ipc_arena *a = *state;
	struct ipc_segmap map = {0};
	struct ipc_extent one, two;
	struct uroce_ring_loc loc;
	int fd, fds[1], *next = fds;
	unsigned nfds = 1;
	void *ring;

	assert_int_equal(ipc_arena_alloc(a, 192 + 16 * 64, &one), 0);
	assert_int_equal(ipc_arena_alloc(a, 192 + 32 * 64, &two), 0);
	ipc_arena_locate(a, &one, 16, 64, &loc, &fd);
	assert_int_equal(loc.new_seg, 1);
	assert_true(fd >= 0);
	fds[0] = dup(fd);
	assert_int_equal(ipc_segmap_ring(&map, &loc, 192, &next, &nfds, &ring), 0);
	assert_int_equal(nfds, 0);
	one.base[100] = 42;
	assert_int_equal(((uint8_t *)ring)[100], 42);
	ipc_arena_locate(a, &two, 32, 64, &loc, &fd);
	assert_int_equal(loc.new_seg, 0);
	assert_int_equal(fd, -1);
	assert_int_equal(ipc_segmap_ring(&map, &loc, 192, &next, &nfds, &ring), 0);
	((uint8_t *)ring)[7] = 43;
	assert_int_equal(two.base[7], 43);
	ipc_segmap_close(&map);
}

TEST(large_objects_get_a_separate_segment)
{
	struct ipc_arena *a = *state;
	struct ipc_extent big;

	assert_int_equal(ipc_arena_alloc(a, 5 * IPC_SEG_BYTES + 1, &big), 0);
	assert_true(is_zero(big.base, big.bytes));
	ipc_arena_free(a, &big);
}
