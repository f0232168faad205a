/* SPDX-License-Identifier: BSD-3-Clause */
/* Modify and query (QP-01 .. QP-05). */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "qp/ahead.h"
#include "qp/congestion.h"
#include "qp/deadline.h"
#include "qp/migrate.h"
#include "qp/recorder.h"
#include "qp/refusal.h"
#include "qp/retire.h"
#include "qp/ring.h"
#include "wire/psn.h"
#include "wire/timer.h"

#define MTU_LARGEST 5u /* of enum ibv_mtu: 4096 bytes */

/*
 * Every flag of enum ibv_access_flags and IBV_ACCESS_OPTIONAL_RANGE. Those that only regions know
 * change nothing: programs pass one set of flags for both (libdapl: IBV_ACCESS_MW_BIND), and
 * kernels allow it.
 */
#define ACCESS_LEGAL (0x3ffu | 0x3ff00000u)

/* All WQEs taken from the SQ take the general path from now on. A rewind walks as many. */
static void
mark_taken(struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	for (uint32_t i = snd->tail; i != snd->head; i++)
		qp_sqes_at(&qp->bind.sqes, i)->fast = QP_WQE_GENERAL;
}

void
qp_cc_tell(const struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (qp->conn.type == QP_TYPE_UD)
		return;
	snd->cc_active = qp->conn.cc_flow.limits;
	if (snd->cc_active) {
		qp->conn.cc_flow.una_psn = snd->una_psn;
		mark_taken(qp);
		return;
	}
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PACE);
	env->ops->qp_wake(env->ops_ctx, qp); /* it may wait for its pace */
}

void
qp_cc_change(struct qp_env *env, struct qp *qp, const struct cc_param *p)
{
	if (qp->conn.type == QP_TYPE_UD)
		return;
	qp->bind.cc = *p;
	qp_cc_ect(qp);
	if (qp->conn.state < QP_RTR || qp->conn.state == QP_ERR)
		return; /* it begins with RTR */
	mark_taken(qp);
	qp_cc_begin(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp);
}

uint16_t
qp_pkey_at(const struct qp *qp, uint16_t index)
{
	if (qp->bind.pkeys == NULL)
		return index == 0 ? WIRE_PKEY_DEFAULT : 0;
	return index < UROCE_MAX_PKEYS ? __atomic_load_n(&qp->bind.pkeys[index], __ATOMIC_RELAXED)
				       : 0;
}

/* Legal values of an attribute that lies at `at` in struct uroce_qp_attr. */
struct bound {
	uint32_t bit; /* in attr_mask */
	uint8_t at, size;
	uint32_t min, max;
	const char *field;
};
#define BOUND(bit, field, min, max)                                                                \
	{                                                                                          \
		bit, offsetof(struct uroce_qp_attr, field),                                        \
			sizeof(((struct uroce_qp_attr *)NULL)->field), min, max, #field            \
	}
static const struct bound bounds[] = {
	BOUND(QP_PORT, port_num, 1, 1),
	BOUND(QP_MAX_QP_RD_ATOMIC, max_rd_atomic, 0, QP_MAX_RD_ATOMIC),
	BOUND(QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 0, QP_MAX_RD_ATOMIC),
	BOUND(QP_TIMEOUT, timeout, 0, 31),
	BOUND(QP_RETRY_CNT, retry_cnt, 0, 7),
	BOUND(QP_RNR_RETRY, rnr_retry, 0, 7),
	BOUND(QP_MIN_RNR_TIMER, min_rnr_timer, 0, 31),
	BOUND(QP_RQ_PSN, rq_psn, 0, WIRE_PSN_MASK),
	BOUND(QP_SQ_PSN, sq_psn, 0, WIRE_PSN_MASK),
	BOUND(QP_DEST_QPN, dest_qp_num, 0, WIRE_QPN_MASK),
	BOUND(QP_AV, ah.port_num, 1, 1),
	/* The alternate path's attributes are always set together (REQ-11). */
	BOUND(QP_ALT_PATH, alt_port_num, 1, 1),
	BOUND(QP_ALT_PATH, alt_timeout, 0, 31),
	BOUND(QP_ALT_PATH, alt_ah.port_num, 1, 1),
};

