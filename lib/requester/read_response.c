/* SPDX-License-Identifier: BSD-3-Clause */
/* READ requests' sizes, and responses with data: of READs, and atomic ACKs (REQ-08, REQ-09). */
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "requester/requester_parts.h"
#include "requester/selective.h"
#include "wire/psn.h"

/* Is it the response that a probe requested alone, or its original? */
static inline bool
is_alone(const struct qp *qp, const struct wire_pkt *pkt)
{
	return unlikely(qp->conn.loss.alone) && pkt->psn == qp->conn.loss.alone_psn;
}

/* Are the response's opcode and length right for packet k of the READ (REQ-09)? */
static inline bool
read_resp_fits(const struct qp *qp, const struct qp_sq_entry *e, uint32_t k,
	       const struct wire_pkt *pkt)
{
	bool last = k + 1 == e->npkts;
	bool ends = (pkt->op->flags & WIRE_F_LAST) != 0;

	if (last)
		return ends && pkt->payload_len == e->length - k * qp->conn.mtu;
	/*
	 * The responses to a request for part of a READ end within the READ: at every
	 * QP_READ_AGAIN_PKTS-th or with the last that was requested (req_read_most), with one that
	 * a probe requested, or anywhere with selective repeat.
	 */
	return pkt->payload_len == qp->conn.mtu &&
	       (!ends || (k + 1) % QP_READ_AGAIN_PKTS == 0 || qp->conn.sr.state == QP_SR_ON ||
		psn_add(pkt->psn, 1) == qp->conn.snd.high_psn || is_alone(qp, pkt));
}

bool
req_read_resp_fits(const struct qp *qp, const struct qp_sq_entry *e, uint32_t k,
		   const struct wire_pkt *pkt)
{
	return read_resp_fits(qp, e, k, pkt);
}

/* The data of n PSNs from una_psn on was stored; last: that of the whole oldest WQE, e, was. */
static inline void
responses_taken(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e, uint32_t n,
		bool last)
{
	struct qp_snd *snd = &qp->conn.snd;

	snd->una_psn = psn_add(snd->una_psn, n);
	if (likely(!snd->cc_active))
		cc_fixed_on_response(&snd->cc, snd->una_psn);
	else
		req_cc_progress(env, qp, 0);
	snd->rd_psns -= RTE_MIN(snd->rd_psns, n);
	if (last) {
		if (snd->cur == snd->tail) {
			snd->cur++;
			snd->cur_pkt = 0;
			if (psn_lt(snd->next_psn, snd->una_psn))
				snd->next_psn = snd->una_psn;
		}
		qp_retire_send(env, qp, e, QP_WC_SUCCESS);
	}
	req_progress(env, qp);
}

void
req_responses_taken(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e, uint32_t n)
{
	uint32_t k = psn_diff(qp->conn.snd.una_psn, e->first_psn) & WIRE_PSN_MASK;

	responses_taken(env, qp, e, n, k + n == e->npkts);
}

#define RUN_PKTS 32u /* responses of a run: a burst */

/* Responses of one or several READs of a burst, whose data one operation stores in mr. */
struct run {
	const struct mr *mr;
	uint32_t n;    /* READs */
	uint32_t pkts; /* responses */
	struct mem_part part[MEM_MAX_PARTS];
	struct mem_bytes src[RUN_PKTS]; /* data of each response */
};

/* Does p, which follows pkt in the burst, go on with the READ e, as its packet k? */
static inline bool
run_goes_on(const struct qp *qp, const struct qp_sq_entry *e, uint32_t k,
	    const struct wire_pkt *pkt, const struct wire_pkt *p)
{
	uint32_t kind = WIRE_F_READ | WIRE_F_RESP;

	return (p->op->flags & (kind | WIRE_F_FIRST)) == kind && p->psn == psn_add(pkt->psn, 1) &&
	       read_resp_fits(qp, e, k, p);
}

/*
 * Adds pkt, packet k of the READ e, and the responses behind it in the burst: at most as many as
 * have room in the first SGE. Returns the last response of e if it was added, else NULL.
 */
static const struct wire_pkt *
run_add(struct qp_env *env, const struct qp *qp, struct run *r, struct qp_sq_entry *e, uint32_t k,
	const struct wire_pkt *pkt)
{
	const struct uroce_sge *sge = req_sges(e);
	uint32_t off = k * qp->conn.mtu, room = sge->length - off;
	struct mem_part *part = &r->part[r->n++];
	const struct wire_pkt *p = pkt;

	*part = (struct mem_part){.va = r->mr->va + (sge->addr + off - r->mr->iova)};
	do {
		r->src[r->pkts++] = (struct mem_bytes){.at = p->payload, .len = p->payload_len};
		part->len += p->payload_len;
		if (++k == e->npkts)
			return p;
		pkt = p;
		p = env->rx_next(env, p);
	} while (p != NULL && r->pkts < RUN_PKTS && run_goes_on(qp, e, k, pkt, p) &&
		 p->payload_len <= room - part->len);
	return NULL;
}

