/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "latency": one SEND at a time between two clients, each on a daemon. With --breakdown both
 * clients and both workers stamp each step, and breakdown.c merges the stamps.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "bounds.h"
#include "breakdown.h"
#include "ipc/client.h"

#define PINGS      5000u
#define PINGS_MOST 20000u /* with --breakdown: as many as a daemon has space for */
#define WARM_UP    500u
#define STAMPS_OF  3u /* of a client, for each ping */

/* One end: its daemon and its client. */
struct end {
	struct client_daemon daemon;
	struct ipc_client ipc;
	char dev[CLIENT_NAME_MAX];
	struct client_proc client;
	uint32_t qpn;
	/* of the current run */
	struct client_steps said;
	struct stamp *client_steps, *worker_steps;
	uint32_t nworker;
	/* of all runs */
	uint64_t slept, preempted;
};

struct latency {
	const struct bench_options *o;
	uint32_t pings;
	struct end end[2];
	struct breakdown b;
	uint32_t seed;
	bool equal;
};

_Noreturn static void
refuse(const char *why)
{
	cli_wrong(&bench_program, "latency: %s", why);
}

void
latency_check(const struct bench_options *o)
{
	unsigned n = o->socket != NULL ? 2 : o->port == BENCH_PORT_NONE ? 3 : 4;

	if (o->size == 0)
		refuse("--size 0: must be 1 .. 8388608, because there is no data to verify");
	if (o->port == BENCH_PORT_VHOST || o->port == BENCH_PORT_AF_XDP)
		refuse("--port: must be memif, af_packet, udp or packet");
	if ((o->socket == NULL) != (o->peer_socket == NULL))
		refuse("--socket: needs --peer-socket, and the reverse");
	if (o->socket != NULL && o->port != BENCH_PORT_NONE)
		refuse("--port: only without --socket, because it needs new daemons");
	if (o->breakdown && o->count > PINGS_MOST)
		refuse("--count: must be at most 20000 with --breakdown");
	bench_cpus_check(o, n,
			 n == 4   ? "worker,client,worker,client"
			 : n == 3 ? "worker,client,client"
				  : "client,client");
}

/*
 * CPU of end e's worker or client. Default: one for each process if there are as many, else one for
 * each end; with one daemon, its worker has the last one.
 */
static unsigned
cpu_of(const struct bench_options *o, unsigned e, bool client)
{
	bool one = o->port == BENCH_PORT_NONE;
	unsigned cpus = client_cpus();

	if (o->cpus.n != 0)
		return o->cpus.v[one ? (client ? 1 + e : 0) : 2 * e + client];
	if (one)
		return client_cpu(!client ? cpus - 1 : e % (cpus > 1 ? cpus - 1 : 1));
	return client_cpu(cpus >= 4 ? 2 * e + client : e % cpus);
}

static void
daemon_one(struct latency *l)
{
	const struct client_daemon_plan plan = {
		.dev = {"name=uroce0,port=net_ring_pa,addr=10.9.0.101/24,mtu=4096",
			"name=uroce1,port=net_ring_pb,addr=10.9.0.102/24,mtu=4096"},
		.cpu = cpu_of(l->o, 0, false),
		.adaptive = true};

	client_daemon_start_as(&l->end[0].daemon, l->o, &plan);
	l->end[1].daemon = l->end[0].daemon;
}

/* Starts the daemon of end e, with this device of EAL, interface or address. */
static void
daemon_of(struct latency *l, unsigned e, const char *vdev)
{
	const struct bench_options *o = l->o;
	struct client_daemon_plan plan = {.cpu = cpu_of(o, e, false), .adaptive = true};
	char dev[256], netdev[16];

	node_net_interface(netdev, 0, e);
	plan.dev[0] = dev;
	plan.vdev = node_net_is_socket(o->port) ? "" : vdev;
	if (o->port == BENCH_PORT_UDP)
		snprintf(dev, sizeof(dev), "name=uroce0,port=udp,addr=%.40s", vdev);
	else if (o->port == BENCH_PORT_PACKET)
		snprintf(dev, sizeof(dev), "name=uroce0,port=packet,iface=%s,addr=10.9.0.%u/24",
			 netdev, 101 + e);
	else
		snprintf(dev, sizeof(dev), "name=uroce0,port=%.*s,addr=10.9.0.%u/24",
			 (int)strcspn(vdev, ","), vdev, 101 + e);
	node_net_side(node_net_is_socket(o->port) ? e : 0);
	client_daemon_start_as(&l->end[e].daemon, o, &plan);
	node_net_side(0);
}

