/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains: an id that their QPs and MRs carry. */
#include <errno.h>
#include <stdlib.h>
#include "control/obj.h"
#include <string.h>
#include <sys/random.h>
#include "control/device.h"

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

/*
 * Sharing of PDs and regions between contexts. A token grants access to what it names, like the
 * kernel's command descriptor. It is random, so that nobody can guess it.
 */

int
context_export(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_export_rep *rep = rp->body;

	if (!s->exported && getrandom(s->token, sizeof(s->token), 0) != (ssize_t)sizeof(s->token))
		return EAGAIN;
	s->exported = true;
	memcpy(rep->token, s->token, sizeof(rep->token));
	return 0;
}

/* Compares in constant time. */
static bool
token_is(const uint8_t a[UROCE_TOKEN_BYTES], const uint8_t b[UROCE_TOKEN_BYTES])
{
	uint8_t differ = 0;

	for (unsigned i = 0; i < UROCE_TOKEN_BYTES; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}

/* Returns the context of a token on the same device as s; NULL: none. */
static struct session *
exporter(const struct session *s, const uint8_t token[UROCE_TOKEN_BYTES])
{
	struct session *o, *found = NULL;

	TAILQ_FOREACH (o, &s->d->sessions, link) {
		if (o->state == IPC_STATE_CONTEXT && o->exported && o->dev == s->dev &&
		    token_is(o->token, token))
			found = o;
	}
	return found;
}

int
pd_import(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_import_req *q = req->body;
	struct uroce_handle *rep = rp->body;
	struct session *owner = exporter(s, q->token);
	struct obj_pd *pd = owner != NULL ? idtab_get(&owner->pds, q->handle) : NULL;

	if (pd == NULL)
		return ENOENT;
	return pd_make(s, pd->shared, &rep->handle);
}

int
mr_import(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_import_req *q = req->body;
	struct uroce_import_mr_rep *rep = rp->body;
	struct session *owner = exporter(s, q->token);
	struct obj_mr *m = owner != NULL ? idtab_get(&owner->mrs, q->handle) : NULL;
	struct obj_pd *pd = idtab_get(&s->pds, q->pd);

	if (m == NULL || pd == NULL)
		return ENOENT;
	if (m->o.pd->shared != pd->shared)
		return ctrl_refuse(rp, EINVAL, "the region belongs to another PD");
	rep->lkey = rep->rkey = m->mr.key;
	rep->length = m->mr.len;
	return 0;
}
