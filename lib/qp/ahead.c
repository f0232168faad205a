/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/ahead.h"
#include <errno.h>
#include <rte_common.h>

int
qp_ahead_read(struct qp_ahead *a, const struct mr *mr, uint64_t addr, void *dst, uint32_t len,
	      uint32_t more)
{
	uint32_t all = len < QP_AHEAD_BYTES ? len + RTE_MIN(more, QP_AHEAD_BYTES - len) : len;
	int rc;

	if (a->len != 0 && a->mr == mr && addr >= a->addr && addr - a->addr <= a->len &&
	    len <= a->len - (addr - a->addr)) {
		memcpy(dst, a->bytes + (addr - a->addr), len);
		return 0;
	}
	a->len = 0;
	if (all == len)
		return mr_read(mr, addr, dst, len);
	rc = mr_read(mr, addr, a->bytes, all);
	/* The client may have unmapped what comes later. */
	if (rc != 0 && rc != -EAGAIN)
		return mr_read(mr, addr, dst, len);
	if (rc != 0)
		return rc;
	a->mr = mr;
	a->addr = addr;
	a->len = all;
	memcpy(dst, a->bytes, len);
	return 0;
}
