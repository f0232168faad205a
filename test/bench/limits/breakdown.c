/* SPDX-License-Identifier: BSD-3-Clause */
#include "breakdown.h"
#include <stdlib.h>

const struct breakdown_name breakdown_name[BREAKDOWN_STEPS] = {
	{"post", "ibv_post_send"},
	{"doorbell", "until the worker finds the WQE"},
	{"turn", "until the engine takes it"},
	{"build", "frame built, port called"},
	{"send", "the port's send call"},
	{"wire", "until the peer's receive call returns"},
	{"place", "frame checked, payload placed"},
	{"complete", "CQE written"},
	{"poll", "until the peer's client has polled it"},
	{"answer", "the client posts again"},
};

const struct breakdown_name breakdown_wait_name[BREAKDOWN_WAITS] = {
	{"yielded", "worker yielded to another thread"},
	{"slept", "worker slept"},
	{"woke", "worker woke its client"},
};

/* The steps of one end by kind and message. tsc 0: no stamp. */
struct table {
	const struct stamp **at;
	uint32_t trips;
};

static void
table_fill(struct table *t, const struct stamp *step, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (step[i].kind < STAMP_KINDS && step[i].n < t->trips)
			t->at[(size_t)step[i].kind * t->trips + step[i].n] = &step[i];
	}
}

static struct table
table_make(const struct breakdown_end *end, uint32_t trips)
{
	struct table t = {calloc((size_t)STAMP_KINDS * trips, sizeof(*t.at)), trips};

	if (t.at == NULL)
		bench_die("no memory for %u round trips", trips);
	table_fill(&t, end->client, end->nclient);
	table_fill(&t, end->worker, end->nworker);
	return t;
}

static const struct stamp *
table_at(const struct table *t, uint32_t kind, uint32_t n)
{
	return t->at[(size_t)kind * t->trips + n];
}

#define STAMPS (2 * STAMP_KINDS) /* of a round trip */

/*
 * Collects the times of round trip n: of half h, STAMP_KINDS stamps from h * STAMP_KINDS on.
 * Returns false if one is missing.
 */
static bool
trip_times(const struct table table[2], uint32_t n, uint64_t tsc[STAMPS])
{
	for (uint32_t i = 0; i < STAMPS; i++) {
		uint32_t half = i / STAMP_KINDS, kind = i % STAMP_KINDS;
		const struct stamp *s =
			table_at(&table[kind < STAMP_RECEIVED ? half : 1 - half], kind, n);

		if (s == NULL)
			return false;
		tsc[i] = s->tsc;
	}
	/* a call that returns late, or two CPUs whose counters differ a little */
	for (uint32_t i = STAMPS - 1; i-- != 0;)
		tsc[i] = tsc[i] < tsc[i + 1] ? tsc[i] : tsc[i + 1];
	return true;
}

static void
cpu_note(struct breakdown *b, const struct table *t, uint32_t e, uint32_t n)
{
	const struct stamp *worker = table_at(t, STAMP_COMPLETED, n);
	const struct stamp *client = table_at(t, STAMP_POLLED, n);

	b->beside[e] += worker->cpu == client->cpu;
	b->cpu[e][0] |= 1ull << worker->cpu % 64;
	b->cpu[e][1] |= 1ull << client->cpu % 64;
}

/*
 * Adds the waits of end e's worker that overlap from .. to. *next: the first step to look at, moved
 * on.
 */
static void
waits_add(struct breakdown *b, const struct breakdown_end *end, uint32_t e, uint32_t *next,
	  const uint64_t from_to[2], double ns_per_cycle)
{
	bool had[BREAKDOWN_WAITS] = {false};

	for (; *next < end->nworker && end->worker[*next].tsc <= from_to[1]; ++*next) {
		const struct stamp *s = &end->worker[*next];
		uint32_t wait = s->kind - STAMP_YIELDED;
		double inside = (double)(int64_t)(s->tsc - from_to[0]) * ns_per_cycle;

		if (s->kind < STAMP_YIELDED || wait >= BREAKDOWN_WAITS || inside < 0)
			continue;
		had[wait] = true;
		b->waited_ns[e][wait] += (uint64_t)(inside < s->n ? inside : s->n);
	}
	for (uint32_t w = 0; w < BREAKDOWN_WAITS; w++)
		b->waited[e][w] += had[w];
}

static void
times_add(struct breakdown *b, const uint64_t tsc[STAMPS], double ns_per_cycle)
{
	double ns = (double)(tsc[STAMPS - 1] - tsc[0]) * ns_per_cycle;

	client_hist_add(&b->total, (uint64_t)ns);
	b->total_ns += ns;
	for (uint32_t i = 0; i + 1 < STAMPS; i++) {
		uint32_t half = i / STAMP_KINDS, k = i % STAMP_KINDS;

		ns = (double)(tsc[i + 1] - tsc[i]) * ns_per_cycle;
		client_hist_add(&b->step[half][k], (uint64_t)ns);
		b->step_ns[half][k] += ns;
	}
}

void
breakdown_add(struct breakdown *b, const struct breakdown_end end[2], uint32_t trips,
	      double ns_per_cycle)
{
	struct table table[2] = {table_make(&end[0], trips), table_make(&end[1], trips)};
	uint32_t next[2] = {0, 0};
	uint64_t tsc[STAMPS];

	for (uint32_t n = 0; n < trips; n++) {
		if (!trip_times(table, n, tsc)) {
			b->incomplete++;
			continue;
		}
		times_add(b, tsc, ns_per_cycle);
		for (uint32_t e = 0; e < 2; e++) {
			const uint64_t from_to[2] = {tsc[0], tsc[STAMPS - 1]};

			cpu_note(b, &table[e], e, n);
			waits_add(b, &end[e], e, &next[e], from_to, ns_per_cycle);
		}
	}
	free(table[0].at);
	free(table[1].at);
}
