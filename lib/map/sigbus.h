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
 * An access can also wait: while a client punches a hole into a file, pages in the hole cannot be
 * accessed, and it may punch one hole after the other without end. sigbus_guard_release has the
 * waiting thread do the same to the range that it waits for.
 *
 * A mutex serialises add, del and failed; the control thread calls them. The handler takes no lock.
 * Threads that touch guarded memory must not block SIGBUS. Includes nothing of the project.
 */
#ifndef UROCE_MAP_SIGBUS_H
#define UROCE_MAP_SIGBUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
 * the caller's id for it, not 0, unique among guarded ranges. owner: whose memory it is, for
 * sigbus_guard_release; 0: it is never released. Returns 0, -EINVAL or -ENOMEM.
 */
int sigbus_guard_add(void *base, size_t len, uint64_t cookie, uint8_t owner);

/*
 * Any thread. Make the thread tid stop waiting for guarded memory of owner, not 0: a signal handler
 * in that thread fails the ranges of this owner that its registers point to. The kernel delivers
 * the signal when the present hole ends, and to an access that the thread itself makes: not to one
 * that the kernel makes for it in a system call. Nothing fails if the thread has gone on to other
 * memory. May be repeated. Returns 0, -ESRCH (no such thread in this process), or -errno.
 */
int sigbus_guard_release(pid_t tid, uint8_t owner);

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
