/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/ahead.h"
#include <errno.h>
#include <string.h>
#include <rte_branch_prediction.h>

bool
qp_ahead_get(const struct qp_ahead *a, uint64_t now_ns, const struct qp *qp, const struct mr *mr,
	     const struct qp_ahead_part *want, void *dst)
{
	const uint8_t *bytes = a->bytes;

	if (a->n == 0 || a->qp != qp || a->mr != mr || a->key != mr->key ||
	    a->ops_ctx != mr->ops_ctx || a->va != mr->va || now_ns - a->read_ns > QP_AHEAD_NS)
		return false;
	for (uint32_t i = 0; i < a->n; i++) {
		const struct qp_ahead_part *p = &a->part[i];
		uint64_t off = want->addr - p->addr;

		if (p->psn == want->psn && off <= p->len && want->len <= p->len - off) {
			memcpy(dst, bytes + off, want->len);
			return true;
		}
		bytes += p->len;
	}
	return false;
}

static int
read_parts(const struct mr *mr, const struct qp_ahead_part *part, uint32_t n, void *dst)
{
	struct mem_part parts[MEM_MAX_PARTS];

	if (n == 1)
		return mr_read(mr, part->addr, dst, part->len);
	for (uint32_t i = 0; i < n; i++) {
		parts[i].va = mr->va + (part[i].addr - mr->iova);
		parts[i].len = part[i].len;
	}
	return mr->ops->read_parts(mr->ops_ctx, parts, n, dst);
}

int
qp_ahead_read(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp, const struct mr *mr,
	      const struct qp_ahead_part *part, uint32_t n, void *dst, uint32_t len)
{
	int rc = -EFAULT;

	a->n = 0;
	if (unlikely(qp != NULL && a->late == qp)) {
		rc = mr_read(mr, part->addr, dst, len);
		if (rc != -EAGAIN)
			a->late = NULL;
		return rc;
	}
	if (n > 1) {
		rc = read_parts(mr, part, n, a->bytes);
		if (rc != 0 && rc != -EAGAIN)
			n = 1;
	}
	if (n == 1 && part->len > len)
		rc = mr_read(mr, part->addr, a->bytes, part->len);
	if (rc == 0) {
		a->qp = qp;
		a->mr = mr;
		a->key = mr->key;
		a->ops_ctx = mr->ops_ctx;
		a->va = mr->va;
		a->read_ns = now_ns;
		a->n = n;
		memcpy(a->part, part, n * sizeof(*part));
		memcpy(dst, a->bytes, len);
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
