/* SPDX-License-Identifier: BSD-3-Clause */
#include "responder/write_run.h"
#include <errno.h>
#include <string.h>
#include <rte_common.h>
#include "wire/psn.h"

/* May q, which follows p, be written with it? left: bytes of the target behind p. */
static bool
goes_on(const struct qp *qp, const struct wire_pkt *p, const struct wire_pkt *q, uint32_t left)
{
	uint32_t flags = q->op->flags, kind = p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE);

	if (!(flags & kind) || (flags & WIRE_F_FIRST) || q->psn != psn_add(p->psn, 1) ||
	    q->payload_len > left)
		return false;
	if (!(flags & WIRE_F_LAST))
		return q->payload_len == qp->conn.mtu && q->pad_len == 0;
	if (q->payload_len == 0 || q->payload_len > qp->conn.mtu)
		return false;
	/* A WRITE must have its announced length, and a receive WQE for an immediate. */
	return kind == WIRE_F_SEND || (!(flags & WIRE_F_IMM) && q->payload_len == left);
}

/*
 * Copies the payload of the run that begins with p to buf. left: bytes of the target, p included.
 * Returns the run's bytes; *n: its packets.
 */
static uint32_t
gather(struct qp_env *env, const struct qp *qp, const struct wire_pkt *p, uint32_t left,
       uint8_t *buf, uint32_t *n)
{
	uint32_t len = 0;
	const struct wire_pkt *q = p;

	*n = 0;
	while (q != NULL && len + q->payload_len <= RSP_RUN_BYTES) {
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
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t left = pkt->op->flags & WIRE_F_FIRST ? pkt->dmalen : rcv->write_left;
	uint8_t buf[RSP_RUN_BYTES];
	uint32_t len = pkt->payload_len, n = 1;
	const uint8_t *from = pkt->payload;
	int rc;

	if (env->rx_next != NULL && !(pkt->op->flags & WIRE_F_LAST)) {
		len = gather(env, qp, pkt, left, buf, &n);
		from = buf;
	}
	rc = mr_write_once(mr, addr, from, len, once);
	/* A retry: the first operation with this number, of another length, was executed. */
	if (rc > 0)
		n = ((uint32_t)rc + qp->conn.mtu - 1) / qp->conn.mtu;
	if (rc >= 0)
		rcv->late.ahead = (uint16_t)n;
	return RTE_MIN(rc, 0);
}

/*
 * Writes the run that begins with pkt. Returns 0, -EAGAIN, or another number below 0 if pkt has to
 * be written alone.
 */
static __rte_noinline int
send_run(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint8_t buf[RSP_RUN_BYTES];
	uint32_t n, len = gather(env, qp, pkt, rcv->cur.length - off, buf, &n);
	int rc = -EFAULT;

	if (n > 1 && rsp_recv_keys_good(env, qp, off, len))
		rc = rsp_recv_write(env, qp, buf, off, len);
	if (rc == 0)
		rcv->late = (struct qp_late){.psn = rcv->epsn, .ahead = (uint16_t)n};
	return rc;
}

int
rsp_send_write(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off)
{
	const struct qp_late *late = &qp->conn.rcv.late;
	bool again = late->told != 0 && late->psn == qp->conn.rcv.epsn;
	int rc;

	/* A run that was late is not tried again: one packet needs less of the memory. */
	if (env->rx_next != NULL && !(pkt->op->flags & WIRE_F_LAST) && !again &&
	    rsp_recv_by_ops(env, qp, off)) {
		rc = send_run(env, qp, pkt, off);
		if (rc == 0 || rc == -EAGAIN)
			return rc;
	}
	/* Alone: if the memory of a later packet is gone, only that packet fails. */
	return rsp_recv_write(env, qp, pkt->payload, off, pkt->payload_len);
}

bool
rsp_written_ahead(struct qp *qp)
{
	struct qp_late *late = &qp->conn.rcv.late;
	int32_t behind = psn_diff(qp->conn.rcv.epsn, late->psn);

	if (late->once != 0 || behind <= 0 || behind >= late->ahead)
		return false;
	/* The run's last packet ends it: its PSNs come again for other packets. */
	if (behind + 1 == late->ahead)
		late->ahead = 0;
	return true;
}
