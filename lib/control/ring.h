/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a context's queues, and its doorbells: one ring of each worker. Control thread only. */
#ifndef CONTROL_RING_H
#define CONTROL_RING_H

#include <stddef.h>
#include "control/session.h"

/*
 * Allocates ring memory of the context in its segments; ipc_arena_free frees it. Returns 0 or
 * -ENOSPC, the reply with which the client asks for a segment (ctrl.h).
 */
int session_ring_alloc(struct session *s, size_t bytes, struct ipc_extent *ext);
/* Sets the location of a ring, for the client. */
static inline void
ring_locate(const struct ipc_extent *ext, uint32_t entries, uint32_t stride,
	    struct uroce_ring_loc *loc)
{
	loc->seg = ext->seg;
	loc->entries = entries;
	loc->off = ext->off;
	loc->stride = stride;
}

/*
 * Opens the segment of the doorbells of s, with an eventfd of each worker; closes them when no
 * worker polls them. Returns 0 or -errno.
 */
int session_doorbells_open(struct session *s);
void session_doorbells_free(struct session *s);
/*
 * Makes the workers poll the doorbells of s, for its first QP. Returns 0, or EPERM with a reason in
 * rp: the client has not sealed them.
 */
int session_doorbells_poll(struct session *s, struct ctrl_rep *rp);

#endif
