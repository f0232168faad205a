/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/ring.h"

#include <errno.h>
#include <stdio.h>

int
session_ring_alloc(struct session *s, size_t bytes, struct ipc_extent *ext)
{
	struct quota *q = &s->d->quota;
	size_t own = (size_t)s->d->cfg->client_mem_mib << 20;
	uint64_t left = quota_left(s->user, QUOTA_QUEUE_MEM), grown;
	bool own_binds = own - s->arena_bytes <= left;
	bool fds = quota_left(s->user, QUOTA_FDS) > 0, maps = quota_left(s->user, QUOTA_MAPS) > 0;
	int rc;

	/* Check all limits before creating a segment. */
	ipc_arena_set_limit(s->arena, !fds || !maps ? s->arena_bytes
				      : own_binds   ? own
						    : s->arena_bytes + left);
	rc = ipc_arena_alloc(s->arena, bytes, ext);
	grown = ipc_arena_bytes(s->arena) - s->arena_bytes;
	if (grown != 0) {
		quota_take(s->user, QUOTA_QUEUE_MEM, grown);
		quota_take(s->user, QUOTA_FDS, 1);
		quota_take(s->user, QUOTA_MAPS, 1);
		s->arena_bytes += grown;
		s->arena_segs++;
	}
	if (rc != -ENOMEM)
		return rc;
	/* For the message: less is left than a new segment takes. */
	if (bytes < IPC_SEG_BYTES)
		bytes = IPC_SEG_BYTES;
	if (fds && maps && own_binds)
		snprintf(q->refusal, sizeof(q->refusal),
			 "uid %u wants %zu MiB more of queue memory in a client that holds %zu; a "
			 "client may hold %u (option client-mem)",
			 s->peer.uid, (bytes + (1u << 20) - 1) >> 20, s->arena_bytes >> 20,
			 s->d->cfg->client_mem_mib);
	else if (fds && maps && quota_take(s->user, QUOTA_QUEUE_MEM, bytes) == 0)
		quota_give(s->user, QUOTA_QUEUE_MEM, bytes);
	else if (!fds)
		quota_take(s->user, QUOTA_FDS, 1); /* fails, and sets the message */
	else if (!maps)
		quota_take(s->user, QUOTA_MAPS, 1);
	return rc;
}

void
ctrl_rep_ring(struct ctrl_rep *rep, struct session *s, const struct ipc_extent *ext,
	      uint32_t entries, uint32_t stride, struct uroce_ring_loc *loc)
{
	int fd;

	ipc_arena_locate(s->arena, ext, entries, stride, loc, &fd);
	if (fd >= 0)
		ctrl_rep_fd(rep, fd, false);
}
