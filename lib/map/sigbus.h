/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Survives SIGBUS in memory shared with clients. A client can make an access of the daemon fail by
 * truncating a file it registered or by using up the huge pages behind it. The handler then maps
 * zero pages over the whole guarded range and marks it failed; the access is repeated and goes
 * on. A SIGBUS anywhere else does what it always did.
 *
 * The whole range is replaced, not the page: the client is at fault, and page-wise repair of a
 * large range would let it use up the daemon's mappings.
 *
 * add and del: control thread (any thread, really: a mutex serialises them). The handler takes no
 * lock. Threads that touch guarded memory must not block SIGBUS. Includes nothing of the project.
 */
#ifndef UROCE_MAP_SIGBUS_H
#define UROCE_MAP_SIGBUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Install the handler, process-wide, in place of what is there. Again is harmless. 0 or -errno.
 * Sets some mappings aside, which the handler gives up when the process has as many as
 * vm.max_map_count allows.
 */
int sigbus_guard_install(void);

/* Control thread, after ranges have failed: set aside again what the handler has given up. */
void sigbus_guard_refill(void);

/*
 * Guard [base, base + len), page aligned, whole mappings (of huge pages: whole ones), and a page
 * at each end that is not mapped: the kernel merged them with nothing.
 * cookie: the caller's name for it, not 0, unique among the guarded ranges.
 * 0, -EINVAL, or -ENOMEM.
 */
int sigbus_guard_add(void *base, size_t len, uint64_t cookie);

/* End guarding, before the range is unmapped. Unknown cookies are ignored. */
void sigbus_guard_del(uint64_t cookie);

/* Has the range failed? False for an unknown cookie. Linear in the number of ranges: not per
 * packet; see sigbus_guard_failures. */
bool sigbus_guard_failed(uint64_t cookie);

/* How many ranges have failed since the start; one relaxed load, for a look once a burst. */
uint64_t sigbus_guard_failures(void);

#endif
