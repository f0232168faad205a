/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and routes: lookups by the caller's resolver, timeouts, and removals. */
#include <errno.h>
#include <string.h>
#include "cm/rdma_parts.h"

#define MS_NS 1000000ull

static void
query_begin(struct cma *r, struct cma_id *id, enum cma_state state, uint32_t timeout_ms)
{
	id->state = state;
	cm_heap_set(&r->queries, &id->query, r->now_ns + timeout_ms * MS_NS);
}

static void
query_end(struct cma *r, struct cma_id *id, enum cma_state state)
{
	id->state = state;
	cm_heap_set(&r->queries, &id->query, CM_NEVER);
}

static void
addr_done(struct cma *r, struct cma_id *id, int status, const struct cma_path *path)
{
	if (status != 0) {
		query_end(r, id, CMA_BOUND);
		cma_report(r, id, CMA_EV_ADDR_ERROR, status);
		return;
	}
	id->path = *path;
	id->dev = path->addr.dev;
	memcpy(id->src.gid, path->addr.local, 16);
	query_end(r, id, CMA_ADDR_RESOLVED);
	cma_report(r, id, CMA_EV_ADDR_RESOLVED, 0);
}

static void
route_done(struct cma *r, struct cma_id *id, int status, const struct cma_path *path)
{
	if (status != 0) {
		query_end(r, id, CMA_ADDR_RESOLVED);
		cma_report(r, id, CMA_EV_ROUTE_ERROR, status);
		return;
	}
	id->path = *path;
	query_end(r, id, CMA_ROUTE_RESOLVED);
	cma_report(r, id, CMA_EV_ROUTE_RESOLVED, 0);
}

int
cma_resolve_addr(struct cma *r, uint32_t channel, uint32_t id, const struct cma_addr *src,
		 const struct cma_addr *dst, uint32_t timeout_ms, uint64_t now_ns)
{
	struct cma_addr any = {.family = dst->family, .space = dst->space};
	struct cma_path path = {0};
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (dst->family < CMA_IPV4 || dst->family > CMA_IB)
		return -EAFNOSUPPORT;
	if (src == NULL || src->family == CMA_NO_ADDR)
		src = &any;
	if (src->family != dst->family || (i->state != CMA_IDLE && i->state != CMA_BOUND))
		return -EINVAL;
	if (!cma_has_room(i))
		return -ENOMEM;
	r->now_ns = now_ns;
	if (i->state == CMA_IDLE)
		rc = cma_bind_to(r, i, src);
	if (rc != 0)
		return rc;
	i->dst = *dst;
	query_begin(r, i, CMA_ADDR_QUERY, timeout_ms);
	rc = r->ops.resolve(r->ctx, i->id, &i->src, dst, i->tos, &path);
	if (rc == -EINPROGRESS)
		return 0;
	if (rc != 0) {
		query_end(r, i, CMA_BOUND);
		return rc;
	}
	addr_done(r, i, 0, &path);
	return 0;
}

int
cma_resolve_route(struct cma *r, uint32_t channel, uint32_t id, uint32_t timeout_ms,
		  uint64_t now_ns)
{
	struct cma_path path;
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state != CMA_ADDR_RESOLVED)
		return -EINVAL;
	if (!cma_has_room(i))
		return -ENOMEM;
	r->now_ns = now_ns;
	query_begin(r, i, CMA_ROUTE_QUERY, timeout_ms);
	path = i->path;
	rc = r->ops.route(r->ctx, i->id, &path);
	if (rc == -EINPROGRESS)
		return 0;
	if (rc != 0) {
		query_end(r, i, CMA_ADDR_RESOLVED);
		return rc;
	}
	route_done(r, i, 0, &path);
	return 0;
}

int
cma_set_path(struct cma *r, uint32_t channel, uint32_t id, const struct cma_path *path)
{
	struct cma_path p = *path;
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state != CMA_ADDR_RESOLVED)
		return -EINVAL;
	if (!cma_has_room(i))
		return -ENOMEM;
	p.addr.dev = i->path.addr.dev;
	memcpy(p.addr.local, i->path.addr.local, 16);
	memcpy(p.addr.remote, i->path.addr.remote, 16);
	route_done(r, i, 0, &p);
	return 0;
}

int
cma_resolve_service(struct cma *r, uint32_t channel, uint32_t id)
{
	int rc;
	const struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	return i->state == CMA_BOUND && i->dev != CM_DEV_ANY ? -EOPNOTSUPP : -EINVAL;
}

static void
query_done(struct cma *r, struct cma_id *id, int status, const struct cma_path *path)
{
	if (id->state == CMA_ADDR_QUERY)
		addr_done(r, id, status, path);
	else
		route_done(r, id, status, path);
}

void
cma_resolved(struct cma *r, uint32_t id, int status, const struct cma_path *path, uint64_t now_ns)
{
	struct cma_id *i = cma_id_find(r, id);

	r->now_ns = now_ns;
	if (i != NULL && (i->state == CMA_ADDR_QUERY || i->state == CMA_ROUTE_QUERY))
		query_done(r, i, status, path);
}

void
cma_resolve_tick(struct cma *r)
{
	for (uint32_t n = 0; n < CM_TICK_MOST && cm_heap_next_ns(&r->queries) <= r->now_ns; n++) {
		struct cma_id *id = (struct cma_id *)((char *)cm_heap_first(&r->queries) -
						      offsetof(struct cma_id, query));

		r->ops.cancel(r->ctx, id->id);
		query_done(r, id, -ETIMEDOUT, NULL);
	}
}

void
cma_device_removed(struct cma *r, uint16_t dev, uint64_t now_ns)
{
	r->now_ns = now_ns;
	for (uint32_t i = 0; i < r->nids; i++) {
		struct cma_id *id = &r->ids[i];

		if (id->id == 0 || id->dev != dev || id->state == CMA_REMOVED)
			continue;
		if (id->state == CMA_ROUTE_QUERY || id->state == CMA_ADDR_QUERY)
			r->ops.cancel(r->ctx, id->id);
		cma_report(r, id, CMA_EV_DEVICE_REMOVAL, 0);
		/* notify the peer, if it is still reachable */
		if (id->cm != 0)
			cm_destroy(r->cm, id->cm, now_ns);
		id->cm = 0;
		query_end(r, id, CMA_REMOVED);
	}
}

void
cma_address_removed(struct cma *r, uint16_t dev, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < r->nids; i++) {
		struct cma_id *id = &r->ids[i];

		if (id->id == 0 || id->dev != dev || id->moved || id->state == CMA_REMOVED ||
		    memcmp(id->src.gid, gid, 16) != 0)
			continue;
		id->moved = true;
		cma_report(r, id, CMA_EV_ADDR_CHANGE, 0);
	}
}
