/* SPDX-License-Identifier: BSD-3-Clause */
#include "responder/write_run.h"
#include <errno.h>
#include <string.h>
#include <rte_common.h>
#include "wire/psn.h"

/* May q, which follows p, be written with it? left: bytes of the message behind p. */
static bool
goes_on(const struct qp *qp, const struct wire_pkt *p, const struct wire_pkt *q, uint32_t left)
{
	uint32_t flags = q->op->flags;

	if (!(flags & WIRE_F_WRITE) || (flags & (WIRE_F_FIRST | WIRE_F_IMM)) ||
	    q->psn != psn_add(p->psn, 1))
		return false;
	if (flags & WIRE_F_LAST)
		return q->payload_len == left && left != 0 && left <= qp->conn.mtu;
	return q->payload_len == qp->conn.mtu && q->pad_len == 0 && q->payload_len <= left;
}

/* Copies the run's payload to buf. Returns its bytes; *n: its packets. */
static uint32_t
gather(struct qp_env *env, const struct qp *qp, const struct wire_pkt *p, uint8_t *buf, uint32_t *n)
{
	uint32_t left = p->op->flags & WIRE_F_FIRST ? p->dmalen : qp->conn.rcv.write_left;
	uint32_t len = 0;
	const struct wire_pkt *q = p;

	*n = 0;
	while (q != NULL && len + q->payload_len <= RSP_WRITE_RUN_BYTES) {
		memcpy(buf + len, q->payload, q->payload_len);
		len += q->payload_len;
		left -= q->payload_len;
		++*n;
		p = q;
		q = p->op->flags & WIRE_F_LAST ? NULL : env->rx_next(env, p);
		if (q != NULL && !goes_on(qp, p, q, left))
			q = NULL;
	}
	return len;
}

int
rsp_write_run(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, const struct mr *mr,
	      uint64_t addr)
{
	uint64_t once = rsp_once(env, qp);
	struct qp_late *late = &qp->conn.rcv.late;
	uint8_t buf[RSP_WRITE_RUN_BYTES];
	uint32_t len = pkt->payload_len, n = 1;
	const uint8_t *from = pkt->payload;
	int rc;

	if (env->rx_next != NULL && !(pkt->op->flags & WIRE_F_LAST)) {
		len = gather(env, qp, pkt, buf, &n);
		from = buf;
	}
	rc = mr_write_once(mr, addr, from, len, once);
	/* A retry: the first operation with this number, of another length, was executed. */
	if (rc > 0)
		n = ((uint32_t)rc + qp->conn.mtu - 1) / qp->conn.mtu;
	if (rc >= 0)
		late->ahead = (uint16_t)n;
	return RTE_MIN(rc, 0);
}

bool
rsp_written_ahead(const struct qp *qp)
{
	const struct qp_late *late = &qp->conn.rcv.late;
	int32_t behind = psn_diff(qp->conn.rcv.epsn, late->psn);

	return late->once == 0 && behind > 0 && behind < late->ahead;
}
