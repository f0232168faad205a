/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_ALONE_H
#define VERBS_ALONE_H

#include <stdbool.h>

/*
 * Returns true if only the calling thread can store into this process's memory until it returns to
 * the program; signals are blocked. The process then has no other thread, including the kernel's
 * io_uring workers, and no io_uring, whose requests could also complete in this thread. When in
 * doubt, returns false. Does not detect debuggers or another process that shares the memory after a
 * bare clone(2). Any thread; does not allocate.
 */
bool process_is_alone(void);

/*
 * Returns true if the kernel may store into this process's memory on behalf of no thread: it has an
 * io_uring, or a descriptor of vhost. When in doubt, returns true. Any thread; does not allocate.
 */
bool process_has_kernel_stores(void);

#endif
