/* SPDX-License-Identifier: BSD-3-Clause */
/* What MADs of any content cost, listeners and their limits, SIDR, private data, ECE, paths. */
#include <errno.h>
#include <stdlib.h>
#include "cm/parts.h"
#include "harness.h"
#include "../../kit/requirement.h"

static struct node *const a = &nodes[0], *const p = &nodes[1];

static uint64_t
dropped(const struct node *n, enum cm_drop why)
{
	return cm_counters(n->cm)->dropped[why];
}

REQUIREMENT("CM-01")
static void
mads_that_are_not_the_cms_are_counted_by_reason(void **state)
{
	static const struct {
		uint32_t byte;
		uint8_t value;
		enum cm_drop why;
	} wrong[] = {{0, 9, CM_DROP_BASE_VERSION},
		     {1, 4, CM_DROP_CLASS},
		     {2, 9, CM_DROP_CLASS_VERSION},
		     {3, 1, CM_DROP_METHOD},
		     {17, 0x30, CM_DROP_ATTR}};
	struct cm_rx_info info = {.qkey = WIRE_GSI_QKEY, .src_qpn = WIRE_GSI_QPN};
	struct wire_cm m = {.attr = WIRE_CM_REQ};
	uint8_t mad[WIRE_MAD_LEN];

	node_make(1, NULL);
	do_listen(p);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		wire_cm_build(&m, mad);
		mad[wrong[i].byte] = wrong[i].value;
		cm_rx(p->cm, &info, mad, sizeof(mad), 0);
		assert_int_equal(dropped(p, wrong[i].why), 1);
	}
	wire_cm_build(&m, mad);
	cm_rx(p->cm, &info, mad, sizeof(mad) - 1, 0);
	assert_int_equal(dropped(p, CM_DROP_LENGTH), 1);
	info.qkey = 0x11111111;
	cm_rx(p->cm, &info, mad, sizeof(mad), 0);
	assert_int_equal(dropped(p, CM_DROP_QKEY), 1);
	info.qkey = WIRE_GSI_QKEY;
	info.src_qpn = 2;
	cm_rx(p->cm, &info, mad, sizeof(mad), 0);
	assert_int_equal(dropped(p, CM_DROP_SRC_QPN), 1);
	assert_int_equal(p->nsent + p->ntold, 0);
}

REQUIREMENT("CM-01")
static void
impossible_fields_are_refused(void **state)
{
	struct wire_cm m = {.attr = WIRE_CM_REQ, .req = {.service_id = SERVICE, .mtu = 3}};

	node_make(0, NULL);
	node_make(1, NULL);
	do_listen(p);
	node_rx_msg(p, a, &m);
	assert_int_equal(dropped(p, CM_DROP_FIELD), 1);
	m.req.local_comm_id = 7;
	m.req.qpn = 1;
	node_rx_msg(p, a, &m);
	assert_int_equal(node_last(p, WIRE_CM_REJ)->msg.rej.reason, WIRE_CM_REJ_NO_QP);
	m.req.qpn = 0x11;
	m.req.mtu = 6;
	node_rx_msg(p, a, &m);
	assert_int_equal(node_last(p, WIRE_CM_REJ)->msg.rej.reason, WIRE_CM_REJ_INVALID_MTU);
	m.req.mtu = 5;
	m.req.transport = WIRE_CM_RD;
	node_rx_msg(p, a, &m);
	assert_int_equal(node_last(p, WIRE_CM_REJ)->msg.rej.reason, WIRE_CM_REJ_INVALID_TRANSPORT);
	m.req.transport = WIRE_CM_UC;
	node_rx_msg(p, a, &m);
	node_event(p, CM_EV_CONNECT_REQUEST);
}

