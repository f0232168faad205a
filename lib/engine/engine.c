/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include "qp/congestion.h"
#include "qp/deadline.h"
#include "qp/prefetch.h"
#include "qp/retire.h"
#include "requester/requester.h"
#include "responder/responder.h"
#include "engine/rx.h"
#include "engine/turn.h"

#define PAUSE_LOOK_NS 10000000u /* when the timer of a paused user's QP expires again */

static void
env_cq_event(void *ctx, struct cq *cq)
{
	struct engine *e = ctx;

	e->env.counters->ctr[COUNTER_CQ_EVENTS]++;
	e->ops->cq_event(e->ops_ctx, cq);
}

static void
env_cq_waiter(void *ctx, struct cq *cq)
{
	struct engine *e = ctx;

	e->ops->cq_waiter(e->ops_ctx, cq);
}

static void
env_cq_watched(void *ctx, const struct qp *qp, bool written)
{
	const struct engine *e = ctx;

	e->ops->cq_watched(e->ops_ctx, qp, written);
}

static void
env_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
	struct engine *e = ctx;

	e->ops->async_event(e->ops_ctx, ev, qp, cq);
}

static void
env_qp_wake(void *ctx, struct qp *qp)
{
	engine_wake(ctx, qp);
}

static bool
env_held_up(void *ctx, const struct qp *qp, uint64_t since_ns)
{
	const struct engine *e = ctx;

	return e->ops->held_up != NULL && e->ops->held_up(e->ops_ctx, qp, since_ns);
}

static void
env_failed(void *ctx, const struct qp *qp)
{
	const struct engine *e = ctx;

	if (e->ops->failed != NULL)
		e->ops->failed(e->ops_ctx, qp);
}

static const struct qp_env_ops engine_env_ops = {
	.cq_event = env_cq_event,
	.cq_waiter = env_cq_waiter,
	.cq_watched = env_cq_watched,
	.async_event = env_async_event,
	.qp_wake = env_qp_wake,
	.held_up = env_held_up,
	.failed = env_failed,
};

void
engine_init(struct engine *e, struct rte_mempool *pool, struct qp_sqe_pool *sqes,
	    const struct mr_table *mrs, const struct qp_table *qps, uint32_t worker,
	    const struct engine_ops *ops, void *ops_ctx)
{
	memset(e, 0, sizeof(*e));
	run_list_init(&e->run);
	e->env.mrs = mrs;
	e->env.pool = pool;
	e->pool = pool;
	e->env.zero_copy_bytes = UINT32_MAX;
	e->loop_zero_copy_bytes = UINT32_MAX;
	e->env.sqes = sqes;
	e->env.ahead = &e->ahead;
	e->env.dropped = DROP_NUM;
	e->env.tx = e->tx;
	e->env.tx_cap = ENGINE_TX_CAP;
	e->env.ops = &engine_env_ops;
	e->env.ops_ctx = e;
	e->qps = qps;
	e->worker = worker;
	e->ops = ops;
	e->ops_ctx = ops_ctx;
	engine_set_lcore(e, UINT32_MAX);
	for (unsigned i = 0; i < ENGINE_MAX_DEVS; i++)
		e->dev[i].zero_copy_bytes = UINT32_MAX;
}

void
engine_set_lcore(struct engine *e, uint32_t lcore)
{
	e->lcore = lcore;
	for (uint16_t i = 0; i < ENGINE_MAX_DEVS; i++)
		engine_set_pool(e, i, e->pool);
}

void
engine_add_dev(struct engine *e, uint16_t dev, const uint8_t mac[6], struct counter_block *counters)
{
	e->dev[dev].present = true;
	e->dev[dev].mac = 0;
	memcpy(&e->dev[dev].mac, mac, 6);
	e->dev[dev].counters = counters;
	e->dev[dev].vid = 0;
	e->dev[dev].unknown_id = false;
	e->dev[dev].strict = false;
	e->dev[dev].peers = NULL;
	engine_set_cnp(e, dev, ENGINE_CNP_NS, ENGINE_CNP_DSCP);
}

void
engine_set_unknown_id(struct engine *e, uint16_t dev, bool unknown_id, bool strict)
{
	e->dev[dev].unknown_id = unknown_id;
	e->dev[dev].strict = strict;
}

void
engine_set_peers(struct engine *e, uint16_t dev, const struct engine_peers *peers)
{
	e->dev[dev].peers = peers;
}

void
engine_set_vlan(struct engine *e, uint16_t dev, uint16_t vid)
{
	e->dev[dev].vid = vid;
}

void
engine_set_hostif(struct engine *e, uint16_t dev, bool hostif)
{
	e->dev[dev].hostif = hostif;
}

void
engine_set_pool(struct engine *e, uint16_t dev, struct rte_mempool *pool)
{
	pool = pool != NULL ? pool : e->pool;
	e->dev[dev].pool = pool;
	e->dev[dev].pool_cache = rte_mempool_default_cache(pool, e->lcore);
}

