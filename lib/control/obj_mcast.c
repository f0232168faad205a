/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups (WIRE-10), and the list of a device's addresses that its workers go by: made
 * anew at each change and handed to every worker in turn; then nobody has the old one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/session.h"

struct addrs_call {
	const struct engine_addrs *addrs;
	uint16_t dev;
};

static void
set_on_worker(struct worker *w, void *arg)
{
	const struct addrs_call *c = arg;

	engine_set_addrs(worker_engine(w), c->dev, c->addrs);
}

/* One block: the head, the GIDs, the members. */
static struct engine_addrs *
addrs_make(const struct device *dev)
{
	uint32_t n = 0, nmembers = 0;
	const struct obj_member *o;
	struct engine_member *member;
	struct engine_addrs *a;
	uint8_t(*gid)[16];

	TAILQ_FOREACH (o, &dev->members, dev_link)
		nmembers++;
	a = calloc(1, sizeof(*a) + UROCE_MAX_GIDS * 16 + nmembers * sizeof(*member));
	if (a == NULL)
		return NULL;
	gid = (uint8_t(*)[16])(a + 1);
	member = (struct engine_member *)(gid + UROCE_MAX_GIDS);
	a->gid = (const uint8_t(*)[16])gid;
	a->member = member;
	for (uint32_t i = 0; i < UROCE_MAX_GIDS; i++) {
		if (dev->net.gid[i].used)
			memcpy(gid[n++], dev->net.gid[i].gid, 16);
	}
	a->ngids = n;
	a->nmembers = nmembers;
	TAILQ_FOREACH (o, &dev->members, dev_link) {
		memcpy(member->gid, o->gid, 16);
		member->qpn = o->q->qp->qpn;
		member++;
	}
	return a;
}

int
device_addrs_update(struct device *dev)
{
	struct engine_addrs *a = addrs_make(dev), *old = dev->addrs;
	struct addrs_call c = {a, dev->port.id};

	if (a == NULL)
		return -ENOMEM;
	worker_call_all(dev->d->workers, set_on_worker, &c);
	dev->addrs = a;
	free(old);
	return 0;
}

void
device_addrs_clear(struct device *dev)
{
	struct addrs_call c = {NULL, dev->port.id};

	worker_call_all(dev->d->workers, set_on_worker, &c);
	free(dev->addrs);
	dev->addrs = NULL;
}

static struct obj_member *
member_find(const struct obj_qp *q, const uint8_t gid[16])
{
	struct obj_member *o;

	TAILQ_FOREACH (o, &q->s->dev->members, dev_link) {
		if (o->q == q && memcmp(o->gid, gid, 16) == 0)
			return o;
	}
	return NULL;
}

static void
member_free(struct obj_member *o)
{
	quota_give(o->q->s->user, QUOTA_MCAST, 1);
	TAILQ_REMOVE(&o->q->s->dev->members, o, dev_link);
	free(o);
}

int
mcast_attach(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_mcast_req *r = req->body;
	struct obj_qp *q = idtab_get(&s->qps, r->qp);
	struct obj_member *o;

	if (q == NULL)
		return ENOENT;
	if (q->qp->type != QP_TYPE_UD || !net_gid_is_mcast(r->gid))
		return EINVAL;
	if (member_find(q, r->gid) != NULL)
		return 0;
	if (q->nmembers >= MCAST_MAX_GROUPS)
		return ENOMEM;
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return ENOMEM;
	if (quota_take(s->user, QUOTA_MCAST, 1) < 0) {
		free(o);
		return ENOMEM;
	}
	o->q = q;
	memcpy(o->gid, r->gid, 16);
	TAILQ_INSERT_TAIL(&s->dev->members, o, dev_link);
	if (device_addrs_update(s->dev) < 0) {
		member_free(o);
		return ENOMEM;
	}
	q->nmembers++;
	return 0;
}

int
mcast_detach(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_mcast_req *r = req->body;
	struct obj_qp *q = idtab_get(&s->qps, r->qp);
	struct obj_member *o;

	if (q == NULL)
		return ENOENT;
	o = member_find(q, r->gid);
	if (o == NULL)
		return EINVAL;
	member_free(o);
	q->nmembers--;
	/* Without memory for a new list the old one goes on; the QP gets the group until the next
	 * change. */
	return -device_addrs_update(s->dev);
}

void
mcast_leave(struct obj_qp *q)
{
	struct obj_member *o, *next;

	if (q->nmembers == 0)
		return;
	for (o = TAILQ_FIRST(&q->s->dev->members); o != NULL; o = next) {
		next = TAILQ_NEXT(o, dev_link);
		if (o->q == q)
			member_free(o);
	}
	q->nmembers = 0;
	(void)device_addrs_update(q->s->dev); /* a QPN that is gone is no member's */
}
