/* SPDX-License-Identifier: BSD-3-Clause */
/* UD services (SIDR), alternate paths, private data, ECE. */
#include <errno.h>
#include "harness.h"

static struct node *const a = &nodes[0], *const p = &nodes[1];

REQUIREMENT("CM-07")
UNIT_TEST(sidr_resolves_a_service)
{
	struct cm_listen l = listen_args();
	struct cm_sidr_ask q = {.service_id = SERVICE,
				.max_retries = 3,
				.private_data = ANY_DATA,
				.private_len = sizeof(ANY_DATA)};
	struct cm_sidr_answer s = {.p.qpn = 0x33,
				   .p.qkey = 0x01234567,
				   .info = "i",
				   .info_len = 1,
				   .p.private_data = ANY_DATA,
				   .p.private_len = sizeof(ANY_DATA),
				   .p.ece = {0x123456, 7}};
	const struct told *t;
	uint32_t id;

	node_make(0, NULL);
	node_make(1, NULL);
	l.sidr = true;
	listen_with(p, &l, 0);
	memcpy(q.addr.local, a->gid, 16);
	memcpy(q.addr.remote, p->gid, 16);
	assert_int_equal(cm_create(a->cm, NULL, &id), 0);
	assert_int_equal(cm_sidr_ask(a->cm, id, &q, a->now), 0);
	deliver();
	t = node_event(p, CM_EV_SIDR_REQUEST);
	assert_memory_equal(t->ev.private_data, ANY_DATA, sizeof(ANY_DATA));
	assert_int_equal(cm_sidr_answer(p->cm, t->ev.id, &s, p->now), 0);
	/* the response is lost: a copy of the request gets it again, without another event */
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

/* An answer is kept as long as a kernel sends copies of its request: 16 times 4.3 s. */
REQUIREMENT("CM-05", "CM-07")
UNIT_TEST(an_answered_query_ends)
{
	const uint64_t kept_ns = 16 * wire_cm_time_ns(20);
	struct cm_listen l = listen_args();
	struct cm_sidr_ask q = {.service_id = SERVICE, .max_retries = 15};
	struct cm_sidr_answer s = {.p.qpn = 0x33};
	uint32_t id, listener, answered[2];

	node_make(0, NULL);
	node_make(1, NULL);
	l.sidr = true;
	listener = listen_with(p, &l, 0);
	memcpy(q.addr.local, a->gid, 16);
	memcpy(q.addr.remote, p->gid, 16);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(cm_create(a->cm, NULL, &id), 0);
		assert_int_equal(cm_sidr_ask(a->cm, id, &q, a->now), 0);
		deliver();
		answered[i] = node_event(p, CM_EV_SIDR_REQUEST)->ev.id;
		assert_int_equal(cm_sidr_answer(p->cm, answered[i], &s, p->now), 0);
		assert_int_equal(cm_destroy(a->cm, id, a->now), 0);
		lose();
	}
	/* with and without an owner */
	assert_int_equal(cm_destroy(p->cm, answered[0], p->now), 0);
	pass(kept_ns - 1);
	assert_int_equal(cm_nids(p->cm), 3);
	assert_int_equal(state_of(p, answered[1]), CM_SIDR_REP_SENT);
	pass(1);
	assert_int_equal(cm_nids(p->cm), 2);
	assert_int_equal(state_of(p, answered[1]), CM_CLOSED);
	assert_int_equal(cm_destroy(p->cm, answered[1], p->now), 0);
	assert_int_equal(cm_destroy(p->cm, listener, p->now), 0);
	assert_int_equal(cm_nids(p->cm), 0);
	assert_int_equal(cm_next_ns(p->cm), CM_NEVER);
}