REQUIREMENT("CM-01")
static void
strangers_cannot_touch_a_connection(void **state)
{
	struct pair ids = do_pair();
	struct node stranger = {.gid = {[10] = 0xff, 0xff, 10, 0, 0, 99}};
	struct wire_cm m = {.attr = WIRE_CM_DREQ,
			    .dreq = {.local_comm_id = ids.passive,
				     .remote_comm_id = ids.active,
				     .remote_qpn = 0x11}};
	uint32_t sent = a->nsent;

	node_rx_msg(a, &stranger, &m);
	assert_int_equal(dropped(a, CM_DROP_WRONG_PEER), 1);
	/* nor can the peer, with another communication id or QPN */
	m.dreq.local_comm_id ^= 1;
	node_rx_msg(a, p, &m);
	assert_int_equal(dropped(a, CM_DROP_WRONG_PEER), 2);
	m.dreq.local_comm_id ^= 1;
	m.dreq.remote_qpn = 0x12;
	node_rx_msg(a, p, &m);
	assert_int_equal(dropped(a, CM_DROP_FIELD), 1);
	assert_int_equal(a->nsent, sent);
	assert_int_equal(state_of(a, ids.active), CM_ESTABLISHED);
	m.dreq.remote_qpn = 0x11;
	node_rx_msg(a, p, &m);
	assert_int_equal(state_of(a, ids.active), CM_TIMEWAIT);
}

REQUIREMENT("CM-01")
static void
messages_of_unknown_ids_end_in_nothing_or_one_reply(void **state)
{
	static const struct {
		uint32_t attr, answer;
	} cases[] = {{WIRE_CM_MRA, 0},           {WIRE_CM_REJ, 0},
		     {WIRE_CM_RTU, 0},           {WIRE_CM_DREP, 0},
		     {WIRE_CM_LAP, 0},           {WIRE_CM_APR, 0},
		     {WIRE_CM_REP, WIRE_CM_REJ}, {WIRE_CM_DREQ, WIRE_CM_DREP},
		     {WIRE_CM_SIDR_REP, 0},      {WIRE_CM_SIDR_REQ, WIRE_CM_SIDR_REP}};

	node_make(0, NULL);
	node_make(1, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wire_cm m = {.attr = (uint8_t)cases[i].attr};
		uint32_t sent = p->nsent;

		m.rtu.local_comm_id = 5;
		m.rtu.remote_comm_id = 6;
		node_rx_msg(p, a, &m);
		assert_int_equal(p->nsent - sent, cases[i].answer != 0);
		if (cases[i].answer != 0)
			node_last(p, cases[i].answer);
	}
	assert_int_equal(cm_nids(p->cm), 0);
	assert_int_equal(p->ntold, 0);
}

static struct cm_listen
listen_args(void)
{
	return (struct cm_listen){.service_id = SERVICE, .dev = CM_DEV_ANY, .backlog = 4};
}

static uint32_t
listen_with(const struct cm_listen *l, int want)
{
	uint32_t id;

	assert_int_equal(cm_create(p->cm, NULL, &id), 0);
	assert_int_equal(cm_listen(p->cm, id, l), want);
	if (want != 0)
		assert_int_equal(cm_destroy(p->cm, id, p->now), 0);
	return id;
}

/* A REQ of a to p's address or another one: whose it becomes. */
static uint32_t
asked(const uint8_t gid[16], uint16_t dev, uint32_t comm)
{
	struct wire_cm m = {
		.attr = WIRE_CM_REQ,
		.req = {.local_comm_id = comm, .service_id = SERVICE, .mtu = 3, .qpn = comm + 100}};
	struct cm_rx_info info = {.qkey = WIRE_GSI_QKEY, .src_qpn = WIRE_GSI_QPN};
	uint8_t mad[WIRE_MAD_LEN];

	info.addr.dev = dev;
	memcpy(info.addr.local, gid, 16);
	memcpy(info.addr.remote, a->gid, 16);
	wire_cm_build(&m, mad);
	cm_rx(p->cm, &info, mad, sizeof(mad), p->now);
	if (p->read == p->ntold)
		return 0;
	return node_event(p, CM_EV_CONNECT_REQUEST)->ev.listener;
}

