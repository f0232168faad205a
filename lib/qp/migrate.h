/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Automatic path migration of RC and UC QPs (REQ-11, EVT-06; IBTA vol. 1, 17.2.8). A QP has the
 * path that it uses, and may have an alternate one loaded (QP_ALT_PATH).
 *
 *               modify               any packet with MigReq 0
 *   MIGRATED -----------> REARM ------------------------------> ARMED
 *       ^                                                         |
 *       +---------------------------------------------------------+
 *          retries used up; modify; a packet with MigReq 1 on the alternate path
 *
 * Every packet that the QP sends has MigReq 1 in MIGRATED and 0 in the other two, so REARM is left
 * when the peer is in REARM or ARMED itself. Migrating copies the alternate path's attributes over
 * the other's (both are then the same) and raises PATH_MIG; packets of the path that was left are
 * strangers' from then on. Where the alternate cannot be used (its next hop's MAC is unknown, its
 * P_Key or GID is gone) nothing changes, and PATH_MIG_ERR is raised.
 *
 * Worker (owner) throughout, but for qp_mig_check.
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
 * May a modify whose mask has QP_PATH_MIG_STATE, and that leads to (or stays in) QP state to, ask
 * for attr->path_mig_state? 0 or EINVAL. ARMED is never software's to set; REARM needs RTS and an
 * alternate path, loaded before or by this modify. Pure; any thread.
 */
int qp_mig_check(const struct qp *qp, uint32_t mask, const struct uroce_qp_attr *attr, uint32_t to);

/* What a checked modify asks for: the alternate path of attr, resolved; a state. */
void qp_alt_load(struct qp *qp, const struct uroce_qp_attr *attr, const struct qp_path *path);
void qp_mig_apply(struct qp_env *env, struct qp *qp, enum qp_mig state);

/* The GID that the alternate path starts from was taken away: no use until another is loaded. */
void qp_alt_lost(struct qp *qp);

/*
 * Go over to the alternate path if the QP is armed. True: done, what is outstanding may be sent
 * again, with all its retries. False: it is not armed, or (PATH_MIG_ERR) the path cannot be used.
 */
bool qp_migrate(struct qp_env *env, struct qp *qp);

/*
 * A packet, in place of the checks of P_Key and addresses, for a QP in REARM or ARMED: what it
 * means for the state, and why the QP must not see it, or DROP_NUM.
 */
enum drop_reason qp_mig_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

#endif
