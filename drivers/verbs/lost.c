/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon is lost: it died, or it closed the connection (a device that failed ends so, too).
 * Nothing hangs, and each WR that was posted completes exactly once (CQE-15, EVT-14):
 *
 *   - first what the daemon had written into the CQ, in its order;
 *   - then what it had not completed, made up here: the oldest WR of each queue with
 *     IBV_WC_FATAL_ERR, those behind it with IBV_WC_WR_FLUSH_ERR, signaled or not;
 *   - then polls fail with EIO. Posts fail with EIO from the moment the loss is noticed.
 *
 * WRs of an SRQ that no QP had taken have no CQ of their own: they complete to the first receive
 * CQ of its QPs that is polled, as that QP's. An SRQ without a QP completes nothing.
 *
 * The two other statuses that verbs has for such ends have no cause here. GENERAL_ERR is for one
 * without a name of its own; RESP_TIMEOUT_ERR is a reliable datagram's, and a connection whose peer
 * is silent ends with RETRY_EXC_ERR.
 *
 * All of a CQ's remaining completions are gathered at once, when it is polled for the first time
 * after the loss, into the list that a resize uses (cq_purge.c). Shared memory must not change any
 * more by then: the daemon closes the asynchronous socket when its workers have let go of the
 * context, and the kernel does so when it is dead. Until then such a CQ looks empty.
 *
 * Locks, outermost first: the CQ's, obj_mutex, a queue's. A post looks at ctx->lost under its
 * queue's lock, so either its WRs are gathered or it fails.
 */
#include "uv.h"
#include "idle.h"
#include "left.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

/* Full queues between looks at the control socket, for who posts and never polls. */
#define UV_ALIVE_CHECK_POSTS (1u << 10)

void
uv_lost_init(struct uv_context *ctx)
{
	pthread_mutex_init(&ctx->obj_mutex, NULL);
	TAILQ_INIT(&ctx->qps);
	TAILQ_INIT(&ctx->cqs);
}

void
uv_lost_add_qp(struct uv_context *ctx, struct uv_qp *qp)
{
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_INSERT_TAIL(&ctx->qps, qp, link);
	pthread_mutex_unlock(&ctx->obj_mutex);
}

void
uv_lost_del_qp(struct uv_context *ctx, struct uv_qp *qp)
{
	if (ctx->forked) /* the lists are the parent's, and may be in the middle of a change */
		return;
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_REMOVE(&ctx->qps, qp, link);
	pthread_mutex_unlock(&ctx->obj_mutex);
}

void
uv_lost_add_cq(struct uv_context *ctx, struct uv_cq *cq)
{
	cq->last_event = true;
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_INSERT_TAIL(&ctx->cqs, cq, link);
	pthread_mutex_unlock(&ctx->obj_mutex);
}

void
uv_lost_del_cq(struct uv_context *ctx, struct uv_cq *cq)
{
	if (ctx->forked)
		return;
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_REMOVE(&ctx->cqs, cq, link);
	pthread_mutex_unlock(&ctx->obj_mutex);
}

int
uv_lost_check_unused(struct uv_context *ctx, const struct ibv_cq *cq, const struct ibv_srq *srq)
{
	const struct uv_qp *qp;

	if (!__atomic_load_n(&ctx->lost, __ATOMIC_RELAXED) || ctx->forked)
		return 0;
	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_FOREACH (qp, &ctx->qps, link) {
		const struct ibv_qp *ibqp = &qp->vqp.qp;

		if ((cq && (ibqp->send_cq == cq || ibqp->recv_cq == cq)) ||
		    (srq && ibqp->srq == srq))
			break;
	}
	pthread_mutex_unlock(&ctx->obj_mutex);
	return qp ? uv_fail(EBUSY) : 0;
}