REQUIREMENT("CM-10")
static void
the_most_specific_listener_gets_the_request(void **state)
{
	static const uint8_t six[16] = {0xfd, [15] = 2},
			     other[16] = {[10] = 0xff, 0xff, 10, 0, 0, 9};
	struct cm_listen l = listen_args();
	uint32_t any, v6, dev1, exact;

	node_make(0, NULL);
	node_make(1, NULL);
	assert_int_equal(asked(p->gid, 0, 1), 0);
	any = listen_with(&l, 0);
	l.family = CM_FAMILY_IPV6;
	v6 = listen_with(&l, 0);
	l.family = CM_FAMILY_ANY;
	l.dev = 1;
	dev1 = listen_with(&l, 0);
	l.dev = CM_DEV_ANY;
	memcpy(l.gid, p->gid, 16);
	exact = listen_with(&l, 0);
	assert_int_equal(asked(other, 0, 2), any);
	assert_int_equal(asked(six, 0, 3), v6);
	assert_int_equal(asked(other, 1, 4), dev1);
	assert_int_equal(asked(p->gid, 1, 5), exact);
	assert_int_equal(cm_destroy(p->cm, exact, p->now), 0);
	assert_int_equal(asked(p->gid, 0, 6), any);
	assert_int_equal(cm_destroy(p->cm, any, p->now), 0);
	assert_int_equal(asked(p->gid, 0, 7), 0);
}

REQUIREMENT("CM-10")
static void
one_listener_for_each_address_and_port(void **state)
{
	struct cm_listen l = listen_args();

	node_make(1, NULL);
	listen_with(&l, 0);
	listen_with(&l, -EADDRINUSE);
	l.sidr = true;
	listen_with(&l, 0);
	l.service_id++;
	listen_with(&l, 0);
	l.backlog = 0;
	listen_with(&l, -EINVAL);
}

REQUIREMENT("CM-16")
static void
requests_beyond_the_backlog_are_rejected(void **state)
{
	struct cm_listen l = listen_args();
	uint32_t first = 0, i;

	node_make(0, NULL);
	node_make(1, NULL);
	listen_with(&l, 0);
	for (i = 1; i <= 4; i++)
		assert_int_not_equal(asked(p->gid, 0, i), 0);
	first = p->told[0].ev.id;
	assert_int_equal(asked(p->gid, 0, 5), 0);
	assert_int_equal(node_last(p, WIRE_CM_REJ)->msg.rej.reason, WIRE_CM_REJ_NO_RESOURCES);
	assert_int_equal(cm_counters(p->cm)->over_backlog, 1);
	/* an answered one makes room */
	do_accept(p, first, 0x50);
	assert_int_not_equal(asked(p->gid, 0, 6), 0);
	assert_int_equal(asked(p->gid, 0, 7), 0);
}

REQUIREMENT("CM-16")
static void
one_peer_has_so_many_requests(void **state)
{
	struct cm_config c = {.max_ids = 64, .max_peer_pending = 3, .seed = 1};
	struct cm_listen l = listen_args();

	node_make(0, NULL);
	node_make(1, &c);
	l.backlog = 60;
	listen_with(&l, 0);
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_not_equal(asked(p->gid, 0, i), 0);
	assert_int_equal(asked(p->gid, 0, 4), 0);
	assert_int_equal(cm_counters(p->cm)->over_peer, 1);
	/* another peer is served */
	a->gid[15] = 77;
	assert_int_not_equal(asked(p->gid, 0, 4), 0);
}

REQUIREMENT("CM-16")
static void
peers_cannot_take_all_ids(void **state)
{
	struct cm_config c = {.max_ids = 32, .max_peer_pending = 1000, .seed = 1};
	struct cm_listen l = listen_args();
	uint32_t id;

	node_make(0, NULL);
	node_make(1, &c);
	l.backlog = 1000;
	listen_with(&l, 0);
	for (uint32_t i = 1; i <= 28; i++)
		assert_int_not_equal(asked(p->gid, 0, i), 0);
	assert_int_equal(asked(p->gid, 0, 29), 0);
	assert_int_equal(cm_counters(p->cm)->over_ids, 1);
	assert_int_equal(cm_create(p->cm, NULL, &id), 0);
}

REQUIREMENT("CM-16")
static void
rejected_requests_give_way_to_new_ones(void **state)
{
	struct cm_config c = {.max_ids = 16, .seed = 1};
	static const struct cm_reject no = {.reason = WIRE_CM_REJ_CONSUMER};
	struct cm_listen l = listen_args();

	node_make(0, NULL);
	node_make(1, &c);
	listen_with(&l, 0);
	for (uint32_t i = 1; i <= 1000; i++) {
		uint32_t id;

		assert_int_not_equal(asked(p->gid, 0, i), 0);
		id = p->told[p->ntold - 1].ev.id;
		assert_int_equal(cm_reject(p->cm, id, &no, p->now), 0);
		assert_int_equal(cm_destroy(p->cm, id, p->now), 0);
	}
	assert_true(cm_nids(p->cm) <= 16);
	pass(1000 * SEC);
	assert_int_equal(cm_nids(p->cm), 1);
}

