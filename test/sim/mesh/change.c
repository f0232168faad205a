/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes by clients while traffic runs: regions, memory windows, completion queues. */
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "mesh.h"

static void
change_mark(struct mesh_side *side, enum mesh_target target, bool all)
{
	uint32_t i;

	for (i = side->reaped; i < side->posted; i++)
		side->op[i].maybe |= all || side->op[i].target == target;
}

/* MEM-03: the contents of the region are final, for access by its key. */
static void
change_freeze(struct mesh_node *n, const struct mesh_area *a)
{
	memcpy(n->base + a->off, n->mem + a->off, a->len);
}

/* MEM-04: the same key, but without the right to write. */
static void
change_rereg(struct mesh_node *n, struct mesh_area *a, uint32_t how)
{
	mr_table_hide(&n->mrs, &a->mr);
	if (how == 0)
		a->mr.access &= ~(uint32_t)MEM_REMOTE_WRITE;
	else if (how == 1)
		a->mr.iova ^= 1ull << 40;
	else
		a->mr.pd = 98;
	mr_table_show(&n->mrs, &a->mr);
	a->gone = true;
}

static void
change_region(struct mesh_side *side)
{
	struct mesh *m = side->m;
	uint32_t which = sim_below(&m->cli, side->type == QP_TYPE_UD ? 2 : 5);
	struct mesh_area *a = which == 0 ? &side->local : which == 1 ? &side->recvs : &side->slots;

	if (side->srq != NULL && which == 1)
		return;
	side->conn->trouble = true;
	if (which < 2)
		change_mark(side, MESH_AT_SLOT, true);
	if (side->peer != NULL)
		change_mark(side->peer, MESH_AT_SLOT, which == 1);
	if (which > 2)
		change_rereg(side->node, a, which == 3 ? (m->seed + side->idx) & 1 : 2);
	else
		mesh_area_hide(side->node, a);
	/* A rereg leaves READ access at most: no write through it follows, either. */
	change_freeze(side->node, a);
	sim_log(&m->sim, "node %u qp %06x: region %u %s", side->node->idx, side->qpn, which,
		which > 2 ? "changed" : "deregistered");
}

bool
mesh_change_step(struct mesh_side *side)
{
	uint32_t i;

	if (side->m->now_ns >= side->dereg_ns && side->conn->state == MESH_UP) {
		side->dereg_ns = SIM_NEVER;
		change_region(side);
		return true;
	}
	/* The client passes on changes of a window when it processes them. */
	for (i = 0; i < MESH_WINS; i++) {
		struct mesh_win *w = &side->win[i];

		if (w->state == MESH_WIN_BOUND && !w->known && sim_chance(&side->m->cli, 300000)) {
			w->known = true;
			return true;
		}
	}
	return false;
}

void
mesh_windows_renew(struct mesh_side *side)
{
	struct mesh_node *n = side->node;
	uint32_t i;

	for (i = 0; i < MESH_WINS; i++) {
		struct mesh_win *w = &side->win[i];
		uint32_t gen = w->gen;

		if (w->mr.slot != 0) {
			mr_table_del(&n->mrs, &w->mr);
			mw_unbind(&w->mr);
		}
		memset(w, 0, sizeof(*w));
		w->gen = gen + 1;
		w->mr.pd = 1;
		w->mr.kind = i == 0 ? MR_WINDOW_2 : MR_WINDOW_1;
		w->off = side->wins.off + i * MESH_SLOTS * MESH_WIN_LEN;
		if (sim_key_add(&n->mrs, &w->mr, &side->m->load) != 0)
			sim_fail(&side->m->sim, "simulator: no slot for a window");
		w->key = w->mr.key;
	}
	if (side->wins.mr.windows != 0)
		sim_fail(&side->m->sim, "MEM-04: qp %06x: %u windows bound, none is left",
			 side->qpn, side->wins.mr.windows);
}

void
mesh_window_gone(struct mesh_side *side, struct mesh_win *w)
{
	uint32_t win = (uint32_t)(w - side->win), i;

	w->state = MESH_WIN_FREE;
	w->known = false;
	w->gen++;
	side->m->more.invalidated++;
	if (w->mr.parent != NULL)
		sim_fail(&side->m->sim, "MEM-04: qp %06x: window %u is still bound", side->qpn,
			 win);
	/* No write through it follows. */
	for (i = 0; i < side->peer->posted; i++) {
		struct mesh_op *op = &side->peer->op[i];

		if (op->target == MESH_AT_WIN && op->win == win && mesh_is_write(op))
			mesh_settle(side->peer, op);
	}
	memcpy(side->node->base + w->off, side->node->mem + w->off, MESH_SLOTS * MESH_WIN_LEN);
}

