/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/requester. Owner worker only. */
#ifndef REQUESTER_REQUESTER_PARTS_H
#define REQUESTER_REQUESTER_PARTS_H

#include <errno.h>
#include <string.h>
#include <rte_branch_prediction.h>
#include "qp/congestion.h"
#include "qp/deadline.h"
#include "qp/doorbell.h"
#include "qp/emit.h"
#include "qp/prefetch.h"
#include "qp/record.h"
#include "qp/retire.h"
#include "qp/selective.h"
#include "requester/requester.h"
#include "wire/psn.h"

/* SGEs (or inline bytes) of an SQ entry. */
static inline struct uroce_sge *
req_sges(struct qp_sq_entry *e)
{
	return (struct uroce_sge *)(e + 1);
}

/*
 * Traits of an opcode (enum uroce_wr_traits) as the fast path needs them: by comparison, without a
 * load from the table. A test compares these functions with the table.
 */
/* Is it a SEND or WRITE, which sends the WQE's data? */
static inline bool
req_sends(const struct qp_sq_entry *e)
{
	return e->wqe.opcode <= UROCE_WR_SEND_IMM || e->wqe.opcode == UROCE_WR_SEND_INV;
}

/* Is it a READ or atomic, whose response carries data? */
static inline bool
req_fetches(const struct qp_sq_entry *e)
{
	return e->wqe.opcode >= UROCE_WR_RDMA_READ && e->wqe.opcode <= UROCE_WR_ATOMIC_FETCH_ADD;
}

/* Does the message use a receive WQE of the peer? Only these need a credit. */
static inline bool
req_takes_recv(const struct qp_sq_entry *e)
{
	return req_sends(e) && e->wqe.opcode != UROCE_WR_RDMA_WRITE;
}

/* The PSN behind the last one of e, a READ, that was ever requested. */
static inline uint32_t
req_requested_end(const struct qp *qp, const struct qp_sq_entry *e)
{
	uint32_t end = psn_add(e->first_psn, e->npkts), high = qp->conn.snd.high_psn;

	return psn_lt(high, end) ? high : end;
}

/* May the responder not know the request that asked for psn, a PSN of the READ e, first? */
static inline bool
req_read_unknown(const struct qp *qp, const struct qp_sq_entry *e, uint32_t psn)
{
	return psn == e->first_psn || (psn | QP_PART_SENT) == qp->conn.loss.part_psn;
}

/* Was a packet of the oldest WQE sent since the last rewind? */
static inline bool
req_oldest_started(const struct qp_snd *snd)
{
	return snd->cur != snd->tail || snd->cur_pkt != 0;
}

/* Is it a bind or invalidate, which has no packet and no PSN? */
static inline bool
req_is_local(const struct qp_sq_entry *e)
{
	return e->wqe.opcode == UROCE_WR_LOCAL_INV || e->wqe.opcode == UROCE_WR_BIND_MW;
}

/*
 * Execute a local operation (MEM-04) once; sets its status on failure. It completes when all WQEs
 * before it have.
 */
void req_local_run(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e);
/* The bind that a WQE w of qp asks for. */
void req_bind_of(const struct qp *qp, const struct uroce_send_wqe *w, struct mw_bind *b);
/* Retire executed local operations that have become the oldest WQEs. */
void req_local_retire(struct qp_env *env, struct qp *qp);

/*
 * Take a copy of the next WQE of the SQ, check it (REQ-03) and assign its PSNs. Returns NULL if
 * none is posted, there is no space for the copy, the QP drains, or the SQ is corrupt.
 */
struct qp_sq_entry *req_fetch(struct qp_env *env, struct qp *qp);

/*
 * Copy len bytes at offset off of the WQE's SGEs to dst, or from src to the SGEs. Returns 0;
 * -EAGAIN if memory is late (mem/mr.h); another -errno if an L_Key does not cover the range (any
 * more): LOC_PROT_ERR.
 */
int req_gather_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		    uint8_t *dst, uint32_t len);
int req_scatter_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		     const uint8_t *src, uint32_t len);

/*
 * Copies len bytes at offset off of the first SGE of e, which are in mr, a region that is accessed
 * by ops. May read more of the SGE at once, and of the messages behind e (qp/ahead.h).
 */
int req_gather_ahead(struct qp_env *env, const struct qp *qp, const struct qp_sq_entry *e,
		     const struct mr *mr, uint32_t off, uint8_t *dst, uint32_t len);
/*
 * The only SGE of the WQE with index i of the SQ, if it is a SEND or WRITE that is posted, is not
 * complete, is not fenced, and has one SGE and no inline data; else false. The client may still
 * change a WQE that was not taken.
 */
bool req_peek(const struct qp *qp, uint32_t i, struct uroce_sge *sge);

/* As req_gather_sges; also handles inline data. */
static __rte_always_inline int
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
	/* Common case: all of it is in the first SGE. */
	if (unlikely(sge->length < off || sge->length - off < len))
		return req_gather_sges(env, qp, e, off, dst, len);
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr + off, len, MEM_LOCAL_READ);
	if (unlikely(mr == NULL))
		return -EFAULT;
	if (likely(mr->host != NULL))
		return mr_read(mr, sge->addr + off, dst, len);
	return req_gather_ahead(env, qp, e, mr, off, dst, len);
}

