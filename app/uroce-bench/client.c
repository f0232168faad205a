/* SPDX-License-Identifier: BSD-3-Clause */
/* Mode "client" itself: which processes there are, in which order they act, and the figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "client.h"

#define RUN_NS        60000000ull
#define LOSS_NS       200000000ull
#define PINGS         20000u
#define PINGS_SLOW    2000u /* of messages that take long */
#define WAKES         10u
#define WAKE_US       100000u
#define IDLE_NS       1000000000l
#define MAX_PROCS     128
#define SETTLE_TENTHS 50

static struct {
	const struct bench_options *o;
	struct client_daemon daemon;
	unsigned n; /* clients that post: active[0 .. n), passive[0 .. n) where they are apart */
	bool apart;
	struct client_proc active[MAX_PROCS], passive[MAX_PROCS];
	uint32_t seed;
	uint64_t moved[MAX_PROCS]; /* messages since the last pattern */
	bool equal;
} clients;

static void
tell(struct client_proc *p, struct client_command c)
{
	client_say(p, &c, sizeof(c));
}

static struct client_answer
heard(struct client_proc *p)
{
	struct client_answer a;

	client_hear(p, &a, sizeof(a));
	return a;
}

/* The addresses of one process's QPs to the other. */
static void
pass_addresses(struct client_proc *from, struct client_proc *to)
{
	struct client_address a;

	for (uint32_t q = 0; q < clients.o->qps; q++) {
		client_hear(from, &a, sizeof(a));
		client_say(to, &a, sizeof(a));
	}
}

static void
connect_all(void)
{
	struct client_command c = {.order = CLIENT_CONNECT};

	for (unsigned i = 0; i < clients.n; i++) {
		tell(&clients.active[i], c);
		if (clients.apart) {
			tell(&clients.passive[i], c);
			pass_addresses(&clients.active[i], &clients.passive[i]);
			pass_addresses(&clients.passive[i], &clients.active[i]);
			heard(&clients.passive[i]);
		}
		heard(&clients.active[i]);
	}
}

/* Daemon and clients, with nothing connected yet. */
static void
start_all(const struct bench_options *o)
{
	struct client_plan plan;
	const char *here = o->socket, *there;

	if (o->socket != NULL)
		snprintf(clients.daemon.socket, sizeof(clients.daemon.socket), "%s", o->socket);

	clients.o = o;
	clients.n = o->clients;
	clients.apart = client_apart(o);
	clients.equal = true;
	if (here == NULL) {
		if (clients.daemon.pid == 0)
			client_daemon_start(&clients.daemon, o);
		here = clients.daemon.socket;
	}
	there = o->peer_socket != NULL ? o->peer_socket : here;
	for (unsigned i = 0; i < clients.n; i++) {
		client_plan_make(&plan, o, clients.apart ? CLIENT_ACTIVE : CLIENT_BOTH);
		client_start(&clients.active[i], 2 * i, here, &plan);
		if (!clients.apart)
			continue;
		client_plan_make(&plan, o, CLIENT_PASSIVE);
		client_start(&clients.passive[i], 2 * i + 1, there, &plan);
	}
}

/* New bytes everywhere, and the passive side at work. */
static void
prepare(bool pong)
{
	struct client_command c = {.order = CLIENT_PATTERN, .seed = ++clients.seed};

	for (unsigned i = 0; i < clients.n; i++) {
		clients.moved[i] = 0;
		tell(&clients.active[i], c);
		heard(&clients.active[i]);
		if (!clients.apart)
			continue;
		tell(&clients.passive[i], c);
		heard(&clients.passive[i]);
		tell(&clients.passive[i],
		     (struct client_command){.order = CLIENT_SERVE, .count = pong});
	}
}

/* Ends what prepare began: are the bytes of this run where they belong? */
static void
verify(void)
{
	for (unsigned i = 0; i < clients.n; i++) {
		struct client_command c = {.order = CLIENT_VERIFY,
					   .seed = clients.seed,
					   .count = clients.moved[i]};

		if (clients.apart) {
			tell(&clients.passive[i], (struct client_command){.order = CLIENT_STOP});
			heard(&clients.passive[i]);
			tell(&clients.passive[i], c);
			clients.equal &= heard(&clients.passive[i]).equal != 0;
		}
		tell(&clients.active[i], c);
		clients.equal &= heard(&clients.active[i]).equal != 0;
	}
}

