/* SPDX-License-Identifier: BSD-3-Clause */
/* One row on one side, from queue pairs to report. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "errmatrix.h"

#define REQUESTER_RECVS 2

uint64_t
patience_end(const struct run *r)
{
	return now_ns() + (uint64_t)(r->s->opt->patience_s * 1e9);
}

/* Both sides must agree on whether the row continues. */
static bool
both_ready(struct run *r, bool peer_failed)
{
	if (peer_failed)
		run_failed(r, "the peer could not set it up");
	return !r->rep.failed[0];
}

static void
take(struct ibv_cq *cq, struct seen_wc *seen, uint32_t *n)
{
	struct ibv_wc wc[MAX_WCS];
	int got = ibv_poll_cq(cq, (int)(MAX_WCS - *n), wc);

	for (int i = 0; i < got; i++)
		seen[(*n)++] =
			(struct seen_wc){wc[i].wr_id, wc[i].status, wc[i].qp_num,
					 wc[i].status == IBV_WC_SUCCESS ? 0 : wc[i].vendor_err, 0};
}

/* Has the send queue completed all requests? */
static bool
last_came(const struct run *r)
{
	return r->rep.nsend > 0 && (uint32_t)r->rep.send[r->rep.nsend - 1].wr_id == ID_LAST;
}

/* Waits until both queues have at least this many completions, or the send queue its last. */
static void
collect(struct run *r, uint32_t sends, uint32_t recvs)
{
	uint64_t end = patience_end(r);

	do {
		uint32_t before = r->rep.nsend + r->rep.nrecv;

		take(r->scq, r->rep.send, &r->rep.nsend);
		take(r->rcq, r->rep.recv, &r->rep.nrecv);
		if (r->rep.nsend + r->rep.nrecv != before)
			end = patience_end(r);
		else
			sched_yield();
	} while (((r->rep.nsend < sends && !last_came(r)) || r->rep.nrecv < recvs) &&
		 now_ns() < end);
}

static bool
of_queue_pair(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

static void
take_events(struct run *r)
{
	struct ibv_async_event ev;

	while (ibv_get_async_event(r->s->ctx, &ev) == 0) {
		bool ours = of_queue_pair(ev.event_type) && ev.element.qp == r->qp;

		if (ours && r->rep.nevents < MAX_WCS)
			r->rep.event[r->rep.nevents++] = ev.event_type;
		ibv_ack_async_event(&ev);
	}
}

/* Waits for the responder's event if one is expected: it arrives separately from completions. */
static void
await_event(struct run *r, enum ibv_event_type type)
{
	uint64_t end = patience_end(r);

	take_events(r);
	while (!r->s->requester && type && !r->s->opt->no_events && r->rep.nevents == 0 &&
	       now_ns() < end) {
		struct pollfd pfd = {.fd = r->s->ctx->async_fd, .events = POLLIN};

		poll(&pfd, 1, 100);
		take_events(r);
	}
}

/*
 * Reads the state and the events so far. The second query returns only after the events that the
 * first query found pending were delivered.
 */
static void
look(struct run *r)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	for (int i = 0; i < 2; i++) {
		if (ibv_query_qp(r->qp, &attr, IBV_QP_STATE, &init))
			run_failed(r, "ibv_query_qp failed");
		r->rep.state = attr.qp_state;
	}
	await_event(r, r->row->event);
}

/* A good SEND. In ERR and SQE it only shows that new posts are flushed. */
static void
post_send(struct run *r, uint32_t id)
{
	struct request q;
	struct ibv_send_wr *bad;
	int rc;

	request_make(r, OP_SEND, false, id, &q);
	rc = ibv_post_send(r->qp, &q.wr, &bad);
	if (rc)
		run_failed(r, "post of %#x: %s", id, strerror(rc));
}

static void
post_recv(struct run *r, uint32_t id)
{
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)r->plan->row << 32 | id}, *bad;
	int rc = ibv_post_recv(r->qp, &wr, &bad);

	if (rc)
		run_failed(r, "post of %#x: %s", id, strerror(rc));
}

static void
to_state(struct run *r, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int rc = ibv_modify_qp(r->qp, &attr, IBV_QP_STATE);

	if (rc)
		run_failed(r, "modify to %s: %s", qp_state_name(state), strerror(rc));
}

/* Flushes the rest. Any later completion is an error. */
static void
finish(struct run *r)
{
	if (r->rep.state != IBV_QPS_ERR)
		to_state(r, IBV_QPS_ERR);
	post_send(r, ID_LAST);
	if (r->row->cause == BY_HAND && r->s->requester)
		post_recv(r, ID_RECV_LAST);
	collect(r, MAX_WCS, r->want.nrecv);
	take(r->scq, r->rep.send, &r->rep.nsend);
	take(r->rcq, r->rep.recv, &r->rep.nrecv);
	await_event(r, r->want.event); /* an SRQ's event comes with ERR set by hand, too */
}

/* --- requester ----------------------------------------------------------------------------------
 */

/* Posts chain entries from .. to in one list. */
static void
chain_post(struct run *r, struct request *q, uint32_t from, uint32_t to)
{
	struct ibv_send_wr *bad = NULL;

	for (uint32_t i = from; i + 1 < to; i++)
		q[i].wr.next = &q[i + 1].wr;
	r->rep.post_error = ibv_post_send(r->qp, &q[from].wr, &bad);
	for (uint32_t i = from; r->rep.post_error && i < to; i++)
		if (bad == &q[i].wr)
			r->rep.bad_wr = (int32_t)i;
}

