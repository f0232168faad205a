/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Page tables of large regions, made and taken down without keeping the control thread: a thread
 * does both, a few megabytes at a time, so that neither the control thread nor a worker's page
 * fault waits for more than that.
 *
 * Only pages that exist get an entry: filling a hole would charge the memory of a client's sparse
 * file to the daemon. What is not filled in yet, or was left out, costs a page fault at the first
 * access.
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
 * Fill in the page tables of [at, at + len), a shared mapping of files in memory, in base pages: at
 * once if that is short, or else in the background. mrfill_cancel must come before it is unmapped.
 */
void mrfill_start(struct mrfill *f, uint8_t *at, size_t len);

/* The thread does not touch the mapping any more. Waits for some 100 us at most. */
void mrfill_cancel(struct mrfill *f);

/*
 * munmap of base pages, in the background if it is long. Nobody uses the range any more. True: it
 * is still mapped, and mrfill_unmapped returns debt when it no longer is.
 */
bool mrfill_unmap(uint8_t *at, size_t len, void *debt);

/* The debt of something that has been unmapped in the background; NULL: none at present. */
void *mrfill_unmapped(void);

/*
 * Close a memfd, after all that was unmapped before: freeing its pages, which the last reference to
 * them does, may take long.
 */
void mrfill_close(int fd);

#endif
