/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes shared pages private memory again, in a mapping that the kernel merges with its neighbours.
 * Pages that were first touched elsewhere would stay a separate mapping, and a program that
 * registers many places would reach its limit of mappings.
 *
 * A mapping without pages, registered for missing pages, is moved over the range. From then on
 * every access waits while the pages are filled in from a second mapping of the shared pages. The
 * kernel keeps a registration across mremap only if another thread acknowledges the move. The
 * provider has a thread for this purpose. It also learns of pages that the program removes or moves
 * meanwhile: the former are left out, the latter filled in where they are now.
 *
 * The memory may be the program's to free already, so the range is looked up again just before the
 * move: if the program has unmapped, replaced or protected it, nothing happens. Only what it does
 * between that look-up and the move itself, two system calls, is undone by the move: the kernel has
 * no call that replaces a mapping if it is still the same. A mapping that was moved in between, by
 * realloc, still holds the program's data: it is found afterwards.
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

struct page_swap_job;

/*
 * Make [addr, addr + len), part of job and of one shared mapping, private; then free the pages in
 * the file. A hole there becomes an absent page. The calling thread must not touch the range, not
 * even to read: signals are blocked, and its stack and the heap objects used here are outside the
 * range. Returns 0, or -errno: -ENOENT the program has changed the range, which is left alone; else
 * the pages that could not be made private are shared as before. uffd -1: no other thread runs.
 */
int page_return_chunk(int uffd, const struct page_swap_job *job, uint64_t addr, uint64_t len);

/*
 * How many of the window bytes from src_off on, mapped at addr, to return at once: a part with
 * about data bytes of present pages.
 */
uint64_t page_return_bytes(int src_fd, uint64_t addr, uint64_t src_off, uint64_t window,
			   uint64_t data);

/*
 * The memory that is returned may be registered with uffd, too, whose messages of moves are read
 * later by a thread that waits for the caller's lock; -1: no longer. While there is one, the
 * program's mremap waits.
 */
void page_return_watched_by(int uffd);

/*
 * Returns true while a thread of the program is in an mremap or madvise of watched memory: for
 * mremap, from the moment that the memory is at its new address. Under the caller's lock.
 */
bool page_return_is_disturbed(void);

/* In the child of a fork: its parent's thread may have held the lock. */
void page_return_forget(void);

/* Free pages of a memfd. */
void page_return_free(int fd, uint64_t off, uint64_t len);

#endif