/* One run of all clients at once: messages a nanosecond, from the first start to the last end. */
static double
run_rate(uint64_t ns, uint64_t count)
{
	struct client_command c = {.order = CLIENT_RATE, .ns = ns, .count = count};
	uint64_t first = UINT64_MAX, last = 0, messages = 0;

	prepare(false);
	for (unsigned i = 0; i < clients.n; i++)
		tell(&clients.active[i], c);
	for (unsigned i = 0; i < clients.n; i++) {
		struct client_answer a = heard(&clients.active[i]);

		first = a.start_ns < first ? a.start_ns : first;
		last = a.end_ns > last ? a.end_ns : last;
		messages += a.messages;
		clients.moved[i] = a.messages;
	}
	verify();
	return (double)messages / (double)(last - first);
}

/* One run of pings, all clients at once. */
static void
run_ping(uint32_t count, uint32_t pause_us, struct client_hist *h)
{
	struct client_command c = {.order = CLIENT_PING, .count = count, .pause_us = pause_us};
	struct client_hist one;

	prepare(true);
	for (unsigned i = 0; i < clients.n; i++)
		tell(&clients.active[i], c);
	for (unsigned i = 0; i < clients.n; i++) {
		clients.moved[i] = heard(&clients.active[i]).messages;
		client_hear(&clients.active[i], &one, sizeof(one));
		client_hist_merge(h, &one);
	}
	verify();
}

static const char *
title(const char *what)
{
	static char name[160];
	const struct bench_options *o = clients.o;

	snprintf(name, sizeof(name), "client, %s, RC %s, %u B, MTU %u, %u QP%s, %u client%s%s%s",
		 what, bench_op_name[o->op], o->size, o->mtu, o->qps, o->qps == 1 ? "" : "s",
		 o->clients, o->clients == 1 ? "" : "s", clients.apart ? " apart" : "",
		 clients.equal ? "" : ": BYTES DIFFER");
	return name;
}

/* What the cores are like right now: a cache line's trip there and back, the slower core's loop. */
static void
look_at_cores(struct bench_figure *line, struct bench_figure *speed, double line_unit_ns)
{
	double ns[BENCH_CORES];

	if (clients.o->no_probe)
		return;
	if (line != NULL)
		bench_figure_add(line, 2 * bench_core_distance() / line_unit_ns);
	bench_core_speed(ns);
	bench_figure_add(speed, ns[0] > ns[1] ? ns[0] : ns[1]);
}

static void
measure_rate(struct bench_report *r)
{
	struct bench_figure rate = {.n = 0}, gbps = {.n = 0}, speed = {.n = 0};
	const struct bench_options *o = clients.o;

	connect_all();
	run_rate(RUN_NS / 4, 0);
	for (uint32_t i = 0; i < o->runs; i++) {
		double per_ns = run_rate(o->count != 0 ? 0 : RUN_NS, o->count);

		look_at_cores(NULL, &speed, 1);
		bench_figure_add(&rate, 1e3 * per_ns);
		bench_figure_add(&gbps, per_ns * o->size * 8);
	}
	bench_report_row(r, title("rate"), "messages", &rate, "M/s", "goodput", &gbps, "Gb/s",
			 "core_speed", &speed, "ns", NULL);
}

/* Frames are lost, or not, on both devices: requests and answers. */
static void
lose(double percent)
{
	client_loss_set(&clients.daemon, clients.o->dev, percent);
	client_loss_set(&clients.daemon, clients.o->peer_dev, percent);
}

/* Without and with loss in turn, so that both have the same of the cores. */
static void
measure_loss(struct bench_report *r)
{
	struct bench_figure whole = {.n = 0}, gbps = {.n = 0}, share = {.n = 0}, resent = {.n = 0},
			    probes = {.n = 0}, timeouts = {.n = 0}, exhausted = {.n = 0},
			    speed = {.n = 0};
	const struct bench_options *o = clients.o;
	struct client_losses was, now;
	char what[32];

	connect_all();
	run_rate(RUN_NS / 4, 0);
	for (uint32_t i = 0; i < o->runs; i++) {
		double bits = o->size * 8.0, good = bits * run_rate(RUN_NS, 0), lossy;

		client_loss_counters(&clients.daemon, &was);
		lose(o->loss);
		lossy = bits * run_rate(LOSS_NS, 0);
		lose(0);
		client_loss_counters(&clients.daemon, &now);
		look_at_cores(NULL, &speed, 1);
		bench_figure_add(&whole, good);
		bench_figure_add(&gbps, lossy);
		bench_figure_add(&share, lossy / good);
		bench_figure_add(&resent, (double)(now.resent - was.resent));
		bench_figure_add(&probes, (double)(now.probes - was.probes));
		bench_figure_add(&timeouts, (double)(now.timeouts - was.timeouts));
		bench_figure_add(&exhausted, (double)(now.exhausted - was.exhausted));
	}
	snprintf(what, sizeof(what), "%g %% of frames lost", o->loss);
	bench_report_row(r, title(what), "goodput", &gbps, "Gb/s", "share", &share, "of lossless",
			 "lossless", &whole, "Gb/s", "resent", &resent, "packets", "probes",
			 &probes, "", "timeouts", &timeouts, "", "exhausted", &exhausted, "QPs",
			 "core_speed", &speed, "ns", NULL);
}

