/* SPDX-License-Identifier: BSD-3-Clause */
/* Legal transitions and their attributes, one row each (QP-01, QP-02). */
#include "qp/state.h"

const char *const qp_state_name[QP_NSTATES] = {
	[QP_RESET] = "RESET", [QP_INIT] = "INIT", [QP_RTR] = "RTR", [QP_RTS] = "RTS",
	[QP_SQD] = "SQD",     [QP_SQE] = "SQE",   [QP_ERR] = "ERR",
};

#define LEGAL(...)                                                                                 \
	{                                                                                          \
		.legal = 1, __VA_ARGS__                                                            \
	}

#define CONN_INIT (QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS)
#define UD_INIT   (QP_PKEY_INDEX | QP_PORT | QP_QKEY)
#define RC_RTR                                                                                     \
	(QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN | QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER)
#define UC_RTR       (QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN)
#define CONN_RTR_OPT (QP_ALT_PATH | QP_ACCESS_FLAGS | QP_PKEY_INDEX)
#define RC_RTS       (QP_SQ_PSN | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC)
#define UC_RTS_OPT   (QP_CUR_STATE | QP_ALT_PATH | QP_ACCESS_FLAGS | QP_PATH_MIG_STATE)
#define RC_RTS_OPT   (UC_RTS_OPT | QP_MIN_RNR_TIMER)
#define UD_RTS_OPT   (QP_CUR_STATE | QP_QKEY)
#define RC_SQD_OPT                                                                                 \
	(QP_CUR_STATE | QP_PORT | QP_AV | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY |               \
	 QP_MAX_QP_RD_ATOMIC | QP_MAX_DEST_RD_ATOMIC | QP_ALT_PATH | QP_ACCESS_FLAGS |             \
	 QP_PKEY_INDEX | QP_MIN_RNR_TIMER | QP_PATH_MIG_STATE)
#define UC_SQD_OPT                                                                                 \
	(QP_CUR_STATE | QP_AV | QP_ALT_PATH | QP_ACCESS_FLAGS | QP_PKEY_INDEX | QP_PATH_MIG_STATE)
#define UD_SQD_OPT (QP_CUR_STATE | QP_PKEY_INDEX | QP_QKEY)

static const struct qp_transition rc_rows[QP_NSTATES][QP_NSTATES] = {
	[QP_RESET][QP_INIT] = LEGAL(.required = CONN_INIT),
	[QP_INIT][QP_INIT] = LEGAL(.optional = CONN_INIT),
	[QP_INIT][QP_RTR] = LEGAL(.required = RC_RTR, .optional = CONN_RTR_OPT),
	[QP_RTR][QP_RTS] = LEGAL(.required = RC_RTS, .optional = RC_RTS_OPT),
	[QP_RTS][QP_RTS] = LEGAL(.optional = RC_RTS_OPT),
	[QP_RTS][QP_SQD] = LEGAL(.optional = QP_EN_SQD_ASYNC_NOTIFY),
	[QP_SQD][QP_SQD] = LEGAL(.optional = RC_SQD_OPT),
	[QP_SQD][QP_RTS] = LEGAL(.optional = RC_SQD_OPT),
};

static const struct qp_transition uc_rows[QP_NSTATES][QP_NSTATES] = {
	[QP_RESET][QP_INIT] = LEGAL(.required = CONN_INIT),
	[QP_INIT][QP_INIT] = LEGAL(.optional = CONN_INIT),
	[QP_INIT][QP_RTR] = LEGAL(.required = UC_RTR, .optional = CONN_RTR_OPT),
	[QP_RTR][QP_RTS] = LEGAL(.required = QP_SQ_PSN, .optional = UC_RTS_OPT),
	[QP_RTS][QP_RTS] = LEGAL(.optional = UC_RTS_OPT),
	[QP_RTS][QP_SQD] = LEGAL(.optional = QP_EN_SQD_ASYNC_NOTIFY),
	[QP_SQD][QP_SQD] = LEGAL(.optional = UC_SQD_OPT),
	[QP_SQD][QP_RTS] = LEGAL(.optional = UC_SQD_OPT),
	[QP_SQE][QP_RTS] = LEGAL(.optional = QP_CUR_STATE | QP_ACCESS_FLAGS),
};

static const struct qp_transition ud_rows[QP_NSTATES][QP_NSTATES] = {
	[QP_RESET][QP_INIT] = LEGAL(.required = UD_INIT),
	[QP_INIT][QP_INIT] = LEGAL(.optional = UD_INIT),
	[QP_INIT][QP_RTR] = LEGAL(.optional = QP_PKEY_INDEX | QP_QKEY),
	[QP_RTR][QP_RTS] = LEGAL(.required = QP_SQ_PSN, .optional = UD_RTS_OPT),
	[QP_RTS][QP_RTS] = LEGAL(.optional = UD_RTS_OPT),
	[QP_RTS][QP_SQD] = LEGAL(.optional = QP_EN_SQD_ASYNC_NOTIFY),
	[QP_SQD][QP_SQD] = LEGAL(.optional = UD_SQD_OPT),
	[QP_SQD][QP_RTS] = LEGAL(.optional = UD_SQD_OPT),
	[QP_SQE][QP_RTS] = LEGAL(.optional = UD_RTS_OPT),
};

/* RESET and ERR can be entered from every state and take no attributes. */
static const struct qp_transition to_anywhere = LEGAL(.required = 0);

const struct qp_transition *
qp_transition_get(enum qp_type type, enum qp_state from, enum qp_state to)
{
	if (to == QP_RESET || to == QP_ERR)
		return &to_anywhere;
	switch (type) {
	case QP_TYPE_UC:
		return &uc_rows[from][to];
	case QP_TYPE_UD:
		return &ud_rows[from][to];
	case QP_TYPE_RC:
	default:
		return &rc_rows[from][to];
	}
}
