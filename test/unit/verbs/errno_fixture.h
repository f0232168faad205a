/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of test_errno.c, each of which fails, and what they are made on. */
#ifndef TEST_UNIT_VERBS_ERRNO_FIXTURE_H
#define TEST_UNIT_VERBS_ERRNO_FIXTURE_H

#include "provider_fixture.h"

#define STALE   ENOTBLK /* in errno before each call: nothing here fails with it */
#define REFUSED EDQUOT  /* from the daemon: no check on this side says this */
#define IS_NULL (-1000) /* a call that returns a pointer got NULL */
#define MADE    (-1001) /* and this, when it got one */

struct errno_fixture {
	struct fixture *r;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_td *td;
	struct ibv_pd *domain; /* on fixture's PD, with td */
	struct ibv_cq_ex *cq_ex;
	struct ibv_qp *qp_srq;   /* receives from srq */
	struct ibv_qp_ex *qp_ex; /* its ibv_qp is qp_wr */
	struct ibv_qp *qp_wr;
	struct ibv_mw mw; /* of type 1; by hand */
	struct ibv_ah ah; /* likewise */
};

/* One way in which an operation of the provider fails. */
struct failure {
	const char *op;
	size_t slot;     /* of the operation in verbs_context_ops; SIZE_MAX: it is none of them */
	uint16_t refuse; /* the daemon refuses this request; 0: none */
	int error;       /* what is to be returned and left in errno */
	int (*call)(struct errno_fixture *b);
};
extern const struct failure failures[];
extern const size_t nfailures;

/* The calls that post and poll (errno_queue_calls.c). */
int poll_overrun_cq(struct errno_fixture *b);
int start_poll_strange(struct errno_fixture *b);
int start_poll_overrun(struct errno_fixture *b);
int post_recv_malformed(struct errno_fixture *b);
int post_srq_recv_malformed(struct errno_fixture *b);
int post_recv_in_reset(struct errno_fixture *b);
int post_recv_to_a_qp_with_srq(struct errno_fixture *b);
int post_srq_recv_full(struct errno_fixture *b);
int post_send_in_reset(struct errno_fixture *b);
int post_send_malformed(struct errno_fixture *b);
int post_send_full(struct errno_fixture *b);
int wr_complete_full(struct errno_fixture *b);
int wr_complete_malformed(struct errno_fixture *b);

/* The slots of operations that cannot fail, or have no way to say so. */
extern const size_t infallible[];
extern const size_t ninfallible;

/* The memory of errno_fixture's region. */
extern char errno_memory[4096];

#endif
