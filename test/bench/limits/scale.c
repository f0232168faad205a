/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "scale": what more workers are worth. One process with the daemon's workers, two net_ring
 * ports back to back with a queue for each worker, and no client processes: each worker is also
 * the client of its queue pairs.
 *
 * A worker sends on its own queue of one port and polls the same queue of the other. A connection
 * whose two ends live on one worker therefore has its packets on the right queue. If its ends live
 * on two workers, every packet of both directions arrives at a worker that does not own its QP and
 * is handed over, as with a NIC that spreads packets without regard to the QPN.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "bounds.h"
#include "scale.h"

#define SCALE_LISTS 8     /* different numbers of workers in one run */
#define SCALE_MBUFS 4096u /* packet buffers for each worker */

#define PORT_SLOTS  4096u
#define POOL_CACHE  256
/*
 * net_ring counts packets in 24 bytes for each queue, in one array, and writes them in every burst.
 * A NIC's driver does not. Every sixth queue is used if there are enough, so that the counters of
 * two workers are more than a cache line apart.
 */
#define QUEUE_STEP  6u
#define RING_QUEUES 16u          /* RTE_PMD_RING_MAX_RX_RINGS */
#define MEM_BYTES   (64u * 1024) /* memory for messages of one side of a worker */
#define MR_SLOTS    256u
#define MR_SHIFT    24 /* 32 - log2(MR_SLOTS) */
#define TIMEOUT     17 /* half a second: a worker may have to wait for its core */
#define WARM_UP_US  20000
#define FOLLOW_US   1000000 /* in which QPs move to the workers that get their packets */
#define LOOK_US     2000
#define WAIT_NS     60000000000ull

/* What a set of workers has done between two moments. */
struct scale_sample {
	double messages;         /* a second, of all workers */
	double slowest, fastest; /* of one worker */
	double handed_over;      /* share of the received frames, 0 .. 1 */
	double dropped;          /* of these, because a ring was full; per message */
	double resent;           /* packets sent again, per message */
	double speed_ns;         /* the largest bench_speed_here of a worker's core */
};

/* The numbers of workers to measure. */
static struct {
	unsigned v[SCALE_LISTS];
	unsigned n;
} counts;

/* The largest number of workers that will be measured. */
static unsigned
scale_most_workers(void)
{
	unsigned most = 1;

	for (unsigned i = 0; i < counts.n; i++)
		most = RTE_MAX(most, counts.v[i]);
	return most;
}

static struct rte_mempool *pool;

/* --- on a worker --------------------------------------------------------------------------------
 */

/* Called once in each iteration of the worker, as its doorbell ring reports overflow. */
static bool
client(struct worker *w, void *ctx, bool first)
{
	struct station *st = ctx;
	uint32_t step = __atomic_load_n(&st->set->step, __ATOMIC_ACQUIRE);
	uint32_t phase = step % PHASES;
	uint64_t until = phase == PHASE_RUN ? UINT64_MAX : 0;
	bool begins = step != st->step;

	if (begins && phase == PHASE_SPEED)
		st->speed_ns = bench_speed_here();
	if (begins && phase == PHASE_RUN)
		rc_client_fill(&st->c[0], until);
	for (unsigned side = 0; side < 2; side++)
		if (!rc_client_reap(&st->c[side], until))
			__atomic_store_n(&st->failed, st->c[side].failed, __ATOMIC_RELAXED);
	__atomic_store_n(&st->done, st->c[0].done, __ATOMIC_RELAXED);
	if (begins && (phase != PHASE_REST || st->c[0].posted == st->c[0].done))
		__atomic_store_n(&st->step, step, __ATOMIC_RELEASE);
	if (phase != PHASE_STOP)
		__atomic_store_n(&st->db[st->index]->overflow, 1, __ATOMIC_RELAXED);
	return false;
}

static uint32_t
qpn_of(const struct scale_set *s, unsigned side, unsigned worker, uint32_t i)
{
	return RC_QPN_BASE + (side * s->n + worker) * s->o.qps + i;
}

/* Doorbells of the station's QPs on another worker were lost: rings for all that this one has. */
static bool
rang_all(struct worker *w, void *ctx, bool first)
{
	struct station *st = ctx;

	for (unsigned side = 0; side < 2; side++)
		for (uint32_t i = 0; i < st->set->o.qps; i++)
			engine_doorbell(worker_engine(w), qpn_of(st->set, side, st->index, i));
	return false;
}