REQUIREMENT("CM-16")
static void
ids_are_limited_and_not_given_again_soon(void **state)
{
	struct cm_config c = {.max_ids = 3, .seed = 5};
	uint32_t id[4], i;

	node_make(0, &c);
	for (i = 0; i < 3; i++)
		assert_int_equal(cm_create(a->cm, NULL, &id[i]), 0);
	assert_int_equal(cm_create(a->cm, NULL, &id[3]), -ENOMEM);
	for (i = 0; i < 10000; i++) {
		assert_int_equal(cm_destroy(a->cm, id[0], 0), 0);
		assert_int_equal(cm_create(a->cm, NULL, &id[3]), 0);
		assert_int_not_equal(id[3], id[0]);
		assert_int_equal(cm_destroy(a->cm, id[0], 0), -ENOENT);
		id[0] = id[3];
	}
	assert_int_equal(cm_bytes(&(struct cm_config){.max_ids = 0}), 0);
	assert_int_equal(cm_bytes(&(struct cm_config){.max_ids = CM_MAX_IDS + 1}), 0);
	/* memory of an id: at most 4 KiB */
	assert_true(cm_bytes(&(struct cm_config){.max_ids = 10000}) < 10000 * 4096u);
}

/* Chains of the hash tables stay short with 10,000 ids: the longest one of a table. */
static uint32_t
longest_chain(const struct cm *cm, enum cm_key key)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i <= cm->bucket_mask; i++) {
		uint32_t n = 0;

		for (uint32_t at = cm->bucket[key][i]; at != CM_NONE; at = cm->ids[at].next[key])
			n++;
		longest = n > longest ? n : longest;
	}
	return longest;
}

static void
ignore_send(void *ctx, const struct cm_addr *addr, const uint8_t *mad)
{
}

static void
ignore_event(void *ctx, const struct cm_event *ev)
{
}

REQUIREMENT("CM-16")
static void
lookups_cost_the_same_with_ten_thousand_ids(void **state)
{
	static const struct cm_ops ops = {.send = ignore_send, .event = ignore_event};
	struct cm_config c = {.max_ids = 10000, .seed = 9};
	void *mem = aligned_alloc(64, (cm_bytes(&c) + 63) / 64 * 64);
	struct cm *cm = cm_init(mem, &c, &ops, NULL);
	uint32_t id;

	node_make(0, NULL);
	node_make(1, NULL);
	for (uint32_t i = 0; i < c.max_ids; i++) {
		struct cm_connect args = connect_args(a, p, 0x100 + i);

		assert_int_equal(cm_create(cm, NULL, &id), 0);
		assert_int_equal(cm_connect(cm, id, &args, i), 0);
	}
	assert_true(longest_chain(cm, CM_KEY_LOCAL_QPN) < 12);
	/* and every timer runs */
	assert_int_equal(cm_next_ns(cm), wire_cm_time_ns(16));
	cm_tick(cm, 10 * SEC);
	assert_int_equal(cm_counters(cm)->retries, c.max_ids);
	free(mem);
}

