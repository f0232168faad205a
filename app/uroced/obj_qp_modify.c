/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: modify, query, and the neighbours that their paths go through. Paths are the control
 * thread's business; the QP is changed on its worker, by worker_call.
 */
#include <errno.h>
#include <string.h>
#include "qp/migrate.h"
#include "session.h"

struct modify_call {
	struct obj_qp *q;
	const struct uroce_modify_qp_req *req;
	const struct qp_limits *lim;
	struct qp_path *path; /* NULL without an address vector */
	struct qp_path *alt;  /* NULL without an alternate path */
	int rc;
};

/* On the worker. The QP may have gone over to its alternate path since these were set. */
static void
note_hops(struct obj_qp *q)
{
	memcpy(q->hop, q->qp->hop, sizeof(q->hop));
	memcpy(q->alt_hop, q->qp->alt.hop, sizeof(q->alt_hop));
}

static void
modify_on_worker(struct worker *w, void *arg)
{
	struct modify_call *c = arg;
	struct qp_env *env = &worker_engine(w)->env;
	struct qp *qp = c->q->qp;

	/* Again: a packet may have moved the QP to the error state since the control thread looked.
	 */
	c->rc = qp_modify_check(qp, c->req->attr_mask, &c->req->attr, c->lim);
	if (c->rc != 0)
		return;
	qp_modify_apply(env, qp, c->req->attr_mask, &c->req->attr, c->path, c->alt);
	qp_env_flush(env);
	note_hops(c->q);
}

/* Where the packets of q go by the address vector ah, of a modify m. A positive errno. */
static int
qp_find_path(struct obj_qp *q, const struct uroce_modify_qp_req *m, const struct uroce_ah_attr *ah,
	     struct qp_path *path)
{
	struct device *dev = q->s->dev;
	uint32_t rqpn = m->attr_mask & QP_DEST_QPN ? m->attr.dest_qp_num : q->qp->attr.dest_qp_num;
	int rc;

	memset(path, 0, sizeof(*path));
	rc = net_path(&dev->net, ah, q->qp->qpn, rqpn, &path->wire, &path->loopback, path->hop);
	path->path_ok = rc == 0;
	if (rc == -EINPROGRESS)
		rc = 0;
	return -rc;
}

int
qp_obj_modify(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_modify_qp_req *m = req->body;
	struct obj_qp *q = idtab_get(&s->qps, m->handle);
	struct qp_limits lim;
	struct qp_path path, alt;
	struct modify_call c = {.q = q, .req = m, .lim = &lim};
	int rc;

	if (q == NULL)
		return ENOENT;
	device_limits(s->dev, &lim);
	rc = qp_modify_check(q->qp, m->attr_mask, &m->attr, &lim);
	if (rc == 0 && (m->attr_mask & QP_AV)) {
		c.path = &path;
		rc = qp_find_path(q, m, &m->attr.ah, &path);
	}
	if (rc == 0 && (m->attr_mask & QP_ALT_PATH)) {
		c.alt = &alt;
		rc = qp_find_path(q, m, &m->attr.alt_ah, &alt);
	}
	if (rc != 0)
		return rc;
	worker_call(obj_qp_worker(q), modify_on_worker, &c);
	/* The QP goes on at once; its first packets wait for the neighbour's answer. */
	if (c.rc == 0 && c.path != NULL && !path.path_ok)
		neigh_ask(s->dev, path.hop);
	if (c.rc == 0 && c.alt != NULL && !alt.path_ok)
		neigh_ask(s->dev, alt.hop);
	return c.rc;
}

struct query_call {
	const struct qp *qp;
	struct uroce_qp_attr *attr;
};

static void
query_on_worker(struct worker *w, void *arg)
{
	struct query_call *c = arg;

	qp_query(c->qp, c->attr);
}

int
qp_obj_query(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct uroce_query_qp_rep *rep = rp->body;
	struct obj_qp *q = idtab_get(&s->qps, h->handle);
	struct query_call c;

	if (q == NULL)
		return ENOENT;
	c = (struct query_call){q->qp, &rep->attr};
	worker_call(obj_qp_worker(q), query_on_worker, &c);
	rep->qp_type = q->qp->type;
	rep->sq_sig_all = q->qp->sig_all;
	return 0;
}

struct resolve_call {
	struct qp *qp;
	const uint8_t *ip, *mac;
};

static void
resolve_on_worker(struct worker *w, void *arg)
{
	struct resolve_call *c = arg;

	qp_neigh_resolved(&worker_engine(w)->env, c->qp, c->ip, c->mac);
}

void
qp_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6])
{
	struct obj_qp *q;

	TAILQ_FOREACH (q, &dev->qps, dev_link) {
		struct resolve_call c = {q->qp, ip, mac};

		/* Which of the two is in use by now the worker knows. */
		if (memcmp(q->hop, ip, 16) == 0 || memcmp(q->alt_hop, ip, 16) == 0)
			worker_call(obj_qp_worker(q), resolve_on_worker, &c);
	}
}

struct gid_gone_call {
	struct device *dev;
	uint32_t index;
};

static void
gid_gone_on_worker(struct worker *w, void *arg)
{
	struct gid_gone_call *c = arg;
	struct obj_qp *q;

	TAILQ_FOREACH (q, &c->dev->qps, dev_link) {
		if (q->qp->worker != worker_index(w) || !q->qp->alt_loaded ||
		    q->qp->attr.alt_ah.sgid_index != c->index)
			continue;
		qp_alt_lost(q->qp);
		note_hops(q);
	}
}

void
qp_gid_gone(struct device *dev, uint32_t index)
{
	struct gid_gone_call c = {dev, index};

	worker_call_all(dev->d->workers, gid_gone_on_worker, &c);
}
