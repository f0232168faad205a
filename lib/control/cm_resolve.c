/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the device, source address and next hop for a destination (CM-11), in this order:
 *
 *   1. the device of the source address, if the program has one
 *   2. this host: loopback, or an address of a device: that device, to itself
 *   3. a device with its own addresses that has the destination on-link
 *   4. the host's routing table: the device on kernel sockets that has the source address it gives
 *   5. a device with a gateway
 *
 * On a device with its own neighbours the lookup ends when the next hop's MAC is known.
 *
 * A link-local address belongs to one link: its scope, the number of an interface, selects the
 * device. On a device with the host's addresses a program has to give it, as to the kernel's
 * rdma_cm; a source address with a scope also serves for the destination. A device with its own
 * addresses needs no interface, so its link-local addresses are found without a scope, and with
 * every scope that names no other device's interface.
 */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include "control/cm_parts.h"
#include "control/neigh.h"

#define HOP_LIMIT       64u
#define PACKET_LIFETIME 16u /* 4.096 us << 16 is 268 ms: rdma_cm's on RoCE */
#define RATE_100_GBPS   16u /* IBV_RATE_100_GBPS: the speed that ports report */
#define LABEL_BITS      20u
#define LABELS          128u /* tried, at most: with 16 workers none fits in 3 of 10,000 cases */

#define RESOLVED_MOST   64 /* reported per turn of the loop */

/* An id that waits for the MAC of its next hop. */
struct ucma_lookup {
	LIST_ENTRY(ucma_lookup) link, hop_link;
	uint32_t id;
	uint8_t hop[16];
	struct cma_path path;
};

static bool
is_zero(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return memcmp(gid, zero, 16) == 0;
}

static uint32_t
ifindex_of(const struct device *dev)
{
	return dev->port.netdev[0] != '\0' ? if_nametoindex(dev->port.netdev) : 0;
}

uint32_t
ucma_scope_of(const struct device *dev)
{
	return dev->net.host ? ifindex_of(dev) : 0;
}

/* Returns true if scope is the number of dev's interface: under it, or its kernel interface. */
static bool
has_scope(const struct device *dev, uint32_t scope)
{
	return ifindex_of(dev) == scope ||
	       (dev->hostif != NULL && if_nametoindex(hostif_name(dev->hostif)) == scope);
}

/* Returns true if addr may be on dev's link: a global address, or one with a scope for dev. */
static bool
on_link_of(const struct daemon *d, const struct device *dev, const struct cma_addr *addr)
{
	if (!ucma_gid_needs_scope(addr->gid))
		return true;
	if (addr->scope == 0)
		return !dev->net.host || addr->family == CMA_IB;
	if (has_scope(dev, addr->scope))
		return true;
	if (dev->net.host)
		return false;
	for (uint32_t i = 0; i < d->ndevs; i++) {
		if (has_scope(d->dev[i], addr->scope))
			return false;
	}
	return true;
}

/* Returns the device that has this address; NULL: none. */
static struct device *
device_with(const struct daemon *d, const struct cma_addr *addr)
{
	for (uint32_t i = 0; i < d->ndevs; i++) {
		if (net_gid_find(&d->dev[i]->net, addr->gid) >= 0 && on_link_of(d, d->dev[i], addr))
			return d->dev[i];
	}
	return NULL;
}

/* Returns true if addr lacks the scope that would select its device. */
static bool
lacks_scope(const struct cma_addr *addr)
{
	return addr->scope == 0 && ucma_gid_needs_scope(addr->gid);
}

int
ucma_bind(void *ctx, const struct cma_addr *addr, uint16_t *dev)
{
	const struct cm_service *svc = ctx;
	const struct device *found = device_with(svc->d, addr);

	if (found == NULL)
		return lacks_scope(addr) ? -EINVAL : -EADDRNOTAVAIL;
	*dev = found->port.id;
	return 0;
}

static bool
is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/*
 * Returns the device's source address for dst: one of dst's family on the same link, else one that
 * is not link-local. NULL: none.
 */
