/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of a connection that hold memory which its client adopted, and windows: mappings of parts
 * of these files that stay while small regions in them come and go. Such a region needs no
 * descriptor, no separate mapping and no TLB flush.
 *
 * A window is mapped writable whatever its regions allow. Their rights are checked at each access,
 * and the file is the client's own memory, which it passed open for writing.
 *
 * Control thread only. No DPDK.
 */
#ifndef UROCE_MAP_MRKEPT_H
#define UROCE_MAP_MRKEPT_H

#include <stdbool.h>
#include <stdint.h>

#define MRKEPT_MAX_IDLE 16u /* windows per connection that stay mapped without a region */

struct mrkept; /* one per connection */
struct mrwin;  /* a window; has a reference to its mrkept */

/* owner: whose memory it is (sigbus_guard_add). Returns NULL if out of memory. */
struct mrkept *mrkept_create(uint8_t owner);

/* All windows must have been put. NULL is allowed. */
void mrkept_destroy(struct mrkept *k);

/*
 * Keep a duplicate of fd in slot. Returns 0 or -errno: -EINVAL no such slot, not a memfd that is
 * sealed against shrinking, or the slot has another file; -EMFILE.
 */
int mrkept_keep(struct mrkept *k, unsigned slot, int fd);

/* Descriptor in slot, owned by k; -1: none. */
int mrkept_fd(const struct mrkept *k, unsigned slot);

/*
 * Get a reference to the window that covers [off, off + len) of the file in slot, mapping it if
 * necessary; release it by mrwin_put. len > 0. Returns NULL if the range crosses a window's end,
 * the file ends within the window or has huge pages, or mapping fails.
 */
struct mrwin *mrkept_window(struct mrkept *k, unsigned slot, uint64_t off, uint64_t len);

/* Address of offset off. */
uint8_t *mrwin_at(const struct mrwin *w, uint64_t off);

/* As mrmap_failed. Any thread. */
bool mrwin_failed(const struct mrwin *w);
void mrwin_put(struct mrwin *w);

#endif
