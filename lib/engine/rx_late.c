/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets whose memory is late wait here, with those behind them, in order, and are tried again
 * until the memory answers. Nobody sends those of UC and UD again. An RC peer could be asked by an
 * RNR NAK, but many programs set rnr_retry to 0, because they always post receives in time; to them
 * the first RNR NAK is the end of the connection. The memory of a program is often late only
 * because other threads have the CPU.
 */
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include "engine/rx.h"
#include "engine/turn.h"
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

/*
 * Returns true if another packet of qp may wait. A user may have as many as there are free places:
 * one user alone takes half of them, the next one half of the rest. So no user, with however many
 * QPs, leaves the next one without a place. RC packets behind one that waits leave a third of the
 * user's places to other QPs, whose peers get an RNR NAK if there is none.
 */
static bool
has_place(const struct rx_late *late, const struct qp *qp)
{
	uint32_t weight = qp->conn.type == QP_TYPE_RC && qp->bind.late_n != 0 ? 2 : 1;
	uint32_t of_user = 0;

	if (late->n == RX_LATE_CAP || qp->bind.late_n == QP_CAP)
		return false;
	for (uint32_t i = 0; i < late->n; i++)
		of_user += late->pkt[i].qp->bind.uid == qp->bind.uid;
	return weight * of_user < RX_LATE_CAP - late->n;
}

static void
give(struct engine *e, struct qp *qp, const struct wire_pkt *pkt)
{
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
	struct rx_late *late = &e->late;

	if (qp_view_is(m) || !has_place(late, qp))
		return false;
	if (late->n == 0)
		late->next_ns = e->env.now_ns + RETRY_NS;
	if (qp->bind.late_n++ == 0)
		qp->bind.late_id = ++late->ids;
	rte_mbuf_refcnt_update(m, 1);
	late->pkt[late->n++] = (struct rx_late_pkt){.m = m,
						    .qp = qp,
						    .since_ns = e->env.now_ns,
						    .id = qp->bind.late_id,
						    .dev = dev,
						    .counted = counted,
						    .pkt = *pkt};
	return true;
}

bool
rx_unreliable(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m,
	      const struct wire_pkt *pkt, bool counted)
{
	if (unlikely(qp->bind.late_n != 0)) {
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
	return p->qp->bind.late_n == 0 || p->qp->bind.late_id != p->id;
}

/* Returns the i-th packet if it waits for qp, else the first one behind it that does, or NULL. */
static const struct rx_late_pkt *
waits_from(const struct rx_late *late, const struct qp *qp, uint32_t i)
{
	for (; i < late->n; i++) {
		if (late->pkt[i].qp == qp && !is_stale(&late->pkt[i]))
			return &late->pkt[i];
	}
	return NULL;
}

bool
rx_late_keep(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m,
	     const struct wire_pkt *pkt)
{
	const struct rx_late *late = &e->late;
	const struct rx_late_pkt *first = waits_from(late, qp, 0), *p, *last = NULL;

	for (p = first; p != NULL; p = waits_from(late, qp, (uint32_t)(p - late->pkt) + 1))
		last = p;
	if (last == NULL || psn_lt(last->pkt.psn, pkt->psn)) {
		if (keep(e, dev, qp, m, pkt, false)) {
			e->env.dropped = DROP_NUM;
			return true;
		}
		rsp_rx_lost(&e->env, qp, pkt);
	} else if (e->env.now_ns - first->since_ns >= PATIENCE_NS) {
		rsp_rx_lost(&e->env, qp, pkt);
	}
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
		p->qp->bind.late_n--;
	rte_pktmbuf_free(p->m);
}

/* Tries p. Returns false if it must wait. */
static bool
attempt(struct engine *e, struct rx_late_pkt *p)
{
	struct qp *qp = p->qp;
	enum drop_reason why = DROP_QP_STATE;

	if (engine_is_paused(e, qp->bind.run_user)) {
		why = DROP_MEMORY_LATE;
	} else if (!is_stale(p) && qp->conn.state >= QP_RTR && qp->conn.state != QP_ERR) {
		qp_env_serve(&e->env, qp->bind.run_user);
		e->env.counters = e->dev[p->dev].counters;
		give(e, qp, &p->pkt);
		why = e->env.dropped;
		e->env.dropped = DROP_NUM;
	}
	if (why == DROP_MEMORY_LATE && e->env.now_ns - p->since_ns < LIMIT_NS)
		return false;
	if (why == DROP_MEMORY_LATE)
		rsp_rx_lost(&e->env, qp, &p->pkt);
	settle(e, p, why);
	return true;
}

/* env->rx_next while packets are tried again: their payload may be written at once, too. */
static const struct wire_pkt *
next_waiting(struct qp_env *env, const struct wire_pkt *pkt)
{
	const struct rx_late *late = &container_of(env, struct engine, env)->late;
	const struct rx_late_pkt *p =
		container_of((struct wire_pkt *)(uintptr_t)pkt, struct rx_late_pkt, pkt);

	p = waits_from(late, p->qp, (uint32_t)(p - late->pkt) + 1);
	return p != NULL ? &p->pkt : NULL;
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
	for (uint32_t i = 0; i < n; i++) {
		struct rx_late_pkt *p = &late->pkt[i];
		struct qp *qp = p->qp;

		/* Behind one that waits, unless its QP was reset. */
		if ((qp->bind.late_pass == late->passes && !is_stale(p)) || !attempt(e, p)) {
			qp->bind.late_pass = late->passes;
			if (i != left)
				late->pkt[left] = *p;
			left++;
		}
	}
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
