/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fills and tears down the page tables of large regions in the background. A thread works on a few
 * megabytes at a time, so that neither the control thread nor a worker's page fault waits for
 * longer than that.
 *
 * Only existing pages get an entry: filling holes would charge the memory of a client's sparse file
 * to the daemon. A page without an entry costs a page fault at its first access.
 *
 * Calls come from the control thread. No DPDK.
 */
#ifndef UROCE_MAP_MRFILL_H
#define UROCE_MAP_MRFILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* A mapping whose page tables are being filled in. All zero: none. */
struct mrfill {
	TAILQ_ENTRY(mrfill) link;
	uint8_t *at;
	size_t left;
	enum { MRFILL_NONE = 0, MRFILL_QUEUED, MRFILL_RUNNING } state;
};

/*
 * Fill the page tables of [at, at + len), a shared mapping of in-memory files with base pages: at
 * once if it is short, else in the background. Call mrfill_cancel before unmapping it.
 */
void mrfill_start(struct mrfill *f, uint8_t *at, size_t len);

/* On return the thread no longer touches the mapping. Waits for about 100 us at most. */
void mrfill_cancel(struct mrfill *f);

/*
 * munmap an unused range of base pages, in the background if it is long, or if it may be the last
 * reference to a file (last): that frees all pages of the file, however large it is. Returns true
 * if it is still mapped; mrfill_unmapped returns debt later, when it is unmapped.
 */
bool mrfill_unmap(uint8_t *at, size_t len, bool last, void *debt);

/* Debt of a range that has been unmapped in the background; NULL: none at present. */
void *mrfill_unmapped(void);

/*
 * Returns true if a file in memory has so few pages that dropping its last reference, which frees
 * them, takes no time.
 */
bool mrfill_is_small(int fd);

/* Close a file in memory, in the background after all unmaps queued before unless it is small. */
void mrfill_close(int fd);

#endif
