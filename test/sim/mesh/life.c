/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves QPs through their states, as their clients and the daemon would: connected, drained and
 * resumed, recovered from SQE, killed under traffic, reset or destroyed, and connected again.
 */
#include <stddef.h>
#include <string.h>
#include <rte_common.h>
#include "mesh.h"
#include "wire/psn.h"

const char *const mesh_conn_state_name[MESH_CONN_STATES] = {
	[MESH_DOWN] = "down",
	[MESH_UP] = "up",
	[MESH_DYING] = "dying",
	[MESH_OVER] = "over",
};

#define LIFE_QKEY 0x11u

static void
life_path(struct mesh_side *side, struct qp_path *path)
{
	const struct mesh_side *peer = side->peer;
	bool v6 = (side->conn->life ^ side->m->seed) & 1;

	memset(path, 0, sizeof(*path));
	memcpy(path->wire.sgid, side->node->gid[v6], 16);
	memcpy(path->wire.dgid, peer->node->gid[v6], 16);
	memcpy(path->wire.smac, side->node->mac, 6);
	memcpy(path->wire.dmac, peer->node->mac, 6);
	path->wire.udp_sport = wire_udp_sport(0, side->qpn, peer->qpn);
	path->wire.hop_limit = 64;

	path->loopback = side->node == peer->node;
	path->path_ok = true;
}

static uint32_t
life_attrs(struct mesh_side *side, enum qp_state to)
{
	const struct mesh_cfg *c = &side->m->cfg;
	struct uroce_qp_attr *a = &side->attr;
	bool rc = side->type == QP_TYPE_RC, ud = side->type == QP_TYPE_UD;
	enum qp_state from = side->qp->conn.state;

	a->qp_state = to;
	if (to == QP_INIT) {
		a->port_num = 1;
		a->qkey = LIFE_QKEY;
		a->qp_access_flags = MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC;
		return QP_STATE | QP_PKEY_INDEX | QP_PORT | (ud ? QP_QKEY : QP_ACCESS_FLAGS);
	}
	if (to == QP_RTR && !ud) {
		a->dest_qp_num = side->peer->qpn;
		a->rq_psn = side->peer->attr.sq_psn;
		a->max_dest_rd_atomic = (uint8_t)c->rd_atomic;
		a->ah.is_global = 1;
		a->ah.port_num = 1;
		return QP_STATE | QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN |
		       (rc ? QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER : 0);
	}
	if (to == QP_RTS && from == QP_RTR) {
		a->timeout = (uint8_t)c->timeout;
		a->retry_cnt = (uint8_t)c->retry;
		a->rnr_retry = c->must ? 7 : (uint8_t)c->rnr_retry;
		a->max_rd_atomic = (uint8_t)c->rd_atomic;
		return QP_STATE | QP_SQ_PSN |
		       (rc ? QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC : 0);
	}
	if (to == QP_SQD) {
		a->en_sqd_async_notify = 1;
		return QP_STATE | QP_EN_SQD_ASYNC_NOTIFY;
	}
	return QP_STATE;
}

void
mesh_modify(struct mesh_side *side, enum qp_state to)
{
	static const struct qp_limits lim = {.max_mtu = 5, .npkeys = 1, .ngids = 1, .gid_valid = 1};
	struct mesh_worker *w = &side->node->worker[side->worker];
	uint32_t mask = life_attrs(side, to);
	struct uroce_qp_attr apply = side->attr;
	struct qp_path path;

	if (qp_modify_check(side->qp, mask, &side->attr, &lim, NULL) != 0) {
		sim_fail(&side->m->sim, "QP-01: qp %06x: legal modify %s to %s refused", side->qpn,
			 qp_state_name[side->qp->conn.state], qp_state_name[to]);
		return;
	}
	if (side->m->cfg.must)
		apply.retry_cnt = 255; /* beyond a program's limit: never runs out */
	if (mask & QP_AV)
		life_path(side, &path);
	if (to == QP_INIT) {
		sim_pace_set(side->qp);
		if (side->type == QP_TYPE_RC)
			qp_sr_set(w->eng.env.sr, side->qp,
				  side->m->cfg.sr != 0 ? QP_SR_ON : QP_SR_OFF);
	}
	if (to == QP_ERR || to == QP_RESET)
		mesh_waits_forget(side);
	w->eng.env.now_ns = side->m->now_ns;
	qp_modify_apply(&w->eng.env, side->qp, mask, &apply, mask & QP_AV ? &path : NULL, NULL);
	qp_env_flush(&w->eng.env);
	sim_log(&side->m->sim, "node %u qp %06x (%s) -> %s", side->node->idx, side->qpn,
		side->type == QP_TYPE_RC   ? "RC"
		: side->type == QP_TYPE_UC ? "UC"
					   : "UD",
		qp_state_name[to]);
	sim_wake(&w->sim_worker, 0);
}

