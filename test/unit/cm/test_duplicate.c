/* SPDX-License-Identifier: BSD-3-Clause */
/* Two CMs: copies of messages, and connections that the peer has forgotten. */
#include "harness.h"

static struct node *const a = &nodes[0], *const p = &nodes[1];

static const struct cm_reject refusal = {.reason = WIRE_CM_REJ_CONSUMER};

/* Delivers MAD number i of from again. */
static void
again(struct node *from, struct node *to, uint32_t i)
{
	node_rx(to, from, from->sent[i].mad);
}

REQUIREMENT("CM-05")
UNIT_TEST(copies_of_the_req_get_the_same_reply)
{
	uint32_t active, passive = half_pair(&active), i;

	again(a, p, 0);
	assert_int_equal(node_last(p, WIRE_CM_MRA)->msg.mra.remote_comm_id, active);
	node_quiet(p);
	do_accept(p, passive, 0x22);
	i = p->nsent - 1;
	again(a, p, 0);
	assert_memory_equal(node_last(p, WIRE_CM_REP)->mad, p->sent[i].mad, WIRE_MAD_LEN);
	node_quiet(p);
	assert_int_equal(cm_counters(p->cm)->duplicates, 2);
}

REQUIREMENT("CM-05")
UNIT_TEST(copies_of_a_rejected_req_get_the_same_rej)
{
	uint32_t active, passive = half_pair(&active), i;

	assert_int_equal(cm_reject(p->cm, passive, &refusal, p->now), 0);
	i = p->nsent - 1;
	/* the owner destroys it, but the CM keeps it */
	assert_int_equal(cm_destroy(p->cm, passive, p->now), 0);
	again(a, p, 0);
	assert_memory_equal(node_last(p, WIRE_CM_REJ)->mad, p->sent[i].mad, WIRE_MAD_LEN);
	node_quiet(p);
	/* as long as copies may arrive */
	pass(4 * wire_cm_time_ns(16) + wire_cm_time_ns(14));
	assert_int_equal(state_of(p, passive), CM_GONE);
}

REQUIREMENT("CM-05")
UNIT_TEST(a_rejected_peer_may_try_again_with_the_same_id_and_qp)
{
	uint32_t active, passive = half_pair(&active);
	struct wire_cm req = a->sent[0].msg;

	assert_int_equal(cm_reject(p->cm, passive, &refusal, p->now), 0);
	req.req.psn++;
	node_rx_msg(p, a, &req);
	assert_int_not_equal(node_event(p, CM_EV_CONNECT_REQUEST)->ev.id, passive);
}

REQUIREMENT("CM-05")
UNIT_TEST(copies_of_the_rep_get_the_rtu_again)
{
	struct pair ids = do_pair();

	again(p, a, 0);
	assert_memory_equal(node_last(a, WIRE_CM_RTU)->mad, a->sent[1].mad, WIRE_MAD_LEN);
	node_quiet(a);
	/* and copies of the RTU are ignored */
	again(a, p, 1);
	node_quiet(p);
	assert_int_equal(state_of(p, ids.passive), CM_ESTABLISHED);
}

REQUIREMENT("CM-05")
UNIT_TEST(a_copy_of_the_rep_before_the_rtu_gets_an_mra)
{
	uint32_t active, passive = half_pair(&active);

	do_accept(p, passive, 0x22);
	deliver();
	again(p, a, p->nsent - 1);
	assert_int_equal(node_last(a, WIRE_CM_MRA)->msg.mra.about, WIRE_CM_ABOUT_REP);
	node_event(a, CM_EV_CONNECT_RESPONSE);
	node_quiet(a);
}

REQUIREMENT("CM-05")
UNIT_TEST(copies_of_the_dreq_get_the_same_drep)
{
	struct pair ids = do_pair();
	uint32_t dreq, drep;

	assert_int_equal(cm_disconnect(a->cm, ids.active, NULL, 0, a->now), 0);
	dreq = a->nsent - 1;
	deliver();
	drep = p->nsent - 1;
	node_event(p, CM_EV_DISCONNECTED);
	again(a, p, dreq);
	assert_memory_equal(node_last(p, WIRE_CM_DREP)->mad, p->sent[drep].mad, WIRE_MAD_LEN);
	node_quiet(p);
	/* also when the connection is forgotten */
	assert_int_equal(cm_destroy(p->cm, ids.passive, p->now), 0);
	pass(100 * SEC);
	assert_int_equal(state_of(p, ids.passive), CM_GONE);
	again(a, p, dreq);
	assert_memory_equal(node_last(p, WIRE_CM_DREP)->mad, p->sent[drep].mad, WIRE_MAD_LEN);
}

REQUIREMENT("CM-05")
UNIT_TEST(a_req_of_a_known_qpn_is_stale_and_ends_the_connection)
{
	struct pair ids = do_pair();
	struct wire_cm req = a->sent[0].msg;

	req.req.local_comm_id ^= 1;
	node_rx_msg(p, a, &req);
	assert_int_equal(p->sent[p->nsent - 2].msg.rej.reason, WIRE_CM_REJ_STALE);
	assert_int_equal(p->sent[p->nsent - 2].msg.rej.remote_comm_id, req.req.local_comm_id);
	node_last(p, WIRE_CM_DREQ);
	assert_int_equal(node_event(p, CM_EV_DISCONNECTED)->ev.reason, WIRE_CM_REJ_STALE);
	assert_int_equal(state_of(p, ids.passive), CM_DREQ_SENT);
	/* its end is not reported again */
	lose();
	pass(10 * SEC);
	node_event(p, CM_EV_TIMEWAIT_EXIT);
	node_quiet(p);
}

REQUIREMENT("CM-05")
UNIT_TEST(a_req_with_a_known_comm_id_is_stale)
{
	struct pair ids = do_pair();
	struct wire_cm req = a->sent[0].msg;

	req.req.qpn ^= 1;
	node_rx_msg(p, a, &req);
	assert_int_equal(p->sent[p->nsent - 2].msg.rej.reason, WIRE_CM_REJ_STALE);
	assert_int_equal(state_of(p, ids.passive), CM_DREQ_SENT);
	assert_int_equal(cm_counters(p->cm)->stale, 1);
}

REQUIREMENT("CM-05")
UNIT_TEST(a_rep_of_a_known_qpn_is_stale)
{
	struct pair ids = do_pair();
	uint32_t second = do_connect(a, p, 0x12);
	struct wire_cm rep = p->sent[0].msg;

	lose();
	/* p restarted without state, and uses the same QPN for the new connection */
	rep.rep.remote_comm_id = second;
	rep.rep.local_comm_id ^= 1;
	node_rx_msg(a, p, &rep);
	assert_int_equal(node_event(a, CM_EV_REJECTED)->ev.id, second);
	assert_int_equal(node_event(a, CM_EV_DISCONNECTED)->ev.id, ids.active);
	assert_int_equal(state_of(a, second), CM_TIMEWAIT);
	assert_int_equal(state_of(a, ids.active), CM_DREQ_SENT);
}

REQUIREMENT("CM-05")
UNIT_TEST(other_hosts_cannot_make_a_connection_stale)
{
	struct pair ids = do_pair();
	struct wire_cm req = a->sent[0].msg;
	struct node stranger = {.gid = {[10] = 0xff, 0xff, 10, 0, 0, 99}};

	req.req.local_comm_id ^= 1;
	node_rx_msg(p, &stranger, &req);
	node_event(p, CM_EV_CONNECT_REQUEST);
	assert_int_equal(state_of(p, ids.passive), CM_ESTABLISHED);
}
