/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_cm: each job has its event channels; librdmacm opens one context for all threads. */
#include "storm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <rdma/rdma_cma.h>

#define RESOLVE_MS 20000
#define MAX_BYTES  3000

/* Takes the next event, which must be of this type; *id is its id. */
static bool
event(struct worker *w, struct rdma_event_channel *ch, enum rdma_cm_event_type type,
      struct rdma_cm_id **id)
{
	struct pollfd fd = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	enum rdma_cm_event_type got;
	int status;

	MUST(w, poll(&fd, 1, STORM_WAIT_S * 1000) == 1);
	MUST(w, rdma_get_cm_event(ch, &ev) == 0);
	got = ev->event;
	status = ev->status;
	if (id)
		*id = ev->id;
	MUST(w, rdma_ack_cm_event(ev) == 0);
	errno = status ? status : (int)got;
	MUST(w, got == type && (status == 0 || type == RDMA_CM_EVENT_REJECTED));
	return true;
}

struct cm {
	struct rdma_event_channel *server, *client, *third;
	struct rdma_cm_id *listener, *active, *passive;
	struct ibv_cq *cq[2];
};

static bool
address(struct worker *w, struct sockaddr_in *to, uint16_t port)
{
	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
	MUST(w, inet_pton(AF_INET, storm.address, &to->sin_addr) == 1);
	return true;
}

static bool
cm_qp(struct worker *w, struct rdma_cm_id *id, struct ibv_cq **cq)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	*cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	MUST(w, *cq != NULL);
	attr.send_cq = attr.recv_cq = *cq;
	MUST(w, rdma_create_qp(id, NULL, &attr) == 0);
	return true;
}

/* Up to the request's arrival at the listener. */
static bool
cm_request(struct worker *w, struct cm *c)
{
	struct rdma_conn_param param = {.responder_resources = 1,
					.initiator_depth = 1,
					.retry_count = 7,
					.rnr_retry_count = 7};
	struct sockaddr_in to;

	c->server = rdma_create_event_channel();
	c->client = rdma_create_event_channel();
	MUST(w, c->server && c->client);
	MUST(w, rdma_create_id(c->server, &c->listener, NULL, RDMA_PS_TCP) == 0);
	MUST(w, address(w, &to, 0));
	MUST(w, rdma_bind_addr(c->listener, (struct sockaddr *)&to) == 0);
	MUST(w, rdma_listen(c->listener, 5) == 0);
	MUST(w, rdma_create_id(c->client, &c->active, NULL, RDMA_PS_TCP) == 0);
	MUST(w, address(w, &to, rdma_get_src_port(c->listener)));
	MUST(w, rdma_resolve_addr(c->active, NULL, (struct sockaddr *)&to, RESOLVE_MS) == 0);
	if (!event(w, c->client, RDMA_CM_EVENT_ADDR_RESOLVED, NULL))
		return false;
	MUST(w, rdma_resolve_route(c->active, RESOLVE_MS) == 0);
	if (!event(w, c->client, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) ||
	    !cm_qp(w, c->active, &c->cq[0]))
		return false;
	MUST(w, rdma_connect(c->active, &param) == 0);
	return event(w, c->server, RDMA_CM_EVENT_CONNECT_REQUEST, &c->passive);
}

/* Accepts, maybe after the id has moved to another channel. */
static bool
cm_accept(struct worker *w, struct cm *c)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_event_channel *on = c->server;

	if (storm_random(w, 2)) {
		on = c->third = rdma_create_event_channel();
		MUST(w, on && rdma_migrate_id(c->passive, on) == 0);
	}
	if (!cm_qp(w, c->passive, &c->cq[1]))
		return false;
	MUST(w, rdma_accept(c->passive, &param) == 0);
	return event(w, c->client, RDMA_CM_EVENT_ESTABLISHED, NULL) &&
	       event(w, on, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

static bool
cm_transfer(struct worker *w, struct cm *c)
{
	uint32_t seed = storm_random(w, 1u << 24), len = 1 + storm_random(w, MAX_BYTES - 1);
	struct region from, to;

	if (!region_make(w, &from, c->active->pd, MAX_BYTES) ||
	    !region_make(w, &to, c->passive->pd, MAX_BYTES))
		return false;
	storm_fill(from.buf, len, seed);
	MUST(w, storm_post_recv(c->passive->qp, to.mr, 0, MAX_BYTES));
	MUST(w, storm_post_send(c->active->qp, from.mr, 0, len));
	if (!storm_done(w, c->cq[0]) || !storm_done(w, c->cq[1]))
		return false;
	MUST(w, storm_is_filled(to.buf, len, seed));
	return region_end(w, &from) && region_end(w, &to);
}

static bool
cm_disconnect(struct worker *w, struct cm *c)
{
	if (storm_random(w, 4) == 0) /* the destruction disconnects */
		return true;
	MUST(w, rdma_disconnect(c->active) == 0);
	return event(w, c->third ? c->third : c->server, RDMA_CM_EVENT_DISCONNECTED, NULL) &&
	       event(w, c->client, RDMA_CM_EVENT_DISCONNECTED, NULL);
}

static bool
id_end(struct worker *w, struct rdma_cm_id *id, struct ibv_cq *cq)
{
	if (cq) {
		rdma_destroy_qp(id);
		MUST(w, ibv_destroy_cq(cq) == 0);
	}
	MUST(w, rdma_destroy_id(id) == 0);
	return true;
}

/* A connection that transfers a message or is rejected. */
void
job_cm(struct worker *w)
{
	struct cm c = {0};

	if (!cm_request(w, &c))
		return;
	if (storm_random(w, 4) == 0) {
		NEED(w, rdma_reject(c.passive, NULL, 0) == 0);
		if (!event(w, c.client, RDMA_CM_EVENT_REJECTED, NULL))
			return;
	} else if (!cm_accept(w, &c) || !cm_transfer(w, &c) || !cm_disconnect(w, &c)) {
		return;
	}
	if (!id_end(w, c.active, c.cq[0]) || !id_end(w, c.passive, c.cq[1]) ||
	    !id_end(w, c.listener, NULL))
		return;
	rdma_destroy_event_channel(c.server);
	rdma_destroy_event_channel(c.client);
	if (c.third)
		rdma_destroy_event_channel(c.third);
}

/* Joins and leaves a multicast group. */
void
job_cm_group(struct worker *w)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in group = {.sin_family = AF_INET}, own;
	struct rdma_cm_id *id;

	NEED(w, ch);
	NEED(w, rdma_create_id(ch, &id, NULL, RDMA_PS_UDP) == 0);
	if (!address(w, &own, 0))
		return;
	NEED(w, rdma_bind_addr(id, (struct sockaddr *)&own) == 0);
	group.sin_addr.s_addr = htonl(0xef080000u + storm_random(w, 200));
	NEED(w, rdma_join_multicast(id, (struct sockaddr *)&group, NULL) == 0);
	if (!event(w, ch, RDMA_CM_EVENT_MULTICAST_JOIN, NULL))
		return;
	NEED(w, rdma_leave_multicast(id, (struct sockaddr *)&group) == 0);
	NEED(w, rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(ch);
}
