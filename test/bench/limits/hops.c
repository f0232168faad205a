/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "hops": the way to the worker and back, with a WR that sends no packet (it unbinds a memory
 * window). A process under uroce-run measures the parts; the mode, the time of bare rings of the
 * same cache lines and the worker's part.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <rte_cycles.h>
#include <rte_lcore.h>
#include "cc/param.h"
#include "kit/verbs.h"
#include "bounds.h"
#include "requester/requester.h"
#include "test/kit/engine_pair.h"

#define UNBINDS     20000u
#define POLL        32
#define POLL_ROUNDS 100u
#define POLL_DEPTH  8u /* completions that wait for their poll, of a queue of 16 */
#define POLL_WARM   2u /* of them, polled first and not counted, to warm the caches */
#define POLL_NAP_NS 200000

#define FLOOR_SLOTS 64u
#define FLOOR_TURNS 20000u

#define STEPS       (1u << 14)
#define WINDOW      0x200003c3 /* its key: any whose slot is free */

/* To the process; it answers with struct pieces. */
struct order {
	uint64_t count;
	int32_t worker_cpu;
	bool yield;
};
/* Times of a WR: its post; from there to the found completion; a successful poll alone. */
struct pieces {
	double post_ns, away_ns, poll_ns;
};
/* Of bare rings. publish: index stored and fence, which waits for the index's line. */
struct floor {
	double publish_ns, away_ns;
};
struct hops {
	struct order order;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mw *mw;
};

/* The TSC after all earlier instructions. */
static uint64_t
exact_tsc(void)
{
#ifdef __x86_64__
	__builtin_ia32_lfence();
#endif
	return rte_rdtsc();
}

/* ns between two such reads in sequence. */
static double
exact_tsc_ns(void)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < 1000; i++) {
		uint64_t start = exact_tsc(), end = exact_tsc();

		best = end - start < best ? end - start : best;
	}
	return bench_ns(best);
}

static double
low_ns(const struct client_hist *cycles)
{
	double ns = bench_ns(1000) / 1000 * client_hist_low(cycles) - exact_tsc_ns();

	return ns > 0 ? ns : 0;
}

static void
post_bind(struct hops *c)
{
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};

	if (ibv_bind_mw(c->qp, c->mw, &bind) != 0)
		bench_die("ibv_bind_mw failed");
}

/*
 * The time of a poll that finds a completion in this core's cache, because for this measurement the
 * client runs on the worker's CPU. 0 if that CPU is unknown or not permitted.
 */
static double
poll_ns(struct hops *c)
{
	static struct client_hist h;
	struct timespec nap = {.tv_nsec = POLL_NAP_NS};
	struct ibv_wc wc[POLL];
	cpu_set_t before;

	h = (struct client_hist){0};
	if (c->order.worker_cpu < 0 || sched_getaffinity(0, sizeof(before), &before) != 0 ||
	    !bench_pin((unsigned)c->order.worker_cpu))
		return 0;
	for (uint32_t r = 0; r < POLL_ROUNDS; r++) {
		for (uint32_t i = 0; i < POLL_DEPTH; i++)
			post_bind(c);
		nanosleep(&nap, NULL);
		for (uint32_t i = 0; i < POLL_DEPTH;) {
			uint64_t start = exact_tsc(), end;
			int n = ibv_poll_cq(c->cq, 1, wc);

			end = exact_tsc();
			if (n < 0 || (n == 1 && wc[0].status != IBV_WC_SUCCESS))
				bench_die("a completion failed");
			if (n == 1 && i >= POLL_WARM)
				client_hist_add(&h, end - start);
			i += (uint32_t)n;
		}
	}
	sched_setaffinity(0, sizeof(before), &before);
	return low_ns(&h);
}

static void
unbind(struct hops *c, struct pieces *p)
{
	static struct client_hist post, away;

	post = away = (struct client_hist){0};
	for (uint64_t i = 0; i < c->order.count; i++) {
		struct ibv_wc wc[POLL];
		uint64_t start = exact_tsc(), published, found;
		int n;

		post_bind(c);
		published = exact_tsc();
		while ((n = ibv_poll_cq(c->cq, POLL, wc)) == 0)
			if (c->order.yield)
				sched_yield();
		found = exact_tsc();
		if (n != 1 || wc[0].status != IBV_WC_SUCCESS)
			bench_die("a window was not unbound");
		client_hist_add(&post, published - start);
		client_hist_add(&away, found - published);
	}
	*p = (struct pieces){
		.post_ns = low_ns(&post),
		.away_ns = low_ns(&away),
		.poll_ns = poll_ns(c),
	};
}

