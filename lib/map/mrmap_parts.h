/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the region mapper share: mrmap.c, mrmap_share.c, mrmap_copy.c. */
#ifndef UROCE_MAP_MRMAP_PARTS_H
#define UROCE_MAP_MRMAP_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include "map/mrfill.h"
#include "map/mrkept.h"
#include "map/mrmap.h"
#include "map/vma.h"

#define MRMAP_BASE_PAGE 4096u
#define MRMAP_MAX_MAPS  (2u * UROCE_MR_MAX_PIECES) /* of a region */

struct mrmap {
	uint64_t va, len; /* of the region, in the client */
	bool writable;
	int path;
	uint64_t first_va; /* of the first piece; base is its place */
	uint8_t *base;     /* of the reservation; NULL for COPY and empty regions */
	uint64_t bytes;
	uint8_t *host;
	uint32_t maps;     /* mappings in this process */
	struct mrwin *win; /* where a small region lies; then base is NULL */
	struct mrfill fill;
	bool base_pages;      /* of files in memory; so is what mrfill.h does to it */
	struct peer_mem *mem; /* COPY */
};

/* One call of mrmap_find. */
struct mrmap_job {
	struct mrmap_client *c;
	const struct uroce_reg_mr_req *req;
	const int *fds;
	bool writable; /* the region is to be */
	struct mrmap_found *found;
	struct mrmap_files *files;
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

/* A descriptor more of what was found; -EAGAIN when there is no room. Its index. */
int mrmap_file_add(struct mrmap_job *j, int fd, bool lent);

/*
 * Find the files behind every piece of a checked request, none of them COPY. 0; -EAGAIN: a shared
 * mapping cannot be had this way, or should not, but the region can be COPY; or -errno.
 */
int mrmap_find_shared(struct mrmap_job *j);
/* Find the descriptor that the request wants to be kept, the first of nfds. 0 or -errno. */
int mrmap_find_keep(struct mrmap_job *j, unsigned nfds);
/* Map what was found. 0 or -errno, and nothing stays mapped. */
int mrmap_share(struct mrmap *map, const struct uroce_reg_mr_req *req,
		const struct mrmap_found *found, const int *fds, struct mrkept *kept);
/* True: what mrfill_unmap says of debt. */
bool mrmap_unshare(struct mrmap *map, void *debt);

/* The same for COPY regions. mrmap_uncopy may be called after mrmap_copy, however it ended. */
int mrmap_find_copy(struct mrmap_job *j);
int mrmap_copy(struct mrmap *map, const struct mrmap_found *found, const int *fds,
	       struct mrmap_copiers *copiers);
void mrmap_uncopy(struct mrmap *map);

#endif
