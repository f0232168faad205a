/* SPDX-License-Identifier: BSD-3-Clause */
/* The key table's control side. */
#include <errno.h>
#include <stdlib.h>
#include "mem/mr.h"

int
mr_table_init(struct mr_table *t, uint32_t nslots)
{
	if (nslots < 2 || nslots > 1u << MR_INDEX_BITS || (nslots & (nslots - 1)) != 0)
		return -EINVAL;
	t->slot = calloc(nslots, sizeof(*t->slot));
	if (t->slot == NULL)
		return -ENOMEM;
	t->nslots = nslots;
	t->next = 1;
	t->used = 0;
	return 0;
}

void
mr_table_free(struct mr_table *t)
{
	free(t->slot);
	t->slot = NULL;
	t->nslots = 0;
}

int
mr_table_add(struct mr_table *t, struct mr *mr, uint32_t vary)
{
	uint32_t i;

	if (t->used + 1 >= t->nslots)
		return -ENOMEM;
	/* The search goes round, so that an index is not reused soon after it was freed. */
	for (i = t->next; t->slot[i] != NULL;)
		i = i + 1 < t->nslots ? i + 1 : 1;
	t->next = i + 1 < t->nslots ? i + 1 : 1;
	t->used++;
	mr->slot = i;
	mr->key = i << MR_VARY_BITS | (vary & ((1u << MR_VARY_BITS) - 1));
	__atomic_store_n(&t->slot[i], mr, __ATOMIC_RELEASE);
	return 0;
}

void
mr_table_del(struct mr_table *t, struct mr *mr)
{
	__atomic_store_n(&t->slot[mr->slot], NULL, __ATOMIC_RELEASE);
	t->used--;
}

void
mr_table_restore(struct mr_table *t, struct mr *mr)
{
	t->used++;
	__atomic_store_n(&t->slot[mr->slot], mr, __ATOMIC_RELEASE);
}