REQUIREMENT("CM-07")
static void
sidr_resolves_a_service(void **state)
{
	struct cm_listen l = listen_args();
	struct cm_sidr_ask q = {.service_id = SERVICE,
				.max_retries = 3,
				.private_data = ANY_DATA,
				.private_len = sizeof(ANY_DATA)};
	struct cm_sidr_answer s = {.qpn = 0x33,
				   .qkey = 0x01234567,
				   .info = "i",
				   .info_len = 1,
				   .private_data = ANY_DATA,
				   .private_len = sizeof(ANY_DATA),
				   .ece = {0x123456, 7}};
	const struct told *t;
	uint32_t id;

	node_make(0, NULL);
	node_make(1, NULL);
	l.sidr = true;
	listen_with(&l, 0);
	memcpy(q.addr.local, a->gid, 16);
	memcpy(q.addr.remote, p->gid, 16);
	assert_int_equal(cm_create(a->cm, NULL, &id), 0);
	assert_int_equal(cm_sidr_ask(a->cm, id, &q, a->now), 0);
	deliver();
	t = node_event(p, CM_EV_SIDR_REQUEST);
	assert_memory_equal(t->ev.private_data, ANY_DATA, sizeof(ANY_DATA));
	assert_int_equal(cm_sidr_answer(p->cm, t->ev.id, &s, p->now), 0);
	/* the answer is lost: a copy of the question gets it again, and nobody is asked again */
	lose();
	pass(wire_cm_time_ns(CM_SIDR_TIMEOUT));
	deliver();
	node_quiet(p);
	assert_memory_equal(p->sent[0].mad, p->sent[1].mad, WIRE_MAD_LEN);
	t = node_event(a, CM_EV_SIDR_RESPONSE);
	assert_int_equal(t->ev.msg->sidr_rep.qpn, 0x33);
	assert_int_equal(t->ev.msg->sidr_rep.qkey, 0x01234567);
	assert_int_equal(t->ev.msg->sidr_rep.service_id, SERVICE);
	assert_int_equal(t->ev.ece.vendor_id, 0x123456);
	assert_int_equal(t->ev.ece.options, 7);
	assert_memory_equal(t->ev.private_data, ANY_DATA, sizeof(ANY_DATA));
	assert_int_equal(state_of(a, id), CM_CLOSED);
}

REQUIREMENT("CM-07")
static void
sidr_refusals(void **state)
{
	struct cm_listen l = listen_args();
	struct cm_sidr_ask q = {.service_id = SERVICE, .max_retries = 1};
	uint32_t id[3];

	node_make(0, NULL);
	node_make(1, NULL);
	memcpy(q.addr.local, a->gid, 16);
	memcpy(q.addr.remote, p->gid, 16);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(cm_create(a->cm, NULL, &id[i]), 0);
	/* nobody listens; REQs are no SIDR_REQs */
	do_listen(p);
	assert_int_equal(cm_sidr_ask(a->cm, id[0], &q, a->now), 0);
	deliver();
	assert_int_equal(node_event(a, CM_EV_SIDR_RESPONSE)->ev.msg->sidr_rep.status,
			 WIRE_SIDR_UNSUPPORTED);
	/* the owner goes */
	l.sidr = true;
	listen_with(&l, 0);
	assert_int_equal(cm_sidr_ask(a->cm, id[1], &q, a->now), 0);
	deliver();
	assert_int_equal(cm_destroy(p->cm, node_event(p, CM_EV_SIDR_REQUEST)->ev.id, p->now), 0);
	deliver();
	assert_int_equal(node_event(a, CM_EV_SIDR_RESPONSE)->ev.msg->sidr_rep.status,
			 WIRE_SIDR_REJECTED);
	/* no answer */
	assert_int_equal(cm_sidr_ask(a->cm, id[2], &q, a->now), 0);
	lose();
	pass(10 * SEC);
	assert_int_equal(node_event(a, CM_EV_UNREACHABLE)->ev.status, -ETIMEDOUT);
}

REQUIREMENT("CM-08")
static void
an_alternate_path_is_loaded_on_both_sides(void **state)
{
	struct pair ids = do_pair();
	struct wire_cm_path path = {.local_gid = {0xfd, [15] = 1},
				    .remote_gid = {0xfd, [15] = 2},
				    .hop_limit = 9,
				    .ack_timeout = 15};
	struct cm_qp_attr x, y;
	const struct told *t;

	/* the passive side does not load paths */
	assert_int_equal(cm_load_path(p->cm, ids.passive, &path, NULL, 0, p->now), -EINVAL);
	assert_int_equal(cm_load_path(a->cm, ids.active, &path, ANY_DATA, sizeof(ANY_DATA), a->now),
			 0);
	assert_int_equal(cm_load_path(a->cm, ids.active, &path, NULL, 0, a->now), -EINVAL);
	deliver();
	t = node_event(p, CM_EV_PATH_REQUEST);
	assert_memory_equal(t->ev.private_data, ANY_DATA, sizeof(ANY_DATA));
	assert_int_equal(cm_answer_path(p->cm, ids.passive, WIRE_APR_OK, NULL, 0, p->now), 0);
	deliver();
	assert_int_equal(node_event(a, CM_EV_PATH_RESPONSE)->ev.status, 0);
	assert_int_equal(cm_qp_attr_get(a->cm, ids.active, &x), 0);
	assert_int_equal(cm_qp_attr_get(p->cm, ids.passive, &y), 0);
	assert_memory_equal(x.alternate.remote_gid, path.remote_gid, 16);
	assert_memory_equal(y.alternate.remote_gid, path.local_gid, 16);
	assert_memory_equal(y.alternate.local_gid, path.remote_gid, 16);
	assert_int_equal(y.alternate.hop_limit, 9);
}

