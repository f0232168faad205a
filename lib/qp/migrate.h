/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Automatic path migration of RC and UC QPs (REQ-11, EVT-06; IBTA vol. 1, 17.2.8). A QP has a
 * current path, and may have an alternate path loaded (QP_ALT_PATH).
 *
 *               modify               any packet with MigReq 0
 *   MIGRATED -----------> REARM ------------------------------> ARMED
 *       ^                                                         |
 *       +---------------------------------------------------------+
 *          retries used up; modify; a packet with MigReq 1 on the alternate path
 *
 * Packets sent have MigReq 1 in MIGRATED and 0 in the other two states, so the QP leaves REARM when
 * the peer is in REARM or ARMED, too. Migration copies the alternate path's attributes over the
 * current ones (both are then equal) and raises PATH_MIG; packets on the old path no longer match.
 * If the alternate path cannot be used (its next hop's MAC is unknown, or its P_Key or GID is
 * gone), nothing changes and PATH_MIG_ERR is raised.
 *
 * All functions but qp_mig_check are called on the owner worker.
 */
#ifndef QP_MIGRATE_H
#define QP_MIGRATE_H

#include "counters/counters.h"
#include "qp/qp.h"
#include "wire/parse.h"

enum qp_mig { /* the values are those of enum ibv_mig_state */
	      QP_MIG_MIGRATED = 0,
	      QP_MIG_REARM = 1,
	      QP_MIG_ARMED = 2,
	      QP_MIG_STATES = 3,
};
/* "MIGRATED" .. */
extern const char *const qp_mig_name[QP_MIG_STATES];

/*
 * Check a modify with QP_PATH_MIG_STATE in its mask that leads to (or stays in) QP state to: is
 * attr->path_mig_state legal? Returns 0 or EINVAL. Software may never set ARMED; REARM requires RTS
 * and an alternate path, loaded before or by this modify. Pure; any thread.
 */
int qp_mig_check(const struct qp *qp, uint32_t mask, const struct uroce_qp_attr *attr, uint32_t to);

/* Apply a checked modify: load the alternate path of attr, resolved; enter a state. */
void qp_alt_load(struct qp *qp, const struct uroce_qp_attr *attr, const struct qp_path *path);
void qp_mig_apply(struct qp_env *env, struct qp *qp, enum qp_mig state);

/* The alternate path's source GID was removed: the path is unusable until another is loaded. */
void qp_alt_lost(struct qp *qp);

/*
 * Migrate to the alternate path if the QP is armed. Returns true if it did: outstanding packets may
 * be retransmitted, with all retries. Returns false if the QP is not armed or (PATH_MIG_ERR) the
 * path cannot be used.
 */
bool qp_migrate(struct qp_env *env, struct qp *qp);

/*
 * Handle a packet for a QP in REARM or ARMED; replaces the checks of P_Key and addresses. Updates
 * the state. Returns the reason to drop the packet, or DROP_NUM to accept it.
 */
enum drop_reason qp_mig_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

#endif
