/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/ring.h"

#include <errno.h>
#include <stdio.h>
#include "control/obj.h"

int
session_ring_alloc(struct session *s, size_t bytes, struct ipc_extent *ext)
{
	int rc = ipc_arena_alloc(s->arena, bytes, ext);

	s->ring_lacks = rc == -ENOSPC ? bytes : 0;
	return rc;
}

/* Takes from the user's quota what the arena holds more than before, or gives it back. */
static void
charge(struct session *s, size_t bytes, uint32_t segs)
{
	size_t now = ipc_arena_bytes(s->arena);

	if (now > bytes)
		quota_take(s->user, QUOTA_QUEUE_MEM, now - bytes);
	else
		quota_give(s->user, QUOTA_QUEUE_MEM, bytes - now);
	if (ipc_arena_segments(s->arena) > segs) {
		quota_take(s->user, QUOTA_FDS, 1);
		quota_take(s->user, QUOTA_MAPS, 1);
	} else if (ipc_arena_segments(s->arena) < segs) {
		quota_give(s->user, QUOTA_FDS, 1);
		quota_give(s->user, QUOTA_MAPS, 1);
	}
}

/*
 * Offers the client a segment of at least bytes, from its user's quota. Returns as ipc_arena_offer;
 * beyond a limit there is a sentence in quota.refusal.
 */
static int
segment_offer(struct session *s, size_t bytes, uint32_t *id, const struct ipc_segment **seg)
{
	struct quota *q = &s->d->quota;
	size_t own = (size_t)s->d->cfg->client_mem_mib << 20, held = ipc_arena_bytes(s->arena);
	uint32_t segs = ipc_arena_segments(s->arena);
	uint64_t left = quota_left(s->user, QUOTA_QUEUE_MEM);
	bool own_binds = own - held <= left;
	bool fds = quota_left(s->user, QUOTA_FDS) > 0, maps = quota_left(s->user, QUOTA_MAPS) > 0;
	int rc;

	/* Check all limits before creating a segment. */
	ipc_arena_set_limit(s->arena, !fds || !maps ? held : own_binds ? own : held + left);
	rc = ipc_arena_offer(s->arena, bytes, id, seg);
	charge(s, held, segs);
	if (rc != -ENOMEM)
		return rc;
	/* For the message: less is left than a new segment takes. */
	if (bytes < IPC_SEG_BYTES)
		bytes = IPC_SEG_BYTES;
	if (fds && maps && own_binds)
		snprintf(q->refusal, sizeof(q->refusal),
			 "uid %u wants %zu MiB more of queue memory in a client that holds %zu; a "
			 "client may hold %u (option client-mem)",
			 s->peer.uid, (bytes + (1u << 20) - 1) >> 20, held >> 20,
			 s->d->cfg->client_mem_mib);
	else if (fds && maps && quota_take(s->user, QUOTA_QUEUE_MEM, bytes) == 0)
		quota_give(s->user, QUOTA_QUEUE_MEM, bytes);
	else if (!fds)
		quota_take(s->user, QUOTA_FDS, 1); /* fails, and sets the message */
	else if (!maps)
		quota_take(s->user, QUOTA_MAPS, 1);
	return rc;
}

int
context_segment(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_segment_rep *rep = rp->body;
	const struct ipc_segment *seg;
	int rc;

	if (s->ring_lacks == 0)
		return ctrl_refuse(rp, EINVAL, "no request lacks room for its rings");
	rc = segment_offer(s, s->ring_lacks, &rep->seg, &seg);
	if (rc < 0)
		return -rc;
	rep->bytes = seg->bytes;
	ctrl_rep_fd(rp, seg->fd, false);
	return 0;
}

/* ---- doorbells ---- */

/* On the worker: scans the context's QPs after its doorbell ring overflowed or was corrupted. */
static bool
on_doorbell_overflow(struct worker *w, void *ctx, bool first)
{
	struct session *s = ctx;
	struct obj_qp **at = &s->worker_scan[worker_index(w)];

	if (first)
		*at = LIST_FIRST(&s->worker_qps[worker_index(w)]);
	for (uint32_t i = 0; i < WORKER_SCAN_QPS && *at != NULL; i++) {
		engine_doorbell(worker_engine(w), (*at)->qp->conn.qpn);
		*at = LIST_NEXT(*at, worker_link);
	}
	return *at != NULL;
}

void
session_doorbells_free(struct session *s)
{
	while (s->ndoorbells > 0) {
		s->ndoorbells--;
		worker_close_doorbell(worker_get(s->d->workers, s->ndoorbells),
				      session_doorbell(s, s->ndoorbells));
	}
	ipc_segment_destroy(&s->doorbells);
}

int
session_doorbells_open(struct session *s)
{
	uint32_t n = s->d->nworkers;
	int rc = ipc_segment_create(&s->doorbells, n * sizeof(struct uroce_db_ring), false,
				    qp_user_place(s->user->id));

	while (rc == 0 && s->ndoorbells < n) {
		rc = worker_add_doorbell(worker_get(s->d->workers, s->ndoorbells),
					 session_doorbell(s, s->ndoorbells));
		if (rc == 0)
			s->ndoorbells++;
	}
	if (rc < 0 && s->doorbells.base != NULL)
		session_doorbells_free(s);
	return rc;
}

int
session_doorbells_poll(struct session *s, struct ctrl_rep *rp)
{
	if (s->doorbells_polled)
		return 0;
	if (!ipc_segment_sealed(&s->doorbells))
		return ctrl_refuse(rp, EPERM,
				   "its doorbell segment lacks the seal F_SEAL_FUTURE_WRITE");
	for (uint32_t i = 0; i < s->ndoorbells; i++)
		worker_poll_doorbell(worker_get(s->d->workers, i), session_doorbell(s, i),
				     &session_doorbell(s, 0)->waiter, qp_user_place(s->user->id),
				     on_doorbell_overflow, s);
	s->doorbells_polled = true;
	return 0;
}
