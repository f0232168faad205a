/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "../eal.h"
#include "fabric.h"
#include "wire/psn.h"

#define POOL_MBUFS     32767
#define SAMPLE_NS      1000
#define CNP_DSCP       48

#define FINISH_NS      1000000000u
#define FINISH_STEP_NS 100000u

enum fabric_event { EV_UP, EV_DOWN, EV_POLL, EV_PAUSE, EV_RESUME, EV_SAMPLE };

static struct rte_mempool *pool;

void
fabric_open_eal(void)
{
	sim_eal_open("uroce-fabric", "320");
	pool = rte_pktmbuf_pool_create("fabric", POOL_MBUFS, 0, 0,
				       RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + HOST_MTU, 0);
	if (pool == NULL) {
		fprintf(stderr, "uroce-fabric: no memory for frames\n");
		exit(2);
	}
}

static void
at(struct fabric *f, uint64_t at_ns, enum fabric_event kind, uint32_t arg)
{
	if (!sim_heap_push(&f->heap, RTE_MAX(at_ns, f->now_ns), kind, arg))
		f->overrun = true;
}

/* Schedules the line's next event, unless one is scheduled that is not later. */
static void
schedule_line(struct fabric *f, const struct line *l, uint64_t *when, enum fabric_event kind,
	      uint32_t arg)
{
	uint64_t next = line_next(l);

	if (next >= *when)
		return;
	*when = next;
	at(f, next, kind, arg);
}

static void
schedule_up(struct fabric *f, uint32_t i)
{
	schedule_line(f, &f->host[i].up, &f->up_at[i], EV_UP, i);
}

static void
schedule_down(struct fabric *f, uint32_t i)
{
	schedule_line(f, &f->sw.port[i].out, &f->down_at[i], EV_DOWN, i);
}

static void
wake(struct fabric *f, uint32_t i, uint64_t at_ns)
{
	struct host *h = &f->host[i];

	at_ns = RTE_MAX(at_ns, h->last_poll_ns + HOST_POLL_NS);
	if (h->poll_at <= at_ns)
		return;
	h->poll_at = at_ns;
	at(f, at_ns, EV_POLL, i);
}

static void
tell_sender(struct fabric *f, uint32_t i, enum switch_flow flow)
{
	if (flow != SWITCH_FLOW_SAME)
		at(f, f->now_ns + f->p.delay_ns, flow == SWITCH_XOFF ? EV_PAUSE : EV_RESUME, i);
}

static void
do_up(struct fabric *f, uint32_t i)
{
	struct line *up = &f->host[i].up;
	uint32_t from, bytes, out;
	struct rte_mbuf *m;

	f->up_at[i] = UINT64_MAX;
	while (line_sent(up, f->now_ns, &from, &bytes))
		;
	while ((m = line_arrived(up, f->now_ns)) != NULL) {
		out = switch_route(&f->sw, m);
		tell_sender(f, i, switch_receive(&f->sw, f->now_ns, i, m));
		if (out != SWITCH_PORTS)
			schedule_down(f, out);
	}
	schedule_up(f, i);
}

static void
do_down(struct fabric *f, uint32_t i)
{
	enum switch_flow flow;
	uint32_t in, bytes;
	struct rte_mbuf *m;

	f->down_at[i] = UINT64_MAX;
	while (switch_send(&f->sw, f->now_ns, i, &in, &bytes, &flow)) {
		tell_sender(f, in, flow);
		if (f->sent != NULL)
			f->sent(f->sent_arg, f->now_ns, i, in, bytes);
	}
	while ((m = line_arrived(&f->sw.port[i].out, f->now_ns)) != NULL) {
		host_arrive(&f->host[i], m);
		wake(f, i, f->now_ns);
	}
	schedule_down(f, i);
}

static void
do_poll(struct fabric *f, uint32_t i)
{
	uint64_t next;

	f->host[i].poll_at = UINT64_MAX;
	next = host_poll(&f->host[i], f->now_ns);
	if (next != UINT64_MAX)
		wake(f, i, next);
	schedule_up(f, i);
}

static void
do_sample(struct fabric *f)
{
	if (f->nqueue < FABRIC_SAMPLES)
		f->queue[f->nqueue++] = (uint32_t)f->sw.port[f->watched].out.waiting_bytes;
	at(f, f->now_ns + SAMPLE_NS, EV_SAMPLE, 0);
}

static void
handle(struct fabric *f, const struct sim_event *ev)
{
	switch ((enum fabric_event)ev->kind) {
	case EV_UP:
		if (f->up_at[ev->arg] == ev->at_ns)
			do_up(f, ev->arg);
		break;
	case EV_DOWN:
		if (f->down_at[ev->arg] == ev->at_ns)
			do_down(f, ev->arg);
		break;
	case EV_POLL:
		if (f->host[ev->arg].poll_at == ev->at_ns)
			do_poll(f, ev->arg);
		break;
	case EV_PAUSE:
	case EV_RESUME:
		line_pause(&f->host[ev->arg].up, f->now_ns, ev->kind == EV_PAUSE);
		schedule_up(f, ev->arg);
		break;
	case EV_SAMPLE:
		do_sample(f);
		break;
	}
}

