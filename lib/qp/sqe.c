/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_bitops.h>
#include <rte_common.h>
#include "qp/lines.h"
#include "qp/sqe.h"

struct qp_sqe_pool *
qp_sqe_pool_create(uint32_t qps, uint32_t more)
{
	struct qp_sqe_pool *p = qp_lines_zalloc(sizeof(*p));

	if (p == NULL)
		return NULL;
	p->qps = qps;
	p->total = qps + more;
	/* The kernel allocates only pages that are used. */
	p->mem = aligned_alloc(64, (size_t)p->total * QP_CHUNK_BYTES);
	p->back = aligned_alloc(64, RTE_ALIGN_CEIL(p->total * sizeof(p->back[0]), 64));
	if (p->mem == NULL || p->back == NULL) {
		qp_sqe_pool_free(p);
		return NULL;
	}
	return p;
}

void
qp_sqe_pool_free(struct qp_sqe_pool *p)
{
	if (p == NULL)
		return;
	free(p->mem);
	free(p->back);
	free(p);
}

int
qp_sqes_init(struct qp_sqes *q, const struct qp_ring *sq)
{
	uint32_t n = RTE_MIN(sq->mask + 1, QP_RTX_WQES + 0u);
	uint32_t body = RTE_MAX(sq->max_sge * 16, sq->max_inline);
	uint32_t bytes = RTE_ALIGN_CEIL((uint32_t)sizeof(struct qp_sq_entry) + body, 16u);
	uint32_t per = RTE_MIN(rte_align32prevpow2(QP_CHUNK_BYTES / bytes), n);

	q->mask = (uint16_t)(n - 1);
	q->low = (uint8_t)(per - 1);
	q->entry_bytes = (uint16_t)bytes;
	q->shift = (uint8_t)__builtin_ctz(per);
	q->chunks = 0;
	q->chunk = q->near;
	if (n / per > QP_CHUNKS_NEAR)
		q->chunk = qp_lines_zalloc(n / per * sizeof(q->chunk[0]));
	return q->chunk != NULL ? 0 : -ENOMEM;
}

void
qp_sqes_fini(struct qp_sqes *q)
{
	if (q->chunk != q->near)
		free(q->chunk);
}

void
qp_sqes_drop(struct qp_sqes *q, struct qp_sqe_pool *p)
{
	uint32_t i, n = (q->mask + 1) >> q->shift;

	for (i = 0; i < n; i++) {
		if (q->chunk[i] == NULL)
			continue;
		p->back[p->nback++] = q->chunk[i];
		q->chunk[i] = NULL;
		p->holders -= --q->chunks == 0;
	}
}

void
qp_sqes_save(const struct qp_sqes *q, uint32_t tail, uint32_t head, void *to)
{
	uint8_t *at = to;

	for (; tail != head; tail++, at += q->entry_bytes)
		memcpy(at, qp_sqes_at(q, tail), q->entry_bytes);
}

bool
qp_sqes_load(struct qp_sqes *q, struct qp_sqe_pool *p, uint32_t tail, uint32_t head,
	     const void *from)
{
	uint32_t i, kept = p->kept;
	const uint8_t *at = from;
	bool taken = true;

	p->kept = 0;
	for (i = tail; i != head && taken; i++)
		taken = qp_sqes_take(q, p, i);
	p->kept = kept;
	if (!taken) {
		qp_sqes_drop(q, p);
		return false;
	}
	for (i = tail; i != head; i++, at += q->entry_bytes)
		memcpy(qp_sqes_at(q, i), at, q->entry_bytes);
	return true;
}
