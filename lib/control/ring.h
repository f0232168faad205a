/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a context's queues. Control thread only. */
#ifndef CONTROL_RING_H
#define CONTROL_RING_H

#include <stddef.h>
#include "control/session.h"

/*
 * Allocates ring memory of the context from its user's quota; ipc_arena_free frees it. Returns 0 or
 * -errno of ipc_arena_alloc: -ENOMEM beyond a limit, with a sentence in quota.refusal.
 */
int session_ring_alloc(struct session *s, size_t bytes, struct ipc_extent *ext);
/* Adds a ring's location to the reply, and its segment's descriptor if the client lacks it. */
void ctrl_rep_ring(struct ctrl_rep *rep, struct session *s, const struct ipc_extent *ext,
		   uint32_t entries, uint32_t stride, struct uroce_ring_loc *loc);

#endif