/* PSNs of a new life are far from those of the previous one, as with any connection manager. */
static uint32_t
life_psn(struct mesh_side *side)
{
	struct mesh *m = side->m;
	uint32_t step = 0x200000 + sim_below(&m->load, 0x100000);

	if (side->conn->life > 0)
		return psn_add(side->attr.sq_psn, sim_chance(&m->load, 500000) ? step : 0 - step);
	if (m->cfg.wrap)
		return WIRE_PSN_MASK - sim_below(&m->load, 60);
	return (uint32_t)sim_rand(&m->load) & WIRE_PSN_MASK;
}

static void
life_renew(struct mesh_side *side, uint32_t mtu_code)
{
	struct mesh *m = side->m;
	uint64_t now = m->now_ns;

	if (side->qp == NULL)
		mesh_qp_make(side);
	memset((char *)side + offsetof(struct mesh_side, op), 0,
	       sizeof(*side) - offsetof(struct mesh_side, op));
	sim_end_renew(&side->sim_end);
	side->nops = sim_between(&m->load, 1, m->cfg.ops);
	side->attr.sq_psn = life_psn(side);
	side->tx_psn = side->attr.sq_psn;
	side->attr.path_mtu = mtu_code;
	side->attr.min_rnr_timer =
		(uint8_t)(m->cfg.rnr_code < 32 ? m->cfg.rnr_code : sim_below(&m->load, 32));
	side->mtu = side->type == QP_TYPE_UD ? 4096 : 128u << mtu_code;
	side->rtr_ns = now + sim_below(&m->load, 20000);
	side->rts_ns = side->rtr_ns + sim_below(&m->load, 20000);
	side->recv_ns = sim_chance(&m->load, m->cfg.recv_late)
				? now + sim_scale(&m->load, 1000, 1000000)
				: 0;
	side->sqd_ns = side->dereg_ns = side->die_ns = SIM_NEVER;
	if (sim_chance(&m->load, m->cfg.sqd))
		side->sqd_ns = side->rts_ns + sim_scale(&m->load, 1000, 300000);
	if (sim_chance(&m->load, m->cfg.dereg / 2))
		side->dereg_ns = side->rts_ns + sim_scale(&m->load, 1000, 200000);
	if (side->peer != NULL && side->type == QP_TYPE_RC)
		memcpy(&side->word, side->peer->node->mem + side->peer->words.off, 8);
	if (side->type == QP_TYPE_RC)
		mesh_windows_renew(side);
}

/* A region that was deregistered in the previous life returns with another key. */
static void
life_regions(struct mesh_side *side)
{
	struct mesh_area *a[] = {&side->local, &side->recvs, &side->slots};
	uint32_t i;

	for (i = 0; i < RTE_DIM(a); i++) {
		/* UC: a WRITE of the previous life with an invalid key ends this one. */
		if (a[i]->len == 0 ||
		    (!a[i]->gone && (!sim_chance(&side->m->load, 200000) ||
				     (side->m->cfg.must && side->type == QP_TYPE_UC))))
			continue;
		mesh_area_hide(side->node, a[i]);
		a[i]->mr.pd = 1;
		a[i]->mr.len = a[i]->len;
		a[i]->mr.access = a[i] == &side->slots
					  ? MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ
					  : MEM_LOCAL_WRITE;
		mesh_area_show(side->node, a[i]);
	}
}

static void
life_begin(struct mesh_conn *c)
{
	struct mesh *m = c->side[0]->m;
	uint32_t code = m->cfg.mtu != 0 ? m->cfg.mtu : sim_between(&m->load, 1, 5), i;

	for (i = 0; i < c->nsides; i++) {
		life_regions(c->side[i]);
		life_renew(c->side[i], code);
	}
	for (i = 0; i < c->nsides; i++)
		mesh_modify(c->side[i], QP_INIT);
	c->state = MESH_UP;
	c->trouble = false;
	c->kill_ns = SIM_NEVER;
	if (sim_chance(&m->load, m->cfg.kill))
		c->kill_ns = m->now_ns + sim_scale(&m->load, 1000, 400000);
	m->more.lives++;
	m->last_progress_ns = m->now_ns;
}

