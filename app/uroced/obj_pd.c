/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains: an id that every QP and MR of it carries. */
#include <errno.h>
#include <stdlib.h>
#include "session.h"

static void
pd_free(struct obj_pd *pd)
{
	idtab_del(&pd->s->d->pds, pd->id);
	idtab_del(&pd->s->pds, pd->handle);
	free(pd);
}

int
pd_alloc(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_handle *rep = rp->body;
	struct obj_pd *pd = calloc(1, sizeof(*pd));

	if (pd == NULL)
		return ENOMEM;
	pd->s = s;
	if (idtab_add(&s->d->pds, pd, &pd->id) < 0) {
		free(pd);
		return ENOMEM;
	}
	if (idtab_add(&s->pds, pd, &pd->handle) < 0) {
		idtab_del(&s->d->pds, pd->id);
		free(pd);
		return ENOMEM;
	}
	rep->handle = pd->handle;
	return 0;
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
