/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Definitions that all headers of the ABI share. The ABI is the contract between uroced and its
 * clients: the first message, which agrees on a version (hello.h), all other control messages
 * (ctrl.h), and the rings in shared memory (ring.h, wqe.h, cqe.h). Both sides are little endian and
 * 64 bit; offsets, never pointers, cross the boundary. Neither side trusts what it reads here:
 * copy, check, then use.
 *
 * Fields called spare are reserved. In a message they are zero, and the receiver checks that
 * (ctrl.h). In shared memory the side that writes the structure leaves them zero; neither reads
 * them. An SGE and the bind WQE have no spare bytes: a later version needs another opcode or flag.
 */
#ifndef UROCE_ABI_VERSION_H
#define UROCE_ABI_VERSION_H

/* The versions that this source supports. hello.h: when to change them, how both sides agree. */
#define UROCE_ABI_VERSION       10
#define UROCE_ABI_VERSION_MIN   10
#define UROCE_ABI_VERSION_FIRST 7 /* the first whose HELLO has a range */

#define UROCE_CACHE_LINE        64

#ifdef __cplusplus
#define UROCE_ABI_ASSERT(cond, what) static_assert(cond, what)
#else
#define UROCE_ABI_ASSERT(cond, what) _Static_assert(cond, what)
#endif

#endif
