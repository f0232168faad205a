/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AF_XDP hands whole buffers to the kernel, mempool and mbuf headers included, and the kernel takes
 * none that is larger than a page. The driver registers as many bytes from the pool's beginning as
 * all its objects have together. A mempool leaves gaps, for it lets no object cross a page: what
 * lies behind that many bytes for them, the kernel would refuse without a word, for ever. So an
 * object is a page, which leaves none.
 */
#include <stdio.h>
#include <unistd.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include "port/log.h"
#include "port/xdp.h"

/*
 * Of a queue: the driver keeps 2048 for what arrives, and takes back what was sent when more is: up
 * to 2048 that the kernel has done with and 1024 that it has not. Without one to send in, none
 * would come back.
 */
#define QUEUE_BUFFERS 6144
/* What was used last is used next: a buffer that has gone through all others is in no cache. */
#define CACHE 256
/* Of a worker: its cache at its fullest, and frames that it has in hand. */
#define WORKER_BUFFERS 512

#define NO_MEMORY      "no memory for its own %u packet buffers: %zu MiB more in --mem are needed"

struct span {
	uintptr_t first, end;
};

static void
widen(struct rte_mempool *pool, void *arg, void *obj, unsigned idx)
{
	uintptr_t start = (uintptr_t)obj - pool->header_size;
	uintptr_t end = (uintptr_t)obj + pool->elt_size + pool->trailer_size;
	struct span *s = arg;

	s->first = start < s->first ? start : s->first;
	s->end = end > s->end ? end : s->end;
}

/* Does every object lie within what the driver will register? */
static bool
no_gaps(struct rte_mempool *pool)
{
	size_t object = pool->header_size + pool->elt_size + pool->trailer_size;
	struct span s = {.first = UINTPTR_MAX};

	rte_mempool_obj_iter(pool, widen, &s);
	return s.end - s.first <= pool->populated_size * object;
}

struct rte_mempool *
port_xdp_pool(const struct port *p)
{
	unsigned n = p->nrxq * QUEUE_BUFFERS + rte_lcore_count() * WORKER_BUFFERS;
	size_t header = RTE_CACHE_LINE_SIZE, page = (size_t)sysconf(_SC_PAGESIZE);
	struct rte_pktmbuf_pool_private priv = {0};
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rte_mempool *pool;

	priv.mbuf_data_room_size = (uint16_t)(page - header - sizeof(struct rte_mbuf));
	snprintf(name, sizeof(name), "port%u", p->id);
	/* NO_SPREAD: or it makes objects larger, so that they begin on different memory channels */
	pool = rte_mempool_create_empty(name, n, (unsigned)(page - header), CACHE, sizeof(priv),
					SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);
	if (pool == NULL) {
		PORT_LOG(ERR, p->name, NO_MEMORY, n, (n * page) >> 20);
		return NULL;
	}
	rte_pktmbuf_pool_init(pool, &priv);
	if (rte_mempool_populate_default(pool) < 0) {
		PORT_LOG(ERR, p->name, NO_MEMORY, n, (n * page) >> 20);
		rte_mempool_free(pool);
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	if (!no_gaps(pool)) {
		PORT_LOG(ERR, p->name, "packet buffers do not lie side by side: try huge pages");
		rte_mempool_free(pool);
		return NULL;
	}
	return pool;
}