/*
 * The worker with the other end of connection i of worker `from`, at side 0 or 1. The first
 * connections are split, to the other workers in turn, so that connection i is number i on both
 * workers, and all workers have equal numbers of both ends.
 */
static unsigned
worker_of_peer(const struct scale_set *s, unsigned side, unsigned from, uint32_t i)
{
	unsigned way;

	if (s->n == 1 || i >= (s->o.qps * s->split + 50) / 100)
		return from;
	way = 1 + i % (s->n - 1);
	return (side == 0 ? from + way : from + s->n - way) % s->n;
}

/* Puts the QPs of this worker into the shared table: packets find them from now on. */
static void
open_on_worker(struct worker *w, void *arg)
{
	struct station *st = arg;
	struct scale_set *s = st->set;

	for (unsigned side = 0; side < 2; side++) {
		const uint8_t *mac = s->port[side].mac, *to = s->port[1 - side].mac;

		for (uint32_t i = 0; i < s->o.qps; i++) {
			unsigned peer = worker_of_peer(s, side, st->index, i);
			uint32_t qpn = qpn_of(s, side, st->index, i);
			struct qp_path path = rc_path(mac, to, side, qpn);
			struct qp *qp;

			if (!rc_client_open(&st->c[side], i, s->port[side].id))
				bench_die("no memory for a QP");
			qp = st->side[side].conn[i].qp;
			if (!rc_connect(&worker_engine(w)->env, qp, s->o.mtu,
					qpn_of(s, 1 - side, peer, i), TIMEOUT, &path))
				bench_die("a QP cannot be connected");
			if (side == 0)
				rc_client_prepare(&st->c[0], i, s->at[peer].side[1].mr.key);
			else
				rc_client_post_recvs(&st->c[1], i);
			__atomic_store_n(&s->qps.slot[qpn & s->qps.mask], qp, __ATOMIC_RELEASE);
		}
	}
}

static void
forget_on_worker(struct worker *w, void *arg)
{
	worker_forget_qp(w, arg);
}

/* --- on the main thread -------------------------------------------------------------------------
 */

/* Opens the two ports for n workers at the first call; they live as long as the process. */
static struct port *
ports_of(unsigned n)
{
	static struct port ports[UROCE_MAX_WORKERS + 1][2];
	unsigned step = RTE_MAX(1u, RTE_MIN(QUEUE_STEP, RING_QUEUES / n));
	char name[2][16], full[64];

	if (ports[n][0].started)
		return ports[n];
	for (unsigned i = 0; i < 2; i++)
		snprintf(name[i], sizeof(name[i]), "scale%u%c", n, "ab"[i]);
	if (port_ring_pair(name[0], name[1], n * step, PORT_SLOTS) != 0)
		bench_die("net_ring: no ports");
	for (unsigned i = 0; i < 2; i++) {
		struct port_params p = {.name = full,
					.nqueues = n,
					.queue_gap = (uint16_t)(step - 1),
					.link_mtu = 4200};

		snprintf(full, sizeof(full), "net_ring_%s", name[i]);
		if (port_open(&ports[n][i], &p, pool) != 0)
			bench_die("%s does not start", full);
	}
	return ports[n];
}

static void
pool_open(void)
{
	if (pool != NULL)
		return;
	pool = rte_pktmbuf_pool_create("bench", SCALE_MBUFS * scale_most_workers() - 1, POOL_CACHE,
				       0, RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + 4096,
				       SOCKET_ID_ANY);
	if (pool == NULL)
		bench_die("no memory for packets");
}

