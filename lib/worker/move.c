/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP moves to the worker that receives its packets. All of its state is in struct qp, so what
 * moves is who may use it (engine/engine.h):
 *
 *   1. Worker B gets frames of a QP of worker A, or the operator wants the QP there. B puts a
 *      message into A's ring, behind all frames of the QP that it has passed to A, and keeps the
 *      QP's frames from now on.
 *   2. A, at the end of the iteration that finds the message, refuses, for example because most
 *      frames of the QP came elsewhere. Or it makes all workers pass the QP's frames to B.
 *   3. A waits until each worker has begun another iteration, and until A has received the frames
 *      that were in its ring then. It gives the QP to B.
 *   4. B, in its next iteration, has the QP, and receives the frames that it has kept.
 *
 * Frames that loop back count like those of a queue of the worker that sends them. Either of two
 * connected QPs could then follow the other, so their QPNs decide which one does. A QP leaves once
 * all that it has looped back has been received or handed over, however long A receives nothing
 * because it holds events. Meanwhile A asks for no QP, whose frames from that one it would keep.
 *
 * Frames of a QP that come through one queue keep their order, whichever worker has that queue,
 * unless the QP stays with A after step 2. If B has no place for a frame, it is lost. A worker asks
 * for one QP at a time, and gives one at a time.
 *
 * A QP with frames in both queues, or two QPs that follow each other, would move all the time: a QP
 * stays for REST_NS, and how many frames make a worker ask is drawn at random.
 */
#include <rte_branch_prediction.h>
#include <rte_debug.h>
#include "worker/worker_parts.h"

#define REST_NS      10000000ull /* between two moves of a QP */
#define ASK_AFTER    64u         /* frames, and as many more at random */
#define REFUSED_MOST 64          /* iterations in which the port refused frames */
#define TRIES        100         /* of worker_move_qp */

_Static_assert(UROCE_MAX_WORKERS <= 16, "a message has four bits for a worker");
_Static_assert(UROCE_MAX_WORKERS <= QP_TABLE_COMES, "a table entry has room for a flag");

/* Encodes, from the top bits down: QPN, index of the worker that asks, by_operator, 1. */
static void *
message_make(uint32_t qpn, unsigned by, bool by_operator)
{
	return (void *)(uintptr_t)((uint64_t)qpn << 8 | by << 4 | (by_operator ? 2 : 0) | 1);
}

static enum move_state
state_of(const struct worker *w)
{
	return __atomic_load_n(&w->move.state, __ATOMIC_RELAXED);
}

static void
refuse(struct worker *by)
{
	__atomic_store_n(&by->move.state, MOVE_REFUSED, __ATOMIC_RELEASE);
}

/* Asks the worker for its QP, of which this many bytes have come here. False: not now. */
static bool
ask(struct worker *w, uint32_t worker, uint32_t qpn, uint64_t bytes, bool by_operator)
{
	struct worker_move *mv = &w->move;

	/* nframes: those of the last move were not received yet */
	if (state_of(w) != MOVE_NONE || mv->nframes != 0 || !qp_sqes_may_load(w->sqes) ||
	    (mv->leaves != NULL && mv->leaves->conn.loopback))
		return false;
	mv->qpn = qpn;
	mv->asked_bytes = bytes;
	/* Before the message: the answer may come at once. */
	__atomic_store_n(&mv->state, MOVE_ASKED, __ATOMIC_RELEASE);
	if (rte_ring_enqueue(w->ws->worker[worker]->in, message_make(qpn, w->index, by_operator)) !=
	    0) {
		__atomic_store_n(&mv->state, MOVE_NONE, __ATOMIC_RELAXED);
		return false;
	}
	w->poke |= 1u << worker;
	return true;
}

static bool
must_stay(const struct qp *qp)
{
	return qp->bind.fixed || __atomic_load_n(&qp->bind.pinned, __ATOMIC_RELAXED);
}

void
move_stray(struct worker *w, const struct rte_mbuf *m, uint32_t worker, uint32_t qpn)
{
	struct worker_move *mv = &w->move;
	struct worker_stray *s = &mv->stray[qpn & w->engine.qps->mask];
	const struct qp *qp;

	/* A worker without a queue has QPs in order to share the work. */
	if (w->from_port && worker >= w->dev[m->port].rx_workers)
		return;
	if (s->qpn != qpn)
		*s = (struct worker_stray){.qpn = qpn};
	s->bytes += m->pkt_len;
	if (likely(++s->frames < ASK_AFTER + mv->random % ASK_AFTER))
		return;
	mv->random = mv->random * 1664525u + 1013904223u + w->index; /* Numerical Recipes */
	qp = qp_table_find(w->engine.qps, qpn);
	if (qp == NULL || must_stay(qp) || ask(w, worker, qpn, s->bytes, false))
		*s = (struct worker_stray){.qpn = qpn};
}

