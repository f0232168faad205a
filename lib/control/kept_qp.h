/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of destroyed QPs, so that their end can be explained afterwards: the recorder and the
 * owner. Fixed memory holds the last KEPT_QPS / 2 QPs that had failed and the last KEPT_QPS / 2
 * others. Control thread only.
 */
#ifndef CONTROL_KEPT_QP_H
#define CONTROL_KEPT_QP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uroce_abi/hello.h>
#include "qp/recorder.h"

struct obj_qp;
struct qp;

#define KEPT_QPS 256u /* even */

/* A QP as it was when it was destroyed, or as it is. */
struct kept_qp {
	uint64_t end_ns; /* when it was destroyed, of timer_now_ns; 0: it exists */
	uint32_t qpn, dest_qpn;
	uid_t uid; /* of its client */
	pid_t pid;
	char comm[16];
	char dev[UROCE_DEV_NAME_MAX];
	uint8_t type;  /* enum qp_type */
	uint8_t state; /* enum qp_state */
	uint16_t why;  /* enum uroce_error, as conn.why */
	uint8_t sgid[16], dgid[16];
	struct qp_recorder recorder;
};

struct kept_qps {
	struct kept_qp *qp; /* KEPT_QPS; NULL: none are kept */
	uint32_t count[2];  /* total since the start: [0] others, [1] failed */
};

/* Returns 0 or -ENOMEM. */
int kept_qps_init(struct kept_qps *k);
void kept_qps_free(struct kept_qps *k);

/*
 * Copies a QP without asking its worker, for which the control thread would have to wait. Each word
 * is valid, but they may be from different moments. ThreadSanitizer ignores this function, because
 * the worker's writes are not atomic.
 */
void kept_qp_copy(struct qp *to, const struct qp *from);

/* Describes an existing QP, whose worker may change it meanwhile. */
void kept_qp_look(const struct obj_qp *q, struct kept_qp *to);

/* Records q, which no worker uses any more, in place of the oldest of its half. */
void kept_qp_add(struct kept_qps *k, struct obj_qp *q);

/*
 * Returns the next QP kept, oldest first within each half, the failed ones last; NULL: no more.
 * *pos is 0 at first.
 */
const struct kept_qp *kept_qp_next(const struct kept_qps *k, uint32_t *pos);

#endif