static void
station_open(struct scale_set *s, unsigned i)
{
	struct station *st = &s->at[i];
	uint32_t bytes = s->slots * s->stride;

	st->set = s;
	st->index = i;
	st->w = worker_get(s->ws, i);
	for (unsigned k = 0; k < s->n; k++) {
		st->db[k] = rc_zalloc(sizeof(*st->db[k]));
		if (st->db[k] == NULL || worker_add_doorbell(worker_get(s->ws, k), st->db[k]) != 0)
			bench_die("no memory");
		worker_poll_doorbell(worker_get(s->ws, k), st->db[k], &st->db[k]->waiter, 0,
				     k == i ? client : rang_all, st);
	}
	for (unsigned side = 0; side < 2; side++) {
		uint32_t cqes = rc_entries(3 * s->o.qps * rc_entries(s->o.depth));
		struct rc_side *rc = &st->side[side];

		st->host[side] = rc_zalloc(bytes);
		if (st->host[side] == NULL ||
		    !rc_side_open(rc, side, st->host[side], bytes, s->o.qps, cqes))
			bench_die("no memory");
		rc->qpn_base = qpn_of(s, side, i, 0);
		rc->worker = (uint16_t)i;
		rc->moves = s->follow;
		/* one table for all workers, as in the daemon */
		mr_table_del(&rc->mrs, &rc->mr);
		if (mr_table_add(&s->mrs, &rc->mr, (1 + 2 * i + side) << MR_SHIFT | 0x5a5) != 0)
			bench_die("no memory");
		st->c[side] = (struct rc_client){.o = &s->o,
						 .s = rc,
						 .w = st->w,
						 .side = side,
						 .slots = s->slots,
						 .stride = s->stride,
						 .db = s->follow ? st->db : NULL};
		for (uint32_t k = 0; k < s->o.qps; k++)
			qp_table_own(&s->qps, rc->qpn_base + k, (uint8_t)i);
	}
}

void
scale_events(struct scale_set *s)
{
	struct worker_event ev[32];
	unsigned n = worker_events(s->ws, ev, 32);

	for (unsigned i = 0; i < n; i++) {
		if (ev[i].kind == WORKER_EV_FRAME)
			rte_pktmbuf_free(ev[i].obj);
		else if (ev[i].kind == WORKER_EV_ASYNC && ev[i].ev != QP_EVENT_COMM_EST)
			bench_die("a QP or CQ failed: event %u", ev[i].ev);
	}
	for (unsigned i = 0; i < s->n; i++) {
		uint32_t failed = __atomic_load_n(&s->at[i].failed, __ATOMIC_RELAXED);

		if (failed != 0)
			bench_die("a message completed with status %u", failed);
	}
}

void
scale_phase(struct scale_set *s, enum phase phase)
{
	uint64_t start = bench_now_ns();
	uint32_t step = (s->step / PHASES + 1) * PHASES + phase;

	__atomic_store_n(&s->step, step, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < s->n; i++) {
		while (__atomic_load_n(&s->at[i].step, __ATOMIC_ACQUIRE) != step) {
			scale_events(s);
			usleep(LOOK_US);
			if (bench_now_ns() - start > WAIT_NS)
				bench_die("worker %u does not answer", i);
		}
	}
}

struct scale_set *
scale_set_open(const struct bench_options *o, unsigned n, unsigned split, bool follow)
{
	struct scale_set *s = rc_zalloc(sizeof(*s));
	unsigned lcores[UROCE_MAX_WORKERS];
	struct worker_params p = {.nworkers = n, .lcores = lcores};

	pool_open();
	if (s == NULL)
		bench_die("no memory");
	s->o = *o;
	s->n = n;
	s->split = split;
	s->follow = follow;
	s->stride = RTE_MAX((o->size + 63) & ~63u, 64u);
	s->slots = s->stride >= MEM_BYTES ? 1 : MEM_BYTES / s->stride;
	s->port = ports_of(n);
	s->at = rc_zalloc(n * sizeof(*s->at));
	if (s->at == NULL || mr_table_init(&s->mrs, MR_SLOTS) != 0 ||
	    qp_table_init(&s->qps, rc_entries(RC_QPN_BASE + 2 * n * o->qps)) != 0)
		bench_die("no memory");
	for (unsigned i = 0; i < n; i++)
		lcores[i] = i + 1;
	p.mrs = &s->mrs;
	p.qps = &s->qps;
	p.pool = pool;
	s->ws = worker_set_create(&p);
	if (s->ws == NULL)
		bench_die("no workers: %s", strerror(errno));
	for (unsigned i = 0; i < 2; i++)
		if (worker_add_port(s->ws, &s->port[i]) != 0)
			bench_die("a port cannot be added");
	for (unsigned i = 0; i < n; i++)
		station_open(s, i);
	for (unsigned i = 0; i < n; i++)
		worker_call(s->at[i].w, open_on_worker, &s->at[i]);
	for (unsigned i = 0; i < n; i++)
		__atomic_store_n(&s->at[i].db[i]->overflow, 1, __ATOMIC_RELEASE);
	scale_phase(s, PHASE_SPEED);
	return s;
}