static bool
chain_make(struct run *r, const struct chain *c, struct request *q)
{
	for (uint32_t i = 0; i < c->n; i++) {
		bool busy = r->row->cause == DEPTH_OVERRUN && i + 1 == c->errant;

		if (!request_make(r, c->op[i], i == c->errant || busy, ID_CHAIN + i, &q[i]))
			return false;
	}
	return true;
}

/* Requests posted in SQE are flushed; after SQE > RTS SENDs work again. */
static void
leave_sqe(struct run *r)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};

	post_send(r, ID_SQE);
	collect(r, r->want.send_auto + 1, 0);
	r->rep.left_sqe = ibv_modify_qp(r->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE);
	if (r->rep.left_sqe)
		return;
	post_send(r, ID_AGAIN);
	collect(r, r->want.send_auto + 2, 0);
}

static void
requester_go(struct run *r, struct request *q, const struct chain *c)
{
	uint32_t first = 0;

	if (r->row->cause == BY_HAND)
		to_state(r, IBV_QPS_ERR);
	/* A lost NAK also loses its acknowledgement of earlier requests: they end here. */
	if (r->plan->lossy && c->errant > 0) {
		first = 1;
		chain_post(r, q, 0, first);
		collect(r, 1, 0);
	}
	chain_post(r, q, first, c->n);
	collect(r, r->want.send_auto, r->want.recv_auto);
	look(r);
	if (r->want.state == IBV_QPS_SQE && r->rep.state == IBV_QPS_SQE)
		leave_sqe(r);
	link_barrier(r->s->link);
	finish(r);
}

/* --- responder ----------------------------------------------------------------------------------
 */

/* Makes the peer find no queue pair, or one that does not respond. */
static void
responder_leave(struct run *r)
{
	switch (r->row->cause) {
	case PEER_ERR:
		to_state(r, IBV_QPS_ERR);
		break;
	case PEER_RESET:
		to_state(r, IBV_QPS_RESET);
		break;
	case PEER_DESTROYED:
		if (ibv_destroy_qp(r->qp))
			run_failed(r, "ibv_destroy_qp failed");
		r->qp = NULL;
		break;
	default:
		break;
	}
}

/* An unreliable peer finishes long before this side: wait for its last write. */
static void
await_memory(struct run *r)
{
	uint64_t end = patience_end(r);

	while (arena_differs(&r->s->arena) >= 0 && now_ns() < end)
		sched_yield();
}

static void
responder_go(struct run *r)
{
	link_barrier(r->s->link);
	if (r->row->cause == PEER_DESTROYED) {
		r->rep.state = IBV_QPS_RESET;
		return;
	}
	collect(r, 0, r->want.recv_auto);
	if (row_type(r->row) != IBV_QPT_RC)
		await_memory(r);
	look(r);
	if (r->want.state != IBV_QPS_RESET)
		finish(r);
}

/* --- both ----------------------------------------------------------------------------------------
 */

static void
row_connected(struct run *r, struct request *q, const struct chain *c)
{
	struct target mine = {0};
	bool ok;

	ok = r->s->requester || target_make(r, &mine);
	mine.failed = !ok;
	/* Barrier: both sides are past RTR when the first packet arrives. */
	link_swap(r->s->link, &mine, &r->target, sizeof(mine));
	ok = both_ready(r, r->target.failed);
	/* The requester makes its objects now; the peer leaves, if the row says so. */
	if (ok && r->s->requester)
		ok = chain_make(r, c, q);
	else if (ok)
		responder_leave(r);
	mine.failed = r->rep.failed[0] != 0;
	link_swap(r->s->link, &mine, &r->target, sizeof(mine));
	if (!both_ready(r, r->target.failed))
		return;
	if (r->s->requester)
		requester_go(r, q, c);
	else
		responder_go(r);
}

/* Runs the operator's command, which may look at the queue pair with tools of its device. */
static void
look_outside(const struct run *r)
{
	char command[512];

	if (!r->s->opt->look || !r->qp)
		return;
	snprintf(command, sizeof(command), "%s %s %u", r->s->opt->look, r->row->name,
		 r->qp->qp_num);
	if (system(command))
		fprintf(stderr, "%s failed\n", command);
}

void
row_run(struct run *r)
{
	struct request q[MAX_CHAIN];
	struct address mine = {0};
	struct chain c;
	bool ok;

	r->rep = (struct report){.bad_wr = -1, .no_events = r->s->opt->no_events};
	chain_build(r->row, &c);
	arena_fill(&r->s->arena, r->plan->row, r->s->requester);
	want_memory(r->row, r->plan->row, r->s->requester, &r->s->arena);
	if (r->s->requester)
		want_requester(r->row, &r->want);
	else
		want_responder(r->row, &r->want);
	mine.failed = !queues_make(r, &mine);
	link_swap(r->s->link, &mine, &r->peer, sizeof(mine));
	ok = both_ready(r, r->peer.failed);
	if (ok) {
		ok = queues_connect(r, &mine) &&
		     recvs_post(r, r->s->requester ? REQUESTER_RECVS : row_recvs(r->row));
		mine.failed = !ok;
		link_swap(r->s->link, &mine, &r->peer, sizeof(mine));
		ok = both_ready(r, r->peer.failed);
	}
	if (ok)
		row_connected(r, q, &c);
	take_events(r);
	r->rep.memory = arena_differs(&r->s->arena);
	look_outside(r);
	queues_free(r);
}
