/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_byteorder.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_flow.h>
#include <rte_kvargs.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include "port/ethdev.h"
#include "port/host.h"
#include "port/log.h"
#include "port/port.h"
#include "port/queue.h"
#include "port/socket.h"

#define DEFAULT_DESCRIPTORS 1024

RTE_LOG_REGISTER(port_logtype, uroce.port, NOTICE);

static uint16_t ids_taken; /* a bit per id */

uint16_t
port_id_take(void)
{
	for (uint16_t id = PORT_IDS_MAX; id-- > 0;) {
		if ((ids_taken >> id & 1) || rte_eth_dev_is_valid_port(id))
			continue;
		ids_taken = (uint16_t)(ids_taken | 1u << id);
		return id;
	}
	return PORT_IDS_MAX;
}

void
port_id_give(uint16_t id)
{
	ids_taken = (uint16_t)(ids_taken & ~(1u << id));
}

/*
 * net_af_packet has one socket per queue but does not expose it as a receive interrupt. We find the
 * socket among this process's descriptors by the interface that it is bound to.
 */
static bool
bound_to(int fd, unsigned ifindex)
{
	struct sockaddr_ll at = {0};
	socklen_t len = sizeof(at);

	return getsockname(fd, (struct sockaddr *)&at, &len) == 0 && at.sll_family == AF_PACKET &&
	       at.sll_ifindex == (int)ifindex;
}

/* Returns the only packet socket on an interface; 0: none, or several. */
static int
packet_socket(unsigned ifindex)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	int found = 0, n = 0;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		int fd = atoi(e->d_name);

		if (fd > 0 && bound_to(fd, ifindex)) {
			found = fd;
			n++;
		}
	}
	if (dir != NULL)
		closedir(dir);
	return n == 1 ? found : 0;
}

/*
 * Returns a descriptor that is readable for poll(2) while frames wait in p's only receive queue.
 * The driver owns it: use it for polling only. Returns 0 if p has several queues or its driver has
 * no such descriptor. p->driver, netdev and nrxq are set. Allocates nothing that lasts.
 */
static int
port_find_rx_fd(const struct port *p)
{
	unsigned ifindex = if_nametoindex(p->netdev);

	if (strcmp(p->driver, "net_af_packet") != 0 || p->nrxq != 1 || ifindex == 0)
		return 0;
	return packet_socket(ifindex);
}

static uint16_t
at_most(unsigned wanted, unsigned max)
{
	return (uint16_t)(wanted < max ? wanted : max);
}

static bool
is_memif(const struct port *p)
{
	return strcmp(p->driver, "net_memif") == 0;
}

size_t
port_list(char *list, size_t room)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	size_t len = 0;
	uint16_t id;

	*list = '\0';
	RTE_ETH_FOREACH_DEV(id)
	{
		if (rte_eth_dev_get_name_by_port(id, name) == 0 && len < room)
			len += (size_t)snprintf(list + len, room - len, " %s", name);
	}
	return strlen(list);
}

/*
 * Returns true if frames come to as many queues as the arguments of --vdev say, configured or not.
 * Frames for a queue that is not configured are lost, or go to the kernel (net_af_xdp).
 */
static bool
feeds_all_queues(const struct port *p)
{
	static const char *const drivers[] = {"net_af_packet", "net_af_xdp", "net_vhost"};

	for (unsigned i = 0; i < RTE_DIM(drivers); i++) {
		if (strcmp(p->driver, drivers[i]) == 0)
			return true;
	}
	return false;
}

