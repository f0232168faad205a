/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AF_XDP hands whole buffers to the kernel, with mempool and mbuf headers; the kernel accepts none
 * larger than a page. The driver registers memory from the pool's start, as many bytes as all
 * objects have together. But a mempool leaves gaps, because no object crosses a page: the kernel
 * would silently and permanently refuse the buffers that the gaps push beyond the registered range.
 * We therefore make each object exactly one page, and align the pool to a page: then it has no
 * gaps, neither in ordinary nor in huge pages.
 */
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include "port/log.h"
#include "port/xdp.h"

/*
 * Buffers per queue. The driver keeps 2048 for receive. It reclaims sent buffers only when it sends
 * more, up to 2048 that the kernel has finished and 1024 that it has not. Without a free buffer to
 * send, it would reclaim none.
 */
#define QUEUE_BUFFERS 6144
/* Mempool cache: reuses recent buffers, which are still in the CPU's caches. */
#define CACHE 256
/* Buffers per worker: its full mempool cache and the frames that it processes. */
#define WORKER_BUFFERS 512

#define NO_MEMORY      "no memory for its %u packet buffers: add %zu MiB to --mem"

static void
free_zone(struct rte_mempool_memhdr *chunk, void *zone)
{
	(void)chunk;
	rte_memzone_free(zone);
}

/* Gives the pool memory for all of its objects. Returns 0 or -ENOMEM. */
static int
populate(struct rte_mempool *pool, size_t page)
{
	/* rte_mempool_populate_default aligns to a cache line in huge pages */
	const struct rte_memzone *zone =
		rte_memzone_reserve_aligned(pool->name, pool->size * page, SOCKET_ID_ANY,
					    RTE_MEMZONE_1GB | RTE_MEMZONE_SIZE_HINT_ONLY,
					    (unsigned)page);

	if (zone == NULL)
		return -ENOMEM;
	if (rte_mempool_populate_virt(pool, zone->addr, zone->len, zone->hugepage_sz, free_zone,
				      (void *)(uintptr_t)zone) == (int)pool->size)
		return 0;
	if (pool->nb_mem_chunks == 0)
		rte_memzone_free(zone);
	return -ENOMEM;
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
	/* NO_SPREAD: without it objects grow to spread over memory channels. */
	pool = rte_mempool_create_empty(name, n, (unsigned)(page - header), CACHE, sizeof(priv),
					SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);
	if (pool != NULL)
		rte_pktmbuf_pool_init(pool, &priv);
	if (pool == NULL || populate(pool, page) < 0) {
		PORT_LOG(ERR, p->name, NO_MEMORY, n, (n * page) >> 20);
		rte_mempool_free(pool);
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

/* Returns true if RLIMIT_MEMLOCK does not limit this process (CAP_IPC_LOCK). */
static bool
may_lock_all(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {{.effective = 0}};

	return syscall(SYS_capget, &head, caps) == 0 &&
	       (caps[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

bool
port_xdp_lock_limit(const struct rte_mempool *pool, char *why, size_t room)
{
	size_t object = pool->header_size + pool->elt_size + pool->trailer_size;
	size_t need = pool->size * object;
	struct rlimit r;

	if (getrlimit(RLIMIT_MEMLOCK, &r) < 0 || r.rlim_cur >= need || may_lock_all())
		return false;
	snprintf(why, room,
		 ": uroced may lock %zu KiB of memory, and its packet buffers need %zu KiB: "
		 "`ulimit -l unlimited` before uroced, or LimitMEMLOCK=infinity in its unit",
		 (size_t)r.rlim_cur / 1024, need / 1024);
	return true;
}
