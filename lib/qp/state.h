/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QP states, types, and the table of legal transitions with their attribute masks (QP-01, QP-02).
 */
#ifndef QP_STATE_H
#define QP_STATE_H

#include <stdint.h>

enum qp_type { /* the values are those of enum ibv_qp_type */
	       QP_TYPE_RC = 2,
	       QP_TYPE_UC = 3,
	       QP_TYPE_UD = 4,
};

enum qp_state { /* the values are those of enum ibv_qp_state */
		QP_RESET = 0,
		QP_INIT = 1,
		QP_RTR = 2,
		QP_RTS = 3,
		QP_SQD = 4,
		QP_SQE = 5,
		QP_ERR = 6,
		QP_NSTATES = 7,
};
/* "RESET" .. */
extern const char *const qp_state_name[QP_NSTATES];

enum qp_attr_mask { /* the values are those of enum ibv_qp_attr_mask */
		    QP_STATE = 1 << 0,
		    QP_CUR_STATE = 1 << 1,
		    QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
		    QP_ACCESS_FLAGS = 1 << 3,
		    QP_PKEY_INDEX = 1 << 4,
		    QP_PORT = 1 << 5,
		    QP_QKEY = 1 << 6,
		    QP_AV = 1 << 7,
		    QP_PATH_MTU = 1 << 8,
		    QP_TIMEOUT = 1 << 9,
		    QP_RETRY_CNT = 1 << 10,
		    QP_RNR_RETRY = 1 << 11,
		    QP_RQ_PSN = 1 << 12,
		    QP_MAX_QP_RD_ATOMIC = 1 << 13,
		    QP_ALT_PATH = 1 << 14,
		    QP_MIN_RNR_TIMER = 1 << 15,
		    QP_SQ_PSN = 1 << 16,
		    QP_MAX_DEST_RD_ATOMIC = 1 << 17,
		    QP_PATH_MIG_STATE = 1 << 18,
		    QP_CAP = 1 << 19,
		    QP_DEST_QPN = 1 << 20,
		    QP_RATE_LIMIT = 1 << 25,
};

struct qp_transition {
	uint8_t legal;
	uint32_t required; /* enum qp_attr_mask without QP_STATE */
	uint32_t optional;
};

/*
 * Get the row of a transition for a QP type (from, to below QP_NSTATES). Never NULL; illegal rows
 * have legal 0. from == to: attributes change, the state does not.
 */
const struct qp_transition *qp_transition_get(enum qp_type type, enum qp_state from,
					      enum qp_state to);

#endif
