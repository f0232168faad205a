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
			      .channel = channel,
			      .dev = CM_DEV_ANY,
			      .first_group = RCM_NONE,
			      .deadline_ns = CM_NEVER};
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
event_free(struct rcm *r, uint32_t at)
{
	struct rcm_id *id = &r->ids[r->events[at].id];

	if (is_written(r->events[at].ev.type))
		id->nuser--;
	else if (r->events[at].group == RCM_NONE)
		id->nwaiting--;
	r->events[at].next = r->free_event;
	r->free_event = at;
}

/* Append an event of id to its channel's queue. */
static struct rcm_event *
event_put(struct rcm *r, const struct rcm_id *id, const struct rcm_event *ev, uint32_t group)
{
	struct rcm_channel *c = &r->channels[id->channel];
	uint32_t at = event_new(r);

	r->events[at] = (struct rcm_waiting){.ev = *ev,
					     .id = (uint32_t)(id - r->ids),
					     .group = group,
					     .next = RCM_NONE};
	if (c->n++ == 0)
		c->first = at;
	else
		r->events[c->last].next = at;
	c->last = at;
	if (c->n == 1)
		r->ops.readable(r->ctx, c->user);
	return &r->events[at].ev;
}

struct rcm_event *
rcm_report(struct rcm *r, struct rcm_id *id, enum rcm_event_type type, int32_t status)
{
	struct rcm_event ev = {.type = type, .uid = id->uid, .id = id->id, .status = status};

	if (id->mute || id->channel == RCM_NONE)
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

/*
 * Remove the events of id, or only those of a group, from its channel's queue. Returns the first of
 * them, linked in order, or RCM_NONE.
 */
static uint32_t
events_take(struct rcm *r, const struct rcm_id *id, uint32_t group)
{
	struct rcm_channel *c = &r->channels[id->channel];
	uint32_t at, next, first = RCM_NONE, *end = &first, n = c->n,
			   slot = (uint32_t)(id - r->ids);

	c->n = 0;
	for (at = c->first; n > 0; n--, at = next) {
		next = r->events[at].next;
		if (r->events[at].id == slot &&
		    (group == RCM_NONE || r->events[at].group == group)) {
			*end = at;
			end = &r->events[at].next;
			*end = RCM_NONE;
			continue;
		}
		if (c->n++ == 0)
			c->first = at;
		else
			r->events[c->last].next = at;
		c->last = at;
	}
	return first;
}

/* Release everything that id holds, and notify its peer. None of its events may wait. */
static void
id_free(struct rcm *r, struct rcm_id *id)
{
	if (id->state == RCM_ADDR_QUERY || id->state == RCM_ROUTE_QUERY)
		r->ops.cancel(r->ctx, id->id);
	if (id->cm != 0)
		cm_destroy(r->cm, id->cm, r->now_ns);
	rcm_leave_all(r, id);
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
	uint32_t at, next;

	if (id->channel != RCM_NONE)
		for (at = events_take(r, id, RCM_NONE); at != RCM_NONE; at = next) {
			next = r->events[at].next;
			event_drop(r, at);
		}
	id_free(r, id);
}

/* Drop all events of a channel. */
static void
queue_drop(struct rcm *r, struct rcm_channel *c)
{
	uint32_t at, next;

	for (at = c->first; c->n > 0; c->n--, at = next) {
		next = r->events[at].next;
		event_drop(r, at);
	}
}

void
rcm_group_drop(struct rcm *r, const struct rcm_id *id, const struct rcm_group *g)
{
	uint32_t at, next;

	for (at = events_take(r, id, (uint32_t)(g - r->groups)); at != RCM_NONE; at = next) {
		next = r->events[at].next;
		event_free(r, at);
	}
}

int
rcm_channel_open(struct rcm *r, void *user, uint32_t *channel)
{
	for (uint32_t i = 0; i < r->config.max_channels; i++)
		if (!r->channels[i].used) {
			r->channels[i] = (struct rcm_channel){.used = true, .user = user};
			*channel = i + 1;
			return 0;
		}
	return -ENOMEM;
}

void
rcm_channel_close(struct rcm *r, uint32_t channel, uint64_t now_ns)
{
	struct rcm_channel *c = rcm_channel_find(r, channel);

	if (c == NULL)
		return;
	r->now_ns = now_ns;
	/* first, because rcm_end walks the queue for each id: quadratic in the waiting events */
	queue_drop(r, c);
	for (uint32_t i = 0; i < r->nids; i++)
		if (r->ids[i].id != 0 && r->ids[i].channel == channel - 1)
			id_free(r, &r->ids[i]);
	c->used = false;
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
	c->first = r->events[at].next;
	c->n--;
	r->ids[r->events[at].id].reported++;
	if (r->events[at].group != RCM_NONE)
		r->groups[r->events[at].group].reported++;
	event_free(r, at);
	if (ev->type == RCM_EV_CONNECT_REQUEST)
		rcm_id_find(r, ev->id)->channel = channel - 1;
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
	at = events_take(r, i, RCM_NONE);
	i->channel = channel - 1;
	if (at == RCM_NONE)
		return 0;
	if (to->n == 0)
		to->first = at;
	else
		r->events[to->last].next = at;
	if (to->n == 0)
		r->ops.readable(r->ctx, to->user);
	for (; at != RCM_NONE; at = r->events[at].next) {
		to->last = at;
		to->n++;
	}
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
