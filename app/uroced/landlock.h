/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that the daemon may open, make and remove after its start, by Landlock: rules of the
 * kernel that need no privilege and last. Open descriptors, received ones included, are not
 * affected. A refused call fails with EACCES. Without TCP (ABI 4).
 */
#ifndef UROCED_LANDLOCK_H
#define UROCED_LANDLOCK_H

#include <stdbool.h>
#include "options.h"

struct daemon;

/*
 * Makes the rules from what d has open. unknown: o has drivers whose needs are not known. Returns a
 * descriptor, or -errno: -ENOSYS or -EOPNOTSUPP if the kernel has no Landlock. *abi: the kernel's
 * version of Landlock, or less than 1.
 */
int landlock_ruleset(const struct daemon *d, const struct options *o, bool unknown, int *abi);
/* Any thread, also in a signal handler: restricts it. Needs no_new_privs. False: errno. */
bool landlock_restrict(int ruleset);

#endif
