/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation of a struct cma, time, and conversion of events of struct cm to those of programs. */
#include <string.h>
#include "cm/rdma_parts.h"

#define ID_EVENTS (CMA_ID_EVENTS + CMA_USER_EVENTS)
#define ALIGN     64u

static void
set_data(struct cma_event *e, const struct cm_event *ev, uint32_t skip)
{
	e->conn.ece = ev->ece;
	if (ev->private_data == NULL)
		return;
	e->conn.private_len = ev->private_len - skip;
	memcpy(e->data, ev->private_data + skip, e->conn.private_len);
}

/* Swaps both limits of a REQ or REP: what the sender grants is what the receiver may use. */
static void
set_req(struct cma_event *e, const struct wire_cm_req *m)
{
	e->conn.qpn = m->qpn;
	e->conn.responder_resources = m->initiator_depth;
	e->conn.initiator_depth = m->responder_resources;
	e->conn.flow_control = m->flow_control;
	e->conn.retry_count = m->retry_count;
	e->conn.rnr_retry = m->rnr_retry;
	e->conn.srq = m->srq;
}

static void
set_rep(struct cma_event *e, const struct wire_cm_rep *m)
{
	e->conn.qpn = m->qpn;
	e->conn.responder_resources = m->initiator_depth;
	e->conn.initiator_depth = m->responder_resources;
	e->conn.flow_control = m->flow_control;
	e->conn.rnr_retry = m->rnr_retry;
	e->conn.srq = m->srq;
}

/*
 * Sets the addresses and path of a request's new id. Returns false if the request has no valid
 * header of rdma_cm.
 */
static bool
request_take(struct cma_id *id, const struct cma_id *listener, const struct cm_event *ev)
{
	struct wire_cm_ip ip = {0};

	if (listener->src.family != CMA_IB &&
	    !wire_cm_ip_parse(ev->private_data, ev->private_len, &ip))
		return false;
	id->space = listener->space;
	id->qp_type = listener->qp_type;
	id->dev = ev->addr->dev;
	id->src = listener->src;
	/* an IPv6 wildcard also accepts IPv4 */
	if (listener->src.family != CMA_IB)
		id->src.family = ip.ip == 4 ? CMA_IPV4 : CMA_IPV6;
	memcpy(id->src.gid, ev->addr->local, 16);
	id->dst = id->src;
	id->dst.port = ip.port;
	memcpy(id->dst.gid, ev->addr->remote, 16);
	id->path.addr = *ev->addr;
	if (ev->type == CM_EV_CONNECT_REQUEST) {
		const struct wire_cm_req *m = &ev->msg->req;

		id->qp_type = m->transport == WIRE_CM_UC ? CMA_QP_UC : CMA_QP_RC;
		id->path.mtu = m->mtu;
		id->path.rate = m->primary.rate;
		id->path.sl = m->primary.sl;
		id->path.packet_lifetime =
			(uint8_t)(m->primary.ack_timeout > 0 ? m->primary.ack_timeout - 1 : 0);
	}
	return true;
}

static void
request_refuse(struct cma *r, uint32_t cm, uint16_t reason)
{
	struct cm_reject m = {.reason = reason};

	/* refused in another way if it is a query */
	cm_reject(r->cm, cm, &m, r->now_ns);
	cm_destroy(r->cm, cm, r->now_ns);
}

static void
on_request(struct cma *r, const struct cm_event *ev)
{
	struct cma_id *listener = ev->listener_user, *id = NULL;
	struct cma_event *e;

	if (!r->channels[listener->channel].closing)
		id = cma_new(r, listener->channel);
	if (id == NULL) {
		request_refuse(r, ev->id, WIRE_CM_REJ_NO_RESOURCES);
		return;
	}
	id->state = CMA_CONNECT; /* without a channel until a program takes the event */
	id->mute = true;
	id->cm = ev->id;
	cm_set_user(r->cm, ev->id, id);
	if (!request_take(id, listener, ev)) {
		request_refuse(r, ev->id, WIRE_CM_REJ_CONSUMER);
		id->cm = 0;
		cma_end(r, id);
		return;
	}
	e = cma_report(r, listener, CMA_EV_CONNECT_REQUEST, 0);
	e->id = id->id;
	if (ev->type == CM_EV_CONNECT_REQUEST)
		set_req(e, &ev->msg->req);
	e->ud = ev->type == CM_EV_SIDR_REQUEST;
	e->path = id->path;
	set_data(e, ev, listener->src.family == CMA_IB ? 0 : WIRE_CM_IP_LEN);
}

static void
on_service(struct cma *r, struct cma_id *id, const struct cm_event *ev)
{
	const struct wire_cm_sidr_rep *m = &ev->msg->sidr_rep;
	bool ok = m->status == WIRE_SIDR_OK;
	struct cma_event *e =
		cma_report(r, id, ok ? CMA_EV_ESTABLISHED : CMA_EV_UNREACHABLE, m->status);

	if (e == NULL)
		return;
	e->ud = true;
	e->path = id->path;
	e->conn.qpn = m->qpn;
	e->conn.qkey = m->qkey;
	set_data(e, ev, 0);
}

