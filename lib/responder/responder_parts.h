/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of lib/responder. Owner worker only. */
#ifndef RESPONDER_RESPONDER_PARTS_H
#define RESPONDER_RESPONDER_PARTS_H

#include "qp/emit.h"
#include "qp/retire.h"
#include "responder/responder.h"

/* Every L_Key that bytes off .. off + len of the receive WQE use is good (MEM-02). */
bool rsp_recv_keys_good(struct qp_env *env, struct qp *qp, uint32_t off, uint32_t len);
/*
 * Write len bytes at offset off of the receive WQE. Keys were checked in this very burst, so only
 * memory that is gone makes it fail: 0, or -errno of mr_write.
 */
int rsp_recv_write(struct qp_env *env, struct qp *qp, const uint8_t *src, uint32_t off,
		   uint32_t len);
/*
 * Memory failed with rc, which is not 0: true when its client has died. A process loses its memory
 * before its sockets close, and peers of a killed client are to see silence, not a refusal; so the
 * QP is in ERR then, and nothing is due.
 */
bool rsp_client_gone(struct qp_env *env, struct qp *qp, int rc);

/*
 * A request is dropped, since memory that it needs is not there yet. Of RC an RNR NAK is due, which
 * costs its peer no retry_cnt; the peer is to wait longer each time (NAK-10).
 */
void rsp_memory_late(struct qp_env *env, struct qp *qp);
/*
 * Number of the write or atomic with the ePSN that is executed by ops, the same one when it comes
 * again after rsp_memory_late.
 */
uint64_t rsp_once(struct qp_env *env, struct qp *qp);
/* The code of the RNR NAK for late->psn, which is late again. */
uint8_t rsp_late_code(const struct qp *qp, struct qp_late *late);

/* An ACK of everything up to psn is due (RSP-02): sent by rsp_run, coalesced until then. */
void rsp_ack(struct qp *qp, uint32_t psn);

/* A PSN sequence NAK (NAK-04) or RNR NAK (NAK-10) of the ePSN is due, unless one went out already.
 */
void rsp_nak_seq(struct qp_env *env, struct qp *qp, uint32_t early_psn);
void rsp_nak_rnr(struct qp_env *env, struct qp *qp);

/*
 * The request with the ePSN cannot be: NAK code is due, the QP goes to ERR once it was sent. If the
 * message holds a receive WQE it completes with status, else ev is raised (NAK-09); status SUCCESS:
 * the WQE held is another message's, and ev is raised. An unreliable connection sends no NAK and
 * goes to ERR at once.
 */
void rsp_nak_fatal(struct qp_env *env, struct qp *qp, enum wire_nak code, enum qp_wc_status status,
		   enum qp_event ev);

/*
 * The R_Key of the request with the ePSN was refused, and it is to be answered so. True: not this
 * time, as its peer tries too many keys that name nothing (struct qp_wrong_keys): the request is
 * dropped, as are those that follow for a while.
 */
bool rsp_key_guessed(struct qp_env *env, struct qp *qp, uint32_t rkey);
/* The same of a request that is answered in any case; it decides about those that follow. */
bool rsp_key_count(struct qp_env *env, struct qp *qp, uint32_t rkey);

/* A READ request with the ePSN, and a duplicate one (RSP-01, RSP-03). */
void rsp_read_new(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void rsp_read_dup(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/* The same of an atomic. */
void rsp_atomic_new(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void rsp_atomic_dup(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
/* Send the answer of op. False: no room. */
bool rsp_atomic_respond(struct qp_env *env, struct qp *qp, const struct qp_rd_op *op);

/*
 * The READ or atomic that was executed i others ago, 0 <= i < QP_MAX_RD_ATOMIC; npkts is 0 where
 * there was none. Look from the latest back: PSNs come round, and the same PSN may be there twice.
 */
static inline const struct qp_rd_op *
rsp_rd_past(const struct qp_rcv *rcv, uint32_t i)
{
	return &rcv->hist[(rcv->hist_next - 1 - i) % QP_MAX_RD_ATOMIC];
}

/* Is one of the max_dest_rd_atomic places free (RSP-03)? */
bool rsp_rd_room(const struct qp *qp);
/*
 * A READ or atomic with the ePSN is accepted: queue its answer, remember it, move ePSN and MSN on.
 * op->msn is filled in here.
 */
void rsp_rd_add(struct qp *qp, struct qp_rd_op *op);
/* Answer op again (pos 0), in its place in PSN order, unless that is still under way. */
void rsp_rd_replay(struct qp_env *env, struct qp *qp, struct qp_rd_op *op);

/* Send READ responses, up to budget packets or a turn's bytes. True when all that is due was sent.
 */
bool rsp_read_run(struct qp_env *env, struct qp *qp, uint32_t budget);

/* Headers only, or headers and room for payload: a frame ready to be filled, or NULL (no room). */
struct rte_mbuf *rsp_frame(struct qp_env *env);
void rsp_emit(struct qp_env *env, struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
	      uint32_t payload_len);

#endif
