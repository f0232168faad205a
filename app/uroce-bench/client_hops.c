/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --measure hops. In the client's process: the parts of the time to unbind a window, which sends no
 * packet. In the mode's: the time of bare rings of the same cache lines, and of the worker's part.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "client_int.h"
#include "engine_link.h"
#include "requester/requester.h"

#define POLL_ROUNDS 100u
#define POLL_DEPTH  8u /* completions that wait for their poll, of a queue of 16 */
#define POLL_WARM   2u /* of them, polled first and not counted, to warm the caches */
#define POLL_NAP_NS 200000

#define FLOOR_SLOTS 64u
#define FLOOR_TURNS 20000u

#define STEPS       (1u << 14)
#define WINDOW      0x200003c3 /* its key: any whose slot is free */

static double
low_ns(const struct client_hist *cycles)
{
	double ns = bench_ns(1000) / 1000 * client_hist_low(cycles) - bench_tsc_ns();

	return ns > 0 ? ns : 0;
}

/*
 * The time of a poll that finds a completion in this core's cache, because for this measurement the
 * client runs on the worker's CPU. 0 if that CPU is unknown or not permitted.
 */
static double
poll_ns(struct client *c)
{
	static struct client_hist h;
	struct timespec nap = {.tv_nsec = POLL_NAP_NS};
	struct ibv_wc wc[CLIENT_POLL];
	cpu_set_t before;

	h = (struct client_hist){0};
	if (c->plan.worker_cpu < 0 || sched_getaffinity(0, sizeof(before), &before) != 0 ||
	    !bench_pin((unsigned)c->plan.worker_cpu))
		return 0;
	for (uint32_t r = 0; r < POLL_ROUNDS; r++) {
		for (uint32_t i = 0; i < POLL_DEPTH; i++)
			client_post_bind(c);
		nanosleep(&nap, NULL);
		for (uint32_t i = 0; i < POLL_DEPTH;) {
			uint64_t start = bench_tsc(), end;
			int n = ibv_poll_cq(c->end[0].scq, 1, wc);

			end = bench_tsc();
			if (n < 0 || (n == 1 && wc[0].status != IBV_WC_SUCCESS))
				client_die("a completion failed");
			if (n == 1 && i >= POLL_WARM)
				client_hist_add(&h, end - start);
			i += (uint32_t)n;
		}
	}
	sched_setaffinity(0, sizeof(before), &before);
	return low_ns(&h);
}

void
client_hops(struct client *c, uint64_t count, struct client_pieces *p)
{
	static struct client_hist post, away;

	post = away = (struct client_hist){0};
	for (uint64_t i = 0; i < count; i++) {
		struct ibv_wc wc[CLIENT_POLL];
		uint64_t start = bench_tsc(), published, found;

		client_post_bind(c);
		published = bench_tsc();
		while (client_poll(c, c->end[0].scq, wc) == 0)
			;
		found = bench_tsc();
		client_hist_add(&post, published - start);
		client_hist_add(&away, found - published);
	}
	*p = (struct client_pieces){
		.post_ns = low_ns(&post),
		.away_ns = low_ns(&away),
		.poll_ns = poll_ns(c),
	};
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

void
client_floor(struct client_floor *f)
{
	static struct client_hist publish, away;
	unsigned first = client_cpu(0), last = client_cpu(client_cpus() - 1);
	cpu_set_t before;
	pthread_t th;

	*f = (struct client_floor){0};
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
		start = bench_tsc();
		__atomic_store_n(&rings.prod, i, __ATOMIC_RELEASE);
		__atomic_thread_fence(__ATOMIC_SEQ_CST); /* as the provider's publish */
		published = bench_tsc();
		while (__atomic_load_n(&rings.cqe[at].phase, __ATOMIC_ACQUIRE) != i)
			;
		found = bench_tsc();
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
double
client_step_ns(void)
{
	static struct engine_link link;
	struct engine_pair_node *n = &link.pair.node[0];
	struct bench_options o = {.size = 64, .mtu = 4096, .qps = 1, .depth = 16};
	struct client_hist h = {0};
	struct mr mw = {.kind = MR_WINDOW_1};
	struct qp_env *env = &n->engine.env;
	struct qp *qp;

	engine_link_open(&link, &o);
	qp = n->rc.conn[0].qp;
	qp->bind.polled = true; /* as for a client that posts continuously */
	env->counters = qp->bind.counters;
	mw.pd = n->rc.mr.pd;
	if (mr_table_add(&n->rc.mrs, &mw, WINDOW) != 0)
		bench_die("no memory for a window");
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t start;

		bind_post(&n->rc.conn[0], &mw);
		engine_pair_publish(&link.pair, 0);
		env->work = ENGINE_QUANTUM; /* the engine sets it for each of its runs */
		start = bench_tsc();
		req_run(env, qp, ENGINE_QUANTUM);
		client_hist_add(&h, bench_tsc() - start);
		qp_env_flush(env);
		if (engine_link_poll(&link, 0) != 1)
			bench_die("a window was not bound");
	}
	engine_link_close(&link);
	return client_hist_low(&h) * bench_ns(1000) / 1000 - bench_tsc_ns();
}
