/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of lib/requester. Owner worker only. */
#ifndef REQUESTER_REQUESTER_PARTS_H
#define REQUESTER_REQUESTER_PARTS_H

#include <errno.h>
#include <string.h>
#include <rte_branch_prediction.h>
#include "qp/doorbell.h"
#include "qp/emit.h"
#include "qp/prefetch.h"
#include "qp/retire.h"
#include "requester/requester.h"

/* SGEs (or inline bytes) of an SQ entry. */
static inline struct uroce_sge *
req_sges(struct qp_sq_entry *e)
{
	return (struct uroce_sge *)(e + 1);
}

/* SENDs and WRITEs: what a WQE names goes out. */
static inline bool
req_sends(const struct qp_sq_entry *e)
{
	return e->wqe.opcode <= UROCE_WR_SEND_IMM || e->wqe.opcode == UROCE_WR_SEND_INV;
}

/* READs and atomics: answered by data, not by an ACK. */
static inline bool
req_fetches(const struct qp_sq_entry *e)
{
	return e->wqe.opcode >= UROCE_WR_RDMA_READ && e->wqe.opcode <= UROCE_WR_ATOMIC_FETCH_ADD;
}

/* Does the message take a receive WQE of the peer? Only those are held against its credits. */
static inline bool
req_takes_recv(const struct qp_sq_entry *e)
{
	return req_sends(e) && e->wqe.opcode != UROCE_WR_RDMA_WRITE;
}

/* Has a packet of the WQE at index tail, the oldest, been sent since the cursor was last there? */
static inline bool
req_oldest_started(const struct qp_snd *snd)
{
	return snd->cur != snd->tail || snd->cur_pkt != 0;
}

/* Binds and invalidations: no packet, no PSN. */
static inline bool
req_is_local(const struct qp_sq_entry *e)
{
	return e->wqe.opcode == UROCE_WR_LOCAL_INV || e->wqe.opcode == UROCE_WR_BIND_MW;
}

/*
 * Execute a local operation (MEM-04), once; a failed one has its status set. It completes when all
 * before it have.
 */
void req_local_run(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e);
/* Retire local operations that are done and have become the oldest WQEs. */
void req_local_retire(struct qp_env *env, struct qp *qp);

/*
 * Take a copy of the next WQE of the SQ, check it (REQ-03) and give it its PSNs. NULL when none is
 * posted, there is no room for the copy, the QP drains, or the SQ is corrupt.
 */
struct qp_sq_entry *req_fetch(struct qp_env *env, struct qp *qp);

/*
 * Copy len bytes at offset off of the WQE's data, which is in SGEs, to dst, or from src into them.
 * 0; -EAGAIN: the memory is not there yet (mem/mr.h); another -errno when an L_Key does not cover
 * them (any more): LOC_PROT_ERR.
 */
int req_gather_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		    uint8_t *dst, uint32_t len);
int req_scatter_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		     const uint8_t *src, uint32_t len);

/* As req_gather_sges; the data may be inline, too. */
static inline int
req_gather(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off, uint8_t *dst,
	   uint32_t len)
{
	const struct uroce_sge *sge = req_sges(e);
	const struct mr *mr;

	if (e->wqe.flags & UROCE_WQE_INLINE) {
		memcpy(dst, (const uint8_t *)(e + 1) + off, len);
		return 0;
	}
	if (len == 0)
		return 0;
	/* The common case: all of it in the first SGE. */
	if (unlikely(sge->length < off || sge->length - off < len))
		return req_gather_sges(env, qp, e, off, dst, len);
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr + off, len, MEM_LOCAL_READ);
	return likely(mr != NULL) ? mr_read(mr, sge->addr + off, dst, len) : -EFAULT;
}

static inline int
req_scatter(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
	    const uint8_t *src, uint32_t len)
{
	const struct uroce_sge *sge = req_sges(e);
	const struct mr *mr;

	if (len == 0)
		return 0;
	/* The common case: all of it in the first SGE. */
	if (unlikely(sge->length < off || sge->length - off < len))
		return req_scatter_sges(env, qp, e, off, src, len);
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr + off, len, MEM_LOCAL_WRITE);
	return likely(mr != NULL) ? mr_write(mr, sge->addr + off, src, len) : -EFAULT;
}

