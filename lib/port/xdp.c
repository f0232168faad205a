/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AF_XDP hands whole buffers to the kernel, with mempool and mbuf headers; the kernel accepts none
 * larger than a page. The driver registers memory from the pool's start, as many bytes as all
 * objects have together. But a mempool leaves gaps, because no object crosses a page: the kernel
 * would silently and permanently refuse the buffers that the gaps push beyond the registered range.
 * We therefore make each object exactly one page, and align the pool to a page: then it has no
 * gaps, neither in ordinary nor in huge pages.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xdp_share.h> /* made by embed.py */
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include "port/ethdev.h"
#include "port/host.h"
#include "port/log.h"
#include "port/socket.h"
#include "wire/hdr.h"

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

/*
 * Removes the XDP program of a uroced that was killed. The driver attaches the program for good,
 * and the kernel refuses a second one.
 */

#define OUR_PROGRAM "uroce_share" /* the function's name in xdp_share.bpf.c */

/* Returns the id of the interface's XDP program and its mode (XDP_ATTACHED_..); 0: none. */
static uint32_t
attached(const struct ifinfomsg *link, uint8_t *mode)
{
	uint8_t answer[16384] __attribute__((aligned(8)));
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	const struct rtattr *xdp, *id, *how;
	struct host_ask a;
	uint32_t number = 0;

	host_ask_begin(&a, RTM_GETLINK, 0, link, sizeof(*link));
	if (host_ask(&a, answer, sizeof(answer)) <= 0 || h->nlmsg_type != RTM_NEWLINK)
		return 0;
	xdp = host_attr(IFLA_RTA(NLMSG_DATA(h)), IFLA_PAYLOAD(h), IFLA_XDP);
	if (xdp == NULL)
		return 0;
	id = host_attr(RTA_DATA(xdp), RTA_PAYLOAD(xdp), IFLA_XDP_PROG_ID);
	how = host_attr(RTA_DATA(xdp), RTA_PAYLOAD(xdp), IFLA_XDP_ATTACHED);
	if (id == NULL || how == NULL || RTA_PAYLOAD(id) < sizeof(number))
		return 0;
	memcpy(&number, RTA_DATA(id), sizeof(number));
	*mode = *(const uint8_t *)RTA_DATA(how);
	return number;
}

/* Returns true if the program with this id is uroced's. */
static bool
is_ours(uint32_t id)
{
	struct bpf_prog_info info = {0};
	union bpf_attr by_id = {.prog_id = id}, about = {0};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &by_id, sizeof(by_id));
	bool ours;

	if (fd < 0)
		return false;
	about.info.bpf_fd = (uint32_t)fd;
	about.info.info_len = sizeof(info);
	about.info.info = (uint64_t)(uintptr_t)&info;
	ours = syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &about, sizeof(about)) == 0 &&
	       strncmp(info.name, OUR_PROGRAM, sizeof(info.name)) == 0;
	close(fd);
	return ours;
}

/* Detaches the interface's program. Returns 0 or -errno. */
static int
detach(const struct ifinfomsg *link, uint8_t mode)
{
	const struct {
		struct rtattr fd_head;
		int32_t fd;
		struct rtattr flags_head;
		uint32_t flags;
	} xdp = {
		.fd_head = {.rta_len = RTA_LENGTH(4), .rta_type = IFLA_XDP_FD},
		.fd = -1,
		.flags_head = {.rta_len = RTA_LENGTH(4), .rta_type = IFLA_XDP_FLAGS},
		.flags = mode == XDP_ATTACHED_SKB ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE,
	};
	uint8_t answer[1024] __attribute__((aligned(8)));
	struct host_ask a;
	int rc;

	host_ask_begin(&a, RTM_SETLINK, NLM_F_ACK, link, sizeof(*link));
	host_ask_add(&a, IFLA_XDP | NLA_F_NESTED, &xdp, sizeof(xdp));
	rc = host_ask(&a, answer, sizeof(answer));
	return rc > 0 ? -EPROTO : rc;
}

void
port_xdp_remove_left(const struct port *p)
{
	const struct ifinfomsg link = {.ifi_family = AF_UNSPEC,
				       .ifi_index = (int)if_nametoindex(p->netdev)};
	uint8_t mode;
	uint32_t id = attached(&link, &mode);
	int rc;

	if (id == 0 || !is_ours(id))
		return;
	rc = detach(&link, mode);
	PORT_LOG(NOTICE, p->name, "%s has the XDP program of a uroced that was killed: %s",
		 p->netdev, rc == 0 ? "removed" : strerror(-rc));
}

/*
 * af_xdp on an interface shared with the kernel: the XDP program that selects RoCE frames, and the
 * socket that receives a copy of neighbours' replies, which go to the kernel.
 */

int
port_xdp_share_program(char *path, size_t room)
{
	int fd, rc;

	if (xdp_share_program_bytes == 0)
		return -ENOTSUP;
	fd = memfd_create("uroce_xdp_share", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, xdp_share_program, xdp_share_program_bytes) !=
	    (ssize_t)xdp_share_program_bytes) {
		rc = errno != 0 ? -errno : -EIO;
		close(fd);
		return rc;
	}
	snprintf(path, room, "/proc/self/fd/%d", fd);
	return 0;
}

int
port_xdp_may_share(const struct port *p)
{
	if (strcmp(p->driver, "net_af_xdp") != 0) {
		PORT_LOG(ERR, p->name, "share=yes is for port=packet and net_af_xdp, not for %s",
			 p->driver);
		return -EINVAL;
	}
	/* with several queues, the driver of DPDK 22.11 loads its own program */
	if (p->nrxq == 1)
		return 0;
	PORT_LOG(ERR, p->name, "share=yes takes one queue: no queue_count= in --vdev");
	return -EINVAL;
}

/* Makes the NIC pass frames to multicast groups for as long as the socket is open. */
static int
take_groups(int fd, int ifindex)
{
	struct packet_mreq all = {.mr_ifindex = ifindex, .mr_type = PACKET_MR_ALLMULTI};

	return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) == 0 ? 0
											 : -errno;
}

int
port_xdp_neigh_open(struct port *p)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(p->netdev),
	};
	/* protocol 0: receive nothing until the filter is attached */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -errno;
	rc = packet_filter_set(fd, p->mac, true);
	if (rc == 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		rc = -errno;
	if (rc == 0)
		rc = take_groups(fd, at.sll_ifindex);
	if (rc == 0) {
		p->neigh_fd = fd;
		return 0;
	}
	PORT_LOG(ERR, p->name, "share=yes: socket for neighbours: %s", strerror(-rc));
	close(fd);
	return rc;
}