REQUIREMENT("CM-07")
UNIT_TEST(sidr_refusals)
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
	/* no listener; REQs are not SIDR_REQ messages */
	do_listen(p);
	assert_int_equal(cm_sidr_ask(a->cm, id[0], &q, a->now), 0);
	deliver();
	assert_int_equal(node_event(a, CM_EV_SIDR_RESPONSE)->ev.msg->sidr_rep.status,
			 WIRE_SIDR_UNSUPPORTED);
	/* the owner ends */
	l.sidr = true;
	listen_with(p, &l, 0);
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
UNIT_TEST(an_alternate_path_is_loaded_on_both_sides)
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
UNIT_TEST(a_refused_path_changes_nothing)
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
	/* silence is not a refusal; the connection stays */
	assert_int_equal(cm_load_path(a->cm, ids.active, &path, NULL, 0, a->now), 0);
	lose();
	pass(10 * SEC);
	assert_int_equal(node_event(a, CM_EV_PATH_RESPONSE)->ev.status, -ETIMEDOUT);
	assert_int_equal(state_of(a, ids.active), CM_ESTABLISHED);
}

REQUIREMENT("CM-09")
UNIT_TEST(longer_private_data_is_einval)
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
	c.p.private_data = acc.p.private_data = data;
	c.p.private_len = WIRE_CM_REQ_PRIVATE + 1;
	assert_int_equal(cm_create(a->cm, NULL, &active), 0);
	assert_int_equal(cm_connect(a->cm, active, &c, a->now), -EINVAL);
	assert_int_equal(state_of(a, active), CM_IDLE);
	assert_false(cm_qpn_held(a->cm, 0, 0x11));
	c.p.private_len--;
	assert_int_equal(cm_connect(a->cm, active, &c, a->now), 0);
	deliver();
	passive = node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
	assert_int_equal(cm_reject(p->cm, passive, &r, p->now), -EINVAL);
	assert_int_equal(cm_delay(p->cm, passive, 1, data, WIRE_CM_MRA_PRIVATE + 1, p->now),
			 -EINVAL);
	acc.p.private_len = WIRE_CM_REP_PRIVATE + 1;
	assert_int_equal(cm_accept(p->cm, passive, &acc, p->now), -EINVAL);
	assert_int_equal(state_of(p, passive), CM_REQ_RCVD);
	acc.p.private_len--;
	assert_int_equal(cm_accept(p->cm, passive, &acc, p->now), 0);
	deliver();
	assert_int_equal(cm_ready(a->cm, active, data, WIRE_CM_RTU_PRIVATE + 1, a->now), -EINVAL);
	assert_int_equal(cm_ready(a->cm, active, data, WIRE_CM_RTU_PRIVATE, a->now), 0);
	assert_int_equal(cm_disconnect(a->cm, active, data, WIRE_CM_DREQ_PRIVATE + 1, a->now),
			 -EINVAL);
	assert_int_equal(cm_disconnect(a->cm, active, data, WIRE_CM_DREQ_PRIVATE, a->now), 0);
}

REQUIREMENT("CM-14")
UNIT_TEST(ece_words_are_carried_and_reported)
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
	c.p.ece = (struct cm_ece){0xabcdef, 0x80000001};
	assert_int_equal(cm_create(a->cm, NULL, &active), 0);
	assert_int_equal(cm_connect(a->cm, active, &c, a->now), 0);
	deliver();
	t = node_event(p, CM_EV_CONNECT_REQUEST);
	assert_int_equal(t->ev.ece.vendor_id, 0xabcdef);
	assert_int_equal(t->ev.ece.options, 0x80000001);
	acc.p.ece = (struct cm_ece){0x123456, 2};
	assert_int_equal(cm_accept(p->cm, t->ev.id, &acc, p->now), 0);
	deliver();
	t = node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(t->ev.ece.vendor_id, 0x123456);
	assert_int_equal(t->ev.ece.options, 2);
	assert_int_equal(cm_info_get(a->cm, active, &info), 0);
	assert_int_equal(info.ece.vendor_id, 0x123456);
}