/* Fills in the port's identity: id, names, queues. */
static int
identify(struct port *p, const struct port_params *params, struct rte_eth_dev_info *info)
{
	unsigned nqueues;
	int rc;

	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", params->name);
	p->inward = params->inward;
	p->vlan = params->vlan;
	p->shared = params->shared;
	p->wanted = params->nqueues;
	p->queue_gap = params->queue_gap;
	p->nrxd = params->nrxd;
	p->ntxd = params->ntxd;
	rc = rte_eth_dev_get_port_by_name(params->name, &p->id);
	if (rc != 0) {
		PORT_LOG(ERR, params->name, "no such port");
		return -ENODEV;
	}
	rc = rte_eth_dev_info_get(p->id, info);
	if (rc != 0) {
		PORT_LOG(ERR, p->name, "no information: %s", rte_strerror(-rc));
		return rc;
	}
	snprintf(p->driver, sizeof(p->driver), "%s", info->driver_name);
	if (info->if_index != 0)
		(void)if_indextoname(info->if_index, p->netdev);
	p->kind = is_memif(p) ? PORT_ETHDEV_GUARDED : PORT_ETHDEV;
	p->memif_client = is_memif(p) && !port_devarg_is(info, "role", "server") &&
			  !port_devarg_is(info, "role", "master");
	/* transmit queues, too: net_af_xdp has its queues in pairs */
	nqueues = feeds_all_queues(p) ? UINT16_MAX : params->nqueues;
	p->nrxq = at_most(nqueues, info->max_rx_queues);
	p->ntxq = at_most(nqueues, info->max_tx_queues);
	if (p->nrxq == 0 || p->ntxq == 0) {
		PORT_LOG(ERR, p->name, "no queues");
		return -EINVAL;
	}
	return 0;
}

/*
 * Returns true if the driver has copied and freed the frames when its transmit burst returns. A
 * zero-copy memif has not.
 */
static bool
copies(const struct port *p, const struct rte_eth_dev_info *info)
{
	if (!p->tx_multi_seg)
		return false;
	if (is_memif(p))
		return !port_devarg_is(info, "zero-copy", "yes");
	return strcmp(p->driver, "net_af_packet") == 0;
}

/* The driver refused p->link_mtu and keeps its own MTU. */
static void
lower_mtu(struct port *p)
{
	uint16_t mtu;

	if (rte_eth_dev_get_mtu(p->id, &mtu) != 0 || mtu == 0 || mtu >= p->link_mtu)
		return;
	PORT_LOG(WARNING, p->name, "the driver refuses an MTU of %u, its MTU remains %u",
		 p->link_mtu, mtu);
	p->link_mtu = mtu;
}

/* Logs if a NIC cannot spread frames over the workers. rss: as configured. */
static void
log_lost_queues(const struct port *p, uint64_t rss)
{
	if (p->nrxq < p->wanted)
		PORT_LOG(NOTICE, p->name,
			 "%s has %u receive queues for %u workers: the other workers' frames are "
			 "handed over",
			 p->driver, p->nrxq, p->wanted);
	else if (p->wanted > 1 && (rss & RTE_ETH_RSS_UDP) == 0)
		PORT_LOG(NOTICE, p->name,
			 "%s has no RSS over UDP ports: frames of a pair of hosts arrive on one "
			 "queue and are handed over",
			 p->driver);
}

/*
 * Logs that the peer must have as many queues: these drivers join queue i with the peer's queue i,
 * and have no call that tells the peer's number.
 */
static void
log_joined_queues(const struct port *p)
{
	static const char *const drivers[] = {"net_memif", "net_vhost", "net_virtio_user"};

	for (unsigned i = 0; i < RTE_DIM(drivers); i++) {
		if (strcmp(p->driver, drivers[i]) == 0 && p->ntxq > 1)
			PORT_LOG(NOTICE, p->name,
				 "%s joins its %u queues with the peer's one to one: start the "
				 "peer with as many (`--workers`), or it gets no link, or "
				 "connections hang",
				 p->driver, p->ntxq);
	}
}

/*
 * Configures queues, offloads and MTU of a port. Tries the optional settings (MTU, RSS) first and
 * drops them if the driver refuses.
 */
