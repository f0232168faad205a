/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery of the requester. Shared by the files of lib/requester; owner worker only.
 * Implemented by go_back_n.c: retransmits everything from the first unacknowledged packet.
 */
#ifndef REQUESTER_RECOVERY_H
#define REQUESTER_RECOVERY_H

#include "qp/selective.h"
#include "requester/requester.h"

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
 * una_psn has advanced, and snd.unusual is not 0. probe_ns is not updated yet; the caller does
 * that.
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
void req_watch_held(struct qp_env *env, struct qp *qp, uint32_t epsn, const struct qp_psns *held);
/* A response to an acknowledged packet arrived. */
void req_watch_stale(struct qp_env *env, struct qp *qp);

#endif
