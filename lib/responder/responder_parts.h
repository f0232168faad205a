/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/responder. Owner worker only. */
#ifndef RESPONDER_RESPONDER_PARTS_H
#define RESPONDER_RESPONDER_PARTS_H

#include <rte_mbuf.h>
#include "mem/late.h"
#include "qp/emit.h"
#include "qp/qp.h"
#include "qp/record.h"
#include "qp/retire.h"
#include "responder/responder.h"
#include "wire/parse.h"
#include <stdint.h>

/*
 * The request with the ePSN: check it, execute it, advance the ePSN, and make its response due; or
 * make a NAK due. The caller frees its mbuf (responder_parts.h).
 */
void rsp_execute(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
/* A duplicate: responds again, never executes again (RSP-01), never NAKs (NAK-05). */
void rsp_duplicate(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
/* The request pkt with the ePSN is invalid for why: NAK-07; UC drops it silently (RSP-06). */
void rsp_invalid(struct qp_env *env, struct qp *qp, enum uroce_error why,
		 const struct wire_pkt *pkt);

/*
 * fault.c: qp fails for why, because of request pkt (or NULL). Called before rsp_nak_fatal or
 * qp_error, as all functions rsp_fault*.
 */
void rsp_fault(struct qp_env *env, struct qp *qp, enum uroce_error why, const struct wire_pkt *pkt);
/* The same if qp only refuses pkt and continues. */
void rsp_note(struct qp_env *env, struct qp *qp, enum uroce_error why, const struct wire_pkt *pkt);
/* The R_Key of pkt's message does not give this access. */
void rsp_fault_rkey(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t access);
/* The memory of op's response with psn cannot be read. */
void rsp_fault_read(struct qp_env *env, struct qp *qp, const struct qp_rd_op *op, uint32_t psn);
/* Bytes off .. off + len of the receive WQE cannot be written. */
void rsp_fault_recv(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off,
		    uint32_t len);

/* Are all L_Keys for bytes off .. off + len of the receive WQE valid (MEM-02)? */
bool rsp_recv_keys_good(struct qp_env *env, struct qp *qp, uint32_t off, uint32_t len);
/*
 * Write len bytes at offset off of the receive WQE. Its keys were checked in this burst, so it
 * fails only if memory is gone. Returns 0 or -errno of mr_write.
 */
int rsp_recv_write(struct qp_env *env, struct qp *qp, const uint8_t *src, uint32_t off,
		   uint32_t len);
/* Is the byte at offset off of the receive WQE in memory that is accessed by ops (mem/mr.h)? */
bool rsp_recv_by_ops(struct qp_env *env, struct qp *qp, uint32_t off);
/*
 * A memory access failed with rc, not 0. Returns true if the client has died; the QP is then in ERR
 * and nothing is due. A killed process loses its memory before its sockets close, and its peers
 * shall see silence rather than a NAK.
 */
bool rsp_client_gone(struct qp_env *env, struct qp *qp, int rc);

/*
 * Drop a request whose memory is late, until the engine tries it again (rsp_rx_late) or gives it up
 * (rsp_rx_lost). RC: requests that come behind it meanwhile draw no NAK, and the engine keeps them.
 */
void rsp_memory_late(struct qp_env *env, struct qp *qp);
/*
 * Make an RNR NAK due because the memory of the request with psn, or of a held one behind it, is
 * late, unless that was executed meanwhile: the peer uses up no retry_cnt, and waits longer each
 * time (NAK-10). Discards the requests that are held. A later psn is asked for by the sequence NAK
 * of rsp_order_late.
 */
void rsp_late_nak(struct qp_env *env, struct qp *qp, uint32_t psn);
/*
 * The late operation (mem/late.h) of the WRITE or atomic with the ePSN, which writes len bytes
 * under rkey. NONE also if it has not responded within the time limit. A request of another kind,
 * or under another key, is another one. A request whose operation is DONE is executed without its
 * region, which a program that polls its memory may have deregistered, or unbound the window.
 */
enum mem_late_state rsp_late_state(const struct qp *qp, uint32_t rkey, bool atomic, uint32_t len);
/*
 * The same; ends it if it is DONE. Returns 0 if so, with *orig set if atomic; -EAGAIN or -ETIMEDOUT
 * if it is PENDING; 1 if there is none: the request is to be executed.
 */
int rsp_late_take(struct qp *qp, uint32_t rkey, bool atomic, uint32_t len, uint64_t *orig);
/* Returns what to pass to the request's operation. An operation of another request is forgotten. */
struct mem_late *rsp_late_new(struct qp_env *env, struct qp *qp);
/* The request's operation, of len bytes in pkts packets, on mr has returned -EAGAIN. */
void rsp_late_note(struct qp_env *env, struct qp *qp, const struct mr *mr, uint32_t rkey,
		   bool atomic, uint32_t len, uint32_t pkts);
/* Timer code of the next RNR NAK for late->psn. */
uint8_t rsp_late_code(const struct qp *qp, struct qp_late *late);

/* Make an ACK up to psn due (RSP-02). rsp_run sends it; ACKs until then are coalesced. */
void rsp_ack(struct qp *qp, uint32_t psn);

/*
 * Make a NAK of the ePSN with syndrome due (RSP-02). It replaces one that is due, and until the
 * ePSN comes nak_sent is set.
 */
void rsp_nak_due(struct qp *qp, uint8_t syndrome);
/* Make an RNR NAK (NAK-10) of the ePSN due. */
void rsp_nak_rnr(struct qp_env *env, struct qp *qp);

/*
 * The request with the ePSN failed: NAK code is due, and the QP goes to ERR once it was sent. If
 * the message has a receive WQE, the WQE completes with status; otherwise ev is raised (NAK-09).
 * With status SUCCESS the WQE belongs to another message, and ev is raised. UC sends no NAK and
 * goes to ERR at once.
 */
void rsp_nak_fatal(struct qp_env *env, struct qp *qp, enum wire_nak code, enum qp_wc_status status,
		   enum qp_event ev);

/*
 * The R_Key of the request with the ePSN was refused. Returns false if the request is to be NAKed.
 * Returns true if its peer has tried too many unknown keys (struct qp_wrong_keys): this request and
 * those of the next second are dropped.
 */
bool rsp_key_guessed(struct qp_env *env, struct qp *qp, uint32_t rkey);
/* The same for a request that gets a response anyway; only later requests are dropped. */
bool rsp_key_count(struct qp_env *env, struct qp *qp, uint32_t rkey);

/* Handle a READ request with the ePSN, or a duplicate (RSP-01, RSP-03). */
void rsp_read_new(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void rsp_read_dup(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/* The same for an atomic. */
void rsp_atomic_new(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void rsp_atomic_dup(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
/* Send the response of op. False: no space. */
bool rsp_atomic_respond(struct qp_env *env, struct qp *qp, const struct qp_rd_op *op);

/*
 * The READ or atomic executed i operations ago, 0 <= i < QP_MAX_RD_ATOMIC; npkts is 0 if there is
 * none. Search from the latest back: PSNs wrap, so a PSN may occur twice.
 */
static inline const struct qp_rd_op *
rsp_rd_past(const struct qp_rcv *rcv, uint32_t i)
{
	return &rcv->hist[(rcv->hist_next - 1 - i) % QP_MAX_RD_ATOMIC];
}

/* Is one of the max_dest_rd_atomic resources free (RSP-03)? */
bool rsp_rd_room(const struct qp *qp);
/*
 * Accept a READ or atomic with the ePSN: queue its response, add it to the history, advance ePSN
 * and MSN. Sets op->msn.
 */
void rsp_rd_add(struct qp *qp, struct qp_rd_op *op);
/* Queue the responses of op again, in PSN order, unless they are still queued. */
void rsp_rd_replay(struct qp_env *env, struct qp *qp, struct qp_rd_op *op);

/* Send READ responses, up to budget packets or a turn's bytes. RSP_IDLE: none are left. */
enum rsp_more rsp_read_run(struct qp_env *env, struct qp *qp, uint32_t budget);

/* Allocate a frame for headers and payload; NULL: no space or buffer. */
struct rte_mbuf *rsp_frame(struct qp_env *env);
void rsp_emit(struct qp_env *env, struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
	      uint32_t payload_len);

/*
 * in_order.c: the order in which a responder executes the requests of an RC QP. A request is, by
 * its PSN,
 *
 *   expected   it has the ePSN: executed now (rsp_execute)
 *   duplicate  executed before: answered again (rsp_duplicate)
 *   early      a packet before it is missing: dropped with a sequence NAK, or, with selective
 *              repeat, held until the missing packets have come (reorder.h)
 *
 * The engine frees the packet's mbuf at the end of the burst (engine_rx), unless an early packet is
 * held. Code that holds one
 *
 * - makes it linear (qp_view_own), because a payload in client memory is valid for this burst only;
 * - tells the engine not to free it (env->dropped = QP_ENV_KEPT) and copies the struct wire_pkt,
 *   whose pointers into the frame remain valid (but payload, if the frame was made linear);
 * - frees it once the packet is executed, or when the QP is reset, fails or is destroyed;
 * - keeps few, and only buffers of the engine's pool. Other buffers belong to the port, which
 * cannot receive into them meanwhile: qp_reorder_put copies those.
 *
 * UC has a separate order, without NAKs (RSP-06, receive.c); UD has none.
 */

/*
 * A request pkt of qp (RC, may receive, not fatal), well-formed, in the frame m. Executes or drops
 * it, or makes a NAK due. m: see above.
 */
void rsp_order_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
		  struct rte_mbuf *m);

/*
 * The same for a request that the engine has kept because its memory, or that of one before it, was
 * late. Nothing if it was executed meanwhile. Behind the last one, a sequence NAK asks for those
 * that were not kept.
 */
void rsp_order_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * The same for a packet with a format error, which is never executed. Expected: NAK-07; early: a
 * sequence NAK; duplicate: nothing (NAK-05). No mbuf: such a packet is never kept.
 */
void rsp_order_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

#define RSP_RUN_BYTES (128u * 1024) /* payload of a run: a burst */
#define RSP_RUN_PKTS  32u           /* the same in packets */

/*
 * A run: packets of SENDs, or of WRITEs without immediate, that follow each other in a burst
 * (qp_env, rx_next). Their payload is written to memory accessed by ops in one operation, which
 * costs hardly more than one packet. The packets behind the first are then checked and executed
 * like any others; only their payload is already written (rsp_written_ahead, rsp_send_prewritten).
 * The peer or the client may write to this memory anyway, whatever becomes of the later messages.
 */

/*
 * Worker. Writes the payload of pkt, the WRITE packet of an RC QP that has the ePSN and has passed
 * all checks, to memory that is accessed by ops: mr at addr. With it the rest of its run: R_Key and
 * rights were checked for the rest of the message, and are for later ones, which are in mr, too.
 * Returns 0 or -errno as the operations of mr do. rkey: of the message, which has no late
 * operation.
 */
int rsp_write_run(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
		  const struct mr *mr, uint64_t addr, uint32_t rkey);

/*
 * Worker. The same for a SEND packet, at offset off of the receive WQE. The rest of its run is
 * written with it if the first byte's memory is accessed by ops, all L_Keys are good for the run,
 * and no access fails; else pkt alone. Returns 0 or -errno of mr_write.
 */
int rsp_send_write(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off);

/*
 * Worker. Was the payload of the first packet of a SEND, which has the ePSN and goes to mr (or
 * NULL) at addr, written with a message before it? The client may have changed the receive WQE
 * since: its address decides.
 */
bool rsp_send_prewritten(struct qp_env *env, struct qp *qp, const struct mr *mr, uint64_t addr);

/*
 * Worker. Was the payload of the packet with the ePSN, which is not the first of a SEND, written by
 * an earlier call? A WRITE then needs its region no more: a program that polls its memory may have
 * seen the data and deregistered it. The call for the run's last packet ends the run.
 */
bool rsp_written_ahead(struct qp *qp);

#endif
