/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles. Workers read them through the context's table; a change of a neighbour's MAC
 * makes a new one in the old one's place, so that what a worker reads never changes under it.
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
	s->ahs.slot = calloc(AH_MAX, sizeof(*s->ahs.slot)); /* pages come as they are used */
	s->ahs.nslots = s->ahs.slot != NULL ? AH_MAX : 0;
	idtab_init(&s->ah_ids, AH_MAX);
	return s->ahs.slot != NULL ? 0 : -ENOMEM;
}

static void
ah_publish(struct session *s, uint32_t handle, struct qp_ah *ah)
{
	__atomic_store_n(&s->ahs.slot[handle & (AH_MAX - 1)], ah, __ATOMIC_RELEASE);
}

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
		return EINVAL;
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return ENOMEM;
	o->s = s;
	o->pd = pd;
	o->sgid_index = q->attr.sgid_index;
	o->ah = calloc(1, sizeof(*o->ah));
	rc = o->ah == NULL ? -ENOMEM
			   : net_path(&s->dev->net, &q->attr, 0, 0, &o->ah->path, &o->ah->loopback,
				      o->hop);
	if (rc == 0 || rc == -EINPROGRESS) {
		o->ah->path_ok = rc == 0;
		o->ah->multicast = net_gid_is_mcast(q->attr.dgid);
		o->ah->pd = pd->id;
		rc = quota_take(s->user, QUOTA_AHS, 1);
	}
	if (rc == 0 && idtab_add(&s->ah_ids, o, &o->handle) < 0) {
		quota_give(s->user, QUOTA_AHS, 1);
		rc = -ENOMEM;
	}
	if (rc == -EINVAL || rc == -ENETUNREACH)
		neigh_refused(s, &q->attr, 0);
	if (rc != 0) {
		free(o->ah);
		free(o);
		return -rc;
	}
	o->ah->handle = o->handle;
	pd->refs++;
	ah_publish(s, o->handle, o->ah);
	if (!o->ah->path_ok)
		neigh_ask(s, o->hop);
	rep->handle = o->handle;
	return 0;
}

static void
ah_free(struct obj_ah *o)
{
	o->pd->refs--;
	quota_give(o->s->user, QUOTA_AHS, 1);
	idtab_del(&o->s->ah_ids, o->handle);
	free(o->ah);
	free(o);
}

int
ah_destroy(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct obj_ah *o = idtab_get(&s->ah_ids, h->handle);

	if (o == NULL)
		return ENOENT;
	ah_publish(s, o->handle, NULL);
	worker_quiesce(s->d->workers);
	ah_free(o);
	return 0;
}

#define RENEW_BATCH 256 /* handles that wait together until no worker has them */

/* No worker reads the old ones from now on. */
static void
ah_drop_old(struct session *s, struct qp_ah **old, unsigned n)
{
	if (n > 0)
		worker_quiesce(s->d->workers);
	for (unsigned i = 0; i < n; i++)
		free(old[i]);
}

/* A neighbour's MAC is known now, or another: the handles of s that go through it are renewed. */
static bool
ah_renew(struct session *s, const uint8_t ip[16], const uint8_t mac[6])
{
	struct qp_ah *olds[RENEW_BATCH];
	struct obj_ah *o;
	uint32_t pos = 0;
	unsigned n = 0;
	bool any = false;

	while ((o = idtab_next(&s->ah_ids, &pos)) != NULL) {
		struct qp_ah *old = o->ah, *ah;

		if (memcmp(o->hop, ip, 16) != 0 ||
		    (old->path_ok && memcmp(old->path.dmac, mac, 6) == 0))
			continue;
		ah = malloc(sizeof(*ah));
		if (ah == NULL)
			continue; /* the neighbour is asked again while somebody waits */
		*ah = *old;
		memcpy(ah->path.dmac, mac, 6);
		ah->path_ok = true;
		o->ah = ah;
		ah_publish(s, o->handle, ah);
		any = true;
		olds[n++] = old;
		if (n == RENEW_BATCH) {
			ah_drop_old(s, olds, n);
			n = 0;
		}
	}
	ah_drop_old(s, olds, n);
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
			if (q->qp->conn.type == QP_TYPE_UD)
				worker_call(worker_get(s->d->workers, q->qp->bind.worker),
					    wake_on_worker, q->qp);
		}
	}
}

void
ah_free_all(struct session *s)
{
	struct obj_ah *o;
	uint32_t pos = 0;

	while ((o = idtab_next(&s->ah_ids, &pos)) != NULL)
		ah_free(o);
	free(s->ahs.slot);
	s->ahs.slot = NULL;
	idtab_free(&s->ah_ids);
}