static void
daemons_start(struct latency *l)
{
	const struct bench_options *o = l->o;
	const char *const sockets[2] = {o->socket, o->peer_socket};
	const char *const devs[2] = {o->dev, o->peer_dev};
	bool one = o->socket == NULL && o->port == BENCH_PORT_NONE;
	char vdev[2][256];

	for (unsigned e = 0; e < 2; e++) {
		snprintf(l->end[e].dev, sizeof(l->end[e].dev), "%s",
			 devs[e] != NULL ? devs[e]
			 : one && e == 1 ? "uroce1"
					 : "uroce0");
		if (o->socket != NULL)
			snprintf(l->end[e].daemon.socket, sizeof(l->end[e].daemon.socket), "%s",
				 sockets[e]);
	}
	if (o->socket != NULL)
		return;
	if (one) {
		daemon_one(l);
		return;
	}
	node_net_port(o, 0, vdev);
	daemon_of(l, 1, vdev[1]); /* the server of memif */
	daemon_of(l, 0, vdev[0]);
}

static void
clients_start(struct latency *l)
{
	const struct bench_options *o = l->o;
	struct client_plan plan = {.op = BENCH_SEND,
				   .size = o->size,
				   .mtu = o->mtu,
				   .qps = 1,
				   .depth = 1,
				   .batch = 1,
				   .queue = 16,
				   .inline_bytes = o->size <= 64 ? o->size : 0,
				   .steps = o->breakdown ? STAMPS_OF * (l->pings + 1) : 0};

	for (unsigned e = 0; e < 2; e++) {
		struct end *end = &l->end[e];

		plan.role = e == 0 ? CLIENT_ACTIVE : CLIENT_PASSIVE;
		memcpy(plan.dev, end->dev, sizeof(plan.dev));
		if (o->socket == NULL)
			client_start_on(&end->client, CLIENT_MODE, cpu_of(o, e, true),
					end->daemon.socket, &plan, sizeof(plan));
		else if (o->cpus.n != 0)
			client_start_on(&end->client, CLIENT_MODE, o->cpus.v[e], end->daemon.socket,
					&plan, sizeof(plan));
		else
			client_start(&end->client, CLIENT_MODE, -1, end->daemon.socket, &plan,
				     sizeof(plan));
	}
}

static struct client_answer
tell(struct end *end, struct client_command c)
{
	struct client_answer a = {0};

	client_say(&end->client, &c, sizeof(c));
	if (c.order != CLIENT_SERVE && c.order != CLIENT_CONNECT && c.order != CLIENT_STEPS)
		client_hear(&end->client, &a, sizeof(a));
	return a;
}

static void
connect_ends(struct latency *l)
{
	struct client_address address;
	struct client_answer a;

	for (unsigned e = 0; e < 2; e++)
		tell(&l->end[e], (struct client_command){.order = CLIENT_CONNECT});
	for (unsigned e = 0; e < 2; e++) {
		client_hear(&l->end[e].client, &address, sizeof(address));
		l->end[e].qpn = address.qpn;
		client_say(&l->end[1 - e].client, &address, sizeof(address));
	}
	for (unsigned e = 0; e < 2; e++)
		client_hear(&l->end[e].client, &a, sizeof(a));
}

