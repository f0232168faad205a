/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: an entry of the key table that binds fill in on the workers (mem/mw.c). */
#include <errno.h>
#include <stdlib.h>
#include "session.h"

#define MW_TYPE_1 1 /* enum ibv_mw_type */
#define MW_TYPE_2 2

static void
mw_free(struct obj_mw *m)
{
	mw_unbind(&m->mr);
	m->pd->refs--;
	m->s->d->nmrs--;
	idtab_del(&m->s->mws, m->handle);
	free(m);
}

int
mw_alloc(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_alloc_mw_req *q = req->body;
	struct uroce_alloc_mw_rep *rep = rp->body;
	struct obj_pd *pd = idtab_get(&s->pds, q->pd);
	struct obj_mw *m;

	if (pd == NULL)
		return ENOENT;
	if (q->type != MW_TYPE_1 && q->type != MW_TYPE_2)
		return EINVAL;
	if (s->d->nmrs >= s->d->opt->max_mrs)
		return ENOMEM;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return ENOMEM;
	m->s = s;
	m->pd = pd;
	m->mr.pd = pd->id;
	m->mr.kind = q->type == MW_TYPE_1 ? MR_WINDOW_1 : MR_WINDOW_2;
	if (idtab_add(&s->mws, m, &m->handle) < 0) {
		free(m);
		return ENOMEM;
	}
	if (mr_table_add(&s->d->mrs, &m->mr, random_u32()) < 0) {
		idtab_del(&s->mws, m->handle);
		free(m);
		return ENOMEM;
	}
	pd->refs++;
	s->d->nmrs++;
	rep->handle = m->handle;
	rep->rkey = m->mr.key;
	return 0;
}

int
mw_dealloc(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct obj_mw *m = idtab_get(&s->mws, h->handle);

	if (m == NULL)
		return ENOENT;
	mr_table_del(&s->d->mrs, &m->mr);
	worker_quiesce(s->d->workers);
	mw_free(m);
	return 0;
}

void
mw_detach_all(struct session *s)
{
	struct obj_mw *m;
	uint32_t pos = 0;

	while ((m = idtab_next(&s->mws, &pos)) != NULL)
		mr_table_del(&s->d->mrs, &m->mr);
}

void
mw_free_all(struct session *s)
{
	struct obj_mw *m;
	uint32_t pos = 0;

	while ((m = idtab_next(&s->mws, &pos)) != NULL)
		mw_free(m);
}
