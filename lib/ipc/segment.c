/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>
#include "map/page.h"
#include "map/sigbus.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif
#define HUGE_BYTES (2u << 20)
#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW) /* the client adds F_SEAL_FUTURE_WRITE */

static size_t
round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Tries to create a segment of bytes (a multiple of the page size). */
static int
segment_try(struct ipc_segment *seg, size_t bytes, bool huge, uint8_t owner)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0);
	void *base;
	int rc;

	seg->fd = memfd_create("uroce-segment", flags);
	if (seg->fd < 0)
		return -errno;
	/* The mapping reserves huge pages, so it fails here rather than by SIGBUS later. */
	if (ftruncate(seg->fd, (off_t)bytes) < 0 || fcntl(seg->fd, F_ADD_SEALS, SEALS) < 0) {
		rc = -errno;
		goto fail_close;
	}
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, seg->fd, 0);
	if (base == MAP_FAILED) {
		rc = -errno;
		goto fail_close;
	}
	/* The address of a mapping is unique among guarded ranges. */
	rc = sigbus_guard_add(base, bytes, (uintptr_t)base, owner);
	if (rc < 0)
		goto fail_unmap;
	seg->base = base;
	seg->bytes = bytes;
	seg->huge = huge;
	return 0;

fail_unmap:
	munmap(base, bytes);
fail_close:
	close(seg->fd);
	seg->fd = -1;
	return rc;
}

int
ipc_segment_create(struct ipc_segment *seg, size_t bytes, bool huge, uint8_t owner)
{
	if (bytes == 0 || bytes > SIZE_MAX / 2)
		return -EINVAL;
	if (huge && segment_try(seg, round_up(bytes, HUGE_BYTES), true, owner) == 0)
		return 0;
	return segment_try(seg, round_up(bytes, page_bytes()), false, owner);
}

void
ipc_segment_destroy(struct ipc_segment *seg)
{
	sigbus_guard_del((uintptr_t)seg->base);
	munmap(seg->base, seg->bytes);
	close(seg->fd);
	seg->fd = -1;
	seg->base = NULL;
}

bool
ipc_segment_failed(const struct ipc_segment *seg)
{
	return sigbus_guard_failed((uintptr_t)seg->base);
}

bool
ipc_segment_sealed(const struct ipc_segment *seg)
{
	int seals = fcntl(seg->fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_FUTURE_WRITE) != 0;
}

/* Free space of a segment: disjoint, never adjacent, in ascending order. */
struct hole {
	LIST_ENTRY(hole) link;
	size_t off, bytes;
};
struct arena_seg {
	struct ipc_segment mem;
	LIST_HEAD(, hole) holes;
};
struct ipc_arena {
	struct arena_seg **seg;
	uint32_t nsegs;
	struct arena_seg *offered; /* not sealed when last looked at; becomes seg[nsegs] */
	size_t bytes, limit;
	bool huge;
	uint8_t owner;
};

struct ipc_arena *
ipc_arena_create(size_t limit, bool huge, uint8_t owner)
{
	struct ipc_arena *a = calloc(1, sizeof(*a));

	if (a != NULL) {
		a->limit = limit;
		a->huge = huge;
		a->owner = owner;
	}
	return a;
}

void
ipc_arena_set_limit(struct ipc_arena *a, size_t limit)
{
	a->limit = limit;
}

static void
arena_seg_destroy(struct arena_seg *s)
{
	struct hole *h;

	while ((h = LIST_FIRST(&s->holes)) != NULL) {
		LIST_REMOVE(h, link);
		free(h);
	}
	ipc_segment_destroy(&s->mem);
	free(s);
}

void
ipc_arena_destroy(struct ipc_arena *a)
{
	if (a == NULL)
		return;
	for (uint32_t i = 0; i < a->nsegs; i++)
		arena_seg_destroy(a->seg[i]);
	if (a->offered != NULL)
		arena_seg_destroy(a->offered);
	free(a->seg);
	free(a);
}

/* Takes the offered segment into use if it is sealed. */
static void
arena_look(struct ipc_arena *a)
{
	if (a->offered == NULL || !ipc_segment_sealed(&a->offered->mem))
		return;
	a->seg[a->nsegs++] = a->offered;
	a->offered = NULL;
}