static void
measure_latency(struct bench_report *r)
{
	struct bench_figure p50 = {.n = 0}, p99 = {.n = 0}, p999 = {.n = 0}, line = {.n = 0},
			    speed = {.n = 0};
	const struct bench_options *o = clients.o;
	uint32_t pings = o->count != 0 ? (uint32_t)o->count : PINGS;
	/* a ping of SEND is there and back, its latency half of it */
	double us = o->op == BENCH_SEND ? 2e3 : 1e3;

	if (o->count == 0 && o->size > 65536)
		pings = PINGS_SLOW;
	connect_all();
	for (uint32_t i = 0; i < o->runs; i++) {
		struct client_hist h = {0};

		look_at_cores(&line, &speed, 1e3);
		run_ping(pings, 0, &h);
		bench_figure_add(&p50, client_hist_at(&h, 0.5) / us);
		bench_figure_add(&p99, client_hist_at(&h, 0.99) / us);
		bench_figure_add(&p999, client_hist_at(&h, 0.999) / us);
	}
	bench_report_row(r, title("latency"), "p50", &p50, "us", "p99", &p99, "us", "p99.9", &p999,
			 "us", "line_round_trip", &line, "us", "core_speed", &speed, "ns", NULL);
}

/* The pieces of count windows unbound, all clients at once: their means. */
static struct client_pieces
run_hops(uint32_t count)
{
	struct client_command c = {.order = CLIENT_HOPS, .count = count};
	struct client_pieces sum = {0}, one;

	for (unsigned i = 0; i < clients.n; i++)
		tell(&clients.active[i], c);
	for (unsigned i = 0; i < clients.n; i++) {
		heard(&clients.active[i]);
		client_hear(&clients.active[i], &one, sizeof(one));
		sum.post_ns += one.post_ns / clients.n;
		sum.away_ns += one.away_ns / clients.n;
		sum.poll_ns += one.poll_ns / clients.n;
	}
	return sum;
}

/*
 * To the worker and back, by a WR of which no packet is made: from the client having published it
 * until a poll has found its completion, less what the worker does of it and what such a poll takes
 * with the completion at hand. What is left has the two hops, and of the worker's loop and the
 * client's, half a turn each.
 */
static void
measure_hops(struct bench_report *r)
{
	struct bench_figure hops = {.n = 0}, whole = {.n = 0}, step = {.n = 0}, line = {.n = 0},
			    post = {.n = 0}, away = {.n = 0}, poll = {.n = 0}, bare = {.n = 0},
			    publish = {.n = 0}, speed = {.n = 0};
	const struct bench_options *o = clients.o;
	char name[80];

	connect_all();
	for (uint32_t i = 0; i < o->runs; i++) {
		double ns = client_step_ns();
		struct client_pieces p;
		struct client_floor f;

		look_at_cores(&line, &speed, 1);
		client_floor(&f);
		bench_figure_add(&bare, f.away_ns);
		bench_figure_add(&publish, f.publish_ns);
		p = run_hops(o->count != 0 ? (uint32_t)o->count : PINGS);
		bench_figure_add(&step, ns);
		bench_figure_add(&post, p.post_ns);
		bench_figure_add(&away, p.away_ns);
		bench_figure_add(&poll, p.poll_ns);
		bench_figure_add(&whole, p.post_ns + p.away_ns);
		bench_figure_add(&hops, p.away_ns - ns - p.poll_ns);
	}
	snprintf(name, sizeof(name), "client, hops, a window unbound, no packet, %u client%s",
		 o->clients, o->clients == 1 ? "" : "s");
	bench_report_row(r, name, "hops", &hops, "ns", "whole", &whole, "ns", "post", &post, "ns",
			 "published_to_found", &away, "ns", "worker_step", &step, "ns", "poll",
			 &poll, "ns", "bare_rings", &bare, "ns", "bare_publish", &publish, "ns",
			 "line_round_trip", &line, "ns", "core_speed", &speed, "ns", NULL);
}

