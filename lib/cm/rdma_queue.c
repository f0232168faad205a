/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels, ids and waiting events. */
#include <errno.h>
#include <string.h>
#include "cm/rdma_parts.h"

#define ID_BITS 18u /* of a slot's number; the other bits except the sign are a generation */

const char *const rcm_event_name[RCM_NEVENTS] = {
	[RCM_EV_ADDR_RESOLVED] = "ADDR_RESOLVED",
	[RCM_EV_ADDR_ERROR] = "ADDR_ERROR",
	[RCM_EV_ROUTE_RESOLVED] = "ROUTE_RESOLVED",
	[RCM_EV_ROUTE_ERROR] = "ROUTE_ERROR",
	[RCM_EV_CONNECT_REQUEST] = "CONNECT_REQUEST",
	[RCM_EV_CONNECT_RESPONSE] = "CONNECT_RESPONSE",
	[RCM_EV_CONNECT_ERROR] = "CONNECT_ERROR",
	[RCM_EV_UNREACHABLE] = "UNREACHABLE",
	[RCM_EV_REJECTED] = "REJECTED",
	[RCM_EV_ESTABLISHED] = "ESTABLISHED",
	[RCM_EV_DISCONNECTED] = "DISCONNECTED",
	[RCM_EV_DEVICE_REMOVAL] = "DEVICE_REMOVAL",
	[RCM_EV_MULTICAST_JOIN] = "MULTICAST_JOIN",
	[RCM_EV_MULTICAST_ERROR] = "MULTICAST_ERROR",
	[RCM_EV_ADDR_CHANGE] = "ADDR_CHANGE",
	[RCM_EV_TIMEWAIT_EXIT] = "TIMEWAIT_EXIT",
	[RCM_EV_ADDRINFO_RESOLVED] = "ADDRINFO_RESOLVED",
	[RCM_EV_ADDRINFO_ERROR] = "ADDRINFO_ERROR",
	[RCM_EV_USER] = "USER",
	[RCM_EV_INTERNAL] = "INTERNAL",
};

const char *const rcm_state_name[RCM_NSTATES] = {
	[RCM_IDLE] = "IDLE",
	[RCM_BOUND] = "BOUND",
	[RCM_LISTEN] = "LISTEN",
	[RCM_ADDR_QUERY] = "ADDR_QUERY",
	[RCM_ADDR_RESOLVED] = "ADDR_RESOLVED",
	[RCM_ROUTE_QUERY] = "ROUTE_QUERY",
	[RCM_ROUTE_RESOLVED] = "ROUTE_RESOLVED",
	[RCM_CONNECT] = "CONNECT",
	[RCM_REMOVED] = "REMOVED",
};

struct rcm_channel *
rcm_channel_find(const struct rcm *r, uint32_t channel)
{
	if (channel == 0 || channel > r->config.max_channels || !r->channels[channel - 1].used)
		return NULL;
	return &r->channels[channel - 1];
}

struct rcm_id *
rcm_id_find(const struct rcm *r, uint32_t id)
{
	uint32_t slot = id & ((1u << ID_BITS) - 1);

	if (id == 0 || slot >= r->nids || r->ids[slot].id != id)
		return NULL;
	return &r->ids[slot];
}

struct rcm_id *
rcm_find(const struct rcm *r, uint32_t channel, uint32_t id, int *rc)
{
	struct rcm_id *i = rcm_id_find(r, id);

	*rc = -ENOENT;
	/* no program knows the id of a waiting request yet */
	if (i == NULL || i->channel == RCM_NONE)
		return NULL;
	*rc = i->channel + 1 == channel ? 0 : -EINVAL;
	return *rc == 0 ? i : NULL;
}

bool
rcm_charge(struct rcm *r, uint32_t channel, void **payer)
{
	*payer = NULL;
	if (r->ops.charge == NULL)
		return true;
	*payer = r->ops.charge(r->ctx, r->channels[channel].user);
	return *payer != NULL;
}

void
rcm_discharge(struct rcm *r, void *payer)
{
	if (payer != NULL)
		r->ops.discharge(r->ctx, payer);
}

static uint32_t *
first_of(struct rcm *r, const struct rcm_id *id)
{
	struct rcm_channel *c = &r->channels[id->channel];

	return id->listens ? &c->first_listener : &c->first_id;
}

