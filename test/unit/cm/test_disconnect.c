/* SPDX-License-Identifier: BSD-3-Clause */
/* Two CMs: the end of connections, and the state that remains. */
#include <errno.h>
#include "harness.h"

static struct node *const a = &nodes[0], *const p = &nodes[1];

REQUIREMENT("CM-06")
UNIT_TEST(either_side_disconnects)
{
	for (uint32_t side = 0; side < 2; side++) {
		struct pair ids = do_pair();
		struct node *n = &nodes[side], *m = &nodes[1 - side];
		uint32_t id = side == 0 ? ids.active : ids.passive;

		assert_int_equal(cm_disconnect(n->cm, id, ANY_DATA, sizeof(ANY_DATA), n->now), 0);
		deliver();
		assert_int_equal(node_event(n, CM_EV_DISCONNECTED)->ev.status, 0);
		assert_memory_equal(node_event(m, CM_EV_DISCONNECTED)->ev.private_data, ANY_DATA,
				    sizeof(ANY_DATA));
		/* a program that also disconnects gets no error */
		assert_int_equal(cm_disconnect(p->cm, ids.passive, NULL, 0, p->now), 0);
		node_quiet(n);
		node_quiet(m);
	}
}

REQUIREMENT("CM-06")
UNIT_TEST(both_disconnect_at_once)
{
	struct pair ids = do_pair();

	assert_int_equal(cm_disconnect(a->cm, ids.active, NULL, 0, a->now), 0);
	assert_int_equal(cm_disconnect(p->cm, ids.passive, NULL, 0, p->now), 0);
	deliver();
	node_event(a, CM_EV_DISCONNECTED);
	node_event(p, CM_EV_DISCONNECTED);
	node_quiet(a);
	node_quiet(p);
	assert_int_equal(state_of(a, ids.active), CM_TIMEWAIT);
	assert_int_equal(state_of(p, ids.passive), CM_TIMEWAIT);
}

REQUIREMENT("CM-06")
UNIT_TEST(a_dreq_without_an_answer_ends_after_its_retries)
{
	struct pair ids = do_pair();
	uint64_t gap = 0;

	assert_int_equal(cm_disconnect(p->cm, ids.passive, NULL, 0, p->now), 0);
	assert_int_equal(times_of(p, WIRE_CM_DREQ, &gap), 3);
	assert_int_equal(gap, wire_cm_time_ns(16));
	assert_int_equal(node_event(p, CM_EV_DISCONNECTED)->ev.status, -ETIMEDOUT);
	assert_int_equal(state_of(p, ids.passive), CM_TIMEWAIT);
}

/* Both the DREQ that is outstanding and the one that follows are sent again soon, 15 times. */
REQUIREMENT("CM-06")
UNIT_TEST(a_process_that_ends_retransmits_dreqs_sooner)
{
	for (uint32_t early = 0; early < 2; early++) {
		struct pair ids = do_pair();

		assert_int_equal(cm_disconnecting(p->cm), 0);
		if (!early)
			cm_hurry(p->cm, 100 * MS, p->now);
		assert_int_equal(cm_disconnect(p->cm, ids.passive, NULL, 0, p->now), 0);
		if (early)
			cm_hurry(p->cm, 100 * MS, p->now);
		assert_int_equal(cm_destroy(p->cm, ids.passive, p->now), 0);
		for (uint32_t i = 0; i < 15; i++) {
			assert_int_equal(cm_disconnecting(p->cm), 1);
			lose();
			pass(100 * MS - 1);
			assert_int_equal(node_count(p, WIRE_CM_DREQ), i + 1);
			pass(1);
			assert_int_equal(node_count(p, WIRE_CM_DREQ), i + 2);
		}
		if (early) {
			lose();
			pass(100 * MS);
		} else {
			deliver();
			assert_int_equal(node_event(a, CM_EV_DISCONNECTED)->ev.status, 0);
		}
		assert_int_equal(cm_disconnecting(p->cm), 0);
		assert_int_equal(node_count(p, WIRE_CM_DREQ), 16);
	}
}