static void
on_event(void *ctx, const struct cm_event *ev)
{
	static const uint8_t types[CM_NEVENTS] = {
		[CM_EV_CONNECT_RESPONSE] = CMA_EV_CONNECT_RESPONSE,
		[CM_EV_ESTABLISHED] = CMA_EV_ESTABLISHED,
		[CM_EV_REJECTED] = CMA_EV_REJECTED,
		[CM_EV_UNREACHABLE] = CMA_EV_UNREACHABLE,
		[CM_EV_DISCONNECTED] = CMA_EV_DISCONNECTED,
		[CM_EV_TIMEWAIT_EXIT] = CMA_EV_TIMEWAIT_EXIT,
	};
	struct cma *r = ctx;
	struct cma_event *e;

	switch (ev->type) {
	case CM_EV_CONNECT_REQUEST:
	case CM_EV_SIDR_REQUEST:
		on_request(r, ev);
		break;
	case CM_EV_SIDR_RESPONSE:
		on_service(r, ev->user, ev);
		break;
	case CM_EV_PATH_REQUEST:
		/* rdma_cm has no call by which a program could accept the path */
		cm_answer_path(r->cm, ev->id, WIRE_APR_UNSUPPORTED, NULL, 0, r->now_ns);
		break;
	case CM_EV_NONE:
	case CM_EV_PATH_RESPONSE:
	case CM_NEVENTS:
		break;
	default:
		e = cma_report(r, ev->user, types[ev->type],
			       ev->type == CM_EV_REJECTED ? ev->reason : ev->status);
		if (e == NULL)
			break;
		/* programs get no private data of an RTU or a DREQ, as in the kernel */
		if (ev->type == CM_EV_CONNECT_RESPONSE || ev->type == CM_EV_REJECTED)
			set_data(e, ev, 0);
		if (ev->type == CM_EV_CONNECT_RESPONSE)
			set_rep(e, &ev->msg->rep);
	}
}

static void
on_send(void *ctx, const struct cm_addr *addr, const uint8_t *mad)
{
	struct cma *r = ctx;

	r->ops.send(r->ctx, addr, mad);
}

static size_t
padded(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t
cma_bytes(const struct cma_config *c)
{
	size_t cm = cm_bytes(&c->cm);

	if (cm == 0 || c->max_channels < 1 || c->max_channels > 1u << 16 || c->max_ids < 1 ||
	    c->max_ids > 1u << 18 || c->max_groups > 1u << 18)
		return 0;
	return padded(sizeof(struct cma)) + padded(cm) + padded(cm_ports_bytes(c->max_ids)) +
	       padded(c->max_ids * sizeof(struct cm_timer *)) +
	       padded(c->max_ids * sizeof(struct cma_id)) +
	       padded(c->max_channels * sizeof(struct cma_channel)) +
	       padded(c->max_groups * sizeof(struct cma_group)) +
	       padded(((size_t)c->max_ids * ID_EVENTS + c->max_groups) *
		      sizeof(struct cma_waiting));
}

/* Takes bytes from the start of the block. */
static void *
take(uint8_t **at, size_t bytes)
{
	void *p = *at;

	*at += padded(bytes);
	return p;
}

struct cma *
cma_init(void *mem, const struct cma_config *config, const struct cma_ops *ops, void *ctx)
{
	static const struct cm_ops cm_calls = {.send = on_send, .event = on_event};
	uint8_t *at = mem;
	struct cma *r = take(&at, sizeof(*r));

	*r = (struct cma){.config = *config,
			  .ops = *ops,
			  .ctx = ctx,
			  .rng = config->cm.seed,
			  .free_id = CMA_NONE,
			  .free_event = CMA_NONE};
	r->cm = cm_init(take(&at, cm_bytes(&config->cm)), &config->cm, &cm_calls, r);
	r->ports = cm_ports_init(take(&at, cm_ports_bytes(config->max_ids)), config->max_ids,
				 config->cm.seed);
	r->queries.timer = take(&at, config->max_ids * sizeof(*r->queries.timer));
	r->ids = take(&at, config->max_ids * sizeof(*r->ids));
	r->channels = take(&at, config->max_channels * sizeof(*r->channels));
	r->groups = take(&at, config->max_groups * sizeof(*r->groups));
	r->events = (struct cma_waiting *)at;
	memset(r->channels, 0, config->max_channels * sizeof(*r->channels));
	for (uint32_t i = 0; i < config->max_groups; i++)
		r->groups[i] =
			(struct cma_group){.next = i + 1 < config->max_groups ? i + 1 : CMA_NONE};
	r->free_group = config->max_groups > 0 ? 0 : CMA_NONE;
	return r;
}

const struct cm *
cma_cm(const struct cma *r)
{
	return r->cm;
}

bool
cma_rx(struct cma *r, const struct cm_rx_info *info, const uint8_t *mad, uint32_t len,
       uint64_t now_ns)
{
	r->now_ns = now_ns;
	return cm_rx(r->cm, info, mad, len, now_ns);
}

uint64_t
cma_next_ns(const struct cma *r)
{
	uint64_t query_ns = cm_heap_next_ns(&r->queries), cm_ns = cm_next_ns(r->cm);

	return query_ns < cm_ns ? query_ns : cm_ns;
}

void
cma_hurry(struct cma *r, uint64_t again_ns, uint64_t now_ns)
{
	cm_hurry(r->cm, again_ns, now_ns);
}

uint64_t
cma_tick(struct cma *r, uint64_t now_ns)
{
	r->now_ns = now_ns;
	cma_resolve_tick(r);
	cm_tick(r->cm, now_ns);
	return cma_next_ns(r);
}
