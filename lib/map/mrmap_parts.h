/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of the region mapper: mrmap.c, mrmap_share.c, mrmap_copy.c. */
#ifndef UROCE_MAP_MRMAP_PARTS_H
#define UROCE_MAP_MRMAP_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include "map/mrfill.h"
#include "map/mrkept.h"
#include "map/mrmap.h"
#include "map/page.h"
#include "map/vma.h"

#define MRMAP_MAX_MAPS (2u * UROCE_MR_MAX_PIECES) /* of a region */

struct mrmap {
	uint64_t va, len; /* of the region, in the client */
	bool writable;
	uint8_t owner; /* of mrmap_copiers */
	int path;
	uint64_t first_va; /* of the first piece, which is mapped at base */
	uint8_t *base;     /* of the reservation; NULL for COPY and empty regions */
	uint64_t bytes;
	uint8_t *host;
	uint32_t maps;     /* mappings in this process */
	struct mrwin *win; /* window of a small region; base is NULL then */
	struct mrfill fill;
	bool base_pages;      /* mrfill.h applies */
	bool last;            /* has files that the client may have closed (mrfill_unmap) */
	struct peer_mem *mem; /* COPY */
};

/* One call of mrmap_find. */
struct mrmap_job {
	struct mrmap_client *c;
	const struct uroce_reg_mr_req *req;
	const int *fds;
	unsigned nfds;
	bool writable; /* the region will be */
	struct mrmap_found *found;
	struct mrmap_files *files;
};

/* Returns true if v grants the client the region's rights: read, and write if writable. */
static inline bool
mrmap_vma_grants(const struct vma *v, bool writable)
{
	int need = PROT_READ | (writable ? PROT_WRITE : 0);

	return (v->prot & need) == need;
}

/* Add a descriptor to the result. Returns its index, or -EAGAIN if there is no space. */
int mrmap_file_add(struct mrmap_job *j, int fd, bool lent);

/*
 * Find the files of all pieces of a checked request without COPY pieces. Returns 0; -EAGAIN if a
 * shared mapping cannot or should not be used but the region can be COPY; or -errno.
 */
int mrmap_find_shared(struct mrmap_job *j);
/* Find the descriptor that the request asks to keep, the first of nfds. 0 or -errno. */
int mrmap_find_keep(struct mrmap_job *j, unsigned nfds);
/* Map what was found. Returns 0, or -errno with nothing mapped. */
int mrmap_share(struct mrmap *map, const struct uroce_reg_mr_req *req,
		const struct mrmap_found *found, const int *fds, struct mrkept *kept);
/* Returns true if unmapped in the background, as mrfill_unmap does. */
bool mrmap_unshare(struct mrmap *map, void *debt);

/* The same for COPY regions. Call mrmap_uncopy even if mrmap_copy failed. */
int mrmap_find_copy(struct mrmap_job *j);
int mrmap_copy(struct mrmap *map, const struct mrmap_found *found, const int *fds,
	       struct mrmap_copiers *copiers);
void mrmap_uncopy(struct mrmap *map);

#endif
