/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary verbs program that outlives its daemon: queue pairs of one device connected in pairs
 * exchange SENDs until the device fails. Then every work request must have completed exactly once,
 * everything is destroyed, and the device is opened again as soon as that works.
 *
 *   survivor [-q PAIRS] [-c] [-s] [-e] DEVICE     -c: one CQ for all, -s: an SRQ, -e: by events
 *
 * Prints "running" when traffic flows, "drained" when all WRs are complete and all objects
 * destroyed, "again" after a second run. Exit status 0, or 1 with the reason.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "kit/program.h"
#include "kit/verbs.h"

#define MAX_QPS  8
#define DEPTH    16
#define BYTES    3000
#define RUNNING  500  /* completions until "running" */
#define SECOND   2000 /* completions of the second run */
#define MAX_WRS  (1u << 22)
#define RETRY_US 20000
#define RETRIES  1500

enum wr_state { WR_NONE, WR_SEND_QUIET, WR_SEND, WR_RECV, WR_DONE };

/* One queue pair, and the state of its send queue. */
struct end {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	unsigned int sends, recvs; /* outstanding as far as known */
	uint32_t count;
	bool send_failed, recv_failed;
};

static struct {
	unsigned int pairs;
	bool one_cq, srq, events;
} opt = {.pairs = 1};

static struct {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq;
	struct end end[MAX_QPS];
	unsigned int nqps, srq_recvs;
	bool srq_failed;
	uint64_t completions;
	bool fatal; /* the asynchronous event arrived */
	uint8_t *buf;
} s;

static uint8_t wr_state[MAX_WRS];
static uint32_t next_wr;

static void
connect_qp(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;
	int rc;

	if (ibv_query_gid(s.ctx, 1, 1, &gid))
		die("ibv_query_gid: %m");
	attr = verbs_attr(dest, &gid);
	rc = verbs_raise(qp, &attr, IBV_QPS_RTS);
	if (rc)
		die("connect: %s", strerror(rc));
}

static struct ibv_cq *
make_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(s.ctx, MAX_QPS * 2 * DEPTH * 2, NULL, s.channel, 0);

	if (!cq || (opt.events && ibv_req_notify_cq(cq, 0)))
		die("CQ: %m");
	return cq;
}

static void
make_end(struct end *e, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = s.srq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	*e = (struct end){.cq = cq, .qp = ibv_create_qp(s.pd, &attr)};
	if (!e->qp)
		die("QP: %m");
}

/* False: the device cannot be opened now. */
static bool
open_all(struct ibv_device *dev)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = MAX_QPS * DEPTH, .max_sge = 1}};
	struct ibv_cq *cq = NULL;

	memset(&s, 0, sizeof(s));
	s.ctx = ibv_open_device(dev);
	if (!s.ctx)
		return false;
	s.nqps = 2 * opt.pairs;
	s.pd = ibv_alloc_pd(s.ctx);
	s.buf = malloc(BYTES);
	s.mr = s.pd ? ibv_reg_mr(s.pd, s.buf, BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
	s.channel = opt.events ? ibv_create_comp_channel(s.ctx) : NULL;
	s.srq = opt.srq && s.mr ? ibv_create_srq(s.pd, &srq_attr) : NULL;
	if (!s.mr || (opt.events && !s.channel) || (opt.srq && !s.srq))
		die("set-up: %m");
	for (unsigned int i = 0; i < s.nqps; i++) {
		if (!opt.one_cq || i == 0)
			cq = make_cq();
		make_end(&s.end[i], cq);
	}
	for (unsigned int i = 0; i < s.nqps; i++)
		connect_qp(s.end[i].qp, s.end[i ^ 1].qp->qp_num);
	return true;
}

static void
gone(const char *what, int rc)
{
	if (rc)
		die("%s: %s", what, strerror(rc));
}

static void
close_all(void)
{
	for (unsigned int i = 0; i < s.nqps; i++)
		gone("destroy QP", ibv_destroy_qp(s.end[i].qp));
	for (unsigned int i = 0; i < s.nqps; i++) {
		if (!opt.one_cq || i == 0)
			gone("destroy CQ", ibv_destroy_cq(s.end[i].cq));
	}
	if (s.srq)
		gone("destroy SRQ", ibv_destroy_srq(s.srq));
	if (s.channel)
		gone("destroy channel", ibv_destroy_comp_channel(s.channel));
	gone("deregister", ibv_dereg_mr(s.mr));
	gone("deallocate PD", ibv_dealloc_pd(s.pd));
	gone("close", ibv_close_device(s.ctx));
	free(s.buf);
}

/* The wr_id of a work request: its index and its queue pair. */
static uint64_t
wr_begin(enum wr_state state, unsigned int end)
{
	if (next_wr == MAX_WRS)
		die("ran too long");
	wr_state[next_wr] = (uint8_t)state;
	return (uint64_t)end << 32 | next_wr++;
}

/* Posts as much as fits. False: the device has failed. */
static bool
post_end(unsigned int i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s.buf, .length = BYTES, .lkey = s.mr->lkey};
	struct end *e = &s.end[i];
	unsigned int *recvs = s.srq ? &s.srq_recvs : &e->recvs;
	int rc = 0;

	while (*recvs < (s.srq ? DEPTH * s.nqps : DEPTH)) {
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

		wr.wr_id = wr_begin(WR_RECV, i);
		rc = s.srq ? ibv_post_srq_recv(s.srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
		if (rc)
			goto out;
		++*recvs;
	}
	while (e->sends < DEPTH) {
		bool quiet = ++e->count % 3;
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
				   *bad;

		sge.length = 1 + (e->count * 7919) % BYTES;
		wr.send_flags = quiet ? 0 : IBV_SEND_SIGNALED;
		wr.wr_id = wr_begin(quiet ? WR_SEND_QUIET : WR_SEND, i);
		rc = ibv_post_send(e->qp, &wr, &bad);
		if (rc)
			goto out;
		e->sends++;
	}
	return true;
out:
	wr_state[--next_wr] = WR_NONE;
	if (rc != EIO && rc != ENOMEM)
		die("post: %s", strerror(rc));
	return rc != EIO;
}

