/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include "harness.h"

struct node nodes[2];

static void
keep_sent(void *ctx, const struct cm_addr *addr, const uint8_t *mad)
{
	struct node *n = ctx;
	struct sent *s = &n->sent[n->nsent++];

	assert_true(n->nsent <= KEPT);
	s->addr = *addr;
	memcpy(s->mad, mad, sizeof(s->mad));
	assert_int_equal(wire_cm_parse(mad, WIRE_MAD_LEN, &s->msg), WIRE_CM_OK);
}

static void
keep_event(void *ctx, const struct cm_event *ev)
{
	struct node *n = ctx;
	struct told *t = &n->told[n->ntold++];

	assert_true(n->ntold <= KEPT);
	t->ev = *ev;
	t->addr = *ev->addr;
	t->ev.addr = &t->addr;
	if (ev->msg != NULL) {
		t->msg = *ev->msg;
		t->ev.msg = &t->msg;
	}
	if (ev->private_data != NULL) {
		memcpy(t->data, ev->private_data, ev->private_len);
		t->ev.private_data = t->data;
	}
	if (n->destroy_on == ev->type)
		assert_int_equal(cm_destroy(n->cm, ev->id, n->now), 0);
}

struct node *
node_make(uint32_t i, const struct cm_config *config)
{
	static const struct cm_ops ops = {.send = keep_sent, .event = keep_event};
	struct cm_config usual = {.max_ids = 64, .seed = i + 1};
	struct node *n = &nodes[i];

	if (config == NULL)
		config = &usual;
	free(n->mem);
	memset(n, 0, offsetof(struct node, sent));
	n->destroy_on = 0;
	n->gid[10] = n->gid[11] = 0xff;
	n->gid[12] = 10;
	n->gid[15] = (uint8_t)(i + 1);
	n->now = START;
	n->mem = aligned_alloc(64, (cm_bytes(config) + 63) / 64 * 64);
	assert_non_null(n->mem);
	n->cm = cm_init(n->mem, config, &ops, n);
	return n;
}

static int
nodes_free(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		free(nodes[i].mem);
		nodes[i].mem = NULL;
	}
	return 0;
}

UNIT_PROGRAM(NULL, nodes_free);

const struct told *
node_event(struct node *n, enum cm_event_type type)
{
	if (n->read == n->ntold)
		fail_msg("no event, want %s", cm_event_name[type]);
	assert_string_equal(cm_event_name[n->told[n->read].ev.type], cm_event_name[type]);
	return &n->told[n->read++];
}

void
node_quiet(const struct node *n)
{
	if (n->read != n->ntold)
		fail_msg("event %s", cm_event_name[n->told[n->read].ev.type]);
}

const struct sent *
node_last(const struct node *n, uint32_t attr)
{
	assert_true(n->nsent > 0);
	assert_string_equal(wire_cm_attr_name[WIRE_CM_INDEX(n->sent[n->nsent - 1].msg.attr)],
			    wire_cm_attr_name[WIRE_CM_INDEX(attr)]);
	return &n->sent[n->nsent - 1];
}

uint32_t
node_count(const struct node *n, uint32_t attr)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n->nsent; i++)
		count += n->sent[i].msg.attr == attr;
	return count;
}

bool
node_rx(struct node *n, const struct node *from, const uint8_t *mad)
{
	struct cm_rx_info info = {.qkey = WIRE_GSI_QKEY, .src_qpn = WIRE_GSI_QPN};

	memcpy(info.addr.local, n->gid, 16);
	memcpy(info.addr.remote, from->gid, 16);
	info.addr.pkey = 0xffff;
	info.addr.hop_limit = 64;
	return cm_rx(n->cm, &info, mad, WIRE_MAD_LEN, n->now);
}

bool
node_rx_msg(struct node *n, const struct node *from, const struct wire_cm *m)
{
	uint8_t mad[WIRE_MAD_LEN];

	wire_cm_build(m, mad);
	return node_rx(n, from, mad);
}

void
deliver(void)
{
	bool any = true;

	while (any) {
		any = false;
		for (uint32_t i = 0; i < 2; i++) {
			struct node *n = &nodes[i];

			while (n->delivered < n->nsent) {
				/* a copy: the array may grow meanwhile */
				struct sent s = n->sent[n->delivered++];

				assert_memory_equal(s.addr.local, n->gid, 16);
				node_rx(&nodes[1 - i], n, s.mad);
				any = true;
			}
		}
	}
}

void
lose(void)
{
	nodes[0].delivered = nodes[0].nsent;
	nodes[1].delivered = nodes[1].nsent;
}

/* Runs one node: every deadline at its time. */
static void
node_pass(struct node *n, uint64_t until)
{
	while (cm_next_ns(n->cm) <= until) {
		n->now = cm_next_ns(n->cm) > n->now ? cm_next_ns(n->cm) : n->now;
		cm_tick(n->cm, n->now);
	}
	n->now = until;
}

void
pass(uint64_t ns)
{
	for (uint32_t i = 0; i < 2; i++)
		if (nodes[i].mem != NULL)
			node_pass(&nodes[i], nodes[i].now + ns);
}

uint32_t
times_of(struct node *n, uint32_t attr, uint64_t *gap)
{
	uint64_t last = n->now;
	uint32_t count = node_count(n, attr), i;

	for (i = 0; i < 1000 && cm_next_ns(n->cm) != CM_NEVER && n->ntold == n->read; i++) {
		uint32_t was = node_count(n, attr);

		pass(cm_next_ns(n->cm) - n->now);
		if (node_count(n, attr) == was)
			continue;
		*gap = n->now - last;
		last = n->now;
	}
	return node_count(n, attr) - count;
}

