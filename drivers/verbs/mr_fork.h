/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps fork(2)'s promise for adopted memory, which the kernel would share between parent and
 * child: the child replaces it by a private copy before fork() returns there, and the parent waits
 * for that, so that what the forking thread stores next is not seen by the child.
 *
 * mr_adopt.c calls these from its handlers (fork.h), on the forking thread.
 */
#ifndef VERBS_MR_FORK_H
#define VERBS_MR_FORK_H

/* The name of every memfd that adopted memory lives in; also how the child finds them. */
#define MR_MEMFD_NAME "uroce-mr"
#define MR_MEMFD_PATH "/memfd:uroce-mr" /* as it starts in /proc/self/maps */

/*
 * Before the fork: make the channel by which the child says that it is through. Without one (no
 * descriptors left) the parent does not wait.
 */
void mr_fork_prepare(void);

/* In the parent: wait until the child is through, or is gone, or 10 s are over. */
void mr_fork_parent(void);

/*
 * In the child: replace every adopted page that is mapped here by a private copy, whatever the
 * parent changed between prepare and fork. Aborts when there is no memory for it: going on would
 * let the child store into the parent's memory.
 */
void mr_fork_child(void);

#endif
