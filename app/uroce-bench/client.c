/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks combinations of options and makes the plan of a client. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "client.h"

#define INLINE_BYTES 64 /* largest inline message when one is sent at a time */

_Noreturn static void
refuse(const char *why)
{
	cli_wrong(&bench_program, "client: %s", why);
}

/* Are the two ends of a connection in two processes? */
static bool
client_apart(const struct bench_options *o)
{
	return o->apart || o->peer_socket != NULL || o->peer_dev != NULL;
}

/* Checks combinations of options. On an error: prints a message and exits with status 2. */
void
client_check(const struct bench_options *o)
{
	if (o->size == 0)
		refuse("--size 0: must be 1 .. 8388608, because there is no data to verify");
	if (o->batch > o->depth)
		refuse("--batch: must be 1 .. --depth, otherwise no batch is ever complete");
	if (o->dev != NULL && strlen(o->dev) >= CLIENT_NAME_MAX)
		refuse("--dev: must be shorter than 64 characters");
	if (o->peer_dev != NULL && strlen(o->peer_dev) >= CLIENT_NAME_MAX)
		refuse("--peer-dev: must be shorter than 64 characters");
	if (o->peer_socket != NULL && o->socket == NULL)
		refuse("--peer-socket: needs --socket for the daemon of this end");
	if (o->socket != NULL && (o->measure == BENCH_IDLE || o->measure == BENCH_MEMORY))
		refuse("--measure idle and memory: only without --socket, because they need a new "
		       "daemon");
	if (client_apart(o) &&
	    (o->measure == BENCH_WAKE || o->measure == BENCH_IDLE || o->measure == BENCH_MEMORY))
		refuse("--apart, --peer-socket, --peer-dev: only with --measure rate or latency");
	if (o->loss > 0 && (o->measure != BENCH_RATE || o->peer_socket != NULL))
		refuse("--loss: only with --measure rate, and both ends on one daemon");
	if (o->sweep)
		refuse("--sweep: only with mode engine");
}

/* Does the measurement send one message at a time? */
static bool
single(const struct bench_options *o)
{
	return o->measure != BENCH_RATE && o->measure != BENCH_MEMORY;
}

/* Makes the plan for a client of that role. */
static void
client_plan_make(struct client_plan *p, const struct bench_options *o, enum client_role role)
{
	unsigned procs = o->clients * (client_apart(o) ? 2 : 1);
	const char *dev = role == CLIENT_PASSIVE && o->peer_dev != NULL ? o->peer_dev : o->dev;

	*p = (struct client_plan){
		.role = role,
		.op = o->op,
		.size = o->size,
		.mtu = o->mtu,
		.qps = o->qps,
		.depth = o->depth,
		.batch = o->batch,
		.queue = o->depth,
		.inline_bytes = single(o) && o->size <= INLINE_BYTES ? o->size : 0,
		.yield = procs + (o->socket == NULL) > client_cpus(),
	};
	if (single(o)) {
		p->batch = 1;
		p->queue = 16;
	} else if (p->batch == 0) {
		p->batch = o->depth / 4 > 16 ? 16 : o->depth / 4 < 1 ? 1 : o->depth / 4;
	}
	if (dev != NULL)
		snprintf(p->dev, sizeof(p->dev), "%s", dev);
}

/* --loss: the daemon drops frames (urocectl impair) and counts retransmissions (show stats). */

struct client_losses { /* the daemon's counters, summed over its devices */
	uint64_t resent, timeouts, probes, exhausted;
};

