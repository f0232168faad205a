/* SPDX-License-Identifier: BSD-3-Clause */
/* The rdma_cm layer: connections and UD services between two hosts. */
#include <errno.h>
#include <infiniband/verbs.h>
#include "rdma_harness.h"

static struct host *const a = &hosts[0], *const p = &hosts[1];

REQUIREMENT("CM-04", "CM-09", "CM-12")
HOSTS_TEST(a_program_connects_as_librdmacm_does)
{
	struct cm_param c = conn_args(0x11);
	uint32_t listener = do_listener(p, 3, WIRE_CM_PS_TCP), passive, reported;
	uint32_t active = do_resolve(a, 1, WIRE_CM_PS_TCP);
	struct cma_info info;
	struct cma_event *e;

	c.ece = (struct cm_ece){0xabcdef, 5};
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_deliver();
	assert_int_equal(p->readable, 1);
	e = host_event(p, CMA_EV_CONNECT_REQUEST);
	assert_int_equal(e->uid, 3);
	assert_int_not_equal(e->id, listener);
	assert_int_equal(e->conn.qpn, 0x11);
	assert_int_equal(e->conn.responder_resources, 2);
	assert_int_equal(e->conn.initiator_depth, 4);
	assert_int_equal(e->conn.private_len, 56);
	assert_memory_equal(e->conn.private_data, "private", 8);
	assert_int_equal(e->conn.ece.vendor_id, 0xabcdef);
	passive = e->id;
	/* both ends see the same addresses and ports */
	assert_int_equal(cma_query(p->r, p->ch, passive, &info), 0);
	assert_int_equal(info.src.port, PORT);
	assert_memory_equal(info.src.gid, p->gid, 16);
	assert_memory_equal(info.dst.gid, a->gid, 16);
	assert_true(info.has_path && info.path.mtu == 3);
	c.qpn = info.dst.port;
	assert_int_equal(cma_query(a->r, a->ch, active, &info), 0);
	assert_int_equal(info.src.port, c.qpn);

	c = conn_args(0x22);
	assert_int_equal(cma_accept(p->r, p->ch, passive, 2, &c, p->now), 0);
	hosts_deliver();
	e = host_event(a, CMA_EV_CONNECT_RESPONSE);
	assert_int_equal(e->uid, 1);
	assert_int_equal(e->conn.qpn, 0x22);
	assert_int_equal(e->conn.private_len, 196);
	assert_memory_equal(e->conn.private_data, "private", 8);
	assert_int_equal(cma_accept(a->r, a->ch, active, 1, NULL, a->now), 0);
	hosts_deliver();
	e = host_event(p, CMA_EV_ESTABLISHED);
	assert_int_equal(e->conn.private_len, 0);
	assert_int_equal(e->uid, 2);
	assert_int_equal(e->id, passive);
	host_quiet(a);
	host_quiet(p);
	/* addresses, route, response; the listener's request; ESTABLISHED */
	assert_int_equal(cma_destroy(a->r, a->ch, active, &reported, a->now), 0);
	assert_int_equal(reported, 3);
	assert_int_equal(cma_destroy(p->r, p->ch, listener, &reported, p->now), 0);
	assert_int_equal(reported, 1);
	assert_int_equal(cma_destroy(p->r, p->ch, passive, &reported, p->now), 0);
	assert_int_equal(reported, 1);
}

REQUIREMENT("CM-06")
HOSTS_TEST(a_connection_ends_once_on_each_side)
{
	struct cma_pair ids = do_cma_pair();
	uint32_t reported;

	assert_int_equal(cma_disconnect(a->r, a->ch, ids.active, a->now), 0);
	hosts_deliver();
	assert_int_equal(host_event(a, CMA_EV_DISCONNECTED)->status, 0);
	assert_int_equal(host_event(p, CMA_EV_DISCONNECTED)->uid, 2);
	assert_int_equal(cma_disconnect(p->r, p->ch, ids.passive, p->now), 0);
	hosts_deliver();
	host_quiet(p);
	assert_true(cm_qpn_held(cma_cm(a->r), 0, 0x11));
	hosts_pass(20 * SEC);
	host_event(a, CMA_EV_TIMEWAIT_EXIT);
	host_event(p, CMA_EV_TIMEWAIT_EXIT);
	assert_false(cm_qpn_held(cma_cm(a->r), 0, 0x11));
	assert_int_equal(cma_destroy(a->r, a->ch, ids.active, &reported, a->now), 0);
	assert_int_equal(cm_nids(cma_cm(a->r)), 0);
	host_quiet(a);
	host_quiet(p);
}

