/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels, ids and waiting events. */
#include <errno.h>
#include <string.h>
#include "cm/rdma_parts.h"

#define ID_BITS 18u /* of a slot's number; the other bits except the sign are a generation */

const char *const cma_event_name[CMA_NEVENTS] = {
	[CMA_EV_ADDR_RESOLVED] = "ADDR_RESOLVED",
	[CMA_EV_ADDR_ERROR] = "ADDR_ERROR",
	[CMA_EV_ROUTE_RESOLVED] = "ROUTE_RESOLVED",
	[CMA_EV_ROUTE_ERROR] = "ROUTE_ERROR",
	[CMA_EV_CONNECT_REQUEST] = "CONNECT_REQUEST",
	[CMA_EV_CONNECT_RESPONSE] = "CONNECT_RESPONSE",
	[CMA_EV_CONNECT_ERROR] = "CONNECT_ERROR",
	[CMA_EV_UNREACHABLE] = "UNREACHABLE",
	[CMA_EV_REJECTED] = "REJECTED",
	[CMA_EV_ESTABLISHED] = "ESTABLISHED",
	[CMA_EV_DISCONNECTED] = "DISCONNECTED",
	[CMA_EV_DEVICE_REMOVAL] = "DEVICE_REMOVAL",
	[CMA_EV_MULTICAST_JOIN] = "MULTICAST_JOIN",
	[CMA_EV_MULTICAST_ERROR] = "MULTICAST_ERROR",
	[CMA_EV_ADDR_CHANGE] = "ADDR_CHANGE",
	[CMA_EV_TIMEWAIT_EXIT] = "TIMEWAIT_EXIT",
	[CMA_EV_ADDRINFO_RESOLVED] = "ADDRINFO_RESOLVED",
	[CMA_EV_ADDRINFO_ERROR] = "ADDRINFO_ERROR",
	[CMA_EV_USER] = "USER",
	[CMA_EV_INTERNAL] = "INTERNAL",
};

const char *const cma_state_name[CMA_NSTATES] = {
	[CMA_IDLE] = "IDLE",
	[CMA_BOUND] = "BOUND",
	[CMA_LISTEN] = "LISTEN",
	[CMA_ADDR_QUERY] = "ADDR_QUERY",
	[CMA_ADDR_RESOLVED] = "ADDR_RESOLVED",
	[CMA_ROUTE_QUERY] = "ROUTE_QUERY",
	[CMA_ROUTE_RESOLVED] = "ROUTE_RESOLVED",
	[CMA_CONNECT] = "CONNECT",
	[CMA_REMOVED] = "REMOVED",
};

struct cma_channel *
cma_channel_find(const struct cma *r, uint32_t channel)
{
	if (channel == 0 || channel > r->config.max_channels || !r->channels[channel - 1].used)
		return NULL;
	return &r->channels[channel - 1];
}

struct cma_id *
cma_id_find(const struct cma *r, uint32_t id)
{
	uint32_t slot = id & ((1u << ID_BITS) - 1);

	if (id == 0 || slot >= r->nids || r->ids[slot].id != id)
		return NULL;
	return &r->ids[slot];
}

struct cma_id *
cma_find(const struct cma *r, uint32_t channel, uint32_t id, int *rc)
{
	struct cma_id *i = cma_id_find(r, id);

	*rc = -ENOENT;
	/* no program knows the id of a waiting request yet */
	if (i == NULL || i->channel == CMA_NONE)
		return NULL;
	*rc = i->channel + 1 == channel ? 0 : -EINVAL;
	return *rc == 0 ? i : NULL;
}

bool
cma_charge(struct cma *r, uint32_t channel, void **payer)
{
	*payer = NULL;
	if (r->ops.charge == NULL)
		return true;
	*payer = r->ops.charge(r->ctx, r->channels[channel].user);
	return *payer != NULL;
}

void
cma_discharge(struct cma *r, void *payer)
{
	if (payer != NULL)
		r->ops.discharge(r->ctx, payer);
}

static uint32_t *
first_of(struct cma *r, const struct cma_id *id)
{
	struct cma_channel *c = &r->channels[id->channel];

	return id->listens ? &c->first_listener : &c->first_id;
}

