/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: modify, query, and next hops of their paths. The control thread resolves paths; the
 * worker changes the QP, by worker_call.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "qp/migrate.h"
#include "qp/refusal.h"
#include "control/device.h"
#include "control/neigh.h"
#include "control/obj.h"

/* A modify's keys: [0] of the current path, [1] of the alternate one; valid[i]: set. */
struct conn_keys {
	struct conn_key key[2];
	bool valid[2];
};

struct modify_call {
	struct obj_qp *q;
	const struct uroce_modify_qp_req *req;
	const struct qp_limits *lim;
	struct qp_path *path; /* NULL without an address vector */
	struct qp_path *alt;  /* NULL without an alternate path */
	uint32_t dest_qpn;    /* peer of both paths */
	struct conn_keys now; /* keys of the QP afterwards */
	bool rtr;             /* the QP goes to RTR .. */
	enum qp_sr_state sr;  /* .. and begins with this */
	uint8_t peer_buffer;  /* for qp_sr_told */
	int rc;
	struct qp_refusal why; /* if rc is not 0 and qp_modify_check said so */
};

static void
conn_key_set(struct conn_key *key, const struct obj_qp *q, const uint8_t sgid[16],
	     const uint8_t dgid[16], uint32_t dest_qpn)
{
	memcpy(key->sgid, sgid, 16);
	memcpy(key->dgid, dgid, 16);
	key->dest_qpn = dest_qpn;
	key->dev = q->o.s->dev->port.id;
}

/* On the worker: copies the addresses that the QP uses now. */
static void
note_conn_keys(struct conn_keys *t, const struct obj_qp *q)
{
	const struct qp *qp = q->qp;

	t->valid[0] = qp->conn.type != QP_TYPE_UD && qp->conn.state != QP_RESET &&
		      qp->conn.state != QP_INIT;
	t->valid[1] = t->valid[0] && qp->conn.alt_loaded;
	conn_key_set(&t->key[0], q, qp->conn.sgid, qp->conn.dgid, qp->conn.attr.dest_qp_num);
	conn_key_set(&t->key[1], q, qp->conn.alt.wire.sgid, qp->conn.alt.wire.dgid,
		     qp->conn.attr.dest_qp_num);
}

static uint64_t
gid_slot(const struct uroce_ah_attr *ah)
{
	return ah->is_global && ah->sgid_index < UROCE_MAX_GIDS ? 1ull << ah->sgid_index : 0;
}

/* On the worker. The QP may have migrated to its alternate path since the last call. */
static void
note_paths(struct obj_qp *q)
{
	const struct qp *qp = q->qp;

	memcpy(q->hop, qp->conn.hop, sizeof(q->hop));
	memcpy(q->alt_hop, qp->conn.alt.hop, sizeof(q->alt_hop));
	q->path_ok = qp->conn.path_ok;
	q->alt_path_ok = qp->conn.alt.path_ok;
	q->gid_slots = gid_slot(&qp->conn.attr.ah) | gid_slot(&qp->conn.attr.alt_ah);
}

/* On the worker: checks the modify and returns the QPN that its paths lead to. */
static void
check_on_worker(struct worker *w, void *arg)
{
	struct modify_call *c = arg;
	const struct qp *qp = c->q->qp;

	c->rc = qp_modify_check(qp, c->req->attr_mask, &c->req->attr, c->lim, &c->why);
	c->dest_qpn = c->req->attr_mask & QP_DEST_QPN ? c->req->attr.dest_qp_num
						      : qp->conn.attr.dest_qp_num;
}

static void
modify_on_worker(struct worker *w, void *arg)
{
	struct modify_call *c = arg;
	struct qp_env *env = &worker_engine(w)->env;
	struct qp *qp = c->q->qp;

	qp_env_serve(env, qp->bind.run_user);
	/* Again: a packet may have moved the QP to the error state since check_on_worker. */
	c->rc = qp_modify_check(qp, c->req->attr_mask, &c->req->attr, c->lim, &c->why);
	if (c->rc == 0) {
		if (c->req->attr_mask & QP_STATE && c->req->attr.qp_state != QP_RTS)
			engine_last_ack(worker_engine(w), env->now_ns, qp);
		qp_modify_apply(env, qp, c->req->attr_mask, &c->req->attr, c->path, c->alt);
		qp_env_flush(env);
		if (c->rtr) {
			qp_sr_set(env->sr, qp,
				  qp->bind.plain & QP_PLAIN_TIMERS ? QP_SR_OFF : c->sr);
			qp_sr_told(qp, c->peer_buffer);
		}
		note_paths(c->q);
	}
	note_conn_keys(&c->now, c->q);
}

