/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels, asynchronous events, and contexts that come and go. */
#include "storm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
#include "kit/program.h"
#include "kit/verbs.h"

struct ack {
	struct ibv_cq *cq;
	unsigned int n, delay_us;
};

static void *
ack_later(void *arg)
{
	struct ack *a = arg;

	usleep(a->delay_us);
	ibv_ack_cq_events(a->cq, a->n);
	return NULL;
}

/* One message, for which the sender's end waits in ibv_get_cq_event. */
static bool
message_with_event(struct worker *w, struct ibv_comp_channel *ch, struct ibv_cq *cq,
		   struct ibv_qp *a, struct ibv_qp *b, unsigned int *events)
{
	struct pollfd fd = {.fd = ch->fd, .events = POLLIN};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {0}, *rbad;
	struct ibv_wc wc;
	void *context;
	int n = 0, got;

	MUST(w, ibv_post_recv(b, &rwr, &rbad) == 0);
	MUST(w, ibv_req_notify_cq(cq, 0) == 0);
	MUST(w, ibv_post_send(a, &wr, &bad) == 0);
	while (n < 2) {
		struct ibv_cq *which;

		MUST(w, poll(&fd, 1, STORM_WAIT_S * 1000) == 1);
		MUST(w, ibv_get_cq_event(ch, &which, &context) == 0);
		MUST(w, which == cq && context == w);
		++*events;
		MUST(w, ibv_req_notify_cq(cq, 0) == 0);
		while ((got = ibv_poll_cq(cq, 1, &wc)) == 1) {
			MUST(w, wc.status == IBV_WC_SUCCESS);
			n++;
		}
		MUST(w, got == 0);
	}
	return true;
}

/*
 * A channel whose CQ is destroyed while another thread acknowledges its events, and while an event
 * may be queued.
 */
void
job_channel(struct worker *w)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(storm.ctx);
	struct ack ack = {.delay_us = storm_random(w, 2000)};
	struct ibv_qp *a, *b;
	pthread_t t;

	NEED(w, ch);
	ack.cq = ibv_create_cq(storm.ctx, 16, w, ch, 0);
	NEED(w, ack.cq);
	a = storm_qp(w, storm.pd, IBV_QPT_RC, ack.cq, NULL, 4);
	b = storm_qp(w, storm.pd, IBV_QPT_RC, ack.cq, NULL, 4);
	if (!a || !b || !storm_connect(w, a, b))
		return;
	for (uint32_t i = 0, n = 1 + storm_random(w, 4); i < n; i++) {
		if (!message_with_event(w, ch, ack.cq, a, b, &ack.n))
			return;
		if (storm_random(w, 3) == 0)
			NEED(w, ibv_resize_cq(ack.cq, (int)(4 + storm_random(w, 100))) == 0);
	}
	NEED(w, ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
	NEED(w, pthread_create(&t, NULL, ack_later, &ack) == 0);
	NEED(w, ibv_destroy_cq(ack.cq) == 0);
	NEED(w, pthread_join(t, NULL) == 0);
	NEED(w, ibv_destroy_comp_channel(ch) == 0);
}

/* Counts the events of one SRQ. */
struct limit {
	atomic_uint events;
};

static void
event_count(struct worker *w, struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		((struct limit *)ev->element.srq->srq_context)->events++;
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_COMM_EST:
		break;
	default:
		errno = (int)ev->event_type;
		storm_failed(w, __FILE__, __LINE__, "no other asynchronous event occurs");
	}
}

void *
storm_events(void *unused)
{
	struct worker w = {.id = storm.threads + 1, .job = "asynchronous events"};
	struct pollfd fd = {.fd = storm.ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	(void)unused;
	if (fcntl(fd.fd, F_SETFL, O_NONBLOCK) < 0)
		storm_failed(&w, __FILE__, __LINE__, "the descriptor does not block");
	while (!storm.stop) {
		if (poll(&fd, 1, 50) <= 0 || ibv_get_async_event(storm.ctx, &ev) != 0)
			continue;
		event_count(&w, &ev);
		usleep(storm_random(&w, 500));
		ibv_ack_async_event(&ev);
	}
	return NULL;
}

/* An SRQ is destroyed while the other thread acknowledges the event of its limit. */
void
job_limit(struct worker *w)
{
	struct limit limit = {0};
	struct ibv_srq_init_attr attr = {.srq_context = &limit,
					 .attr = {.max_wr = 20, .max_sge = 1}};
	struct ibv_srq_attr arm = {.srq_limit = 3};
	struct ibv_cq *cq = ibv_create_cq(storm.ctx, 32, NULL, NULL, 0);
	struct ibv_srq *srq = ibv_create_srq(storm.pd, &attr);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {0}, *rbad;
	uint64_t end = now_ns() + STORM_WAIT_S * 1000000000ull;
	struct ibv_qp *a, *b;

	NEED(w, cq && srq);
	a = storm_qp(w, storm.pd, IBV_QPT_RC, cq, NULL, 4);
	b = storm_qp(w, storm.pd, IBV_QPT_RC, cq, srq, 4);
	if (!a || !b || !storm_connect(w, a, b))
		return;
	for (int i = 0; i < 3; i++)
		NEED(w, ibv_post_srq_recv(srq, &rwr, &rbad) == 0);
	NEED(w, ibv_modify_srq(srq, &arm, IBV_SRQ_LIMIT) == 0);
	NEED(w, ibv_post_send(a, &wr, &bad) == 0);
	if (!storm_done(w, cq) || !storm_done(w, cq))
		return;
	while (!storm.stop && limit.events == 0 && now_ns() < end)
		usleep(200);
	NEED(w, limit.events == 1 || storm.stop);
	NEED(w, ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
	NEED(w, ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(cq) == 0);
}

/* A context of this thread alone, whose objects the daemon destroys, or which ends empty. */
void
job_context(struct worker *w)
{
	struct ibv_context *ctx = verbs_open(storm.device);
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	union ibv_gid gid;
	__be16 pkey;

	NEED(w, ctx);
	NEED(w, ibv_query_device_ex(ctx, NULL, &attr) == 0 && ibv_query_port(ctx, 1, &port) == 0);
	NEED(w, port.state == IBV_PORT_ACTIVE);
	NEED(w, ibv_query_gid(ctx, 1, 1, &gid) == 0 && ibv_query_pkey(ctx, 1, 0, &pkey) == 0);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 100, NULL, NULL, 0);
	NEED(w, pd && cq);
	NEED(w, storm_qp(w, pd, IBV_QPT_RC, cq, NULL, 8) != NULL);
	NEED(w, ibv_close_device(ctx) == 0);
}

/* A second context for the shared one's PD and a region of it. */
void
job_import(struct worker *w)
{
	struct ibv_context *ctx;
	struct region r, to;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	int fd = fcntl(storm.ctx->cmd_fd, F_DUPFD_CLOEXEC, 0);

	NEED(w, fd >= 0);
	if (!region_make(w, &r, storm.pd, 5000) || !region_make(w, &to, storm.pd, 5000))
		return;
	ctx = ibv_import_device(fd);
	NEED(w, ctx);
	pd = ibv_import_pd(ctx, storm.pd->handle);
	NEED(w, pd);
	mr = ibv_import_mr(pd, r.mr->handle);
	NEED(w, mr && mr->length == r.len);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	NEED(w, ibv_close_device(ctx) == 0);
	if (region_end(w, &r))
		region_end(w, &to);
}