static void
measure_wake(struct bench_report *r)
{
	struct bench_figure median = {.n = 0}, worst = {.n = 0}, bare = {.n = 0};

	connect_all();
	for (uint32_t i = 0; i < clients.o->runs; i++) {
		struct client_hist h = {0}, eventfd = {0};

		run_ping(WAKES, WAKE_US, &h);
		/* where the client is, and where a worker of ours is */
		client_bare_wakes(client_cpu(0), client_cpu(client_cpus() - 1), WAKES, WAKE_US,
				  &eventfd);
		bench_figure_add(&bare, client_hist_at(&eventfd, 0.5) / 1e3);
		bench_figure_add(&median, client_hist_at(&h, 0.5) / 1e3);
		bench_figure_add(&worst, client_hist_at(&h, 1) / 1e3);
	}
	bench_report_row(r, title("first message after 100 ms"), "median", &median, "us", "worst",
			 &worst, "us", "bare_eventfd", &bare, "us", NULL);
}

static void
measure_idle(struct bench_report *r)
{
	struct bench_figure share = {.n = 0}, bare = {.n = 0};
	struct client_hist h = {0};

	connect_all();
	run_ping(1000, 0, &h);
	for (uint32_t i = 0; i < clients.o->runs; i++) {
		struct timespec second = {.tv_sec = IDLE_NS / 1000000000};
		uint64_t cpu = client_cpu_ns(clients.daemon.pid);

		nanosleep(&second, NULL);
		cpu = client_cpu_ns(clients.daemon.pid) - cpu;
		bench_figure_add(&share, 100.0 * (double)cpu / (double)IDLE_NS);
		bench_figure_add(&bare, 100.0 * client_bare_sleeps(client_cpu(client_cpus() - 1),
								   IDLE_NS / 4));
	}
	bench_report_row(r, title("idle daemon"), "cpu", &share, "% of a core", "bare_sleeper",
			 &bare, "% of a core", NULL);
}

/* Daemon and clients, in bytes. */
static double
memory_now(void)
{
	uint64_t sum = client_memory(clients.daemon.pid);

	for (unsigned i = 0; i < clients.n; i++)
		sum += client_memory(clients.active[i].pid);
	return (double)sum;
}

/* The same, once it does not change any more: the daemon takes its time with who has left. */
static double
memory_settled(void)
{
	struct timespec tenth = {.tv_nsec = 100000000};
	double now = memory_now(), before = 0;

	for (unsigned i = 0; now != before && i < SETTLE_TENTHS; i++) {
		before = now;
		nanosleep(&tenth, NULL);
		now = memory_now();
	}
	return now;
}

static void
measure_memory(struct bench_report *r)
{
	struct bench_figure made = {.n = 0}, used = {.n = 0};
	const struct bench_options *o = clients.o;
	double qps = 2.0 * o->qps * o->clients, before;

	before = memory_settled();
	connect_all();
	bench_figure_add(&made, (memory_settled() - before) / qps);
	/* each message of the first round is on its QP at the same time as those of all others */
	run_rate(RUN_NS, 0);
	bench_figure_add(&used, (memory_settled() - before) / qps);
	bench_report_row(r, title("memory of a QP"), "connected", &made, "B", "all_queues_used",
			 &used, "B", NULL);
}

/* What packets need of memory once they have come, QPs or not: before it is measured. */
static void
warm_up(const struct bench_options *o)
{
	struct bench_options one = *o;

	one.qps = one.clients = 1;
	start_all(&one);
	connect_all();
	run_rate(RUN_NS, 0);
	client_end_all(false);
}

int
bench_client(const struct bench_options *o, struct bench_report *r)
{
	client_check(o);
	if (o->measure == BENCH_MEMORY) {
		if (o->socket == NULL)
			client_daemon_start(&clients.daemon, o);
		warm_up(o);
	}
	start_all(o);
	switch (o->measure) {
	case BENCH_LATENCY:
		measure_latency(r);
		break;
	case BENCH_HOPS:
		measure_hops(r);
		break;
	case BENCH_WAKE:
		measure_wake(r);
		break;
	case BENCH_IDLE:
		measure_idle(r);
		break;
	case BENCH_MEMORY:
		measure_memory(r);
		break;
	default:
		if (o->loss > 0)
			measure_loss(r);
		else
			measure_rate(r);
	}
	client_end_all(true);
	return clients.equal ? 0 : 1;
}