struct totals {
	uint64_t ns, done[UROCE_MAX_WORKERS];
	uint64_t messages, frames, handed_over, dropped, resent;
};

static void
read_totals(const struct scale_set *s, struct totals *t)
{
	*t = (struct totals){.ns = bench_now_ns()};
	for (unsigned i = 0; i < s->n; i++)
		t->messages += t->done[i] = __atomic_load_n(&s->at[i].done, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < s->n; i++) {
		for (unsigned side = 0; side < 2; side++) {
			const struct counter_block *b =
				worker_counters(s->at[i].w, s->port[side].id);

			t->frames += counters_read(&b->ctr[COUNTER_RX_FRAMES]);
			t->handed_over += counters_read(&b->ctr[COUNTER_RX_HANDOFF]);
			t->dropped += counters_read(&b->drop[DROP_HANDOFF_FULL]);
			t->resent += counters_read(&b->ctr[COUNTER_REQ_RETRANS]);
		}
	}
}

static double
slowest_core(const struct scale_set *s)
{
	double ns = 0;

	for (unsigned i = 0; i < s->n; i++)
		ns = RTE_MAX(ns, s->at[i].speed_ns);
	return ns;
}

/* Runs traffic for o->run_ms, after warm_up_us, then stops it. */
static void
scale_set_run(struct scale_set *s, unsigned warm_up_us, struct scale_sample *sample)
{
	double before = slowest_core(s), seconds, messages;
	struct totals a, b;

	scale_phase(s, PHASE_RUN);
	usleep(warm_up_us);
	scale_events(s);
	read_totals(s, &a);
	/* longer if others have taken all cores meanwhile */
	do {
		usleep(LOOK_US);
		scale_events(s);
		read_totals(s, &b);
		if (b.ns - a.ns > WAIT_NS)
			bench_die("no message arrives");
	} while (b.ns - a.ns < s->o.run_ms * 1000000ull || b.messages == a.messages);
	scale_phase(s, PHASE_REST);
	scale_phase(s, PHASE_SPEED);
	seconds = (double)(b.ns - a.ns) * 1e-9;
	messages = (double)(b.messages - a.messages);
	*sample = (struct scale_sample){.slowest = 1e300};
	for (unsigned i = 0; i < s->n; i++) {
		double rate = (double)(b.done[i] - a.done[i]) / seconds;

		sample->messages += rate;
		sample->slowest = RTE_MIN(sample->slowest, rate);
		sample->fastest = RTE_MAX(sample->fastest, rate);
	}
	sample->handed_over =
		(double)(b.handed_over - a.handed_over) / (double)RTE_MAX(b.frames - a.frames, 1u);
	sample->dropped = (double)(b.dropped - a.dropped) / messages;
	sample->resent = (double)(b.resent - a.resent) / messages;
	sample->speed_ns = RTE_MAX(before, slowest_core(s));
}

/* Nothing is in flight. Are the received bytes correct? */
static bool
scale_set_verify(const struct scale_set *s)
{
	for (unsigned w = 0; w < s->n; w++) {
		const struct rc_client *c = &s->at[w].c[0];
		uint64_t least = RTE_MIN(rc_client_least(c), (uint64_t)s->slots);

		for (uint32_t i = 0; i < s->o.qps; i++) {
			const uint8_t *to = s->at[worker_of_peer(s, 0, w, i)].host[1];

			for (uint64_t n = 0; n < least; n++) {
				uint64_t off = rc_client_offset(c, i, n);

				if (memcmp(s->at[w].host[0] + off, to + off, s->o.size) != 0)
					return false;
			}
		}
		if (least == 0)
			return false;
	}
	return true;
}

static void
leave_on_worker(struct worker *w, void *ring)
{
	worker_leave_doorbell(w, ring);
}

static void
doorbell_del(struct worker *w, struct uroce_db_ring *ring)
{
	worker_call(w, leave_on_worker, ring);
	worker_close_doorbell(w, ring);
}

