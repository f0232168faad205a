/* SPDX-License-Identifier: BSD-3-Clause */
/* Mode "scale": a set of workers, each also the client of its QPs (scale.c). */
#ifndef UROCE_BENCH_SCALE_H
#define UROCE_BENCH_SCALE_H

#include "app/uroce-bench/rc_client.h"
#include "uroce_abi/hello.h"

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
	/* by worker: this one's calls client; the others' have doorbells of QPs that have moved */
	struct uroce_db_ring *db[UROCE_MAX_WORKERS];
	double speed_ns;
	uint32_t failed; /* atomic: status of a failed completion */
	/* atomic, read by the main thread */
	uint64_t done __attribute__((aligned(64)));
	uint32_t step; /* the last step that it has reached */
} __attribute__((aligned(128)));

struct scale_set {
	struct bench_options o;
	unsigned n, split;
	bool follow; /* QPs may move */
	uint32_t slots, stride;
	struct port *port; /* two */
	struct mr_table mrs;
	struct qp_table qps;
	struct worker_set *ws;
	struct station *at;
	/* atomic: a number that changes with each phase, and the phase; read by all workers */
	uint32_t step __attribute__((aligned(64)));
};

/*
 * Opens n workers (1 .. UROCE_MAX_WORKERS) on the lcores 1 .. n, with o->qps connections each, of
 * which split percent have their ends on two workers (0 if n is 1). Control thread. Exits with 1 on
 * failure.
 */
struct scale_set *scale_set_open(const struct bench_options *o, unsigned n, unsigned split,
				 bool follow);
void scale_set_close(struct scale_set *s);
/* Begins a phase and waits until every worker has reached it. */
void scale_phase(struct scale_set *s, enum phase phase);
/* Takes the workers' events, which must not be lost. Exits with 1 if something has failed. */
void scale_events(struct scale_set *s);

/*
 * Counts the cache lines that two workers write while both have only packets of their own QPs; adds
 * a row. Returns false, and prints them, if there are any but those of packet buffers and of the
 * net_ring driver.
 */
bool scale_lines(const struct bench_options *o, struct bench_report *r);

#endif
