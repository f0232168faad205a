/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes shared pages private anonymous memory again, in a mapping that the kernel merges with its
 * neighbours. Memory that page_swap.h returns stays a separate mapping for good (its pages
 * were first touched elsewhere), so a program that registers here and there would end up with as
 * many mappings as it is allowed.
 *
 * A mapping without pages, registered for missing pages, is moved over the range. From then on
 * every access waits while the pages are filled in from a second mapping of the shared ones. The
 * kernel keeps a registration across mremap only if another thread acknowledges the move. The
 * provider has a thread for this purpose.
 */
#ifndef VERBS_PAGE_RETURN_H
#define VERBS_PAGE_RETURN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Get a userfaultfd for it and start the thread that serves it. The descriptor, or -errno. Closing
 * it ends the thread's work, not the thread: for the whole life of the process.
 */
int page_return_open(void);

/*
 * Do it for [addr, addr + len), base pages of one shared mapping of src_fd at src_off, with rights
 * prot; then free the pages in src_fd. A hole there becomes a page that is not there. The calling
 * thread must not touch the range, not even to read: signals are blocked, and its stack and the
 * heap objects used here are outside of the range. 0, or -errno and the range is shared as before:
 * -EFAULT or -EINVAL the program changed it.
 */
int page_return_chunk(int uffd, uint64_t addr, uint64_t len, int prot, int src_fd,
		      uint64_t src_off);

/*
 * How many of the window bytes from src_off on, mapped at addr, to return at once: a part with
 * about data bytes of present pages.
 */
uint64_t page_return_bytes(int src_fd, uint64_t addr, uint64_t src_off, uint64_t window,
			   uint64_t data);

/* Free pages of a memfd. */
void page_return_free(int fd, uint64_t off, uint64_t len);

#endif