/* Resolves the address vector ah for c's QP. Returns 0 or a positive errno. */
static int
qp_find_path(const struct modify_call *c, const struct uroce_ah_attr *ah, struct qp_path *path)
{
	const struct obj_qp *q = c->q;
	int rc;

	memset(path, 0, sizeof(*path));
	rc = net_path(&q->o.s->dev->net, ah, q->qp->conn.qpn, c->dest_qpn, &path->wire,
		      &path->loopback, path->hop);
	path->path_ok = rc == 0;
	if (rc == -EINPROGRESS)
		rc = 0;
	return -rc;
}

/* Writes the reason of a refused modify to why, if one is known. */
static void
say_why(const struct modify_call *c, char why[UROCE_CTRL_MAX_WHY])
{
	const struct uroce_modify_qp_req *m = c->req;
	char what[32], text[UROCE_CTRL_MAX_WHY - sizeof(what)];

	snprintf(what, sizeof(what), "QP %u: ", c->q->qp->conn.qpn);
	if (c->why.why == QP_REFUSED_NOT || c->why.why == QP_REFUSED_PATH) {
		if (m->attr_mask & QP_AV)
			neigh_why(c->q->o.s, &m->attr.ah, what, why);
		if (*why == '\0' && (m->attr_mask & QP_ALT_PATH))
			neigh_why(c->q->o.s, &m->attr.alt_ah, what, why);
		return;
	}
	qp_refusal_print(&c->why, text, sizeof(text));
	snprintf(why, UROCE_CTRL_MAX_WHY, "%s%s", what, text);
}

/* Tells the workers that q is, or no longer is, connected to a host. */
static void
note_host(const struct obj_qp *q, bool connected)
{
	if (q->conn_key[0] != NULL)
		worker_host_connected(q->o.s->d->workers, q->conn_key[0]->key.dgid, connected);
}

void
qp_conn_keys_unref(struct obj_qp *q)
{
	note_host(q, false);
	for (unsigned i = 0; i < 2; i++) {
		conn_key_unref(q->conn_key[i]);
		q->conn_key[i] = NULL;
	}
}

/*
 * References the keys of a modify's paths. They must not belong to another uid: the peer would
 * take the QP for that user's QP (conn_key.h). Returns 0, or a positive errno and why.
 */
static int
ref_conn_keys(struct obj_qp *q, const struct uroce_modify_qp_req *m, const struct modify_call *c,
	      struct used_key *claim[2], char why[UROCE_CTRL_MAX_WHY])
{
	const struct qp_path *path[2] = {c->path, c->alt};
	struct session *s = q->o.s;

	for (unsigned i = 0; i < 2; i++) {
		struct conn_key key;
		struct used_key *o;
		int rc;

		if (path[i] == NULL || q->qp->conn.type == QP_TYPE_UD)
			continue;
		conn_key_set(&key, q, path[i]->wire.sgid, path[i]->wire.dgid, c->dest_qpn);
		rc = conn_key_ref(&s->d->conn_keys, &key, quota_who(s->user, s->peer.uid), &o);
		if (rc == 0) {
			claim[i] = o;
			continue;
		}
		if (rc == -EADDRINUSE)
			snprintf(why, UROCE_CTRL_MAX_WHY,
				 "a QP of uid %u sends from GID index %u of %s to QPN %u of the "
				 "same GID already; uid %u may not pose as it: destroy that QP, or "
				 "use another source GID",
				 o->uid, i == 0 ? m->attr.ah.sgid_index : m->attr.alt_ah.sgid_index,
				 s->dev->name, c->dest_qpn, s->peer.uid);
		return -rc;
	}
	return 0;
}

/* Keeps the references to keys that the QP uses now, old and new ones; releases the others. */
static void
settle_conn_keys(struct obj_qp *q, const struct conn_keys *now, struct used_key *claim[2])
{
	struct used_key *old[4] = {q->conn_key[0], q->conn_key[1], claim[0], claim[1]};

	note_host(q, false);
	q->conn_key[0] = q->conn_key[1] = NULL;
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < 4 && now->valid[i] && q->conn_key[i] == NULL; k++) {
			if (old[k] == NULL || !conn_key_is(old[k], &now->key[i]))
				continue;
			q->conn_key[i] = old[k];
			old[k] = NULL;
		}
	}
	note_host(q, true);
	for (unsigned k = 0; k < 4; k++)
		conn_key_unref(old[k]);
}

#define QKEY_CONTROLLED (1u << 31) /* QP1's, for example */

/*
 * Datagrams with a controlled Q_Key are trusted to come from the system, such as MADs between
 * QP1s. The kernel asks for CAP_NET_RAW. A WR cannot carry one (lib/requester/datagram.c).
 */
static int
check_qkey(const struct session *s, const struct uroce_modify_qp_req *m, struct ctrl_rep *rp)
{
	if (!(m->attr_mask & QP_QKEY) || !(m->attr.qkey & QKEY_CONTROLLED) || s->user->privileged)
		return 0;
	return ctrl_refuse(rp, EPERM,
			   "qkey is 0x%x: only root with CAP_NET_ADMIN and the daemon's user may "
			   "use a controlled "
			   "Q_Key (the high bit is set)",
			   m->attr.qkey);
}

