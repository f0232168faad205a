/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets whose memory is late wait here, with those behind them, in order, and are tried again
 * until the memory answers. Nobody sends those of UC and UD again. An RC peer could be asked by an
 * RNR NAK, but many programs set rnr_retry to 0, because they always post receives in time; to them
 * the first RNR NAK is the end of the connection. Responses could be requested again, which costs a
 * round trip and their bandwidth. The memory of a program is often late only because other threads
 * have the CPU. Requests and responses of a QP do not wait for each other.
 */
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include "engine/rx.h"
#include "engine/turn.h"
#include "requester/requester.h"
#include "responder/responder.h"
#include "wire/psn.h"

#define RETRY_NS 100000u           /* between two attempts */
#define LIMIT_NS 2000000000ull     /* the packet is lost then; memory fails after that time, too */
#define QP_CAP   (RX_LATE_CAP / 4) /* packets of one QP */

/*
 * A retransmission within this time draws no RNR NAK. Longer silence would use up all retries of
 * peers with the shortest timeouts.
 */
#define PATIENCE_NS 5000000u

static struct qp_late_pkts *
kind_of(struct qp *qp, const struct wire_pkt *pkt)
{
	return pkt->op->flags & WIRE_F_RESP ? &qp->bind.late_resp : &qp->bind.late_req;
}

/*
 * Returns true if another packet of qp, one of kind l, may wait. A user (a place, bind.run_user)
 * may have as many as there are free places: one user alone takes half of them, the next one half
 * of the rest. So no user, with however many QPs, leaves the next one without a place. RC packets
 * behind one that waits leave a third of the user's places to other QPs, whose peers get an RNR NAK
 * if there is none.
 */
static bool
has_place(const struct rx_late *late, const struct qp *qp, const struct qp_late_pkts *l)
{
	uint32_t weight = qp->conn.type == QP_TYPE_RC && l->n != 0 ? 2 : 1;

	return l->n < QP_CAP && weight * late->of_user[qp->bind.run_user] < RX_LATE_CAP - late->n;
}

static void
give(struct engine *e, struct qp *qp, const struct wire_pkt *pkt)
{
	if (pkt->op->flags & WIRE_F_RESP) {
		req_rx_late(&e->env, qp, pkt);
		turn_check_timer(e, qp);
		return;
	}
	if (qp->conn.type != QP_TYPE_UD)
		rsp_rx_late(&e->env, qp, pkt);
	else if (rx_source_is_station(rx_addrs(e, qp->bind.port), pkt))
		rsp_rx_datagram(&e->env, qp, pkt);
	else
		qp_env_drop(&e->env, DROP_BAD_GID);
	if (qp->conn.type == QP_TYPE_RC)
		turn_ack_pending(e, qp);
}

/* Keeps the packet behind those that wait. Returns false if there is no place. */
static bool
keep(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m, const struct wire_pkt *pkt,
     bool counted)
{
	struct qp_late_pkts *l = kind_of(qp, pkt);
	struct rx_late *late = &e->late;

	if (qp_view_is(m) || !has_place(late, qp, l))
		return false;
	if (late->n == 0)
		late->next_ns = e->env.now_ns + RETRY_NS;
	if (l->n++ == 0) {
		l->id = ++late->ids;
		l->since_ns = e->env.now_ns;
		l->lost = false;
	}
	l->last_psn = pkt->psn;
	late->of_user[qp->bind.run_user]++;
	rte_mbuf_refcnt_update(m, 1);
	late->pkt[late->n++] = (struct rx_late_pkt){.m = m,
						    .qp = qp,
						    .since_ns = e->env.now_ns,
						    .id = l->id,
						    .dev = dev,
						    .counted = counted,
						    .pkt = *pkt};
	return true;
}

bool
rx_unreliable(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m,
	      const struct wire_pkt *pkt, bool counted)
{
	if (unlikely(qp->bind.late_req.n != 0)) {
		if (keep(e, dev, qp, m, pkt, counted))
			return false;
		qp_env_drop(&e->env, DROP_MEMORY_LATE);
		return true;
	}
	give(e, qp, pkt);
	if (likely(e->env.dropped != DROP_MEMORY_LATE))
		return true;
	if (!keep(e, dev, qp, m, pkt, counted)) {
		rsp_rx_lost(&e->env, qp, pkt);
		return true;
	}
	e->env.dropped = DROP_NUM;
	return false;
}

/* Has the packet's QP been reset since? */
static bool
is_stale(const struct rx_late_pkt *p)
{
	const struct qp_late_pkts *l = kind_of(p->qp, &p->pkt);

	return l->n == 0 || l->id != p->id;
}

/* Is the packet behind those of its kind that wait? Else it is a copy. */
static bool
is_behind(const struct qp_late_pkts *l, const struct wire_pkt *pkt)
{
	return l->n == 0 || psn_lt(l->last_psn, pkt->psn);
}

