/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "rc_client.h"
#include "scale.h"

#define PORT_SLOTS 4096u
#define POOL_CACHE 256
#define MEM_BYTES  (64u * 1024) /* memory for messages of one side of a worker */
#define MR_SLOTS   256u
#define MR_SHIFT   24 /* 32 - log2(MR_SLOTS) */
#define TIMEOUT    17 /* half a second: a worker may have to wait for its core */
#define WARM_UP_US 20000
#define LOOK_US    2000
#define WAIT_NS    60000000000ull

/* The low bits of a step. */
enum phase {
	PHASE_REST,  /* post nothing; reached when nothing is in flight */
	PHASE_SPEED, /* measure the core */
	PHASE_RUN,
	PHASE_STOP, /* do not call the client any more */
};
#define PHASES 4u /* power of two */

/* A worker and both ends that live on it; written by this worker only while traffic runs. */
struct station {
	struct scale_set *set;
	unsigned index;
	struct worker *w;
	struct rc_side side[2]; /* 0: requesters, 1: responders */
	struct rc_client c[2];
	uint8_t *host[2];
	struct uroce_db_ring *db;
	double speed_ns;
	uint32_t failed; /* atomic: status of a failed completion */
	/* atomic, read by the main thread */
	uint64_t done __attribute__((aligned(64)));
	uint32_t step; /* the last step that it has reached */
} __attribute__((aligned(128)));

struct scale_set {
	struct bench_options o;
	unsigned n, split;
	uint32_t slots, stride;
	struct port *port; /* two */
	struct mr_table mrs;
	struct qp_table qps;
	struct worker_set *ws;
	struct station *at;
	/* atomic: a number that changes with each phase, and the phase; read by all workers */
	uint32_t step __attribute__((aligned(64)));
};

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
		__atomic_store_n(&st->db->overflow, 1, __ATOMIC_RELAXED);
	return false;
}

static uint32_t
qpn_of(const struct scale_set *s, unsigned side, unsigned worker, uint32_t i)
{
	return RC_QPN_BASE + (side * s->n + worker) * s->o.qps + i;
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
	struct station *st = arg;

	for (unsigned side = 0; side < 2; side++)
		for (uint32_t i = 0; i < st->set->o.qps; i++)
			worker_forget_qp(w, st->side[side].conn[i].qp);
}

/* --- on the main thread -------------------------------------------------------------------------
 */

/* Opens the two ports for n workers at the first call; they live as long as the process. */
static struct port *
ports_of(unsigned n)
{
	static struct port ports[UROCE_MAX_WORKERS + 1][2];
	char name[2][16], full[64];

	if (ports[n][0].started)
		return ports[n];
	for (unsigned i = 0; i < 2; i++)
		snprintf(name[i], sizeof(name[i]), "scale%u%c", n, "ab"[i]);
	if (port_ring_pair(name[0], name[1], n, PORT_SLOTS) != 0)
		bench_die("net_ring: no ports");
	for (unsigned i = 0; i < 2; i++) {
		struct port_params p = {.name = full, .nqueues = n, .link_mtu = 4200};

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
	st->db = rc_zalloc(sizeof(*st->db));
	for (unsigned side = 0; side < 2; side++) {
		uint32_t cqes = rc_entries(3 * s->o.qps * rc_entries(s->o.depth));
		struct rc_side *rc = &st->side[side];

		st->host[side] = rc_zalloc(bytes);
		if (st->host[side] == NULL ||
		    !rc_side_open(rc, side, st->host[side], bytes, s->o.qps, cqes))
			bench_die("no memory");
		rc->qpn_base = qpn_of(s, side, i, 0);
		rc->worker = (uint16_t)i;
		/* one table for all workers, as in the daemon */
		mr_table_del(&rc->mrs, &rc->mr);
		if (mr_table_add(&s->mrs, &rc->mr, (1 + 2 * i + side) << MR_SHIFT | 0x5a5) != 0)
			bench_die("no memory");
		st->c[side] = (struct rc_client){.o = &s->o,
						 .s = rc,
						 .w = st->w,
						 .side = side,
						 .slots = s->slots,
						 .stride = s->stride};
		for (uint32_t k = 0; k < s->o.qps; k++)
			qp_table_own(&s->qps, rc->qpn_base + k, (uint8_t)i);
	}
	if (st->db == NULL ||
	    worker_add_doorbell(st->w, st->db, &st->db->waiter, 0, client, st) != 0)
		bench_die("no memory");
}

/* Takes the workers' events, which must not be lost. */
static void
take_events(struct scale_set *s)
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

/* Begins a phase and waits until every worker has reached it. */
static void
phase_begin(struct scale_set *s, enum phase phase)
{
	uint64_t start = bench_now_ns();
	uint32_t step = (s->step / PHASES + 1) * PHASES + phase;

	__atomic_store_n(&s->step, step, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < s->n; i++) {
		while (__atomic_load_n(&s->at[i].step, __ATOMIC_ACQUIRE) != step) {
			take_events(s);
			usleep(LOOK_US);
			if (bench_now_ns() - start > WAIT_NS)
				bench_die("worker %u does not answer", i);
		}
	}
}

struct scale_set *
scale_set_open(const struct bench_options *o, unsigned n, unsigned split)
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
		__atomic_store_n(&s->at[i].db->overflow, 1, __ATOMIC_RELEASE);
	phase_begin(s, PHASE_SPEED);
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

void
scale_set_run(struct scale_set *s, struct scale_sample *sample)
{
	double before = slowest_core(s), seconds, messages;
	struct totals a, b;

	phase_begin(s, PHASE_RUN);
	usleep(WARM_UP_US);
	take_events(s);
	read_totals(s, &a);
	/* longer if others have taken all cores meanwhile */
	do {
		usleep(LOOK_US);
		take_events(s);
		read_totals(s, &b);
		if (b.ns - a.ns > WAIT_NS)
			bench_die("no message arrives");
	} while (b.ns - a.ns < s->o.run_ms * 1000000ull || b.messages == a.messages);
	phase_begin(s, PHASE_REST);
	phase_begin(s, PHASE_SPEED);
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

bool
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

void
scale_set_close(struct scale_set *s)
{
	phase_begin(s, PHASE_STOP);
	for (unsigned i = 0; i < s->n; i++) {
		worker_del_doorbell(s->at[i].w, s->at[i].db);
		worker_call(s->at[i].w, forget_on_worker, &s->at[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		worker_del_port(s->ws, &s->port[i]);
	take_events(s);
	worker_set_destroy(s->ws);
	for (unsigned i = 0; i < s->n; i++) {
		struct station *st = &s->at[i];

		for (unsigned side = 0; side < 2; side++) {
			for (uint32_t k = 0; k < s->o.qps; k++)
				qp_free(st->side[side].conn[k].qp);
			rc_side_close(&st->side[side]);
			free(st->host[side]);
		}
		free(st->db);
	}
	qp_table_free(&s->qps);
	mr_table_free(&s->mrs);
	free(s->at);
	free(s);
}
