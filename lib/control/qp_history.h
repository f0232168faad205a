/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of destroyed QPs, so that their end can be explained afterwards: the recorder and the
 * owner. Fixed memory holds the last QP_HISTORY / 2 QPs that had failed and the last QP_HISTORY / 2
 * others. Control thread only.
 */
#ifndef CONTROL_QP_HISTORY_H
#define CONTROL_QP_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uroce_abi/hello.h>
#include "qp/recorder.h"

struct obj_qp;
struct qp;

#define QP_HISTORY 256u /* even */

/* A QP as it was when it was destroyed, or as it is. */
struct past_qp {
	uint64_t end_ns; /* when it was destroyed, of timer_now_ns; 0: it exists */
	uint32_t qpn, dest_qpn;
	uid_t uid;    /* of its client */
	uint32_t who; /* quota_who of it */
	pid_t pid;
	char comm[16];
	char dev[UROCE_DEV_NAME_MAX];
	uint8_t type;  /* enum qp_type */
	uint8_t state; /* enum qp_state */
	uint16_t why;  /* enum uroce_error, as conn.why */
	uint8_t sgid[16], dgid[16];
	struct qp_recorder recorder;
};

struct qp_history {
	struct past_qp *qp; /* QP_HISTORY; NULL: none are kept */
	uint32_t count[2];  /* total since the start: [0] others, [1] failed */
};

/* Returns 0 or -ENOMEM. */
int qp_history_init(struct qp_history *k);
void qp_history_free(struct qp_history *k);

/*
 * Copies a QP without asking its worker, for which the control thread would have to wait. Each word
 * is valid, but they may be from different moments. ThreadSanitizer ignores this function, because
 * the worker's writes are not atomic.
 */
void qp_history_copy(struct qp *to, const struct qp *from);

/* Describes an existing QP, whose worker may change it meanwhile. */
void qp_history_look(const struct obj_qp *q, struct past_qp *to);

/* Records q, which no worker uses any more, in place of the oldest of its half. */
void qp_history_add(struct qp_history *k, struct obj_qp *q);

/*
 * Returns the next QP kept, oldest first within each half, the failed ones last; NULL: no more.
 * *pos is 0 at first.
 */
const struct past_qp *qp_history_next(const struct qp_history *k, uint32_t *pos);

#endif