REQUIREMENT("CM-08")
static void
a_refused_path_changes_nothing(void **state)
{
	struct pair ids = do_pair();
	struct wire_cm_path path = {.remote_gid = {0xfd, [15] = 2}};
	struct cm_qp_attr x;

	assert_int_equal(cm_load_path(a->cm, ids.active, &path, NULL, 0, a->now), 0);
	deliver();
	node_event(p, CM_EV_PATH_REQUEST);
	assert_int_equal(cm_answer_path(p->cm, ids.passive, WIRE_APR_REJECTED, NULL, 0, p->now), 0);
	deliver();
	assert_int_equal(node_event(a, CM_EV_PATH_RESPONSE)->ev.status, -ECONNREFUSED);
	assert_int_equal(cm_qp_attr_get(a->cm, ids.active, &x), 0);
	assert_int_equal(x.alternate.remote_gid[0], 0);
	/* and no answer is none; the connection stays */
	assert_int_equal(cm_load_path(a->cm, ids.active, &path, NULL, 0, a->now), 0);
	lose();
	pass(10 * SEC);
	assert_int_equal(node_event(a, CM_EV_PATH_RESPONSE)->ev.status, -ETIMEDOUT);
	assert_int_equal(state_of(a, ids.active), CM_ESTABLISHED);
}

REQUIREMENT("CM-09")
static void
longer_private_data_is_einval(void **state)
{
	static uint8_t data[300];
	struct cm_connect c;
	struct cm_accept acc = accept_args(0x22);
	struct cm_reject r = {.private_data = data, .private_len = WIRE_CM_REJ_PRIVATE + 1};
	uint32_t active, passive;

	node_make(0, NULL);
	node_make(1, NULL);
	do_listen(p);
	c = connect_args(a, p, 0x11);
	c.private_data = acc.private_data = data;
	c.private_len = WIRE_CM_REQ_PRIVATE + 1;
	assert_int_equal(cm_create(a->cm, NULL, &active), 0);
	assert_int_equal(cm_connect(a->cm, active, &c, a->now), -EINVAL);
	assert_int_equal(state_of(a, active), CM_IDLE);
	assert_false(cm_qpn_held(a->cm, 0, 0x11));
	c.private_len--;
	assert_int_equal(cm_connect(a->cm, active, &c, a->now), 0);
	deliver();
	passive = node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
	assert_int_equal(cm_reject(p->cm, passive, &r, p->now), -EINVAL);
	assert_int_equal(cm_delay(p->cm, passive, 1, data, WIRE_CM_MRA_PRIVATE + 1, p->now),
			 -EINVAL);
	acc.private_len = WIRE_CM_REP_PRIVATE + 1;
	assert_int_equal(cm_accept(p->cm, passive, &acc, p->now), -EINVAL);
	assert_int_equal(state_of(p, passive), CM_REQ_RCVD);
	acc.private_len--;
	assert_int_equal(cm_accept(p->cm, passive, &acc, p->now), 0);
	deliver();
	assert_int_equal(cm_ready(a->cm, active, data, WIRE_CM_RTU_PRIVATE + 1, a->now), -EINVAL);
	assert_int_equal(cm_ready(a->cm, active, data, WIRE_CM_RTU_PRIVATE, a->now), 0);
	assert_int_equal(cm_disconnect(a->cm, active, data, WIRE_CM_DREQ_PRIVATE + 1, a->now),
			 -EINVAL);
	assert_int_equal(cm_disconnect(a->cm, active, data, WIRE_CM_DREQ_PRIVATE, a->now), 0);
}