bool
move_keeps(struct worker *w, uint32_t worker, uint32_t qpn, struct rte_mbuf *m)
{
	struct worker_move *mv = &w->move;

	if (likely(worker != w->index && (state_of(w) == MOVE_NONE || mv->qpn != qpn)))
		return false;
	if (unlikely(m->hash.usr == ENGINE_RX_EXTRA))
		return false; /* of a UD QP, which nobody gets */
	if (unlikely(mv->nframes == MOVE_FRAMES)) {
		w->counters[m->port].drop[DROP_HANDOFF_FULL]++;
		rte_pktmbuf_free(m);
		return true;
	}
	mv->frame[mv->nframes++] = m;
	if (unlikely(mv->nframes >= MOVE_FRAMES / 2))
		handoff_full(w, w->index);
	return true;
}

void
move_asked(struct worker *w, const void *message)
{
	uint64_t bits = (uintptr_t)message;
	struct worker_move *mv = &w->move;
	unsigned by = bits >> 4 & 15;

	if (mv->is_asked || mv->leaves != NULL) {
		refuse(w->ws->worker[by]);
		w->poke |= 1u << by;
		return;
	}
	mv->is_asked = true;
	mv->to = by;
	mv->asked_qpn = (uint32_t)(bits >> 8);
	mv->by_operator = (bits & 2) != 0;
}

/* Moves of the worker's QPs that the control thread does not hold back. */
static bool
may_move(const struct worker *w)
{
	return __atomic_load_n(&w->ws->no_moves, __ATOMIC_RELAXED) == 0;
}

/*
 * Do most frames of qp, which w has, come to the queues of the worker that asks? All that were
 * handed over before the message have been received.
 */
static bool
comes_there(const struct worker *w, struct qp *qp)
{
	uint64_t all = qp->conn.rx_bytes - qp->bind.rx_bytes_asked;
	uint64_t there = w->ws->worker[w->move.to]->move.asked_bytes;

	qp->bind.rx_bytes_asked = qp->conn.rx_bytes;
	return 2 * there >= all &&
	       (qp->bind.moved_ns == 0 || w->now_ns - qp->bind.moved_ns >= REST_NS);
}

/*
 * Does qp, which w has, follow its packets? Of two QPs that are connected to each other, one does.
 * The draw is even for QPNs in sequence, too, so that such pairs do not meet on one worker.
 */
static bool
follows(const struct worker *w, const struct qp *qp)
{
	uint32_t own = qp->conn.qpn, other = qp->conn.dest_qpn;
	const struct qp *peer;

	if (must_stay(qp))
		return false;
	peer = qp->conn.loopback ? qp_table_find(w->engine.qps, other) : NULL;
	if (peer == NULL || must_stay(peer))
		return true;
	return (own < other) == ((own + other) * 2654435769u >> 31 != 0); /* Knuth */
}

/* May qp, which w has, begin to leave it? */
static bool
may_leave(const struct worker *w, struct qp *qp)
{
	if (!may_move(w) || engine_may_give(qp) != NULL)
		return false;
	/* What it has looped back may be kept here for a QP that w asks for. */
	if (qp->conn.loopback && (state_of(w) != MOVE_NONE || w->move.nframes != 0))
		return false;
	return w->move.by_operator || (follows(w, qp) && comes_there(w, qp));
}

static void
leave(struct worker *w, struct qp *qp)
{
	struct worker_move *mv = &w->move;

	engine_leave(&w->engine, qp->conn.qpn, mv->to);
	mv->leaves = qp;
	mv->over = false;
	mv->refused = 0;
	mv->token = worker_grace_start(w->ws);
}

/*
 * Nothing of the QP that leaves is in the worker but what moves. Frames that a busy port refuses
 * may be behind those of the other worker in the end.
 */
static bool
is_ready(struct worker *w, const struct qp *qp)
{
	struct worker_move *mv = &w->move;

	if (!mv->over) {
		mv->over = worker_grace_over(w->ws, mv->token);
		mv->rest = rte_ring_count(w->in);
		return false;
	}
	return mv->rest == 0 && may_move(w) && (w->lo_n == 0 || !qp->conn.loopback) &&
	       (w->engine.env.tx_n == 0 || ++mv->refused >= REFUSED_MOST);
}

static void
give(struct worker *w, struct qp *qp, struct worker *to)
{
	qp->bind.moved_ns = w->now_ns;
	qp->bind.moves++;
	qp->bind.rx_bytes_asked = qp->conn.rx_bytes;
	if (w->ws->qp_leaves != NULL)
		w->ws->qp_leaves(w, qp);
	hot_queue_forget(w, qp);
	qp->bind.polled = false;
	timer_leave(w, qp);
	engine_give(&w->engine, qp, to->move.wqes);
	to->move.qp = qp;
	__atomic_store_n(&to->move.state, MOVE_GIVEN, __ATOMIC_RELEASE);
	/* Behind the state: a thread that reads it makes the worker take the QP first (move_look).
	 */
	__atomic_store_n(&qp->bind.worker, (uint16_t)to->index, __ATOMIC_RELEASE);
}

