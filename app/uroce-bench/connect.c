/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "connect": rdma_cm connections per second, and the times of connect and disconnect. The mode
 * starts a daemon with two devices and one process under uroce-run, in which one thread accepts on
 * uroce0 and others connect to it. The destination is an address of uroce0, so uroce0 is the device
 * of both ends.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include "client.h"

#define HERE                "10.9.0.101" /* of uroce0, which listens */
#define PORT                18515
#define TIMEOUT_MS          5000
#define NO_QP               0x800000u /* first made-up QPN of the side that connects */
#define NO_QP_PEER          0x400000u /* the accepting side's are smaller by this */
#define CONNECT_MAX_CLIENTS 64

/* An order for the process, over SOCK_SEQPACKET: connections to make, by all threads together. */
struct connect_order {
	uint32_t count;
	uint32_t clients; /* threads that connect, 1 .. CONNECT_MAX_CLIENTS */
	uint32_t keep; /* 1: they stay open; 0: each is disconnected before its thread's next one */
	uint32_t no_qps; /* 1: without QPs, with made-up QPNs; only with keep */
};

/* The reply; a struct client_hist of connects and one of disconnects follow it. */
struct connect_answer {
	uint64_t ns; /* from the first thread's start to the last one's end */
	/* sums over all connections */
	uint64_t connects_ns; /* from rdma_create_id to ESTABLISHED */
	uint64_t asked_ns;    /* from rdma_connect to ESTABLISHED */
};

static void
fail(const char *what)
{
	fprintf(stderr, "uroce-bench: connect: %s: %m\n", what);
	exit(1);
}

/* What the QPs of one device and thread share. */
struct shared {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

static void
make_qp(struct rdma_cm_id *id, struct shared *s)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};

	if (s->pd == NULL) {
		s->pd = ibv_alloc_pd(id->verbs);
		s->cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
		if (s->pd == NULL || s->cq == NULL)
			fail("PD or CQ");
	}
	attr.send_cq = attr.recv_cq = s->cq;
	if (rdma_create_qp(id, s->pd, &attr) != 0)
		fail("rdma_create_qp");
}

static void
destroy(struct rdma_cm_id *id)
{
	if (id->qp != NULL)
		rdma_destroy_qp(id);
	if (rdma_destroy_id(id) != 0)
		fail("rdma_destroy_id");
}

/* ---- the side that accepts ---- */

/* An id whose connection has ended is kept here until its last event, TIMEWAIT_EXIT or none. */
static void
serve(struct rdma_cm_event *event, struct shared *s)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	const struct rdma_conn_param *asked = &event->param.conn;
	bool no_qp = asked->private_data_len != 0 && *(const uint8_t *)asked->private_data != 0;
	uint32_t peer_qpn = asked->qp_num;
	struct rdma_cm_id *id = event->id;
	enum rdma_cm_event_type type = event->event;

	rdma_ack_cm_event(event);
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (no_qp)
			param.qp_num = peer_qpn - NO_QP_PEER;
		else
			make_qp(id, s);
		if (rdma_accept(id, &param) != 0)
			fail("rdma_accept");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		destroy(id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "uroce-bench: connect: the server got %s\n", rdma_event_str(type));
		exit(1);
	}
}

static void *
server(void *ctx)
{
	struct rdma_event_channel *channel = ctx;
	struct shared s = {0};
	struct rdma_cm_event *event;

	for (;;) {
		if (rdma_get_cm_event(channel, &event) != 0)
			fail("rdma_get_cm_event");
		serve(event, &s);
	}
	return NULL;
}

static struct sockaddr_in
address(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	inet_pton(AF_INET, HERE, &a.sin_addr);
	return a;
}

static void
start_server(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in a = address();
	struct rdma_cm_id *id;
	pthread_t thread;

	if (channel == NULL || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(id, (struct sockaddr *)&a) != 0 || rdma_listen(id, 1024) != 0)
		fail("listen");
	if (pthread_create(&thread, NULL, server, channel) != 0)
		fail("pthread_create");
}

/* ---- the side that connects ---- */

struct connector {
	pthread_t thread;
	struct rdma_event_channel *channel;
	struct shared shared;
	uint32_t count, keep;
	uint32_t no_qps, made_up; /* without QPs: QPNs so far */
	uint64_t connects_ns, asked_ns;
	struct client_hist connects, disconnects;
};

