/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include "world.h"

#define SERVICE   WIRE_CM_SERVICE(WIRE_CM_PS_TCP, 7471)
#define BIT(ev)   (1u << (ev))
#define MAX_STEPS 12

/* Events after which only TIMEWAIT_EXIT may follow for a connection. */
#define FINAL                                                                                      \
	(BIT(CM_EV_REJECTED) | BIT(CM_EV_UNREACHABLE) | BIT(CM_EV_DISCONNECTED) |                  \
	 BIT(CM_EV_TIMEWAIT_EXIT) | BIT(CM_EV_SIDR_RESPONSE))

static void
think(struct world *w, struct end *e)
{
	e->act_ns =
		w->now_ns + sim_scale(&w->load, 1, (uint32_t)(w->cfg.think_ns / 1000)) * 1000ull;
}

static struct end *
end_add(struct node *n, uint32_t id)
{
	struct world *w = n->w;
	struct end *e = &w->end[w->nends];

	if (w->nends == WORLD_ENDS)
		return NULL;
	w->nends++;
	*e = (struct end){.used = true,
			  .node = n->idx,
			  .life = n->life,
			  .id = id,
			  .steps = 2 + sim_below(&w->load, MAX_STEPS),
			  .act_ns = WORLD_NEVER};
	cm_set_user(n->cm, id, e);
	return e;
}

static void
end_destroy(struct world *w, struct end *e)
{
	e->destroyed = true;
	e->act_ns = WORLD_NEVER;
	if (cm_destroy(w->node[e->node].cm, e->id, w->now_ns) != 0)
		world_fail(w, "node %u: id %08x is not there to destroy", e->node, e->id);
}

/* Has this node, in this life, reported the request before? An evicted request may come again. */
static void
check_request(struct node *n, const struct cm_event *ev)
{
	struct world *w = n->w;
	struct request r = {.node = n->idx, .life = n->life, .tid = ev->msg->tid};

	r.from = world_node_of(w, ev->addr->remote)->idx;
	r.comm_id = ev->msg->attr == WIRE_CM_REQ ? ev->msg->req.local_comm_id
						 : ev->msg->sidr_req.request_id;
	world_log(w, "node %u: it is request %08x of node %u", n->idx, r.comm_id, r.from);
	for (uint32_t i = 0; i < w->nrequests; i++)
		if (memcmp(&w->request[i], &r, sizeof(r)) == 0 && cm_counters(n->cm)->evicted == 0)
			world_fail(w, "node %u: request %08x of node %u reported twice", n->idx,
				   r.comm_id, r.from);
	if (w->nrequests < WORLD_ENDS)
		w->request[w->nrequests++] = r;
}

static void
take_request(struct node *n, const struct cm_event *ev)
{
	struct end *e = end_add(n, ev->id);

	check_request(n, ev);
	if (e == NULL) {
		cm_destroy(n->cm, ev->id, n->w->now_ns);
		return;
	}
	e->passive = true;
	e->sidr = ev->type == CM_EV_SIDR_REQUEST;
	e->told = BIT(ev->type);
	think(n->w, e);
}

static void
check_event(struct world *w, struct end *e, const struct cm_event *ev)
{
	uint32_t bit = BIT(ev->type);
	const char *name = cm_event_name[ev->type];

	if (e->destroyed || e->life != w->node[e->node].life)
		world_fail(w, "node %u: %s for id %08x, which was destroyed", e->node, name, e->id);
	if (ev->id != e->id)
		world_fail(w, "node %u: %s for id %08x, but its user is of %08x", e->node, name,
			   ev->id, e->id);
	if (ev->type == CM_EV_PATH_REQUEST || ev->type == CM_EV_PATH_RESPONSE) {
		if (ev->type == CM_EV_PATH_RESPONSE && e->laps-- == 0)
			world_fail(w, "node %u: id %08x: one PATH_RESPONSE too many", e->node,
				   e->id);
	} else if (e->told & bit) {
		world_fail(w, "node %u: id %08x: %s twice", e->node, e->id, name);
	}
	if ((e->told & FINAL) && ev->type != CM_EV_TIMEWAIT_EXIT)
		world_fail(w, "node %u: id %08x: %s after its end", e->node, e->id, name);
	if (ev->type == CM_EV_TIMEWAIT_EXIT && !(e->told & FINAL))
		world_fail(w, "node %u: id %08x: TIMEWAIT_EXIT before its end", e->node, e->id);
	if (ev->type == CM_EV_ESTABLISHED && !e->passive)
		world_fail(w, "node %u: id %08x: ESTABLISHED on the active side", e->node, e->id);
	e->told |= bit;
}