void
scale_set_close(struct scale_set *s)
{
	scale_phase(s, PHASE_STOP);
	worker_moves_stop(s->ws);
	for (unsigned i = 0; i < s->n; i++) {
		struct station *st = &s->at[i];

		for (unsigned k = 0; k < s->n; k++)
			doorbell_del(worker_get(s->ws, k), st->db[k]);
		for (unsigned side = 0; side < 2; side++)
			for (uint32_t k = 0; k < s->o.qps; k++)
				worker_call_qp(s->ws, st->side[side].conn[k].qp, forget_on_worker,
					       st->side[side].conn[k].qp);
	}
	for (unsigned i = 0; i < 2; i++)
		worker_del_port(s->ws, &s->port[i]);
	scale_events(s);
	worker_set_destroy(s->ws);
	for (unsigned i = 0; i < s->n; i++) {
		struct station *st = &s->at[i];

		for (unsigned side = 0; side < 2; side++) {
			for (uint32_t k = 0; k < s->o.qps; k++)
				qp_free(st->side[side].conn[k].qp);
			rc_side_close(&st->side[side]);
			free(st->host[side]);
		}
		for (unsigned k = 0; k < s->n; k++)
			free(st->db[k]);
	}
	qp_table_free(&s->qps);
	mr_table_free(&s->mrs);
	free(s->at);
	free(s);
}

#define MIB_BASE   128u
#define MIB_WORKER 40u

/* The CPUs that workers use, in this order. */
static struct {
	unsigned cpu[UROCE_MAX_WORKERS];
	unsigned n, cores; /* the first `cores` of them are on different cores */
} cpus;

/* Is this CPU the first thread of its core, of those that the program may use? */
static bool
first_of_core(unsigned cpu)
{
	char path[96], list[128], *at = list;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
		 cpu);
	f = fopen(path, "re");
	if (f == NULL)
		return true;
	if (fgets(list, sizeof(list), f) == NULL)
		list[0] = '\0';
	fclose(f);
	while (*at >= '0' && *at <= '9') {
		unsigned first = (unsigned)strtoul(at, &at, 10), last = first;

		if (*at == '-')
			last = (unsigned)strtoul(at + 1, &at, 10);
		for (; first <= last && first < cpu; first++)
			if (client_may_use(first))
				return false;
		at += *at == ',';
	}
	return true;
}

/* The first threads of all cores come before the others. */
static void
cpus_find(void)
{
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < client_cpus() && cpus.n < RTE_DIM(cpus.cpu); i++) {
			if (first_of_core(client_cpu(i)) == (pass == 0))
				cpus.cpu[cpus.n++] = client_cpu(i);
		}
		cpus.cores = pass == 0 ? cpus.n : cpus.cores;
	}
}

static void
counts_add(unsigned n)
{
	if (counts.n == SCALE_LISTS)
		cli_wrong(&bench_program, "--workers: more than %d numbers", SCALE_LISTS);
	counts.v[counts.n++] = n;
}

static void
counts_parse(const char *text)
{
	char *end;

	for (;; text = end + 1) {
		unsigned long n = strtoul(text, &end, 10);

		if (end == text || (*end != ',' && *end != '\0') || *text < '0' || *text > '9')
			cli_wrong(&bench_program, "--workers: %s: not a list like 1,2,4", text);
		if (n < 1 || n > cpus.n)
			cli_wrong(&bench_program,
				  "--workers: %lu: not 1 .. %u, the CPUs that this program may use "
				  "(at most %d)",
				  n, cpus.n, UROCE_MAX_WORKERS);
		counts_add((unsigned)n);
		if (*end == '\0')
			return;
	}
}

void
scale_check_options(const struct bench_options *o)
{
	if (strcmp(o->mode, "scale") != 0)
		return;
	cpus_find();
	if (o->lines) {
		if (o->workers != NULL || o->split_given || o->sweep)
			cli_wrong(&bench_program,
				  "--lines: without --workers, --handed-over and --sweep");
		counts_add(2);
		return;
	}
	if (o->workers != NULL) {
		counts_parse(o->workers);
		return;
	}
	for (unsigned n = 1; n < cpus.n; n *= 2)
		counts_add(n);
	counts_add(cpus.n);
}

void
scale_eal_start(const struct bench_options *o, char **plain)
{
	unsigned most = scale_most_workers();
	char lcores[24 * (UROCE_MAX_WORKERS + 1)];
	int n;

	/* the main thread, which sleeps nearly always, where there is room */
	n = snprintf(lcores, sizeof(lcores), "0@(%u", cpus.cpu[0]);
	for (unsigned i = 1; i < cpus.n; i++)
		n += snprintf(lcores + n, sizeof(lcores) - (size_t)n, ",%u", cpus.cpu[i]);
	n += snprintf(lcores + n, sizeof(lcores) - (size_t)n, ")");
	for (unsigned i = 0; i < most; i++)
		n += snprintf(lcores + n, sizeof(lcores) - (size_t)n, ",%u@%u", i + 1,
			      cpus.cpu[i % cpus.n]);
	bench_eal_start(o->no_huge, lcores, MIB_BASE + MIB_WORKER * most, plain);
}