static __rte_always_inline int
req_scatter(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
	    const uint8_t *src, uint32_t len)
{
	const struct uroce_sge *sge = req_sges(e);
	const struct mr *mr;

	if (len == 0)
		return 0;
	/* Common case: all of it is in the first SGE. */
	if (unlikely(sge->length < off || sge->length - off < len))
		return req_scatter_sges(env, qp, e, off, src, len);
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr + off, len, MEM_LOCAL_WRITE);
	return likely(mr != NULL) ? mr_write(mr, sge->addr + off, src, len) : -EFAULT;
}

/* As req_gather_sges, for all bytes of a QP_WQE_ONE_PACKET WQE. */
static __rte_always_inline int
req_gather_one_packet(struct qp_env *env, const struct qp *qp, const struct qp_sq_entry *e,
		      uint8_t *dst)
{
	const struct uroce_sge *sge = req_sges((struct qp_sq_entry *)e);
	const struct mr *mr;

	if (e->length == 0)
		return 0;
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr, e->length, MEM_LOCAL_READ);
	if (unlikely(mr == NULL))
		return -EFAULT;
	if (likely(mr->host != NULL))
		return mr_read(mr, sge->addr, dst, e->length);
	return req_gather_ahead(env, qp, e, mr, 0, dst, e->length);
}

/* Are all L_Keys of the WQE valid for its SGEs, with the given local access? */
bool req_check_sges(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t access);

/* Opcode of packet k of a SEND or WRITE, without the service bits. */
uint8_t req_opcode(const struct qp_sq_entry *e, uint32_t k);

enum req_step {
	REQ_SENT,    /* a packet was sent: take another step */
	REQ_NEXT,    /* progress without a packet: take another step */
	REQ_BLOCKED, /* wait for a response, a timer or a doorbell */
	REQ_HELD,    /* the congestion policy allows no packet before QP_DEADLINE_PACE */
	REQ_WAITS,   /* the payload's memory is late */
	REQ_NO_ROOM, /* out of budget, tx slots or mbufs */
};

/* Handle the failure rc of gathering a packet's payload of e. Frees m, its frame. */
void req_not_gathered(struct qp_sq_entry *e, struct rte_mbuf *m, int rc);

/* UC and UD: the WQE at the cursor, e, was sent completely and completes. */
void req_sent_all(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e);

/* Send the datagram e (WIRE-08, WIRE-10, WIRE-11). */
enum req_step req_send_datagram(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e);
/* The next hop of the waiting datagram did not respond: it counts as sent. */
void req_datagram_timeout(struct qp_env *env, struct qp *qp);

/*
 * After a loss, or with a reduced window, are too many PSNs outstanding to begin a READ or atomic
 * with n responses? Without a limit the responses would fill every queue on their path, and a
 * retransmitted one would queue behind all. With a policy other than `fixed`, a larger READ goes
 * alone.
 */
bool req_fetch_must_wait(const struct qp *qp, uint32_t n);

/*
 * Report to a congestion policy, if snd.cc_active: the last frame of env->tx was sent, with psn. It
 * asks for requested_bytes of READ responses.
 */
void req_cc_sent(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t requested_bytes);
/*
 * Payload bytes that the request just sent for e, from its packet k and PSN psn on, asks for, as
 * far as the policy counts them: at most CC_WINDOW_PKTS packets. Only a policy that measures round
 * trips paces READs at the requester, because the responder gets no ACKs. 0: not a READ, or no such
 * policy.
 */
uint32_t req_cc_requested(const struct qp *qp, const struct qp_sq_entry *e, uint32_t k,
			  uint32_t psn);

/* The largest window of `fixed` was reduced: a packet more from the next round trip on. */
static inline void
req_window_capped(struct qp *qp)
{
	qp->conn.snd.watch |= QP_WATCH_CAPPED;
	qp->conn.loss.cap_psn = qp->conn.snd.high_psn;
}

/* After a loss was reported to the policy: the same if that has reduced it. */
static inline void
req_window_check(struct qp *qp)
{
	const struct cc_flow *flow = &qp->conn.cc_flow;

	if (flow->param.policy == CC_FIXED && !(qp->conn.snd.watch & QP_WATCH_CAPPED) &&
	    qp->conn.snd.cc.most_pkts < flow->fixed.full_pkts)
		req_window_capped(qp);
}

/* Report a loss to the congestion policy; its owner worker, as for the others. */
static inline void
req_cc_loss(struct qp_env *env, struct qp *qp)
{
	cc_on_loss(&qp->conn.snd.cc, &qp->conn.cc_flow, env->now_ns);
	req_window_check(qp);
	qp_cc_follow(env, qp);
}

/*
 * Report to a congestion policy, if snd.cc_active: a response arrived; una_psn has advanced.
 * retired: bytes of the WQEs that were retired since the last report, as req_cc_bytes counts.
 */