void
program_event(struct node *n, const struct cm_event *ev)
{
	struct world *w = n->w;
	struct end *e = ev->user;

	world_log(w, "node %u: id %08x: %s %d %u", n->idx, ev->id, cm_event_name[ev->type],
		  ev->status, ev->reason);
	world_digest(w, &ev->type, sizeof(ev->type));
	world_digest(w, &ev->id, sizeof(ev->id));
	if (ev->type == CM_EV_CONNECT_REQUEST || ev->type == CM_EV_SIDR_REQUEST) {
		take_request(n, ev);
		return;
	}
	if (e == NULL)
		return; /* a request for which no end was left */
	check_event(w, e, ev);
	w->established += ev->type == CM_EV_ESTABLISHED;
	w->unreachable += ev->type == CM_EV_UNREACHABLE;
	w->rejected += ev->type == CM_EV_REJECTED;
	if (w->cfg.polite && (ev->type == CM_EV_UNREACHABLE || ev->type == CM_EV_REJECTED))
		world_fail(w, "node %u: id %08x: %s (%d, %u) although nobody refuses", n->idx,
			   ev->id, cm_event_name[ev->type], ev->status, ev->reason);
	/* some react at once, inside the event */
	if (!w->cfg.polite && sim_chance(&w->load, 100000))
		end_destroy(w, e);
	else
		think(w, e);
}

void
program_listen(struct node *n)
{
	for (uint32_t sidr = 0; sidr < 2; sidr++) {
		struct cm_listen l = {.service_id = SERVICE,
				      .dev = CM_DEV_ANY,
				      .backlog = n->w->cfg.polite ? 64 : 6,
				      .sidr = sidr};
		struct end *e;
		uint32_t id;

		if (cm_create(n->cm, NULL, &id) != 0 || cm_listen(n->cm, id, &l) != 0) {
			world_fail(n->w, "node %u cannot listen", n->idx);
			return;
		}
		e = end_add(n, id);
		if (e != NULL)
			e->listener = true;
	}
}

static uint32_t
qpn_take(struct node *n)
{
	do
		n->next_qpn = 2 + (n->next_qpn + 1) % 100;
	while (cm_qpn_held(n->cm, 0, n->next_qpn));
	return n->next_qpn;
}

static struct cm_addr
addr_between(const struct node *n, const struct node *to)
{
	struct cm_addr addr = {.pkey = 0xffff, .hop_limit = 64};

	memcpy(addr.local, n->gid, 16);
	memcpy(addr.remote, to->gid, 16);
	return addr;
}

static int
start_connection(struct node *n, const struct node *to, struct end *e)
{
	struct world *w = n->w;
	struct cm_connect c = {
		.addr = addr_between(n, to),
		.service_id = SERVICE,
		.p.qpn = qpn_take(n),
		.p.psn = (uint32_t)sim_rand(&w->load) & 0xffffff,
		.mtu = 3,
		.response_timeout = (uint8_t)sim_between(&w->load, 12, 18),
		.max_retries = w->cfg.polite ? 15 : (uint8_t)sim_below(&w->load, 16),
		/* two network delays are shorter */
		.primary.ack_timeout = (uint8_t)sim_between(&w->load, 15, 18),
	};

	e->qpn = c.p.qpn;
	return cm_connect(n->cm, e->id, &c, w->now_ns);
}

static int
start_query(struct node *n, const struct node *to, struct end *e)
{
	struct world *w = n->w;
	struct cm_sidr_ask q = {.addr = addr_between(n, to),
				.service_id = SERVICE,
				.response_timeout = w->cfg.polite ? 20 : 15,
				.max_retries = 15};

	e->sidr = true;
	return cm_sidr_ask(n->cm, e->id, &q, w->now_ns);
}

void
program_connect(struct world *w)
{
	struct node *n = &w->node[sim_below(&w->load, w->cfg.nodes)];
	struct node *to = &w->node[sim_below(&w->load, w->cfg.nodes)];
	bool query = sim_chance(&w->load, 150000);
	struct end *e;
	uint32_t id;

	if (cm_create(n->cm, NULL, &id) != 0)
		return;
	e = end_add(n, id);
	if (e == NULL) {
		cm_destroy(n->cm, id, w->now_ns);
		return;
	}
	if ((query ? start_query(n, to, e) : start_connection(n, to, e)) != 0)
		world_fail(w, "node %u cannot connect", n->idx);
	/* some leave before the response; all leave in the end */
	e->act_ns = w->now_ns + (w->cfg.polite ? WORLD_NEVER / 2 : 3600000000000ull);
	if (!w->cfg.polite && sim_chance(&w->load, 150000))
		think(w, e);
}