static void
expect(struct connector *c, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type got;

	do {
		if (rdma_get_cm_event(c->channel, &event) != 0)
			fail("rdma_get_cm_event");
		got = event->event;
		rdma_ack_cm_event(event);
	} while (got == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	if (got == type)
		return;
	fprintf(stderr, "uroce-bench: connect: %s instead of %s\n", rdma_event_str(got),
		rdma_event_str(type));
	exit(1);
}

/* Requests the connection and waits until it is established. */
static void
ask(struct connector *c, struct rdma_cm_id *id)
{
	uint8_t no_qp = c->no_qps != 0; /* tells the server */
	struct rdma_conn_param param = {.private_data = &no_qp,
					.private_data_len = sizeof(no_qp),
					.retry_count = 7,
					.rnr_retry_count = 7};
	uint64_t begin = bench_now_ns();

	if (c->no_qps)
		param.qp_num = NO_QP + c->made_up++;
	if (rdma_connect(id, &param) != 0)
		fail("rdma_connect");
	if (c->no_qps) { /* librdmacm leaves it to a program without a QP */
		expect(c, RDMA_CM_EVENT_CONNECT_RESPONSE);
		if (rdma_establish(id) != 0)
			fail("rdma_establish");
	} else {
		expect(c, RDMA_CM_EVENT_ESTABLISHED);
	}
	client_hist_add(&c->connects, bench_now_ns() - begin);
	c->asked_ns += bench_now_ns() - begin;
}

static struct rdma_cm_id *
connect_one(struct connector *c)
{
	struct sockaddr_in a = address();
	uint64_t begin = bench_now_ns();
	struct rdma_cm_id *id;

	if (rdma_create_id(c->channel, &id, NULL, RDMA_PS_TCP) != 0)
		fail("rdma_create_id");
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, TIMEOUT_MS) != 0)
		fail("rdma_resolve_addr");
	expect(c, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, TIMEOUT_MS) != 0)
		fail("rdma_resolve_route");
	expect(c, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (!c->no_qps)
		make_qp(id, &c->shared);
	ask(c, id);
	c->connects_ns += bench_now_ns() - begin;
	return id;
}

static void *
connector(void *ctx)
{
	struct connector *c = ctx;

	for (uint32_t i = 0; i < c->count; i++) {
		struct rdma_cm_id *id = connect_one(c);
		uint64_t begin = bench_now_ns();

		if (c->keep)
			continue;
		if (rdma_disconnect(id) != 0)
			fail("rdma_disconnect");
		expect(c, RDMA_CM_EVENT_DISCONNECTED);
		client_hist_add(&c->disconnects, bench_now_ns() - begin);
		destroy(id);
	}
	return NULL;
}

static void
carry_out(int sock, const struct connect_order *o)
{
	static struct connector c[CONNECT_MAX_CLIENTS];
	static struct client_hist connects, disconnects;
	struct connect_answer a = {0};
	uint64_t begin;

	for (uint32_t i = 0; i < o->clients; i++) {
		if (c[i].channel == NULL && (c[i].channel = rdma_create_event_channel()) == NULL)
			fail("rdma_create_event_channel");
		c[i].count = o->count / o->clients + (i < o->count % o->clients);
		c[i].keep = o->keep;
		c[i].no_qps = o->no_qps;
		c[i].connects_ns = c[i].asked_ns = 0;
		c[i].connects.n = c[i].disconnects.n = 0;
		memset(c[i].connects.cell, 0, sizeof(c[i].connects.cell));
		memset(c[i].disconnects.cell, 0, sizeof(c[i].disconnects.cell));
	}
	begin = bench_now_ns();
	for (uint32_t i = 0; i < o->clients; i++)
		if (pthread_create(&c[i].thread, NULL, connector, &c[i]) != 0)
			fail("pthread_create");
	memset(&connects, 0, sizeof(connects));
	memset(&disconnects, 0, sizeof(disconnects));
	for (uint32_t i = 0; i < o->clients; i++) {
		pthread_join(c[i].thread, NULL);
		a.connects_ns += c[i].connects_ns;
		a.asked_ns += c[i].asked_ns;
		client_hist_merge(&connects, &c[i].connects);
		client_hist_merge(&disconnects, &c[i].disconnects);
	}
	a.ns = bench_now_ns() - begin;
	if (client_send(sock, &a, sizeof(a)) < 0 ||
	    client_send(sock, &connects, sizeof(connects)) < 0 ||
	    client_send(sock, &disconnects, sizeof(disconnects)) < 0)
		exit(1);
}