REQUIREMENT("CM-04")
HOSTS_TEST(a_request_is_rejected_with_its_reason)
{
	static const uint8_t data[149];
	struct cm_param c = conn_args(0x11);
	uint32_t active = do_resolve(a, 1, WIRE_CM_PS_TCP), passive;
	struct cma_event *e;

	/* no listener */
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_deliver();
	assert_int_equal(host_event(a, CMA_EV_REJECTED)->status, WIRE_CM_REJ_INVALID_SERVICE_ID);
	do_listener(p, 3, WIRE_CM_PS_TCP);
	active = do_resolve(a, 4, WIRE_CM_PS_TCP);
	c.qpn = 0x12;
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_deliver();
	passive = host_event(p, CMA_EV_CONNECT_REQUEST)->id;
	assert_int_equal(cma_reject(p->r, p->ch, passive, 10, NULL, 0, p->now), -EINVAL);
	assert_int_equal(cma_reject(p->r, p->ch, passive, 0, data, 149, p->now), -EINVAL);
	assert_int_equal(cma_reject(p->r, p->ch, passive, 0, "no", 2, p->now), 0);
	hosts_deliver();
	e = host_event(a, CMA_EV_REJECTED);
	assert_int_equal(e->uid, 4);
	assert_int_equal(e->status, WIRE_CM_REJ_CONSUMER);
	assert_int_equal(e->conn.private_len, 148);
	assert_memory_equal(e->conn.private_data, "no", 3);
	host_quiet(p);
}

REQUIREMENT("CM-04")
HOSTS_TEST(a_peer_that_does_not_answer_is_unreachable)
{
	struct cm_param c = conn_args(0x11);
	uint32_t active = do_resolve(a, 1, WIRE_CM_PS_TCP);

	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_pass(60 * SEC);
	assert_int_equal(host_event(a, CMA_EV_UNREACHABLE)->status, -ETIMEDOUT);
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), -EINVAL);
}

REQUIREMENT("CM-09")
HOSTS_TEST(private_data_is_limited_by_the_header)
{
	static const uint8_t data[256];
	struct cm_param c = conn_args(0x11);
	uint32_t id = do_resolve(a, 1, WIRE_CM_PS_TCP), ud = do_resolve(a, 2, WIRE_CM_PS_UDP);
	uint32_t passive;

	do_listener(p, 3, WIRE_CM_PS_TCP);
	c.private_data = data;
	c.private_len = 57;
	assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), -EINVAL);
	assert_int_equal(cm_nids(cma_cm(a->r)), 0);
	c.private_len = 181;
	assert_int_equal(cma_connect(a->r, a->ch, ud, &c, a->now), -EINVAL);
	c.private_len = 180;
	assert_int_equal(cma_connect(a->r, a->ch, ud, &c, a->now), 0);
	c.private_len = 56;
	assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), 0);
	hosts_deliver();
	passive = host_event(p, CMA_EV_CONNECT_REQUEST)->id;
	c.private_len = 196;
	assert_int_equal(cma_accept(p->r, p->ch, passive, 9, &c, p->now), 0);
}

/* As the kernel's rdma_accept does: otherwise the peer waits until the id is destroyed. */
REQUIREMENT("CM-04", "CM-07")
HOSTS_TEST(a_refused_accept_rejects_the_peer)
{
	static const uint8_t data[256];
	static const struct {
		uint16_t space;
		uint32_t len;
		enum cma_event_type event;
		int status;
	} cases[] = {
		{WIRE_CM_PS_TCP, 197, CMA_EV_REJECTED, WIRE_CM_REJ_CONSUMER},
		{WIRE_CM_PS_UDP, 137, CMA_EV_UNREACHABLE, WIRE_SIDR_REJECTED},
	};

	for (uint32_t i = 0; i < 2; i++) {
		struct cm_param c = conn_args(0x11 + i);
		uint32_t id = do_resolve(a, 1, cases[i].space), passive, reported;

		do_listener(p, 3, cases[i].space);
		assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), 0);
		hosts_deliver();
		passive = host_event(p, CMA_EV_CONNECT_REQUEST)->id;
		c.private_data = data;
		c.private_len = cases[i].len;
		assert_int_equal(cma_accept(p->r, p->ch, passive, 9, &c, p->now), -EINVAL);
		hosts_deliver();
		assert_int_equal(host_event(a, cases[i].event)->status, cases[i].status);
		c.private_len = 1;
		assert_int_equal(cma_accept(p->r, p->ch, passive, 9, &c, p->now), -EINVAL);
		assert_int_equal(cma_reject(p->r, p->ch, passive, 0, NULL, 0, p->now), -EINVAL);
		hosts_deliver();
		host_quiet(a);
		host_quiet(p);
		assert_int_equal(cma_destroy(p->r, p->ch, passive, &reported, p->now), 0);
		assert_int_equal(reported, 0);
	}
}

