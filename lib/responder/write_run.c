/* SPDX-License-Identifier: BSD-3-Clause */
#include "responder/responder_parts.h"
#include <errno.h>
#include <string.h>
#include <rte_common.h>
#include "qp/ahead.h"
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
 * A run: packets of one or several messages of a burst, whose payload one operation writes. Each
 * message behind the first begins in it, and its memory is in mr.
 */
struct run {
	const struct mr *mr;
	uint32_t n;                 /* messages */
	uint32_t len;               /* bytes */
	uint32_t pkts;              /* packets .. */
	uint32_t of[MEM_MAX_PARTS]; /* .. and those of each message */
	uint32_t psn[MEM_MAX_PARTS];
	struct mem_part part[MEM_MAX_PARTS];
	struct mem_bytes src[RSP_RUN_PKTS]; /* payload of each packet */
};

/*
 * Adds the packets of p's message, which is written to addr of r->mr. left: bytes of the target, p
 * included. Returns the message's last packet if it is in the run, else NULL.
 */
static const struct wire_pkt *
add_message(struct qp_env *env, const struct qp *qp, struct run *r, const struct wire_pkt *p,
	    uint64_t va, uint32_t left)
{
	struct mem_part *part = &r->part[r->n];
	const struct wire_pkt *q = p;

	*part = (struct mem_part){.va = va};
	r->psn[r->n] = p->psn;
	r->of[r->n] = 0;
	while (q != NULL && r->pkts < RSP_RUN_PKTS && r->len + q->payload_len <= RSP_RUN_BYTES) {
		r->src[r->pkts] = (struct mem_bytes){.at = q->payload, .len = q->payload_len};
		r->len += q->payload_len;
		part->len += q->payload_len;
		left -= q->payload_len;
		r->of[r->n]++;
		r->pkts++;
		if (q->op->flags & WIRE_F_LAST)
			break;
		p = q;
		q = env->rx_next(env, p);
		if (q != NULL && !goes_on(qp, p, q, left))
			q = NULL;
	}
	r->n += r->of[r->n] != 0;
	return q != NULL && (q->op->flags & WIRE_F_LAST) &&
			       q->psn == psn_add(r->psn[0], r->pkts - 1)
		       ? q
		       : NULL;
}

/* Is q a good first packet of a message of left bytes? A WRITE has to have this length. */
static bool
begins(const struct qp *qp, const struct wire_pkt *q, uint32_t left)
{
	uint32_t flags = q->op->flags;

	if (q->payload_len == 0 || q->payload_len > left)
		return false;
	if (!(flags & WIRE_F_LAST))
		return q->payload_len == qp->conn.mtu && q->pad_len == 0;
	return q->payload_len <= qp->conn.mtu &&
	       ((flags & WIRE_F_SEND) || (!(flags & WIRE_F_IMM) && q->payload_len == left));
}

/* Where does the WRITE that begins with q write, if all of it is in the run's region? */
static bool
write_target(struct qp_env *env, const struct qp *qp, const struct run *r, const struct wire_pkt *q,
	     struct mem_part *to)
{
	struct mr window;

	if (q->dmalen > QP_MAX_MSG_BYTES || !begins(qp, q, q->dmalen) ||
	    mr_lookup_remote(env->mrs, q->rkey, qp->bind.pd, qp->conn.qpn, q->va, q->dmalen,
			     MEM_REMOTE_WRITE, &window) != r->mr)
		return false;
	*to = (struct mem_part){.va = r->mr->va + (q->va - r->mr->iova), .len = q->dmalen};
	return true;
}

/*
 * The same for a SEND and the receive WQE that it will probably take: the k-th posted one. The
 * client may still change it: see rsp_send_prewritten.
 */
static bool
send_target(struct qp_env *env, const struct qp *qp, const struct run *r, const struct wire_pkt *q,
	    uint32_t k, struct mem_part *to)
{
	const struct qp_ring *rq = &qp->bind.rq;
	uint32_t head = qp->conn.rcv.head;
	struct uroce_recv_wqe wqe;
	struct uroce_sge sge;
	const uint8_t *slot;

	if (qp->bind.srq != NULL || rq->max_sge == 0 ||
	    k >= __atomic_load_n(&rq->hdr->prod, __ATOMIC_ACQUIRE) - head)
		return false;
	slot = rq->slots + (size_t)((head + k) & rq->mask) * rq->stride;
	memcpy(&wqe, slot, sizeof(wqe));
	memcpy(&sge, slot + sizeof(wqe), sizeof(sge));
	if (wqe.num_sge != 1 || sge.length > QP_MAX_MSG_BYTES || !begins(qp, q, sge.length) ||
	    mr_lookup(env->mrs, sge.lkey, qp->bind.recv_pd, sge.addr, sge.length,
		      MEM_LOCAL_WRITE) != r->mr)
		return false;
	*to = (struct mem_part){.va = r->mr->va + (sge.addr - r->mr->iova), .len = sge.length};
	return true;
}

/*
 * Collects the run that begins with pkt, at addr of r->mr. left: bytes of the target, pkt included.
 * one: of one message only.
 */
