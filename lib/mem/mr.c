/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/mr.h"

int
mr_atomic(const struct mr *mr, uint64_t addr, const struct mem_atomic *a, uint64_t once,
	  uint64_t *orig)
{
	uint64_t off = addr - mr->iova, *word;

	if (mr->host == NULL)
		return mr->ops->atomic(mr->ops_ctx, mr->va + off, a, once, orig);
	word = (uint64_t *)(mr->host + off);
	if (!a->swap) {
		*orig = __atomic_fetch_add(word, a->value, __ATOMIC_SEQ_CST);
		return 0;
	}
	*orig = a->compare;
	__atomic_compare_exchange_n(word, orig, a->value, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return 0;
}
