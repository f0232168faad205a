/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains: an id that their QPs and MRs carry. */
#include <errno.h>
#include <stdlib.h>
#include "control/obj.h"

void
pd_id_drop(struct daemon *d, struct pd_id *shared)
{
	if (--shared->users > 0)
		return;
	idtab_del(&d->pds, shared->id);
	idtab_free(&shared->windows);
	free(shared);
}

/* Creates an id with one user. NULL: none left. */
static struct pd_id *
pd_id_make(struct daemon *d)
{
	struct pd_id *shared = calloc(1, sizeof(*shared));

	if (shared == NULL || idtab_add(&d->pds, shared, &shared->id) < 0) {
		free(shared);
		return NULL;
	}
	shared->users = 1;
	idtab_init(&shared->windows, IDTAB_MAX);
	return shared;
}

static void
pd_release(struct object *o)
{
	struct obj_pd *pd = (struct obj_pd *)o;

	pd_id_drop(o->s->d, pd->shared);
}

const struct object_kind pd_kind = {
	.table = offsetof(struct session, pds),
	.quota = QUOTA_PDS,
	.release = pd_release,
};

int
pd_make(struct session *s, struct pd_id *shared, uint32_t *handle)
{
	struct obj_pd *pd = calloc(1, sizeof(*pd));

	if (pd == NULL)
		return ENOMEM;
	if (object_add(&pd_kind, &pd->o, s, NULL) < 0)
		goto fail;
	if (shared != NULL)
		shared->users++;
	else
		shared = pd_id_make(s->d);
	if (shared == NULL) {
		object_drop(&pd_kind, &pd->o);
		goto fail;
	}
	pd->shared = shared;
	pd->id = shared->id;
	*handle = pd->o.handle;
	return 0;

fail:
	free(pd);
	return ENOMEM;
}

int
pd_alloc(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_handle *rep = rp->body;

	return pd_make(s, NULL, &rep->handle);
}