static const uint8_t *
source_of(const struct device *dev, const uint8_t dst[16])
{
	const struct net_addr *best = NULL;
	int best_rank = -1;

	for (unsigned i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *a = &dev->net.gid[i];
		int rank;

		if (!a->used || a->v4 != net_gid_is_v4(dst) ||
		    is_link_local(a->gid) != is_link_local(dst))
			continue;
		rank = net_addr_covers(a, dst) ? a->plen : 0;
		if (rank > best_rank) {
			best = a;
			best_rank = rank;
		}
	}
	return best != NULL ? best->gid : NULL;
}

/* Sets a path to this host: from the device's address gid to itself. */
static int
to_itself(const struct device *dev, const uint8_t *gid, struct cma_path *path)
{
	path->addr.dev = dev->port.id;
	memcpy(path->addr.local, gid, 16);
	memcpy(path->addr.remote, gid, 16);
	return 0;
}

/* Returns true if a device on kernel sockets has an address in the loopback network. */
static bool
has_loopback(const struct daemon *d, const uint8_t dst[16])
{
	for (uint32_t i = 0; i < d->ndevs; i++) {
		for (unsigned g = 0; g < UROCE_MAX_GIDS; g++) {
			if (net_addr_covers(&d->dev[i]->net.gid[g], dst))
				return true;
		}
	}
	return false;
}

static int
resolve_loopback(const struct daemon *d, const uint8_t dst[16], struct cma_path *path)
{
	bool v4 = net_gid_is_v4(dst);

	for (uint32_t i = 0; i < d->ndevs; i++) {
		const struct device *dev = d->dev[i];

		for (unsigned g = 1; dev->port.link_up && g <= UROCE_MAX_GIDS; g++) {
			/* try index 0, the link-local address, last */
			const struct net_addr *a = &dev->net.gid[g % UROCE_MAX_GIDS];

			if (a->used && a->v4 == v4)
				return to_itself(dev, a->gid, path);
		}
	}
	return -ENODEV;
}

/* Returns the device with its own addresses whose on-link prefix is the longest match. */
static const struct device *
device_on_link(const struct daemon *d, const struct cma_addr *dst)
{
	const struct device *best = NULL;
	int best_len = -1;

	for (uint32_t i = 0; i < d->ndevs; i++) {
		const struct net_dev *net = &d->dev[i]->net;

		if (net->host || !on_link_of(d, d->dev[i], dst))
			continue;
		for (unsigned g = 0; g < UROCE_MAX_GIDS; g++) {
			if (net->gid[g].used && net->gid[g].plen > best_len &&
			    net_addr_covers(&net->gid[g], dst->gid)) {
				best = d->dev[i];
				best_len = net->gid[g].plen;
			}
		}
	}
	return best;
}

/*
 * Returns a device on kernel sockets according to the host's routes; *src: its address. NULL: none.
 * If the host chooses an address that belongs to no device, such as another daemon's on this host,
 * returns the first device that has a route.
 */
static const struct device *
device_of_host(const struct daemon *d, const struct cma_addr *dst, uint8_t tos, uint8_t src[16])
{
	static const uint8_t any[16];
	const struct device *dev = NULL;
	struct cma_addr from = {.family = dst->family, .scope = dst->scope};
	const uint8_t *gid;
	bool is_any = false;
	uint32_t mtu;

	for (uint32_t i = 0; i < d->ndevs; i++)
		is_any |= d->dev[i]->net.host;
	if (is_any && ucma_host_route(any, dst->gid, dst->scope, tos, from.gid, &mtu) == 0)
		dev = device_with(d, &from);
	memcpy(src, from.gid, 16);
	if (dev != NULL && dev->net.host)
		return dev;
	for (uint32_t i = 0; i < d->ndevs; i++) {
		dev = d->dev[i];
		gid = dev->net.host && on_link_of(d, dev, dst) ? source_of(dev, dst->gid) : NULL;
		if (gid != NULL &&
		    ucma_host_route(gid, dst->gid, ucma_scope_of(dev), tos, src, &mtu) == 0)
			return dev;
	}
	return NULL;
}

static const struct device *
device_with_gateway(const struct daemon *d, const uint8_t dst[16])
{
	for (uint32_t i = 0; i < d->ndevs; i++) {
		const struct net_dev *net = &d->dev[i]->net;

		if (!net->host && !is_zero(net_gid_is_v4(dst) ? net->gw4 : net->gw6))
			return d->dev[i];
	}
	return NULL;
}