static int
configure(struct port *p, const struct rte_eth_dev_info *info)
{
	struct rte_eth_conf conf = {.rxmode.mtu = p->link_mtu};
	uint16_t nrxq = (uint16_t)(p->nrxq * (1 + p->queue_gap));
	uint16_t ntxq = (uint16_t)(p->ntxq * (1 + p->queue_gap));
	int rc;

	p->tx_multi_seg = (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
	p->tx_copies = copies(p, info);
	if (p->tx_multi_seg)
		conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (p->nrxq > 1) {
		conf.rx_adv_conf.rss_conf.rss_hf =
			info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
		if (conf.rx_adv_conf.rss_conf.rss_hf != 0)
			conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	}
	if (p->link_mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN > info->max_rx_pktlen)
		conf.rxmode.mtu = 0;
	rc = rte_eth_dev_configure(p->id, nrxq, ntxq, &conf);
	if (rc != 0 && conf.rxmode.mtu != 0) {
		conf.rxmode.mtu = 0;
		rc = rte_eth_dev_configure(p->id, nrxq, ntxq, &conf);
	}
	if (rc != 0 && conf.rxmode.mq_mode != RTE_ETH_MQ_RX_NONE) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
		conf.rx_adv_conf.rss_conf.rss_hf = 0;
		rc = rte_eth_dev_configure(p->id, nrxq, ntxq, &conf);
	}
	/* other drivers report an MTU that means nothing (net_ring) */
	if (rc == 0 && conf.rxmode.mtu == 0 && port_is_pci(p->name))
		lower_mtu(p);
	if (rc == 0 && port_is_pci(p->name))
		log_lost_queues(p, conf.rx_adv_conf.rss_conf.rss_hf);
	if (rc == 0)
		log_joined_queues(p);
	if (rc != 0)
		PORT_LOG(ERR, p->name, "cannot configure %u and %u queues: %s", p->nrxq, p->ntxq,
			 rte_strerror(-rc));
	return rc;
}

/* Explains why a driver refused a receive queue of pool, for drivers that only log the reason. */
static const char *
queue_hint(const struct port *p, const struct rte_mempool *pool, char *why, size_t room)
{
	if (strcmp(p->driver, "net_af_packet") == 0)
		return ": framesz= in --vdev is larger than packet buffers, use 8192 or less";
	if (strcmp(p->driver, "net_af_xdp") == 0)
		return port_xdp_lock_limit(pool, why, room)
			       ? why
			       : ": the interface's driver takes no XDP at this MTU (veth: 3498 at "
				 "most; try "
				 "`ip link set .. mtu 1500`) or none at all; net_af_packet works "
				 "on any "
				 "interface. Or it has an XDP program (`ip link` shows one), "
				 "possibly of a "
				 "uroced that was killed: `ip link set .. xdp off` removes it";
	return "";
}

static int
setup_queues(struct port *p, const struct rte_eth_dev_info *info)
{
	uint16_t nrxd = p->nrxd != 0 ? p->nrxd : DEFAULT_DESCRIPTORS;
	uint16_t ntxd = p->ntxd != 0 ? p->ntxd : DEFAULT_DESCRIPTORS;
	struct rte_eth_txconf txconf = info->default_txconf;
	unsigned socket = (unsigned)rte_eth_dev_socket_id(p->id);
	char why[256];
	int rc = rte_eth_dev_adjust_nb_rx_tx_desc(p->id, &nrxd, &ntxd);

	if (rc != 0) {
		PORT_LOG(ERR, p->name, "%u and %u descriptors are too many: %s", nrxd, ntxd,
			 rte_strerror(-rc));
		return rc;
	}
	if (p->tx_multi_seg)
		txconf.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	for (uint16_t q = 0; q < p->nrxq * (1 + p->queue_gap) && rc == 0; q++) {
		rc = rte_eth_rx_queue_setup(p->id, q, nrxd, socket, NULL, p->pool);
		if (rc != 0)
			PORT_LOG(ERR, p->name, "receive queue %u: %s%s", q, rte_strerror(-rc),
				 queue_hint(p, p->pool, why, sizeof(why)));
	}
	for (uint16_t q = 0; q < p->ntxq * (1 + p->queue_gap) && rc == 0; q++) {
		rc = rte_eth_tx_queue_setup(p->id, q, ntxd, socket, &txconf);
		if (rc != 0)
			PORT_LOG(ERR, p->name, "transmit queue %u: %s", q, rte_strerror(-rc));
	}
	return rc;
}

/* Returns the bytes available for a frame in a buffer of pool. */
static uint32_t
pool_room(struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
}

/* Returns the pool to receive into: pool, or one that meets the driver's needs. NULL: no memory. */
static struct rte_mempool *
receive_pool(struct port *p, struct rte_mempool *pool)
{
	if (strcmp(p->driver, "net_af_xdp") != 0)
		return pool;
	p->own_pool = port_xdp_pool(p);
	return p->own_pool;
}

/* Returns true if the port is on a kernel interface, which keeps its MAC. */
static bool
on_interface(const struct port *p)
{
	return port_shares_interface(p) || strcmp(p->driver, "net_af_xdp") == 0;
}