/* Returns the number of round trips; adds their times to h. */
static uint32_t
run(struct latency *l, uint32_t pings, struct client_hist *h)
{
	const struct client_command pattern = {.order = CLIENT_PATTERN, .seed = ++l->seed};
	struct client_command verify = {.order = CLIENT_VERIFY, .seed = l->seed};

	for (unsigned e = 0; e < 2; e++)
		tell(&l->end[e], pattern);
	tell(&l->end[1], (struct client_command){.order = CLIENT_SERVE, .count = 1});
	verify.count =
		tell(&l->end[0], (struct client_command){.order = CLIENT_PING, .count = pings})
			.messages;
	client_hear(&l->end[0].client, h, sizeof(*h));
	tell(&l->end[1], (struct client_command){.order = CLIENT_STOP});
	for (unsigned e = 0; e < 2; e++)
		l->equal &= tell(&l->end[e], verify).equal != 0;
	return (uint32_t)verify.count;
}

/* Connects to the daemon, which takes orders to follow QPs from its own user and from root. */
static void
ipc_open(struct end *end)
{
	int fds[UROCE_HELLO_FDS], rc;
	struct uroce_hello_rep rep;
	unsigned n = 0;

	rc = ipc_client_connect(&end->ipc, end->daemon.socket);
	if (rc == 0)
		rc = ipc_client_hello(&end->ipc, "", &rep, fds, &n, NULL);
	while (n != 0)
		close(fds[--n]);
	if (rc < 0)
		bench_die("%s: %s", end->daemon.socket, strerror(-rc));
}

/* Starts or stops following the QP. fd: where its steps are written. */
static struct uroce_capture_rep
follow(struct end *end, uint32_t flag, int fd)
{
	struct uroce_capture_req req = {.flags = flag | UROCE_CAPTURE_STEPS, .qpn = end->qpn};
	struct uroce_capture_rep rep;
	struct ipc_call call = {.op = UROCE_CTRL_CAPTURE,
				.req = &req,
				.req_len = sizeof(req),
				.req_fds = &fd,
				.req_nfds = fd >= 0,
				.rep = &rep,
				.rep_len = sizeof(rep)};
	int rc;

	memcpy(req.device, end->dev, strnlen(end->dev, sizeof(req.device) - 1));
	rc = ipc_client_call(&end->ipc, &call);
	if (rc == 0)
		rc = -(int)rep.error;
	if (rc == -EPERM)
		bench_die("%s: --breakdown is for the daemon's user and for root",
			  end->daemon.socket);
	if (rc < 0)
		bench_die("%s: steps of QP %u on %s: %s", end->daemon.socket, end->qpn, end->dev,
			  strerror(-rc));
	return rep;
}

/* Steps of the worker since the QP is followed. */
static void
worker_steps(struct end *end)
{
	int fd = memfd_create("steps", MFD_CLOEXEC);
	struct uroce_capture_rep rep;

	if (fd < 0)
		bench_die("memfd_create: %m");
	rep = follow(end, UROCE_CAPTURE_STOP, fd);
	if (rep.lost != 0)
		bench_die("%s: no space for %llu steps: reduce --count", end->daemon.socket,
			  (unsigned long long)rep.lost);
	end->nworker = (uint32_t)rep.frames;
	end->worker_steps = malloc(rep.bytes + 1);
	if (end->worker_steps == NULL ||
	    pread(fd, end->worker_steps, rep.bytes, 0) != (ssize_t)rep.bytes)
		bench_die("steps of a worker: %m");
	close(fd);
}

/* Steps of the client since the last call; counts from 0 again. */
static void
client_steps(struct end *end)
{
	tell(end, (struct client_command){.order = CLIENT_STEPS});
	client_hear(&end->client, &end->said, sizeof(end->said));
	end->client_steps =
		realloc(end->client_steps, (end->said.n + 1) * sizeof(*end->client_steps));
	if (end->client_steps == NULL)
		bench_die("no memory");
	for (uint32_t i = 0, n; i < end->said.n; i += n) {
		n = end->said.n - i < CLIENT_STEPS_MSG ? end->said.n - i : CLIENT_STEPS_MSG;
		client_hear(&end->client, end->client_steps + i, n * sizeof(*end->client_steps));
	}
}