/* Has this life executed everything that was planned for it? */
static bool
life_finished(const struct mesh_conn *c)
{
	uint32_t i, k;

	for (i = 0; i < c->nsides; i++) {
		const struct mesh_side *side = c->side[i];

		if (side->posted != side->nops || side->reaped != side->posted ||
		    side->qp->conn.state != QP_RTS || side->flushed)
			return false;
		for (k = side->peer != NULL ? side->peer->delivered : 0;
		     side->type == QP_TYPE_RC && k < side->posted; k++) {
			if (mesh_uses_recv(&side->op[k]))
				return false;
		}
	}
	return true;
}

static bool
life_broken(const struct mesh_conn *c)
{
	uint32_t i;

	for (i = 0; i < c->nsides; i++) {
		if (c->side[i]->qp->conn.state == QP_ERR)
			return true;
	}
	return false;
}

/* Ends a life. With kill the first side leaves at once, and the other must find out. */
static void
life_end(struct mesh_conn *c, bool kill)
{
	struct mesh *m = c->side[0]->m;
	uint32_t i, first = sim_below(&m->cli, c->nsides);

	c->state = MESH_DYING;
	c->trouble |= kill;
	m->more.kills += kill;
	for (i = 0; i < c->nsides; i++) {
		struct mesh_side *side = c->side[i];
		uint32_t die = sim_below(&m->cli, 8);

		side->die_to = die < 5 ? QP_ERR : die < 7 ? QP_RESET : MESH_DESTROY;
		side->die_ns =
			m->now_ns + (i == first && kill ? 0 : sim_scale(&m->cli, 100, 600000));
		if (kill && i != first)
			side->die_ns += sim_scale(&m->cli, 100, 3000000);
	}
}

/* An SRQ's WQE that a QP holds when it is reset is lost and does not complete. */
static void
life_srq_loss(struct mesh_side *side)
{
	struct mesh_srq *q = side->srq;
	uint32_t i;

	if (q == NULL || !side->qp->conn.rcv.cur.taken)
		return;
	i = (uint32_t)side->qp->conn.rcv.cur.wqe.wr_id % MESH_SLOTS;
	q->recv[i].state = SIM_OP_DONE;
	q->lost++;
	memcpy(side->node->base + q->recv[i].off, side->node->mem + q->recv[i].off, q->area.stride);
}

/* The memory of side's node that this connection may have changed is final. */
static void
life_freeze(struct mesh_side *side)
{
	struct mesh_node *n = side->node;
	uint32_t i;

	for (i = 0; i < side->posted; i++) {
		if (sim_op_fetches(&side->op[i].sim_op))
			mesh_settle(side, &side->op[i]);
	}
	for (i = 0; side->peer != NULL && i < side->peer->posted; i++) {
		if (!sim_op_fetches(&side->peer->op[i].sim_op) ||
		    mesh_is_atomic(&side->peer->op[i]))
			mesh_settle(side->peer, &side->peer->op[i]);
	}
	if (side->type != QP_TYPE_UD && side->srq == NULL)
		memcpy(n->base + side->recvs.off, n->mem + side->recvs.off, side->recvs.len);
}

static void
life_die(struct mesh_side *side)
{
	side->dead = true;
	if (side->die_to == QP_ERR) {
		mesh_modify(side, QP_ERR);
		life_freeze(side);
		mesh_post_dead(side);
		return;
	}
	side->cut = true;
	life_freeze(side);
	life_srq_loss(side);
	mesh_forget_cqes(side);
	side->due_head = side->due_tail;
	if (side->die_to == QP_RESET) {
		mesh_modify(side, QP_RESET);
		return;
	}
	sim_log(&side->m->sim, "node %u qp %06x destroyed", side->node->idx, side->qpn);
	mesh_waits_forget(side);
	mesh_qp_destroy(side);
}

static bool
life_gone(const struct mesh_side *side)
{
	if (!side->dead || side->cut)
		return side->dead;
	/* Only the completions show how many WQEs of an SRQ it takes. */
	return side->reaped == side->posted && side->due_head == side->due_tail &&
	       (side->srq != NULL ? !mesh_cqes_left(side) : side->rreaped == side->rposted);
}

