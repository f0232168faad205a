/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's memory segments as a client sees them: a segment is mapped whole when the first
 * ring in it is handed out, and stays mapped until the context closes. Not thread safe: the
 * owner serialises (creation of objects is rare).
 */
#ifndef UROCE_MAP_SEGMAP_H
#define UROCE_MAP_SEGMAP_H

#include <stddef.h>
#include <stdint.h>
#include "uroce_abi/ctrl.h"

struct ipc_seg {
	void *base; /* NULL: not seen yet */
	size_t bytes;
};
struct ipc_segmap {
	struct ipc_seg *seg; /* by segment id */
	uint32_t n;
};

#define IPC_SEGMAP_MAX 65536 /* ids above are taken for a confused daemon */

/* Maps bytes of fd, shared and writable. NULL with errno; EPROTO if fd holds fewer bytes. */
void *ipc_seg_map(int fd, size_t bytes);

/*
 * Finds the ring of loc, mapping its segment if this is the first of it: then *fds is the
 * descriptor, which is closed here, and *fds, *nfds move on by one. hdr_bytes lie in front of
 * loc->entries entries of loc->stride bytes. Returns the ring's header in *ring, 0 or -errno
 * (-EPROTO: the location does not lie in its segment, entries is no power of two, or the
 * descriptor is missing).
 */
int ipc_segmap_ring(struct ipc_segmap *map, const struct uroce_ring_loc *loc, size_t hdr_bytes,
		    int **fds, unsigned int *nfds, void **ring);

/* Unmaps everything. */
void ipc_segmap_close(struct ipc_segmap *map);

#endif