enum cm_state
state_of(const struct node *n, uint32_t id)
{
	struct cm_info info;

	if (cm_info_get(n->cm, id, &info) != 0)
		return CM_GONE;
	return info.state;
}

struct cm_listen
listen_args(void)
{
	return (struct cm_listen){.service_id = SERVICE, .dev = CM_DEV_ANY, .backlog = 4};
}

uint32_t
asked(const uint8_t gid[16], uint16_t dev, uint32_t comm)
{
	struct wire_cm m = {
		.attr = WIRE_CM_REQ,
		.req = {.local_comm_id = comm, .service_id = SERVICE, .mtu = 3, .qpn = comm + 100}};
	struct cm_rx_info info = {.qkey = WIRE_GSI_QKEY, .src_qpn = WIRE_GSI_QPN};
	uint8_t mad[WIRE_MAD_LEN];
	struct node *a = &nodes[0], *p = &nodes[1];

	info.addr.dev = dev;
	memcpy(info.addr.local, gid, 16);
	memcpy(info.addr.remote, a->gid, 16);
	wire_cm_build(&m, mad);
	cm_rx(p->cm, &info, mad, sizeof(mad), p->now);
	if (p->read == p->ntold)
		return 0;
	return node_event(p, CM_EV_CONNECT_REQUEST)->ev.listener;
}

uint32_t
listen_with(struct node *n, const struct cm_listen *l, int want)
{
	uint32_t id;

	assert_int_equal(cm_create(n->cm, NULL, &id), 0);
	assert_int_equal(cm_listen(n->cm, id, l), want);
	if (want != 0)
		assert_int_equal(cm_destroy(n->cm, id, n->now), 0);
	return id;
}

uint32_t
do_listen(struct node *n)
{
	struct cm_listen l = {.service_id = SERVICE, .dev = CM_DEV_ANY, .backlog = 8};
	uint32_t id;

	assert_int_equal(cm_create(n->cm, n, &id), 0);
	assert_int_equal(cm_listen(n->cm, id, &l), 0);
	return id;
}

struct cm_connect
connect_args(const struct node *n, const struct node *to, uint32_t qpn)
{
	struct cm_connect c = {
		.addr.pkey = 0xffff,
		.service_id = SERVICE,
		.ca_guid = 0x0200000000000000u + n->gid[15],
		.p.qpn = qpn,
		.p.psn = 0x123456,
		.mtu = 3,
		.p.responder_resources = 4,
		.p.initiator_depth = 2,
		.p.retry_count = 7,
		.p.rnr_retry = 6,
		.response_timeout = 16,
		.max_retries = 3,
		.primary = {.local_lid = 0xffff,
			    .remote_lid = 0xffff,
			    .hop_limit = 64,
			    .ack_timeout = 14},
		.p.private_data = ANY_DATA,
		.p.private_len = sizeof(ANY_DATA),
	};

	memcpy(c.addr.local, n->gid, 16);
	memcpy(c.addr.remote, to->gid, 16);
	memcpy(c.primary.local_gid, n->gid, 16);
	memcpy(c.primary.remote_gid, to->gid, 16);
	return c;
}

uint32_t
do_connect(struct node *n, const struct node *to, uint32_t qpn)
{
	struct cm_connect c = connect_args(n, to, qpn);
	uint32_t id;

	assert_int_equal(cm_create(n->cm, n, &id), 0);
	assert_int_equal(cm_connect(n->cm, id, &c, n->now), 0);
	return id;
}

struct cm_accept
accept_args(uint32_t qpn)
{
	return (struct cm_accept){
		.ca_guid = 0x0200000000000002u,
		.p.qpn = qpn,
		.p.psn = 0x654321,
		.p.responder_resources = 2,
		.p.initiator_depth = 4,
		.target_ack_delay = 10,
		.p.rnr_retry = 5,
		.p.private_data = ANY_DATA,
		.p.private_len = sizeof(ANY_DATA),
	};
}

void
do_accept(struct node *n, uint32_t id, uint32_t qpn)
{
	struct cm_accept c = accept_args(qpn);

	assert_int_equal(cm_accept(n->cm, id, &c, n->now), 0);
}

uint32_t
half_pair(uint32_t *active)
{
	struct node *a = node_make(0, NULL), *p = node_make(1, NULL);

	do_listen(p);
	*active = do_connect(a, p, 0x11);
	deliver();
	return node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
}

struct pair
do_pair(void)
{
	struct node *a, *p;
	struct pair ids;

	a = node_make(0, NULL);
	p = node_make(1, NULL);
	ids.listener = do_listen(p);
	ids.active = do_connect(a, p, 0x11);
	deliver();
	ids.passive = node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
	assert_int_equal(cm_set_user(p->cm, ids.passive, p), 0);
	do_accept(p, ids.passive, 0x22);
	deliver();
	node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(cm_ready(a->cm, ids.active, NULL, 0, a->now), 0);
	deliver();
	node_event(p, CM_EV_ESTABLISHED);
	assert_int_equal(state_of(a, ids.active), CM_ESTABLISHED);
	assert_int_equal(state_of(p, ids.passive), CM_ESTABLISHED);
	return ids;
}
