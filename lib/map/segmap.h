/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client side of the daemon's shared segments. A segment is mapped as a whole and sealed before the
 * daemon puts rings there, and stays mapped until the context closes. Not thread safe: the owner
 * serialises calls, since objects are rarely created.
 */
#ifndef UROCE_MAP_SEGMAP_H
#define UROCE_MAP_SEGMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "uroce_abi/ctrl.h"

struct ipc_seg {
	void *base; /* NULL: none */
	size_t bytes;
};
struct ipc_segmap {
	struct ipc_seg *seg; /* by segment id */
	uint32_t n;
};

#define IPC_SEGMAP_MAX 65536 /* ids above it are rejected as a daemon's error */

/*
 * Maps bytes of fd, shared; writable: for writing, and then seals fd (F_SEAL_FUTURE_WRITE), so that
 * nobody punches holes into it. NULL with errno; EPROTO if fd holds fewer bytes.
 */
void *ipc_seg_map(int fd, size_t bytes, bool writable);

/*
 * Adds segment rep->seg, and closes its descriptor fd. Returns 0 or -errno (-EPROTO: it is there
 * already, its id is too large, or it is shorter than rep says; an error of mmap(2) or fcntl(2)).
 */
int ipc_segmap_add(struct ipc_segmap *map, const struct uroce_segment_rep *rep, int fd);
/*
 * Finds the ring at loc. A header of hdr_bytes precedes loc->entries entries of loc->stride bytes.
 * Returns the address of the header; NULL: the location is outside of its segment, there is no such
 * segment, or entries is no power of two.
 */
void *ipc_segmap_ring(const struct ipc_segmap *map, const struct uroce_ring_loc *loc,
		      size_t hdr_bytes);

/* Unmaps everything. */
void ipc_segmap_close(struct ipc_segmap *map);

#endif
