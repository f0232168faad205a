/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <rte_errno.h>
#include "qp/lines.h"
#include "qp/segs.h"

#define TAIL_ROOM 64

/* Free callback of a payload segment: nothing to do, the memory is the client's. */
static void
payload_freed(void *addr, void *ctx)
{
}

struct qp_segs *
qp_segs_create(const char *name, uint32_t n, int socket)
{
	struct qp_segs *s = qp_lines_zalloc(sizeof(*s) + n * sizeof(s->pair[0]));

	if (s == NULL) {
		rte_errno = ENOMEM;
		return NULL;
	}
	s->pool = rte_pktmbuf_pool_create(name, 2 * n, 0, 0, TAIL_ROOM, socket);
	if (s->pool == NULL) {
		free(s);
		return NULL;
	}
	s->n = n;
	s->info.free_cb = payload_freed;
	rte_mbuf_ext_refcnt_set(&s->info, (uint16_t)n);
	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(s->pool), *tail = rte_pktmbuf_alloc(s->pool);

		/* Allocation cannot fail: the pool has 2 * n mbufs. No IOVA: only the CPU reads. */
		rte_pktmbuf_attach_extbuf(m, s, RTE_BAD_IOVA, 0, &s->info);
		tail->data_off = 0;
		m->next = tail;
		s->pair[i] = m;
	}
	return s;
}

bool
qp_segs_whole(const struct qp_segs *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		if (!qp_segs_is_back(s->pair[i]))
			return false;
	}
	return rte_mempool_avail_count(s->pool) == 0;
}

void
qp_segs_free(struct qp_segs *s)
{
	if (s == NULL)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		rte_pktmbuf_free(s->pair[i]);
	rte_mempool_free(s->pool);
	free(s);
}
