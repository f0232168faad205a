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
	assert_int_equal(errno, EBUSY);
	assert_int_equal(fcntl(seg.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
	ipc_segment_destroy(&seg);
}

static int
seal(const struct ipc_segment *seg)
{
	return fcntl(seg->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
}

UNIT_TEST(sealed_segment_gets_no_holes)
{
	struct ipc_segment seg;

	assert_int_equal(ipc_segment_create(&seg, 5000, false, 0), 0);
	assert_false(ipc_segment_sealed(&seg));
	assert_int_equal(madvise(seg.base, seg.bytes, MADV_REMOVE), 0);
	assert_return_code(seal(&seg), errno);
	assert_true(ipc_segment_sealed(&seg));
	assert_int_equal(madvise(seg.base, seg.bytes, MADV_REMOVE), -1);
	assert_int_equal(fallocate(seg.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096),
			 -1);
	assert_int_equal(errno, EPERM);
	ipc_segment_destroy(&seg);
}

/* As ipc_arena_alloc; the client seals what it is offered. */
static int
alloc(struct ipc_arena *a, size_t bytes, struct ipc_extent *ext)
{
	int rc = ipc_arena_alloc(a, bytes, ext);
	const struct ipc_segment *seg;
	uint32_t id;

	if (rc != -ENOSPC)
		return rc;
	rc = ipc_arena_offer(a, bytes, &id, &seg);
	if (rc < 0)
		return rc;
	assert_return_code(seal(seg), errno);
	return ipc_arena_alloc(a, bytes, ext);
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

TEST(a_segment_is_used_only_when_it_is_sealed)
{
	struct ipc_arena *a = *state;
	const struct ipc_segment *seg, *again;
	struct ipc_extent ext;
	uint32_t id;

	assert_int_equal(ipc_arena_alloc(a, 64, &ext), -ENOSPC);
	assert_int_equal(ipc_arena_offer(a, 64, &id, &seg), 0);
	assert_int_equal(id, 0);
	assert_int_equal(ipc_arena_alloc(a, 64, &ext), -ENOSPC);
	assert_int_equal(ipc_arena_offer(a, IPC_SEG_BYTES, &id, &again), 0);
	assert_int_equal(id, 0);
	assert_ptr_equal(again, seg);
	/* A larger one takes its place: an arena never holds two that are not sealed. */
	assert_int_equal(ipc_arena_offer(a, 3 * IPC_SEG_BYTES, &id, &seg), 0);
	assert_int_equal(id, 0);
	assert_int_equal(seg->bytes, 3 * IPC_SEG_BYTES);
	assert_int_equal(ipc_arena_bytes(a), 3 * IPC_SEG_BYTES);
	assert_int_equal(ipc_arena_segments(a), 1);
	assert_return_code(seal(seg), errno);
	assert_int_equal(ipc_arena_alloc(a, 64, &ext), 0);
	assert_int_equal(ipc_arena_offer(a, 64, &id, &seg), 0);
	assert_int_equal(id, 1);
	assert_int_equal(ipc_arena_segments(a), 2);
	assert_int_equal(ipc_arena_offer(a, 0, &id, &seg), -EINVAL);
	assert_int_equal(ipc_arena_offer(a, SIZE_MAX, &id, &seg), -EINVAL);
	assert_int_equal(ipc_arena_offer(a, LIMIT, &id, &seg), -ENOMEM);
	assert_int_equal(ipc_arena_segments(a), 1);
}

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
		assert_int_equal(alloc(a, want, &ext[i]), 0);
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
		assert_int_equal(alloc(a, IPC_SEG_BYTES / 8, &ext[i]), 0);
	assert_int_equal(ipc_arena_bytes(a), IPC_SEG_BYTES);
	for (unsigned i = 0; i < 8; i++)
		ipc_arena_free(a, &ext[order[i]]);
	assert_int_equal(alloc(a, IPC_SEG_BYTES, &whole), 0);
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

	while (n < 64 && alloc(a, IPC_SEG_BYTES, &ext[n]) == 0)
		n++;
	assert_int_equal(n, LIMIT / IPC_SEG_BYTES);
	assert_int_equal(alloc(a, 64, &more), -ENOMEM);
	assert_int_equal(more.bytes, 0);
	ipc_arena_free(a, &ext[5]);
	assert_int_equal(alloc(a, 64, &more), 0);
	assert_int_equal(more.seg, 5);
	assert_int_equal(alloc(a, 0, &more), -EINVAL);
	assert_int_equal(alloc(a, SIZE_MAX, &more), -EINVAL);
}

/* The client's side of it: the same bytes. */
TEST(client_finds_the_ring)
{
	struct ipc_arena *a = *state;
	struct ipc_segmap map = {0};
	struct uroce_segment_rep rep = {0};
	const struct ipc_segment *seg;
	struct ipc_extent ext;
	struct uroce_ring_loc loc;
	uint8_t *ring;

	assert_int_equal(ipc_arena_offer(a, 64, &rep.seg, &seg), 0);
	rep.bytes = seg->bytes;
	assert_int_equal(ipc_segmap_add(&map, &rep, dup(seg->fd)), 0);
	assert_int_equal(ipc_arena_alloc(a, 192 + 16 * 64, &ext), 0);
	assert_int_equal(ipc_arena_alloc(a, 192 + 32 * 64, &ext), 0);
	loc = (struct uroce_ring_loc){.seg = ext.seg, .entries = 32, .off = ext.off, .stride = 64};
	ring = ipc_segmap_ring(&map, &loc, 192);
	assert_non_null(ring);
	ext.base[100] = 42;
	assert_int_equal(ring[100], 42);
	ring[7] = 43;
	assert_int_equal(ext.base[7], 43);
	ipc_segmap_close(&map);
}

TEST(large_objects_get_a_separate_segment)
{
	struct ipc_arena *a = *state;
	struct ipc_extent big;

	assert_int_equal(alloc(a, 5 * IPC_SEG_BYTES + 1, &big), 0);
	assert_true(is_zero(big.base, big.bytes));
	ipc_arena_free(a, &big);
}
