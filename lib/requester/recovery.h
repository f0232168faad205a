/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery of the requester. Shared by the files of lib/requester; owner worker only.
 * Implemented by go_back_n.c: retransmits everything from the first unacknowledged packet.
 */
#ifndef REQUESTER_RECOVERY_H
#define REQUESTER_RECOVERY_H

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
/* A response to an acknowledged packet arrived. */
void req_watch_stale(struct qp_env *env, struct qp *qp);

#endif