/* Opens the first device, with a QP that is connected to itself. */
static void
open_device(struct hops *c)
{
	struct ibv_context *ctx = verbs_open(NULL);
	struct ibv_pd *pd = ctx != NULL ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr;
	union ibv_gid gid;

	if (pd == NULL || ibv_query_gid(ctx, 1, 1, &gid) != 0)
		bench_die("hops: no device with a GID 1");
	c->cq = init.send_cq = init.recv_cq = ibv_create_cq(ctx, 32, NULL, NULL, 0);
	c->qp = c->cq != NULL ? ibv_create_qp(pd, &init) : NULL;
	c->mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	if (c->qp == NULL || c->mw == NULL)
		bench_die("hops: CQ, QP or memory window: %m");
	attr = verbs_attr(c->qp->qp_num, &gid);
	if (verbs_raise(c->qp, &attr, IBV_QPS_RTS) != 0)
		bench_die("hops: the QP cannot be connected");
}

int
hops_main(int argc, char **argv)
{
	int sock = argc == 3 ? atoi(argv[2]) : -1;
	struct hops c = {0};
	struct pieces p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (client_recv(sock, &c.order, sizeof(c.order)) == 0) {
		if (c.qp == NULL)
			open_device(&c);
		unbind(&c, &p);
		if (client_send(sock, &p, sizeof(p)) < 0)
			break;
	}
	return 1;
}

/* Minimal rings: an index, WQEs of two lines; CQEs of one line each, with a phase. */
static struct {
	uint32_t prod __attribute__((aligned(128)));
	struct {
		uint64_t word[16];
	} wqe[FLOOR_SLOTS] __attribute__((aligned(128)));
	struct {
		uint64_t word[7];
		uint32_t pad, phase;
	} cqe[FLOOR_SLOTS] __attribute__((aligned(128)));
} rings;