/* One run of which each step is stamped. */
static void
run_steps(struct latency *l, struct client_hist *h)
{
	struct breakdown_end ends[2];
	uint32_t trips;

	for (unsigned e = 0; e < 2; e++) {
		client_steps(&l->end[e]);
		follow(&l->end[e], UROCE_CAPTURE_START, -1);
	}
	trips = run(l, l->pings, h);
	for (unsigned e = 0; e < 2; e++) {
		struct end *end = &l->end[e];

		worker_steps(end);
		client_steps(end);
		end->slept += end->said.slept;
		end->preempted += end->said.preempted;
		ends[e] = (struct breakdown_end){end->client_steps, end->worker_steps, end->said.n,
						 end->nworker};
	}
	breakdown_add(&l->b, ends, trips, bench_ns(1000000) / 1e6);
	for (unsigned e = 0; e < 2; e++)
		free(l->end[e].worker_steps);
}

/* The sum of the steps' medians, in us. */
static double
medians(const struct breakdown *b)
{
	double sum = 0;

	for (unsigned half = 0; half < 2; half++)
		for (unsigned i = 0; i < BREAKDOWN_STEPS; i++)
			sum += client_hist_at(&b->step[half][i], 0.5) / 1e3;
	return sum;
}

static json_t *
cpus_json(uint64_t bits)
{
	json_t *list = json_array();

	for (int i = 0; i < 64; i++) {
		if (bits >> i & 1)
			json_array_append_new(list, json_integer(i));
	}
	return list;
}

static json_t *
end_json(const struct latency *l, unsigned e)
{
	const struct breakdown *b = &l->b;
	double trips = (double)b->total.n;
	json_t *end = json_pack("{s:o, s:o, s:f, s:f, s:f}", "worker_cpus", cpus_json(b->cpu[e][0]),
				"client_cpus", cpus_json(b->cpu[e][1]), "beside",
				(double)b->beside[e] / trips, "client_slept",
				(double)l->end[e].slept / trips, "client_switched",
				(double)l->end[e].preempted / trips);

	for (unsigned w = 0; w < BREAKDOWN_WAITS; w++)
		json_object_set_new(end, breakdown_wait_name[w].key,
				    json_pack("{s:f, s:f}", "share",
					      (double)b->waited[e][w] / trips, "us",
					      (double)b->waited_ns[e][w] / 1e3 / trips));
	return end;
}

/* Times with this sum. */
static json_t *
times_json(const struct client_hist *h, double sum_ns)
{
	return json_pack("{s:f, s:f, s:f}", "p50_us", client_hist_at(h, 0.5) / 1e3, "p99_us",
			 client_hist_at(h, 0.99) / 1e3, "mean_us", sum_ns / 1e3 / (double)h->n);
}

static json_t *
breakdown_json(const struct latency *l)
{
	const struct breakdown *b = &l->b;
	json_t *steps = json_array();

	for (unsigned i = 0; i < 2 * BREAKDOWN_STEPS - 1; i++) {
		unsigned half = i / BREAKDOWN_STEPS, k = i % BREAKDOWN_STEPS;
		json_t *step = times_json(&b->step[half][k], b->step_ns[half][k]);

		json_object_set_new(step, "from", json_integer(half));
		json_object_set_new(step, "step", json_string(breakdown_name[k].key));
		json_object_set_new(step, "text", json_string(breakdown_name[k].text));
		json_array_append_new(steps, step);
	}
	return json_pack("{s:I, s:I, s:o, s:f, s:o, s:[o, o]}", "round_trips",
			 (json_int_t)b->total.n, "incomplete", (json_int_t)b->incomplete,
			 "round_trip", times_json(&b->total, b->total_ns), "sum_of_medians_us",
			 medians(b), "steps", steps, "ends", end_json(l, 0), end_json(l, 1));
}

static void
print_cpus(const char *what, const json_t *cpus)
{
	json_t *cpu;
	size_t i;

	printf("%s", what);
	json_array_foreach(cpus, i, cpu)
		printf("%s%lld", i != 0 ? "," : " ", (long long)json_integer_value(cpu));
}

