/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of MADs with any content, and the limits on what peers can request. */
#include <errno.h>
#include <stdlib.h>
#include "cm/parts.h"
#include "harness.h"

static struct node *const a = &nodes[0], *const p = &nodes[1];

static uint64_t
dropped(const struct node *n, enum cm_drop why)
{
	return cm_counters(n->cm)->dropped[why];
}

REQUIREMENT("CM-01")
UNIT_TEST(mads_that_are_not_the_cms_are_counted_by_reason)
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
UNIT_TEST(impossible_fields_are_refused)
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
UNIT_TEST(strangers_cannot_touch_a_connection)
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
UNIT_TEST(messages_of_unknown_ids_end_in_nothing_or_one_reply)
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
		assert_false(node_rx_msg(p, a, &m));
		assert_int_equal(p->nsent - sent, cases[i].answer != 0);
		if (cases[i].answer != 0)
			node_last(p, cases[i].answer);
	}
	assert_int_equal(cm_nids(p->cm), 0);
	assert_int_equal(p->ntold, 0);
}

/* Delivers the last MAD of this kind twice: the first changes something, the copy does not. */
static void
useful_once(struct node *to, const struct node *from, uint32_t attr)
{
	const uint8_t *mad = node_last(from, attr)->mad;

	assert_true(node_rx(to, from, mad));
	assert_false(node_rx(to, from, mad));
}

REQUIREMENT("CM-16")
UNIT_TEST(each_message_of_a_connection_is_useful_once)
{
	uint32_t active, passive;

	node_make(0, NULL);
	node_make(1, NULL);
	do_listen(p);
	active = do_connect(a, p, 0x11);
	useful_once(p, a, WIRE_CM_REQ);
	passive = node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
	useful_once(a, p, WIRE_CM_MRA); /* the answer to the copy */
	do_accept(p, passive, 0x22);
	useful_once(a, p, WIRE_CM_REP);
	assert_int_equal(cm_ready(a->cm, active, NULL, 0, a->now), 0);
	useful_once(p, a, WIRE_CM_RTU);
	assert_int_equal(cm_disconnect(a->cm, active, NULL, 0, a->now), 0);
	useful_once(p, a, WIRE_CM_DREQ);
	useful_once(a, p, WIRE_CM_DREP);
}

/* A host that only guesses cannot make its messages useful. */
REQUIREMENT("CM-16")
UNIT_TEST(messages_without_our_id_are_useful_only_as_requests)
{
	struct wire_cm m = {
		.attr = WIRE_CM_REQ,
		.req = {.local_comm_id = 5, .service_id = SERVICE, .mtu = 3, .qpn = 0x55}};
	struct wire_cm rej = {.attr = WIRE_CM_REJ,
			      .rej = {.local_comm_id = 5, .reason = WIRE_CM_REJ_TIMEOUT}};

	node_make(0, NULL);
	node_make(1, NULL);
	assert_false(node_rx_msg(p, a, &m)); /* nobody listens */
	do_listen(p);
	assert_true(node_rx_msg(p, a, &m));
	m.req.local_comm_id = 6; /* its QP has forgotten that request */
	assert_false(node_rx_msg(p, a, &m));
	assert_int_equal(cm_counters(p->cm)->stale, 1);
	m.req.local_comm_id = 5;
	m.req.qpn = 0x56;
	assert_true(node_rx_msg(p, a, &m));
	assert_false(node_rx_msg(p, a, &rej)); /* ends the request */
	m.req.qpn = 1;
	m.req.local_comm_id = 7;
	assert_false(node_rx_msg(p, a, &m));
}

REQUIREMENT("CM-16")
UNIT_TEST(requests_beyond_the_backlog_are_rejected)
{
	struct cm_listen l = listen_args();
	uint32_t first = 0, i;

	node_make(0, NULL);
	node_make(1, NULL);
	listen_with(p, &l, 0);
	for (i = 1; i <= 4; i++)
		assert_int_not_equal(asked(p->gid, 0, i), 0);
	first = p->told[0].ev.id;
	assert_int_equal(asked(p->gid, 0, 5), 0);
	assert_int_equal(node_last(p, WIRE_CM_REJ)->msg.rej.reason, WIRE_CM_REJ_NO_RESOURCES);
	assert_int_equal(cm_counters(p->cm)->over_backlog, 1);
	/* one that got a reply frees its place */
	do_accept(p, first, 0x50);
	assert_int_not_equal(asked(p->gid, 0, 6), 0);
	assert_int_equal(asked(p->gid, 0, 7), 0);
}

REQUIREMENT("CM-16")
UNIT_TEST(one_peer_has_so_many_requests)
{
	struct cm_config c = {.max_ids = 64, .max_peer_pending = 3, .seed = 1};
	struct cm_listen l = listen_args();

	node_make(0, NULL);
	node_make(1, &c);
	l.backlog = 60;
	listen_with(p, &l, 0);
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_not_equal(asked(p->gid, 0, i), 0);
	assert_int_equal(asked(p->gid, 0, 4), 0);
	assert_int_equal(cm_counters(p->cm)->over_peer, 1);
	/* another peer is served */
	a->gid[15] = 77;
	assert_int_not_equal(asked(p->gid, 0, 4), 0);
}

REQUIREMENT("CM-16")
UNIT_TEST(peers_cannot_take_all_ids)
{
	struct cm_config c = {.max_ids = 32, .max_peer_pending = 1000, .seed = 1};
	struct cm_listen l = listen_args();
	uint32_t id;

	node_make(0, NULL);
	node_make(1, &c);
	l.backlog = 1000;
	listen_with(p, &l, 0);
	for (uint32_t i = 1; i <= 28; i++)
		assert_int_not_equal(asked(p->gid, 0, i), 0);
	assert_int_equal(asked(p->gid, 0, 29), 0);
	assert_int_equal(cm_counters(p->cm)->over_ids, 1);
	assert_int_equal(cm_create(p->cm, NULL, &id), 0);
}

REQUIREMENT("CM-16")
UNIT_TEST(rejected_requests_give_way_to_new_ones)
{
	struct cm_config c = {.max_ids = 16, .seed = 1};
	static const struct cm_reject no = {.reason = WIRE_CM_REJ_CONSUMER};
	struct cm_listen l = listen_args();

	node_make(0, NULL);
	node_make(1, &c);
	listen_with(p, &l, 0);
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
UNIT_TEST(ids_are_limited_and_not_given_again_soon)
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
UNIT_TEST(lookups_cost_the_same_with_ten_thousand_ids)
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
	for (uint32_t done = 0; done < c.max_ids; done = cm_counters(cm)->retries) {
		assert_int_equal(cm_next_ns(cm) <= 10 * SEC, true);
		cm_tick(cm, 10 * SEC);
		/* a call takes a bounded number of them: the caller serves others in between */
		assert_in_range(cm_counters(cm)->retries - done, 1, CM_TICK_MOST);
	}
	assert_true(cm_next_ns(cm) > 10 * SEC);
	free(mem);
}

REQUIREMENT("CM-05")
UNIT_TEST(one_seed_gives_the_same_ids_another_others)
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

UNIT_TEST(ids_are_listed)
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
