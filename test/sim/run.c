/* SPDX-License-Identifier: BSD-3-Clause */
/* One schedule from its seed to its verdict. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_errno.h>
#include <rte_mempool.h>
#include "qp/segs.h"
#include "sim.h"

#define RUN_SEGS 16 /* fewer than a burst may need */
#define RUN_ROOM (RTE_PKTMBUF_HEADROOM + 4096 + 512)
#define RUN_PRIV 64 /* bytes of a frame's private area for the simulator */

void
sim_fail(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (s->failed)
		return;
	s->failed = true;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	sim_log(s, "VIOLATION: %s", s->why);
}

void
sim_log(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (!s->verbose)
		return;
	printf("%12.3f us  ", (double)s->now_ns / 1000);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static struct rte_mempool *
run_pool(const char *name, unsigned n)
{
	struct rte_mempool *p =
		rte_pktmbuf_pool_create(name, n, 0, RUN_PRIV, RUN_ROOM, SOCKET_ID_ANY);

	if (p == NULL) {
		fprintf(stderr, "uroce-sim: no memory for mbufs: %s\n", rte_strerror(rte_errno));
		exit(2);
	}
	return p;
}

void
sim_stock_open(struct sim_stock *stock)
{
	struct sim_rng r;

	stock->pool = run_pool("engine", 4095);
	stock->small_pool = run_pool("engine-small", 31);
	stock->net_pool = run_pool("net", 4095);
	stock->segs = qp_segs_create("segs", RUN_SEGS, SOCKET_ID_ANY);
	stock->table = malloc(SIM_TABLE_BYTES);
	if (stock->segs == NULL || stock->table == NULL)
		abort();
	sim_rng_init(&r, 0, 99);
	sim_rand_fill(&r, stock->table, SIM_TABLE_BYTES);
}

void
sim_stock_close(struct sim_stock *stock)
{
	free(stock->table);
	qp_segs_free(stock->segs);
	rte_mempool_free(stock->pool);
	rte_mempool_free(stock->small_pool);
	rte_mempool_free(stock->net_pool);
}

void
sim_either(struct sim_node *n, uint32_t off, const uint8_t *data, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < len; i++) {
		if (n->mem[off + i] == data[i])
			n->base[off + i] = data[i];
	}
}

void
sim_check_memory(struct sim_node *n, const char *(*in)(const struct sim_node *, uint32_t))
{
	uint32_t k;

	if (memcmp(n->mem, n->base, n->used) == 0)
		return;
	for (k = 0; n->mem[k] == n->base[k]; k++)
		;
	sim_fail(n->sim, "MEM-02: node %u: byte %u is %02x, must be %02x: in %s", n->idx, k,
		 n->mem[k], n->base[k], in(n, k));
}

static void
run_pools(struct sim *s)
{
	struct rte_mempool *pool[] = {s->pool, s->small_pool, s->net_pool};
	unsigned i;

	for (i = 0; i < RTE_DIM(pool); i++) {
		if (rte_mempool_in_use_count(pool[i]) != 0)
			sim_fail(s, "%u mbufs of pool %u are leaked",
				 rte_mempool_in_use_count(pool[i]), i);
	}
	if (!qp_segs_whole(s->segs))
		sim_fail(s, "segments of frames are leaked");
}

bool
sim_run(struct sim *s, uint64_t seed, const char *const *set, unsigned nset)
{
	const struct sim_model *model = s->model;
	struct sim_rng r;
	uint32_t i;

	s->seed = seed;
	s->now_ns = s->last_progress_ns = SIM_START_NS;
	s->failed = false;
	s->why[0] = '\0';
	sim_heap_clear(&s->heap);
	s->digest.value = SIM_DIGEST_START;
	sim_rng_init(&r, seed, model->stream);
	sim_rng_init(&s->load, seed, model->stream + 1);
	sim_rng_init(&s->cli, seed, model->stream + 2);
	sim_rng_init(&s->netr, seed, model->stream + 3);
	sim_pace = (struct sim_pace){0};
	model->begin(s, &r, set, nset);
	model->play(s);
	if (sim_pace.early != 0)
		sim_fail(s, "%lu packets were sent before their pace permitted it",
			 (unsigned long)sim_pace.early);
	s->stats.paced += sim_pace.held;
	for (i = 0; i < s->nnodes; i++)
		s->stats.cqes += s->node_at[i]->cqes;
	s->stats.virtual_ns += s->now_ns - SIM_START_NS;
	model->end(s);
	if (!s->failed)
		run_pools(s);
	return !s->failed;
}
