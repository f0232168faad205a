/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stops the other threads of a client's process for a moment, so that one thread can move pages of
 * the process and no store of another one is lost (drivers/verbs/page_swap.h). As a debugger does,
 * by ptrace: a thread that waits in a system call is stopped there and waits again afterwards. The
 * kernel ends a few calls with EINTR instead (doc/memory.md).
 *
 * A stopped thread is in no system call that stores into memory, because it stops at the end of a
 * call. A thread that cannot stop soon (state D) fails the attempt. Exceptions, which the client
 * itself excludes, are stores by the kernel that belong to no thread: io_uring, vhost.
 *
 * ptrace belongs to a thread. One thread makes both calls of a pause, and ends soon after the
 * second one, or after a first one that failed: the kernel then releases what could not be
 * released. If it ends in between, or its process dies, all threads continue.
 */
#ifndef UROCE_MAP_PAUSE_H
#define UROCE_MAP_PAUSE_H

#include <sys/types.h>

#define PAUSE_THREADS 1024u /* most threads of a process */

struct pause;

/*
 * Stop all threads of process pid but one. caller: that thread's number as the process sees it, in
 * its own pid namespace; it waits for this call. Returns 0 and *out; or -errno, and all threads
 * continue: -EPERM ptrace is not permitted or there is another tracer; -EBUSY a thread cannot stop
 * now; -E2BIG more than PAUSE_THREADS; -ESRCH no such process or caller; -ENOMEM. Takes half a
 * second at most, and 50 ms if a thread is in state D.
 */
int pause_begin(pid_t pid, pid_t caller, struct pause **out);

/* Let the threads continue; frees p. Threads that have died meanwhile do no harm. */
void pause_end(struct pause *p);

#endif
