/* SPDX-License-Identifier: BSD-3-Clause */
/* A context's doorbell rings: one of each worker, in a segment. */
#include <errno.h>
#include "control/obj.h"
#include "control/session.h"

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
