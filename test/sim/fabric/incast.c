/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_common.h>
#include "fabric.h"
#include "measure.h"
#include "runs.h"
#include "scenario.h"

#define DEPTH      2     /* messages of a sender: the next one is ready when one completes */
#define VICTIM     4096  /* bytes */
#define VICTIM_GAP 20000 /* ns between two messages */
#define MS         1000000ull

static uint32_t
victim_p99(struct fabric_flow *v)
{
	return v->flow.nlat == 0 ? UINT32_MAX
				 : measure_percentile(v->flow.lat_ns, v->flow.nlat, 99);
}

/* A victim's flow that is alone in the fabric. */
static uint32_t
unloaded_p99(const struct runs_options *o)
{
	struct flow flow = {.size = VICTIM,
			    .depth = 1,
			    .gap_ns = VICTIM_GAP,
			    .start_ns = FABRIC_START_NS,
			    .stop_ns = UINT64_MAX,
			    .read = o->read};
	struct fabric *f = scenario_open(o, 2);
	struct fabric_flow *v = fabric_flow(f, 0, 1, &flow);
	uint32_t p99;

	fabric_run(f, FABRIC_START_NS + MS);
	fabric_mark(f);
	fabric_run(f, FABRIC_START_NS + 11 * MS);
	p99 = victim_p99(v);
	(void)fabric_close(f); /* a leak is seen by the next close */
	return p99;
}

static void
count(const struct fabric *f, struct incast_result *r)
{
	r->exhausted = fabric_counter(f, COUNTER_REQ_RETRY_EXC);
	r->timeouts = fabric_counter(f, COUNTER_REQ_TIMEOUT);
	r->probes = fabric_counter(f, COUNTER_REQ_PROBE);
	r->naks = fabric_counter(f, COUNTER_REQ_SEQ_NAK);
	r->resent = fabric_counter(f, COUNTER_REQ_RETRANS);
	r->selective = fabric_counter(f, COUNTER_REQ_SELECTIVE);
	r->spurious = fabric_counter(f, COUNTER_REQ_SPURIOUS);
	r->sacks = fabric_counter(f, COUNTER_REQ_SACK);
	r->fallbacks = fabric_counter(f, COUNTER_RSP_SR_FALLBACK);
	r->cnps = fabric_counter(f, COUNTER_RP_CNP_HANDLED);
	for (uint32_t i = 0; i < f->p.hosts; i++) {
		r->marked += f->sw.port[i].marked;
		r->dropped += f->sw.port[i].dropped;
		r->pauses += f->sw.port[i].pauses;
	}
}

struct incast_result
runs_incast(const struct runs_options *o)
{
	struct flow flow = {.size = 65536,
			    .depth = DEPTH,
			    .start_ns = FABRIC_START_NS,
			    .stop_ns = UINT64_MAX,
			    .read = o->read};
	struct flow small = {.size = VICTIM,
			     .depth = 1,
			     .gap_ns = VICTIM_GAP,
			     .start_ns = FABRIC_START_NS,
			     .stop_ns = UINT64_MAX,
			     .read = o->read};
	uint64_t marked_ns = FABRIC_START_NS + o->warm_ms * MS;
	struct fabric *f = scenario_open(o, o->senders + 2);
	struct incast_result r = {.unloaded_p99_ns = unloaded_p99(o)};
	struct fabric_flow *victim;
	double share[FABRIC_FLOWS], sum = 0;

	for (uint32_t i = 1; i <= o->senders; i++)
		fabric_flow(f, o->read ? 0 : i, o->read ? i : 0, &flow);
	victim = fabric_flow(f, o->read ? o->senders + 1 : 1, o->read ? 1 : o->senders + 1, &small);
	fabric_run(f, marked_ns);
	fabric_mark(f);
	fabric_run(f, marked_ns + o->ms * MS);
	for (uint32_t i = 0; i < o->senders; i++) {
		share[i] = (double)fabric_delivered(f, &f->flow[i]);
		sum += share[i];
		r.messages += f->flow[i].flow.done;
	}
	r.jain = measure_jain(share, o->senders);
	r.goodput = sum * 8 / ((double)o->gbps * (double)o->ms * MS);
	r.kmax_bytes = f->sw.p.kmax_bytes;
	r.queue_p99 = measure_percentile(f->queue, f->nqueue, 99);
	r.queue_max = f->queue[f->nqueue - 1];
	r.victim_p99_ns = victim_p99(victim);
	count(f, &r);
	r.failed = !fabric_finish(f) || fabric_failed(f);
	r.failed |= !fabric_close(f);
	return r;
}
