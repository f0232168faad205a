/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that move: at random times a QP is saved and freed, and a fresh QP with the same
 * rings continues from the image (qp/image.h), as after an upgrade of the daemon. All invariants
 * hold as if nothing had happened. A QP with a late operation stays (qp/image.h).
 */
#include <stdlib.h>
#include "qp/image.h"
#include "pair.h"

/* Makes a QP in RESET with the bindings of q. */
static struct qp *
move_fresh(const struct qp *q)
{
	struct qp_create c = {
		.qpn = q->conn.qpn,
		.type = q->conn.type,
		.port = q->bind.port,
		.worker = q->bind.worker,
		.pd = q->bind.pd,
		.send_cq = q->bind.send_cq,
		.recv_cq = q->bind.recv_cq,
		.srq = q->bind.srq,
		.ahs = q->bind.ahs,
		.pkeys = q->bind.pkeys,
		.user_handle = q->bind.user_handle,
		.cap = q->conn.cap,
		.sq = q->bind.sq,
		.rq = q->bind.rq,
		.counters = q->bind.counters,
	};

	/* As in a daemon that has just mapped the rings. */
	c.sq.prod = c.rq.prod = 0;
	return qp_create(&c);
}

static void
move_side(struct pair_side *side)
{
	struct engine *e = &side->node->worker.eng;
	size_t bytes = qp_image_bytes(side->qp);
	struct qp *fresh = move_fresh(side->qp);
	void *image = malloc(bytes);

	if (fresh == NULL || image == NULL)
		abort();
	qp_image_save(side->qp, image);
	engine_forget(e, side->qp);
	qp_free(side->qp);
	if (qp_image_load(fresh, e->env.sqes, image, bytes) != 0)
		sim_fail(&side->pair->sim, "qp %06x: its image is refused", side->qpn);
	free(image);
	side->qp = fresh;
	side->node->qps.slot[side->qpn & side->node->qps.mask] = fresh;
	side->timer_ns = 0; /* the timer belonged to the other QP */
	side->pair->more.moves++;
	sim_log(&side->pair->sim, "node %u qp %06x moved, %zu bytes", side->node->idx, side->qpn,
		bytes);
	engine_wake(e, fresh);
}

void
pair_move(struct pair_node *n)
{
	struct pair *s = n->pair;
	uint32_t i;

	if (s->cfg.move == 0 || !sim_chance(&s->mover, s->cfg.move))
		return;
	i = sim_below(&s->mover, s->nsides);
	if (s->side[i].node == n && s->side[i].qp != NULL &&
	    s->side[i].qp->bind.late_op.op.state == MEM_LATE_NONE)
		move_side(&s->side[i]);
}
