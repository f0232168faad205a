/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups that ids of UD spaces have joined. */
#include <errno.h>
#include <string.h>
#include "cm/rdma_parts.h"

#define GROUP_BITS 18u /* of a slot's number; the rest of a group's number is a generation */
#define MCAST_QPN  0xffffffu

/* Returns true for a multicast address of either family: IPv6 may contain an IPv4 address. */
static bool
is_multicast(const struct cma_addr *addr)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (memcmp(addr->gid, mapped, sizeof(mapped)) == 0)
		return addr->gid[12] >> 4 == 0xe;
	return addr->gid[0] == 0xff;
}

static struct cma_group *
group_new(struct cma *r, uint32_t channel)
{
	struct cma_group *g;
	uint32_t gen, next;
	void *payer;

	if (r->free_group == CMA_NONE || !cma_charge(r, channel, &payer))
		return NULL;
	g = &r->groups[r->free_group];
	next = g->next;
	gen = (g->gen + 1) & ((1u << (31 - GROUP_BITS)) - 1);
	gen = gen == 0 ? 1 : gen;
	*g = (struct cma_group){.id = gen << GROUP_BITS | r->free_group,
				.gen = gen,
				.payer = payer,
				.next = CMA_NONE,
				.prev = CMA_NONE,
				.event = CMA_NONE};
	r->free_group = next;
	return g;
}

static void
group_free(struct cma *r, struct cma_group *g)
{
	cma_discharge(r, g->payer);
	g->id = 0;
	g->next = r->free_group;
	r->free_group = (uint32_t)(g - r->groups);
}

int
cma_join(struct cma *r, uint32_t channel, uint32_t id, uint64_t uid, const struct cma_addr *addr,
	 bool send_only, uint32_t *group)
{
	struct cma_event *e;
	struct cma_group *g;
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (addr->family < CMA_IPV4 || addr->family > CMA_IB)
		return -EAFNOSUPPORT;
	if ((i->state != CMA_BOUND && i->state != CMA_ADDR_RESOLVED) || i->dev == CM_DEV_ANY ||
	    i->qp_type != CMA_QP_UD || !is_multicast(addr))
		return -EINVAL;
	g = group_new(r, i->channel);
	if (g == NULL)
		return -ENOMEM;
	rc = send_only ? 0 : r->ops.mcast(r->ctx, i->dev, addr->gid, true);
	if (rc != 0) {
		group_free(r, g);
		return rc;
	}
	g->uid = uid;
	g->owner = (uint32_t)(i - r->ids);
	g->send_only = send_only;
	memcpy(g->mgid, addr->gid, 16);
	g->next = i->first_group;
	if (g->next != CMA_NONE)
		r->groups[g->next].prev = (uint32_t)(g - r->groups);
	i->first_group = (uint32_t)(g - r->groups);
	*group = g->id;
	e = cma_report_group(r, i, g);
	e->ud = true;
	e->conn.qpn = MCAST_QPN;
	e->conn.qkey = CMA_UD_QKEY;
	e->path = i->path;
	e->path.addr.dev = i->dev;
	e->path.addr.traffic_class = i->tos;
	memcpy(e->path.addr.local, i->src.gid, 16);
	memcpy(e->path.addr.remote, g->mgid, 16);
	return 0;
}

static void
leave(struct cma *r, struct cma_id *id, struct cma_group *g)
{
	/* a removed device has forgotten its groups */
	if (!g->send_only && id->state != CMA_REMOVED)
		r->ops.mcast(r->ctx, id->dev, g->mgid, false);
	if (g->prev == CMA_NONE)
		id->first_group = g->next;
	else
		r->groups[g->prev].next = g->next;
	if (g->next != CMA_NONE)
		r->groups[g->next].prev = g->prev;
	group_free(r, g);
}

int
cma_leave(struct cma *r, uint32_t channel, uint32_t group, uint32_t *reported)
{
	uint32_t slot = group & ((1u << GROUP_BITS) - 1);
	struct cma_group *g;
	struct cma_id *id;

	if (group == 0 || slot >= r->config.max_groups || r->groups[slot].id != group)
		return -ENOENT;
	g = &r->groups[slot];
	id = &r->ids[g->owner];
	if (id->channel + 1 != channel)
		return -EINVAL;
	cma_group_drop(r, g);
	*reported = g->reported;
	leave(r, id, g);
	return 0;
}

void
cma_leave_one(struct cma *r, struct cma_id *id)
{
	leave(r, id, &r->groups[id->first_group]);
}
