/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives the child of a fork(2) a private copy of adopted memory, which the kernel would share
 * between parent and child. The child makes the copy before fork() returns there, and the parent
 * waits for it, so that the child does not see later stores of the forking thread.
 *
 * mr_adopt.c calls these from its handlers (fork.h), on the forking thread.
 */
#ifndef VERBS_MR_FORK_H
#define VERBS_MR_FORK_H

#include <stdint.h>

/* The name of each memfd for adopted memory. The child finds the memfds by this name. */
#define MR_MEMFD_NAME "uroce-mr"
#define MR_MEMFD_PATH "/memfd:uroce-mr" /* as /proc/self/maps shows it */

/*
 * Lets children have the pages of [addr, addr + len), which does not wrap, again. After
 * ibv_fork_init libibverbs marks them MADV_DONTFORK before it calls the provider, because a NIC
 * keeps to its pages when the program gets copies. uroce needs no such hole, in which a child would
 * die: see doc/memory.md. Does nothing unless libibverbs marks pages. Called at each registration,
 * before the memory is described: marks divide mappings. Any thread.
 */
void mr_fork_keep(uint64_t addr, uint64_t len);

/*
 * Before the fork: create the channel by which the child reports that it has finished: a pipe, or
 * shared memory if no descriptor is left. If both fail, the parent does not wait.
 */
void mr_fork_prepare(void);

/* In the parent: wait until the child has finished or is gone, 10 s at most. */
void mr_fork_parent(void);

/*
 * In the child: replace every adopted page that is mapped here by a private copy, whatever the
 * parent changed between prepare and fork. Needs a free descriptor. Aborts if there is no memory
 * for the copies: otherwise the child would store into the parent's memory.
 */
void mr_fork_child(void);

#endif