/* Does nobody write to shared memory any more? */
static bool
context_quiet(struct uv_context *ctx)
{
	struct pollfd pfd = {.fd = ctx->vctx.context.async_fd};

	return poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* The WRs of a queue that were never retired; lock held. */
static uint32_t
ring_left(const struct uv_ring *r)
{
	uint32_t n = r->prod - __atomic_load_n(&r->hdr->cons, __ATOMIC_ACQUIRE);

	/* A daemon that has lost its mind counts for nothing. */
	return n <= r->mask + 1 ? n : r->mask + 1;
}

static struct left_cq
left_of(const struct uv_cq *cq)
{
	return (struct left_cq){.slots = cq->slots, .mask = cq->mask, .shift = cq->shift};
}

/*
 * Where completions go; with to NULL they are only counted. Run twice over the same queues: no post
 * gets in between, since the loss is known.
 */
struct gather {
	struct uv_cq *cq;
	struct uv_cq_old *to;
	uint32_t n;
};

static void
gather_put(struct gather *g, const struct uv_qp *qp, uint64_t wr_id, uint8_t opcode, bool oldest)
{
	if (g->to)
		g->to->cqe[g->n] = (struct uroce_cqe){
			.wr_id = wr_id,
			.status = oldest ? IBV_WC_FATAL_ERR : IBV_WC_WR_FLUSH_ERR,
			.opcode = opcode,
			.qp_num = qp->qpn,
		};
	g->n++;
}

/* What was released into the ring, beyond gaps that a worker left too, of QPs that still are. */
static void
gather_released(struct gather *g, const struct uv_context *ctx)
{
	const struct uv_cq *cq = g->cq;
	struct left_cq left = left_of(cq);
	const struct uv_qp *qp = NULL;

	for (uint32_t i = cq->cons; i != cq->cons + cq->mask + 1; i++) {
		const struct uroce_cqe *cqe = &cq->slots[i & cq->mask];

		if (!left_released(&left, i) || cqe->opcode == UROCE_CQE_DEAD)
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
gather_sends(struct gather *g, struct uv_qp *qp)
{
	struct left_cq left = left_of(g->cq);
	struct uv_ring *sq = &qp->sq;
	bool one = left_retired(sq->hdr, &left);

	if (one) /* its slot, and with it the opcode, may be another's */
		gather_put(g, qp, sq->hdr->wr_id, UROCE_CQE_SEND, true);
	uv_lock(&sq->lock);
	for (uint32_t n = ring_left(sq), i = 0; i < n; i++) {
		const struct uroce_send_wqe *wqe = uv_ring_slot(sq, sq->prod - n + i);

		gather_put(g, qp, wqe->wr_id, uroce_cqe_opcode_of(wqe->opcode), !one && i == 0);
	}
	uv_unlock(&sq->lock);
}

/* The WRs of an RQ or SRQ; one: it is not the oldest of them that is in the ring. */
static void
gather_posted(struct gather *g, struct uv_qp *qp, struct uv_ring *rq, bool one)
{
	uv_lock(&rq->lock);
	for (uint32_t n = ring_left(rq), i = 0; i < n; i++) {
		const struct uroce_recv_wqe *wqe = uv_ring_slot(rq, rq->prod - n + i);

		gather_put(g, qp, wqe->wr_id, UROCE_CQE_RECV, !one && i == 0);
	}
	uv_unlock(&rq->lock);
}

static void
gather_recvs(struct gather *g, struct uv_qp *qp)
{
	struct left_cq left = left_of(g->cq);
	struct uv_ring *rq = &qp->rq;
	bool one = left_retired(rq->hdr, &left);

	if (one)
		gather_put(g, qp, rq->hdr->wr_id, UROCE_CQE_RECV, true);
	gather_posted(g, qp, rq, one);
}

static void
gather_srq(struct gather *g, struct uv_qp *qp, struct uv_srq *srq)
{
	const struct uroce_held *held = &qp->sq.hdr->held;
	uint32_t cons = __atomic_load_n(&srq->ring.hdr->cons, __ATOMIC_ACQUIRE);
	struct left_cq left = left_of(g->cq);

	if (left_held(held, cons, &left))
		gather_put(g, qp, held->wr_id, UROCE_CQE_RECV, true);
	if (srq->gathered && srq->gathered != qp)
		return;
	srq->gathered = qp;
	gather_posted(g, qp, &srq->ring, false);
}

/* All completions that the CQ will ever have. */
static void
gather(struct gather *g, struct uv_context *ctx)
{
	struct ibv_cq *ibcq = &g->cq->vcq.cq;
	struct uv_qp *qp;

	if (uv_cq_has_old(g->cq)) {
		const struct uv_cq_old *old = g->cq->old;

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
			gather_srq(g, qp, uv_srq_of(qp->vqp.qp.srq));
	}
}

/* Once a CQ, its lock held. False: no memory, so another time. */
static bool
cq_gather(struct uv_context *ctx, struct uv_cq *cq)
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
		/* Nothing in the ring is looked at again. */
		cq->cons += cq->mask + 1;
		cq->gathered = true;
	}
	pthread_mutex_unlock(&ctx->obj_mutex);
	return cq->gathered;
}

/* The daemon is about to end: it needs a core for that, whatever UROCE_POLL says. */
static void
lost_pause(void)
{
	uint64_t now_ns = uv_idle_now_ns();

	if (uv_idle_sleeps(now_ns))
		uv_idle_sleep(true);
	else
		uv_idle_yield(now_ns);
}

int
uv_lost_poll(struct uv_cq *cq)
{
	struct uv_context *ctx = uv_context_of(cq->vcq.cq.context);
	int rc;

	if (ctx->forked)
		return -uv_fail(EIO);
	uv_lock(&cq->lock);
	if (!cq->gathered && (!context_quiet(ctx) || !cq_gather(ctx, cq)))
		rc = 0;
	else
		rc = uv_cq_has_old(cq) ? 1 : -EIO;
	uv_unlock(&cq->lock);
	if (rc == 0)
		lost_pause();
	else if (rc < 0)
		uv_fail(-rc);
	return rc;
}

int
uv_lost_notify(struct uv_cq *cq)
{
	struct uv_context *ctx = uv_context_of(cq->vcq.cq.context);
	bool more;

	if (ctx->forked)
		return uv_fail(EIO);
	uv_lock(&cq->lock);
	more = !cq->gathered || uv_cq_has_old(cq);
	uv_unlock(&cq->lock);
	if (!more)
		return uv_fail(EIO);
	__atomic_store_n(&cq->last_event, true, __ATOMIC_RELEASE);
	return 0;
}

struct uv_ref *
uv_lost_event(struct uv_context *ctx, int channel_fd)
{
	struct uv_ref *ref = NULL;
	struct uv_cq *cq;

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
uv_lost_queue_full(struct uv_context *ctx)
{
	if (__atomic_add_fetch(&ctx->full_posts, 1, __ATOMIC_RELAXED) % UV_ALIVE_CHECK_POSTS == 0)
		uv_context_alive(ctx);
}
