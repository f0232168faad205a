/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a requester does when answers are missing. Between the files of lib/requester; owner worker
 * only. go_back_n.c implements it: everything from the first unacknowledged packet goes again.
 */
#ifndef REQUESTER_RECOVERY_H
#define REQUESTER_RECOVERY_H

#include "requester/requester.h"

/* Go back: the next packet sent is una_psn's, and the ACK timeout begins with it. */
void req_rewind(struct qp *qp);
/*
 * Go back because READ data is missing. The peer answers, but una_psn stays where it is: the ACK
 * timeout begins anew only the first time (REQ-04), or a peer whose answers never close the gap is
 * asked for ever.
 */
void req_ask_again(struct qp_env *env, struct qp *qp);
/* An answer to what was sent before a rewind has overtaken the cursor: go on at una_psn. */
void req_catch_up(struct qp *qp);
/* Costs one of the retries. False: there was none, and the QP is in the error state. */
bool req_take_retry(struct qp_env *env, struct qp *qp);
/* una_psn moved on and snd.watch is not 0; deadline_ns is still that of before. */
void req_watched(struct qp_env *env, struct qp *qp);
/* The peer has answered, with or without progress: probes wait for a round trip again. */
void req_answered(struct qp_env *env, struct qp *qp);
/* An answer came to what is acknowledged. */
void req_watch_stale(struct qp_env *env, struct qp *qp);

#endif
