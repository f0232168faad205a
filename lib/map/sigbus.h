/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Survives SIGBUS in memory shared with clients. A client can make the daemon's accesses fail by
 * truncating a file that it registered or by using up the huge pages. The handler then maps zero
 * pages over the whole guarded range and marks the range as failed; the access is repeated and
 * succeeds. A SIGBUS anywhere else has its usual effect.
 *
 * The handler replaces the whole range rather than one page, because page-wise repair of a large
 * range would let the client use up the daemon's mappings.
 *
 * A mutex serialises add, del and failed; the control thread calls them. The handler takes no lock.
 * Threads that touch guarded memory must not block SIGBUS. Includes nothing of the project.
 */
#ifndef UROCE_MAP_SIGBUS_H
#define UROCE_MAP_SIGBUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Install the process-wide handler in place of the current one. Repeated calls do no harm. Reserves
 * some mappings, which the handler uses if the process reaches vm.max_map_count. Returns 0 or
 * -errno.
 */
int sigbus_guard_install(void);

/* Control thread, after ranges have failed: reserve the mappings again that the handler used. */
void sigbus_guard_refill(void);

/*
 * Guard [base, base + len): page aligned (huge pages: aligned to them), consisting of whole
 * mappings, with an unmapped page at each end so that the kernel merges it with nothing. cookie:
 * the caller's id for it, not 0, unique among guarded ranges. Returns 0, -EINVAL or -ENOMEM.
 */
int sigbus_guard_add(void *base, size_t len, uint64_t cookie);

/* Stop guarding a range; call before unmapping it. Unknown cookies are ignored. */
void sigbus_guard_del(uint64_t cookie);

/*
 * Returns true if the range has failed; false for an unknown cookie. Takes the mutex: do not use it
 * per packet, see sigbus_guard_failures.
 */
bool sigbus_guard_failed(uint64_t cookie);

/* Number of ranges that have failed since the start. One relaxed load, cheap enough per burst. */
uint64_t sigbus_guard_failures(void);

#endif
