/* SPDX-License-Identifier: BSD-3-Clause */
/* Scatter and gather over the SGEs of a send WQE. */
#include <errno.h>
#include <string.h>
#include <rte_common.h>
#include "qp/ahead.h"
#include "requester/requester_parts.h"

bool
req_check_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t access)
{
	const struct uroce_sge *sge = req_sges(e);
	uint32_t i;

	for (i = 0; i < e->wqe.num; i++) {
		if (sge[i].length != 0 && mr_lookup(env->mrs, sge[i].lkey, qp->bind.pd, sge[i].addr,
						    sge[i].length, access) == NULL)
			return false;
	}
	return true;
}

/* Copies in either direction: exactly one of dst and src is given. */
static int
sge_copy(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off, uint8_t *dst,
	 const uint8_t *src, uint32_t len)
{
	const struct uroce_sge *sge = req_sges(e);
	uint32_t access = src != NULL ? MEM_LOCAL_WRITE : MEM_LOCAL_READ;
	int rc;

	for (; len != 0; sge++) {
		uint32_t n;
		uint64_t addr;
		struct mr *mr;

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		n = RTE_MIN(sge->length - off, len);
		addr = sge->addr + off;
		mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, addr, n, access);
		if (mr == NULL)
			return -EFAULT;
		rc = src != NULL ? mr_write(mr, addr, src, n) : mr_read(mr, addr, dst, n);
		if (rc != 0)
			return rc;
		src = src != NULL ? src + n : NULL;
		dst = dst != NULL ? dst + n : NULL;
		len -= n;
		off = 0;
	}
	return 0;
}

int
req_gather_ahead(struct qp_env *env, const struct mr *mr, const struct uroce_sge *sge, uint32_t off,
		 uint8_t *dst, uint32_t len)
{
	uint64_t addr = sge->addr + off, room = mr->iova + mr->len - addr - len;

	if (off == 0)
		qp_ahead_forget(env->ahead);
	return qp_ahead_read(env->ahead, mr, addr, dst, len,
			     (uint32_t)RTE_MIN((uint64_t)(sge->length - off - len), room));
}

int
req_gather_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		uint8_t *dst, uint32_t len)
{
	return sge_copy(env, qp, e, off, dst, NULL, len);
}

int
req_scatter_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		 const uint8_t *src, uint32_t len)
{
	return sge_copy(env, qp, e, off, NULL, src, len);
}

void
req_not_gathered(struct qp_sq_entry *e, struct rte_mbuf *m, int rc)
{
	rte_pktmbuf_free(m);
	if (rc == -EAGAIN)
		return;
	e->status = QP_WC_LOC_PROT_ERR;
	e->fast = QP_WQE_GENERAL;
}