void
engine_set_segs(struct engine *e, struct qp_segs *segs)
{
	e->env.segs = segs;
}

void
engine_set_sr(struct engine *e, struct qp_sr_pool *sr)
{
	e->env.sr = sr;
}

void
engine_set_zero_copy(struct engine *e, uint16_t dev, uint32_t bytes)
{
	e->dev[dev].zero_copy_bytes = bytes;
}

void
engine_set_loop_zero_copy(struct engine *e, uint32_t bytes)
{
	e->loop_zero_copy_bytes = bytes;
}

void
engine_set_addrs(struct engine *e, uint16_t dev, const struct engine_addrs *addrs)
{
	__atomic_store_n(&e->dev[dev].addrs, addrs, __ATOMIC_RELEASE);
}

void
engine_set_consumer(struct engine *e, uint32_t qpn)
{
	__atomic_store_n(&e->consumer_qpn, qpn, __ATOMIC_RELAXED);
}

void
engine_pause_user(struct engine *e, uint8_t user, bool paused)
{
	if (e->run.user[user].paused == paused)
		return;
	if (paused)
		run_list_pause_user(&e->run, user);
	else
		run_list_resume_user(&e->run, user);
	e->npaused += paused ? 1 : -1;
}

struct qp *
engine_doorbell(struct engine *e, uint32_t qpn)
{
	struct qp *qp = qp_table_find(e->qps, qpn);

	if (qp == NULL || qp_worker(qp) != e->worker)
		return NULL;
	qp->bind.counters->ctr[COUNTER_DOORBELLS]++;
	qp->bind.armed = false;
	engine_wake(e, qp);
	return qp;
}

/*
 * The turn of a QP with snd.cc_active. Requests and READ responses share one pace, and either could
 * use up all of it: the half that did not send first, or not at all, in the previous turn is first.
 */
static __rte_noinline void
run_cc(struct engine *e, struct qp *qp, enum rsp_more *more, enum req_more *left)
{
	bool requests_first = qp->bind.requests_first;
	uint32_t before;

	if (requests_first)
		*left = req_run(&e->env, qp, ENGINE_QUANTUM);
	before = e->env.tx_n;
	*more = rsp_run(&e->env, qp, ENGINE_QUANTUM);
	qp->bind.requests_first = e->env.tx_n != before;
	if (!requests_first)
		*left = req_run(&e->env, qp, ENGINE_QUANTUM);
	qp_cc_follow(&e->env, qp); /* packets sent may have shown that it need not limit qp now */
	if (!qp->conn.snd.cc_active)
		return; /* qp has another turn, without a pace */
	if (*more == RSP_PACED && qp->conn.state != QP_ERR)
		qp_deadline_set(&qp->conn, QP_DEADLINE_PACE, qp->conn.cc_flow.next_send_ns);
	else if (*left != REQ_PACED)
		qp_deadline_clear(&qp->conn, QP_DEADLINE_PACE);
}

/* Payload that is late is read again after this part of its wait, at least and at most. */
#define LATE_PART  4u
#define LATE_LEAST 10000u
#define LATE_MOST  10000000u

/*
 * The memory of what qp has to send next is late: sets the time of the next attempt. Clients can
 * have any number of such QPs, so each is tried less often the longer it has waited.
 */
static void
wait_late(struct engine *e, struct qp *qp)
{
	uint64_t at_ns = e->env.now_ns, wait_ns;

	if (qp->bind.tx_late_ns == 0)
		qp->bind.tx_late_ns = at_ns;
	wait_ns = (at_ns - qp->bind.tx_late_ns) / LATE_PART;
	at_ns += RTE_MIN(RTE_MAX(wait_ns, LATE_LEAST), LATE_MOST);
	/* A report to the peer may be due before, or the other half's next packet. */
	if (qp->conn.rcv.rd_late.due_ns > e->env.now_ns)
		at_ns = RTE_MIN(at_ns, qp->conn.rcv.rd_late.due_ns);
	if (qp->conn.snd.cc_active && qp_deadline_is_set(&qp->conn, QP_DEADLINE_PACE))
		at_ns = RTE_MIN(at_ns, qp_deadline_get(&qp->conn, QP_DEADLINE_PACE));
	qp_deadline_set(&qp->conn, QP_DEADLINE_PACE, at_ns);
}

/*
 * After the turn of a QP that has been parked, or is parked now because its congestion policy holds
 * it back, or because memory is late. left: RSP_* and REQ_*; sent: it has sent frames.
 */
static __rte_noinline void
run_parked(struct engine *e, struct qp *qp, uint32_t left, bool sent)
{
	if (!(left & REQ_LATE) || sent)
		qp->bind.tx_late_ns = 0;
	if ((left & REQ_LATE) && qp->conn.state != QP_ERR)
		wait_late(e, qp);
	else if (!qp->conn.snd.cc_active)
		qp_deadline_clear(&qp->conn, QP_DEADLINE_PACE);
	if (left & REQ_MORE)
		engine_wake(e, qp);
	else if (qp_deadline_is_set(&qp->conn, QP_DEADLINE_PACE) && !qp->bind.on_run_list)
		run_list_park(&e->run, qp, e->env.now_ns);
}

