/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: the client's memory made reachable (ipc/mrmap.h), and the key that names it. */
#include <errno.h>
#include <stdlib.h>
#include "ipc/mrmap.h"
#include "ipc/sigbus.h"
#include "log.h"
#include "session.h"

/* Rights that mean something here; the optional ones (relaxed ordering and such) are hints. */
#define ACCESS_KNOWN                                                                               \
	(MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_MW_BIND |  \
	 MEM_ZERO_BASED)
#define ACCESS_HUGETLB  (1u << 7) /* IBV_ACCESS_HUGETLB: where the pages are from is no matter */
#define ACCESS_OPTIONAL 0x3ff00000u

static int
check_access(uint32_t access)
{
	if (access & ~(ACCESS_KNOWN | ACCESS_HUGETLB | ACCESS_OPTIONAL))
		return EOPNOTSUPP;
	/* who lets others write must be able to write himself */
	if ((access & (MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)) && !(access & MEM_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

static int
mr_check(const struct uroce_reg_mr_req *q)
{
	if (q->npieces > UROCE_MR_MAX_PIECES || q->addr + q->length < q->addr ||
	    q->iova + q->length < q->iova)
		return EINVAL;
	return check_access(q->access);
}

/* The region as workers will see it. */
static void
mr_describe(struct obj_mr *m, const struct uroce_reg_mr_req *q)
{
	m->mr.iova = q->iova;
	m->mr.len = q->length;
	m->mr.host = mrmap_host(m->map);
	m->mr.va = q->addr;
	m->mr.ops = &mrmap_copy_ops;
	m->mr.ops_ctx = m->map;
	m->mr.pd = m->pd->id;
	m->mr.access = q->access & ACCESS_KNOWN;
}

/* Out of the key table, and back. One whose memory is lost is out for good. */
static void
mr_hide(struct obj_mr *m)
{
	if (!m->lost)
		mr_table_del(&m->s->d->mrs, &m->mr);
}

static void
mr_show(struct obj_mr *m)
{
	if (!m->lost)
		mr_table_restore(&m->s->d->mrs, &m->mr);
}

/* Nobody can look it up any more, and no worker holds it from an earlier look-up. */
static void
mr_free(struct obj_mr *m)
{
	mrmap_destroy(m->map);
	m->pd->refs--;
	m->s->d->nmrs--;
	idtab_del(&m->s->mrs, m->handle);
	free(m);
}

/* Handle and key; on success the region is in use. */
static int
mr_publish(struct session *s, struct obj_mr *m)
{
	if (s->d->nmrs >= s->d->opt->max_mrs || idtab_add(&s->mrs, m, &m->handle) < 0)
		return ENOMEM;
	if (mr_table_add(&s->d->mrs, &m->mr, random_u32()) < 0) {
		idtab_del(&s->mrs, m->handle);
		return ENOMEM;
	}
	m->pd->refs++;
	s->d->nmrs++;
	return 0;
}

int
mr_reg(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_reg_mr_req *q = req->body;
	struct uroce_reg_mr_rep *rep = rp->body;
	struct obj_mr *m;
	int rc = mr_check(q);

	if (rc != 0)
		return rc;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return ENOMEM;
	m->s = s;
	m->pd = idtab_get(&s->pds, q->pd);
	if (m->pd == NULL) {
		rc = ENOENT;
		goto fail;
	}
	rc = -mrmap_create(s->peer.pid, s->peer.pidfd, s->peer.uid, q, req->fds, req->nfds,
			   &m->map);
	if (rc != 0)
		goto fail;
	mr_describe(m, q);
	rc = mr_publish(s, m);
	if (rc != 0)
		goto fail;
	rep->handle = m->handle;
	rep->lkey = rep->rkey = m->mr.key;
	rep->path = (uint32_t)mrmap_path(m->map);
	return 0;

fail:
	mrmap_destroy(m->map);
	free(m);
	return rc;
}

#define REREG_TRANSLATION 1 /* enum ibv_rereg_mr_flags */
#define REREG_PD          2
#define REREG_ACCESS      4

/* Change a region that is out of the table, and bring it back (MEM-04): peers hold its key. */
static void
mr_change(struct obj_mr *m, struct obj_pd *pd, const struct uroce_reg_mr_req *q, struct mrmap *map)
{
	struct mrmap *old = m->map;

	m->pd->refs--;
	pd->refs++;
	m->pd = pd;
	m->mr.pd = pd->id;
	if (map != NULL) {
		m->map = map;
		mr_describe(m, q);
		mrmap_destroy(old);
		m->lost = false;
	}
	mr_show(m);
}

/*
 * Change translation, PD or access. A change of translation or access brings the description of the
 * memory with it: rights decide how it is mapped here. What fails changes nothing.
 */
int
mr_rereg(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_rereg_mr_req *q = req->body;
	struct uroce_reg_mr_rep *rep = rp->body;
	struct obj_mr *m = idtab_get(&s->mrs, q->handle);
	struct obj_pd *pd = m != NULL ? m->pd : NULL;
	struct mrmap *map = NULL;
	int rc = 0;

	if (m == NULL)
		return ENOENT;
	if (q->flags == 0 || (q->flags & ~(REREG_TRANSLATION | REREG_PD | REREG_ACCESS)))
		return EINVAL;
	if (q->flags & REREG_PD) {
		pd = idtab_get(&s->pds, q->reg.pd);
		if (pd == NULL)
			return ENOENT;
	}
	if (q->flags & (REREG_TRANSLATION | REREG_ACCESS)) {
		rc = mr_check(&q->reg);
		if (rc == 0)
			rc = -mrmap_create(s->peer.pid, s->peer.pidfd, s->peer.uid, &q->reg,
					   req->fds, req->nfds, &map);
		if (rc != 0)
			return rc;
	}
	mr_hide(m);
	worker_quiesce(s->d->workers);
	if (__atomic_load_n(&m->mr.windows, __ATOMIC_RELAXED) != 0) {
		mr_show(m);
		mrmap_destroy(map);
		return EBUSY;
	}
	mr_change(m, pd, &q->reg, map);
	rep->handle = m->handle;
	rep->lkey = rep->rkey = m->mr.key;
	rep->path = (uint32_t)mrmap_path(m->map);
	return 0;
}

int
mr_dereg(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct obj_mr *m = idtab_get(&s->mrs, h->handle);

	if (m == NULL)
		return ENOENT;
	if (__atomic_load_n(&m->mr.windows, __ATOMIC_RELAXED) != 0)
		return EBUSY;
	mr_hide(m);
	worker_quiesce(s->d->workers);
	/* A bind that was under way on a worker came first. */
	if (__atomic_load_n(&m->mr.windows, __ATOMIC_RELAXED) != 0) {
		mr_show(m);
		return EBUSY;
	}
	mr_free(m);
	return 0;
}

void
mr_detach_all(struct session *s)
{
	struct obj_mr *m;
	uint32_t pos = 0;

	while ((m = idtab_next(&s->mrs, &pos)) != NULL)
		mr_hide(m);
}

static void
session_sweep_lost(struct session *s)
{
	struct obj_mr *m;
	uint32_t pos = 0;

	while ((m = idtab_next(&s->mrs, &pos)) != NULL) {
		if (m->lost || !mrmap_failed(m->map))
			continue;
		mr_hide(m);
		m->lost = true;
		LOG(NOTICE,
		    "client %u: the memory of region 0x%x is gone; its key fails from now on",
		    s->id, m->mr.key);
	}
}

void
mr_sweep_lost(struct daemon *d)
{
	uint64_t failures = sigbus_guard_failures();
	struct session *s;

	if (failures == d->mr_failures)
		return;
	d->mr_failures = failures;
	TAILQ_FOREACH (s, &d->sessions, link) {
		if (s->state == IPC_STATE_CONTEXT)
			session_sweep_lost(s);
	}
}

void
mr_free_all(struct session *s)
{
	struct obj_mr *m;
	uint32_t pos = 0;

	while ((m = idtab_next(&s->mrs, &pos)) != NULL)
		mr_free(m);
}
