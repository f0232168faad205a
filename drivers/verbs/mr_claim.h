/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which registrations need which adopted pages. Adopted pages live in a memfd that this process
 * keeps, at an offset that is their address: so a region needs no descriptor of its own, what is
 * adopted side by side is one mapping, and the daemon can keep what it has mapped. A second memfd
 * is used where offsets are taken: the program may map something else at the addresses of memory
 * that is registered.
 *
 * Memory adopted for one registration may be registered again, whole or in part: each registration
 * claims its parts of the memfd, and a part goes back to private memory with its last claim.
 *
 * Everything here runs under mr_adopt.c's lock. Nothing allocates: the program's allocator may wait
 * for that lock. No DPDK.
 */
#ifndef VERBS_MR_CLAIM_H
#define VERBS_MR_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include "map/vma.h"
#include "mr_plan.h"

/* One registration's need for a part of an adopted file; offsets in the file. */
struct mr_claim {
	struct mr_claim *next; /* of the same bucket */
	struct mr_file *file;
	uint64_t start, end;
};

#define MR_CLAIM_BUCKETS 1024u

/* A memfd that holds adopted pages: file offset = address - base. Kept until the process ends. */
struct mr_file {
	int fd;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t page_size;
	uint64_t base, size;
	struct mr_claim *bucket[MR_CLAIM_BUCKETS]; /* by place: of claims within one such place */
	struct mr_claim *wide;                     /* the others */
};

#define MR_MAX_FILES 16u

struct mr_hold {
	unsigned generation;          /* of the process, see mr_adopt.c */
	struct mr_hold *next_copy;    /* of a COPY region: another one */
	struct mr_hold *next_put_off; /* released, but not given back yet: another one */
	uint64_t since_ms;            /* mr_linger.c: when it was released */
	bool stays;                   /* part of it cannot linger */
	uint64_t copy_start, copy_end;
	unsigned nclaims;
	struct mr_claim claim[MR_PLAN_MAX_RUNS];
};

/*
 * A file with room for the pages of [start, end). mr_file_get makes one if need be: NULL with errno
 * when it cannot. mr_file_with_room does not: NULL.
 */
struct mr_file *mr_file_get(uint32_t page_size, uint64_t start, uint64_t end);
struct mr_file *mr_file_with_room(uint32_t page_size, uint64_t start, uint64_t end);

/* The number of the file with that descriptor; MR_MAX_FILES for none. */
unsigned mr_file_number(int fd);

/* The adopted file that v maps, or NULL. */
struct mr_file *mr_file_find(const struct vma *v);

/* In the child of a fork: all of it is the parent's. Nothing is freed but descriptors. */
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