/* Value of the attribute. Hosts are little-endian. */
static uint32_t
value_of(const struct bound *b, const struct uroce_qp_attr *a)
{
	uint32_t value = 0;

	memcpy(&value, (const char *)a + b->at, b->size);
	return value;
}

/* Requires value in min .. max. */
static bool
in_range(struct qp_refusal *r, const char *field, uint32_t value, uint32_t min, uint32_t max)
{
	if (value >= min && value <= max)
		return true;
	*r = (struct qp_refusal){QP_REFUSED_VALUE, .field = field, .value = value};
	r->min = min;
	r->max = max;
	return false;
}

static bool
pkey_valid(struct qp_refusal *r, const struct qp *qp, const char *field, uint16_t index,
	   const struct qp_limits *lim)
{
	if (index < lim->npkeys && qp_pkey_at(qp, index) != 0)
		return true;
	*r = (struct qp_refusal){QP_REFUSED_PKEY, .field = field, .value = index};
	return false;
}

static bool
path_valid(struct qp_refusal *r, const char *field, const struct uroce_ah_attr *ah,
	   const struct qp_limits *lim)
{
	if (ah->is_global && ah->sgid_index < lim->ngids && (lim->gid_valid >> ah->sgid_index & 1))
		return true;
	*r = (struct qp_refusal){QP_REFUSED_PATH, .field = field};
	return false;
}

static bool
values_valid(struct qp_refusal *r, const struct qp *qp, uint32_t mask,
	     const struct uroce_qp_attr *a, const struct qp_limits *lim)
{
	for (uint32_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const struct bound *b = &bounds[i];

		if ((mask & b->bit) && !in_range(r, b->field, value_of(b, a), b->min, b->max))
			return false;
	}
	if ((mask & QP_PATH_MTU) && a->path_mtu > lim->max_mtu && a->path_mtu <= MTU_LARGEST) {
		*r = (struct qp_refusal){QP_REFUSED_MTU, .value = a->path_mtu};
		r->max = lim->max_mtu;
		return false;
	}
	if ((mask & QP_PATH_MTU) && !in_range(r, "path_mtu", a->path_mtu, 1, lim->max_mtu))
		return false;
	if ((mask & QP_ACCESS_FLAGS) && (a->qp_access_flags & ~ACCESS_LEGAL)) {
		*r = (struct qp_refusal){QP_REFUSED_FLAGS, .field = "qp_access_flags"};
		r->bits = a->qp_access_flags & ~ACCESS_LEGAL;
		return false;
	}
	if ((mask & QP_PKEY_INDEX) && !pkey_valid(r, qp, "pkey_index", a->pkey_index, lim))
		return false;
	if ((mask & QP_AV) && !path_valid(r, "ah_attr", &a->ah, lim))
		return false;
	return !(mask & QP_ALT_PATH) ||
	       (pkey_valid(r, qp, "alt_pkey_index", a->alt_pkey_index, lim) &&
		path_valid(r, "alt_ah_attr", &a->alt_ah, lim));
}