/* Finds the device if the program gives no source address: steps 3 to 5. *src: the address. */
static int
choose(const struct daemon *d, const struct cma_addr *dst, uint8_t tos, const struct device **dev,
       uint8_t src[16])
{
	const uint8_t *from;

	*dev = device_on_link(d, dst);
	if (*dev == NULL) {
		*dev = device_of_host(d, dst, tos, src);
		if (*dev != NULL)
			return 0;
		*dev = device_with_gateway(d, dst->gid);
	}
	from = *dev != NULL ? source_of(*dev, dst->gid) : NULL;
	if (from == NULL)
		return lacks_scope(dst) ? -EINVAL : -ENETUNREACH;
	memcpy(src, from, 16);
	return 0;
}

static struct ucma_lookups *
id_bucket(struct cm_service *svc, uint32_t id)
{
	return &svc->lookup_bucket[id % UCMA_LOOKUP_BUCKETS];
}

static struct ucma_lookups *
hop_bucket(struct cm_service *svc, const uint8_t hop[16])
{
	return &svc->hop_bucket[ucma_hash(svc, hop) % UCMA_LOOKUP_BUCKETS];
}

static void
lookup_free(struct ucma_lookup *l)
{
	LIST_REMOVE(l, link);
	LIST_REMOVE(l, hop_link);
	free(l);
}

static void
lookup_wait(struct cm_service *svc, struct ucma_lookup *l, struct device *dev)
{
	LIST_INSERT_HEAD(id_bucket(svc, l->id), l, link);
	LIST_INSERT_HEAD(hop_bucket(svc, l->hop), l, hop_link);
	neigh_ask_for(dev, l->hop, svc->by != NULL ? svc->by->uid : UCMA_NO_OWNER);
}

