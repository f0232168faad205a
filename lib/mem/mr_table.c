/* SPDX-License-Identifier: BSD-3-Clause */
/* Control-thread side of the key table. */
#include <errno.h>
#include <stdlib.h>
#include "mem/mr.h"

/* Matches no lookup: no entry has key 0, and no protection domain has this number. */
struct mr mr_hidden = {.pd = UINT32_MAX};

int
mr_table_init(struct mr_table *t, uint32_t nslots)
{
	if (nslots < 2 || nslots > MR_TABLE_MAX_SLOTS || (nslots & (nslots - 1)) != 0)
		return -EINVAL;
	t->slot = calloc(nslots, sizeof(*t->slot));
	t->last = calloc(nslots, sizeof(*t->last));
	t->nslots = nslots;
	t->shift = 32 - (uint32_t)__builtin_ctz(nslots);
	t->used = 0;
	if (t->slot != NULL && t->last != NULL)
		return 0;
	mr_table_free(t);
	return -ENOMEM;
}

void
mr_table_free(struct mr_table *t)
{
	free(t->slot);
	free(t->last);
	t->slot = NULL;
	t->last = NULL;
	t->nslots = 0;
}

int
mr_table_add(struct mr_table *t, struct mr *mr, uint32_t key)
{
	uint32_t i = key >> t->shift;

	if (t->used >= t->nslots / 2)
		return -ENOMEM;
	/* All keys that differ only in the owner's bits belonged to the previous window. */
	if (i == 0 || t->slot[i] != NULL || ((key ^ t->last[i]) & ~MW_CONSUMER) == 0)
		return -EEXIST;
	t->used++;
	t->last[i] = key;
	mr->slot = i;
	mr->key = key;
	__atomic_store_n(&t->slot[i], mr, __ATOMIC_RELEASE);
	return 0;
}

bool
mr_key_known(const struct mr_table *t, uint32_t key, uint32_t pd)
{
	const struct mr *mr = __atomic_load_n(&t->slot[key >> t->shift], __ATOMIC_ACQUIRE);

	return mr != NULL && __atomic_load_n(&mr->key, __ATOMIC_RELAXED) == key && mr->pd == pd;
}

void
mr_table_del(struct mr_table *t, struct mr *mr)
{
	__atomic_store_n(&t->slot[mr->slot], NULL, __ATOMIC_RELEASE);
	t->used--;
}

void
mr_table_hide(struct mr_table *t, struct mr *mr)
{
	__atomic_store_n(&t->slot[mr->slot], &mr_hidden, __ATOMIC_RELEASE);
}

void
mr_table_show(struct mr_table *t, struct mr *mr)
{
	__atomic_store_n(&t->slot[mr->slot], mr, __ATOMIC_RELEASE);
}
