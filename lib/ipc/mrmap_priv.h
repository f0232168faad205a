/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the region mapper share: mrmap.c, mrmap_share.c, mrmap_copy.c. */
#ifndef UROCE_IPC_MRMAP_PRIV_H
#define UROCE_IPC_MRMAP_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include "ipc/mrmap.h"
#include "ipc/vma.h"

#define MRMAP_BASE_PAGE 4096u

struct peer_mem;

struct mrmap {
	uint64_t va, len; /* of the region, in the client */
	bool writable;
	int path;
	uint8_t *base; /* of the reservation; NULL for COPY and empty regions */
	uint64_t bytes;
	uint8_t *host;
	struct peer_mem *mem; /* COPY */
};

/* One call of mrmap_create. */
struct mrmap_job {
	pid_t pid;
	int pidfd;
	uid_t uid;
	const struct uroce_reg_mr_req *req;
	const int *fds;
	struct mrmap *map;
	uint64_t first_va; /* of the first piece; map->base is its place */
};

/* The client may do to v what the region will: read, and write if writable. */
static inline bool
mrmap_vma_grants(const struct vma *v, bool writable)
{
	int need = PROT_READ | (writable ? PROT_WRITE : 0);

	return (v->prot & need) == need;
}

/*
 * Is pid still the client, running a program it may look into? /proc/PID/mem belongs to root while
 * that is a set-id program or one that forbade it, and to the effective uid otherwise. A client
 * that is root may do as it likes.
 */
bool mrmap_peer_is_client(const struct mrmap_job *j);

/*
 * Map every piece of a checked request, none of them COPY. 0; -EAGAIN: a shared mapping cannot be
 * had this way, but the region can be COPY; or -errno. Nothing stays mapped after a failure.
 */
int mrmap_share(struct mrmap_job *j);
void mrmap_unshare(struct mrmap *map);

/* Make the region COPY. 0 or -errno; mrmap_uncopy may be called after either. */
int mrmap_copy(struct mrmap_job *j);
void mrmap_uncopy(struct mrmap *map);

#endif