/* Checks the route from path's source and the next hop's MAC. Returns as cma_ops.resolve. */
static int
check_way(struct cm_service *svc, uint32_t id, struct device *dev, struct cma_path *path)
{
	struct uroce_ah_attr ah = {.hop_limit = HOP_LIMIT, .is_global = 1, .port_num = 1};
	int index = net_gid_find(&dev->net, path->addr.local), rc;
	struct ucma_lookup *l;
	struct wire_path way;
	uint8_t hop[16], src[16];
	uint32_t mtu;
	bool loopback;

	if (index < 0)
		return -EADDRNOTAVAIL;
	if (dev->net.host)
		return ucma_host_route(path->addr.local, path->addr.remote, ucma_scope_of(dev),
				       path->addr.traffic_class, src, &mtu);
	ah.sgid_index = (uint8_t)index;
	memcpy(ah.dgid, path->addr.remote, 16);
	rc = net_path(&dev->net, &ah, WIRE_GSI_QPN, WIRE_GSI_QPN, &way, &loopback, hop);
	if (rc != -EINPROGRESS)
		return rc;
	l = malloc(sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	l->id = id;
	l->path = *path;
	memcpy(l->hop, hop, 16);
	lookup_wait(svc, l, dev);
	return -EINPROGRESS;
}

int
ucma_resolve(void *ctx, uint32_t id, const struct cma_addr *src, const struct cma_addr *dst,
	     uint8_t tos, struct cma_path *path)
{
	struct cm_service *svc = ctx;
	const struct device *dev = is_zero(src->gid) ? NULL : device_with(svc->d, src);
	const struct device *own = device_with(svc->d, dst);
	int rc;

	path->addr.pkey = WIRE_PKEY_DEFAULT;
	path->addr.traffic_class = tos;
	path->addr.hop_limit = HOP_LIMIT;
	if (!is_zero(src->gid) && dev == NULL)
		return -EADDRNOTAVAIL;
	if (ucma_gid_is_loopback(dst->gid) && !has_loopback(svc->d, dst->gid))
		return dev != NULL ? to_itself(dev, src->gid, path)
				   : resolve_loopback(svc->d, dst->gid, path);
	if (dev == NULL && own != NULL)
		return to_itself(own, dst->gid, path);
	if (dev != NULL && !lacks_scope(dst) && !on_link_of(svc->d, dev, dst))
		return -EINVAL; /* the link of the source is another one */
	memcpy(path->addr.local, src->gid, 16);
	rc = dev == NULL ? choose(svc->d, dst, tos, &dev, path->addr.local) : 0;
	if (rc != 0)
		return rc;
	path->addr.dev = dev->port.id;
	memcpy(path->addr.remote, dst->gid, 16);
	return check_way(svc, id, daemon_device(svc->d, dev->port.id), path);
}

/* Returns the n-th label of id, never 0. */
static uint32_t
label_of(uint32_t id, uint32_t n)
{
	return (id * 0x9e3779b1u + n * 0x85ebca6bu) >> (32 - LABEL_BITS) | 1;
}

/*
 * The peer's packets come from the UDP source port that the label stands for. Of the labels of id,
 * takes one with which the NIC puts them into the queue of the QP's worker, so that the QP need not
 * move there. A label that the program has set stays.
 */
uint32_t
ucma_label(void *ctx, uint32_t id, uint32_t qpn, const struct cma_path *path)
{
	const struct cm_service *svc = ctx;
	const struct device *dev = daemon_device(svc->d, path->addr.dev);
	const struct qp *qp = qp_table_find(&svc->d->qps, qpn);
	uint32_t n, label;
	int queue;

	if (dev == NULL || qp == NULL || path->addr.flow_label != label_of(id, 0))
		return path->addr.flow_label;
	for (n = 0; n < LABELS; n++) {
		label = label_of(id, n);
		queue = port_rss_queue(&dev->port.rss, path->addr.remote, path->addr.local,
				       wire_udp_sport(label, 0, 0));
		if (queue < 0)
			break;
		if ((uint32_t)queue == qp_worker(qp))
			return label;
	}
	return path->addr.flow_label;
}

int
ucma_route(void *ctx, uint32_t id, struct cma_path *path)
{
	const struct cm_service *svc = ctx;
	const struct device *dev = daemon_device(svc->d, path->addr.dev);
	uint32_t mtu;
	uint8_t src[16];

	if (dev == NULL)
		return -ENODEV;
	path->addr.pkey = dev->pkey[0];
	/* Different connections use different UDP source ports, derived from the label. */
	path->addr.flow_label = label_of(id, 0);
	path->mtu = dev->max_mtu;
	path->rate = RATE_100_GBPS;
	path->packet_lifetime = PACKET_LIFETIME;
	if (dev->net.host &&
	    ucma_host_route(path->addr.local, path->addr.remote, ucma_scope_of(dev),
			    path->addr.traffic_class, src, &mtu) == 0 &&
	    qp_mtu_code(mtu) < path->mtu)
		path->mtu = qp_mtu_code(mtu);
	return path->mtu != 0 ? 0 : -EMSGSIZE;
}

void
ucma_cancel(void *ctx, uint32_t id)
{
	struct cm_service *svc = ctx;
	struct ucma_lookup *l;

	LIST_FOREACH (l, id_bucket(svc, id), link) {
		if (l->id == id) {
			lookup_free(l);
			return;
		}
	}
}

bool
ucma_lookups_report(struct cm_service *svc, uint64_t now_ns)
{
	struct ucma_lookup *l;

	for (unsigned i = 0; i < RESOLVED_MOST && (l = LIST_FIRST(&svc->resolved)) != NULL; i++) {
		cma_resolved(svc->cma, l->id, 0, &l->path, now_ns);
		lookup_free(l);
	}
	return !LIST_EMPTY(&svc->resolved);
}

void
ucma_lookups_resolved(struct cm_service *svc, struct device *dev, const uint8_t ip[16])
{
	struct ucma_lookup *l, *next;

	for (l = LIST_FIRST(hop_bucket(svc, ip)); l != NULL; l = next) {
		next = LIST_NEXT(l, hop_link);
		if (l->path.addr.dev != dev->port.id || memcmp(l->hop, ip, 16) != 0)
			continue;
		LIST_REMOVE(l, hop_link);
		LIST_INSERT_HEAD(&svc->resolved, l, hop_link);
	}
}