/*
 * Is p the first response of the WQE with index i, a READ that was requested, and is all of the
 * READ's memory in mr? Returns the READ, or NULL.
 */
static struct qp_sq_entry *
run_next(const struct qp_env *env, const struct qp *qp, const struct mr *mr, uint32_t i,
	 const struct wire_pkt *p)
{
	uint32_t first = WIRE_F_READ | WIRE_F_RESP | WIRE_F_FIRST;
	const struct qp_snd *snd = &qp->conn.snd;
	const struct uroce_sge *sge;
	struct qp_sq_entry *e;

	if (i == snd->head || (p->op->flags & first) != first || !psn_lt(p->psn, snd->high_psn))
		return NULL;
	e = qp_sq_entry(qp, i);
	sge = req_sges(e);
	if (e->wqe.opcode != UROCE_WR_RDMA_READ || e->status != QP_WC_SUCCESS ||
	    e->first_psn != p->psn || e->wqe.num != 1 || e->length == 0 ||
	    !read_resp_fits(qp, e, 0, p) ||
	    mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr, sge->length, MEM_LOCAL_WRITE) !=
		    mr)
		return NULL;
	return e;
}

/*
 * Collects the run that begins with pkt, packet k of e, the oldest READ. Its memory and that of all
 * READs behind it in the run is in r->mr. one: of one READ only.
 */
static void
run_collect(struct qp_env *env, const struct qp *qp, struct run *r, struct qp_sq_entry *e,
	    uint32_t k, const struct wire_pkt *pkt, bool one)
{
	uint32_t i = qp->conn.snd.tail;

	r->n = r->pkts = 0;
	while (e != NULL) {
		const struct wire_pkt *last = run_add(env, qp, r, e, k, pkt);

		if (one || last == NULL || e->wqe.num != 1 || r->n == MEM_MAX_PARTS ||
		    r->pkts == RUN_PKTS)
			return;
		pkt = env->rx_next(env, last);
		if (pkt == NULL || pkt->psn != psn_add(last->psn, 1))
			return;
		e = run_next(env, qp, r->mr, ++i, pkt);
		k = 0;
	}
}

/*
 * Stores the data of pkt, packet k of the READ e, in mr, which is accessed by ops and has room for
 * the rest of the first SGE: together with that of the responses behind it in the burst.
 */
static __rte_noinline int
store_run(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t k,
	  const struct wire_pkt *pkt, const struct mr *mr)
{
	uint32_t off = k * qp->conn.mtu;
	struct run r;
	int rc;

	if (env->stored_qp == qp && psn_lt(pkt->psn, env->stored_psn))
		return 0;
	if (pkt->payload_len == 0 || pkt->payload_len > req_sges(e)->length - off)
		return req_scatter(env, qp, e, off, pkt->payload, pkt->payload_len);
	r.mr = mr;
	run_collect(env, qp, &r, e, k, pkt, false);
	rc = mr->ops->write_parts(mr->ops_ctx, r.part, r.n, r.src, r.pkts, NULL);
	/* Alone: if the memory of a later READ is gone, only that READ fails. */
	if (rc != 0 && rc != -EAGAIN && r.n > 1) {
		run_collect(env, qp, &r, e, k, pkt, true);
		rc = mr->ops->write_parts(mr->ops_ctx, r.part, r.n, r.src, r.pkts, NULL);
	}
	if (rc == 0) {
		env->stored_qp = qp;
		env->stored_psn = psn_add(pkt->psn, r.pkts);
	}
	return rc;
}

/*
 * Stores the data of packet k of the READ. In memory that is accessed by ops, the data of several
 * responses of a burst is stored by one operation.
 */
static int
store(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t k,
      const struct wire_pkt *pkt)
{
	const struct uroce_sge *sge = req_sges(e);
	uint32_t off = k * qp->conn.mtu;
	const struct mr *mr = NULL;

	if (env->rx_next != NULL && off < sge->length)
		mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr + off, sge->length - off,
			       MEM_LOCAL_WRITE);
	if (likely(mr != NULL && mr->host != NULL) && pkt->payload_len <= sge->length - off) {
		mr_store(mr, sge->addr + off, pkt->payload, pkt->payload_len);
		return 0;
	}
	if (mr == NULL || mr->host != NULL)
		return req_scatter(env, qp, e, off, pkt->payload, pkt->payload_len);
	return store_run(env, qp, e, k, pkt, mr);
}

/*
 * pkt was taken after a probe of a READ. If it is the response to the probe, it has overtaken all
 * original responses behind it: they are lost.
 */
static __rte_noinline void
alone_taken(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_snd *snd = &qp->conn.snd;
	bool is = is_alone(qp, pkt);
	uint32_t only = WIRE_F_FIRST | WIRE_F_LAST;

	qp->conn.loss.alone = false;
	if (is && (pkt->op->flags & only) == only && snd->una_psn == psn_add(pkt->psn, 1) &&
	    snd->next_psn == snd->high_psn && req_outstanding(snd))
		req_read_gap(env, qp, snd->una_psn, true);
}

