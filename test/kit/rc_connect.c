/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "rc_connect.h"

bool
rc_connect(struct qp_env *env, struct qp *qp, uint32_t mtu, uint32_t dest_qpn, uint8_t timeout,
	   const struct qp_path *path)
{
	static const uint32_t mask[] = {
		QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS,
		QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN | QP_MAX_DEST_RD_ATOMIC |
			QP_MIN_RNR_TIMER,
		QP_SQ_PSN | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC,
	};
	static const struct qp_limits limits = {.max_mtu = 5,
						.npkeys = 1,
						.ngids = 1,
						.gid_valid = 1};
	struct uroce_qp_attr a = {
		.qp_access_flags =
			MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
		.port_num = 1,
		.path_mtu = qp_mtu_code(mtu + WIRE_MAX_OVERHEAD),
		.dest_qp_num = dest_qpn,
		.max_rd_atomic = QP_MAX_RD_ATOMIC,
		.max_dest_rd_atomic = QP_MAX_RD_ATOMIC,
		.min_rnr_timer = 1,
		.timeout = timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah = {.is_global = 1, .port_num = 1},
	};

	for (a.qp_state = QP_INIT; a.qp_state <= QP_RTS; a.qp_state++) {
		uint32_t m = QP_STATE | mask[a.qp_state - 1];

		if (qp_modify_check(qp, m, &a, &limits) != 0)
			return false;
		qp_modify_apply(env, qp, m, &a, m & QP_AV ? path : NULL, NULL);
	}
	return true;
}

struct qp_path
rc_path(const uint8_t smac[6], const uint8_t dmac[6], unsigned side, uint32_t qpn)
{
	struct qp_path path = {.path_ok = true};
	struct wire_path *w = &path.wire;

	memcpy(w->sgid, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 1}, 16);
	memcpy(w->dgid, w->sgid, 16);
	w->sgid[15] += (uint8_t)side;
	w->dgid[15] += (uint8_t)(1 - side);
	memcpy(w->smac, smac, 6);
	memcpy(w->dmac, dmac, 6);
	w->udp_sport = wire_udp_sport(0, qpn, qpn);
	w->hop_limit = 64;
	return path;
}
