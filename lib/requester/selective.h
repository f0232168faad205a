/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat of the requester (doc/selective-repeat.md): only packets that the peer
 * lacks are retransmitted, not those behind them. Shared by the files of lib/requester; owner
 * worker only.
 *
 * A packet is considered lost when a packet that was sent later has arrived:
 *
 *   sent once      a PSN sr.threshold further on is held by the peer. The threshold grows when
 *                  packets turn out to have been late, not lost
 *   sent again     the same for a packet first sent after it; or a later retransmission has
 *                  arrived and a round trip has passed
 *
 * Otherwise the probe finds it (recovery.h), which is such a retransmission of una_psn. All else is
 * as with go-back-N, to which a NAK, an ACK timeout, a migration and an error always lead.
 */
#ifndef REQUESTER_SELECTIVE_H
#define REQUESTER_SELECTIVE_H

#include "requester/requester_parts.h"

/*
 * Retransmits lost packets, if snd.resend. Called within a turn, before any new packet. Returns
 * REQ_NEXT if none is left; else why it stopped.
 */
enum req_step req_resend(struct qp_env *env, struct qp *qp, struct qp_turn turn);
/*
 * send.c: sends the packet at the cursor of a WQE that was sent before: no window, no READ limit.
 * REQ_SENT, REQ_NO_ROOM, REQ_HELD, or another value: it cannot be sent.
 */
enum req_step req_send_again(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e);
/* Makes una_psn's packet a probe. Returns false, with no effect, if go-back-N has to do it. */
bool req_probe_selective(struct qp_env *env, struct qp *qp);

#endif
