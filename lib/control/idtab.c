/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/idtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_MASK (IDTAB_MAX - 1)
#define GEN_MASK  ((1u << (31 - IDTAB_SLOT_BITS)) - 1)

void
idtab_init(struct idtab *t, uint32_t max)
{
	memset(t, 0, sizeof(*t));
	t->max = max < IDTAB_MAX ? max : IDTAB_MAX;
}

void
idtab_free(struct idtab *t)
{
	free(t->slot);
	memset(t, 0, sizeof(*t));
}

static int
idtab_grow(struct idtab *t)
{
	uint32_t n = t->nslots != 0 ? 2 * t->nslots : 16;
	struct idtab_slot *slot;

	if (n > t->max)
		n = t->max;
	slot = realloc(t->slot, n * sizeof(*slot));
	if (slot == NULL)
		return -ENOMEM;
	memset(slot + t->nslots, 0, (n - t->nslots) * sizeof(*slot));
	t->slot = slot;
	t->next = t->nslots;
	t->nslots = n;
	return 0;
}

int
idtab_add(struct idtab *t, void *obj, uint32_t *id)
{
	uint32_t i;
	int rc;

	if (t->used >= t->max)
		return -ENOSPC;
	if (t->used == t->nslots) {
		rc = idtab_grow(t);
		if (rc < 0)
			return rc;
	}
	for (i = t->next; t->slot[i].obj != NULL;)
		i = i + 1 < t->nslots ? i + 1 : 0;
	t->next = i + 1 < t->nslots ? i + 1 : 0;
	t->slot[i].obj = obj;
	t->used++;
	*id = t->slot[i].gen << IDTAB_SLOT_BITS | i;
	return 0;
}

static struct idtab_slot *
idtab_find(const struct idtab *t, uint32_t id)
{
	struct idtab_slot *s;

	if ((id & SLOT_MASK) >= t->nslots)
		return NULL;
	s = &t->slot[id & SLOT_MASK];
	return s->obj != NULL && s->gen == id >> IDTAB_SLOT_BITS ? s : NULL;
}

void *
idtab_get(const struct idtab *t, uint32_t id)
{
	const struct idtab_slot *s = idtab_find(t, id);

	return s != NULL ? s->obj : NULL;
}

void
idtab_del(struct idtab *t, uint32_t id)
{
	struct idtab_slot *s = idtab_find(t, id);

	if (s == NULL)
		return;
	s->obj = NULL;
	s->gen = (s->gen + 1) & GEN_MASK;
	t->used--;
}

void
idtab_undo(struct idtab *t, uint32_t id)
{
	uint32_t i = id & SLOT_MASK;

	t->slot[i].obj = NULL;
	t->used--;
	t->next = i;
}

void *
idtab_next(const struct idtab *t, uint32_t *pos)
{
	while (*pos < t->nslots) {
		void *obj = t->slot[(*pos)++].obj;

		if (obj != NULL)
			return obj;
	}
	return NULL;
}

void *
idtab_step(const struct idtab *t, uint32_t *pos, int *steps)
{
	while (*steps > 0 && *pos < t->nslots) {
		void *obj = t->slot[(*pos)++].obj;

		if (obj != NULL)
			return obj;
		--*steps;
	}
	return NULL;
}
