/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages about refused calls: a program gets only an errno. All print at most one line a second,
 * keep errno, and are called without a lock. Any thread.
 */
#ifndef VERBS_REFUSAL_H
#define VERBS_REFUSAL_H

#include <infiniband/verbs.h>

struct prov_qp;
struct prov_srq;

/* context.c: prints that who ("uroced", or a function) refuses, and why. */
void prov_refusal_print(const char *who, const char *why);

/*
 * Explain a post that failed with rc. A full queue (ENOMEM) is explained only with UROCE_VERBOSE:
 * some programs post until the queue is full.
 *
 * send: wr is the WR that was refused. ex: a list of ibv_wr_*; what: why the provider refused it,
 *	or NULL: see rc and the QP's state. recv: srq NULL: posted to qp.
 */
void prov_refusal_send(const struct prov_qp *qp, const struct ibv_send_wr *wr, int rc);
void prov_refusal_ex(const struct prov_qp *qp, const char *what, int rc);
void prov_refusal_recv(const struct prov_qp *qp, const struct prov_srq *srq,
		       const struct ibv_recv_wr *wr, int rc);

#endif