static bool
life_conn_step(struct mesh_conn *c)
{
	struct mesh *m = c->side[0]->m;
	uint32_t i;

	switch ((enum mesh_conn_state)c->state) {
	case MESH_DOWN:
		if (m->now_ns < c->at_ns)
			return false;
		life_begin(c);
		return true;
	case MESH_UP:
		if (m->now_ns >= c->kill_ns)
			life_end(c, true);
		else if (life_finished(c) || life_broken(c))
			life_end(c, false);
		else
			return false;
		return true;
	case MESH_DYING:
		for (i = 0; i < c->nsides; i++) {
			if (!life_gone(c->side[i]))
				return false;
		}
		mesh_check_life(c);
		for (i = 0; i < c->nsides; i++) {
			if (c->side[i]->qp == NULL || c->side[i]->qp->conn.state == QP_RESET)
				continue;
			/* The client may not have seen an SRQ's flushed WQE yet. */
			mesh_forget_cqes(c->side[i]);
			mesh_modify(c->side[i], QP_RESET);
		}
		c->state = ++c->life < m->cfg.lives ? MESH_DOWN : MESH_OVER;
		c->at_ns = m->now_ns + sim_scale(&m->cli, 100, 100000);
		m->last_progress_ns = m->now_ns;
		return true;
	case MESH_OVER:
		return false;
	}
	return false;
}

/* QP-15, QP-16: started messages are complete, and no other message has started. */
static void
life_drained(struct mesh_side *side)
{
	uint32_t cons = __atomic_load_n(&side->sq.hdr->cons, __ATOMIC_ACQUIRE);

	if (cons < side->begun)
		sim_fail(&side->m->sim, "QP-15: qp %06x: drained, %u WQEs were begun, %u are over",
			 side->qpn, side->begun, cons);
	side->sqd = 2;
	side->sqd_ns = side->m->now_ns + sim_scale(&side->m->cli, 100, 50000);
	side->m->more.drained++;
}

/* QP-17: all posted WQEs are completed or flushed; the QP continues from here. */
static void
life_recover(struct mesh_side *side)
{
	mesh_modify(side, QP_RTS);
	side->flushed = false;
	side->was_sqe = true;
	side->tx_op = side->posted;
	side->tx_k = 0;
	side->m->more.recovered++;
	side->m->last_progress_ns = side->m->now_ns;
}

static bool
life_side_step(struct mesh_side *side)
{
	uint64_t now = side->m->now_ns;
	uint8_t state;

	if (side->conn->state == MESH_DOWN || side->conn->state == MESH_OVER || side->dead)
		return false;
	state = side->qp->conn.state;
	if (now >= side->die_ns) {
		life_die(side);
	} else if (state == QP_INIT && now >= side->rtr_ns) {
		mesh_modify(side, QP_RTR);
	} else if (state == QP_RTR && now >= side->rts_ns) {
		mesh_modify(side, QP_RTS);
	} else if (state == QP_RTS && side->sqd == 0 && now >= side->sqd_ns) {
		mesh_modify(side, QP_SQD);
		side->sqd = 1;
	} else if (state == QP_SQD && side->sqd == 1 && side->sq_drained > 0) {
		life_drained(side);
	} else if (state == QP_SQD && side->sqd == 2 && now >= side->sqd_ns) {
		mesh_modify(side, QP_RTS);
		side->sqd = 3;
	} else if (state == QP_SQE && side->reaped == side->posted) {
		life_recover(side);
	} else {
		return mesh_change_step(side);
	}
	return true;
}

bool
mesh_life_step(struct mesh_node *n)
{
	struct mesh *m = n->m;
	bool busy = false;
	uint32_t i;

	for (i = 0; i < m->nsides && !m->failed; i++) {
		if (m->side[i].node == n)
			busy |= life_side_step(&m->side[i]);
	}
	for (i = 0; i < m->nconns && !m->failed; i++) {
		if (m->conn[i].side[0]->node == n)
			busy |= life_conn_step(&m->conn[i]);
	}
	return busy;
}

bool
mesh_over(const struct mesh *m)
{
	uint32_t i;

	for (i = 0; i < m->nconns; i++) {
		if (m->conn[i].state != MESH_OVER)
			return false;
	}
	return true;
}

bool
mesh_may_post(const struct mesh_side *side)
{
	const struct mesh_conn *c = side->conn;

	if ((c->state != MESH_UP && c->state != MESH_DYING) || side->dead || side->qp == NULL)
		return false;
	return side->qp->conn.state == QP_RTS || side->qp->conn.state == QP_SQD ||
	       side->qp->conn.state == QP_SQE;
}