bool
port_shares_interface(const struct port *p)
{
	return strcmp(p->driver, "net_af_packet") == 0;
}

/* Sets the MAC before the port starts. *filtered: the port may drop frames sent to that MAC. */
static int
choose_mac(struct port *p, const uint8_t *want, bool *filtered)
{
	struct rte_ether_addr own;
	int rc = rte_eth_macaddr_get(p->id, &own);

	*filtered = false;
	if (rc != 0) {
		PORT_LOG(ERR, p->name, "no MAC: %s", rte_strerror(-rc));
		return rc;
	}
	if (want != NULL) {
		memcpy(own.addr_bytes, want, 6);
		if (!rte_is_valid_assigned_ether_addr(&own)) {
			PORT_LOG(ERR, p->name, "the port cannot have the requested MAC");
			return -EINVAL;
		}
	}
	if (strcmp(p->driver, "net_tap") == 0) {
		/* the driver's MAC is that of the kernel's interface, which is our neighbour */
		if (want == NULL)
			own.addr_bytes[5] ^= 1;
	} else if (want != NULL && on_interface(p)) {
		/* the kernel's interface keeps its MAC and filters out frames to any other */
		*filtered = true;
	} else if (want != NULL) {
		*filtered = rte_eth_dev_default_mac_addr_set(p->id, &own) != 0;
	} else if (!rte_is_valid_assigned_ether_addr(&own)) {
		/* net_ring has no MAC and does not filter */
		rte_eth_random_addr(own.addr_bytes);
	}
	memcpy(p->mac, own.addr_bytes, 6);
	return 0;
}

/* The engine reads a frame's VLAN from the frame, so the port must not strip the tag. */
static void
keep_tags(const struct port *p)
{
	int on = rte_eth_dev_get_vlan_offload(p->id);

	if (on < 0 || (on & RTE_ETH_VLAN_STRIP_OFFLOAD) == 0)
		return;
	if (rte_eth_dev_set_vlan_offload(p->id, on & ~RTE_ETH_VLAN_STRIP_OFFLOAD) != 0)
		PORT_LOG(WARNING, p->name,
			 "strips VLAN tags: tagged frames are taken for untagged ones; turn that "
			 "off in the driver (ethtool -K IFACE rxvlan off)");
}

/*
 * The host behind a virtio NIC drops tagged frames of all VLANs until the driver names some. Other
 * drivers let them pass while their filter is off.
 */
static void
pass_vlan(const struct port *p)
{
	int on, rc;

	if (p->vlan == 0 || strcmp(p->driver, "net_virtio") != 0)
		return;
	on = rte_eth_dev_get_vlan_offload(p->id);
	if (on < 0)
		return;
	rc = rte_eth_dev_set_vlan_offload(p->id, on | RTE_ETH_VLAN_FILTER_OFFLOAD);
	if (rc == 0)
		rc = rte_eth_dev_vlan_filter(p->id, p->vlan, 1);
	if (rc != 0)
		PORT_LOG(WARNING, p->name, "frames of VLAN %u may not arrive: %s", p->vlan,
			 rte_strerror(-rc));
}

/* Neighbour solicitations are sent to multicast MACs, which the port would otherwise filter out. */
static void
open_filters(const struct port *p, bool filtered)
{
	if (!filtered && rte_eth_allmulticast_enable(p->id) == 0)
		return;
	if (rte_eth_promiscuous_enable(p->id) != 0)
		PORT_LOG(INFO, p->name, "does not support address filters; frames may be missing");
}

/* Calls fn for the port, on the thread that its driver requires. */
static int
ethdev_call(const struct port *p, int (*fn)(uint16_t id))
{
	return is_memif(p) ? port_memif_call(p->id, fn) : fn(p->id);
}

/*
 * Also returns 0 for a memif client that has no server yet. The driver's error message is
 * suppressed in this case, because port_restart retries every second.
 */
static int
start(struct port *p)
{
	int rc;

	if (p->memif_client)
		rte_log_set_level_pattern("pmd.net.memif*", RTE_LOG_CRIT);
	rc = ethdev_call(p, rte_eth_dev_start);
	if (p->memif_client)
		rte_log_set_level_pattern("pmd.net.memif*", RTE_LOG_NOTICE);
	p->started = rc == 0;
	if (rc == 0 || p->memif_client)
		return 0;
	PORT_LOG(ERR, p->name, "cannot start: %s", rte_strerror(-rc));
	return rc;
}

