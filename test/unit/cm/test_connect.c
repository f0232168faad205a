/* SPDX-License-Identifier: BSD-3-Clause */
/* Two CMs: connecting, rejecting, retransmission. */
#include <errno.h>
#include "harness.h"

static struct node *const a = &nodes[0], *const p = &nodes[1];

REQUIREMENT("CM-04")
UNIT_TEST(three_messages_establish)
{
	struct pair ids = do_pair();

	assert_int_equal(node_count(a, WIRE_CM_REQ), 1);
	assert_int_equal(node_count(p, WIRE_CM_REP), 1);
	assert_int_equal(node_count(a, WIRE_CM_RTU), 1);
	assert_int_equal(a->nsent + p->nsent, 3);
	/* one exchange, one transaction id */
	assert_int_equal(a->sent[0].msg.tid, p->sent[0].msg.tid);
	assert_int_equal(a->sent[0].msg.tid, a->sent[1].msg.tid);
	node_quiet(a);
	node_quiet(p);
	assert_int_not_equal(ids.active, ids.passive);
	/* nothing is retransmitted */
	pass(100 * SEC);
	assert_int_equal(a->nsent + p->nsent, 3);
}

REQUIREMENT("CM-04")
UNIT_TEST(attributes_of_both_qps_fit_each_other)
{
	struct pair ids = do_pair();
	struct cm_qp_attr x, y;

	assert_int_equal(cm_qp_attr_get(a->cm, ids.active, &x), 0);
	assert_int_equal(cm_qp_attr_get(p->cm, ids.passive, &y), 0);
	assert_int_equal(x.dest_qpn, 0x22);
	assert_int_equal(y.dest_qpn, 0x11);
	assert_int_equal(x.sq_psn, y.rq_psn);
	assert_int_equal(y.sq_psn, x.rq_psn);
	/* a message carries the PSN from which its receiver sends */
	assert_int_equal(x.rq_psn, 0x123456);
	assert_int_equal(y.rq_psn, 0x654321);
	assert_int_equal(x.mtu, 3);
	assert_int_equal(y.mtu, 3);
	/* one side's requests in flight fit the other's resources */
	assert_int_equal(x.initiator_depth, y.responder_resources);
	assert_int_equal(y.initiator_depth, x.responder_resources);
	assert_int_equal(y.rnr_retry, 6);
	assert_int_equal(x.rnr_retry, 5);
	assert_int_equal(x.retry_count, 7);
	assert_int_equal(y.retry_count, 7);
	assert_memory_equal(x.primary.remote_gid, p->gid, 16);
	assert_memory_equal(y.primary.remote_gid, a->gid, 16);
	assert_memory_equal(y.primary.local_gid, p->gid, 16);
	assert_int_equal(y.ack_timeout, 14);
	assert_int_equal(x.ack_timeout, 14); /* the target ACK delay, 10, is small compared to it */
}

REQUIREMENT("CM-04")
UNIT_TEST(attributes_are_not_there_before_the_peers_qpn)
{
	struct cm_qp_attr attr;
	uint32_t active, passive = half_pair(&active);

	assert_int_equal(cm_qp_attr_get(a->cm, active, &attr), -EINVAL);
	assert_int_equal(cm_qp_attr_get(p->cm, passive, &attr), 0);
	assert_int_equal(cm_qp_attr_get(p->cm, 1, &attr), -ENOENT);
}

static void
check_rejection(struct node *n, const struct told *t, uint16_t reason)
{
	assert_int_equal(t->ev.reason, reason);
	assert_int_equal(t->ev.private_len, WIRE_CM_REJ_PRIVATE);
	assert_memory_equal(t->ev.private_data, ANY_DATA, sizeof(ANY_DATA));
	assert_int_equal(t->ev.msg->rej.info_len, 2);
	node_quiet(n);
}

static const struct cm_reject refusal = {.reason = WIRE_CM_REJ_CONSUMER,
					 .info = "!!",
					 .info_len = 2,
					 .private_data = ANY_DATA,
					 .private_len = sizeof(ANY_DATA)};

REQUIREMENT("CM-04")
UNIT_TEST(a_request_is_rejected_with_reason_and_private_data)
{
	uint32_t active, passive = half_pair(&active);

	assert_int_equal(cm_reject(p->cm, passive, &refusal, p->now), 0);
	assert_int_equal(node_last(p, WIRE_CM_REJ)->msg.rej.about, WIRE_CM_ABOUT_REQ);
	deliver();
	check_rejection(a, node_event(a, CM_EV_REJECTED), WIRE_CM_REJ_CONSUMER);
	assert_int_equal(state_of(a, active), CM_CLOSED);
	assert_false(cm_qpn_held(a->cm, 0, 0x11));
}

REQUIREMENT("CM-04")
UNIT_TEST(a_reply_is_rejected_with_reason_and_private_data)
{
	uint32_t active, passive = half_pair(&active);

	do_accept(p, passive, 0x22);
	deliver();
	node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(cm_reject(a->cm, active, &refusal, a->now), 0);
	assert_int_equal(node_last(a, WIRE_CM_REJ)->msg.rej.about, WIRE_CM_ABOUT_REP);
	deliver();
	check_rejection(p, node_event(p, CM_EV_REJECTED), WIRE_CM_REJ_CONSUMER);
}