/* Takes id from its channel, if it has one. */
static void
disown(struct cma *r, struct cma_id *id)
{
	if (id->channel == CMA_NONE)
		return;
	if (id->prev == CMA_NONE)
		*first_of(r, id) = id->next;
	else
		r->ids[id->prev].next = id->next;
	if (id->next != CMA_NONE)
		r->ids[id->next].prev = id->prev;
	id->channel = CMA_NONE;
}

void
cma_own(struct cma *r, struct cma_id *id, uint32_t channel, bool listens)
{
	uint32_t slot = (uint32_t)(id - r->ids), *first;

	disown(r, id);
	id->channel = channel;
	id->listens = listens;
	first = first_of(r, id);
	id->prev = CMA_NONE;
	id->next = *first;
	if (id->next != CMA_NONE)
		r->ids[id->next].prev = slot;
	*first = slot;
}

struct cma_id *
cma_new(struct cma *r, uint32_t channel)
{
	uint32_t slot = r->free_id, gen = 0;
	struct cma_id *id;
	void *payer;

	if ((slot == CMA_NONE && r->nids == r->config.max_ids) || !cma_charge(r, channel, &payer))
		return NULL;
	if (slot == CMA_NONE) {
		slot = r->nids++;
		id = &r->ids[slot];
	} else {
		id = &r->ids[slot];
		r->free_id = id->next;
		gen = id->gen;
	}
	gen = (gen + 1) & ((1u << (31 - ID_BITS)) - 1);
	gen = gen == 0 ? 1 : gen;
	*id = (struct cma_id){.id = gen << ID_BITS | slot,
			      .gen = gen,
			      .payer = payer,
			      .channel = CMA_NONE,
			      .dev = CM_DEV_ANY,
			      .first_event = CMA_NONE,
			      .last_event = CMA_NONE,
			      .first_group = CMA_NONE,
			      .query = CM_TIMER_NONE};
	r->rng = r->rng * 6364136223846793005u + 1442695040888963407u;
	id->psn = (uint32_t)(r->rng >> 40);
	return id;
}

bool
cma_has_room(const struct cma_id *id)
{
	return id->nwaiting < CMA_CALL_EVENTS;
}

/* Allocates an event: there are ID_EVENTS (rdma.c) for every id and one for every group. */
static uint32_t
event_new(struct cma *r)
{
	uint32_t at = r->free_event;

	if (at == CMA_NONE)
		return r->nevents++;
	r->free_event = r->events[at].next;
	return at;
}

/* Returns true for the types that cma_write_event queues. */
static bool
is_written(uint32_t type)
{
	return type == CMA_EV_USER || type == CMA_EV_INTERNAL;
}

static void
queue_append(struct cma *r, struct cma_channel *c, uint32_t at)
{
	r->events[at].next = CMA_NONE;
	r->events[at].prev = c->n > 0 ? c->last : CMA_NONE;
	if (c->n++ == 0)
		c->first = at;
	else
		r->events[c->last].next = at;
	c->last = at;
}

static void
queue_unlink(struct cma *r, struct cma_channel *c, uint32_t at)
{
	const struct cma_waiting *e = &r->events[at];

	if (e->prev == CMA_NONE)
		c->first = e->next;
	else
		r->events[e->prev].next = e->next;
	if (e->next == CMA_NONE)
		c->last = e->prev;
	else
		r->events[e->next].prev = e->prev;
	c->n--;
}

/* Takes an event from its channel's queue and from its id, and frees it. */
static void
event_free(struct cma *r, uint32_t at)
{
	struct cma_waiting *e = &r->events[at];
	struct cma_id *id = &r->ids[e->id];

	queue_unlink(r, &r->channels[id->channel], at);
	if (e->of_prev == CMA_NONE)
		id->first_event = e->of_next;
	else
		r->events[e->of_prev].of_next = e->of_next;
	if (e->of_next == CMA_NONE)
		id->last_event = e->of_prev;
	else
		r->events[e->of_next].of_prev = e->of_prev;
	if (is_written(e->ev.type))
		id->nuser--;
	else if (e->group == CMA_NONE)
		id->nwaiting--;
	else
		r->groups[e->group].event = CMA_NONE;
	e->next = r->free_event;
	r->free_event = at;
}