REQUIREMENT("CM-14")
static void
ece_words_are_carried_and_reported(void **state)
{
	struct cm_connect c;
	struct cm_accept acc = accept_args(0x22);
	struct cm_info info;
	const struct told *t;
	uint32_t active;

	node_make(0, NULL);
	node_make(1, NULL);
	do_listen(p);
	c = connect_args(a, p, 0x11);
	c.ece = (struct cm_ece){0xabcdef, 0x80000001};
	assert_int_equal(cm_create(a->cm, NULL, &active), 0);
	assert_int_equal(cm_connect(a->cm, active, &c, a->now), 0);
	deliver();
	t = node_event(p, CM_EV_CONNECT_REQUEST);
	assert_int_equal(t->ev.ece.vendor_id, 0xabcdef);
	assert_int_equal(t->ev.ece.options, 0x80000001);
	acc.ece = (struct cm_ece){0x123456, 2};
	assert_int_equal(cm_accept(p->cm, t->ev.id, &acc, p->now), 0);
	deliver();
	t = node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(t->ev.ece.vendor_id, 0x123456);
	assert_int_equal(t->ev.ece.options, 2);
	assert_int_equal(cm_info_get(a->cm, active, &info), 0);
	assert_int_equal(info.ece.vendor_id, 0x123456);
}

REQUIREMENT("CM-05")
static void
one_seed_gives_the_same_ids_another_others(void **state)
{
	struct cm_config c = {.max_ids = 16, .seed = 42};
	uint32_t id[3];

	for (uint32_t i = 0; i < 3; i++) {
		c.seed = i < 2 ? 42 : 43;
		node_make(0, &c);
		assert_int_equal(cm_create(a->cm, NULL, &id[i]), 0);
	}
	assert_int_equal(id[0], id[1]);
	assert_int_not_equal(id[0], id[2]);
}

static void
ids_are_listed(void **state)
{
	struct pair ids = do_pair();
	uint32_t pos = 0, n = 0, id;
	struct cm_info info;

	while ((id = cm_next_id(p->cm, &pos)) != 0)
		n += id == ids.passive || id == ids.listener;
	assert_int_equal(n, 2);
	assert_int_equal(cm_info_get(p->cm, ids.passive, &info), 0);
	assert_int_equal(info.remote_id, ids.active);
	assert_int_equal(info.local_qpn, 0x22);
	assert_int_equal(info.remote_qpn, 0x11);
	assert_true(info.passive);
	assert_ptr_equal(info.user, p);
	assert_int_equal(info.made_ns, START);
	assert_int_equal(cm_info_get(p->cm, 0, &info), -ENOENT);
	assert_int_equal(cm_set_user(p->cm, 0, NULL), -ENOENT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mads_that_are_not_the_cms_are_counted_by_reason),
		cmocka_unit_test(impossible_fields_are_refused),
		cmocka_unit_test(strangers_cannot_touch_a_connection),
		cmocka_unit_test(messages_of_unknown_ids_end_in_nothing_or_one_reply),
		cmocka_unit_test(the_most_specific_listener_gets_the_request),
		cmocka_unit_test(one_listener_for_each_address_and_port),
		cmocka_unit_test(requests_beyond_the_backlog_are_rejected),
		cmocka_unit_test(one_peer_has_so_many_requests),
		cmocka_unit_test(peers_cannot_take_all_ids),
		cmocka_unit_test(rejected_requests_give_way_to_new_ones),
		cmocka_unit_test(ids_are_limited_and_not_given_again_soon),
		cmocka_unit_test(lookups_cost_the_same_with_ten_thousand_ids),
		cmocka_unit_test(sidr_resolves_a_service),
		cmocka_unit_test(sidr_refusals),
		cmocka_unit_test(an_alternate_path_is_loaded_on_both_sides),
		cmocka_unit_test(a_refused_path_changes_nothing),
		cmocka_unit_test(longer_private_data_is_einval),
		cmocka_unit_test(ece_words_are_carried_and_reported),
		cmocka_unit_test(one_seed_gives_the_same_ids_another_others),
		cmocka_unit_test(ids_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, nodes_free);
}