/* A QPN that another connection of this host holds. */
REQUIREMENT("CM-04")
HOSTS_TEST(an_accept_with_a_taken_qpn_rejects_the_peer)
{
	struct cma_pair ids = do_cma_pair();
	struct cm_param c = conn_args(0x33);
	uint32_t id = do_resolve(a, 7, WIRE_CM_PS_TCP), passive;

	assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), 0);
	hosts_deliver();
	passive = host_event(p, CMA_EV_CONNECT_REQUEST)->id;
	assert_int_not_equal(passive, ids.passive);
	c.qpn = 0x22; /* of the pair */
	assert_int_equal(cma_accept(p->r, p->ch, passive, 9, &c, p->now), -EBUSY);
	hosts_deliver();
	assert_int_equal(host_event(a, CMA_EV_REJECTED)->status, WIRE_CM_REJ_CONSUMER);
	host_quiet(p);
	assert_true(cm_qpn_held(cma_cm(p->r), 0, 0x22));
}

REQUIREMENT("CM-09")
HOSTS_TEST(a_request_without_a_valid_header_is_rejected)
{
	struct cm_param c = conn_args(0x11);
	uint32_t active = do_resolve(a, 1, WIRE_CM_PS_TCP);

	do_listener(p, 3, WIRE_CM_PS_TCP);
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	a->sent[0].mad[WIRE_MAD_HDR_LEN + 140] = 1; /* another version */
	hosts_deliver();
	host_quiet(p);
	assert_int_equal(host_event(a, CMA_EV_REJECTED)->status, WIRE_CM_REJ_CONSUMER);
}

REQUIREMENT("CM-07")
HOSTS_TEST(a_ud_service_is_resolved)
{
	struct cm_param c = conn_args(0x11);
	uint32_t id = do_resolve(a, 1, WIRE_CM_PS_UDP);
	struct cma_event *e;

	assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), 0);
	hosts_deliver();
	assert_int_equal(host_event(a, CMA_EV_UNREACHABLE)->status, WIRE_SIDR_UNSUPPORTED);
	do_listener(p, 3, WIRE_CM_PS_UDP);
	for (uint32_t i = 0; i < 2; i++) {
		id = do_resolve(a, 4, WIRE_CM_PS_UDP);
		assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), 0);
		hosts_deliver();
		e = host_event(p, CMA_EV_CONNECT_REQUEST);
		assert_true(e->ud);
		assert_int_equal(e->conn.private_len, 180);
		assert_memory_equal(e->conn.private_data, "private", 8);
		if (i == 0) {
			assert_int_equal(cma_reject(p->r, p->ch, e->id, 0, NULL, 0, p->now), 0);
			hosts_deliver();
			e = host_event(a, CMA_EV_UNREACHABLE);
			assert_int_equal(e->status, WIRE_SIDR_REJECTED);
			continue;
		}
		c.qpn = 0x22;
		assert_int_equal(cma_accept(p->r, p->ch, e->id, 5, &c, p->now), 0);
		hosts_deliver();
		e = host_event(a, CMA_EV_ESTABLISHED);
		assert_true(e->ud);
		assert_int_equal(e->conn.qpn, 0x22);
		assert_int_equal(e->conn.qkey, CMA_UD_QKEY);
		assert_int_equal(e->conn.private_len, 136);
		assert_memory_equal(e->path.addr.remote, p->gid, 16);
	}
	host_quiet(p);
}

