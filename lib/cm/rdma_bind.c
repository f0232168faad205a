/* SPDX-License-Identifier: BSD-3-Clause */
/* Local addresses: binding, listening, and the options of an id. */
#include <errno.h>
#include <string.h>
#include "cm/rdma_parts.h"

#define MAX_ACK_TIMEOUT 31

bool
cma_gid_any(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return memcmp(gid, zero, 16) == 0;
}

static uint16_t
space_of(const struct cma_id *id, const struct cma_addr *addr)
{
	return addr->family == CMA_IB && addr->space != 0 ? addr->space : id->space;
}

uint64_t
cma_service(const struct cma_id *id, const struct cma_addr *addr)
{
	return WIRE_CM_SERVICE(space_of(id, addr), addr->port);
}

static bool
may_bind(const struct cma *r, const struct cma_id *id, uint16_t port)
{
	return port == 0 || port >= CMA_LOW_PORTS || r->ops.low_port == NULL ||
	       r->ops.low_port(r->ctx, r->channels[id->channel].user, port);
}

int
cma_bind_to(struct cma *r, struct cma_id *id, const struct cma_addr *addr)
{
	struct cm_bind b = {.space = space_of(id, addr),
			    .port = addr->port,
			    .v6 = addr->family != CMA_IPV4,
			    .afonly = id->afonly,
			    .reuse = id->reuse};
	uint16_t dev = CM_DEV_ANY, port;
	int rc = 0;

	if (addr->family < CMA_IPV4 || addr->family > CMA_IB)
		return -EAFNOSUPPORT;
	if (!may_bind(r, id, addr->port))
		return -EACCES;
	if (!cma_gid_any(addr->gid))
		rc = r->ops.bind(r->ctx, addr, &dev);
	if (rc != 0)
		return rc;
	memcpy(b.gid, addr->gid, 16);
	b.dev = dev;
	rc = cm_port_bind(r->ports, &b, &id->owner, &port);
	if (rc != 0)
		return rc;
	id->src = *addr;
	id->src.port = port;
	id->dev = dev;
	id->state = CMA_BOUND;
	return 0;
}

int
cma_bind(struct cma *r, uint32_t channel, uint32_t id, const struct cma_addr *addr)
{
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	return i->state == CMA_IDLE ? cma_bind_to(r, i, addr) : -EINVAL;
}

static uint8_t
listen_family(const struct cma_id *id)
{
	if (id->src.family == CMA_IPV4)
		return CM_FAMILY_IPV4;
	return id->src.family == CMA_IPV6 && id->afonly ? CM_FAMILY_IPV6 : CM_FAMILY_ANY;
}

int
cma_listen(struct cma *r, uint32_t channel, uint32_t id, uint32_t backlog)
{
	static const struct cma_addr any = {.family = CMA_IPV4};
	struct cm_listen l;
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state == CMA_IDLE)
		rc = cma_bind_to(r, i, &any);
	if (rc != 0)
		return rc;
	if (i->state != CMA_BOUND)
		return -EINVAL;
	rc = cm_port_listen(r->ports, i->owner);
	if (rc != 0)
		return rc;
	l = (struct cm_listen){
		.service_id = cma_service(i, &i->src),
		.sidr = i->qp_type == CMA_QP_UD,
		.dev = i->dev,
		.family = listen_family(i),
		.backlog = backlog == 0 || backlog > CMA_MAX_BACKLOG ? CMA_MAX_BACKLOG : backlog,
	};
	memcpy(l.gid, i->src.gid, 16);
	rc = cm_create(r->cm, i, &i->cm);
	if (rc != 0)
		return rc;
	rc = cm_listen(r->cm, i->cm, &l);
	if (rc != 0) {
		cm_destroy(r->cm, i->cm, r->now_ns);
		i->cm = 0;
		return rc;
	}
	i->state = CMA_LISTEN;
	cma_own(r, i, i->channel, true);
	return 0;
}

int
cma_set_tos(struct cma *r, uint32_t channel, uint32_t id, uint8_t tos)
{
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i != NULL)
		i->tos = tos;
	return rc;
}

int
cma_set_reuse(struct cma *r, uint32_t channel, uint32_t id, bool reuse)
{
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state != CMA_IDLE && (!reuse || i->state == CMA_LISTEN))
		return -EINVAL;
	i->reuse = reuse;
	return 0;
}

int
cma_set_afonly(struct cma *r, uint32_t channel, uint32_t id, bool afonly)
{
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state != CMA_IDLE)
		return -EINVAL;
	i->afonly = afonly;
	return 0;
}

int
cma_set_ack_timeout(struct cma *r, uint32_t channel, uint32_t id, uint8_t code)
{
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->qp_type != CMA_QP_RC || code > MAX_ACK_TIMEOUT)
		return -EINVAL;
	i->ack_timeout = code;
	i->has_ack_timeout = true;
	return 0;
}