bool
rx_late_keep(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m,
	     const struct wire_pkt *pkt)
{
	const struct qp_late_pkts *l = &qp->bind.late_req;

	if (is_behind(l, pkt)) {
		if (keep(e, dev, qp, m, pkt, false)) {
			e->env.dropped = DROP_NUM;
			return true;
		}
		rsp_rx_lost(&e->env, qp, pkt);
	} else if (e->env.now_ns - l->since_ns >= PATIENCE_NS) {
		rsp_rx_lost(&e->env, qp, pkt);
	}
	return false;
}

bool
rx_late_keep_response(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m,
		      const struct wire_pkt *pkt)
{
	struct qp_late_pkts *l = &qp->bind.late_resp;

	if (!is_behind(l, pkt))
		return false;
	if (keep(e, dev, qp, m, pkt, false)) {
		req_rx_waits(&e->env, qp);
		e->env.dropped = DROP_NUM;
		return true;
	}
	if (l->n == 0)
		req_rx_lost(&e->env, qp);
	else
		l->lost = true;
	return false;
}

/* Ends the wait of p: accepted (DROP_NUM), or dropped for why. */
static void
settle(struct engine *e, struct rx_late_pkt *p, enum drop_reason why)
{
	struct counter_block *counters = e->dev[p->dev].counters;

	if (why != DROP_NUM && p->counted)
		counters->ctr[COUNTER_MCAST_REFUSED]++;
	else if (why != DROP_NUM)
		counters->drop[why]++;
	else if (!p->counted)
		counters->ctr[COUNTER_RX_ROCE]++;
	if (!is_stale(p))
		kind_of(p->qp, &p->pkt)->n--;
	e->late.of_user[p->qp->bind.run_user]--;
	rte_pktmbuf_free(p->m);
}

/* Tries p. Returns false if it must wait. */
static bool
attempt(struct engine *e, struct rx_late_pkt *p)
{
	struct qp *qp = p->qp;
	enum drop_reason why = DROP_QP_STATE;
	bool request = !(p->pkt.op->flags & WIRE_F_RESP);

	if (engine_is_paused(e, qp->bind.run_user)) {
		why = DROP_MEMORY_LATE;
	} else if (!is_stale(p) && rx_state_takes(qp->conn.state, p->pkt.op->flags)) {
		qp_env_serve(&e->env, qp->bind.run_user);
		e->env.counters = e->dev[p->dev].counters;
		give(e, qp, &p->pkt);
		why = e->env.dropped;
		e->env.dropped = DROP_NUM;
	}
	if (why == DROP_MEMORY_LATE && e->env.now_ns - p->since_ns < LIMIT_NS)
		return false;
	if (why == DROP_MEMORY_LATE && request)
		rsp_rx_lost(&e->env, qp, &p->pkt);
	else if (why == DROP_MEMORY_LATE)
		qp->bind.late_resp.lost = !is_stale(p);
	settle(e, p, why);
	if (!request && qp->bind.late_resp.n == 0) {
		if (qp->bind.late_resp.lost)
			req_rx_lost(&e->env, qp);
		else
			req_rx_waited(&e->env, qp);
		qp->bind.late_resp.lost = false;
		turn_check_timer(e, qp);
	}
	return true;
}

/* env->rx_next while packets are tried again: their payload may be written at once, too. */
static const struct wire_pkt *
next_waiting(struct qp_env *env, const struct wire_pkt *pkt)
{
	const struct rx_late *late = &container_of(env, struct engine, env)->late;
	const struct rx_late_pkt *p =
		container_of((struct wire_pkt *)(uintptr_t)pkt, struct rx_late_pkt, pkt);
	const struct rx_late_pkt *end = &late->pkt[late->n];
	struct qp *qp = p->qp;

	while (++p != end) {
		if (p->qp == qp && !is_stale(p) && kind_of(qp, &p->pkt) == kind_of(qp, pkt))
			return &p->pkt;
	}
	return NULL;
}

void
rx_late_run(struct engine *e)
{
	struct rx_late *late = &e->late;
	uint32_t n = late->n, left = 0;

	if (e->env.now_ns < late->next_ns)
		return;
	late->passes++;
	e->env.rx_next = next_waiting;
	e->env.stored_qp = NULL;
	e->env.again = true;
	for (uint32_t i = 0; i < n; i++) {
		struct rx_late_pkt *p = &late->pkt[i];
		struct qp_late_pkts *l = kind_of(p->qp, &p->pkt);

		/* Behind one that waits, unless its QP was reset. */
		if ((l->pass == late->passes && !is_stale(p)) || !attempt(e, p)) {
			if (l->pass != late->passes)
				l->since_ns = p->since_ns;
			l->pass = late->passes;
			if (i != left)
				late->pkt[left] = *p;
			left++;
		}
	}
	e->env.again = false;
	e->env.rx_next = NULL;
	late->n = left;
	late->next_ns = e->env.now_ns + RETRY_NS;
}

void
rx_late_forget(struct engine *e, struct qp *qp)
{
	struct rx_late *late = &e->late;
	uint32_t n = late->n, left = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (late->pkt[i].qp == qp)
			settle(e, &late->pkt[i], DROP_QP_STATE);
		else if (i != left++)
			late->pkt[left - 1] = late->pkt[i];
	}
	late->n = left;
}
