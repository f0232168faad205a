/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon is lost: it died, or it closed the connection (also when a device failed). Nothing
 * hangs, and each posted WR completes exactly once (CQE-15, EVT-14):
 *
 *   - first the completions that the daemon had written into the CQ, in their order;
 *   - then the WRs that it had not completed, with completions made here: the oldest WR of each
 *     queue with IBV_WC_FATAL_ERR, those behind it with IBV_WC_WR_FLUSH_ERR, signaled or not;
 *   - then polls fail with EIO. Posts fail with EIO from the moment the loss is noticed.
 *
 * WRs of an SRQ that no QP had taken belong to no CQ. They complete to the receive CQ that is
 * polled first, of all QPs of the SRQ, as WRs of its QP. An SRQ without a QP completes nothing.
 *
 * Verbs has two more statuses for such ends, which do not occur here. GENERAL_ERR is for errors
 * without a specific status. RESP_TIMEOUT_ERR is for reliable datagrams; a connection whose peer is
 * silent ends with RETRY_EXC_ERR.
 *
 * When a CQ is polled for the first time after the loss, all its remaining completions are gathered
 * in the list that a resize uses (cq_purge.c). Shared memory must not change any more at that time:
 * the daemon closes the asynchronous socket after its workers have released the context, and the
 * kernel closes it when the daemon is dead. Until then such a CQ looks empty.
 *
 * Locks, outermost first: the CQ's, obj_mutex, a queue's. A post reads ctx->lost under its queue's
 * lock, so either its WRs are gathered or it fails.
 */
#include "provider.h"
#include "idle.h"
#include "unfinished.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <uroce/errors.h>

/* Full queues between checks of the control socket, for threads that post and never poll. */
#define PROV_ALIVE_CHECK_POSTS (1u << 10)

void
prov_daemon_lost_init(struct prov_context *ctx)
{
	pthread_mutex_init(&ctx->obj_mutex, NULL);
	TAILQ_INIT(&ctx->qps);
	LIST_INIT(&ctx->ud_qps);
	TAILQ_INIT(&ctx->cqs);
}

void
prov_daemon_lost_add_qp(struct prov_context *ctx, struct prov_qp *qp)
{
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_INSERT_TAIL(&ctx->qps, qp, link);
	if (qp->vqp.qp.qp_type == IBV_QPT_UD)
		LIST_INSERT_HEAD(&ctx->ud_qps, qp, ud_link);
	pthread_mutex_unlock(&ctx->obj_mutex);
}

void
prov_daemon_lost_del_qp(struct prov_context *ctx, struct prov_qp *qp)
{
	if (ctx->forked) /* the lists are the parent's and may be inconsistent */
		return;
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_REMOVE(&ctx->qps, qp, link);
	if (qp->vqp.qp.qp_type == IBV_QPT_UD)
		LIST_REMOVE(qp, ud_link);
	pthread_mutex_unlock(&ctx->obj_mutex);
}

void
prov_daemon_lost_add_cq(struct prov_context *ctx, struct prov_cq *cq)
{
	cq->last_event = true;
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_INSERT_TAIL(&ctx->cqs, cq, link);
	pthread_mutex_unlock(&ctx->obj_mutex);
}

void
prov_daemon_lost_del_cq(struct prov_context *ctx, struct prov_cq *cq)
{
	if (ctx->forked)
		return;
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_REMOVE(&ctx->cqs, cq, link);
	pthread_mutex_unlock(&ctx->obj_mutex);
}

int
prov_daemon_lost_check_unused(struct prov_context *ctx, const struct ibv_cq *cq,
			      const struct ibv_srq *srq)
{
	const struct prov_qp *qp;

	if (!prov_context_lost(ctx) || ctx->forked)
		return 0;
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_FOREACH (qp, &ctx->qps, link) {
		const struct ibv_qp *ibqp = &qp->vqp.qp;

		if ((cq && (ibqp->send_cq == cq || ibqp->recv_cq == cq)) ||
		    (srq && ibqp->srq == srq))
			break;
	}
	pthread_mutex_unlock(&ctx->obj_mutex);
	return qp ? prov_fail(EBUSY) : 0;
}