/* The JSON that urocectl prints for these words, or NULL if it prints none. */
static json_t *
ask(const struct client_daemon *d, const char *const words[])
{
	char path[PATH_MAX], *argv[16] = {path, "--json", "--socket", (char *)d->socket};
	json_t *said = NULL;
	unsigned n = 4;
	int out[2], status;
	pid_t pid;
	FILE *f;

	client_program(path, "urocectl");
	for (const char *const *word = words; *word != NULL; word++)
		argv[n++] = (char *)*word;
	if (pipe2(out, O_CLOEXEC) < 0)
		bench_die("urocectl %s: %m", words[0]);
	pid = bench_spawn(argv, -1, out[1], SIGKILL, NULL);
	close(out[1]);
	f = fdopen(out[0], "r");
	if (f != NULL) {
		said = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
		fclose(f);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		bench_die("urocectl %s: failed; faults are for the daemon's user and for root",
			  words[0]);
	return said;
}

/*
 * Drop percent of the frames that dev receives; negative: remove the fault injector. Exits with 1
 * on failure.
 */
static void
client_loss_set(const struct client_daemon *d, const char *dev, double percent)
{
	char spec[32];
	const char *set[] = {"impair", dev, "set", spec, NULL};
	const char *clear[] = {"impair", dev, "clear", NULL};

	snprintf(spec, sizeof(spec), "drop=%g%%", percent);
	json_decref(ask(d, percent >= 0 ? set : clear));
}

static void
client_loss_counters(const struct client_daemon *d, struct client_losses *sum)
{
	const char *const words[] = {"show", "stats", NULL};
	json_t *said = ask(d, words), *one;
	size_t i;

	memset(sum, 0, sizeof(*sum));
	json_array_foreach(json_object_get(said, "stats"), i, one)
	{
		json_t *total = json_object_get(one, "total");

#define COUNT(field, name) sum->field += (uint64_t)json_integer_value(json_object_get(total, name))
		COUNT(resent, "retransmitted_packets");
		COUNT(timeouts, "ack_timeouts");
		COUNT(probes, "sent_probes");
		COUNT(exhausted, "retry_exceeded");
#undef COUNT
	}
	json_decref(said);
}

/* Mode "client": starts the processes, orders their steps and computes the figures. */

#define RUN_NS        60000000ull
#define LOSS_NS       200000000ull
#define PINGS         20000u
#define PINGS_SLOW    2000u         /* for large messages */
#define PINGS_NS      3000000000ull /* a slow machine has fewer, unless their number is given */
#define WAKES         10u
#define WAKE_US       100000u
#define IDLE_NS       1000000000l
#define MAX_PROCS     128
#define SETTLE_TENTHS 50

static struct {
	const struct bench_options *o;
	struct client_daemon daemon;
	unsigned n; /* posting clients: active[0 .. n); passive[0 .. n) if the ends are apart */
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

/* Pass the addresses of one process's QPs to the other. */
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

/* Start daemon and clients; connect nothing. */
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
		client_start(&clients.active[i], CLIENT_MODE, 2 * (int)i, here, &plan,
			     sizeof(plan));
		if (!clients.apart)
			continue;
		client_plan_make(&plan, o, CLIENT_PASSIVE);
		client_start(&clients.passive[i], CLIENT_MODE, 2 * (int)i + 1, there, &plan,
			     sizeof(plan));
	}
}

/* Write new patterns and start the passive side. */
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

/* Stop the passive side and check the bytes of this run. */
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

/* Run all clients at once. Messages per ns, from the first start to the last end. */
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

