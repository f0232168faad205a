/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: entries of the key table that binds on the workers fill in (mem/mw.c). */
#include <errno.h>
#include <stdlib.h>
#include "control/obj.h"

#define MW_TYPE_1    1 /* enum ibv_mw_type */
#define MW_TYPE_2    2

#define WINDOW_STEPS 4 /* of a walk: looks at a window, but rarely changes it */

/* Hides m from workers, if it is not hidden. Its binding stays. */
static void
mw_turn_off(struct obj_mw *m)
{
	struct daemon *d = m->o.s->d;

	if (m->off != 0)
		return;
	mr_table_hide(&d->mrs, &m->mr);
	m->off = ++d->mw_hidden;
}

static void
mw_hide(struct object *o)
{
	mw_turn_off((struct obj_mw *)o);
}

static void
mw_leave(struct object *o)
{
	struct obj_mw *m = (struct obj_mw *)o;

	mr_table_del(&o->s->d->mrs, &m->mr);
	mw_unbind(&m->mr);
	idtab_del(&o->pd->shared->windows, m->at);
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
	if (idtab_add(&pd->shared->windows, m, &m->at) < 0)
		goto fail_object;
	if (daemon_mr_add(s->d, &m->mr) < 0)
		goto fail_window;
	rep->handle = m->o.handle;
	rep->rkey = m->mr.key;
	return 0;

fail_window:
	idtab_del(&pd->shared->windows, m->at);
fail_object:
	object_drop(&mw_kind, &m->o);
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

static bool
mw_turn_off_if_it_must_go(struct obj_mw *m)
{
	if (!mw_must_go(m))
		return false;
	mw_turn_off(m);
	return true;
}

/*
 * Keeps the key: the window's owner may bind it again. A window that was hidden later may still be
 * in use.
 */
static void
mw_unbind_and_show(struct obj_mw *m, uint64_t hidden)
{
	if (m->off == 0 || m->off > hidden)
		return;
	/* A bind in progress when it was hidden may have bound it to another region. */
	if (mw_must_go(m))
		mw_unbind(&m->mr);
	if (m->o.hidden)
		return;
	m->off = 0;
	mr_table_show(&m->o.s->d->mrs, &m->mr);
}

bool
mw_hide_of(struct pd_id *pd)
{
	struct obj_mw *m;
	uint32_t pos = 0;
	bool any = false;

	while ((m = idtab_next(&pd->windows, &pos)) != NULL)
		any |= mw_turn_off_if_it_must_go(m);
	return any;
}

void
mw_unbind_of(struct pd_id *pd, uint64_t hidden)
{
	struct obj_mw *m;
	uint32_t pos = 0;

	while ((m = idtab_next(&pd->windows, &pos)) != NULL)
		mw_unbind_and_show(m, hidden);
}

void
mw_walk_begin(struct daemon *d, struct mw_walk *walk)
{
	*walk = (struct mw_walk){.number = ++d->mw_walks};
}

bool
mw_walk_again(struct daemon *d, struct mw_walk *walk)
{
	bool any = walk->any;

	/* windows that are hidden from now on may be in use after the caller's wait */
	*walk = (struct mw_walk){.number = ++d->mw_walks, .hidden = d->mw_hidden};
	return any;
}

/*
 * Returns the next window of the walk; NULL: no more, or *steps is used up. Windows may come and go
 * between slices: one that is made meanwhile cannot be bound to a hidden region.
 */
static struct obj_mw *
mw_next(struct session *s, struct mw_walk *walk, int *steps)
{
	for (;;) {
		const struct obj_pd *pd;
		struct obj_mw *m = walk->shared == NULL
					   ? NULL
					   : idtab_step(&walk->shared->windows, &walk->at, steps);

		*steps -= WINDOW_STEPS;
		if (m != NULL || *steps <= 0)
			return m;
		walk->shared = NULL;
		pd = idtab_step(&s->pds, &walk->pd, steps);
		if (pd == NULL)
			return NULL;
		if (pd->shared->walk == walk->number)
			continue;
		pd->shared->walk = walk->number;
		walk->shared = pd->shared;
		walk->at = 0;
	}
}

bool
mw_hide_some(struct session *s, struct mw_walk *walk, int *steps)
{
	struct obj_mw *m;

	while ((m = mw_next(s, walk, steps)) != NULL)
		walk->any |= mw_turn_off_if_it_must_go(m);
	return *steps > 0;
}

bool
mw_unbind_some(struct session *s, struct mw_walk *walk, int *steps)
{
	struct obj_mw *m;

	while ((m = mw_next(s, walk, steps)) != NULL)
		mw_unbind_and_show(m, walk->hidden);
	return *steps > 0;
}
