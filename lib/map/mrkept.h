/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of a connection that hold memory which its client adopted, and windows of them that stay
 * mapped while small regions in them come and go: such a region costs no descriptor, no mapping of
 * its own and no TLB flush.
 *
 * A window is mapped writable whatever the regions in it allow: their rights are checked with each
 * access, and the file is the client's own memory, which it passed open for writing.
 *
 * Control thread only. No DPDK.
 */
#ifndef UROCE_MAP_MRKEPT_H
#define UROCE_MAP_MRKEPT_H

#include <stdbool.h>
#include <stdint.h>

#define MRKEPT_MAX_IDLE 16u /* windows of a connection that stay mapped without a region */

struct mrkept; /* of a connection */
struct mrwin;  /* a window; refers to its mrkept */

/* NULL: no memory. */
struct mrkept *mrkept_create(void);

/* All windows have been put. NULL is allowed. */
void mrkept_destroy(struct mrkept *k);

/*
 * Keep a copy of fd in slot. 0 or -errno: -EINVAL no such slot, not a memfd that is sealed against
 * shrinking, or the slot has another file; -EMFILE.
 */
int mrkept_keep(struct mrkept *k, unsigned slot, int fd);

/* The descriptor in slot, which stays k's; -1 for none. */
int mrkept_fd(const struct mrkept *k, unsigned slot);

/*
 * The window that covers [off, off + len) of the file in slot, mapped if need be; mrwin_put lets go
 * of it. NULL: there is none, since the range is not within one window, or the file is of huge
 * pages or ends there, or nothing can be mapped. len > 0.
 */
struct mrwin *mrkept_window(struct mrkept *k, unsigned slot, uint64_t off, uint64_t len);

/* Where offset off is mapped. */
uint8_t *mrwin_at(const struct mrwin *w, uint64_t off);

/* As mrmap_failed. Any thread. */
bool mrwin_failed(const struct mrwin *w);
void mrwin_put(struct mrwin *w);

#endif
