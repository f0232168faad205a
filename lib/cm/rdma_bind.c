/* SPDX-License-Identifier: BSD-3-Clause */
/* Local addresses: binding, listening, and the options of an id. */
#include <errno.h>
#include <string.h>
#include "cm/rdma_parts.h"

#define MAX_ACK_TIMEOUT 31

bool
rcm_gid_any(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return memcmp(gid, zero, 16) == 0;
}

static uint16_t
space_of(const struct rcm_id *id, const struct rcm_addr *addr)
{
	return addr->family == RCM_IB && addr->space != 0 ? addr->space : id->space;
}

uint64_t
rcm_service(const struct rcm_id *id, const struct rcm_addr *addr)
{
	return WIRE_CM_SERVICE(space_of(id, addr), addr->port);
}

static bool
may_bind(const struct rcm *r, const struct rcm_id *id, uint16_t port)
{
	return port == 0 || port >= RCM_LOW_PORTS || r->ops.low_port == NULL ||
	       r->ops.low_port(r->ctx, r->channels[id->channel].user, port);
}

int
rcm_bind_to(struct rcm *r, struct rcm_id *id, const struct rcm_addr *addr)
{
	struct cm_bind b = {.space = space_of(id, addr),
			    .port = addr->port,
			    .v6 = addr->family != RCM_IPV4,
			    .afonly = id->afonly,
			    .reuse = id->reuse};
	uint16_t dev = CM_DEV_ANY, port;
	int rc = 0;

	if (addr->family < RCM_IPV4 || addr->family > RCM_IB)
		return -EAFNOSUPPORT;
	if (!may_bind(r, id, addr->port))
		return -EACCES;
	if (!rcm_gid_any(addr->gid))
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
	id->state = RCM_BOUND;
	return 0;
}

int
rcm_bind(struct rcm *r, uint32_t channel, uint32_t id, const struct rcm_addr *addr)
{
	int rc;
	struct rcm_id *i = rcm_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	return i->state == RCM_IDLE ? rcm_bind_to(r, i, addr) : -EINVAL;
}

static uint8_t
listen_family(const struct rcm_id *id)
{
	if (id->src.family == RCM_IPV4)
		return CM_FAMILY_IPV4;
	return id->src.family == RCM_IPV6 && id->afonly ? CM_FAMILY_IPV6 : CM_FAMILY_ANY;
}

int
rcm_listen(struct rcm *r, uint32_t channel, uint32_t id, uint32_t backlog)
{
	static const struct rcm_addr any = {.family = RCM_IPV4};
	struct cm_listen l;
	int rc;
	struct rcm_id *i = rcm_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state == RCM_IDLE)
		rc = rcm_bind_to(r, i, &any);
	if (rc != 0)
		return rc;
	if (i->state != RCM_BOUND)
		return -EINVAL;
	rc = cm_port_listen(r->ports, i->owner);
	if (rc != 0)
		return rc;
	l = (struct cm_listen){
		.service_id = rcm_service(i, &i->src),
		.sidr = i->qp_type == RCM_QP_UD,
		.dev = i->dev,
		.family = listen_family(i),
		.backlog = backlog == 0 || backlog > RCM_MAX_BACKLOG ? RCM_MAX_BACKLOG : backlog,
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
	i->state = RCM_LISTEN;
	rcm_own(r, i, i->channel, true);
	return 0;
}

int
rcm_set_tos(struct rcm *r, uint32_t channel, uint32_t id, uint8_t tos)
{
	int rc;
	struct rcm_id *i = rcm_find(r, channel, id, &rc);

	if (i != NULL)
		i->tos = tos;
	return rc;
}

int
rcm_set_reuse(struct rcm *r, uint32_t channel, uint32_t id, bool reuse)
{
	int rc;
	struct rcm_id *i = rcm_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state != RCM_IDLE && (!reuse || i->state == RCM_LISTEN))
		return -EINVAL;
	i->reuse = reuse;
	return 0;
}

int
rcm_set_afonly(struct rcm *r, uint32_t channel, uint32_t id, bool afonly)
{
	int rc;
	struct rcm_id *i = rcm_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state != RCM_IDLE)
		return -EINVAL;
	i->afonly = afonly;
	return 0;
}

int
rcm_set_ack_timeout(struct rcm *r, uint32_t channel, uint32_t id, uint8_t code)
{
	int rc;
	struct rcm_id *i = rcm_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->qp_type != RCM_QP_RC || code > MAX_ACK_TIMEOUT)
		return -EINVAL;
	i->ack_timeout = code;
	i->has_ack_timeout = true;
	return 0;
}