static double
real(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static void
print_end(unsigned e, const json_t *end)
{
	printf("end %u:", e);
	print_cpus(" worker on CPU", json_object_get(end, "worker_cpus"));
	print_cpus(", client on CPU", json_object_get(end, "client_cpus"));
	printf(", on the same one in %.0f %% of the round trips\n", 100 * real(end, "beside"));
	for (unsigned w = 0; w < BREAKDOWN_WAITS; w++) {
		const json_t *wait = json_object_get(end, breakdown_wait_name[w].key);

		printf("   %s: in %.1f %%, %.2f us of a round trip\n", breakdown_wait_name[w].text,
		       100 * real(wait, "share"), real(wait, "us"));
	}
	printf("   client slept %.2f times in a round trip, and yielded or was preempted %.2f "
	       "times\n",
	       real(end, "client_slept"), real(end, "client_switched"));
}

static void
print_steps(const json_t *doc)
{
	const json_t *steps = json_object_get(doc, "steps"), *all;

	printf("%-44s%18s%18s\n%-44s%9s%9s%9s%9s\n", "us", "end 0 to end 1", "end 1 to end 0", "",
	       "p50", "p99", "p50", "p99");
	for (size_t i = 0; i < BREAKDOWN_STEPS; i++) {
		const json_t *to = json_array_get(steps, i);
		const json_t *back = json_array_get(steps, i + BREAKDOWN_STEPS);

		printf("%-44s%9.2f%9.2f", breakdown_name[i].text, real(to, "p50_us"),
		       real(to, "p99_us"));
		if (back != NULL)
			printf("%9.2f%9.2f", real(back, "p50_us"), real(back, "p99_us"));
		printf("\n");
	}
	all = json_object_get(doc, "round_trip");
	printf("%-44s%9.2f%9.2f\n%-44s%9.2f\n", "round trip", real(all, "p50_us"),
	       real(all, "p99_us"), "sum of the medians", real(doc, "sum_of_medians_us"));
}

static void
report(const struct latency *l, struct bench_report *r)
{
	json_t *doc;

	if (l->b.total.n == 0)
		bench_die("no round trip has all of its steps: a QP has moved to another worker, "
			  "or its daemon has no port queue for it");
	doc = breakdown_json(l);
	if (bench_report_json(r, "breakdown", doc))
		return;
	print_steps(doc);
	for (unsigned e = 0; e < 2; e++)
		print_end(e, json_array_get(json_object_get(doc, "ends"), e));
	if (l->b.incomplete != 0)
		printf("%llu round trips lack a step and are left out\n",
		       (unsigned long long)l->b.incomplete);
}

int
bench_latency(const struct bench_options *o, struct bench_report *r)
{
	static struct latency l;
	static struct client_hist h;

	l = (struct latency){.o = o,
			     .pings = o->count != 0 ? (uint32_t)o->count : PINGS,
			     .equal = true};
	daemons_start(&l);
	clients_start(&l);
	connect_ends(&l);
	for (unsigned e = 0; e < 2 && o->breakdown; e++)
		ipc_open(&l.end[e]);
	run(&l, WARM_UP < l.pings ? WARM_UP : l.pings, &h);
	for (uint32_t i = 0; i < o->runs; i++) {
		if (o->breakdown)
			run_steps(&l, &h);
		else
			run(&l, l.pings, &h);
		bench_add(r, "p50", "us", client_hist_at(&h, 0.5) / 2e3);
		bench_add(r, "p99", "us", client_hist_at(&h, 0.99) / 2e3);
	}
	bench_report_row(r, "latency, %s, RC send, %u B, MTU %u%s",
			 o->socket != NULL            ? "running daemons"
			 : o->port == BENCH_PORT_NONE ? "ring"
						      : bench_port_name[o->port],
			 o->size, o->mtu, l.equal ? "" : ": BYTES DIFFER");
	if (o->breakdown)
		report(&l, r);
	client_end_all(true);
	return l.equal ? 0 : 1;
}
