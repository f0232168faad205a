/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/ahead.h"
#include <errno.h>
#include <string.h>
#include <rte_branch_prediction.h>

void
qp_ahead_forget(struct qp_ahead *a)
{
	if (a->n == 0)
		return;
	a->n = 0;
	if (a->viewed)
		a->old[a->nold++] = a->lent; /* qp_ahead_view: there is a place */
	else
		a->lent.ops->release(&a->lent);
	a->viewed = false;
}

const uint8_t *
qp_ahead_get(const struct qp_ahead *a, uint64_t now_ns, const struct qp *qp, const struct mr *mr,
	     const struct qp_ahead_part *want)
{
	const uint8_t *bytes = a->lent.bytes;

	if (a->n == 0 || a->qp != qp || a->mr != mr || a->key != mr->key ||
	    a->ops_ctx != mr->ops_ctx || a->va != mr->va || now_ns - a->read_ns > QP_AHEAD_NS)
		return NULL;
	for (uint32_t i = 0; i < a->n; i++) {
		const struct qp_ahead_part *p = &a->part[i];
		uint64_t off = want->addr - p->addr;

		if (p->psn == want->psn && off <= p->len && want->len <= p->len - off)
			return bytes + off;
		bytes += p->len;
	}
	return NULL;
}

const uint8_t *
qp_ahead_view(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp, const struct mr *mr,
	      const struct qp_ahead_part *want)
{
	const uint8_t *bytes = NULL;

	if (a->nold != QP_AHEAD_OLD)
		bytes = qp_ahead_get(a, now_ns, qp, mr, want);
	a->viewed |= bytes != NULL;
	return bytes;
}

/* Returns as the operations of mr do. */
static int
read_parts(struct qp_ahead *a, const struct mr *mr, const struct qp_ahead_part *part, uint32_t n)
{
	struct mem_part parts[MEM_MAX_PARTS];

	for (uint32_t i = 0; i < n; i++) {
		parts[i].va = mr->va + (part[i].addr - mr->iova);
		parts[i].len = part[i].len;
	}
	return mr->ops->lend(mr->ops_ctx, parts, n, &a->lent);
}

int
qp_ahead_read(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp, const struct mr *mr,
	      const struct qp_ahead_part *part, uint32_t n, void *dst, uint32_t len)
{
	int rc = -EFAULT;

	qp_ahead_forget(a);
	if (unlikely(qp != NULL && a->late == qp)) {
		rc = mr_read(mr, part->addr, dst, len);
		if (rc != -EAGAIN)
			a->late = NULL;
		return rc;
	}
	if (n > 1) {
		rc = read_parts(a, mr, part, n);
		if (rc != 0 && rc != -EAGAIN)
			n = 1;
	}
	if (n == 1 && part->len > len)
		rc = read_parts(a, mr, part, 1);
	if (rc == 0) {
		a->qp = qp;
		a->mr = mr;
		a->key = mr->key;
		a->ops_ctx = mr->ops_ctx;
		a->va = mr->va;
		a->read_ns = now_ns;
		a->n = n;
		memcpy(a->part, part, n * sizeof(*part));
		memcpy(dst, a->lent.bytes, len);
		return 0;
	}
	if (rc != -EAGAIN)
		rc = mr_read(mr, part->addr, dst, len);
	if (rc == -EAGAIN)
		a->late = qp;
	return rc;
}

void
qp_ahead_prewrite(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp, const struct mr *mr,
		  uint32_t n, const struct mem_part *part, const uint32_t *psn,
		  const uint32_t *pkts)
{
	a->prewritten.qp = qp;
	a->prewritten.mr = mr;
	a->prewritten.at_ns = now_ns;
	a->prewritten.n = n;
	for (uint32_t i = 0; i < n; i++) {
		a->prewritten.msg[i].va = part[i].va;
		a->prewritten.msg[i].psn = psn[i];
		a->prewritten.msg[i].pkts = pkts[i];
	}
}

uint32_t
qp_ahead_prewritten(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp, const struct mr *mr,
		    uint32_t psn, uint64_t va)
{
	if (a->prewritten.qp != qp || a->prewritten.mr != mr || a->prewritten.at_ns != now_ns)
		return 0;
	for (uint32_t i = 0; i < a->prewritten.n; i++) {
		uint32_t pkts = a->prewritten.msg[i].pkts;

		if (a->prewritten.msg[i].psn != psn || a->prewritten.msg[i].va != va)
			continue;
		a->prewritten.msg[i].pkts = 0;
		return pkts;
	}
	return 0;
}
