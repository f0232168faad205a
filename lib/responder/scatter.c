/* SPDX-License-Identifier: BSD-3-Clause */
/* Scatter over the SGEs of the current receive WQE. */
#include <errno.h>
#include <rte_common.h>
#include "responder/responder_parts.h"

bool
rsp_recv_keys_good(struct qp_env *env, struct qp *qp, uint32_t off, uint32_t len)
{
	const struct uroce_sge *sge = qp->recv_sge;

	for (; len != 0; sge++) {
		uint32_t n;

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		n = RTE_MIN(sge->length - off, len);
		if (mr_lookup(env->mrs, sge->lkey, qp->bind.recv_pd, sge->addr + off, n,
			      MEM_LOCAL_WRITE) == NULL)
			return false;
		len -= n;
		off = 0;
	}
	return true;
}

int
rsp_recv_write(struct qp_env *env, struct qp *qp, const uint8_t *src, uint32_t off, uint32_t len)
{
	const struct uroce_sge *sge = qp->recv_sge;
	int rc;

	for (; len != 0; sge++) {
		struct mr *mr;
		uint32_t n;

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		n = RTE_MIN(sge->length - off, len);
		mr = mr_lookup(env->mrs, sge->lkey, qp->bind.recv_pd, sge->addr + off, n,
			       MEM_LOCAL_WRITE);
		rc = mr != NULL ? mr_write(mr, sge->addr + off, src, n) : -EFAULT;
		if (rc != 0)
			return rc;
		src += n;
		len -= n;
		off = 0;
	}
	return 0;
}

bool
rsp_recv_by_ops(struct qp_env *env, struct qp *qp, uint32_t off)
{
	const struct uroce_sge *sge = qp->recv_sge;
	const struct mr *mr;

	if (off >= qp->conn.rcv.cur.length)
		return false;
	for (; off >= sge->length; sge++)
		off -= sge->length;
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.recv_pd, sge->addr + off, 1, MEM_LOCAL_WRITE);
	return mr != NULL && mr->host == NULL;
}
