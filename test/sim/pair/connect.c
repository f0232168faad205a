/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves QPs through their states, as a client's ibv_modify_qp and the daemon would. */
#include <stdlib.h>
#include <string.h>
#include "apm.h"
#include "pair.h"

static void
connect_gid(const struct pair_side *side, bool v6, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (v6) {
		gid[0] = 0xfd;
		gid[15] = (uint8_t)(side->node->idx + 1);
	} else {
		gid[10] = gid[11] = 0xff;
		gid[12] = 10;
		gid[15] = (uint8_t)(side->node->idx + 1);
	}
}

/* Both sides of a pair get the same family, tag and class: from shared data, not at random. */
static void
connect_path(const struct pair_side *side, struct qp_path *path)
{
	const struct pair *s = side->pair;
	uint64_t pick = s->seed + side->idx / 2;
	bool v6 = pick & 1;

	memset(path, 0, sizeof(*path));
	connect_gid(side, v6, path->wire.sgid);
	connect_gid(side->peer, v6, path->wire.dgid);
	memcpy(path->wire.smac, side->node->mac, 6);
	memcpy(path->wire.dmac, side->peer->node->mac, 6);
	path->wire.udp_sport = wire_udp_sport(0, side->qpn, side->peer->qpn);
	path->wire.vlan_tci = pair_vid(s) | (pick & 2 ? 0x2000 : 0); /* also a priority */
	path->wire.tclass = pick & 4 ? 0xb8 : 0;
	path->wire.hop_limit = 64;
	path->wire.flow_label = pick & 8 ? 0x12345 : 0;
	path->loopback = side->node == side->peer->node;
	path->path_ok = side->path_ns == 0;
	if (!path->path_ok)
		memset(path->wire.dmac, 0, 6);
}

static uint32_t
connect_attrs(struct pair_side *side, enum qp_state to)
{
	const struct pair_cfg *c = &side->pair->cfg;
	struct uroce_qp_attr *a = &side->attr;

	a->qp_state = to;
	switch (to) {
	case QP_INIT:
		a->port_num = 1;
		a->qp_access_flags =
			MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC;
		return QP_STATE | QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS;
	case QP_RTR:
		a->dest_qp_num = side->peer->qpn;
		a->rq_psn = side->peer->attr.sq_psn;
		a->max_dest_rd_atomic = (uint8_t)c->rd_atomic;
		a->min_rnr_timer = (uint8_t)c->rnr_code;
		a->ah.is_global = 1;
		a->ah.port_num = 1;
		a->ah.hop_limit = 64;
		return QP_STATE | QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN |
		       QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER;
	case QP_RTS:
		a->timeout = (uint8_t)c->timeout;
		a->retry_cnt = (uint8_t)c->retry;
		a->rnr_retry = (uint8_t)c->rnr_retry;
		a->max_rd_atomic = (uint8_t)c->rd_atomic;
		return QP_STATE | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_SQ_PSN |
		       QP_MAX_QP_RD_ATOMIC;
	case QP_SQD:
		a->en_sqd_async_notify = 1;
		return QP_STATE | QP_EN_SQD_ASYNC_NOTIFY;
	default:
		return QP_STATE;
	}
}

void
pair_side_modify(struct pair_side *side, enum qp_state to)
{
	static const struct qp_limits lim = {.max_mtu = 5, .npkeys = 1, .ngids = 1, .gid_valid = 1};
	struct pair_node *n = side->node;
	uint32_t mask;
	struct uroce_qp_attr checked;
	struct qp_path path, alt;

	/* A modify from SQD back to RTS has no attribute but the state. */
	if (to == QP_RTS && side->qp->conn.state == QP_SQD) {
		mask = QP_STATE;
		side->attr.qp_state = to;
	} else {
		mask = connect_attrs(side, to) | pair_apm_attrs(side, to);
	}
	checked = side->attr;
	if (side->pair->cfg.family == PAIR_MUST_SUCCEED && checked.retry_cnt > 7)
		checked.retry_cnt = 7; /* beyond a program's limit, so that it never runs out */
	if (qp_modify_check(side->qp, mask, &checked, &lim, NULL) != 0) {
		sim_fail(&side->pair->sim, "QP-01: qp %x: legal modify to %s refused", side->qpn,
			 qp_state_name[to]);
		return;
	}
	connect_path(side, &path);
	pair_apm_path(side, &path, &alt);
	if (to == QP_INIT) {
		sim_pace_set(side->qp);
		qp_sr_set(n->worker.eng.env.sr, side->qp,
			  side->pair->cfg.sr != 0 ? QP_SR_ON : QP_SR_OFF);
	}
	n->worker.eng.env.now_ns = side->pair->now_ns;
	qp_modify_apply(&n->worker.eng.env, side->qp, mask, &side->attr,
			mask & QP_AV ? &path : NULL, mask & QP_ALT_PATH ? &alt : NULL);
	qp_env_flush(&n->worker.eng.env);
	sim_log(&side->pair->sim, "node %u qp %06x -> %s", n->idx, side->qpn, qp_state_name[to]);
	sim_wake(&n->worker, 0);
}

/* Resets the state of the previous connection: other work, other PSNs, perhaps another MTU. */
static void
connect_renew(struct pair_side *side, uint32_t code)
{
	uint32_t i;

	for (i = 0; i < side->nops; i++)
		free(side->op[i].snapshot);
	memset((char *)side + offsetof(struct pair_side, op), 0,
	       sizeof(*side) - offsetof(struct pair_side, op));
	side->local.head = side->local.tail = 0;
	side->recvs.head = side->recvs.tail = 0;
	sim_end_renew(&side->sim_end);
	side->wr_salt = sim_rand(&side->pair->load);
	side->mtu = 128u << code;
	side->attr.path_mtu = code;
}

void
pair_world_connect(struct pair *s)
{
	uint32_t i, code = 0;

	s->by_hand = false;
	for (i = 0; i < s->nsides; i++) {
		if (i % 2 == 0)
			code = s->cfg.mtu != 0 ? s->cfg.mtu : sim_between(&s->load, 1, 5);
		if (s->side[i].window_gone)
			sim_key_add(&s->side[i].node->mrs, &s->side[i].window.mr, &s->load);
		connect_renew(&s->side[i], code);
	}
	for (i = 0; i < PAIR_NODES; i++)
		memcpy(s->node[i].model, s->node[i].mem, s->node[i].used);
	for (i = 0; i < s->nsides; i++)
		pair_plan_side(s, &s->side[i]);
	if (s->cfg.family == PAIR_FAULTS)
		pair_plan_faults(s);
	for (i = 0; i < s->nsides; i++)
		pair_plan_recvs(s, &s->side[i]);
	for (i = 0; i < s->nsides && !s->failed; i++)
		pair_side_modify(&s->side[i], QP_INIT);
}

void
pair_side_resolve(struct pair_side *side)
{
	side->path_ns = 0;
	side->node->worker.eng.env.now_ns = side->pair->now_ns;
	qp_path_resolved(&side->node->worker.eng.env, side->qp, side->peer->node->mac);
	sim_wake(&side->node->worker, 0);
}
