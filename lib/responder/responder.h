/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder half of an RC QP: request packets in, memory written, receive completions, and
 * ACKs, NAKs and READ responses out. Runs on the owner worker. May include qp and below; knows
 * nothing of the requester.
 */
#ifndef RESPONDER_RESPONDER_H
#define RESPONDER_RESPONDER_H

#include "qp/qp.h"
#include "wire/parse.h"

/* A request packet for qp whose ICRC, P_Key and addresses were checked. Sends nothing itself. */
void rsp_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * A packet for qp (RC, UC) of bad form (wire_bad_form), all else of it as for rsp_rx, which the
 * caller has counted as dropped. RC: invalid request if it has the ePSN (NAK-07), else as the
 * sequence rules have it; nothing for a duplicate (NAK-05). UC: its message is dropped.
 */
void rsp_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/* A datagram for a UD qp; the same was checked but for its Q_Key. */
void rsp_rx_datagram(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * Send what is due: READ responses in PSN order, up to budget packets or a turn's bytes, then the
 * coalesced ACK or the NAK (RSP-02, RSP-03). True when there is more to send (budget, room or
 * buffers ran out).
 */
bool rsp_run(struct qp_env *env, struct qp *qp, uint32_t budget);

#endif
