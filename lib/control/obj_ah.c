/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles. Workers read them through the context's table. A change of a neighbour's MAC
 * replaces a handle by a new one, so that a handle never changes while a worker reads it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/device.h"
#include "control/neigh.h"
#include "control/obj.h"

int
ah_table_open(struct session *s)
{
	s->ahs.slot = calloc(AH_MAX, sizeof(*s->ahs.slot)); /* pages are allocated on first use */
	s->ahs.nslots = s->ahs.slot != NULL ? AH_MAX : 0;
	idtab_init(&s->ah_ids, AH_MAX);
	return s->ahs.slot != NULL ? 0 : -ENOMEM;
}

static void
ah_publish(struct session *s, uint32_t handle, struct qp_ah *ah)
{
	__atomic_store_n(&s->ahs.slot[handle & (AH_MAX - 1)], ah, __ATOMIC_RELEASE);
}

/* Has q WRs that are not done? Only a hint: the client may write anything to its ring. */
static bool
has_posted(const struct obj_qp *q)
{
	const struct uroce_ring_hdr *sq = q->qp->bind.sq.hdr;

	return __atomic_load_n(&sq->prod, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&sq->cons, __ATOMIC_RELAXED);
}

static void
send_on_worker(struct worker *w, void *part)
{
	const struct qp_batch_part *p = part;

	for (unsigned i = 0; i < p->n; i++)
		worker_send_posted(w, p->q[i]->qp);
}

/*
 * Datagrams that were posted before leave first: a program that does not wait for their completions
 * may destroy the handle at once, and a NIC takes the address when a WR is posted.
 */
static void
ah_hide(struct object *o)
{
	const struct qp_ah *ah = ((struct obj_ah *)o)->ah;
	struct qp_batch b = {.run = send_on_worker};
	struct obj_qp *q;
	uint32_t pos = 0;

	while ((q = idtab_next(&o->s->qps, &pos)) != NULL) {
		if (!q->o.hidden && q->qp->conn.type == QP_TYPE_UD && q->qp->bind.pd == ah->pd &&
		    has_posted(q))
			qp_batch_add(&b, q);
	}
	qp_batch_end(&b, o->s->d);
	ah_publish(o->s, o->handle, NULL);
}

static void
ah_release(struct object *o)
{
	free(((struct obj_ah *)o)->ah);
}

const struct object_kind ah_kind = {
	.table = offsetof(struct session, ah_ids),
	.quota = QUOTA_AHS,
	.hide = ah_hide,
	.release = ah_release,
};

int
ah_create(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_create_ah_req *q = req->body;
	struct uroce_handle *rep = rp->body;
	struct obj_pd *pd = idtab_get(&s->pds, q->pd);
	struct obj_ah *o;
	int rc;

	if (pd == NULL)
		return ENOENT;
	if (q->attr.port_num != 1)
		return ctrl_refuse(rp, EINVAL, "port_num is %u, not 1", q->attr.port_num);
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return ENOMEM;
	o->sgid_index = q->attr.sgid_index;
	o->ah = calloc(1, sizeof(*o->ah));
	rc = o->ah == NULL ? -ENOMEM
			   : net_path(&s->dev->net, &q->attr, 0, 0, &o->ah->path, &o->ah->loopback,
				      o->hop);
	if (rc == 0 || rc == -EINPROGRESS) {
		o->ah->path_ok = rc == 0;
		o->ah->multicast = net_gid_is_mcast(q->attr.dgid);
		o->ah->pd = pd->id;
		rc = object_add(&ah_kind, &o->o, s, pd);
	}
	if (rc == -EINVAL || rc == -ENETUNREACH)
		neigh_why(s, &q->attr, "", rp->why);
	if (rc != 0) {
		free(o->ah);
		free(o);
		return -rc;
	}
	o->ah->handle = o->o.handle;
	ah_publish(s, o->o.handle, o->ah);
	if (!o->ah->path_ok)
		neigh_ask(s, o->hop);
	rep->handle = o->o.handle;
	return 0;
}

#define RENEW_BATCH 256 /* old handles that are freed together */

/* Replaces the handles of s that go through ip when its MAC becomes known or changes. */
static bool
ah_renew(struct session *s, const uint8_t ip[16], const uint8_t mac[6])
{
	void *olds[RENEW_BATCH];
	struct obj_ah *o;
	uint32_t pos = 0;
	unsigned n = 0;
	bool any = false;

	while ((o = idtab_next(&s->ah_ids, &pos)) != NULL) {
		struct qp_ah *old = o->ah, *ah;

		if (o->o.hidden || memcmp(o->hop, ip, 16) != 0 ||
		    (old->path_ok && memcmp(old->path.dmac, mac, 6) == 0))
			continue;
		ah = malloc(sizeof(*ah));
		if (ah == NULL)
			continue; /* the neighbour is requested again while handles wait */
		*ah = *old;
		memcpy(ah->path.dmac, mac, 6);
		ah->path_ok = true;
		o->ah = ah;
		ah_publish(s, o->o.handle, ah);
		any = true;
		olds[n++] = old;
		if (n == RENEW_BATCH) {
			defer_free(s->d, olds, n);
			n = 0;
		}
	}
	if (n > 0)
		defer_free(s->d, olds, n);
	return any;
}

static void
wake_on_worker(struct worker *w, void *arg)
{
	engine_wake(worker_engine(w), arg);
}

void
ah_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6])
{
	struct session *s;

	TAILQ_FOREACH (s, &dev->d->sessions, link) {
		struct obj_qp *q;
		uint32_t pos = 0;

		if (s->dev != dev || !ah_renew(s, ip, mac))
			continue;
		while ((q = idtab_next(&s->qps, &pos)) != NULL) {
			if (!q->o.hidden && q->qp->conn.type == QP_TYPE_UD)
				worker_call_qp(s->d->workers, q->qp, wake_on_worker, q->qp);
		}
	}
}

void
ah_table_close(struct session *s)
{
	free(s->ahs.slot);
	s->ahs.slot = NULL;
	idtab_free(&s->ah_ids);
}
