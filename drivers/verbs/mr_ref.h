/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which registrations need which adopted pages. Adopted pages are in a memfd that this process
 * keeps, at an offset that equals their address. A region therefore needs no separate descriptor,
 * memory adopted side by side is one mapping, and the daemon can keep its mappings. If an offset is
 * in use, a second memfd is used: the program may map other memory at the addresses of registered
 * memory.
 *
 * Memory adopted for one registration may be registered again, in whole or in part. Each
 * registration has a reference to its parts of the memfd (together: its pin). A part becomes
 * private memory again when its last reference is dropped. doc/memory.md has a table of the states
 * of a page.
 *
 * All functions run under mr_adopt.c's lock. None allocates: the program's allocator may wait for
 * that lock. No DPDK.
 */
#ifndef VERBS_MR_REF_H
#define VERBS_MR_REF_H

#include <stdbool.h>
#include <stdint.h>
#include "map/vma.h"
#include "mr_plan.h"

/* One registration's reference to a part of an adopted file; offsets in the file. */
struct mr_ref {
	struct mr_ref *next; /* in the same bucket */
	struct mr_file *file;
	uint64_t start, end;
};

#define MR_REF_BUCKETS 1024u

/* A memfd that holds adopted pages: file offset = address - base. Kept until the process ends. */
struct mr_file {
	int fd;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t page_size;
	uint64_t base, size;
	struct mr_ref *bucket[MR_REF_BUCKETS]; /* references within one bucket's address range */
	struct mr_ref *wide;                   /* the other references */
};

#define MR_MAX_FILES 16u

struct mr_pin {
	unsigned generation;         /* of the process, see mr_adopt.c */
	struct mr_pin *next_copy;    /* next pin of a COPY region */
	struct mr_pin *next_put_off; /* next pin that was released but not returned yet */
	uint64_t since_ms;           /* mr_linger.c: time of the release */
	bool stays;                  /* part of it cannot linger */
	uint64_t copy_start, copy_end;
	unsigned nrefs;
	struct mr_ref ref[MR_PLAN_MAX_RUNS];
};

/*
 * Return a file with free offsets for the pages of [start, end). If there is none, mr_file_get
 * creates one (NULL with errno on failure); mr_file_with_room returns NULL.
 */
struct mr_file *mr_file_get(uint32_t page_size, uint64_t start, uint64_t end);
struct mr_file *mr_file_with_room(uint32_t page_size, uint64_t start, uint64_t end);

/* Returns the number of the file with that descriptor, or MR_MAX_FILES if there is none. */
unsigned mr_file_number(int fd);

/* Returns the adopted file that v maps, or NULL. */
struct mr_file *mr_file_find(const struct vma *v);

/* In the child of a fork: forgets the parent's files. Closes descriptors, frees no memory. */
void mr_ref_forget_all(void);

/* Adds pin's reference to offsets [start, end) of f; at most one call per run of a plan. */
void mr_ref_add(struct mr_pin *pin, struct mr_file *f, uint64_t start, uint64_t end);

/*
 * Marks pin as that of a COPY region. Its pages must not move while it exists, because an access
 * from another process fails, instead of waiting, while the kernel moves pages. Adopted pages
 * therefore stay adopted, and no others are adopted for an overlapping region.
 */
void mr_ref_copy(struct mr_pin *pin, uint64_t start, uint64_t end);
bool mr_ref_copied(uint64_t start, uint64_t end);

/*
 * Drop every reference of pin. Pages without another reference become private anonymous memory
 * again, if the program still has them mapped as they were adopted. If that fails (no memory), they
 * stay shared, which only fork and MADV_DONTNEED reveal. The caller keeps pin itself.
 */
void mr_ref_release(struct mr_pin *pin);

/*
 * A thread of the program is in an mremap that has moved adopted memory, and may have made it grow.
 * The kernel then maps the pages that follow in the file, which may be those of other memory.
 * Replaces them by private ones without contents. Call it before reading the message for which that
 * mremap waits, because until then no thread uses the new pages. Pages that cannot be replaced (no
 * memory) stay as they are.
 */
void mr_ref_cut_growth(void);

/*
 * As mr_ref_release if other references cover every page, so that none becomes private. Otherwise
 * does nothing and returns false.
 */
bool mr_ref_release_covered(struct mr_pin *pin);

#endif