/* Sets *r to the reason, but for type, from and to; false: refused. to is below QP_NSTATES. */
static bool
modify_valid(struct qp_refusal *r, const struct qp *qp, uint32_t mask,
	     const struct uroce_qp_attr *attr, uint32_t to, const struct qp_limits *lim)
{
	uint32_t from = qp->conn.state;
	uint32_t bits = mask & ~QP_STATE;
	const struct qp_transition *row = qp_transition_get(qp->conn.type, from, to);

	*r = (struct qp_refusal){QP_REFUSED_NOT};
	if ((mask & QP_CUR_STATE) && attr->cur_qp_state != from)
		*r = (struct qp_refusal){QP_REFUSED_CUR_STATE, .value = attr->cur_qp_state};
	else if (!row->legal)
		r->why = QP_REFUSED_TRANSITION;
	else if ((bits & row->required) != row->required)
		*r = (struct qp_refusal){QP_REFUSED_MISSING, .bits = row->required & ~bits};
	else if ((bits & ~(row->required | row->optional)) != 0)
		*r = (struct qp_refusal){QP_REFUSED_EXTRA,
					 .bits = bits & ~(row->required | row->optional)};
	else if (from == QP_SQD && (to == QP_RTS || to == QP_SQD) && qp->conn.snd.draining)
		r->why = QP_REFUSED_DRAINING; /* QP-16 */
	if (r->why != QP_REFUSED_NOT || !values_valid(r, qp, mask, attr, lim))
		return false;
	if ((mask & QP_PATH_MIG_STATE) && qp_mig_check(qp, mask, attr, to) != 0)
		*r = (struct qp_refusal){QP_REFUSED_MIGRATION, .value = attr->path_mig_state};
	return r->why == QP_REFUSED_NOT;
}

int
qp_modify_check(const struct qp *qp, uint32_t mask, const struct uroce_qp_attr *attr,
		const struct qp_limits *lim, struct qp_refusal *why)
{
	uint32_t to = mask & QP_STATE ? attr->qp_state : qp->conn.state;
	struct qp_refusal r = {QP_REFUSED_STATE, .value = to};
	bool valid = to < QP_NSTATES && modify_valid(&r, qp, mask, attr, to, lim);

	r.type = qp->conn.type;
	r.from = qp->conn.state;
	r.to = to < QP_NSTATES ? (uint8_t)to : r.from;
	if (why != NULL)
		*why = r;
	return valid ? 0 : EINVAL;
}

