/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports multicast groups that ids have joined on devices with their own addresses (CM-13),
 * because switches and routers forward a group only to its members. On a device on kernel sockets
 * the host's stack reports the groups that a QP joins (obj_mcast.c).
 *
 * A change is reported twice, because a report can be lost. A query is answered by reports, each
 * after a random delay within the time that the query allows. Without queries a group is reported
 * again as often as queriers ask by default.
 *
 * Reports use IGMPv3 and MLDv2. After a general query by IGMPv1, IGMPv2 or MLDv1 they use that
 * version (RFC 3376 7.2.1, RFC 3810 8.2.1), until no such query has arrived for OLD_ROUTER_NS.
 * Other members' reports do not suppress ours, because switches need a report for each port.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/cm_parts.h"
#include "control/neigh.h"

#define AGAIN_NS   NS_PER_S        /* Unsolicited Report Interval (RFC 3376 8.11) */
#define DELAY_NS   (NS_PER_S / 10) /* between a query and the report, at least as an upper limit */
#define REFRESH_NS (125ull * NS_PER_S) /* Query Interval (RFC 3376 8.2) */
/* Older Version Querier Present Timeout (RFC 3376 8.12): old queries do not state their interval.
 */
#define OLD_ROUTER_NS (2 * REFRESH_NS + 10ull * NS_PER_S)

struct ucma_group {
	LIST_ENTRY(ucma_group) link, bucket;
	uint16_t dev;
	uint8_t gid[16];
	uint32_t members; /* 0: the group was left; the second report is still due */
	bool again;       /* the second report of the last change is due */
	uint64_t next_ns;
};

uint64_t
ucma_hash(const struct cm_service *svc, const uint8_t gid[16])
{
	uint64_t h = svc->group_key;
	uint32_t w[4];

	memcpy(w, gid, 16);
	for (uint32_t i = 0; i < 4; i++) {
		h = (h ^ w[i]) * 0x9e3779b97f4a7c15u;
		h ^= h >> 32;
	}
	return h;
}

static struct ucma_groups *
bucket_of(struct cm_service *svc, const uint8_t gid[16])
{
	return &svc->group_bucket[ucma_hash(svc, gid) % UCMA_GROUP_BUCKETS];
}

static struct ucma_group *
find(struct cm_service *svc, uint16_t dev, const uint8_t gid[16])
{
	struct ucma_group *g;

	LIST_FOREACH (g, bucket_of(svc, gid), bucket) {
		if (g->dev == dev && memcmp(g->gid, gid, 16) == 0)
			return g;
	}
	return NULL;
}

/* Returns the version of IGMP or MLD that the routers on dev's link understand. */
static enum net_group_version
version_on(const struct device *dev, bool v4, uint64_t now_ns)
{
	if (!v4)
		return now_ns < dev->mld_v1_until_ns ? NET_GROUP_OLDER : NET_GROUP_NEWEST;
	if (now_ns < dev->igmp_v1_until_ns)
		return NET_GROUP_OLDEST;
	return now_ns < dev->igmp_v2_until_ns ? NET_GROUP_OLDER : NET_GROUP_NEWEST;
}

static void
report(const struct cm_service *svc, const struct ucma_group *g, enum net_group_record record,
       uint64_t now_ns)
{
	static struct net_frame out; /* too large for a stack; there is only one control thread */
	struct device *dev = daemon_device(svc->d, g->dev);

	if (dev != NULL && net_group_report(&dev->net, g->gid, record,
					    version_on(dev, net_gid_is_v4(g->gid), now_ns), &out))
		neigh_send(dev, &out);
}

static void
due_at(struct cm_service *svc, struct ucma_group *g, uint64_t at_ns)
{
	g->next_ns = at_ns;
	if (at_ns < svc->groups_next_ns)
		svc->groups_next_ns = at_ns;
}

/* Reports that the group was joined or left. */
static void
changed(struct cm_service *svc, struct ucma_group *g)
{
	uint64_t now_ns = daemon_now_ns();

	report(svc, g, g->members > 0 ? NET_GROUP_JOINED : NET_GROUP_LEFT, now_ns);
	g->again = true;
	due_at(svc, g, now_ns + AGAIN_NS);
}

static int
join(struct cm_service *svc, uint16_t dev, const uint8_t gid[16])
{
	struct ucma_group *g = find(svc, dev, gid);

	if (g == NULL) {
		g = calloc(1, sizeof(*g));
		if (g == NULL)
			return -ENOMEM;
		g->dev = dev;
		memcpy(g->gid, gid, 16);
		LIST_INSERT_HEAD(&svc->groups, g, link);
		LIST_INSERT_HEAD(bucket_of(svc, gid), g, bucket);
	}
	if (g->members++ == 0)
		changed(svc, g);
	return 0;
}