/* Creates the segment to offer, of at least bytes, initially one hole. */
static int
arena_grow(struct ipc_arena *a, size_t bytes)
{
	/* the limit applies to the size after rounding up to huge pages */
	size_t page = a->huge ? HUGE_BYTES : page_bytes();
	size_t want = bytes > IPC_SEG_BYTES ? round_up(bytes, page) : IPC_SEG_BYTES;
	struct arena_seg **seg, *s;
	struct hole *h;
	int rc;

	if (want > a->limit || a->bytes > a->limit - want)
		return -ENOMEM;
	seg = realloc(a->seg, (a->nsegs + 1) * sizeof(*seg));
	if (seg == NULL)
		return -ENOMEM;
	a->seg = seg;
	s = calloc(1, sizeof(*s));
	h = calloc(1, sizeof(*h));
	if (s == NULL || h == NULL) {
		rc = -ENOMEM;
		goto fail;
	}
	rc = ipc_segment_create(&s->mem, want, a->huge, a->owner);
	if (rc < 0)
		goto fail;
	h->bytes = s->mem.bytes;
	LIST_INSERT_HEAD(&s->holes, h, link);
	a->offered = s;
	a->bytes += s->mem.bytes;
	return 0;

fail:
	free(s);
	free(h);
	return rc;
}

int
ipc_arena_offer(struct ipc_arena *a, size_t bytes, uint32_t *id, const struct ipc_segment **seg)
{
	int rc;

	if (bytes == 0 || bytes > SIZE_MAX / 2)
		return -EINVAL;
	bytes = round_up(bytes, UROCE_CACHE_LINE);
	arena_look(a);
	if (a->offered != NULL && a->offered->mem.bytes < bytes) {
		a->bytes -= a->offered->mem.bytes;
		arena_seg_destroy(a->offered);
		a->offered = NULL;
	}
	if (a->offered == NULL) {
		rc = arena_grow(a, bytes);
		if (rc < 0)
			return rc;
	}
	*id = a->nsegs;
	*seg = &a->offered->mem;
	return 0;
}

/* Takes bytes from the start of the first hole that is large enough. False: there is none. */
static bool
seg_take(struct arena_seg *s, size_t bytes, uint64_t *off)
{
	struct hole *h;

	LIST_FOREACH (h, &s->holes, link) {
		if (h->bytes < bytes)
			continue;
		*off = h->off;
		h->off += bytes;
		h->bytes -= bytes;
		if (h->bytes == 0) {
			LIST_REMOVE(h, link);
			free(h);
		}
		return true;
	}
	return false;
}

int
ipc_arena_alloc(struct ipc_arena *a, size_t bytes, struct ipc_extent *ext)
{
	uint32_t i;

	memset(ext, 0, sizeof(*ext));
	if (bytes == 0 || bytes > SIZE_MAX / 2)
		return -EINVAL;
	bytes = round_up(bytes, UROCE_CACHE_LINE);
	arena_look(a);
	for (i = 0; i < a->nsegs; i++) {
		if (seg_take(a->seg[i], bytes, &ext->off))
			break;
	}
	if (i == a->nsegs)
		return -ENOSPC;
	ext->seg = i;
	ext->bytes = bytes;
	ext->base = a->seg[i]->mem.base + ext->off;
	memset(ext->base, 0, bytes);
	return 0;
}

/* Merges h with the next hole if they are adjacent. */
static void
hole_join_next(struct hole *h)
{
	struct hole *next = LIST_NEXT(h, link);

	if (next == NULL || h->off + h->bytes != next->off)
		return;
	h->bytes += next->bytes;
	LIST_REMOVE(next, link);
	free(next);
}

void
ipc_arena_free(struct ipc_arena *a, struct ipc_extent *ext)
{
	struct hole *h, *at, *before = NULL;
	struct arena_seg *s;

	if (ext->bytes == 0)
		return;
	s = a->seg[ext->seg];
	LIST_FOREACH (at, &s->holes, link) {
		if (at->off > ext->off)
			break;
		before = at;
	}
	if (before != NULL && before->off + before->bytes == ext->off) {
		before->bytes += ext->bytes;
		h = before;
	} else {
		h = malloc(sizeof(*h));
		if (h == NULL)
			goto out; /* only leaks the space until the arena is destroyed */
		h->off = ext->off;
		h->bytes = ext->bytes;
		if (before != NULL)
			LIST_INSERT_AFTER(before, h, link);
		else
			LIST_INSERT_HEAD(&s->holes, h, link);
	}
	hole_join_next(h);
out:
	memset(ext, 0, sizeof(*ext));
}

uint32_t
ipc_arena_segments(const struct ipc_arena *a)
{
	return a->nsegs + (a->offered != NULL);
}

size_t
ipc_arena_bytes(const struct ipc_arena *a)
{
	return a->bytes;
}

bool
ipc_arena_failed(const struct ipc_arena *a)
{
	for (uint32_t i = 0; i < a->nsegs; i++) {
		if (ipc_segment_failed(&a->seg[i]->mem))
			return true;
	}
	return false;
}

bool
ipc_arena_huge(const struct ipc_arena *a)
{
	for (uint32_t i = 0; i < a->nsegs; i++) {
		if (a->seg[i]->mem.huge)
			return true;
	}
	return false;
}