/* Append an event of id to its channel's queue. */
static struct cma_event *
event_put(struct cma *r, struct cma_id *id, const struct cma_event *ev, uint32_t group)
{
	struct cma_channel *c = &r->channels[id->channel];
	uint32_t at = event_new(r);

	r->events[at] = (struct cma_waiting){.ev = *ev,
					     .id = (uint32_t)(id - r->ids),
					     .group = group,
					     .of_prev = id->last_event,
					     .of_next = CMA_NONE};
	if (id->last_event == CMA_NONE)
		id->first_event = at;
	else
		r->events[id->last_event].of_next = at;
	id->last_event = at;
	if (group != CMA_NONE)
		r->groups[group].event = at;
	queue_append(r, c, at);
	if (c->n == 1)
		r->ops.readable(r->ctx, c->user);
	return &r->events[at].ev;
}

struct cma_event *
cma_report(struct cma *r, struct cma_id *id, enum cma_event_type type, int32_t status)
{
	struct cma_event ev = {.type = type, .uid = id->uid, .id = id->id, .status = status};

	if (id->mute || id->channel == CMA_NONE || r->channels[id->channel].closing)
		return NULL;
	/* Requests are bounded by the ids: each uses an entry of its new id, which is mute. */
	if (id->state != CMA_LISTEN && id->nwaiting == CMA_ID_EVENTS)
		return NULL;
	id->nwaiting++;
	return event_put(r, id, &ev, CMA_NONE);
}

int
cma_write_event(struct cma *r, uint32_t channel, uint32_t id, uint32_t type, int32_t status,
		uint64_t arg)
{
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);
	struct cma_event ev;

	if (i == NULL)
		return rc;
	if (!is_written(type) || i->mute)
		return -EINVAL;
	if (i->nuser == CMA_USER_EVENTS)
		return -ENOMEM;
	i->nuser++;
	ev = (struct cma_event){
		.type = type, .uid = i->uid, .id = i->id, .status = status, .arg = arg};
	event_put(r, i, &ev, CMA_NONE);
	return 0;
}

struct cma_event *
cma_report_group(struct cma *r, struct cma_id *id, const struct cma_group *g)
{
	struct cma_event ev = {.type = CMA_EV_MULTICAST_JOIN, .uid = g->uid, .id = g->id};

	return event_put(r, id, &ev, (uint32_t)(g - r->groups));
}

/* Release everything that id holds, and notify its peer. None of its events may wait. */
static void
id_free(struct cma *r, struct cma_id *id)
{
	if (id->state == CMA_ADDR_QUERY || id->state == CMA_ROUTE_QUERY)
		r->ops.cancel(r->ctx, id->id);
	if (id->cm != 0)
		cm_destroy(r->cm, id->cm, r->now_ns);
	cm_heap_set(&r->queries, &id->query, CM_NEVER);
	while (id->first_group != CMA_NONE)
		cma_leave_one(r, id);
	disown(r, id);
	cm_port_release(r->ports, id->owner);
	cma_discharge(r, id->payer);
	id->id = 0;
	id->next = r->free_id;
	r->free_id = (uint32_t)(id - r->ids);
}

/* Drop an event that no program will take, and with it the id of a request. */
static void
event_drop(struct cma *r, uint32_t at)
{
	if (r->events[at].ev.type == CMA_EV_CONNECT_REQUEST)
		id_free(r, cma_id_find(r, r->events[at].ev.id));
	event_free(r, at);
}

void
cma_end(struct cma *r, struct cma_id *id)
{
	while (id->first_event != CMA_NONE)
		event_drop(r, id->first_event);
	id_free(r, id);
}

void
cma_group_drop(struct cma *r, const struct cma_group *g)
{
	if (g->event != CMA_NONE)
		event_free(r, g->event);
}

int
cma_channel_open(struct cma *r, void *user, uint32_t *channel)
{
	for (uint32_t i = 0; i < r->config.max_channels; i++)
		if (!r->channels[i].used) {
			r->channels[i] = (struct cma_channel){.used = true,
							      .user = user,
							      .first_listener = CMA_NONE,
							      .first_id = CMA_NONE};
			*channel = i + 1;
			return 0;
		}
	return -ENOMEM;
}

