/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which registrations need which adopted pages. Memory adopted for one registration may be
 * registered again, whole or in part: each registration claims its parts of the memfd, and a
 * part goes back to private memory with its last claim. Offsets, not addresses, are claimed,
 * since the program may map something else at the same addresses while the first is registered.
 *
 * Everything here runs under mr_adopt.c's lock. No DPDK.
 */
#ifndef VERBS_MR_CLAIM_H
#define VERBS_MR_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include "ipc/vma.h"
#include "mr_plan.h"

/* One registration's need for a part of an adopted file; offsets in the file. */
struct mr_claim {
	struct mr_claim *next; /* of the same file */
	struct mr_file *file;
	uint64_t start, end;
};

/* A memfd that holds adopted pages: file offset = address - base. Lives while it has claims. */
struct mr_file {
	struct mr_file *next; /* of the same bucket */
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t page_size;
	uint64_t base;
	struct mr_claim *claims;
};

struct mr_hold {
	unsigned generation;       /* of the process, see mr_adopt.c */
	struct mr_hold *next_copy; /* of a COPY region: another one */
	uint64_t copy_start, copy_end;
	unsigned nclaims;
	struct mr_claim claim[MR_PLAN_MAX_RUNS];
};

/* Make fd, a memfd for adopted memory, known. The file or NULL with errno. */
struct mr_file *mr_file_add(int fd, uint32_t page_size, uint64_t base);

/* The adopted file that v maps, or NULL. */
struct mr_file *mr_file_find(const struct vma *v);

/* Forget a file that nothing claims. */
void mr_file_del(struct mr_file *f);

/* Forget everything without freeing it: in the child of a fork it is the parent's. */
void mr_claim_forget_all(void);

/* hold needs offsets [start, end) of f; at most one call per run of a plan. */
void mr_claim_add(struct mr_hold *hold, struct mr_file *f, uint64_t start, uint64_t end);

/*
 * hold is of a COPY region, whose pages stay as they are while it lives: the kernel fails an
 * access from another process, instead of letting it wait, while pages are being moved. So pages
 * that are adopted stay so, and others are not adopted for a region that overlaps.
 */
void mr_claim_copy(struct mr_hold *hold, uint64_t start, uint64_t end);
bool mr_claim_copied(uint64_t start, uint64_t end);

/*
 * Drop every claim of hold. Pages nobody else claims become private anonymous memory again where
 * the program still has them mapped as they were adopted. Where that fails (no memory), they stay
 * shared, which only a fork or MADV_DONTNEED can tell. hold itself stays the caller's.
 */
void mr_claim_release(struct mr_hold *hold);

#endif
