/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains: an id that every QP and MR of it carries. */
#include <errno.h>
#include <stdlib.h>
#include "control/obj.h"

static void
pd_id_drop(struct daemon *d, struct pd_id *shared)
{
	if (--shared->users > 0)
		return;
	idtab_del(&d->pds, shared->id);
	free(shared);
}

/* With one user, to be dropped. NULL: none left. */
static struct pd_id *
pd_id_make(struct daemon *d)
{
	struct pd_id *shared = calloc(1, sizeof(*shared));

	if (shared == NULL || idtab_add(&d->pds, shared, &shared->id) < 0) {
		free(shared);
		return NULL;
	}
	shared->users = 1;
	return shared;
}

static void
pd_free(struct obj_pd *pd)
{
	quota_give(pd->s->user, QUOTA_PDS, 1);
	pd_id_drop(pd->s->d, pd->shared);
	idtab_del(&pd->s->pds, pd->handle);
	free(pd);
}

int
pd_make(struct session *s, struct pd_id *shared, uint32_t *handle)
{
	struct obj_pd *pd = calloc(1, sizeof(*pd));

	if (pd == NULL)
		return ENOMEM;
	if (quota_take(s->user, QUOTA_PDS, 1) < 0) {
		free(pd);
		return ENOMEM;
	}
	if (shared != NULL)
		shared->users++;
	else
		shared = pd_id_make(s->d);
	if (shared == NULL)
		goto fail;
	pd->s = s;
	pd->shared = shared;
	pd->id = shared->id;
	if (idtab_add(&s->pds, pd, &pd->handle) < 0) {
		pd_id_drop(s->d, shared);
		goto fail;
	}
	*handle = pd->handle;
	return 0;

fail:
	quota_give(s->user, QUOTA_PDS, 1);
	free(pd);
	return ENOMEM;
}

int
pd_alloc(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_handle *rep = rp->body;

	return pd_make(s, NULL, &rep->handle);
}

int
pd_dealloc(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct obj_pd *pd = idtab_get(&s->pds, h->handle);

	if (pd == NULL)
		return ENOENT;
	if (pd->refs != 0)
		return EBUSY;
	pd_free(pd);
	return 0;
}

void
pd_free_all(struct session *s)
{
	struct obj_pd *pd;
	uint32_t pos = 0;

	while ((pd = idtab_next(&s->pds, &pos)) != NULL)
		pd_free(pd);
}