/* Takes id from its channel, if it has one. */
static void
disown(struct rcm *r, struct rcm_id *id)
{
	if (id->channel == RCM_NONE)
		return;
	if (id->prev == RCM_NONE)
		*first_of(r, id) = id->next;
	else
		r->ids[id->prev].next = id->next;
	if (id->next != RCM_NONE)
		r->ids[id->next].prev = id->prev;
	id->channel = RCM_NONE;
}

void
rcm_own(struct rcm *r, struct rcm_id *id, uint32_t channel, bool listens)
{
	uint32_t slot = (uint32_t)(id - r->ids), *first;

	disown(r, id);
	id->channel = channel;
	id->listens = listens;
	first = first_of(r, id);
	id->prev = RCM_NONE;
	id->next = *first;
	if (id->next != RCM_NONE)
		r->ids[id->next].prev = slot;
	*first = slot;
}

struct rcm_id *
rcm_new(struct rcm *r, uint32_t channel)
{
	uint32_t slot = r->free_id, gen = 0;
	struct rcm_id *id;
	void *payer;

	if ((slot == RCM_NONE && r->nids == r->config.max_ids) || !rcm_charge(r, channel, &payer))
		return NULL;
	if (slot == RCM_NONE) {
		slot = r->nids++;
		id = &r->ids[slot];
	} else {
		id = &r->ids[slot];
		r->free_id = id->next;
		gen = id->gen;
	}
	gen = (gen + 1) & ((1u << (31 - ID_BITS)) - 1);
	gen = gen == 0 ? 1 : gen;
	*id = (struct rcm_id){.id = gen << ID_BITS | slot,
			      .gen = gen,
			      .payer = payer,
			      .channel = RCM_NONE,
			      .dev = CM_DEV_ANY,
			      .first_event = RCM_NONE,
			      .last_event = RCM_NONE,
			      .first_group = RCM_NONE,
			      .query = CM_TIMER_NONE};
	r->rng = r->rng * 6364136223846793005u + 1442695040888963407u;
	id->psn = (uint32_t)(r->rng >> 40);
	return id;
}

bool
rcm_has_room(const struct rcm_id *id)
{
	return id->nwaiting < RCM_CALL_EVENTS;
}

/* Allocates an event: there are ID_EVENTS (rdma.c) for every id and one for every group. */
static uint32_t
event_new(struct rcm *r)
{
	uint32_t at = r->free_event;

	if (at == RCM_NONE)
		return r->nevents++;
	r->free_event = r->events[at].next;
	return at;
}

/* Returns true for the types that rcm_write_event queues. */
static bool
is_written(uint32_t type)
{
	return type == RCM_EV_USER || type == RCM_EV_INTERNAL;
}

static void
queue_append(struct rcm *r, struct rcm_channel *c, uint32_t at)
{
	r->events[at].next = RCM_NONE;
	r->events[at].prev = c->n > 0 ? c->last : RCM_NONE;
	if (c->n++ == 0)
		c->first = at;
	else
		r->events[c->last].next = at;
	c->last = at;
}

static void
queue_unlink(struct rcm *r, struct rcm_channel *c, uint32_t at)
{
	const struct rcm_waiting *e = &r->events[at];

	if (e->prev == RCM_NONE)
		c->first = e->next;
	else
		r->events[e->prev].next = e->next;
	if (e->next == RCM_NONE)
		c->last = e->prev;
	else
		r->events[e->next].prev = e->prev;
	c->n--;
}

/* Takes an event from its channel's queue and from its id, and frees it. */
static void
event_free(struct rcm *r, uint32_t at)
{
	struct rcm_waiting *e = &r->events[at];
	struct rcm_id *id = &r->ids[e->id];

	queue_unlink(r, &r->channels[id->channel], at);
	if (e->of_prev == RCM_NONE)
		id->first_event = e->of_next;
	else
		r->events[e->of_prev].of_next = e->of_next;
	if (e->of_next == RCM_NONE)
		id->last_event = e->of_prev;
	else
		r->events[e->of_next].of_prev = e->of_prev;
	if (is_written(e->ev.type))
		id->nuser--;
	else if (e->group == RCM_NONE)
		id->nwaiting--;
	else
		r->groups[e->group].event = RCM_NONE;
	e->next = r->free_event;
	r->free_event = at;
}