int
ucma_change_group(void *ctx, uint16_t port, const uint8_t gid[16], bool joins)
{
	struct cm_service *svc = ctx;
	const struct device *dev = daemon_device(svc->d, port);
	struct ucma_group *g;

	if (dev == NULL)
		return -ENODEV;
	if (!port_takes_groups(&dev->port))
		return -EOPNOTSUPP;
	if (dev->net.host)
		return 0; /* reported when the program attaches its QP */
	if (joins)
		return join(svc, port, gid);
	g = find(svc, port, gid);
	if (g != NULL && g->members > 0 && --g->members == 0)
		changed(svc, g);
	return 0;
}

/* Returns true if a query for gid, or for all groups of gid's family, includes g. */
static bool
is_queried(const struct ucma_group *g, const uint8_t gid[16])
{
	if (memcmp(g->gid, gid, 16) == 0)
		return true;
	return net_gid_is_v4(g->gid) == net_gid_is_v4(gid) && net_query_is_general(gid);
}

static void
drop(struct ucma_group *g)
{
	LIST_REMOVE(g, link);
	LIST_REMOVE(g, bucket);
	free(g);
}

/* Called when the routers' version changes: cancels the reports due under the old version. */
static void
version_changed(struct cm_service *svc, const struct device *dev, bool v4, uint64_t now_ns)
{
	struct ucma_group *g, *next;

	for (g = LIST_FIRST(&svc->groups); g != NULL; g = next) {
		next = LIST_NEXT(g, link);
		if (g->dev != dev->port.id || net_gid_is_v4(g->gid) != v4)
			continue;
		if (g->members == 0) {
			drop(g);
			continue;
		}
		g->again = false;
		due_at(svc, g, now_ns + REFRESH_NS);
	}
}

static void
router_seen(struct cm_service *svc, struct device *dev, const struct net_query *q, uint64_t now_ns)
{
	bool v4 = net_gid_is_v4(q->gid);
	enum net_group_version before = version_on(dev, v4, now_ns);

	if (q->version == NET_GROUP_NEWEST || !net_query_is_general(q->gid))
		return;
	if (!v4)
		dev->mld_v1_until_ns = now_ns + OLD_ROUTER_NS;
	else if (q->version == NET_GROUP_OLDEST)
		dev->igmp_v1_until_ns = now_ns + OLD_ROUTER_NS;
	else
		dev->igmp_v2_until_ns = now_ns + OLD_ROUTER_NS;
	if (version_on(dev, v4, now_ns) != before)
		version_changed(svc, dev, v4, now_ns);
}

void
ucma_groups_query(struct cm_service *svc, struct device *dev, const struct net_query *q,
		  uint64_t now_ns)
{
	uint64_t within_ns = q->within_ns < DELAY_NS ? DELAY_NS : q->within_ns;
	struct ucma_group *g;

	router_seen(svc, dev, q, now_ns);
	/* Keep a report that is already due in that time: many queries cause only one report. */
	LIST_FOREACH (g, &svc->groups, link) {
		if (g->dev == dev->port.id && g->members > 0 && g->next_ns > now_ns + within_ns &&
		    is_queried(g, q->gid))
			due_at(svc, g, now_ns + random_u32() % (within_ns / 1000) * 1000);
	}
}

void
ucma_groups_tick(struct cm_service *svc, uint64_t now_ns)
{
	struct ucma_group *g, *next;

	if (svc->groups_next_ns > now_ns)
		return;
	svc->groups_next_ns = CM_NEVER;
	for (g = LIST_FIRST(&svc->groups); g != NULL; g = next) {
		next = LIST_NEXT(g, link);
		if (g->next_ns > now_ns) {
			due_at(svc, g, g->next_ns);
			continue;
		}
		if (g->members == 0) {
			report(svc, g, NET_GROUP_LEFT, now_ns);
			drop(g);
			continue;
		}
		report(svc, g, g->again ? NET_GROUP_JOINED : NET_GROUP_MEMBER, now_ns);
		g->again = false;
		due_at(svc, g, now_ns + REFRESH_NS);
	}
}

void
ucma_groups_forget(struct cm_service *svc, const struct device *dev)
{
	struct ucma_group *g, *next;

	for (g = LIST_FIRST(&svc->groups); g != NULL; g = next) {
		next = LIST_NEXT(g, link);
		if (dev == NULL || g->dev == dev->port.id)
			drop(g);
	}
}