static void *
floor_worker(void *arg)
{
	bench_pin(*(unsigned *)arg);
	for (uint32_t i = 1; i <= FLOOR_TURNS; i++) {
		uint32_t at = i % FLOOR_SLOTS;

		while (__atomic_load_n(&rings.prod, __ATOMIC_ACQUIRE) != i)
			;
		memcpy(rings.cqe[at].word, rings.wqe[at].word, sizeof(rings.cqe[at].word));
		rings.cqe[at].word[0] += rings.wqe[at].word[15]; /* of the WQE's second line */
		__atomic_store_n(&rings.cqe[at].phase, i, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void
rings_measure(struct floor *f)
{
	static struct client_hist publish, away;
	unsigned first = client_cpu(0), last = client_cpu(client_cpus() - 1);
	cpu_set_t before;
	pthread_t th;

	*f = (struct floor){0};
	if (first == last)
		return;
	publish = away = (struct client_hist){0};
	memset(&rings, 0, sizeof(rings));
	pthread_getaffinity_np(pthread_self(), sizeof(before), &before);
	if (pthread_create(&th, NULL, floor_worker, &last) != 0)
		return;
	bench_pin(first);
	for (uint32_t i = 1; i <= FLOOR_TURNS; i++) {
		uint32_t at = i % FLOOR_SLOTS;
		uint64_t start, published, found;

		for (unsigned k = 0; k < 16; k++)
			rings.wqe[at].word[k] = i + k;
		start = exact_tsc();
		__atomic_store_n(&rings.prod, i, __ATOMIC_RELEASE);
		__atomic_thread_fence(__ATOMIC_SEQ_CST); /* as the provider's publish */
		published = exact_tsc();
		while (__atomic_load_n(&rings.cqe[at].phase, __ATOMIC_ACQUIRE) != i)
			;
		found = exact_tsc();
		client_hist_add(&publish, published - start);
		client_hist_add(&away, found - published);
	}
	pthread_join(th, NULL);
	pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	f->publish_ns = low_ns(&publish);
	f->away_ns = low_ns(&away);
}

static void
bind_post(struct rc_conn *c, const struct mr *mw)
{
	struct uroce_send_wqe w = {
		.opcode = UROCE_WR_BIND_MW,
		.flags = UROCE_WQE_SIGNALED,
		.bind = {.mw_rkey = mw->key, .new_rkey = mw->key},
	};

	memcpy(c->sq.slots + (size_t)(c->sq.prod++ & c->sq.mask) * c->sq.stride, &w, sizeof(w));
}

/*
 * The worker's part: the same WQE for a requester whose client is on the same core, so that no
 * cache line moves between cores. Only the time from WQE to CQE counts: the engine's turn ends
 * after the client has its completion.
 */
static double
step_ns(void)
{
	static struct engine_pair pair;
	struct engine_pair_node *n = &pair.node[0];
	struct engine_pair_params params = {.mtu = 4096,
					    .qps = 1,
					    .depth = 16,
					    .size = 64,
					    .places = 16,
					    .pool = limits_pool()};
	char err[64];
	struct client_hist h = {0};
	struct mr mw = {.kind = MR_WINDOW_1};
	struct qp_env *env = &n->engine.env;
	struct qp *qp;

	if (!cc_param_parse(&params.policy, "fixed", err, sizeof(err)) ||
	    !cc_param_fill(&params.policy, 100000000, err, sizeof(err)))
		bench_die("policy fixed: %s", err);
	engine_pair_open(&pair, &params);
	for (unsigned side = 0; side < 2; side++)
		engine_set_lcore(&pair.node[side].engine, rte_lcore_id());
	qp = n->rc.conn[0].qp;
	qp->bind.polled = true; /* as for a client that posts continuously */
	env->counters = qp->bind.counters;
	mw.pd = n->rc.mr.pd;
	if (mr_table_add(&n->rc.mrs, &mw, WINDOW) != 0)
		bench_die("no memory for a window");
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t start;

		bind_post(&n->rc.conn[0], &mw);
		engine_pair_publish(&pair, 0);
		env->work = ENGINE_QUANTUM; /* the engine sets it for each of its runs */
		start = exact_tsc();
		req_run(env, qp, ENGINE_QUANTUM);
		client_hist_add(&h, exact_tsc() - start);
		qp_env_flush(env);
		if (engine_pair_poll(&pair, 0) != 1 || pair.failed)
			bench_die("a window was not bound");
	}
	engine_pair_close(&pair);
	return client_hist_low(&h) * bench_ns(1000) / 1000 - exact_tsc_ns();
}

/*
 * The time from publishing the WR until a poll finds its completion, less the worker's work on it
 * and the time of a poll whose completion is in the cache. The rest consists of the two hops and
 * half an iteration each of the worker's and the client's loop.
 */
int
limits_hops(const struct bench_options *o, struct bench_report *r)
{
	struct order order = {.count = o->count != 0 ? o->count : UNBINDS,
			      .worker_cpu = (int32_t)client_cpu(client_cpus() - 1),
			      .yield = client_cpus() < 2};
	struct client_daemon d = {0};
	struct client_proc c;
	struct pieces p;
	struct floor f;

	client_daemon_start(&d, o);
	client_start(&c, HOPS_MODE, 0, d.socket, &order, sizeof(order));
	client_hear(&c, &p, sizeof(p)); /* warms up */
	for (uint32_t i = 0; i < o->runs; i++) {
		double step = step_ns(), speed[BENCH_CORES];

		if (!o->no_probe) {
			bench_add(r, "line_round_trip", "ns", 2 * bench_core_distance());
			bench_core_speed(speed);
			bench_add(r, "core_speed", "ns", RTE_MAX(speed[0], speed[1]));
		}
		rings_measure(&f);
		client_say(&c, &order, sizeof(order));
		client_hear(&c, &p, sizeof(p));
		bench_add(r, "hops", "ns", p.away_ns - step - p.poll_ns);
		bench_add(r, "whole", "ns", p.post_ns + p.away_ns);
		bench_add(r, "post", "ns", p.post_ns);
		bench_add(r, "published_to_found", "ns", p.away_ns);
		bench_add(r, "worker_step", "ns", step);
		bench_add(r, "poll", "ns", p.poll_ns);
		bench_add(r, "bare_rings", "ns", f.away_ns);
		bench_add(r, "bare_publish", "ns", f.publish_ns);
	}
	bench_report_row(r, "hops, unbind a window, no packet");
	client_end_all(true);
	return 0;
}