struct fabric *
fabric_open(const struct fabric_params *p)
{
	struct fabric *f = rc_zalloc(sizeof(*f)); /* engines are aligned to cache lines */

	if (f == NULL || (f->queue = calloc(FABRIC_SAMPLES, sizeof(*f->queue))) == NULL) {
		fprintf(stderr, "uroce-fabric: no memory\n");
		exit(2);
	}
	f->p = *p;
	f->now_ns = FABRIC_START_NS;
	sim_rng_init(&f->rng, p->seed, 1);
	switch_init(&f->sw, &p->sw, p->seed);
	for (uint32_t i = 0; i < p->hosts; i++) {
		f->up_at[i] = f->down_at[i] = UINT64_MAX;
		host_open(&f->host[i], i, pool, p->sr);
		engine_set_cnp(&f->host[i].engine, 0, p->cnp_ns, CNP_DSCP);
		f->host[i].up.bps = f->sw.port[i].out.bps = p->bps;
		f->host[i].up.delay_ns = f->sw.port[i].out.delay_ns = p->delay_ns;
	}
	at(f, f->now_ns, EV_SAMPLE, 0);
	return f;
}

bool
fabric_close(struct fabric *f)
{
	bool whole = true;

	for (uint32_t i = 0; i < f->p.hosts; i++) {
		line_drain(&f->sw.port[i].out);
		whole &= host_close(&f->host[i]);
	}
	free(f->queue);
	free(f);
	if (!whole || rte_mempool_avail_count(pool) != POOL_MBUFS) {
		fprintf(stderr, "uroce-fabric: QPs keep buffers\n");
		return false;
	}
	return true;
}

struct fabric_flow *
fabric_flow(struct fabric *f, uint32_t src, uint32_t dst, const struct flow *flow)
{
	struct fabric_flow *ff = &f->flow[f->nflows++];

	ff->flow = *flow;
	ff->src = src;
	ff->dst = dst;
	ff->src_conn = f->host[src].nconns;
	ff->dst_conn = f->host[dst].nconns;
	host_connect(&f->host[src], &f->host[dst], &ff->flow, &f->p.policy);
	/* Workers of different hosts do not poll in step. */
	wake(f, src, flow->start_ns + sim_below(&f->rng, HOST_POLL_NS));
	return ff;
}

void
fabric_run(struct fabric *f, uint64_t until_ns)
{
	while (f->heap.n != 0 && f->heap.ev[0].at_ns <= until_ns && !f->overrun) {
		struct sim_event ev = sim_heap_pop(&f->heap);

		f->now_ns = ev.at_ns;
		handle(f, &ev);
	}
	f->now_ns = until_ns;
}

bool
fabric_finish(struct fabric *f)
{
	uint64_t end = f->now_ns + FINISH_NS;
	bool idle;

	for (uint32_t i = 0; i < f->nflows; i++)
		f->flow[i].flow.stop_ns = f->now_ns;
	do {
		fabric_run(f, f->now_ns + FINISH_STEP_NS);
		idle = true;
		for (uint32_t i = 0; i < f->p.hosts; i++)
			idle &= host_idle(&f->host[i]);
	} while (!idle && !f->overrun && f->now_ns < end);
	if (!idle)
		fprintf(stderr, "uroce-fabric: messages do not complete\n");
	return idle;
}

/* The PSN up to which the flow's data is at its receiver. */
static uint32_t
arrived_psn(const struct fabric *f, const struct fabric_flow *ff)
{
	return ff->flow.read ? host_una_psn(&f->host[ff->src], ff->src_conn)
			     : host_expected_psn(&f->host[ff->dst], ff->dst_conn);
}

void
fabric_mark(struct fabric *f)
{
	f->nqueue = 0;
	for (uint32_t i = 0; i < f->nflows; i++) {
		struct fabric_flow *ff = &f->flow[i];

		ff->start_psn = arrived_psn(f, ff);
		ff->flow.nlat = 0;
	}
}

uint64_t
fabric_delivered(const struct fabric *f, const struct fabric_flow *ff)
{
	return (uint64_t)((arrived_psn(f, ff) - ff->start_psn) & WIRE_PSN_MASK) * HOST_MTU;
}

uint64_t
fabric_counter(const struct fabric *f, uint32_t counter)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < f->p.hosts; i++)
		sum += f->host[i].counters.ctr[counter];
	return sum;
}

bool
fabric_failed(const struct fabric *f)
{
	bool failed = f->overrun;

	for (uint32_t i = 0; i < f->nflows; i++)
		failed |= f->flow[i].flow.failed ||
			  !host_verify(&f->host[f->flow[i].src], f->flow[i].src_conn);
	for (uint32_t i = 0; i < f->p.hosts; i++)
		failed |= f->host[i].broken;
	return failed;
}
