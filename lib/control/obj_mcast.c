/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups (WIRE-10) and the QPs that joined them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/device.h"
#include "control/obj.h"

static struct obj_member *
member_find(const struct obj_qp *q, const uint8_t gid[16])
{
	struct obj_member *o;

	TAILQ_FOREACH (o, &q->o.s->dev->members, dev_link) {
		if (o->q == q && memcmp(o->gid, gid, 16) == 0)
			return o;
	}
	return NULL;
}

/* Returns true if a QP of the device has joined the group. */
static bool
group_has_members(const struct device *dev, const uint8_t gid[16])
{
	const struct obj_member *o;

	TAILQ_FOREACH (o, &dev->members, dev_link) {
		if (memcmp(o->gid, gid, 16) == 0)
			return true;
	}
	return false;
}

/* Adds o to its device's list, which has the order that workers want (engine_member_cmp). */
static void
member_insert(struct obj_member *o)
{
	struct device *dev = o->q->o.s->dev;
	struct engine_member key = {.qpn = o->q->qp->conn.qpn};
	struct obj_member *at;

	memcpy(key.gid, o->gid, 16);
	TAILQ_FOREACH (at, &dev->members, dev_link) {
		struct engine_member is = {.qpn = at->q->qp->conn.qpn};

		memcpy(is.gid, at->gid, 16);
		if (engine_member_cmp(&key, &is) < 0) {
			TAILQ_INSERT_BEFORE(at, o, dev_link);
			return;
		}
	}
	TAILQ_INSERT_TAIL(&dev->members, o, dev_link);
}

static void
member_free(struct obj_member *o)
{
	struct device *dev = o->q->o.s->dev;

	quota_give(o->q->o.s->user, QUOTA_MCAST, 1);
	TAILQ_REMOVE(&dev->members, o, dev_link);
	if (dev->net.host && !group_has_members(dev, o->gid))
		port_group_leave(&dev->port, o->gid);
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
	if (q->qp->conn.type != QP_TYPE_UD)
		return ctrl_refuse(rp, EINVAL, "QP %u is not UD", q->qp->conn.qpn);
	if (!net_gid_is_mcast(r->gid))
		return ctrl_refuse(rp, EINVAL, "the GID is no multicast address");
	if (!port_takes_groups(&s->dev->port))
		return EOPNOTSUPP;
	if (member_find(q, r->gid) != NULL)
		return 0;
	if (q->o.refs >= MCAST_MAX_GROUPS)
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
	if (s->dev->net.host && !group_has_members(s->dev, r->gid)) {
		int rc = port_group_join(&s->dev->port, r->gid);

		if (rc < 0) {
			quota_give(s->user, QUOTA_MCAST, 1);
			free(o);
			return rc == -ENOBUFS ? ENOMEM : -rc;
		}
	}
	member_insert(o);
	if (device_addrs_update(s->dev) < 0) {
		member_free(o);
		return ENOMEM;
	}
	q->o.refs++;
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
		return ctrl_refuse(rp, EINVAL, "QP %u is not attached to this group",
				   q->qp->conn.qpn);
	member_free(o);
	q->o.refs--;
	/*
	 * If memory is short, the old list stays; the QP receives from the group until the next
	 * change.
	 */
	return -device_addrs_update(s->dev);
}

void
mcast_leave(struct obj_qp *q)
{
	struct obj_member *o, *next;

	if (q->o.refs == 0)
		return;
	for (o = TAILQ_FIRST(&q->o.s->dev->members); o != NULL; o = next) {
		next = TAILQ_NEXT(o, dev_link);
		if (o->q == q)
			member_free(o);
	}
	q->o.refs = 0;
	(void)device_addrs_update(q->o.s->dev); /* on failure, workers ignore the stale QPN */
}
