/* SPDX-License-Identifier: BSD-3-Clause */
/* The measured loops: many messages in flight, or one at a time. */
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include "client_int.h"

#define CLOCK_TURNS 16   /* iterations between two reads of the clock */
#define PING_TURNS  256  /* pings between two reads of the clock */
#define STOP_TURNS  1024 /* empty polls of the passive side between two polls of its socket */

/* Take the completed receives of side and post as many new ones, in batches. */
static void
replenish(struct client *c, unsigned side)
{
	struct client_end *e = &c->end[side];
	struct ibv_wc wc[CLIENT_POLL];
	int n = client_poll(c, e->rcq, wc);

	for (int i = 0; i < n; i++) {
		uint32_t q = (uint32_t)wc[i].wr_id;

		if (++e->count[q].arrived % c->plan.batch == 0)
			client_post_recvs(c, side, q, c->plan.batch);
	}
}

/* Count completed operations; with more, post as many new ones. */
static uint64_t
advance(struct client *c, bool more)
{
	struct client_end *e = &c->end[0];
	struct ibv_wc wc[CLIENT_POLL];
	int n = client_poll(c, e->scq, wc);

	for (int i = 0; i < n; i++) {
		uint32_t q = (uint32_t)wc[i].wr_id;

		e->count[q].done += c->plan.batch;
		if (more)
			client_post(c, 0, q, c->plan.batch);
	}
	return (uint64_t)n * c->plan.batch;
}

void
client_rate(struct client *c, const struct client_command *cmd, struct client_answer *a)
{
	bool recvs = c->plan.op == BENCH_SEND && c->has[1], more = true;
	uint64_t flying = 0, done = 0, now;

	a->start_ns = bench_now_ns();
	for (uint32_t q = 0; q < c->plan.qps; q++) {
		for (uint32_t d = 0; d + c->plan.batch <= c->plan.depth; d += c->plan.batch) {
			client_post(c, 0, q, c->plan.batch);
			flying += c->plan.batch;
		}
	}
	for (uint32_t turn = 1; flying != 0; turn++) {
		uint64_t n = advance(c, more);

		done += n;
		if (!more)
			flying -= n;
		if (recvs)
			replenish(c, 1);
		if (!more || turn % CLOCK_TURNS != 0)
			continue;
		now = bench_now_ns();
		more = now - a->start_ns < cmd->ns || done < cmd->count;
	}
	a->end_ns = bench_now_ns();
	/* receives may complete after the last SEND has */
	for (uint32_t q = 0; recvs && q < c->plan.qps; q++) {
		while (c->end[1].count[q].arrived != c->end[0].count[q].done)
			replenish(c, 1);
	}
	a->messages = done;
}

static void
wait_for(struct client *c, struct ibv_cq *cq)
{
	struct ibv_wc wc[CLIENT_POLL];

	while (client_poll(c, cq, wc) == 0)
		;
}

/* A SEND one way, from side to the other, which posts its receive again. */
static void
ping_half(struct client *c, unsigned side)
{
	client_post(c, side, 0, 1);
	wait_for(c, c->end[!side].rcq);
	client_post_recvs(c, !side, 0, 1);
}

/* Time of a round trip of SENDs, in ns; one_way: of the first half. Takes their completions. */
static uint64_t
ping_send(struct client *c, bool one_way)
{
	uint64_t start = bench_now_ns(), half;

	if (!c->has[1]) {
		client_post(c, 0, 0, 1);
		wait_for(c, c->end[0].rcq);
		half = bench_now_ns();
		client_post_recvs(c, 0, 0, 1);
		wait_for(c, c->end[0].scq);
		return half - start;
	}
	ping_half(c, 0);
	half = bench_now_ns();
	ping_half(c, 1);
	if (!one_way)
		half = bench_now_ns();
	wait_for(c, c->end[0].scq);
	wait_for(c, c->end[1].scq);
	return half - start;
}

/* Any other operation: from its post to its completion. */
static uint64_t
ping_op(struct client *c)
{
	uint64_t start = bench_now_ns();

	client_post(c, 0, 0, 1);
	wait_for(c, c->end[0].scq);
	return bench_now_ns() - start;
}

void
client_ping(struct client *c, const struct client_command *cmd, struct client_answer *a,
	    struct client_hist *h)
{
	struct timespec pause = {.tv_sec = (time_t)(cmd->pause_us / 1000000),
				 .tv_nsec = (long)(cmd->pause_us % 1000000 * 1000)};

	a->start_ns = bench_now_ns();
	while (a->messages < cmd->count) {
		if (cmd->ns != 0 && a->messages % PING_TURNS == PING_TURNS - 1 &&
		    bench_now_ns() - a->start_ns > cmd->ns)
			break;
		if (cmd->pause_us != 0)
			nanosleep(&pause, NULL);
		client_hist_add(h, c->plan.op == BENCH_SEND ? ping_send(c, cmd->pause_us != 0)
							    : ping_op(c));
		a->messages++;
	}
	a->end_ns = bench_now_ns();
}

static bool
told_to_stop(const struct client *c)
{
	struct pollfd fd = {.fd = c->sock, .events = POLLIN};

	return poll(&fd, 1, 0) != 0;
}

void
client_serve(struct client *c, bool pong)
{
	struct client_end *e = &c->end[1];
	struct ibv_wc wc[CLIENT_POLL];

	/* only SEND needs work on this side */
	if (c->plan.op != BENCH_SEND) {
		struct pollfd fd = {.fd = c->sock, .events = POLLIN};

		poll(&fd, 1, -1);
		return;
	}
	for (uint32_t empty = 0; empty < STOP_TURNS || !told_to_stop(c);) {
		if (empty >= STOP_TURNS)
			empty = 0;
		if (!pong) {
			replenish(c, 1);
			empty++;
			continue;
		}
		if (client_poll(c, e->rcq, wc) == 0) {
			empty++;
			continue;
		}
		e->count[0].arrived++;
		client_post(c, 1, 0, 1);
		client_post_recvs(c, 1, 0, 1);
		wait_for(c, e->scq);
	}
}