/* Append an event of id to its channel's queue. */
static struct rcm_event *
event_put(struct rcm *r, struct rcm_id *id, const struct rcm_event *ev, uint32_t group)
{
	struct rcm_channel *c = &r->channels[id->channel];
	uint32_t at = event_new(r);

	r->events[at] = (struct rcm_waiting){.ev = *ev,
					     .id = (uint32_t)(id - r->ids),
					     .group = group,
					     .of_prev = id->last_event,
					     .of_next = RCM_NONE};
	if (id->last_event == RCM_NONE)
		id->first_event = at;
	else
		r->events[id->last_event].of_next = at;
	id->last_event = at;
	if (group != RCM_NONE)
		r->groups[group].event = at;
	queue_append(r, c, at);
	if (c->n == 1)
		r->ops.readable(r->ctx, c->user);
	return &r->events[at].ev;
}

struct rcm_event *
rcm_report(struct rcm *r, struct rcm_id *id, enum rcm_event_type type, int32_t status)
{
	struct rcm_event ev = {.type = type, .uid = id->uid, .id = id->id, .status = status};

	if (id->mute || id->channel == RCM_NONE || r->channels[id->channel].closing)
		return NULL;
	/* Requests are bounded by the ids: each uses an entry of its new id, which is mute. */
	if (id->state != RCM_LISTEN && id->nwaiting == RCM_ID_EVENTS)
		return NULL;
	id->nwaiting++;
	return event_put(r, id, &ev, RCM_NONE);
}

int
rcm_write_event(struct rcm *r, uint32_t channel, uint32_t id, uint32_t type, int32_t status,
		uint64_t arg)
{
	int rc;
	struct rcm_id *i = rcm_find(r, channel, id, &rc);
	struct rcm_event ev;

	if (i == NULL)
		return rc;
	if (!is_written(type) || i->mute)
		return -EINVAL;
	if (i->nuser == RCM_USER_EVENTS)
		return -ENOMEM;
	i->nuser++;
	ev = (struct rcm_event){
		.type = type, .uid = i->uid, .id = i->id, .status = status, .arg = arg};
	event_put(r, i, &ev, RCM_NONE);
	return 0;
}

struct rcm_event *
rcm_report_group(struct rcm *r, struct rcm_id *id, const struct rcm_group *g)
{
	struct rcm_event ev = {.type = RCM_EV_MULTICAST_JOIN, .uid = g->uid, .id = g->id};

	return event_put(r, id, &ev, (uint32_t)(g - r->groups));
}

/* Release everything that id holds, and notify its peer. None of its events may wait. */
static void
id_free(struct rcm *r, struct rcm_id *id)
{
	if (id->state == RCM_ADDR_QUERY || id->state == RCM_ROUTE_QUERY)
		r->ops.cancel(r->ctx, id->id);
	if (id->cm != 0)
		cm_destroy(r->cm, id->cm, r->now_ns);
	cm_heap_set(&r->queries, &id->query, CM_NEVER);
	while (id->first_group != RCM_NONE)
		rcm_leave_one(r, id);
	disown(r, id);
	cm_port_release(r->ports, id->owner);
	rcm_discharge(r, id->payer);
	id->id = 0;
	id->next = r->free_id;
	r->free_id = (uint32_t)(id - r->ids);
}

/* Drop an event that no program will take, and with it the id of a request. */
static void
event_drop(struct rcm *r, uint32_t at)
{
	if (r->events[at].ev.type == RCM_EV_CONNECT_REQUEST)
		id_free(r, rcm_id_find(r, r->events[at].ev.id));
	event_free(r, at);
}

void
rcm_end(struct rcm *r, struct rcm_id *id)
{
	while (id->first_event != RCM_NONE)
		event_drop(r, id->first_event);
	id_free(r, id);
}

void
rcm_group_drop(struct rcm *r, const struct rcm_group *g)
{
	if (g->event != RCM_NONE)
		event_free(r, g->event);
}

int
rcm_channel_open(struct rcm *r, void *user, uint32_t *channel)
{
	for (uint32_t i = 0; i < r->config.max_channels; i++)
		if (!r->channels[i].used) {
			r->channels[i] = (struct rcm_channel){.used = true,
							      .user = user,
							      .first_listener = RCM_NONE,
							      .first_id = RCM_NONE};
			*channel = i + 1;
			return 0;
		}
	return -ENOMEM;
}