static void
collect(struct qp_env *env, const struct qp *qp, struct run *r, const struct wire_pkt *pkt,
	uint64_t addr, uint32_t left, bool one)
{
	uint32_t kind = pkt->op->flags & (WIRE_F_SEND | WIRE_F_WRITE);
	struct mem_part to = {.va = r->mr->va + (addr - r->mr->iova), .len = left};
	const struct wire_pkt *last, *q = pkt;

	r->n = r->len = r->pkts = 0;
	do {
		last = add_message(env, qp, r, q, to.va, to.len);
		/* An invalidation may fail and end the QP. */
		if (one || last == NULL || (last->op->flags & WIRE_F_IETH) || r->n == MEM_MAX_PARTS)
			return;
		q = env->rx_next(env, last);
	} while (q != NULL && (q->op->flags & kind) && (q->op->flags & WIRE_F_FIRST) &&
		 q->psn == psn_add(last->psn, 1) && r->pkts < RSP_RUN_PKTS &&
		 r->len + q->payload_len <= RSP_RUN_BYTES &&
		 (kind == WIRE_F_SEND ? send_target(env, qp, r, q, r->n - 1, &to)
				      : write_target(env, qp, r, q, &to)));
}

/* Writes the run. Returns as the operations of mem/mr.h do. */
static int
run_write(const struct run *r, struct mem_late *late)
{
	return r->mr->ops->write_parts(r->mr->ops_ctx, r->part, r->n, r->src, r->pkts, late);
}

int
rsp_write_run(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, const struct mr *mr,
	      uint64_t addr, uint32_t rkey)
{
	struct mem_late *op = rsp_late_new(env, qp);
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t left = pkt->op->flags & WIRE_F_FIRST ? pkt->dmalen : rcv->write_left;
	struct run r;
	bool again;
	int rc;

	r.mr = mr;
	if (rcv->late.psn != rcv->epsn)
		rcv->late = (struct qp_late){.psn = rcv->epsn};
	again = rcv->late.tried != 0;
	if (env->rx_next == NULL) {
		r.part[0] = (struct mem_part){.va = mr->va + (addr - mr->iova),
					      .len = pkt->payload_len};
		r.src[0] = (struct mem_bytes){.at = pkt->payload, .len = pkt->payload_len};
		r.n = r.pkts = 1;
		r.len = pkt->payload_len;
	} else {
		/* A window may change before the next message. */
		collect(env, qp, &r, pkt, addr, left, again || mr == &env->window);
	}
	rc = run_write(&r, op);
	/* Alone: if the memory of a later message is gone, only that message fails. */
	if (rc != 0 && rc != -EAGAIN && r.n > 1) {
		collect(env, qp, &r, pkt, addr, left, true);
		rc = run_write(&r, op);
	}
	if (rc == -EAGAIN)
		rsp_late_note(env, qp, mr, rkey, false, r.len, r.pkts);
	rcv->late.ahead = rc == 0 ? (uint16_t)r.pkts : 0;
	rcv->late.tried = rc == -EAGAIN ? (uint16_t)r.pkts : 0;
	return rc;
}

/*
 * Writes the run at offset off of a receive WQE whose memory is not in one region. Returns 0 or
 * -errno as rsp_recv_write does.
 */
static __rte_noinline int
run_scatter(struct qp_env *env, struct qp *qp, const struct run *r, uint32_t off)
{
	uint8_t bytes[RSP_RUN_BYTES];

	mem_bytes_join(bytes, r->src, r->pkts);
	return rsp_recv_write(env, qp, bytes, off, r->len);
}

/*
 * Writes the run that begins with pkt. Returns 0, -EAGAIN, or another number below 0 if pkt has to
 * be written alone.
 */
static __rte_noinline int
send_run(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off)
{
	const struct uroce_sge *sge = qp->recv_sge;
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t left = rcv->cur.length - off;
	struct run r;
	int rc = -EFAULT;

	r.n = r.len = r.pkts = 0;
	r.mr = NULL;
	if (rcv->cur.wqe.num_sge == 1)
		r.mr = mr_lookup(env->mrs, sge->lkey, qp->bind.recv_pd, sge->addr + off, left,
				 MEM_LOCAL_WRITE);
	if (r.mr != NULL) {
		collect(env, qp, &r, pkt, sge->addr + off, left, false);
		if (r.pkts > 1)
			rc = run_write(&r, NULL);
	} else {
		add_message(env, qp, &r, pkt, 0, left);
		if (r.pkts > 1 && rsp_recv_keys_good(env, qp, off, r.len))
			rc = run_scatter(env, qp, &r, off);
	}
	if (rc != 0)
		return rc;
	rcv->late = (struct qp_late){.psn = rcv->epsn, .ahead = (uint16_t)r.of[0]};
	qp_ahead_prewrite(env->ahead, env->now_ns, qp, r.mr, r.n - 1, r.part + 1, r.psn + 1,
			  r.of + 1);
	return 0;
}

bool
rsp_send_prewritten(struct qp_env *env, struct qp *qp, const struct mr *mr, uint64_t addr)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t pkts;

	if (mr == NULL || mr->host != NULL)
		return false;
	pkts = qp_ahead_prewritten(env->ahead, env->now_ns, qp, mr, rcv->epsn,
				   mr->va + (addr - mr->iova));
	if (pkts == 0)
		return false;
	rcv->late = (struct qp_late){.psn = rcv->epsn, .ahead = (uint16_t)pkts};
	return true;
}

int
rsp_send_write(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off)
{
	const struct qp_late *late = &qp->conn.rcv.late;
	bool again =
		(late->naks != 0 || qp->bind.late_req.n != 0) && late->psn == qp->conn.rcv.epsn;
	int rc;

	/* A run that was late is not tried again: one packet needs less of the memory. */
	if (env->rx_next != NULL && pkt->payload_len != 0 && !again &&
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

	if (behind <= 0 || behind >= late->ahead)
		return false;
	/* The run's last packet ends it: its PSNs come again for other packets. */
	if (behind + 1 == late->ahead)
		late->ahead = 0;
	return true;
}
