/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include "engine/rx.h"

/* Returns true if m can go back to pool as it is: one segment, its own buffer, one reference. */
static inline bool
is_plain(const struct rte_mbuf *m, const struct rte_mempool *pool)
{
	return m->pool == pool && m->nb_segs == 1 && RTE_MBUF_DIRECT(m) &&
	       rte_mbuf_refcnt_read(m) == 1;
}

void
rx_free_done(struct engine *e)
{
	struct rte_mempool *pool = e->done_n != 0 ? e->done[0]->pool : NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->done_n; i++) {
		if (likely(is_plain(e->done[i], pool)))
			e->done[n++] = e->done[i];
		else
			rte_pktmbuf_free(e->done[i]);
	}
	if (n != 0)
		rte_mempool_put_bulk(pool, (void *const *)e->done, n);
	e->done_n = 0;
}
