/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_ALONE_H
#define VERBS_ALONE_H

#include <stdbool.h>

/*
 * Can nobody but the calling thread store into this process's memory until it returns to the
 * program, signals blocked? It has no other thread (the kernel's workers of an io_uring count), and
 * no io_uring, whose requests could complete in this thread, too. When in doubt: false. Any thread;
 * does not allocate. Not seen: another process that shares the memory after a bare clone(2), and
 * debuggers.
 */
bool process_is_alone(void);

#endif