REQUIREMENT("CM-04")
UNIT_TEST(a_passive_side_rejects_after_its_reply)
{
	uint32_t active, passive = half_pair(&active);

	do_accept(p, passive, 0x22);
	deliver();
	node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(cm_reject(p->cm, passive, &refusal, p->now), 0);
	deliver();
	check_rejection(a, node_event(a, CM_EV_REJECTED), WIRE_CM_REJ_CONSUMER);
	assert_int_equal(state_of(a, active), CM_TIMEWAIT);
}

REQUIREMENT("CM-04")
UNIT_TEST(no_listener_is_reason_8)
{
	node_make(0, NULL);
	node_make(1, NULL);
	do_connect(a, p, 0x11);
	deliver();
	assert_int_equal(node_event(a, CM_EV_REJECTED)->ev.reason, WIRE_CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(cm_counters(p->cm)->no_listener, 1);
	assert_int_equal(cm_nids(p->cm), 0);
}

REQUIREMENT("CM-04")
UNIT_TEST(a_req_is_sent_again_as_it_says_itself_then_unreachable)
{
	uint64_t gap = 0;
	uint32_t active;

	node_make(0, NULL);
	node_make(1, NULL);
	active = do_connect(a, p, 0x11);
	assert_int_equal(times_of(a, WIRE_CM_REQ, &gap), 3);
	assert_int_equal(gap, wire_cm_time_ns(16));
	assert_int_equal(a->sent[0].msg.req.remote_response_timeout, 16);
	assert_int_equal(a->sent[0].msg.req.max_retries, 3);
	for (uint32_t i = 1; i < 4; i++)
		assert_memory_equal(a->sent[i].mad, a->sent[0].mad, WIRE_MAD_LEN);
	assert_int_equal(node_event(a, CM_EV_UNREACHABLE)->ev.status, -ETIMEDOUT);
	/* the side that learns of it can give up, too */
	assert_int_equal(node_last(a, WIRE_CM_REJ)->msg.rej.reason, WIRE_CM_REJ_TIMEOUT);
	assert_int_equal(state_of(a, active), CM_CLOSED);
	node_quiet(a);
}

REQUIREMENT("CM-04")
UNIT_TEST(a_rep_is_sent_again_as_the_req_says_then_unreachable)
{
	uint64_t gap = 0;
	struct cm_connect c;
	uint32_t active, passive;

	node_make(0, NULL);
	node_make(1, NULL);
	do_listen(p);
	c = connect_args(a, p, 0x11);
	c.response_timeout = 18;
	c.max_retries = 5;
	assert_int_equal(cm_create(a->cm, NULL, &active), 0);
	assert_int_equal(cm_connect(a->cm, active, &c, a->now), 0);
	deliver();
	passive = node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
	/* the active side ends */
	assert_int_equal(cm_destroy(a->cm, active, a->now), 0);
	lose();
	do_accept(p, passive, 0x22);
	assert_int_equal(times_of(p, WIRE_CM_REP, &gap), 5);
	assert_int_equal(gap, wire_cm_time_ns(18));
	assert_int_equal(node_event(p, CM_EV_UNREACHABLE)->ev.status, -ETIMEDOUT);
	assert_int_equal(node_last(p, WIRE_CM_REJ)->msg.rej.reason, WIRE_CM_REJ_TIMEOUT);
	/* its QPN is not free as long as the peer may still send an RTU */
	assert_true(cm_qpn_held(p->cm, 0, 0x22));
	pass(100 * SEC);
	assert_false(cm_qpn_held(p->cm, 0, 0x22));
}

REQUIREMENT("CM-04")
UNIT_TEST(a_peers_response_timeout_has_bounds)
{
	static const struct {
		uint8_t says, code;
	} cases[] = {{0, CM_MIN_TIMEOUT}, {11, CM_MIN_TIMEOUT}, {20, 20}, {31, CM_MAX_TIMEOUT}};
	uint64_t gap = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t active, passive;
		struct wire_cm req;

		node_make(0, NULL);
		node_make(1, NULL);
		do_listen(p);
		active = do_connect(a, p, 0x11);
		req = a->sent[0].msg;
		req.req.local_response_timeout = cases[i].says;
		lose();
		node_rx_msg(p, a, &req);
		passive = node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
		assert_int_equal(cm_destroy(a->cm, active, a->now), 0);
		do_accept(p, passive, 0x22);
		times_of(p, WIRE_CM_REP, &gap);
		assert_int_equal(gap, wire_cm_time_ns(cases[i].code));
	}
}

