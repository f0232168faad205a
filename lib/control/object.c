/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/object.h"

#include <errno.h>
#include <stdlib.h>
#include "control/session.h"

static struct idtab *
table_of(const struct object_kind *k, struct session *s)
{
	return (struct idtab *)((char *)s + k->table);
}

int
object_add(const struct object_kind *k, struct object *o, struct session *s, struct obj_pd *pd)
{
	if (quota_take(s->user, k->quota, 1) < 0)
		return -ENOMEM;
	if (idtab_add(table_of(k, s), o, &o->handle) < 0) {
		quota_give(s->user, k->quota, 1);
		return -ENOMEM;
	}
	o->s = s;
	o->pd = pd;
	if (pd != NULL)
		pd->o.refs++;
	return 0;
}

static void
give_back(const struct object_kind *k, struct object *o)
{
	if (o->pd != NULL)
		o->pd->o.refs--;
	quota_give(o->s->user, k->quota, 1);
}

void
object_drop(const struct object_kind *k, struct object *o)
{
	give_back(k, o);
	idtab_undo(table_of(k, o->s), o->handle);
}

void
object_free(const struct object_kind *k, struct object *o)
{
	if (k->release != NULL)
		k->release(o);
	give_back(k, o);
	idtab_del(table_of(k, o->s), o->handle);
	free(o);
}

/* Frees an object that no worker uses any more and replies to its client. */
static void
on_unused(struct defer *df)
{
	struct object *o = WATCH_OF(df, struct object, defer);
	struct session *s = o->s;

	object_free(o->kind, o);
	session_answer_later(s, 0, NULL);
}

int
object_destroy(const struct object_kind *k, struct session *s, uint32_t handle)
{
	struct object *o = idtab_get(table_of(k, s), handle);

	if (o == NULL)
		return ENOENT;
	if (o->refs != 0)
		return EBUSY;
	if (k->hide == NULL) {
		object_free(k, o);
		return 0;
	}
	o->hidden = true;
	k->hide(o);
	o->kind = k;
	o->defer = (struct defer){.then = on_unused};
	if (k->leave != NULL) {
		o->defer.job = k->leave(o);
		o->defer.njobs = 1;
	}
	if (!defer_begin(s->d, &o->defer)) {
		s->later.defer = &o->defer;
		return CTRL_LATER;
	}
	object_free(k, o);
	return 0;
}

bool
object_hide_some(const struct object_kind *k, struct session *s, uint32_t *pos, int *steps)
{
	struct object *o;

	while ((o = idtab_step(table_of(k, s), pos, steps)) != NULL) {
		if (!o->hidden)
			k->hide(o);
		o->hidden = true;
		*steps -= OBJECT_STEPS;
	}
	return *steps > 0;
}

bool
object_free_some(const struct object_kind *k, struct session *s, uint32_t *pos, int *steps)
{
	struct object *o;

	while ((o = idtab_step(table_of(k, s), pos, steps)) != NULL) {
		object_free(k, o);
		*steps -= OBJECT_STEPS;
	}
	return *steps > 0;
}
