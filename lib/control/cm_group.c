/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups that ids have joined on devices with their own addresses (CM-13): reports on the
 * wire, for switches and routers that forward a group only where it has members. The host's stack
 * reports what a QP joins on a device on kernel sockets (obj_mcast.c).
 *
 * A change is reported twice, because a report can be lost. A query is answered by reports of
 * IGMPv3 and MLDv2, whatever its version, each after a random delay within the time that the query
 * allows. Without queries a group is reported again as often as queriers ask by default.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/cm_parts.h"
#include "control/neigh.h"

#define AGAIN_NS   NS_PER_S        /* Unsolicited Report Interval (RFC 3376 8.11) */
#define DELAY_NS   (NS_PER_S / 10) /* between a query and the report, at least as an upper limit */
#define REFRESH_NS (125ull * NS_PER_S) /* Query Interval (RFC 3376 8.2) */

struct cms_group {
	LIST_ENTRY(cms_group) link;
	uint16_t dev;
	uint8_t gid[16];
	uint32_t members; /* 0: left, and reported once more */
	bool again;       /* the second report of the last change is due */
	uint64_t next_ns;
};

static struct cms_group *
find(const struct cm_service *svc, uint16_t dev, const uint8_t gid[16])
{
	struct cms_group *g;

	LIST_FOREACH (g, &svc->groups, link) {
		if (g->dev == dev && memcmp(g->gid, gid, 16) == 0)
			return g;
	}
	return NULL;
}

static void
report(const struct cm_service *svc, const struct cms_group *g, enum net_group_record record)
{
	static struct net_frame out; /* too large for a stack; there is only one control thread */
	struct device *dev = daemon_device(svc->d, g->dev);

	if (dev != NULL && net_group_report(&dev->net, g->gid, record, &out))
		neigh_send(dev, &out);
}

static void
due_at(struct cm_service *svc, struct cms_group *g, uint64_t at_ns)
{
	g->next_ns = at_ns;
	if (at_ns < svc->groups_next_ns)
		svc->groups_next_ns = at_ns;
}

/* The group was joined or left. */
static void
changed(struct cm_service *svc, struct cms_group *g)
{
	report(svc, g, g->members > 0 ? NET_GROUP_JOINED : NET_GROUP_LEFT);
	g->again = true;
	due_at(svc, g, daemon_now_ns() + AGAIN_NS);
}

static int
join(struct cm_service *svc, uint16_t dev, const uint8_t gid[16])
{
	struct cms_group *g = find(svc, dev, gid);

	if (g == NULL) {
		g = calloc(1, sizeof(*g));
		if (g == NULL)
			return -ENOMEM;
		g->dev = dev;
		memcpy(g->gid, gid, 16);
		LIST_INSERT_HEAD(&svc->groups, g, link);
	}
	if (g->members++ == 0)
		changed(svc, g);
	return 0;
}

int
cms_change_group(void *ctx, uint16_t port, const uint8_t gid[16], bool joins)
{
	struct cm_service *svc = ctx;
	const struct device *dev = daemon_device(svc->d, port);
	struct cms_group *g;

	if (dev == NULL)
		return -ENODEV;
	if (!port_takes_groups(&dev->port))
		return -EOPNOTSUPP;
	if (dev->net.host)
		return 0; /* by the QP that the program attaches */
	if (joins)
		return join(svc, port, gid);
	g = find(svc, port, gid);
	if (g != NULL && g->members > 0 && --g->members == 0)
		changed(svc, g);
	return 0;
}

/* Does a query for gid, or for all groups of gid's family, ask for g? */
static bool
is_queried(const struct cms_group *g, const uint8_t gid[16])
{
	static const uint8_t none[16];

	if (memcmp(g->gid, gid, 16) == 0)
		return true;
	return net_gid_is_v4(g->gid) ? net_gid_is_v4(gid) && memcmp(gid + 12, none, 4) == 0
				     : memcmp(gid, none, 16) == 0;
}

void
cms_groups_query(struct cm_service *svc, const struct device *dev, const uint8_t gid[16],
		 uint64_t within_ns)
{
	uint64_t now_ns = daemon_now_ns();
	struct cms_group *g;

	if (within_ns < DELAY_NS)
		within_ns = DELAY_NS;
	/* A report that is due in that time anyway is not moved: any number of queries causes one.
	 */
	LIST_FOREACH (g, &svc->groups, link) {
		if (g->dev == dev->port.id && g->members > 0 && g->next_ns > now_ns + within_ns &&
		    is_queried(g, gid))
			due_at(svc, g, now_ns + random_u32() % (within_ns / 1000) * 1000);
	}
}

static void
drop(struct cms_group *g)
{
	LIST_REMOVE(g, link);
	free(g);
}

void
cms_groups_tick(struct cm_service *svc, uint64_t now_ns)
{
	struct cms_group *g, *next;

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
			report(svc, g, NET_GROUP_LEFT);
			drop(g);
			continue;
		}
		report(svc, g, g->again ? NET_GROUP_JOINED : NET_GROUP_MEMBER);
		g->again = false;
		due_at(svc, g, now_ns + REFRESH_NS);
	}
}

void
cms_groups_forget(struct cm_service *svc, const struct device *dev)
{
	struct cms_group *g, *next;

	for (g = LIST_FIRST(&svc->groups); g != NULL; g = next) {
		next = LIST_NEXT(g, link);
		if (dev == NULL || g->dev == dev->port.id)
			drop(g);
	}
}