int
connect_main(int argc, char **argv)
{
	int sock = argc == 3 ? atoi(argv[2]) : -1;
	struct connect_order o;
	char hello;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start_server();
	if (client_recv(sock, &hello, 1) < 0)
		return 1;
	while (client_recv(sock, &o, sizeof(o)) == 0)
		carry_out(sock, &o);
	return 0;
}

/* ---- the mode ---- */

#define COUNT 500u /* connections of a run, unless --count says */

static struct connect_answer
order(struct client_proc *p, struct connect_order what, struct client_hist *connects,
      struct client_hist *disconnects)
{
	struct connect_answer a;

	client_say(p, &what, sizeof(what));
	client_hear(p, &a, sizeof(a));
	client_hear(p, connects, sizeof(*connects));
	client_hear(p, disconnects, sizeof(*disconnects));
	return a;
}

/* Adds the four quantiles; disconnects only if there were any. */
static void
add_times(struct bench_report *r, const struct client_hist *connects,
	  const struct client_hist *disconnects)
{
	bench_add(r, "connect_p50", "us", client_hist_at(connects, 0.5) / 1e3);
	bench_add(r, "connect_p99", "us", client_hist_at(connects, 0.99) / 1e3);
	if (disconnects->n == 0)
		return;
	bench_add(r, "disconnect_p50", "us", client_hist_at(disconnects, 0.5) / 1e3);
	bench_add(r, "disconnect_p99", "us", client_hist_at(disconnects, 0.99) / 1e3);
}

/* Makes and ends connections, with `live` others alive. */
static void
measure(const struct bench_options *o, struct bench_report *r, struct client_proc *p, uint32_t live)
{
	static struct client_hist connects, disconnects;
	struct connect_order what = {.count = o->count != 0 ? (uint32_t)o->count : COUNT,
				     .clients = o->clients};

	for (uint32_t run = 0; run < o->runs; run++) {
		struct connect_answer a = order(p, what, &connects, &disconnects);

		bench_add(r, "connects", "/s",
			  (double)what.count * o->clients / ((double)a.connects_ns / 1e9));
		bench_add(r, "connect_rate", "/s",
			  (double)what.count * o->clients / ((double)a.asked_ns / 1e9));
		bench_add(r, "cycles", "/s", (double)what.count / ((double)a.ns / 1e9));
		add_times(r, &connects, &disconnects);
	}
	bench_report_row(r, "connect, %u client%s, %u live", o->clients, o->clients > 1 ? "s" : "",
			 live);
}

/* Establishes `live` connections, keeps them open and reports the memory they cost the daemon. */
static void
keep(const struct bench_options *o, struct bench_report *r, struct client_proc *p,
     const struct client_daemon *d)
{
	static struct client_hist connects, disconnects;
	struct connect_order what = {.count = o->live,
				     .clients = 1,
				     .keep = 1,
				     .no_qps = o->no_qps};
	uint64_t before = client_memory(d->pid);
	struct connect_answer a = order(p, what, &connects, &disconnects);

	bench_add(r, "connects", "/s", (double)what.count / ((double)a.connects_ns / 1e9));
	add_times(r, &connects, &disconnects);
	bench_add(r, "memory", "KiB each",
		  (double)(client_memory(d->pid) - before) / 1024 / what.count);
	bench_report_row(r, "%u connections that stay, %s QP at both ends", o->live,
			 o->no_qps ? "without" : "with");
}

int
bench_connect(const struct bench_options *o, struct bench_report *r)
{
	struct client_daemon d;
	struct client_proc p;

	client_daemon_start(&d, o);
	client_start(&p, CONNECT_MODE, -1, d.socket, "", 1);
	if (!o->no_qps) /* QPNs in TIMEWAIT could equal made-up ones */
		measure(o, r, &p, 0);
	if (o->live != 0)
		keep(o, r, &p, &d);
	if (o->live != 0 && !o->no_qps)
		measure(o, r, &p, o->live);
	return 0;
}
