/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps fork(2)'s promise for adopted memory, which the kernel would share between parent and
 * child: the child replaces it by a private copy before fork() returns there, and the parent waits
 * for that, so that what the forking thread stores next is not seen by the child.
 *
 * The lock of mr_adopt.c is held from before the fork until both sides are through, so no region
 * is half adopted in the child.
 */
#ifndef VERBS_MR_FORK_H
#define VERBS_MR_FORK_H

/* The name of every memfd that adopted memory lives in; also how the child finds them. */
#define MR_MEMFD_NAME "uroce-mr"
#define MR_MEMFD_PATH "/memfd:uroce-mr" /* as it starts in /proc/self/maps */

/* Called around a fork by the handlers. */
struct mr_fork_ops {
	void (*lock)(void);
	void (*unlock)(void);
	void (*forget)(void); /* in the child, locked: it holds no registrations */
};

/*
 * From the first call on, forks of this process are looked after. ops must stay valid. Call it
 * before the first page is adopted. 0 or -errno.
 */
int mr_fork_install(const struct mr_fork_ops *ops);

#endif