static void
answer_request(struct world *w, struct end *e, struct node *n)
{
	struct cm_accept c = {.p.psn = (uint32_t)sim_rand(&w->load) & 0xffffff,
			      .p.initiator_depth = 1};
	struct cm_sidr_answer s = {.p.qpn = 5, .p.qkey = 6};
	struct cm_reject r = {.reason = WIRE_CM_REJ_CONSUMER};

	if (e->sidr) {
		cm_sidr_answer(n->cm, e->id, &s, w->now_ns);
		return;
	}
	if (!w->cfg.polite && sim_chance(&w->load, 150000)) {
		cm_reject(n->cm, e->id, &r, w->now_ns);
		return;
	}
	if (sim_chance(&w->load, 100000)) {
		cm_delay(n->cm, e->id, (uint8_t)sim_between(&w->load, 10, 20), NULL, 0, w->now_ns);
		return;
	}
	e->qpn = c.p.qpn = qpn_take(n);
	if (cm_accept(n->cm, e->id, &c, w->now_ns) != 0)
		world_fail(w, "node %u: id %08x cannot be accepted", e->node, e->id);
}

static void
answer_response(struct world *w, struct end *e, struct node *n)
{
	struct cm_reject r = {.reason = WIRE_CM_REJ_CONSUMER};

	if (!w->cfg.polite && sim_chance(&w->load, 100000))
		cm_reject(n->cm, e->id, &r, w->now_ns);
	else if (sim_chance(&w->load, 100000))
		cm_delay(n->cm, e->id, (uint8_t)sim_between(&w->load, 10, 20), NULL, 0, w->now_ns);
	else
		cm_ready(n->cm, e->id, NULL, 0, w->now_ns);
}

static void
use_connection(struct world *w, struct end *e, struct node *n, enum cm_lap_state lap)
{
	struct wire_cm_path path = {.local_gid = {1}, .remote_gid = {2}};

	if (lap == CM_LAP_RCVD)
		cm_answer_path(n->cm, e->id, sim_below(&w->load, 2) * WIRE_APR_REJECTED, NULL, 0,
			       w->now_ns);
	else if (!e->passive && lap == CM_LAP_NONE && sim_chance(&w->load, 300000))
		e->laps += cm_load_path(n->cm, e->id, &path, NULL, 0, w->now_ns) == 0;
	else if (sim_chance(&w->load, 500000))
		cm_disconnect(n->cm, e->id, NULL, 0, w->now_ns);
}

/* Has the peer of a passive side accepted the REP, so that its requests can arrive? */
static bool
peer_can_send(struct world *w, const struct cm_info *info)
{
	struct node *peer = world_node_of(w, info->addr.remote);
	struct cm_info theirs;

	return cm_info_get(peer->cm, info->remote_id, &theirs) == 0 &&
	       (theirs.state == CM_REP_RCVD || theirs.state == CM_ESTABLISHED);
}

void
program_act(struct world *w, struct end *e)
{
	struct node *n = &w->node[e->node];
	struct cm_info info;

	e->act_ns = WORLD_NEVER;
	if (cm_info_get(n->cm, e->id, &info) != 0) {
		world_fail(w, "node %u: id %08x has gone before it was destroyed", e->node, e->id);
		return;
	}
	if (sim_chance(&w->load, w->cfg.dies)) {
		world_kill(n);
		return;
	}
	if (e->steps == 0 || (!w->cfg.polite && sim_chance(&w->load, 50000))) {
		/* a polite program leaves only after the peer is connected, too */
		if (!w->cfg.polite || (e->told & FINAL) || e->sidr ||
		    info.state == CM_ESTABLISHED) {
			end_destroy(w, e);
			return;
		}
	} else {
		e->steps--;
	}
	switch (info.state) {
	case CM_REQ_RCVD:
	case CM_SIDR_REQ_RCVD:
		answer_request(w, e, n);
		break;
	case CM_REP_RCVD:
		answer_response(w, e, n);
		break;
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		if (peer_can_send(w, &info) && sim_chance(&w->load, 200000))
			cm_established(n->cm, e->id, w->now_ns);
		break;
	case CM_ESTABLISHED:
		use_connection(w, e, n, info.lap);
		break;
	case CM_CLOSED:
	case CM_TIMEWAIT:
		end_destroy(w, e);
		break;
	default:
		break;
	}
	if (!e->destroyed)
		think(w, e);
}

void
program_close(struct world *w)
{
	for (uint32_t i = 0; i < w->nends; i++) {
		struct end *e = &w->end[i];

		if (e->listener && !e->destroyed && e->life == w->node[e->node].life)
			end_destroy(w, e);
	}
}
