/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client side of the daemon's shared segments. A segment is mapped as a whole when its first ring
 * is handed out, and stays mapped until the context closes. If it cannot be mapped (RLIMIT_AS), its
 * descriptor stays open, because it arrives only once, and the next ring there tries again. Not
 * thread safe: the owner serialises calls, since objects are rarely created.
 */
#ifndef UROCE_MAP_SEGMAP_H
#define UROCE_MAP_SEGMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "uroce_abi/ctrl.h"

struct ipc_seg {
	void *base; /* NULL: not mapped yet */
	size_t bytes;
	bool waits; /* could not be mapped yet from fd */
	int fd;
};
struct ipc_segmap {
	struct ipc_seg *seg; /* by segment id */
	uint32_t n;
};

#define IPC_SEGMAP_MAX 65536 /* ids above it are rejected as a daemon's error */

/* Maps bytes of fd, shared. NULL with errno; EPROTO if fd holds fewer bytes. */
void *ipc_seg_map(int fd, size_t bytes, bool writable);

/*
 * Finds the ring at loc. If its segment is not mapped yet, maps it from the first descriptor of
 * *fds, closes that, and advances *fds and *nfds. A header of hdr_bytes precedes loc->entries
 * entries of loc->stride bytes. Stores the address of the ring's header in *ring. Returns 0 or
 * -errno (-EPROTO: the location is outside of its segment, entries is no power of two, or the
 * descriptor is missing; the error of mmap(2): a later call for the same segment tries again).
 */
int ipc_segmap_ring(struct ipc_segmap *map, const struct uroce_ring_loc *loc, size_t hdr_bytes,
		    int **fds, unsigned int *nfds, void **ring);

/* Unmaps everything. */
void ipc_segmap_close(struct ipc_segmap *map);

#endif