/* The QP that leaves stays. */
static void
stay(struct worker *w)
{
	struct worker_move *mv = &w->move;

	qp_table_own(w->engine.qps, mv->leaves->conn.qpn, w->index);
	engine_leave(&w->engine, 0, 0);
	mv->leaves = NULL;
	refuse(w->ws->worker[mv->to]);
	w->poke |= 1u << mv->to;
}

void
move_forget(struct worker *w, const struct qp *qp)
{
	if (w->move.leaves == qp)
		stay(w);
}

void
move_answer(struct worker *w)
{
	struct worker_move *mv = &w->move;
	const struct qp_table *qps = w->engine.qps;
	struct qp *qp = mv->leaves;

	if (mv->is_asked) {
		mv->is_asked = false;
		qp = qp_table_find(qps, mv->asked_qpn);
		if (qp != NULL && qp_table_owner(qps, mv->asked_qpn) == w->index &&
		    may_leave(w, qp)) {
			leave(w, qp);
		} else {
			refuse(w->ws->worker[mv->to]);
			w->poke |= 1u << mv->to;
		}
		return;
	}
	/* What it has looped back comes to the other worker before it does. */
	if (mv->over && mv->rest == 0 && qp->conn.loopback && event_retry_held(w) &&
	    !handoff_waits(w))
		(void)loopback_rx(w);
	/*
	 * One that is being destroyed stays (worker.h). So does one that has state that cannot move
	 * since it began to leave: the other worker may keep the very frames that would end that.
	 */
	if (qp_table_find(qps, qp->conn.qpn) != qp || engine_may_give(qp) != NULL) {
		stay(w);
	} else if (is_ready(w, qp)) {
		mv->leaves = NULL;
		give(w, qp, w->ws->worker[mv->to]);
		w->poke |= 1u << mv->to;
	}
}

void
move_take(struct worker *w)
{
	struct worker_move *mv = &w->move;
	struct qp *qp = mv->qp;

	if (state_of(w) == MOVE_GIVEN) {
		w->engine.env.now_ns = w->now_ns;
		/* ask has looked whether there is memory, and only this may have used it. */
		RTE_VERIFY(engine_take(&w->engine, qp, mv->wqes, &w->counters[qp->bind.port]));
		if (w->ws->qp_comes != NULL)
			w->ws->qp_comes(w, qp);
		mv->first = rte_ring_count(w->in);
	}
	__atomic_store_n(&mv->state, MOVE_NONE, __ATOMIC_RELAXED);
}

void
move_receive_handed(struct worker *w)
{
	while (w->move.first != 0)
		(void)handoff_rx(w);
}

void
move_receive_kept(struct worker *w)
{
	struct worker_move *mv = &w->move;
	uint32_t i, n;

	/* No move begins meanwhile (ask). */
	for (i = 0; i < mv->nframes; i += n) {
		n = RTE_MIN(mv->nframes - i, (uint32_t)WORKER_RX_BURST);
		handoff_receive(w, mv->frame + i, n);
	}
	mv->nframes = 0;
}

/* ---- control thread ---- */

void
worker_moves_stop(struct worker_set *ws)
{
	if (__atomic_add_fetch(&ws->no_moves, 1, __ATOMIC_RELAXED) == 1 && ws->n > 1)
		worker_quiesce(ws);
}

void
worker_moves_go(struct worker_set *ws)
{
	__atomic_sub_fetch(&ws->no_moves, 1, __ATOMIC_RELAXED);
}

void
worker_call_qps(struct worker_set *ws, void (*fn)(struct worker *w, void *arg), void *arg)
{
	worker_moves_stop(ws);
	worker_call_all(ws, fn, arg);
	worker_moves_go(ws);
}

struct move_call {
	const struct qp *qp;
	uint32_t from;
};

static void
ask_on_worker(struct worker *w, void *arg)
{
	struct move_call *c = arg;

	(void)ask(w, c->from, c->qp->conn.qpn, 0, true);
}

struct why_call {
	const struct qp *qp;
	const char *why;
};

static void
why_on_worker(struct worker *w, void *arg)
{
	struct why_call *c = arg;

	c->why = engine_may_give(c->qp);
	if (c->why == NULL && w->held_n != 0)
		c->why = "its worker waits until the daemon has taken its events: try again";
}

const char *
worker_move_qp(struct worker_set *ws, const struct qp *qp, unsigned i)
{
	struct move_call c = {.qp = qp};
	struct why_call why = {.qp = qp};

	for (unsigned n = 0; n < TRIES && (c.from = qp_worker(qp)) != i; n++) {
		if (qp->bind.fixed)
			break;
		worker_call(ws->worker[i], ask_on_worker, &c);
		worker_call(ws->worker[c.from], why_on_worker, &why);
		worker_quiesce(ws);
	}
	if (qp_worker(qp) == i)
		return NULL;
	worker_call_qp(ws, qp, why_on_worker, &why);
	return why.why != NULL ? why.why : "its worker has other QPs to give away";
}