/* As req_gather_sges, of all bytes of a WQE that is QP_WQE_ONE_PACKET. */
static __rte_always_inline int
req_gather_usual(const struct qp_env *env, const struct qp *qp, const struct qp_sq_entry *e,
		 uint8_t *dst)
{
	const struct uroce_sge *sge = req_sges((struct qp_sq_entry *)e);
	const struct mr *mr;

	if (e->length == 0)
		return 0;
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr, e->length, MEM_LOCAL_READ);
	return likely(mr != NULL) ? mr_read(mr, sge->addr, dst, e->length) : -EFAULT;
}

/*
 * Where len bytes at offset off of the WQE's data lie, if the daemon has them mapped in one piece
 * and the L_Key is good for them; else NULL, and req_gather says more. Good until the end of the
 * burst.
 */
const uint8_t *req_zero_copy_source(const struct qp_env *env, const struct qp *qp,
				    struct qp_sq_entry *e, uint32_t off, uint32_t len);
/*
 * Emit a frame: the headers that m has, of hdr_len bytes, just made from qp's template, and len
 * bytes of payload, which stay at src (qp/env.h). False, and m as it was, when there are no
 * segments.
 */
bool req_zero_copy_attach(struct qp_env *env, struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
			  const uint8_t *src, uint32_t len);
/* The ICRC again, of a frame that req_zero_copy_attach made from t's headers and whose PSN word
 * changed. */
void req_zero_copy_reseal(struct rte_mbuf *m, const struct wire_tmpl *t);

/* Every L_Key of the WQE is good for all it names, with the given local access. */
bool req_check_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t access);

/* Opcode of packet k of a SEND or WRITE, without the service bits. */
uint8_t req_opcode(const struct qp_sq_entry *e, uint32_t k);

enum req_step {
	REQ_SENT,    /* a packet went out: go on */
	REQ_NEXT,    /* this WQE needs nothing more for now: look again */
	REQ_BLOCKED, /* a response, a timer or a doorbell will wake us */
	REQ_NO_ROOM, /* out of budget, tx slots or mbufs; or memory is not there yet */
};

/* The payload of a packet of e cannot be gathered: rc is not 0. m, its frame, is freed. */
void req_not_gathered(struct qp_sq_entry *e, struct rte_mbuf *m, int rc);

/* UC and UD: the WQE under the cursor, e, is all sent, hence complete. */
void req_sent_all(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e);

/* Send the datagram e (WIRE-08, WIRE-10, WIRE-11). */
enum req_step req_send_datagram(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e);
/* The next hop of the datagram that waits did not answer: it counts as sent. */
void req_datagram_timeout(struct qp_env *env, struct qp *qp);

/* una_psn moved on: counters are reloaded, the timer starts anew or stops. */
void req_progress(struct qp_env *env, struct qp *qp);
/*
 * Everything before upto is acknowledged, as far as that goes: a READ is complete only when its
 * data is here (REQ-07). Retires WQEs. True when una_psn is now upto.
 */
bool req_ack_until(struct qp_env *env, struct qp *qp, uint32_t upto);

/* An answer with data whose PSN has been checked to be in flight. */
void req_rx_read_resp(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void req_rx_atomic_ack(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/* NAKs of psn, which is in flight; code: the value of the syndrome. */
void req_rx_rnr(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t code);
void req_rx_seq_nak(struct qp_env *env, struct qp *qp, uint32_t psn);
void req_rx_fatal_nak(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t code);

/*
 * READ responses before psn, which an answer just had, are missing: ask for them again, once a gap
 * (REQ-08). data: the answer is a response.
 */
void req_read_gap(struct qp_env *env, struct qp *qp, uint32_t psn, bool data);
/* The data of una_psn cannot be stored: rc, of req_scatter, is not 0. */
void req_not_scattered(struct qp_env *env, struct qp *qp, int rc);

/*
 * Nothing can be sent, because the next hop's MAC is not known. No retry is used up, since no
 * packet has been sent; the QP gives up (RETRY_EXC_ERR) after as long as all retries would have
 * taken.
 */
enum req_step req_wait_path(struct qp_env *env, struct qp *qp);

/* A draining QP (SQD) with nothing outstanding is drained: say so once (QP-15). */
void req_drain_check(struct qp_env *env, struct qp *qp);

/* Is anything sent and not acknowledged? */
static inline bool
req_outstanding(const struct qp_snd *snd)
{
	return snd->next_psn != snd->una_psn;
}

#endif
