/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/mr.h"

/* Of regions that are reached through ops: one atomic at a time in the whole daemon. */
static bool ops_atomic_busy;

static int
ops_atomic(const struct mr *mr, uint64_t addr, bool swap, uint64_t compare, uint64_t value,
	   uint64_t *orig)
{
	uint64_t va = mr->va + (addr - mr->iova), next;
	int rc;

	while (__atomic_test_and_set(&ops_atomic_busy, __ATOMIC_ACQUIRE))
		;
	rc = mr->ops->read(mr->ops_ctx, va, orig, sizeof(*orig));
	next = swap ? value : *orig + value;
	if (rc == 0 && (!swap || *orig == compare))
		rc = mr->ops->write(mr->ops_ctx, va, &next, sizeof(next));
	__atomic_clear(&ops_atomic_busy, __ATOMIC_RELEASE);
	return rc;
}

int
mr_fetch_add(const struct mr *mr, uint64_t addr, uint64_t add, uint64_t *orig)
{
	if (mr->host == NULL)
		return ops_atomic(mr, addr, false, 0, add, orig);
	*orig = __atomic_fetch_add((uint64_t *)(mr->host + (addr - mr->iova)), add,
				   __ATOMIC_SEQ_CST);
	return 0;
}

int
mr_cmp_swap(const struct mr *mr, uint64_t addr, uint64_t compare, uint64_t swap, uint64_t *orig)
{
	if (mr->host == NULL)
		return ops_atomic(mr, addr, true, compare, swap, orig);
	*orig = compare;
	__atomic_compare_exchange_n((uint64_t *)(mr->host + (addr - mr->iova)), orig, swap, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return 0;
}
