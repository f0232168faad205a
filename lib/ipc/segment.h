/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the daemon shares with one client: memfds sealed so that neither side can change
 * their size, and an arena that carves rings out of them. All bookkeeping is private to the daemon;
 * the client sees offsets only. A page that goes missing under a segment (huge pages, a hole the
 * client punched) meets lib/map/sigbus.h.
 *
 * Segments live until their arena does, because the client keeps them mapped. Control thread only;
 * workers use the memory. Includes: uroce_abi, map/sigbus.h.
 */
#ifndef UROCE_IPC_SEGMENT_H
#define UROCE_IPC_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "uroce_abi/ctrl.h"

#define IPC_SEG_BYTES (2u << 20) /* a segment, unless an object needs a larger one */

struct ipc_segment {
	int fd;
	uint8_t *base;
	size_t bytes;
	bool huge;
};

/*
 * Make a zeroed segment of at least bytes (rounded up to pages). huge: try huge pages first; when
 * there are too few free ones ordinary pages serve. 0 or -errno.
 */
int ipc_segment_create(struct ipc_segment *seg, size_t bytes, bool huge);
void ipc_segment_destroy(struct ipc_segment *seg);

struct ipc_arena;

/* A piece of the arena. */
struct ipc_extent {
	uint32_t seg;
	uint64_t off;  /* multiple of UROCE_CACHE_LINE */
	size_t bytes;  /* as asked for, rounded up to UROCE_CACHE_LINE; 0: none */
	uint8_t *base; /* in this process */
};

/* limit: bytes of segments the arena may come to hold. NULL: no memory. */
struct ipc_arena *ipc_arena_create(size_t limit, bool huge);
/* Another limit; segments that are held already stay. */
void ipc_arena_set_limit(struct ipc_arena *a, size_t limit);
/* Unmaps everything: no worker may use it any more. NULL is allowed. */
void ipc_arena_destroy(struct ipc_arena *a);

/* A zeroed extent of bytes (> 0). 0, -EINVAL, -ENOMEM (over the limit, or none left), -errno. */
int ipc_arena_alloc(struct ipc_arena *a, size_t bytes, struct ipc_extent *ext);
/* Give an extent back; *ext becomes empty. An empty one is ignored. */
void ipc_arena_free(struct ipc_arena *a, struct ipc_extent *ext);

/*
 * Where a ring of entries * stride bytes in ext lies, for the client. When it is the first in its
 * segment that the client hears of, loc->new_seg is 1 and *fd is the descriptor to attach (it stays
 * the arena's); else *fd is -1.
 */
void ipc_arena_locate(struct ipc_arena *a, const struct ipc_extent *ext, uint32_t entries,
		      uint32_t stride, struct uroce_ring_loc *loc, int *fd);

/* Bytes of segments held, and whether any are of huge pages: for urocectl. */
size_t ipc_arena_bytes(const struct ipc_arena *a);
bool ipc_arena_huge(const struct ipc_arena *a);

#endif
