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
#include <rte_mbuf.h>
#include "port/log.h"
#include "port/xdp.h"

#define BUFFERS 8191 /* the driver keeps two rings of 2048 of them filled */

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
	size_t header = RTE_CACHE_LINE_SIZE, page = (size_t)sysconf(_SC_PAGESIZE);
	struct rte_pktmbuf_pool_private priv = {0};
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rte_mempool *pool;

	priv.mbuf_data_room_size = (uint16_t)(page - header - sizeof(struct rte_mbuf));
	snprintf(name, sizeof(name), "port%u", p->id);
	/* NO_SPREAD: or it makes objects larger, so that they begin on different memory channels */
	pool = rte_mempool_create_empty(name, BUFFERS, (unsigned)(page - header), 0, sizeof(priv),
					SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);
	if (pool == NULL) {
		PORT_LOG(ERR, p->name, "no memory for packet buffers");
		return NULL;
	}
	rte_pktmbuf_pool_init(pool, &priv);
	if (rte_mempool_populate_default(pool) < 0) {
		PORT_LOG(ERR, p->name, "no memory for packet buffers");
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