/* Frees its port and ends its listening; its events and the id stay. */
static void
stop_listening(struct rcm *r, struct rcm_id *id)
{
	if (id->cm != 0)
		cm_destroy(r->cm, id->cm, r->now_ns);
	id->cm = 0;
	cm_port_release(r->ports, id->owner);
	id->owner = 0;
	rcm_own(r, id, id->channel, false);
}

/* Stops a listener, or drops an event, a group or an id of a channel. Returns false if none is
 * left. */
static bool
channel_drop_one(struct rcm *r, const struct rcm_channel *c)
{
	struct rcm_id *id;

	if (c->first_listener != RCM_NONE) {
		stop_listening(r, &r->ids[c->first_listener]);
		return true;
	}
	if (c->n > 0) {
		event_drop(r, c->first);
		return true;
	}
	if (c->first_id == RCM_NONE)
		return false;
	id = &r->ids[c->first_id];
	if (id->first_group != RCM_NONE)
		rcm_leave_one(r, id);
	else
		id_free(r, id);
	return true;
}

bool
rcm_channel_close(struct rcm *r, uint32_t channel, uint32_t most, uint64_t now_ns)
{
	struct rcm_channel *c = rcm_channel_find(r, channel);

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
rcm_event_get(struct rcm *r, uint32_t channel, struct rcm_event *ev)
{
	struct rcm_channel *c = rcm_channel_find(r, channel);
	uint32_t at;

	if (c == NULL)
		return -ENOENT;
	if (c->n == 0)
		return -EAGAIN;
	at = c->first;
	*ev = r->events[at].ev;
	ev->conn.private_data = ev->conn.private_len != 0 ? ev->data : NULL;
	r->ids[r->events[at].id].reported++;
	if (r->events[at].group != RCM_NONE)
		r->groups[r->events[at].group].reported++;
	event_free(r, at);
	if (ev->type == RCM_EV_CONNECT_REQUEST)
		rcm_own(r, rcm_id_find(r, ev->id), channel - 1, false);
	return 0;
}

uint32_t
rcm_events_waiting(const struct rcm *r, uint32_t channel)
{
	const struct rcm_channel *c = rcm_channel_find(r, channel);

	return c == NULL ? 0 : c->n;
}

int
rcm_migrate(struct rcm *r, uint32_t channel, uint32_t from, uint32_t id, uint32_t *reported)
{
	struct rcm_channel *to = rcm_channel_find(r, channel);
	bool was_empty;
	uint32_t at;
	struct rcm_id *i;
	int rc;

	if (to == NULL)
		return -ENOENT;
	i = rcm_find(r, from, id, &rc);
	if (i == NULL)
		return rc;
	*reported = i->reported;
	if (channel == from)
		return 0;
	was_empty = to->n == 0;
	for (at = i->first_event; at != RCM_NONE; at = r->events[at].of_next) {
		queue_unlink(r, &r->channels[i->channel], at);
		queue_append(r, to, at);
	}
	rcm_own(r, i, channel - 1, i->listens);
	if (was_empty && to->n > 0)
		r->ops.readable(r->ctx, to->user);
	return 0;
}

int
rcm_create(struct rcm *r, uint32_t channel, uint64_t uid, uint16_t space, uint8_t qp_type,
	   uint32_t *id)
{
	struct rcm_id *i;

	if (rcm_channel_find(r, channel) == NULL)
		return -ENOENT;
	if (space == WIRE_CM_PS_TCP)
		qp_type = RCM_QP_RC;
	else if (space == WIRE_CM_PS_UDP)
		qp_type = RCM_QP_UD;
	else if (space != WIRE_CM_PS_IB || qp_type < RCM_QP_RC || qp_type > RCM_QP_UD)
		return -EINVAL;
	i = rcm_new(r, channel - 1);
	if (i == NULL)
		return -ENOMEM;
	rcm_own(r, i, channel - 1, false);
	i->uid = uid;
	i->space = space;
	i->qp_type = qp_type;
	*id = i->id;
	return 0;
}

int
rcm_destroy(struct rcm *r, uint32_t channel, uint32_t id, uint32_t *reported, uint64_t now_ns)
{
	int rc;
	struct rcm_id *i = rcm_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	r->now_ns = now_ns;
	*reported = i->reported;
	rcm_end(r, i);
	return 0;
}
