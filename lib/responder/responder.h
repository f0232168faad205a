/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder half of a QP: request packets in; memory writes, receive completions, ACKs, NAKs
 * and READ responses out. Runs on the owner worker. Includes qp and the libraries below;
 * independent of the requester.
 */
#ifndef RESPONDER_RESPONDER_H
#define RESPONDER_RESPONDER_H

#include <rte_mbuf.h>
#include "qp/qp.h"
#include "wire/parse.h"

/*
 * Handle a request packet for qp (RC, UC) in the frame m. ICRC, P_Key and addresses are checked.
 * Sends nothing. The caller frees m after its burst, unless env->dropped is QP_ENV_KEPT: then it
 * holds an early request (responder_parts.h).
 */
void rsp_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, struct rte_mbuf *m);
/*
 * The same for a packet that has waited for late memory. A separate function because the compiler
 * inlines rsp_rx into its only caller.
 */
void rsp_rx_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * Handle a packet for qp (RC, UC) with a format error (wire_bad_form), checked as for rsp_rx and
 * counted as dropped by the caller. RC: invalid request if it has the ePSN (NAK-07), a sequence NAK
 * if it is ahead, nothing for a duplicate (NAK-05). UC: drops its message.
 */
void rsp_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * A request for qp whose memory was late (DROP_MEMORY_LATE) is not tried again. RC: the peer is
 * asked for it by an RNR NAK, or if it is not the next one by a sequence NAK later. UC, UD: the
 * rest of its message is dropped. Until this call or the next attempt the QP is as if it had not
 * come.
 */
void rsp_rx_lost(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/* Handle a datagram for a UD qp, checked likewise except for its Q_Key. */
void rsp_rx_datagram(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/* Is there more to send after a call? */
enum rsp_more {
	RSP_IDLE = 0, /* nothing is due until a request or the MAC of the next hop arrives */
	RSP_MORE = 1, /* budget, space or buffers ran out: call again */
	/* The congestion policy holds READ responses back until cc_flow.next_send_ns. */
	RSP_PACED = 2,
	RSP_LATE = 4, /* a READ response's memory is late: call again some time later */
};

/*
 * Send what is due: READ responses in PSN order, up to budget packets or a turn's bytes, then the
 * NAK or the coalesced ACK (RSP-02, RSP-03). READ responses keep the pace of qp's congestion policy
 * and are reported to it (CC-06); atomic ACKs, ACKs and NAKs are small and wait only for the READ
 * responses before them.
 */
enum rsp_more rsp_run(struct qp_env *env, struct qp *qp, uint32_t budget);

#endif