/* The oldest WR of a failing queue has the reason, the others were flushed. */
static void
check_status(const struct ibv_wc *wc, bool *failed, bool any_order)
{
	if (wc->status == IBV_WC_SUCCESS
		    ? *failed && !any_order
		    : wc->status != IBV_WC_FATAL_ERR && wc->status != IBV_WC_WR_FLUSH_ERR)
		die("unexpected status %d", wc->status);
	if (!any_order && wc->status != IBV_WC_SUCCESS &&
	    (wc->status == IBV_WC_FATAL_ERR) == *failed)
		die("status %d after failed %d", wc->status, *failed);
	*failed |= wc->status != IBV_WC_SUCCESS;
}

static void
complete(const struct ibv_wc *wc)
{
	uint32_t id = (uint32_t)wc->wr_id;
	struct end *e = &s.end[wc->wr_id >> 32];
	uint8_t was = wr_state[id];

	wr_state[id] = WR_DONE;
	s.completions++;
	switch (was) {
	case WR_RECV:
		if (s.srq)
			s.srq_recvs--;
		else
			e->recvs--;
		check_status(wc, s.srq ? &s.srq_failed : &e->recv_failed, s.srq != NULL);
		return;
	case WR_SEND_QUIET:
		if (wc->status == IBV_WC_SUCCESS)
			die("completion of an unsignaled send");
		check_status(wc, &e->send_failed, false);
		return;
	case WR_SEND:
		/* including the unsignaled ones before it */
		e->sends -= e->sends < 3 ? e->sends : 3;
		check_status(wc, &e->send_failed, false);
		return;
	default:
		die("WR %u completed twice (state %u, status %d)", id, was, wc->status);
	}
}

/* Polls a CQ until it is empty. False: it reports that no completion will follow. */
static bool
poll_cq(struct ibv_cq *cq)
{
	struct ibv_wc wc[8];
	int n;

	while ((n = ibv_poll_cq(cq, 8, wc)) > 0) {
		for (int i = 0; i < n; i++)
			complete(&wc[i]);
	}
	if (n < 0 && n != -EIO)
		die("poll: %d", n);
	return n == 0;
}

/* Sleeps for an event. False: the channel is dead. */
static bool
sleep_for_event(void)
{
	struct ibv_cq *cq;
	void *cookie;

	if (ibv_get_cq_event(s.channel, &cq, &cookie))
		return false;
	ibv_ack_cq_events(cq, 1);
	/* EIO: no completion will follow, as the poll will show */
	ibv_req_notify_cq(cq, 0);
	return true;
}

/* Runs traffic until this many completions, or (0) until the device fails and all CQs are empty. */
static void
run(uint64_t completions)
{
	bool dry;

	do {
		dry = true;
		for (unsigned int i = 0; i < s.nqps; i++) {
			post_end(i);
			dry &= !poll_cq(s.end[i].cq);
		}
		if (completions == 0 && s.completions >= RUNNING) {
			static bool said;

			if (!said)
				puts("running");
			said = true;
			fflush(stdout);
		}
		if (opt.events && !dry && !sleep_for_event() && completions)
			die("channel: %m");
	} while (!dry && (completions == 0 || s.completions < completions));
	if (completions && dry)
		die("the device failed");
}

/* Every WR has completed, except successful unsignaled sends before any that failed. */
static void
account(void)
{
	unsigned int quiet_left = 0;

	for (uint32_t id = 0; id < next_wr; id++) {
		if (wr_state[id] == WR_SEND || wr_state[id] == WR_RECV)
			die("WR %u of %u never completed", id, next_wr);
		quiet_left += wr_state[id] == WR_SEND_QUIET;
	}
	printf("%u WRs, %u unsignaled ones without a completion\n", next_wr, quiet_left);
}

static void *
await_fatal(void *arg)
{
	struct ibv_async_event ev;

	(void)arg;
	while (ibv_get_async_event(s.ctx, &ev) == 0) {
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL)
			s.fatal = true;
		ibv_ack_async_event(&ev);
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	struct ibv_device *dev;
	pthread_t t;
	int c, tries = 0;

	while ((c = getopt(argc, argv, "q:cse")) != -1) {
		opt.pairs = c == 'q' ? (unsigned int)atoi(optarg) : opt.pairs;
		opt.one_cq |= c == 'c';
		opt.srq |= c == 's';
		opt.events |= c == 'e';
	}
	if (optind + 1 != argc || opt.pairs < 1 || 2 * opt.pairs > MAX_QPS)
		die("usage: survivor [-q PAIRS] [-c] [-s] [-e] DEVICE");
	dev = verbs_find(argv[optind]);
	if (!dev || !open_all(dev))
		die("open: %m");
	pthread_create(&t, NULL, await_fatal, NULL);
	run(0);
	account();
	pthread_join(t, NULL);
	if (!s.fatal)
		die("no DEVICE_FATAL");
	close_all();
	puts("drained");
	fflush(stdout);
	while (!open_all(dev)) {
		if (++tries == RETRIES)
			die("open again: %m");
		usleep(RETRY_US);
	}
	memset(wr_state, 0, sizeof(wr_state));
	next_wr = 0;
	run(SECOND);
	close_all();
	puts("again");
	return 0;
}
