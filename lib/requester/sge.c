/* SPDX-License-Identifier: BSD-3-Clause */
/* Scatter and gather over the SGEs of a send WQE. */
#include <errno.h>
#include <string.h>
#include <rte_common.h>
#include "qp/ahead.h"
#include "requester/requester_parts.h"
#include "wire/psn.h"

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

/*
 * Adds parts for the WQEs behind e, the one at the cursor, as long as they are in mr. left: bytes
 * that may be added. Returns the number of parts. If the client changes such a WQE later, its
 * payload is read again, because the address or the PSN differs.
 */
static uint32_t
ahead_next(const struct qp_env *env, const struct qp *qp, const struct qp_sq_entry *e,
	   const struct mr *mr, uint32_t left, struct qp_ahead_part *part)
{
	uint32_t psn = psn_add(e->first_psn, e->npkts), n = 1, i = qp->conn.snd.cur + 1;
	struct uroce_sge sge;

	for (; n < MEM_MAX_PARTS && left != 0 && req_peek(qp, i, &sge); n++, i++) {
		if (sge.length == 0 || sge.length > QP_MAX_MSG_BYTES ||
		    mr_lookup(env->mrs, sge.lkey, qp->bind.pd, sge.addr, sge.length,
			      MEM_LOCAL_READ) != mr)
			break;
		part[n].addr = sge.addr;
		part[n].len = RTE_MIN(sge.length, left);
		part[n].psn = psn;
		left -= part[n].len;
		psn = psn_add(psn, (sge.length + qp->conn.mtu - 1) / qp->conn.mtu);
	}
	return n;
}

int
req_gather_ahead(struct qp_env *env, const struct qp *qp, const struct qp_sq_entry *e,
		 const struct mr *mr, uint32_t off, uint8_t *dst, uint32_t len)
{
	const struct uroce_sge *sge = req_sges((struct qp_sq_entry *)e);
	const struct qp_snd *snd = &qp->conn.snd;
	bool lone = !env->crowded && !snd->cc_active && snd->cur != snd->head &&
		    e == qp_sq_entry(qp, snd->cur);
	uint32_t most = lone ? QP_AHEAD_BYTES : QP_AHEAD_SHORT, n = 1;
	struct qp_ahead_part part[MEM_MAX_PARTS] = {
		{.addr = sge->addr + off, .len = len, .psn = e->first_psn}};
	uint64_t room = mr->iova + mr->len - part[0].addr;
	const uint8_t *bytes = qp_ahead_get(env->ahead, env->now_ns, qp, mr, &part[0]);

	if (bytes != NULL) {
		memcpy(dst, bytes, len);
		return 0;
	}
	part[0].len =
		(uint32_t)RTE_MIN((uint64_t)RTE_MIN(sge->length - off, RTE_MAX(most, len)), room);
	if (lone && e->wqe.num == 1 && off + part[0].len == sge->length && part[0].len < most)
		n = ahead_next(env, qp, e, mr, most - part[0].len, part);
	return qp_ahead_read(env->ahead, env->now_ns, qp, mr, part, n, dst, len);
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