void
req_rx_read_resp(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_sq_entry *e;
	uint32_t k;
	int rc;

	if (!req_ack_until(env, qp, pkt->psn)) {
		if (!req_rx_early(env, qp, pkt))
			req_read_gap(env, qp, pkt->psn, true);
		return;
	}
	e = qp_sq_entry(qp, snd->tail);
	k = psn_diff(pkt->psn, e->first_psn) & WIRE_PSN_MASK;
	if (e->wqe.opcode != UROCE_WR_RDMA_READ || !read_resp_fits(qp, e, k, pkt)) {
		req_fault(env, qp,
			  e->wqe.opcode != UROCE_WR_RDMA_READ ? UROCE_ERROR_RESPONSE_OPCODE
							      : UROCE_ERROR_RESPONSE_LENGTH,
			  pkt->psn);
		qp_error(env, qp, QP_WC_BAD_RESP_ERR);
		return;
	}
	rc = store(env, qp, e, k, pkt);
	if (unlikely(rc != 0)) {
		req_not_scattered(env, qp, e, k * qp->conn.mtu, pkt->payload_len, rc);
		return;
	}
	responses_taken(env, qp, e, 1, k + 1 == e->npkts);
	if (unlikely(qp->conn.loss.alone))
		alone_taken(env, qp, pkt);
	if (unlikely(qp->bind.scoreboard != NULL))
		req_reads_progress(env, qp, pkt->psn);
}

/* The response to an atomic: the original value, stored in host byte order. */
void
req_rx_atomic_ack(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_sq_entry *e;
	int rc;

	if (!req_ack_until(env, qp, pkt->psn)) {
		if (!req_rx_early(env, qp, pkt))
			req_read_gap(env, qp, pkt->psn, true);
		return;
	}
	e = qp_sq_entry(qp, qp->conn.snd.tail);
	if (e->wqe.opcode == UROCE_WR_RDMA_READ || !req_fetches(e)) {
		req_fault(env, qp, UROCE_ERROR_RESPONSE_OPCODE, pkt->psn);
		qp_error(env, qp, QP_WC_BAD_RESP_ERR);
		return;
	}
	rc = req_scatter(env, qp, e, 0, (const uint8_t *)&pkt->orig, sizeof(pkt->orig));
	if (unlikely(rc != 0)) {
		req_not_scattered(env, qp, e, 0, sizeof(pkt->orig), rc);
		return;
	}
	responses_taken(env, qp, e, 1, true);
	if (unlikely(qp->bind.scoreboard != NULL))
		req_reads_progress(env, qp, pkt->psn);
}

void
req_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_snd *snd = &qp->conn.snd;

	/* It has no data: ignore it, as it may be forged; a real peer gets a retransmission. */
	if (!(pkt->op->flags & WIRE_F_READ))
		return;
	if (psn_lt(pkt->psn, snd->una_psn) || !psn_lt(pkt->psn, snd->high_psn))
		return; /* a ghost (REQ-07) */
	if (!req_ack_until(env, qp, pkt->psn)) {
		req_read_gap(env, qp, pkt->psn, false);
		return;
	}
	req_fault(env, qp, UROCE_ERROR_RESPONSE_MALFORMED, pkt->psn);
	qp_error(env, qp, QP_WC_BAD_RESP_ERR);
}

/*
 * Number of responses to request of the READ e, from its packet k on: all, or those from the first
 * missing PSN on (REQ-08). A READ of more than QP_READ_CHUNK_PKTS is sent as several requests, so
 * that the PSNs in flight stay far below 2^23.
 *
 * After one lost response others may be lost, and responses behind the next lost one are useless.
 * A request for the rest of a READ therefore covers few responses at a time. The responder has seen
 * the whole READ by then, so these requests are duplicates that use none of its resources. No
 * duplicate may reach beyond the original request (RSP-01).
 *
 * A congestion policy may allow few responses at a time. The first request for such a READ then
 * covers less than all of it, and each of the next ones is a new request for the responder. It
 * uses the same resource, because it is sent when all responses before it have arrived.
 */
uint32_t
req_read_most(const struct qp *qp, const struct qp_sq_entry *e)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint32_t k = snd->cur_pkt, most = QP_READ_CHUNK_PKTS, n;

	if (psn_lt(snd->next_psn, snd->high_psn) && !req_read_unknown(qp, e, snd->next_psn))
		most = QP_READ_AGAIN_PKTS;
	n = RTE_MIN(e->npkts - k, most - k % most);
	if (psn_lt(snd->next_psn, snd->high_psn))
		return RTE_MIN(n, (uint32_t)psn_diff(snd->high_psn, snd->next_psn));
	return snd->cc_active ? RTE_MIN(n, cc_read_pkts(&qp->conn.cc_flow)) : n;
}