/* Returns true if shared memory no longer changes. */
static bool
context_quiet(struct prov_context *ctx)
{
	struct pollfd pfd = {.fd = ctx->vctx.context.async_fd};

	return poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Returns the number of WRs of a queue that were never retired. Lock held. */
static uint32_t
ring_left(const struct prov_ring *r)
{
	uint32_t n = r->prod - __atomic_load_n(&r->hdr->cons, __ATOMIC_ACQUIRE);

	/* Ignore indices that a corrupt daemon wrote. */
	return n <= r->mask + 1 ? n : r->mask + 1;
}

static struct unfinished_cq
left_of(const struct prov_cq *cq)
{
	return (struct unfinished_cq){.slots = cq->slots, .mask = cq->mask, .shift = cq->shift};
}

/*
 * Destination of completions; if to is NULL they are only counted. The same queues are gathered
 * twice. No post changes them in between, because the loss is known.
 */
struct gather {
	struct prov_cq *cq;
	struct prov_cq_old *to;
	uint32_t n;
};

static void
gather_put(struct gather *g, const struct prov_qp *qp, uint64_t wr_id, uint8_t opcode, bool oldest)
{
	if (g->to)
		g->to->cqe[g->n] = (struct uroce_cqe){
			.wr_id = wr_id,
			.status = oldest ? IBV_WC_FATAL_ERR : IBV_WC_WR_FLUSH_ERR,
			.vendor_err = UROCE_ERROR_DAEMON_LOST,
			.opcode = opcode,
			.qp_num = qp->qpn,
		};
	g->n++;
}

/* Gathers released entries of existing QPs in the ring, including those after a gap. */
static void
gather_released(struct gather *g, const struct prov_context *ctx)
{
	const struct prov_cq *cq = g->cq;
	struct unfinished_cq left = left_of(cq);
	const struct prov_qp *qp = NULL;

	for (uint32_t i = cq->cons; i != cq->cons + cq->mask + 1; i++) {
		const struct uroce_cqe *cqe = &cq->slots[i & cq->mask];

		if (!unfinished_released(&left, i) || cqe->opcode == UROCE_CQE_DEAD)
			continue;
		if (!qp || qp->qpn != cqe->qp_num) {
			TAILQ_FOREACH (qp, &ctx->qps, link) {
				if (qp->qpn == cqe->qp_num)
					break;
			}
		}
		if (!qp)
			continue;
		if (g->to)
			g->to->cqe[g->n] = *cqe;
		g->n++;
	}
}

static void
gather_sends(struct gather *g, struct prov_qp *qp)
{
	struct unfinished_cq left = left_of(g->cq);
	struct prov_ring *sq = &qp->sq;
	bool one = unfinished_retired(sq->hdr, &left);

	if (one) /* its slot, and with it the opcode, may belong to another WR */
		gather_put(g, qp, sq->hdr->wr_id, UROCE_CQE_SEND, true);
	prov_lock(&sq->lock);
	for (uint32_t n = ring_left(sq), i = 0; i < n; i++) {
		const struct uroce_send_wqe *wqe = prov_ring_slot(sq, sq->prod - n + i);

		gather_put(g, qp, wqe->wr_id, uroce_cqe_opcode_of(wqe->opcode), !one && i == 0);
	}
	prov_unlock(&sq->lock);
}

/* Gathers the WRs in the ring of an RQ or SRQ. one: an older WR was already gathered. */
static void
gather_posted(struct gather *g, struct prov_qp *qp, struct prov_ring *rq, bool one)
{
	prov_lock(&rq->lock);
	for (uint32_t n = ring_left(rq), i = 0; i < n; i++) {
		const struct uroce_recv_wqe *wqe = prov_ring_slot(rq, rq->prod - n + i);

		gather_put(g, qp, wqe->wr_id, UROCE_CQE_RECV, !one && i == 0);
	}
	prov_unlock(&rq->lock);
}

static void
gather_recvs(struct gather *g, struct prov_qp *qp)
{
	struct unfinished_cq left = left_of(g->cq);
	struct prov_ring *rq = &qp->rq;
	bool one = unfinished_retired(rq->hdr, &left);

	if (one)
		gather_put(g, qp, rq->hdr->wr_id, UROCE_CQE_RECV, true);
	gather_posted(g, qp, rq, one);
}

static void
gather_srq(struct gather *g, struct prov_qp *qp, struct prov_srq *srq)
{
	const struct uroce_held *held = &qp->sq.hdr->held;
	uint32_t cons = __atomic_load_n(&srq->ring.hdr->cons, __ATOMIC_ACQUIRE);
	struct unfinished_cq left = left_of(g->cq);

	if (unfinished_held(held, cons, &left))
		gather_put(g, qp, held->wr_id, UROCE_CQE_RECV, true);
	if (srq->gathered && srq->gathered != qp)
		return;
	srq->gathered = qp;
	gather_posted(g, qp, &srq->ring, false);
}

/* Gathers all remaining completions of the CQ. */
static void
gather(struct gather *g, struct prov_context *ctx)
{
	struct ibv_cq *ibcq = &g->cq->vcq.cq;
	struct prov_qp *qp;

	if (prov_cq_has_old(g->cq)) {
		const struct prov_cq_old *old = g->cq->old;

		for (uint32_t i = old->next; i < old->n; i++, g->n++) {
			if (g->to)
				g->to->cqe[g->n] = old->cqe[i];
		}
	}
	gather_released(g, ctx);
	TAILQ_FOREACH (qp, &ctx->qps, link) {
		if (qp->vqp.qp.send_cq == ibcq)
			gather_sends(g, qp);
		if (qp->vqp.qp.recv_cq != ibcq)
			continue;
		if (qp->rq.hdr)
			gather_recvs(g, qp);
		else if (qp->vqp.qp.srq)
			gather_srq(g, qp, prov_srq_of(qp->vqp.qp.srq));
	}
}

/* Gathers once per CQ, its lock held. Returns false if out of memory; the next poll retries. */
static bool
cq_gather(struct prov_context *ctx, struct prov_cq *cq)
{
	struct gather g = {.cq = cq};

	pthread_mutex_lock(&ctx->obj_mutex);
	gather(&g, ctx);
	g.to = malloc(sizeof(*g.to) + (size_t)g.n * sizeof(g.to->cqe[0]));
	if (g.to) {
		g.n = 0;
		gather(&g, ctx);
		g.to->n = g.n;
		g.to->next = 0;
		free(cq->old);
		cq->old = g.to;
		/* The ring is not read again. */
		cq->cons += cq->mask + 1;
		cq->gathered = true;
	}
	pthread_mutex_unlock(&ctx->obj_mutex);
	return cq->gathered;
}

/* Gives up the core, whatever UROCE_POLL says, because the daemon needs one to end. */
static void
lost_pause(void)
{
	uint64_t now_ns = prov_idle_now_ns();

	if (prov_idle_sleeps(now_ns))
		prov_idle_sleep(NULL, 0, true);
	else
		prov_idle_yield(now_ns);
}

int
prov_daemon_lost_poll(struct prov_cq *cq)
{
	struct prov_context *ctx = prov_context_of(cq->vcq.cq.context);
	int rc;

	if (ctx->forked)
		return -prov_fail(EIO);
	prov_lock(&cq->lock);
	if (!cq->gathered && (!context_quiet(ctx) || !cq_gather(ctx, cq)))
		rc = 0;
	else
		rc = prov_cq_has_old(cq) ? 1 : -EIO;
	prov_unlock(&cq->lock);
	if (rc == 0)
		lost_pause();
	else if (rc < 0)
		prov_fail(-rc);
	return rc;
}

int
prov_daemon_lost_notify(struct prov_cq *cq)
{
	struct prov_context *ctx = prov_context_of(cq->vcq.cq.context);
	bool more;

	if (ctx->forked)
		return prov_fail(EIO);
	prov_lock(&cq->lock);
	more = !cq->gathered || prov_cq_has_old(cq);
	prov_unlock(&cq->lock);
	if (!more)
		return prov_fail(EIO);
	__atomic_store_n(&cq->last_event, true, __ATOMIC_RELEASE);
	return 0;
}

struct prov_ref *
prov_daemon_lost_event(struct prov_context *ctx, int channel_fd)
{
	struct prov_ref *ref = NULL;
	struct prov_cq *cq;

	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_FOREACH (cq, &ctx->cqs, link) {
		if (cq->channel_fd == channel_fd &&
		    __atomic_exchange_n(&cq->last_event, false, __ATOMIC_ACQ_REL)) {
			ref = &cq->ref;
			break;
		}
	}
	pthread_mutex_unlock(&ctx->obj_mutex);
	return ref;
}

void
prov_daemon_lost_queue_full(struct prov_context *ctx)
{
	if (__atomic_add_fetch(&ctx->full_posts, 1, __ATOMIC_RELAXED) % PROV_ALIVE_CHECK_POSTS == 0)
		prov_context_alive(ctx);
}
