/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between uroced and its clients: control messages (ctrl.h) and the rings in shared
 * memory (ring.h, wqe.h, cqe.h). Both sides are little endian and 64 bit; offsets, never
 * pointers, cross the boundary. Neither side trusts what it reads here: copy, check, then use.
 */
#ifndef UROCE_ABI_VERSION_H
#define UROCE_ABI_VERSION_H

/* Bumped by any change of layout or meaning; the daemon refuses a client of another version. */
#define UROCE_ABI_VERSION 6

#define UROCE_CACHE_LINE  64

#ifdef __cplusplus
#define UROCE_ABI_ASSERT(cond, what) static_assert(cond, what)
#else
#define UROCE_ABI_ASSERT(cond, what) _Static_assert(cond, what)
#endif

#endif