void req_cc_response(struct qp *qp, const struct wire_pkt *pkt);
void req_cc_progress(struct qp_env *env, struct qp *qp, uint32_t retired);
/* Payload bytes of the first npkts packets of e that were not reported yet. */
uint32_t req_cc_bytes(const struct qp *qp, const struct qp_sq_entry *e, uint32_t npkts);

/* una_psn has advanced: reload the retry counters, restart or stop the timer. */
void req_progress(struct qp_env *env, struct qp *qp);
/*
 * Acknowledge everything before upto, as far as possible: a READ is complete only when its data has
 * arrived (REQ-07). Retires WQEs. Returns true if una_psn is now upto.
 */
bool req_ack_until(struct qp_env *env, struct qp *qp, uint32_t upto);

/* Responses that a request for the READ e, from the cursor on, may ask for, at least 1. */
uint32_t req_read_most(const struct qp *qp, const struct qp_sq_entry *e);
/* Handle a response with data whose PSN is in flight. */
void req_rx_read_resp(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void req_rx_atomic_ack(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/* Handle NAKs of psn, which is in flight; code: the value of the syndrome. */
void req_rx_rnr(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t code);
void req_rx_seq_nak(struct qp_env *env, struct qp *qp, uint32_t psn);
void req_rx_fatal_nak(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t code);

/*
 * READ responses before psn, the PSN of a received response, are missing: request them again, once
 * per gap (REQ-08). data: the received response is a READ response.
 */
void req_read_gap(struct qp_env *env, struct qp *qp, uint32_t psn, bool data);
/* Is a packet received while responses to earlier ones wait for memory, and not one of these? */
static inline bool
req_is_behind(const struct qp_env *env, const struct qp *qp)
{
	return unlikely(qp->bind.late_resp.n != 0) && !env->again;
}
/* Handle the failure rc of req_scatter for the data of una_psn, len bytes at off of e's SGEs. */
void req_not_scattered(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		       uint32_t len, int rc);

/*
 * Nothing can be sent because the next hop's MAC is unknown. Uses up no retry, since no packet was
 * sent; the QP gives up (RETRY_EXC_ERR) after the time that all retries would have taken.
 */
enum req_step req_wait_path(struct qp_env *env, struct qp *qp);

/* fault.c: qp fails for why; the oldest WQE, if there is one, is concerned. */
void req_fault(struct qp_env *env, struct qp *qp, enum uroce_error why, uint32_t psn);
/* fault.c: qp fails because e, the oldest WQE, has a status that is not success. */
void req_fault_wqe(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e);
/* fault.c: qp fails because the data of una_psn cannot be stored at off of e's SGEs. */
void req_fault_scatter(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		       uint32_t len);

/* Report the end of a drain (SQD) once, when nothing is outstanding (QP-15). */
void req_drain_check(struct qp_env *env, struct qp *qp);

/* Is nothing sent until the end of an RNR wait? */
static inline bool
req_rnr_waits(const struct qp *qp)
{
	return qp_deadline_is_set(&qp->conn, QP_DEADLINE_RNR);
}

/* Is any packet outstanding? */
static inline bool
req_outstanding(const struct qp_snd *snd)
{
	return snd->next_psn != snd->una_psn;
}

/*
 * Loss recovery of the requester. Shared by the files of lib/requester; owner worker only.
 * Implemented by timers.c: retransmits everything from the first unacknowledged packet.
 */

/* Rewind: the next packet sent is una_psn's; the ACK timeout restarts with it. */
void req_rewind(const struct qp_env *env, struct qp *qp);
/*
 * Rewind because READ data is missing. The peer responds, but una_psn does not advance: the ACK
 * timeout restarts only the first time (REQ-04), because a peer whose responses never close the gap
 * would otherwise be retried forever.
 */
void req_ask_again(struct qp_env *env, struct qp *qp);
/* A response to a packet sent before a rewind overtook the cursor: continue at una_psn. */
void req_catch_up(const struct qp_env *env, struct qp *qp);
/* Use up a retry. False: none was left, and the QP is in the error state for why. */
bool req_take_retry(struct qp_env *env, struct qp *qp, enum uroce_error why);
/*
 * una_psn has advanced, and snd.off_fast_path is not 0. probe_ns is not updated yet; the caller
 * does that.
 */
void req_watched(struct qp_env *env, struct qp *qp);
/* The peer has responded, with or without progress: reset the wait for probes. */
void req_answered(struct qp_env *env, struct qp *qp);
/*
 * Selective repeat: the packet psn is retransmitted. Its response gives no round trip, and ACKs of
 * later packets may wait for it.
 */
void req_watch_resent(struct qp *qp, uint32_t psn);
/*
 * A SACK came that names the packets held, relative to epsn: the set of struct wire_sack. Takes a
 * round trip if the timed packet is one of them. Policies that measure delay need round trips while
 * una_psn does not move.
 */
void req_watch_held(struct qp_env *env, struct qp *qp, uint32_t epsn,
		    const struct qp_psns_rel *held);
/* A response to an acknowledged packet arrived. */
void req_watch_stale(struct qp_env *env, struct qp *qp);

#endif