void
mesh_window_done(struct mesh_side *side, struct mesh_op *op)
{
	struct mesh_win *w = &side->win[op->win];

	if (op->fault != MESH_OK || op->gen != w->gen)
		return;
	if (op->state != SIM_OP_DONE)
		return; /* the QP is in error: windows are renewed with it */
	if (op->opcode == UROCE_WR_BIND_MW && op->len != 0) {
		w->state = MESH_WIN_BOUND;
		side->m->more.binds++;
		if (w->mr.parent != &side->wins.mr || w->mr.key != w->key)
			sim_fail(&side->m->sim,
				 "MEM-04: qp %06x: window %u is not bound as it must be", side->qpn,
				 op->win);
	} else {
		mesh_window_gone(side, w);
	}
}

/* CQ-02: a new ring replaces the old one; the client reads the old ring to its end first. */
void
mesh_cq_resize(struct mesh_node *n)
{
	struct mesh *m = n->m;
	struct sim_cq *cq = &n->cq[sim_below(&m->cli, MESH_CQS)];

	if (cq->old.hdr != NULL)
		return;
	cq->old = cq->ring;
	sim_cqring_make(&cq->ring, sim_between(&m->cli, cq->need, 3 * cq->need + 1));
	cq_resize(&cq->cq, cq->ring.hdr, cq->ring.entries);
	cq_resized(&cq->cq);
	m->more.resized++;
	sim_log(&m->sim, "node %u CQ %u has %u entries now", n->idx, cq->cq.id, cq->ring.entries);
}

static void
srq_resize_begin(struct mesh_srq *q, struct mesh *m)
{
	uint32_t head, entries = 1u << sim_below(&m->cli, 6);

	if (!srq_look(&q->srq, &head, &q->next_prod))
		sim_fail(&m->sim, "EVT-09: an SRQ makes no sense");
	if (q->next_prod - head > entries)
		return;
	q->next_qp = sim_ring_make(&q->next, entries, q->ring.stride, q->srq.rq.max_sge, 0);
	srq_copy(&q->srq, &q->next_qp, head, q->next_prod);
}

void
mesh_srq_resize(struct mesh_node *n)
{
	struct mesh *m = n->m;
	uint32_t i;

	for (i = 0; i < m->cfg.workers; i++) {
		struct mesh_srq *q = &n->worker[i].srq;

		if (q->next.hdr == NULL) {
			if (sim_chance(&m->cli, m->cfg.resize))
				srq_resize_begin(q, m);
			continue;
		}
		srq_switch(&q->srq, &q->next_qp, q->next_prod);
		free(q->ring.hdr);
		q->next.prod = q->ring.prod;
		q->ring = q->next;
		q->next.hdr = NULL;
		sim_log(&m->sim, "node %u SRQ %u has %u entries now", n->idx, i, q->ring.entries);
	}
}

/*
 * The next hop of an address handle is unknown for a while, as after ibv_create_ah: datagrams to it
 * and later ones wait until it is known.
 */
void
mesh_ah_step(struct mesh_node *n)
{
	struct mesh *m = n->m;
	struct qp_ah *ah = &n->ah[sim_below(&m->cli, 2 * m->cfg.nodes + MESH_GROUPS)];
	uint32_t i;

	if (ah->path_ok)
		ah->path_ok = !sim_chance(&m->cli, m->cfg.late_ah) || mesh_over(m);
	for (i = 0; i < 2 * m->cfg.nodes + MESH_GROUPS; i++) {
		if (!n->ah[i].path_ok && (&n->ah[i] != ah || mesh_over(m)))
			break;
	}
	if (i == 2 * m->cfg.nodes + MESH_GROUPS)
		return;
	n->ah[i].path_ok = true;
	for (i = 0; i < m->nsides; i++) {
		struct mesh_side *side = &m->side[i];

		if (side->node != n || side->qp == NULL || side->type != QP_TYPE_UD)
			continue;
		engine_wake(&n->worker[side->worker].eng, side->qp);
		sim_wake(&n->worker[side->worker].sim_worker, 0);
	}
}
