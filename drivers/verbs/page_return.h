/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes shared pages private anonymous memory again, in a mapping that the kernel merges with its
 * neighbours. Memory that page_swap.h returns stays a separate mapping, because its pages were
 * first touched elsewhere. A program that registers many places would reach its limit of mappings.
 *
 * A mapping without pages, registered for missing pages, is moved over the range. From then on
 * every access waits while the pages are filled in from a second mapping of the shared pages, which
 * takes the range's page table entries along (Linux 5.13; before, it has none). The kernel keeps a
 * registration across mremap only if another thread acknowledges the move. The provider has a
 * thread for this purpose. It also learns of pages that the program removes by madvise meanwhile,
 * which are then left out.
 */
#ifndef VERBS_PAGE_RETURN_H
#define VERBS_PAGE_RETURN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Opens a userfaultfd for page_return_chunk and starts the thread that serves it. Returns the
 * descriptor or -errno. The thread runs until the process ends, even after the descriptor is
 * closed.
 */
int page_return_open(void);

/*
 * Make [addr, addr + len), base pages of one shared mapping of src_fd at src_off with protection
 * prot, private; then free the pages in src_fd. A hole there becomes an absent page. The calling
 * thread must not touch the range, not even to read: signals are blocked, and its stack and the
 * heap objects used here are outside the range. Returns 0, or -errno and the range is shared as
 * before: -EFAULT or -EINVAL the program changed it. uffd -1: no other thread runs; prot must
 * then allow stores.
 */
int page_return_chunk(int uffd, uint64_t addr, uint64_t len, int prot, int src_fd,
		      uint64_t src_off);

/*
 * How many of the window bytes from src_off on, mapped at addr, to return at once: a part with
 * about data bytes of present pages.
 */
uint64_t page_return_bytes(int src_fd, uint64_t addr, uint64_t src_off, uint64_t window,
			   uint64_t data);

/* In the child of a fork: its parent's thread may have held the lock. */
void page_return_forget(void);

/* Free pages of a memfd. */
void page_return_free(int fd, uint64_t off, uint64_t len);

#endif
