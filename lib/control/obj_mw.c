/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: entries of the key table that binds on the workers fill in (mem/mw.c). */
#include <errno.h>
#include <stdlib.h>
#include "control/obj.h"

#define MW_TYPE_1 1 /* enum ibv_mw_type */
#define MW_TYPE_2 2

/* Hides m from workers, if it is not hidden. Its binding stays. */
static void
mw_turn_off(struct obj_mw *m, uint64_t release)
{
	if (m->off != 0)
		return;
	mr_table_hide(&m->o.s->d->mrs, &m->mr);
	m->off = release;
}

static void
mw_hide(struct object *o)
{
	struct obj_mw *m = (struct obj_mw *)o;

	mw_turn_off(m, ++o->s->d->mw_releases);
}

static void
mw_leave(struct object *o)
{
	struct obj_mw *m = (struct obj_mw *)o;

	mr_table_del(&o->s->d->mrs, &m->mr);
	mw_unbind(&m->mr);
}

const struct object_kind mw_kind = {
	.table = offsetof(struct session, mws),
	.quota = QUOTA_MRS,
	.hide = mw_hide,
	.release = mw_leave,
};

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
		return ctrl_refuse(rp, EINVAL, "type is %u, not %u or %u", q->type, MW_TYPE_1,
				   MW_TYPE_2);
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return ENOMEM;
	m->mr.pd = pd->id;
	m->mr.kind = q->type == MW_TYPE_1 ? MR_WINDOW_1 : MR_WINDOW_2;
	if (object_add(&mw_kind, &m->o, s, pd) < 0)
		goto fail;
	if (daemon_mr_add(s->d, &m->mr) < 0) {
		object_drop(&mw_kind, &m->o);
		goto fail;
	}
	rep->handle = m->o.handle;
	rep->rkey = m->mr.key;
	return 0;

fail:
	free(m);
	return ENOMEM;
}

/*
 * Returns true if m is bound to a region that ends, or whose memory is lost. Workers may be
 * changing the window.
 */
static bool
mw_must_go(const struct obj_mw *m)
{
	const struct mr *parent = __atomic_load_n(&m->mr.parent, __ATOMIC_RELAXED);
	const struct obj_mr *region;

	if (parent == NULL)
		return false;
	region = (const struct obj_mr *)((const char *)parent - offsetof(struct obj_mr, mr));
	return region->going || region->lost;
}

typedef bool mw_visit(struct obj_mw *m, uint64_t release);

static bool
mw_each_of(struct session_list *list, mw_visit *visit, uint64_t release)
{
	struct session *s;
	bool any = false;

	TAILQ_FOREACH (s, list, link) {
		struct obj_mw *m;
		uint32_t pos = 0;

		while (s->state == IPC_STATE_CONTEXT && (m = idtab_next(&s->mws, &pos)) != NULL)
			any |= visit(m, release);
	}
	return any;
}

/* Visits all windows of all sessions, ending ones included. Returns true if visit did for any. */
static bool
mw_each(struct daemon *d, mw_visit *visit, uint64_t release)
{
	bool any = mw_each_of(&d->sessions, visit, release);

	return mw_each_of(&d->ending, visit, release) || any;
}

static bool
mw_turn_off_if_it_must_go(struct obj_mw *m, uint64_t release)
{
	if (!mw_must_go(m))
		return false;
	mw_turn_off(m, release);
	return true;
}

/*
 * Keeps the key: the window's owner may bind it again. A window that was hidden for a later release
 * may still be in use.
 */
static bool
mw_unbind_and_show(struct obj_mw *m, uint64_t release)
{
	if (m->off == 0 || m->off > release)
		return false;
	/* A bind in progress when it was hidden may have bound it to another region. */
	if (mw_must_go(m))
		mw_unbind(&m->mr);
	if (m->o.hidden)
		return true;
	m->off = 0;
	mr_table_show(&m->o.s->d->mrs, &m->mr);
	return true;
}

uint64_t
mw_release_begin(struct daemon *d)
{
	uint64_t release = ++d->mw_releases;

	return mw_each(d, mw_turn_off_if_it_must_go, release) ? release : 0;
}

void
mw_release_end(struct daemon *d, uint64_t release)
{
	mw_each(d, mw_unbind_and_show, release);
}