int
qp_obj_modify(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_modify_qp_req *m = req->body;
	struct obj_qp *q = idtab_get(&s->qps, m->handle);
	struct qp_limits lim;
	struct qp_path path, alt;
	struct modify_call c = {.q = q, .req = m, .lim = &lim};
	struct used_key *claim[2] = {NULL, NULL};
	int rc;

	if (q == NULL)
		return ENOENT;
	rc = check_qkey(s, m, rp);
	if (rc != 0)
		return rc;
	device_limits(s->dev, &lim);
	worker_call_qp(s->d->workers, q->qp, check_on_worker, &c);
	rc = c.rc;
	if (rc == 0 && (m->attr_mask & QP_AV)) {
		c.path = &path;
		rc = qp_find_path(&c, &m->attr.ah, &path);
	}
	if (rc == 0 && (m->attr_mask & QP_ALT_PATH)) {
		c.alt = &alt;
		rc = qp_find_path(&c, &m->attr.alt_ah, &alt);
	}
	if (rc != 0) {
		say_why(&c, rp->why);
		return rc;
	}
	rc = ref_conn_keys(q, m, &c, claim, rp->why);
	if (rc != 0) {
		conn_key_unref(claim[0]);
		conn_key_unref(claim[1]);
		return rc;
	}
	if (c.path != NULL && (m->attr_mask & QP_STATE) && m->attr.qp_state == QP_RTR &&
	    q->qp->conn.type == QP_TYPE_RC && !path.loopback) {
		c.rtr = true;
		c.sr = sr_peer_state(s->dev, path.wire.sgid, path.wire.dgid, &c.peer_buffer);
	}
	worker_call_qp(s->d->workers, q->qp, modify_on_worker, &c);
	if (c.rc != 0)
		say_why(&c, rp->why);
	settle_conn_keys(q, &c.now, claim);
	if (c.rc == 0 && c.rtr && c.sr == QP_SR_CAN)
		sr_peer_ask(s->dev, path.wire.sgid, path.wire.dgid, s->user->uid);
	/* The QP continues at once; its first packets wait for the neighbour's MAC. */
	if (c.rc == 0 && c.path != NULL && !path.path_ok)
		neigh_ask(s, path.hop);
	if (c.rc == 0 && c.alt != NULL && !alt.path_ok)
		neigh_ask(s, alt.hop);
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
	worker_call_qp(s->d->workers, q->qp, query_on_worker, &c);
	rep->qp_type = q->qp->conn.type;
	rep->sq_sig_all = q->qp->conn.sig_all;
	return 0;
}

static void
batch_run(struct qp_batch *b, struct daemon *d, unsigned w)
{
	b->part[w].arg = b->arg;
	if (b->part[w].n != 0)
		worker_call(worker_get(d->workers, w), b->run, &b->part[w]);
	b->part[w].n = 0;
}

void
qp_batch_add(struct qp_batch *b, struct obj_qp *q)
{
	unsigned w;

	if (!b->begun)
		worker_moves_stop(q->o.s->d->workers);
	b->begun = true;
	w = qp_worker(q->qp);
	b->part[w].q[b->part[w].n++] = q;
	if (b->part[w].n == QP_BATCH_MAX)
		batch_run(b, q->o.s->d, w);
}

void
qp_batch_end(struct qp_batch *b, struct daemon *d)
{
	for (uint32_t w = 0; w < d->nworkers; w++)
		batch_run(b, d, w);
	if (b->begun)
		worker_moves_go(d->workers);
	b->begun = false;
}

struct resolved {
	const uint8_t *ip, *mac;
};

static void
resolve_on_worker(struct worker *w, void *arg)
{
	const struct qp_batch_part *p = arg;
	const struct resolved *r = p->arg;

	/* The QP knows which of its two paths is in use now. */
	for (unsigned i = 0; i < p->n; i++) {
		qp_neigh_resolved(&worker_engine(w)->env, p->q[i]->qp, r->ip, r->mac);
		note_paths(p->q[i]);
	}
}

void
qp_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6])
{
	const struct resolved r = {ip, mac};
	struct qp_batch batch = {.run = resolve_on_worker, .arg = &r};
	struct obj_qp *q;

	TAILQ_FOREACH (q, &dev->qps, dev_link) {
		if (memcmp(q->hop, ip, 16) == 0 || memcmp(q->alt_hop, ip, 16) == 0)
			qp_batch_add(&batch, q);
	}
	qp_batch_end(&batch, dev->d);
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
		if (qp_worker(q->qp) != worker_index(w) || !q->qp->conn.alt_loaded ||
		    q->qp->conn.attr.alt_ah.sgid_index != c->index)
			continue;
		qp_alt_lost(q->qp);
		note_paths(q);
	}
}

void
qp_gid_gone(struct device *dev, uint32_t index)
{
	struct gid_gone_call c = {dev, index};

	worker_call_qps(dev->d->workers, gid_gone_on_worker, &c);
}
