/* SPDX-License-Identifier: BSD-3-Clause */
/* One schedule of the mesh, from its seed to its verdict. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_mempool.h>
#include "mesh.h"
#include "qp/segs.h"

void
mesh_fail(struct mesh *m, const char *fmt, ...)
{
	va_list ap;

	if (m->failed)
		return;
	m->failed = true;
	va_start(ap, fmt);
	vsnprintf(m->why, sizeof(m->why), fmt, ap);
	va_end(ap);
	mesh_log(m, "VIOLATION: %s", m->why);
}

void
mesh_log(struct mesh *m, const char *fmt, ...)
{
	va_list ap;

	if (!m->verbose)
		return;
	printf("%12.3f us  ", (double)m->now_ns / 1000);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void
mesh_open(struct mesh *m, uint8_t *table, struct rte_mempool *pool, struct rte_mempool *small_pool,
	  struct rte_mempool *net_pool, struct qp_segs *segs)
{
	uint32_t i;

	m->table = table;
	m->pool = pool;
	m->small_pool = small_pool;
	m->net_pool = net_pool;
	m->segs = segs;
	for (i = 0; i < MESH_NODES; i++) {
		m->node[i].mem = malloc(MESH_NODE_BYTES);
		m->node[i].base = malloc(MESH_NODE_BYTES);
		if (m->node[i].mem == NULL || m->node[i].base == NULL)
			abort();
	}
}

void
mesh_close(struct mesh *m)
{
	uint32_t i;

	for (i = 0; i < MESH_NODES; i++) {
		free(m->node[i].mem);
		free(m->node[i].base);
	}
	free(m);
}

static void
run_start(struct mesh *m, uint64_t seed, const char *const *set, unsigned nset)
{
	struct sim_rng r;
	unsigned i;

	m->seed = seed;
	m->now_ns = 1000000;
	m->failed = false;
	m->why[0] = '\0';
	sim_heap_clear(&m->heap);
	m->digest.value = SIM_DIGEST_START;
	sim_rng_init(&r, seed, 10);
	sim_rng_init(&m->load, seed, 11);
	sim_rng_init(&m->cli, seed, 12);
	sim_rng_init(&m->netr, seed, 13);
	m->cfg.must = 2;
	for (i = 0; i < nset; i++)
		mesh_cfg_set(&m->cfg, set[i]);
	mesh_cfg_draw(&m->cfg, &r, m->cfg.must); /* which others depend on */
	for (i = 0; i < nset; i++)
		mesh_cfg_set(&m->cfg, set[i]);
	mesh_cfg_settle(&m->cfg);
	if (m->verbose)
		mesh_cfg_print(&m->cfg);
	mesh_world_make(m);
	mesh_net_reset(m);
}

static void
run_pools(struct mesh *m)
{
	struct rte_mempool *pool[] = {m->pool, m->small_pool, m->net_pool};
	unsigned i;

	for (i = 0; i < 3; i++) {
		if (rte_mempool_in_use_count(pool[i]) != 0)
			mesh_fail(m, "%u mbufs of pool %u are leaked",
				  rte_mempool_in_use_count(pool[i]), i);
	}
	if (!qp_segs_whole(m->segs))
		mesh_fail(m, "segments of frames are leaked");
}

bool
mesh_run(struct mesh *m, uint64_t seed, const char *const *set, unsigned nset)
{
	uint32_t i;

	run_start(m, seed, set, nset);
	mesh_loop(m);
	if (!m->failed)
		mesh_check_end(m);
	for (i = 0; i < m->cfg.nodes; i++)
		m->stats.cqes += m->node[i].cqes;
	m->stats.virtual_ns += m->now_ns - 1000000;
	mesh_net_drain(m);
	mesh_world_free(m);
	if (!m->failed)
		run_pools(m);
	return !m->failed;
}

void
mesh_summary(const struct mesh *m)
{
	const struct mesh_stats *t = &m->stats;

	printf("mesh: %" PRIu64 " lives, %" PRIu64 " killed; %" PRIu64 " frames, %" PRIu64
	       " lost, %" PRIu64 " doubled, %" PRIu64 " damaged, %" PRIu64 " handed over; %" PRIu64
	       " messages and %" PRIu64 " datagrams arrived, %" PRIu64 " completions, %" PRIu64
	       " WQEs failed as they had to; %" PRIu64 " binds, %" PRIu64 " windows gone, %" PRIu64
	       " drains, %" PRIu64 " recoveries from SQE, %" PRIu64
	       " CQs resized, %.1f s virtual\n",
	       t->lives, t->kills, t->frames, t->lost, t->doubled, t->damaged, t->handed,
	       t->delivered, t->datagrams, t->cqes, t->failed_wqes, t->binds, t->invalidated,
	       t->drained, t->recovered, t->resized, (double)t->virtual_ns / 1e9);
}