/* Stores the attributes in mask (QP-05). */
static void
store_attrs(struct uroce_qp_attr *to, uint32_t mask, const struct uroce_qp_attr *from)
{
	if (mask & QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & QP_PORT)
		to->port_num = from->port_num;
	if (mask & QP_QKEY)
		to->qkey = from->qkey;
	if (mask & QP_AV)
		to->ah = from->ah;
	if (mask & QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
	if (mask & QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
	if (mask & QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
	if (mask & QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if (mask & QP_MIN_RNR_TIMER)
		to->min_rnr_timer = from->min_rnr_timer;
	if (mask & QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = from->en_sqd_async_notify;
}

static void
pkey_use(struct qp *qp)
{
	qp->conn.pkey_index = qp->conn.attr.pkey_index;
	qp->conn.pkey = qp_pkey_at(qp, qp->conn.pkey_index);
}

void
qp_pkey_refresh(struct qp *qp)
{
	pkey_use(qp);
	wire_tmpl_set_pkey(&qp->conn.tmpl, qp->conn.pkey);
}

void
qp_path_use(struct qp *qp, const struct qp_path *path)
{
	qp->conn.loopback = path->loopback;
	qp->conn.path_ok = path->path_ok;
	pkey_use(qp);
	memcpy(qp->conn.hop, path->hop, sizeof(qp->conn.hop));
	memcpy(qp->conn.sgid, path->wire.sgid, 16);
	memcpy(qp->conn.dgid, path->wire.dgid, 16);
	wire_tmpl_init(&qp->conn.tmpl, &path->wire, qp->conn.attr.dest_qp_num, qp->conn.pkey);
	wire_tmpl_set_migreq(&qp->conn.tmpl, qp->conn.mig == QP_MIG_MIGRATED);
	qp_cc_ect(qp);
}

/* Derives the fast path's fields from the attributes after any change. */
static void
apply_derived(const struct qp_env *env, struct qp *qp, const struct qp_path *path)
{
	const struct uroce_qp_attr *a = &qp->conn.attr;

	qp->conn.access =
		a->qp_access_flags & (MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC);
	qp->conn.dest_qpn = a->dest_qp_num;
	qp->conn.retry_cnt = a->retry_cnt;
	qp->conn.rnr_retry = a->rnr_retry;
	qp->conn.loss.timeout_ns = wire_ack_timeout_ns(a->timeout);
	qp_loss_rewait(env, qp);
	if (qp->conn.type == QP_TYPE_UD)
		qp->conn.mtu = (uint16_t)(128u << qp->conn.dev_mtu);
	else if (a->path_mtu != 0)
		qp->conn.mtu = (uint16_t)(128u << a->path_mtu);
	qp_pkey_refresh(qp);
	if (path != NULL)
		qp_path_use(qp, path);
}

static void
enter_reset(struct qp_env *env, struct qp *qp)
{
	struct qp_ring *sq = &qp->bind.sq, *rq = &qp->bind.rq;
	bool key_pause = qp->conn.rcv.key_pause;

	qp_sqes_drop(&qp->bind.sqes, env->sqes);
	qp_ahead_forget_qp(env->ahead, qp);
	qp_sr_drop(env->sr, qp);
	memset(&qp->conn.sr, 0, sizeof(qp->conn.sr));
	memset(&qp->conn.snd, 0, sizeof(qp->conn.snd));
	memset(&qp->conn.rcv, 0, sizeof(qp->conn.rcv));
	memset(&qp->conn.loss, 0, sizeof(qp->conn.loss));
	memset(qp->conn.deadline_ns, 0, sizeof(qp->conn.deadline_ns));
	memset(&qp->conn.cc_flow, 0, sizeof(qp->conn.cc_flow));
	memset(&qp->conn.ecn, 0, sizeof(qp->conn.ecn));
	memset(&qp->conn.attr, 0, sizeof(qp->conn.attr));
	sq->prod = rq->prod = 0;
	qp->bind.armed = qp->bind.polled = false;
	qp->bind.late_req.n = qp->bind.late_resp.n = 0;
	qp->bind.late_resp.lost = false;
	qp->bind.tx_late_ns = 0;
	mem_late_forget(&env->late_ops, &qp->bind.late_op.op);
	qp->conn.rcv.key_pause = key_pause;
	qp->conn.path_ok = false;
	qp->conn.mig = QP_MIG_MIGRATED;
	qp->conn.alt_loaded = false;
	memset(qp->conn.hop, 0, sizeof(qp->conn.hop));
	memset(&qp->conn.alt, 0, sizeof(qp->conn.alt));
	qp->conn.rings_bad = false;
	qp->conn.last_wqe_due = false;
	qp->conn.why = 0;
	qp->conn.mtu = 0;
	memset(sq->hdr, 0, sizeof(*sq->hdr));
	sq->hdr->worker = qp->bind.worker;
	if (rq->hdr != NULL)
		memset(rq->hdr, 0, sizeof(*rq->hdr));
	qp->conn.state = QP_RESET;
	qp_recorder_sync(qp);
}

static void
enter_rtr(struct qp_env *env, struct qp *qp)
{
	if (qp->conn.state == QP_INIT)
		qp_cc_begin(env, qp); /* for READ responses */
	qp->conn.rcv.epsn = qp->conn.attr.rq_psn;
	qp->conn.rcv.comm_est = false;
	qp->conn.state = QP_RTR;
}

static void
enter_rts(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (qp->conn.state == QP_SQE)
		qp_flush_mark(env, qp);
	if (qp->conn.state == QP_SQE && !snd->flushing)
		qp->conn.why = 0;
	if (qp->conn.state == QP_ERR)
		return; /* a ring was corrupt */
	if (qp->conn.state == QP_RTR) {
		snd->una_psn = snd->next_psn = snd->high_psn = snd->alloc_psn =
			qp->conn.attr.sq_psn;
		qp->conn.cc_flow.una_psn = snd->una_psn;
		snd->limited = false;
		qp_loss_reset(env, qp);
	}
	if (qp->conn.state != QP_RTS) {
		/* Nothing is outstanding, so the retry counts apply from the first packet. */
		snd->retry_left = qp->conn.attr.retry_cnt;
		snd->rnr_left = qp->conn.attr.rnr_retry;
	}
	qp->conn.state = QP_RTS;
	env->ops->qp_wake(env->ops_ctx, qp);
}

static void
enter_sqd(struct qp_env *env, struct qp *qp, uint32_t mask)
{
	if (qp->conn.state == QP_RTS) {
		qp->conn.snd.draining = true;
		/* The event must be requested for this drain, not an earlier one (EVT-05). */
		if (!(mask & QP_EN_SQD_ASYNC_NOTIFY))
			qp->conn.attr.en_sqd_async_notify = 0;
	}
	qp->conn.state = QP_SQD;
	/* The requester reports the end of the drain, which may be now. */
	env->ops->qp_wake(env->ops_ctx, qp);
}

void
qp_modify_apply(struct qp_env *env, struct qp *qp, uint32_t mask, const struct uroce_qp_attr *attr,
		const struct qp_path *path, const struct qp_path *alt)
{
	uint32_t to = mask & QP_STATE ? attr->qp_state : qp->conn.state;

	env->counters = qp->bind.counters;
	if (to != qp->conn.state && to != QP_ERR)
		qp_record(env, qp, QP_RECORD_STATE, to, 0, qp->conn.state);
	else if (to == qp->conn.state)
		qp_record(env, qp, QP_RECORD_MODIFIED, 0, 0, mask);
	if (to == QP_RESET) {
		enter_reset(env, qp);
		return;
	}
	if (to == QP_ERR) {
		qp_error(env, qp, QP_WC_SUCCESS);
		/* Run one turn now: most programs' queues are then flushed when modify returns. */
		env->work = QP_TURN_STEPS * 2;
		qp_flush(env, qp);
		return;
	}
	store_attrs(&qp->conn.attr, mask, attr);
	apply_derived(env, qp, path);
	if (mask & QP_ALT_PATH)
		qp_alt_load(qp, attr, alt);
	switch (to) {
	case QP_RTR:
		enter_rtr(env, qp);
		break;
	case QP_RTS:
		enter_rts(env, qp);
		break;
	case QP_SQD:
		enter_sqd(env, qp, mask);
		break;
	default:
		qp->conn.state = (uint8_t)to;
		break;
	}
	qp_recorder_sync(qp);
	if (mask & QP_PATH_MIG_STATE)
		qp_mig_apply(env, qp, attr->path_mig_state);
}

void
qp_path_resolved(struct qp_env *env, struct qp *qp, const uint8_t dmac[6])
{
	memcpy(qp->conn.tmpl.bytes, dmac, 6);
	qp->conn.path_ok = true;
	qp_record(env, qp, QP_RECORD_NEIGHBOUR, 0, 0, 0);
	/* Nothing was sent: timers start with the first packet. */
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PATH);
	env->ops->qp_wake(env->ops_ctx, qp);
}

void
qp_neigh_resolved(struct qp_env *env, struct qp *qp, const uint8_t hop[16], const uint8_t mac[6])
{
	if (memcmp(qp->conn.hop, hop, sizeof(qp->conn.hop)) == 0)
		qp_path_resolved(env, qp, mac);
	if (qp->conn.alt_loaded && memcmp(qp->conn.alt.hop, hop, sizeof(qp->conn.alt.hop)) == 0) {
		memcpy(qp->conn.alt.wire.dmac, mac, 6);
		qp->conn.alt.path_ok = true;
	}
}

void
qp_query(const struct qp *qp, struct uroce_qp_attr *attr)
{
	*attr = qp->conn.attr;
	attr->qp_state = attr->cur_qp_state = qp->conn.state;
	attr->path_mig_state = qp->conn.mig;
	attr->sq_draining = qp->conn.snd.draining;
	attr->cap = qp->conn.cap;
}