REQUIREMENT("CM-06")
UNIT_TEST(timewait_holds_the_qpn_and_ends)
{
	struct pair ids = do_pair();
	struct cm_connect c = connect_args(a, p, 0x11);
	uint32_t other;

	assert_int_equal(cm_disconnect(a->cm, ids.active, NULL, 0, a->now), 0);
	deliver();
	node_event(a, CM_EV_DISCONNECTED);
	assert_true(cm_qpn_held(a->cm, 0, 0x11));
	assert_false(cm_qpn_held(a->cm, 1, 0x11));
	assert_int_equal(cm_create(a->cm, NULL, &other), 0);
	assert_int_equal(cm_connect(a->cm, other, &c, a->now), -EBUSY);
	/* both directions of the path */
	pass(wire_cm_time_ns(14) - 1);
	node_quiet(a);
	assert_int_equal(state_of(a, ids.active), CM_TIMEWAIT);
	pass(1);
	node_event(a, CM_EV_TIMEWAIT_EXIT);
	assert_false(cm_qpn_held(a->cm, 0, 0x11));
	assert_int_equal(cm_connect(a->cm, other, &c, a->now), 0);
	assert_int_equal(cm_destroy(a->cm, ids.active, a->now), 0);
	assert_int_equal(state_of(a, ids.active), CM_GONE);
}

REQUIREMENT("CM-06")
UNIT_TEST(a_peer_cannot_make_timewait_last)
{
	uint32_t active, passive;
	struct wire_cm req;

	node_make(0, NULL);
	node_make(1, NULL);
	do_listen(p);
	active = do_connect(a, p, 0x11);
	req = a->sent[0].msg;
	req.req.primary.ack_timeout = 31;
	lose();
	node_rx_msg(p, a, &req);
	passive = node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
	do_accept(p, passive, 0x22);
	deliver();
	assert_int_equal(cm_ready(a->cm, active, NULL, 0, a->now), 0);
	assert_int_equal(cm_disconnect(a->cm, active, NULL, 0, a->now), 0);
	deliver();
	pass(wire_cm_time_ns(22));
	assert_int_equal(state_of(p, passive), CM_CLOSED);
}

REQUIREMENT("CM-06")
UNIT_TEST(destroyed_ids_tell_their_peer_and_end)
{
	struct pair ids = do_pair();

	assert_int_equal(cm_destroy(a->cm, ids.active, a->now), 0);
	assert_int_equal(cm_destroy(a->cm, ids.active, a->now), -ENOENT);
	assert_int_equal(cm_disconnect(a->cm, ids.active, NULL, 0, a->now), -ENOENT);
	assert_true(cm_qpn_held(a->cm, 0, 0x11));
	/* the first DREQ is lost */
	lose();
	pass(wire_cm_time_ns(16));
	deliver();
	node_event(p, CM_EV_DISCONNECTED);
	node_quiet(a);
	pass(wire_cm_time_ns(14));
	assert_int_equal(state_of(a, ids.active), CM_GONE);
	assert_int_equal(cm_nids(a->cm), 0);
	node_quiet(a);
}

REQUIREMENT("CM-06")
UNIT_TEST(a_peer_that_rejects_an_established_connection_has_ended_it)
{
	uint32_t active, passive = half_pair(&active);

	do_accept(p, passive, 0x22);
	deliver();
	node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(cm_ready(a->cm, active, NULL, 0, a->now), 0);
	lose(); /* the RTU */
	assert_int_equal(cm_destroy(p->cm, passive, p->now), 0);
	deliver();
	assert_int_equal(node_event(a, CM_EV_DISCONNECTED)->ev.reason, WIRE_CM_REJ_CONSUMER);
}

REQUIREMENT("CM-06")
UNIT_TEST(an_id_may_be_destroyed_by_the_event_that_ends_it)
{
	struct pair ids = do_pair();

	a->destroy_on = CM_EV_DISCONNECTED;
	p->destroy_on = CM_EV_DISCONNECTED;
	assert_int_equal(cm_disconnect(a->cm, ids.active, NULL, 0, a->now), 0);
	deliver();
	pass(10 * SEC);
	assert_int_equal(cm_nids(a->cm), 0);
	assert_int_equal(cm_nids(p->cm), 1); /* the listener */
	assert_int_equal(a->ntold, 2);
	assert_int_equal(p->ntold, 3);
}