_Static_assert((int)RSP_MORE == (int)REQ_MORE && (int)RSP_LATE == (int)REQ_LATE, "run_parked");

/* Gives one QP its turn. It is then ready for another, parked, or waits for an event. */
static void
run_qp(struct engine *e, struct qp *qp)
{
	uint32_t before = e->env.tx_bytes;
	enum rsp_more more;
	enum req_more left;

	turn_begin(e, qp);
	if (qp->conn.state == QP_ERR) {
		qp_flush(&e->env, qp);
		return;
	}
	if (likely(!qp->conn.snd.cc_active)) {
		more = rsp_run(&e->env, qp, ENGINE_QUANTUM);
		left = req_run(&e->env, qp, ENGINE_QUANTUM);
	} else {
		run_cc(e, qp, &more, &left);
	}
	turn_count(e, qp, before);
	turn_check_timer(e, qp);
	if (unlikely((more | left) & REQ_LATE) ||
	    unlikely(qp_deadline_is_set(&qp->conn, QP_DEADLINE_PACE)))
		run_parked(e, qp, more | left, e->env.tx_bytes != before);
	else if ((more | left) & REQ_MORE)
		engine_wake(e, qp);
}

/*
 * Prefetches ahead of the turns after qp's: the queue of the next QP (NULL: none), and the QP after
 * it. Ahead of qp's own turn: its peer, if it is on this worker and gets the frames in the next
 * iteration.
 */
static inline void
run_fetch(const struct engine *e, const struct qp *qp, const struct qp *next)
{
	const struct qp *after;

	if (next == NULL)
		return;
	if (qp->conn.loopback)
		qp_table_prefetch_qp(e->qps, qp->conn.dest_qpn, true);
	if (next->conn.loopback)
		qp_table_prefetch(e->qps, next->conn.dest_qpn);
	qp_prefetch_sq(next);
	after = TAILQ_NEXT(next, bind.run);
	if (after != NULL)
		qp_prefetch(after);
}

bool
engine_run(struct engine *e, uint64_t now_ns)
{
	struct qp *qp, *stuck = NULL;

	e->env.now_ns = now_ns;
	if (unlikely(e->run.parked != 0))
		run_list_wake_due(&e->run, now_ns);
	qp_ahead_next_burst(&e->ahead, now_ns);
	if (unlikely(e->env.late_ops.first != NULL))
		mem_late_poll(&e->env.late_ops);
	if (unlikely(e->late.n != 0))
		rx_late_run(e);
	/*
	 * Frames that the port has refused count: new frames would only wait behind them, and so
	 * would READ responses that become useless once one of them is lost.
	 */
	e->env.tx_bytes = 0;
	e->env.acks = 0;
	for (uint32_t i = 0; i < e->env.tx_n; i++)
		e->env.tx_bytes += e->env.tx[i]->pkt_len;
	e->env.work = ENGINE_WORK;
	if (unlikely(e->marked_n != 0))
		notify_run(e);
	turn_answers(e);
	while (e->env.tx_n < e->env.tx_cap && e->env.tx_bytes < ENGINE_TX_BYTES &&
	       e->env.work != 0 && (qp = run_list_first(&e->run)) != NULL) {
		uint32_t before = e->env.tx_n, bytes = e->env.tx_bytes;
		const struct qp *next = run_list_after(&e->run, qp);

		/* A full round without a packet (no mbufs): leave the remaining work for later. */
		if (qp == stuck)
			break;
		run_fetch(e, qp, next);
		e->env.crowded = next != NULL;
		run_list_take(&e->run, qp);
		run_qp(e, qp);
		run_list_charge(&e->run, qp, e->env.tx_n - before, e->env.tx_bytes - bytes);
		if (likely(e->env.tx_n != before)) {
			stuck = NULL;
			continue;
		}
		/* Bounded, because a client can wake all of its QPs all the time. */
		if (e->env.work != 0)
			e->env.work--;
		if (stuck == NULL && qp->bind.on_run_list)
			stuck = qp;
	}
	qp_env_flush(&e->env);
	return run_list_first(&e->run) != NULL;
}

void
engine_timer(struct engine *e, uint64_t now_ns, struct qp *qp)
{
	uint32_t passed;

	e->env.now_ns = now_ns;
	qp->bind.timer_at_ns = 0;
	if (unlikely(engine_is_paused(e, qp->bind.run_user))) {
		e->ops->set_timer(e->ops_ctx, qp, now_ns + PAUSE_LOOK_NS);
		return;
	}
	qp_env_serve(&e->env, qp->bind.run_user);
	e->env.counters = qp->bind.counters;
	passed = qp_deadline_passed(&qp->conn, now_ns);
	if (passed != 0)
		req_expired(&e->env, qp, passed);
	else if (qp_deadline_earliest(&qp->conn) != 0)
		req_timer_early(qp);
	turn_check_timer(e, qp);
}