REQUIREMENT("CM-02")
HOSTS_TEST(a_first_request_establishes)
{
	struct cm_param c = conn_args(0x11);
	uint32_t active = do_resolve(a, 1, WIRE_CM_PS_TCP), passive;

	do_listener(p, 3, WIRE_CM_PS_TCP);
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_deliver();
	passive = host_event(p, CMA_EV_CONNECT_REQUEST)->id;
	assert_int_equal(cma_notify(p->r, p->ch, passive, IBV_EVENT_COMM_EST, p->now), -EINVAL);
	c.qpn = 0x22;
	assert_int_equal(cma_accept(p->r, p->ch, passive, 2, &c, p->now), 0);
	assert_int_equal(cma_notify(p->r, p->ch, passive, IBV_EVENT_SQ_DRAINED, p->now), -EINVAL);
	assert_int_equal(cma_notify(p->r, p->ch, passive, IBV_EVENT_COMM_EST, p->now), 0);
	host_event(p, CMA_EV_ESTABLISHED);
	assert_int_equal(cma_notify(p->r, p->ch, passive, IBV_EVENT_COMM_EST, p->now), -EISCONN);
}

/* Events of a request's id are useless before its program has given it a uid. */
REQUIREMENT("CM-12")
HOSTS_TEST(a_request_that_is_given_up_is_silent)
{
	struct cm_param c = conn_args(0x11);
	uint32_t active = do_resolve(a, 1, WIRE_CM_PS_TCP), reported, passive;

	do_listener(p, 3, WIRE_CM_PS_TCP);
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_deliver();
	assert_int_equal(cma_destroy(a->r, a->ch, active, &reported, a->now), 0);
	hosts_deliver();
	passive = host_event(p, CMA_EV_CONNECT_REQUEST)->id;
	host_quiet(p);
	assert_int_equal(cma_accept(p->r, p->ch, passive, 2, &c, p->now), -EINVAL);
	assert_int_equal(cma_destroy(p->r, p->ch, passive, &reported, p->now), 0);
	assert_int_equal(reported, 0);
}

REQUIREMENT("CM-12")
HOSTS_TEST(requests_that_wait_end_with_their_listener)
{
	struct cm_param c = conn_args(0x11);
	uint32_t listener = do_listener(p, 3, WIRE_CM_PS_TCP), reported;
	uint32_t active = do_resolve(a, 1, WIRE_CM_PS_TCP);

	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_deliver();
	assert_int_equal(cma_destroy(p->r, p->ch, listener, &reported, p->now), 0);
	assert_int_equal(reported, 0);
	hosts_deliver();
	assert_int_equal(host_event(a, CMA_EV_REJECTED)->status, WIRE_CM_REJ_CONSUMER);
	host_quiet(p);
	/* all ids are free again */
	for (uint32_t i = 0; i < 16; i++)
		do_create(p, i, WIRE_CM_PS_TCP);
}

REQUIREMENT("CM-12")
HOSTS_TEST(attributes_of_a_qp_for_each_state)
{
	struct cma_pair ids = do_cma_pair();
	struct cma_qp_attr x, y;
	uint32_t ud = do_resolve(a, 9, WIRE_CM_PS_UDP), none = do_create(a, 8, WIRE_CM_PS_TCP);
	uint32_t half = do_resolve(a, 7, WIRE_CM_PS_TCP);

	assert_int_equal(cma_qp_attr_get(a->r, a->ch, none, CMA_QPS_INIT, &x), -EINVAL);
	assert_int_equal(cma_qp_attr_get(a->r, a->ch, half, CMA_QPS_INIT, &x), 0);
	assert_false(x.remote_write);
	assert_int_equal(cma_qp_attr_get(a->r, a->ch, half, CMA_QPS_RTR, &x), -EINVAL);
	assert_int_equal(cma_qp_attr_get(a->r, a->ch, ud, CMA_QPS_INIT, &x), 0);
	assert_int_equal(x.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(x.qkey, CMA_UD_QKEY);
	assert_int_equal(cma_qp_attr_get(a->r, a->ch, ids.active, CMA_QPS_INIT, &x), 0);
	assert_int_equal(x.mask,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_true(x.remote_write && x.remote_read);
	assert_int_equal(cma_qp_attr_get(a->r, a->ch, ids.active, CMA_QPS_RTR, &x), 0);
	assert_int_equal(x.mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(cma_qp_attr_get(p->r, p->ch, ids.passive, CMA_QPS_RTS, &y), 0);
	assert_int_equal(y.mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(x.cm.dest_qpn, 0x22);
	assert_int_equal(y.cm.dest_qpn, 0x11);
	assert_int_equal(x.cm.rq_psn, y.cm.sq_psn);
	assert_int_equal(x.cm.sq_psn, y.cm.rq_psn);
	assert_int_equal(cma_qp_attr_get(a->r, a->ch, ids.active, 6, &x), -EINVAL);
}