REQUIREMENT("CM-04")
UNIT_TEST(an_mra_prolongs_the_wait_for_a_rep)
{
	uint32_t active, passive = half_pair(&active);
	uint32_t reqs = node_count(a, WIRE_CM_REQ);

	assert_int_equal(cm_delay(p->cm, passive, 21, ANY_DATA, sizeof(ANY_DATA), p->now), 0);
	deliver();
	assert_int_equal(state_of(a, active), CM_MRA_REQ_RCVD);
	pass(wire_cm_time_ns(21) + wire_cm_time_ns(16) - 1);
	assert_int_equal(node_count(a, WIRE_CM_REQ), reqs);
	pass(1);
	assert_int_equal(node_count(a, WIRE_CM_REQ), reqs + 1);
	deliver();
	do_accept(p, passive, 0x22);
	deliver();
	node_event(a, CM_EV_CONNECT_RESPONSE);
}

REQUIREMENT("CM-04")
UNIT_TEST(an_mra_prolongs_the_wait_for_an_rtu)
{
	uint32_t active, passive = half_pair(&active);

	do_accept(p, passive, 0x22);
	deliver();
	node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(cm_delay(a->cm, active, 21, NULL, 0, a->now), 0);
	deliver();
	assert_int_equal(state_of(p, passive), CM_MRA_REP_RCVD);
	pass(wire_cm_time_ns(21) + wire_cm_time_ns(16) - 1);
	assert_int_equal(node_count(p, WIRE_CM_REP), 1);
	pass(1);
	assert_int_equal(node_count(p, WIRE_CM_REP), 2);
}

REQUIREMENT("CM-04")
UNIT_TEST(a_slow_program_is_waited_for_however_short_the_timeout)
{
	uint32_t active, passive = half_pair(&active);

	/* each copy of the REQ gets an MRA, for much longer than 4 times 268 ms */
	for (uint32_t i = 0; i < 400; i++) {
		pass(100 * MS);
		deliver();
	}
	node_quiet(a);
	assert_true(node_count(p, WIRE_CM_MRA) > 0);
	do_accept(p, passive, 0x22);
	deliver();
	node_event(a, CM_EV_CONNECT_RESPONSE);
	for (uint32_t i = 0; i < 100; i++) {
		pass(100 * MS);
		deliver();
	}
	assert_int_equal(cm_ready(a->cm, active, NULL, 0, a->now), 0);
	deliver();
	node_event(p, CM_EV_ESTABLISHED);
}

REQUIREMENT("CM-02")
UNIT_TEST(the_first_request_stands_in_for_the_rtu)
{
	uint32_t active, passive = half_pair(&active);

	do_accept(p, passive, 0x22);
	deliver();
	node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(cm_established(p->cm, passive, p->now), 0);
	assert_null(node_event(p, CM_EV_ESTABLISHED)->ev.msg);
	/* again, and a late RTU: nothing is reported twice */
	assert_int_equal(cm_established(p->cm, passive, p->now), 0);
	assert_int_equal(cm_ready(a->cm, active, NULL, 0, a->now), 0);
	deliver();
	node_quiet(p);
	pass(100 * SEC);
	assert_int_equal(node_count(p, WIRE_CM_REP), 1);
	assert_int_equal(state_of(p, passive), CM_ESTABLISHED);
}

REQUIREMENT("CM-02")
UNIT_TEST(only_a_passive_side_that_waits_can_be_established)
{
	uint32_t active, passive = half_pair(&active);

	assert_int_equal(cm_established(a->cm, active, a->now), -EINVAL);
	assert_int_equal(cm_established(p->cm, passive, p->now), -EINVAL);
}

REQUIREMENT("CM-04")
UNIT_TEST(an_owner_that_goes_before_the_rep_is_known_to_the_peer)
{
	uint32_t active, passive = half_pair(&active);
	const struct sent *s;

	assert_int_equal(cm_destroy(a->cm, active, a->now), 0);
	s = node_last(a, WIRE_CM_REJ);
	assert_int_equal(s->msg.rej.reason, WIRE_CM_REJ_TIMEOUT);
	assert_int_equal(s->msg.rej.info_len, 8);
	assert_memory_equal(s->msg.rej.info, ((uint8_t[]){2, 0, 0, 0, 0, 0, 0, 1}), 8);
	deliver();
	assert_int_equal(node_event(p, CM_EV_REJECTED)->ev.reason, WIRE_CM_REJ_TIMEOUT);
	assert_int_equal(state_of(p, passive), CM_TIMEWAIT);
	/* a late copy of the REQ is not a new request */
	node_rx(p, a, a->sent[0].mad);
	pass(SEC);
	node_event(p, CM_EV_TIMEWAIT_EXIT);
	node_quiet(p);
}

REQUIREMENT("CM-04")
UNIT_TEST(a_rep_of_a_forgotten_connection_is_rejected)
{
	uint32_t active, passive = half_pair(&active);

	assert_int_equal(cm_destroy(a->cm, active, a->now), 0);
	lose();
	do_accept(p, passive, 0x22);
	deliver();
	assert_int_equal(node_event(p, CM_EV_REJECTED)->ev.reason, WIRE_CM_REJ_INVALID_COMM_ID);
	node_quiet(a);
}
