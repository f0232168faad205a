/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the daemon shares with one client: shared segments (memfds sealed so that neither
 * side can change their size) and an arena that allocates rings in them. The client seals each one
 * against holes (ctrl.h); the arena does not use it before. All bookkeeping is private to the
 * daemon; the client sees only offsets. lib/map/sigbus.h handles pages that go missing in a segment
 * (huge pages).
 *
 * Segments live as long as their arena, because the client keeps them mapped. Control thread only;
 * workers use the memory. Includes: uroce_abi, map/sigbus.h.
 */
#ifndef UROCE_IPC_SEGMENT_H
#define UROCE_IPC_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "uroce_abi/ctrl.h"

#define IPC_SEG_BYTES (2u << 20) /* size of a segment, unless an object needs more */

struct ipc_segment {
	int fd;
	uint8_t *base;
	size_t bytes;
	bool huge;
};

/*
 * Create a zeroed segment of at least bytes (rounded up to pages). huge: try huge pages first, and
 * use ordinary pages if too few are free. owner: the client's, for sigbus_guard_add. Returns 0 or
 * -errno.
 */
int ipc_segment_create(struct ipc_segment *seg, size_t bytes, bool huge, uint8_t owner);
void ipc_segment_destroy(struct ipc_segment *seg);
/*
 * Returns true if it has the seal F_SEAL_FUTURE_WRITE: nobody can punch holes into it any more. A
 * system call that waits for nothing.
 */
bool ipc_segment_sealed(const struct ipc_segment *seg);
/*
 * Returns true if its memory has failed (map/sigbus.h): the client no longer shares it. Takes a
 * mutex.
 */
bool ipc_segment_failed(const struct ipc_segment *seg);

struct ipc_arena;

/* An allocation in the arena. */
struct ipc_extent {
	uint32_t seg;
	uint64_t off;  /* multiple of UROCE_CACHE_LINE */
	size_t bytes;  /* rounded up to UROCE_CACHE_LINE; 0: empty */
	uint8_t *base; /* in this process */
};

/*
 * Create an arena. limit: most bytes of its segments. owner: as for ipc_segment_create. Returns
 * NULL if out of memory.
 */
struct ipc_arena *ipc_arena_create(size_t limit, bool huge, uint8_t owner);
/* Change the limit, which ipc_arena_offer looks at. Existing segments stay. */
void ipc_arena_set_limit(struct ipc_arena *a, size_t limit);
/* Unmaps all segments; no worker may use them any more. NULL is allowed. */
void ipc_arena_destroy(struct ipc_arena *a);

/*
 * Get a segment with room for bytes (> 0), for the client to seal. It is the one of the last call
 * if that is not sealed and large enough; else a new one, which replaces it if it is not sealed.
 * *id is its number, *seg the segment; the arena keeps its descriptor. Returns 0, -EINVAL, -ENOMEM
 * (limit or memory), or -errno.
 */
int ipc_arena_offer(struct ipc_arena *a, size_t bytes, uint32_t *id,
		    const struct ipc_segment **seg);
/* Allocate a zeroed extent of bytes (> 0). 0, -EINVAL, or -ENOSPC: no sealed segment has room. */
int ipc_arena_alloc(struct ipc_arena *a, size_t bytes, struct ipc_extent *ext);
/* Free an extent; *ext becomes empty. An empty extent is ignored. */
void ipc_arena_free(struct ipc_arena *a, struct ipc_extent *ext);

/* Has any segment failed? As ipc_segment_failed. */
bool ipc_arena_failed(const struct ipc_arena *a);

/* How many segments there are, their bytes, and whether any has huge pages. */
uint32_t ipc_arena_segments(const struct ipc_arena *a);
size_t ipc_arena_bytes(const struct ipc_arena *a);
bool ipc_arena_huge(const struct ipc_arena *a);

#endif