/* Asks for a rule that sends RoCEv2 over IPv4 to queue 0. */
static void
ask_rule(struct port_caps *caps, uint16_t port_id)
{
	const struct rte_flow_attr attr = {.ingress = 1};
	const struct rte_flow_item_udp udp = {.hdr.dst_port = rte_cpu_to_be_16(WIRE_UDP_PORT)};
	const struct rte_flow_item_udp mask = {.hdr.dst_port = UINT16_MAX};
	const struct rte_flow_item pattern[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4},
		{.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action_queue queue = {.index = 0};
	const struct rte_flow_action action[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow_error error = {.message = NULL};

	caps->flow_rule = rte_flow_validate(port_id, &attr, pattern, action, &error);
	if (caps->flow_rule != 0 && error.message != NULL)
		snprintf(caps->flow_why, sizeof(caps->flow_why), "%s", error.message);
}

/*
 * Fills caps from info, which the driver gave for the ethdev port_id. The device is configured; the
 * rule is only validated, not created.
 */
static void
caps_ask(struct port_caps *caps, uint16_t port_id, const struct rte_eth_dev_info *info)
{
	struct rte_eth_rss_conf rss = {.rss_key = NULL};

	memset(caps, 0, sizeof(*caps));
	caps->known = true;
	caps->rx_offloads = info->rx_offload_capa;
	caps->tx_offloads = info->tx_offload_capa;
	caps->rss = info->flow_type_rss_offloads;
	if (rte_eth_dev_rss_hash_conf_get(port_id, &rss) == 0)
		caps->rss_used = rss.rss_hf;
	caps->reta_size = info->reta_size;
	caps->max_rxq = info->max_rx_queues;
	caps->max_txq = info->max_tx_queues;
	caps->max_mtu = info->max_mtu == UINT16_MAX ? 0 : info->max_mtu;
	ask_rule(caps, port_id);
}

/*
 * When a PCI device is removed (hot-unplug, or `echo 1 >remove` in sysfs), vfio-pci asks the
 * process that has it to close it, and the removal waits until it does. EAL turns the request into
 * an event on its interrupt thread.
 */

/* A bit per ethdev port id: its device is to be removed. EAL's interrupt thread sets it. */
static uint16_t leaving;
_Static_assert(PORT_IDS_MAX <= 16, "a bit per port id");

static uint16_t
port_bit(uint16_t id)
{
	return (uint16_t)(1u << id);
}

static void
on_device(const char *device, enum rte_dev_event_type event, void *arg)
{
	(void)device;
	if (event == RTE_DEV_EVENT_REMOVE)
		__atomic_fetch_or(&leaving, port_bit((uint16_t)(uintptr_t)arg), __ATOMIC_RELEASE);
}

/* Starts to follow removal of the device of an ethdev port. */
static void
unplug_watch(const struct port *p, const struct rte_eth_dev_info *info)
{
	int rc;

	if (info->device == NULL || p->id >= PORT_IDS_MAX)
		return;
	__atomic_fetch_and(&leaving, (uint16_t)~port_bit(p->id), __ATOMIC_RELAXED);
	rc = rte_dev_event_callback_register(rte_dev_name(info->device), on_device,
					     (void *)(uintptr_t)p->id);
	if (rc != 0)
		PORT_LOG(WARNING, p->name, "removal of the device will not be noticed: %s",
			 rte_strerror(-rc));
}

static void
unplug_unwatch(const struct port *p)
{
	struct rte_eth_dev_info info;

	if (p->id < PORT_IDS_MAX && rte_eth_dev_info_get(p->id, &info) == 0 && info.device != NULL)
		(void)rte_dev_event_callback_unregister(rte_dev_name(info.device), on_device,
							(void *)(uintptr_t)p->id);
}

int
port_open(struct port *p, const struct port_params *params, struct rte_mempool *pool)
{
	struct rte_eth_dev_info info;
	bool filtered;
	int rc;

	if (params->udp_addr != NULL || params->udp_netdev != NULL || params->packet_netdev != NULL)
		return port_socket_open(p, params, pool);
	rc = identify(p, params, &info);
	if (rc == 0 && params->shared)
		rc = port_xdp_may_share(p);
	if (rc == 0 && params->shared)
		rc = port_udp_hold(p, true);
	if (rc != 0)
		return rc;
	if (params->shared)
		port_xdp_remove_left(p);
	p->pool = receive_pool(p, pool);
	if (p->pool == NULL) {
		port_udp_release(p);
		return -ENOMEM;
	}
	rc = -EINVAL;
	p->link_mtu = port_find_mtu(p, &info, params->link_mtu, pool_room(p->pool));
	if (p->link_mtu != 0)
		rc = configure(p, &info);
	if (rc == 0)
		rc = setup_queues(p, &info);
	if (rc == 0)
		rc = choose_mac(p, params->mac, &filtered);
	if (rc == 0 && p->kind == PORT_ETHDEV_GUARDED)
		rc = port_guard_install();
	if (rc == 0)
		rc = start(p);
	if (rc != 0) {
		port_udp_release(p);
		rte_mempool_free(p->own_pool);
		p->own_pool = NULL;
		return rc;
	}
	caps_ask(&p->caps, p->id, &info);
	if (p->nrxq > 1)
		port_rss_ask(&p->rss, p->id, &info);
	unplug_watch(p, &info);
	port_vf_open(p);
	keep_tags(p);
	pass_vlan(p);
	p->rx_fd = port_find_rx_fd(p);
	if (p->shared)
		rc = port_xdp_neigh_open(p);
	else
		open_filters(p, filtered);
	port_poll_link(p);
	if (rc != 0)
		port_close(p);
	return rc;
}

static void
stop(struct port *p)
{
	int rc = 0;

	if (p->started)
		rc = ethdev_call(p, rte_eth_dev_stop);
	if (rc != 0)
		PORT_LOG(WARNING, p->name, "cannot stop: %s", rte_strerror(-rc));
	p->started = false;
	__atomic_store_n(&p->link_up, false, __ATOMIC_RELAXED);
}

void
port_close(struct port *p)
{
	int rc;

	if (p->sockets != NULL) {
		port_socket_close(p);
		return;
	}
	if (p->gone)
		return;
	if (p->neigh_fd > 0)
		close(p->neigh_fd);
	unplug_unwatch(p);
	port_vf_close(p);
	stop(p);
	/*
	 * The driver frees a memif server's listening socket without unregistering it from EAL's
	 * interrupt thread. Leave the close to EAL's cleanup, after which the thread does nothing.
	 */
	if (is_memif(p) && !p->memif_client)
		return;
	rc = ethdev_call(p, rte_eth_dev_close);
	if (rc != 0)
		PORT_LOG(WARNING, p->name, "cannot close: %s", rte_strerror(-rc));
	/* last: the next uroced removes a program that it finds */
	port_udp_release(p);
	/* a frame that is still referenced keeps the pool alive */
	if (p->own_pool != NULL && rte_mempool_full(p->own_pool))
		rte_mempool_free(p->own_pool);
	p->own_pool = NULL;
}

bool
port_wants_restart(const struct port *p)
{
	return !p->gone && (!p->started || (p->memif_client && !p->link_up) || p->vf.returned ||
			    port_vf_must_reset(p));
}

/* Sets our MAC on a device that has another one after its reset. */
static void
restore_mac(const struct port *p)
{
	char mac[RTE_ETHER_ADDR_FMT_SIZE];
	struct rte_ether_addr a;
	int rc;

	if (rte_eth_macaddr_get(p->id, &a) != 0 || memcmp(a.addr_bytes, p->mac, 6) == 0)
		return;
	rte_ether_format_addr(mac, sizeof(mac), &a);
	memcpy(a.addr_bytes, p->mac, 6);
	rc = rte_eth_dev_default_mac_addr_set(p->id, &a);
	PORT_LOG(WARNING, p->name,
		 "had the MAC %s after a reset, and its former MAC was set again%s%s: if no frames "
		 "arrive, its PF has set the new MAC: restart uroced to use it",
		 mac, rc != 0 ? ", which failed: " : "", rc != 0 ? rte_strerror(-rc) : "");
}

/* Resets the device, and sets up queues and MAC again. */
static int
reset(struct port *p)
{
	struct rte_eth_dev_info info;
	int rc = rte_eth_dev_reset(p->id);

	if (rc == -ENOTSUP) /* then rte_eth_dev_start does it (net_e1000_igb_vf) */
		return 0;
	if (rc == 0)
		rc = rte_eth_dev_info_get(p->id, &info);
	if (rc == 0)
		rc = configure(p, &info);
	if (rc == 0)
		rc = setup_queues(p, &info);
	if (rc == 0)
		restore_mac(p);
	else
		PORT_LOG(ERR, p->name, "cannot be reset: %s", rte_strerror(-rc));
	return rc;
}

int
port_restart(struct port *p)
{
	bool up = p->link_up, returned = p->vf.returned, must_reset = port_vf_restart(p);
	int rc = 0;

	if (must_reset)
		PORT_LOG(NOTICE, p->name, "is reset, as its driver demands");
	else if (returned)
		PORT_LOG(NOTICE, p->name,
			 "is started again: its link or its PF was down, and the PF may have reset "
			 "it");
	stop(p);
	if (!p->memif_client)
		__atomic_store_n(&p->link_up, up, __ATOMIC_RELAXED);
	if (must_reset)
		rc = reset(p);
	if (rc != 0) {
		port_vf_ask_reset(p);
		return rc;
	}
	rc = start(p);
	if (rc == 0 && !p->started)
		rc = -ENOTCONN;
	if (rc == 0 && must_reset)
		keep_tags(p);
	return rc;
}

int
port_host_addrs(const struct port *p, struct net_addr *addr, uint32_t max)
{
	if (p->kind == PORT_UDP)
		return port_udp_addrs(p, addr, max);
	return host_addrs(p->netdev, NULL, addr, max);
}

int
port_host_route(const struct port *p, const uint8_t dgid[16], uint8_t hop[16])
{
	return host_route(if_nametoindex(p->netdev), dgid, hop);
}

bool
port_poll_link(struct port *p)
{
	struct rte_eth_link link = {0};
	bool up, changed;

	if (p->kind == PORT_UDP)
		up = p->started && port_udp_present(p) && host_runs(p->netdev);
	else if (p->kind == PORT_PACKET)
		up = p->started && port_packet_present(p) && host_runs(p->netdev);
	else
		up = p->started && rte_eth_link_get_nowait(p->id, &link) == 0 &&
		     link.link_status == RTE_ETH_LINK_UP &&
		     (p->netdev[0] == '\0' || host_runs(p->netdev));
	changed = up != p->link_up;
	port_vf_link(p, up, changed);
	port_vf_look(p);
	__atomic_store_n(&p->link_up, up, __ATOMIC_RELAXED);
	return changed;
}

bool
port_must_leave(const struct port *p)
{
	return (p->kind == PORT_ETHDEV || p->kind == PORT_ETHDEV_GUARDED) && !p->gone &&
	       p->id < PORT_IDS_MAX &&
	       (__atomic_load_n(&leaving, __ATOMIC_ACQUIRE) & port_bit(p->id)) != 0;
}

void
port_leave(struct port *p)
{
	struct rte_eth_dev_info info = {.device = NULL};
	int rc = rte_eth_dev_info_get(p->id, &info);

	port_close(p);
	p->gone = true;
	if (rc == 0 && info.device != NULL)
		rc = rte_dev_remove(info.device);
	if (rc != 0)
		PORT_LOG(WARNING, p->name, "cannot give the device back: %s", rte_strerror(-rc));
}

/* Copies the value of key in the device's arguments. Returns false if there is none. */
static bool
devarg(const struct rte_eth_dev_info *info, const char *key, char value[64])
{
	const struct rte_devargs *da = info->device != NULL ? rte_dev_devargs(info->device) : NULL;
	struct rte_kvargs *kv =
		da != NULL && da->args != NULL ? rte_kvargs_parse(da->args, NULL) : NULL;
	const char *found = kv != NULL ? rte_kvargs_get(kv, key) : NULL;

	if (found != NULL)
		snprintf(value, 64, "%s", found);
	rte_kvargs_free(kv);
	return found != NULL;
}

uint32_t
port_devarg_number(const struct rte_eth_dev_info *info, const char *key, uint32_t fallback)
{
	char value[64];

	return devarg(info, key, value) ? (uint32_t)strtoul(value, NULL, 0) : fallback;
}

bool
port_devarg_is(const struct rte_eth_dev_info *info, const char *key, const char *value)
{
	char found[64];

	return devarg(info, key, found) && strcmp(found, value) == 0;
}

#define PCI_ADDRESS "0000:03:00.0" /* shape: '0' stands for a hexadecimal digit */

bool
port_is_pci(const char *name)
{
	const char *shape = PCI_ADDRESS;

	if (strlen(name) != strlen(shape))
		return false;
	for (; *shape != '\0'; shape++, name++) {
		if (*shape == ':' || *shape == '.' ? *name != *shape
						   : strchr("0123456789abcdef", *name) == NULL)
			return false;
	}
	return true;
}

/* Stores the name of the kernel driver of a PCI device. Returns false if it has none. */
static bool
kernel_driver(const char *address, char driver[64])
{
	char path[64], target[PATH_MAX];
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", address);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	snprintf(driver, 64, "%.63s", basename(target));
	return true;
}

bool
port_pci_why(const char *name, char *why, size_t room)
{
	char path[64], driver[64];

	if (!port_is_pci(name))
		return false;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", name);
	if (access(path, F_OK) != 0) {
		snprintf(why, room, "this machine has no PCI device %s (`lspci -D` lists them)",
			 name);
		return true;
	}
	if (!kernel_driver(name, driver))
		snprintf(why, room,
			 "PCI device %s has no kernel driver: bind it to vfio-pci (`driverctl "
			 "set-override %s vfio-pci`)",
			 name, name);
	else if (strcmp(driver, "vfio-pci") != 0)
		snprintf(why, room,
			 "PCI device %s is bound to the kernel driver '%s': bind it to vfio-pci "
			 "(`driverctl set-override %s vfio-pci`; mlx5 keeps its driver)",
			 name, driver, name);
	else
		snprintf(why, room,
			 "PCI device %s is bound to vfio-pci, but DPDK did not open it: add "
			 "`--allow %s`, or see its messages above",
			 name, name);
	return true;
}

#define MAX_QUEUES RTE_PMD_RING_MAX_RX_RINGS

/* Creates the rings for the frames that port name sends, one per queue. */
static int
make_rings(const char *name, unsigned n, unsigned entries, struct rte_ring **rings)
{
	char ring[RTE_RING_NAMESIZE];
	int rc;

	for (unsigned q = 0; q < n; q++) {
		snprintf(ring, sizeof(ring), "tx%u_%s", q, name);
		rings[q] = rte_ring_create(ring, entries, SOCKET_ID_ANY,
					   RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (rings[q] != NULL)
			continue;
		rc = -rte_errno;
		PORT_LOG(ERR, name, "cannot create a ring of %u entries: %s", entries,
			 rte_strerror(-rc));
		while (q-- > 0)
			rte_ring_free(rings[q]);
		return rc;
	}
	return 0;
}

int
port_ring_pair(const char *a, const char *b, unsigned nqueues, unsigned entries)
{
	struct rte_ring *ab[MAX_QUEUES], *ba[MAX_QUEUES];
	int rc;

	if (nqueues == 0 || nqueues > MAX_QUEUES)
		return -EINVAL;
	rc = make_rings(a, nqueues, entries, ab);
	if (rc != 0)
		return rc;
	rc = make_rings(b, nqueues, entries, ba);
	if (rc != 0)
		goto free_ab;
	if (rte_eth_from_rings(a, ba, nqueues, ab, nqueues, SOCKET_ID_ANY) < 0)
		goto free_both;
	if (rte_eth_from_rings(b, ab, nqueues, ba, nqueues, SOCKET_ID_ANY) < 0) {
		/* The first port keeps its rings: a port can only be removed by EAL's cleanup. */
		return -rte_errno;
	}
	return 0;

free_both:
	rc = rte_errno != 0 ? -rte_errno : -EEXIST;
	for (unsigned q = 0; q < nqueues; q++)
		rte_ring_free(ba[q]);
free_ab:
	for (unsigned q = 0; q < nqueues; q++)
		rte_ring_free(ab[q]);
	return rc;
}