/* Run pings on all clients at once. */
static void
run_ping(uint32_t count, uint32_t pause_us, struct client_hist *h)
{
	struct client_command c = {.order = CLIENT_PING,
				   .count = count,
				   .pause_us = pause_us,
				   .ns = clients.o->count != 0 ? 0 : PINGS_NS};
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

static void
end_row(struct bench_report *r, const char *what)
{
	const struct bench_options *o = clients.o;

	bench_report_row(r, "client, %s, RC %s, %u B, MTU %u, %u QP%s, %u client%s%s%s", what,
			 bench_op_name[o->op], o->size, o->mtu, o->qps, o->qps == 1 ? "" : "s",
			 o->clients, o->clients == 1 ? "" : "s", clients.apart ? " apart" : "",
			 clients.equal ? "" : ": BYTES DIFFER");
}

/* Measures the loop of the slower core. */
static void
add_speed(struct bench_report *r)
{
	double ns[BENCH_CORES];

	if (clients.o->no_probe)
		return;
	bench_core_speed(ns);
	bench_add(r, "core_speed", "ns", ns[0] > ns[1] ? ns[0] : ns[1]);
}

static void
measure_rate(struct bench_report *r)
{
	const struct bench_options *o = clients.o;

	connect_all();
	run_rate(RUN_NS / 4, 0);
	for (uint32_t i = 0; i < o->runs; i++) {
		double per_ns = run_rate(o->count != 0 ? 0 : RUN_NS, o->count);

		bench_add(r, "messages", "M/s", 1e3 * per_ns);
		bench_add(r, "goodput", "Gb/s", per_ns * o->size * 8);
		add_speed(r);
	}
	end_row(r, "rate");
}

/*
 * Drops this share of the frames on both devices, so of requests and of responses; negative:
 * removes the fault injector.
 */
static void
lose(double percent)
{
	client_loss_set(&clients.daemon, clients.o->dev, percent);
	client_loss_set(&clients.daemon, clients.o->peer_dev, percent);
}

/*
 * Alternate runs without and with loss, so that both see the same state of the cores. Both pass the
 * fault injector, whose own cost is not one of losses.
 */
static void
measure_loss(struct bench_report *r)
{
	const struct bench_options *o = clients.o;
	struct client_losses was, now;
	char what[32];

	connect_all();
	lose(0);
	run_rate(RUN_NS / 4, 0);
	for (uint32_t i = 0; i < o->runs; i++) {
		double bits = o->size * 8.0, good = bits * run_rate(RUN_NS, 0), lossy;

		client_loss_counters(&clients.daemon, &was);
		lose(o->loss);
		lossy = bits * run_rate(LOSS_NS, 0);
		lose(0);
		client_loss_counters(&clients.daemon, &now);
		bench_add(r, "goodput", "Gb/s", lossy);
		bench_add(r, "share", "of lossless", lossy / good);
		bench_add(r, "lossless", "Gb/s", good);
		bench_add(r, "resent", "packets", (double)(now.resent - was.resent));
		bench_add(r, "probes", "", (double)(now.probes - was.probes));
		bench_add(r, "timeouts", "", (double)(now.timeouts - was.timeouts));
		bench_add(r, "exhausted", "QPs", (double)(now.exhausted - was.exhausted));
		add_speed(r);
	}
	lose(-1);
	snprintf(what, sizeof(what), "%g %% of frames lost", o->loss);
	end_row(r, what);
}

static void
measure_latency(struct bench_report *r)
{
	const struct bench_options *o = clients.o;
	uint32_t pings = o->count != 0 ? (uint32_t)o->count : PINGS;
	/* a SEND ping is a round trip; the latency is half of it */
	double us = o->op == BENCH_SEND ? 2e3 : 1e3;

	if (o->count == 0 && o->size > 65536)
		pings = PINGS_SLOW;
	connect_all();
	for (uint32_t i = 0; i < o->runs; i++) {
		struct client_hist h = {0};

		if (!o->no_probe)
			bench_add(r, "line_round_trip", "us", 2e-3 * bench_core_distance());
		add_speed(r);
		run_ping(pings, 0, &h);
		bench_add(r, "p50", "us", client_hist_at(&h, 0.5) / us);
		bench_add(r, "p99", "us", client_hist_at(&h, 0.99) / us);
		bench_add(r, "p99.9", "us", client_hist_at(&h, 0.999) / us);
	}
	end_row(r, "latency");
}

static void
measure_wake(struct bench_report *r)
{
	connect_all();
	for (uint32_t i = 0; i < clients.o->runs; i++) {
		struct client_hist h = {0};

		run_ping(WAKES, WAKE_US, &h);
		bench_add(r, "median", "us", client_hist_at(&h, 0.5) / 1e3);
		bench_add(r, "worst", "us", client_hist_at(&h, 1) / 1e3);
	}
	end_row(r, "first message after 100 ms");
}

static void
measure_idle(struct bench_report *r)
{
	struct client_hist h = {0};

	connect_all();
	run_ping(1000, 0, &h);
	for (uint32_t i = 0; i < clients.o->runs; i++) {
		struct timespec second = {.tv_sec = IDLE_NS / 1000000000};
		uint64_t cpu = client_cpu_ns(clients.daemon.pid);

		nanosleep(&second, NULL);
		cpu = client_cpu_ns(clients.daemon.pid) - cpu;
		bench_add(r, "cpu", "% of a core", 100.0 * (double)cpu / (double)IDLE_NS);
	}
	end_row(r, "idle daemon");
}

/* Memory of daemon and clients in bytes. */
static double
memory_now(void)
{
	uint64_t sum = client_memory(clients.daemon.pid);

	for (unsigned i = 0; i < clients.n; i++)
		sum += client_memory(clients.active[i].pid);
	return (double)sum;
}

/* The same once it is stable: the daemon frees the memory of ended clients with a delay. */
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
	const struct bench_options *o = clients.o;
	double qps = 2.0 * o->qps * o->clients, before;

	before = memory_settled();
	connect_all();
	bench_add(r, "connected", "B", (memory_settled() - before) / qps);
	/* in the first round all QPs have messages outstanding at the same time */
	run_rate(RUN_NS, 0);
	bench_add(r, "all_queues_used", "B", (memory_settled() - before) / qps);
	end_row(r, "memory of a QP");
}

/* Send packets first, so that memory that any traffic allocates is not counted. */
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
