/* SPDX-License-Identifier: BSD-3-Clause */
#include <dlfcn.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include "lines.h"
#include "scale.h"

#define WORKERS  2u
#define ROUNDS   8u
#define MESSAGES 20000u /* of the worker that runs alone, in each round */
#define SHOWN    20u
#define ALL      ((1u << WORKERS) - 1)

/* Written in the turns of both workers, so that a test that finds nothing has failed. */
static struct {
	uint32_t by[WORKERS] __attribute__((aligned(64)));
} bait;

struct found {
	struct rte_mempool *pool;
	uint64_t bait, pool_lines, other;
};

static void
enter(struct worker *w, void *arg)
{
	(void)w;
	lines_enter(((struct station *)arg)->index);
}

/* A worker has done so many messages. */
struct goal {
	struct station *st;
	uint64_t done;
};

/* What the main thread does while a worker runs. */
static void
meanwhile(void *arg)
{
	const struct goal *g = arg;

	scale_events(g->st->set);
}

static bool
reached(void *arg)
{
	const struct goal *g = arg;

	meanwhile(arg);
	__atomic_store_n(&bait.by[g->st->index], bait.by[g->st->index] + 1, __ATOMIC_RELAXED);
	return __atomic_load_n(&g->st->done, __ATOMIC_RELAXED) >= g->done;
}

/* Is it part of a packet buffer, or of the ring that the workers' caches exchange buffers with? */
static bool
of_pool(struct rte_mempool *mp, uintptr_t line)
{
	const struct rte_mempool_memhdr *chunk;
	uintptr_t ring = (uintptr_t)mp->pool_data;
	const struct rte_ring *r = mp->pool_data;

	if (line >= ring && line < ring + sizeof(*r) + r->size * sizeof(void *))
		return true;
	STAILQ_FOREACH (chunk, &mp->mem_list, next) {
		if (line >= (uintptr_t)chunk->addr && line < (uintptr_t)chunk->addr + chunk->len)
			return true;
	}
	return false;
}

/* The symbol is that before the line: a variable of a library, maybe a hidden one behind it. */
static void
print_line(uintptr_t line, const char *mapping)
{
	Dl_info info = {.dli_sname = NULL};

	fprintf(stderr, "uroce-bench: two workers write the line %#" PRIxPTR " of %s", line,
		*mapping != '\0' ? mapping : "anonymous memory");
	if (dladdr((const void *)line, &info) != 0)
		fprintf(stderr, " (%s of %s + %#tx)", info.dli_sname != NULL ? info.dli_sname : "?",
			info.dli_fname, (const char *)line - (const char *)info.dli_fbase);
	fputc(':', stderr);
	for (unsigned i = 0; i < LINES_BYTES / 8; i++)
		fprintf(stderr, " %016" PRIx64, ((const uint64_t *)line)[i]);
	fputc('\n', stderr);
}

static void
take(uintptr_t line, unsigned writers, const char *mapping, void *arg)
{
	struct found *f = arg;

	if (line == (uintptr_t)&bait) {
		f->bait++;
	} else if (of_pool(f->pool, line)) {
		f->pool_lines++;
	} else if (f->other++ < SHOWN) {
		print_line(line, mapping);
	}
}

bool
scale_lines(const struct bench_options *o, struct bench_report *r)
{
	struct scale_set *s = scale_set_open(o, WORKERS, 0, false);
	struct found f = {.pool = rte_mempool_lookup("bench")};
	struct lines *l;

	for (unsigned i = 0; i < WORKERS; i++)
		worker_call(s->at[i].w, enter, &s->at[i]);
	scale_phase(s, PHASE_RUN);
	l = lines_open(WORKERS, meanwhile, &(struct goal){&s->at[0], 0});
	for (unsigned i = 0; i < ROUNDS * WORKERS; i++) {
		struct station *st = &s->at[i % WORKERS];
		struct goal g = {st, __atomic_load_n(&st->done, __ATOMIC_RELAXED) + MESSAGES};

		lines_run_alone(l, st->index, reached, &g);
	}
	lines_shared(l, take, &f);
	for (unsigned i = 0; i < WORKERS; i++)
		bench_add(r, i == 0 ? "lines_of_0" : "lines_of_1", "lines",
			  (double)lines_written(l, i));
	lines_close(l);
	scale_phase(s, PHASE_REST);
	scale_set_close(s);
	bench_add(r, "shared", "lines", (double)f.other);
	bench_add(r, "shared_buffers", "lines", (double)f.pool_lines);
	bench_report_row(r, "lines that two workers write, RC %s, %u B, %u QP%s each",
			 bench_op_name[o->op], o->size, o->qps, o->qps == 1 ? "" : "s");
	if (f.bait != 1)
		bench_die("the line that is written on purpose was not found");
	return f.other == 0;
}