/* Frees its port and ends its listening; its events and the id stay. */
static void
stop_listening(struct cma *r, struct cma_id *id)
{
	if (id->cm != 0)
		cm_destroy(r->cm, id->cm, r->now_ns);
	id->cm = 0;
	cm_port_release(r->ports, id->owner);
	id->owner = 0;
	cma_own(r, id, id->channel, false);
}

/* Stops a listener, or drops an event, a group or an id of a channel. Returns false if none is
 * left. */
static bool
channel_drop_one(struct cma *r, const struct cma_channel *c)
{
	struct cma_id *id;

	if (c->first_listener != CMA_NONE) {
		stop_listening(r, &r->ids[c->first_listener]);
		return true;
	}
	if (c->n > 0) {
		event_drop(r, c->first);
		return true;
	}
	if (c->first_id == CMA_NONE)
		return false;
	id = &r->ids[c->first_id];
	if (id->first_group != CMA_NONE)
		cma_leave_one(r, id);
	else
		id_free(r, id);
	return true;
}

bool
cma_channel_close(struct cma *r, uint32_t channel, uint32_t most, uint64_t now_ns)
{
	struct cma_channel *c = cma_channel_find(r, channel);

	if (c == NULL)
		return true;
	r->now_ns = now_ns;
	c->closing = true;
	for (; most > 0; most--)
		if (!channel_drop_one(r, c)) {
			c->used = false;
			return true;
		}
	return false;
}

int
cma_event_get(struct cma *r, uint32_t channel, struct cma_event *ev)
{
	struct cma_channel *c = cma_channel_find(r, channel);
	uint32_t at;

	if (c == NULL)
		return -ENOENT;
	if (c->n == 0)
		return -EAGAIN;
	at = c->first;
	*ev = r->events[at].ev;
	ev->conn.private_data = ev->conn.private_len != 0 ? ev->data : NULL;
	r->ids[r->events[at].id].reported++;
	if (r->events[at].group != CMA_NONE)
		r->groups[r->events[at].group].reported++;
	event_free(r, at);
	if (ev->type == CMA_EV_CONNECT_REQUEST)
		cma_own(r, cma_id_find(r, ev->id), channel - 1, false);
	return 0;
}

uint32_t
cma_events_waiting(const struct cma *r, uint32_t channel)
{
	const struct cma_channel *c = cma_channel_find(r, channel);

	return c == NULL ? 0 : c->n;
}

int
cma_migrate(struct cma *r, uint32_t channel, uint32_t from, uint32_t id, uint32_t *reported)
{
	struct cma_channel *to = cma_channel_find(r, channel);
	bool was_empty;
	uint32_t at;
	struct cma_id *i;
	int rc;

	if (to == NULL)
		return -ENOENT;
	i = cma_find(r, from, id, &rc);
	if (i == NULL)
		return rc;
	*reported = i->reported;
	if (channel == from)
		return 0;
	was_empty = to->n == 0;
	for (at = i->first_event; at != CMA_NONE; at = r->events[at].of_next) {
		queue_unlink(r, &r->channels[i->channel], at);
		queue_append(r, to, at);
	}
	cma_own(r, i, channel - 1, i->listens);
	if (was_empty && to->n > 0)
		r->ops.readable(r->ctx, to->user);
	return 0;
}

int
cma_create(struct cma *r, uint32_t channel, uint64_t uid, uint16_t space, uint8_t qp_type,
	   uint32_t *id)
{
	struct cma_id *i;

	if (cma_channel_find(r, channel) == NULL)
		return -ENOENT;
	if (space == WIRE_CM_PS_TCP)
		qp_type = CMA_QP_RC;
	else if (space == WIRE_CM_PS_UDP)
		qp_type = CMA_QP_UD;
	else if (space != WIRE_CM_PS_IB || qp_type < CMA_QP_RC || qp_type > CMA_QP_UD)
		return -EINVAL;
	i = cma_new(r, channel - 1);
	if (i == NULL)
		return -ENOMEM;
	cma_own(r, i, channel - 1, false);
	i->uid = uid;
	i->space = space;
	i->qp_type = qp_type;
	*id = i->id;
	return 0;
}

int
cma_destroy(struct cma *r, uint32_t channel, uint32_t id, uint32_t *reported, uint64_t now_ns)
{
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	r->now_ns = now_ns;
	*reported = i->reported;
	cma_end(r, i);
	return 0;
}