/* Messages per second of one worker, by the last row of one; 0: not measured. */
static double one_worker;

static bool
measure(const struct bench_options *o, struct bench_report *r, unsigned n, unsigned split,
	bool follow)
{
	struct scale_set *s = scale_set_open(o, n, split, follow);
	struct scale_sample a;
	char where[64] = "";
	bool equal;

	for (uint32_t i = 0; i < o->runs; i++) {
		scale_set_run(s, follow && i == 0 ? FOLLOW_US : WARM_UP_US, &a);
		bench_add(r, "messages", "M/s", a.messages * 1e-6);
		bench_add(r, "goodput", "Gb/s", a.messages * o->size * 8e-9);
		if (one_worker > 0 && n > 1)
			bench_add(r, "versus_one", "x", a.messages / one_worker);
		bench_add(r, "worker", "ns", n * 1e9 / a.messages);
		bench_add(r, "slowest_worker", "M/s", a.slowest * 1e-6);
		bench_add(r, "fastest_worker", "M/s", a.fastest * 1e-6);
		bench_add(r, "handed_over", "%", 100 * a.handed_over);
		bench_add(r, "handoff_full", "a message", a.dropped);
		bench_add(r, "resent", "a message", a.resent);
		bench_add(r, "core_speed", "ns", a.speed_ns);
	}
	equal = o->op == BENCH_ATOMIC || scale_set_verify(s);
	scale_set_close(s);
	if (n == 1)
		one_worker = bench_median(r, "messages") * 1e6;
	if (split != 0 && o->split_given)
		snprintf(where, sizeof(where), ", %u %% of the QPs on a wrong queue", split);
	else if (split != 0)
		snprintf(where, sizeof(where), ", random queue");
	bench_report_row(r, "scale, RC %s, %u B, MTU %u, %u worker%s, %u QP%s each%s%s%s%s",
			 bench_op_name[o->op], o->size, o->mtu, n, n == 1 ? "" : "s", o->qps,
			 o->qps == 1 ? "" : "s", where, follow ? ", QPs follow" : "",
			 n > cpus.cores ? ", some on one core" : "", equal ? "" : ": BYTES DIFFER");
	return equal;
}

/* Measures one operation and size with every number of workers. */
static bool
measure_all(const struct bench_options *o, struct bench_report *r)
{
	bool equal = true;

	one_worker = 0;
	for (unsigned i = 0; i < counts.n; i++) {
		unsigned n = counts.v[i];
		/* a queue by chance is the right one once in n */
		unsigned split = o->split_given ? o->split : (100 * (n - 1) + n / 2) / n;

		equal &= measure(o, r, n, 0, false);
		if (n > 1 && split != 0) {
			equal &= measure(o, r, n, split, false);
			equal &= measure(o, r, n, split, true);
		}
	}
	return equal;
}

int
bench_scale(const struct bench_options *o, struct bench_report *r)
{
	static const enum bench_op ops[] = {BENCH_WRITE, BENCH_SEND, BENCH_READ};
	static const uint32_t sizes[] = {64, 4096};
	bool equal = true;
	char list[8 * UROCE_MAX_WORKERS] = "";

	for (unsigned i = 0, k = 0; i < cpus.n; i++)
		k += (unsigned)snprintf(list + k, sizeof(list) - k, "%s%u", i == 0 ? "" : ",",
					cpus.cpu[i]);
	bench_report_text(r, "cpus", list);
	if (o->lines)
		return scale_lines(o, r) ? 0 : 1;
	if (!o->sweep)
		return measure_all(o, r) ? 0 : 1;
	for (unsigned op = 0; op < RTE_DIM(ops); op++) {
		for (unsigned i = 0; i < RTE_DIM(sizes); i++) {
			struct bench_options one = *o;

			one.op = ops[op];
			one.size = sizes[i];
			equal &= measure_all(&one, r);
		}
	}
	return equal ? 0 : 1;
}
