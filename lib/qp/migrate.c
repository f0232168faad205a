/* SPDX-License-Identifier: BSD-3-Clause */
/* Automatic path migration (REQ-11, EVT-06; IBTA vol. 1, 17.2.8). See qp/migrate.h. */
#include <errno.h>
#include <string.h>
#include "qp/congestion.h"
#include "qp/match.h"
#include "qp/migrate.h"
#include "qp/qp.h"
#include "qp/recorder.h"
#include "wire/timer.h"

const char *const qp_mig_name[QP_MIG_STATES] = {
	[QP_MIG_MIGRATED] = "MIGRATED",
	[QP_MIG_REARM] = "REARM",
	[QP_MIG_ARMED] = "ARMED",
};

/*
 * Legal states for modify, by current state (row). Only packets lead to ARMED. In REARM the peer
 * may be armed already, and only a packet from it can tell.
 */
static const bool by_modify[QP_MIG_STATES][QP_MIG_STATES] = {
	[QP_MIG_MIGRATED] = {[QP_MIG_MIGRATED] = true, [QP_MIG_REARM] = true},
	[QP_MIG_REARM] = {[QP_MIG_REARM] = true},
	[QP_MIG_ARMED] = {[QP_MIG_MIGRATED] = true},
};

static void
mig_set(struct qp *qp, enum qp_mig state)
{
	qp->conn.mig = state;
	qp->conn.mig_refused = false;
	wire_tmpl_set_migreq(&qp->conn.tmpl, state == QP_MIG_MIGRATED);
}

static bool
alt_usable(const struct qp *qp)
{
	return qp->conn.alt_loaded && qp->conn.alt.path_ok &&
	       qp_pkey_at(qp, qp->conn.attr.alt_pkey_index) != 0;
}

int
qp_mig_check(const struct qp *qp, uint32_t mask, const struct uroce_qp_attr *attr, uint32_t to)
{
	uint32_t mig = attr->path_mig_state;

	if (mig >= QP_MIG_STATES || !by_modify[qp->conn.mig][mig])
		return EINVAL;
	/* Both sides must be able to send before they can arm. */
	if (mig == QP_MIG_REARM && to != QP_RTS)
		return EINVAL;
	if (mig == QP_MIG_REARM && !qp->conn.alt_loaded && !(mask & QP_ALT_PATH))
		return EINVAL;
	return 0;
}

void
qp_alt_load(struct qp *qp, const struct uroce_qp_attr *attr, const struct qp_path *path)
{
	qp->conn.attr.alt_ah = attr->alt_ah;
	qp->conn.attr.alt_port_num = attr->alt_port_num;
	qp->conn.attr.alt_pkey_index = attr->alt_pkey_index;
	qp->conn.attr.alt_timeout = attr->alt_timeout;
	qp->conn.alt = *path;
	qp->conn.alt_loaded = true;
	qp->conn.mig_refused = false;
}

void
qp_alt_lost(struct qp *qp)
{
	qp->conn.alt.path_ok = false;
	memset(qp->conn.alt.hop, 0, sizeof(qp->conn.alt.hop));
}

void
qp_mig_apply(struct qp_env *env, struct qp *qp, enum qp_mig state)
{
	if (state == QP_MIG_REARM)
		mig_set(qp, QP_MIG_REARM);
	else if (qp->conn.mig == QP_MIG_ARMED)
		qp_migrate(env, qp);
}

static void
migration_failed(struct qp_env *env, struct qp *qp)
{
	env->counters->ctr[COUNTER_MIG_FAILED]++;
	qp_record(env, qp, QP_RECORD_PATH_BAD, 0, 0, 0);
	env->ops->async_event(env->ops_ctx, QP_EVENT_PATH_MIG_ERR, qp, NULL);
}

/* Outstanding requests get the alternate path's timeout and all retries. */
static void
restart_requester(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	qp->conn.loss.timeout_ns = wire_ack_timeout_ns(qp->conn.attr.timeout);
	qp_loss_reset(env, qp);
	snd->retry_left = qp->conn.attr.retry_cnt;
	qp_cc_begin(env, qp);
	snd->probe_ns =
		snd->next_psn != snd->una_psn && snd->wait_ns != 0 ? env->now_ns + snd->wait_ns : 0;
	env->ops->qp_wake(env->ops_ctx, qp);
}

bool
qp_migrate(struct qp_env *env, struct qp *qp)
{
	struct uroce_qp_attr *a = &qp->conn.attr;

	if (qp->conn.mig != QP_MIG_ARMED)
		return false;
	if (!alt_usable(qp)) {
		migration_failed(env, qp);
		return false;
	}
	a->ah = a->alt_ah;
	a->port_num = a->alt_port_num;
	a->pkey_index = a->alt_pkey_index;
	a->timeout = a->alt_timeout;
	qp_path_use(qp, &qp->conn.alt);
	mig_set(qp, QP_MIG_MIGRATED);
	restart_requester(env, qp);
	env->counters->ctr[COUNTER_MIGRATED]++;
	qp_record(env, qp, QP_RECORD_PATH, 0, 0, 0);
	env->ops->async_event(env->ops_ctx, QP_EVENT_PATH_MIG, qp, NULL);
	return true;
}

/* The peer has migrated and requests this side to follow. */
static enum drop_reason
migration_requested(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	if (!alt_usable(qp)) {
		/* Report once: the peer retransmits, and the sender may be another host. */
		if (!qp->conn.mig_refused)
			migration_failed(env, qp);
		qp->conn.mig_refused = true;
		return DROP_BAD_GID;
	}
	if (!qp_pkeys_match(pkt->pkey, qp_pkey_at(qp, qp->conn.attr.alt_pkey_index)))
		return DROP_BAD_PKEY;
	qp_migrate(env, qp);
	return DROP_NUM;
}

/* Does the packet have the addresses of the alternate path? */
static bool
on_alternate(const struct qp *qp, const struct wire_pkt *pkt)
{
	uint8_t src[16], dst[16];

	wire_src_gid(pkt, src);
	wire_dst_gid(pkt, dst);
	return memcmp(src, qp->conn.alt.wire.dgid, 16) == 0 &&
	       memcmp(dst, qp->conn.alt.wire.sgid, 16) == 0;
}

enum drop_reason
qp_mig_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	if (qp->conn.mig == QP_MIG_ARMED && pkt->migreq && on_alternate(qp, pkt))
		return migration_requested(env, qp, pkt);
	if (!qp_pkeys_match(pkt->pkey, qp->conn.pkey))
		return DROP_BAD_PKEY;
	if (!qp_gids_match(qp, pkt))
		return DROP_BAD_GID;
	/* A packet with MigReq 1 on the current path: the peer has not armed. */
	if (qp->conn.mig == QP_MIG_REARM && !pkt->migreq)
		mig_set(qp, QP_MIG_ARMED);
	return DROP_NUM;
}
