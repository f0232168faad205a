/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of rdma_cm through the control plane: a device to itself, MADs over QP1. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rte_mbuf.h>
#include "cm_client.h"
#include "control/cm_parts.h"
#include "net/net.h"

static uint32_t listener;

static struct rdma_ucm_conn_param
param(uint32_t qpn, const char *data)
{
	struct rdma_ucm_conn_param p = {.qp_num = qpn,
					.private_data_len = (uint8_t)strlen(data),
					.responder_resources = 4,
					.initiator_depth = 2,
					.retry_count = 7,
					.rnr_retry_count = 7,
					.valid = 1};

	memcpy(p.private_data, data, strlen(data));
	return p;
}

static uint32_t
ask_connect(uint32_t id, uint32_t qpn, size_t len)
{
	struct rdma_ucm_connect q = {.conn_param = param(qpn, "to"),
				     .id = id,
				     .ece = {0xabcdef, 5}};

	return cm_ask(&one, RDMA_USER_CM_CMD_CONNECT, &q, len, NULL, 0);
}

static uint32_t
ask_accept(struct cm_client *c, uint32_t id, uint64_t uid, uint32_t qpn)
{
	struct rdma_ucm_accept q = {.uid = uid, .id = id};

	if (qpn != 0)
		q.conn_param = param(qpn, "back");
	return cm_ask(c, RDMA_USER_CM_CMD_ACCEPT, &q, sizeof(q), NULL, 0);
}

static uint32_t
make_listener(struct cm_client *c, uint16_t space)
{
	struct sockaddr_in in = cm_ipv4("10.0.0.1", 7471);
	struct rdma_ucm_listen q = {.id = cm_make_id(c, 3, space), .backlog = 4};

	cm_bind_to(c, q.id, &in);
	assert_int_equal(cm_ask(c, RDMA_USER_CM_CMD_LISTEN, &q, sizeof(q), NULL, 0), 0);
	return q.id;
}

static uint32_t
make_resolved(uint16_t space)
{
	struct sockaddr_in in = cm_ipv4("10.0.0.1", 7471);
	uint32_t id = cm_make_id(&one, 1, space);

	cm_resolve_to(&one, id, &in);
	return id;
}

/* A connection from channel one to channel two. Returns the active id, *passive the other. */
static uint32_t
make_connection(uint32_t qpn, uint32_t *passive)
{
	struct rdma_ucm_event_resp e;
	uint32_t id = make_resolved(RDMA_PS_TCP);

	assert_int_equal(ask_connect(id, qpn, sizeof(struct rdma_ucm_connect)), 0);
	cm_deliver();
	cm_event(&two, CMA_EV_CONNECT_REQUEST, &e);
	assert_true(e.uid == 3);
	assert_int_equal(e.param.conn.qp_num, qpn);
	assert_int_equal(e.param.conn.private_data_len, 56);
	assert_memory_equal(e.param.conn.private_data, "to", 3);
	assert_int_equal(e.ece.vendor_id, 0xabcdef);
	assert_int_equal(e.ece.attr_mod, 5);
	*passive = e.id;
	assert_int_equal(ask_accept(&two, e.id, 2, qpn + 1), 0);
	cm_deliver();
	cm_event(&one, CMA_EV_CONNECT_RESPONSE, &e);
	assert_true(e.uid == 1 && e.id == id);
	assert_int_equal(e.param.conn.qp_num, qpn + 1);
	assert_int_equal(e.param.conn.private_data_len, 196);
	assert_int_equal(ask_accept(&one, id, 1, 0), 0);
	cm_deliver();
	cm_event(&two, CMA_EV_ESTABLISHED, &e);
	assert_true(e.uid == 2);
	return id;
}

static uint32_t
disconnect(struct cm_client *c, uint32_t id)
{
	const struct rdma_ucm_disconnect q = {.id = id};

	return cm_ask(c, RDMA_USER_CM_CMD_DISCONNECT, &q, sizeof(q), NULL, 0);
}

REQUIREMENT("CM-01", "CM-04", "CM-06", "CM-12", "CM-14")
CM_TEST(programs_connect_and_disconnect)
{
	uint32_t active, passive;

	listener = make_listener(&two, RDMA_PS_TCP);
	active = make_connection(0x11, &passive);
	assert_int_equal(disconnect(&one, active), 0);
	cm_deliver();
	cm_event(&one, CMA_EV_DISCONNECTED, NULL);
	cm_event(&two, CMA_EV_DISCONNECTED, NULL);
	/* in TIMEWAIT no QP gets its number */
	assert_false(ucma_qpn_is_free(d.dev[0], 0x11));
	assert_true(ucma_qpn_is_free(d.dev[0], 0x13));
	assert_int_equal(cm_end_id(&one, active), 4);
	assert_int_equal(cm_end_id(&two, passive), 2);
	assert_int_equal(cm_end_id(&two, listener), 1);
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 0);
}

static void
attr_of(struct cm_client *c, uint32_t id, uint32_t qp_state, struct ib_uverbs_qp_attr *a)
{
	const struct rdma_ucm_init_qp_attr q = {.id = id, .qp_state = qp_state};

	memset(a, 0, sizeof(*a));
	assert_int_equal(cm_ask(c, RDMA_USER_CM_CMD_INIT_QP_ATTR, &q, sizeof(q), a, sizeof(*a)), 0);
	assert_int_equal(a->qp_state, qp_state);
}

REQUIREMENT("CM-12")
CM_TEST(qps_of_a_connection_get_their_attributes)
{
	struct ib_uverbs_qp_attr a, b;
	uint32_t active, passive;

	make_listener(&two, RDMA_PS_TCP);
	active = make_connection(0x11, &passive);
	attr_of(&one, active, IBV_QPS_RTR, &a);
	assert_int_equal(a.dest_qp_num, 0x12);
	assert_int_equal(a.path_mtu, d.dev[0]->max_mtu);
	assert_int_equal(a.ah_attr.is_global, 1);
	assert_int_equal(a.ah_attr.grh.sgid_index, 1);
	assert_memory_equal(a.ah_attr.grh.dgid, d.dev[0]->net.gid[1].gid, 16);
	assert_int_equal(a.max_dest_rd_atomic, 2);
	assert_int_equal(a.qp_attr_mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr_of(&two, passive, IBV_QPS_RTS, &b);
	assert_int_equal(a.rq_psn, b.sq_psn);
	assert_int_equal(b.rnr_retry, 7);
	attr_of(&one, active, IBV_QPS_INIT, &a);
	assert_int_equal(a.port_num, 1);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC);
}

REQUIREMENT("CM-04")
CM_TEST(a_program_rejects)
{
	struct rdma_ucm_reject q = {.private_data_len = 3, .private_data = "no"};
	struct rdma_ucm_event_resp e;
	uint32_t id = make_resolved(RDMA_PS_TCP);

	/* without a listener; a command from before ECE */
	assert_int_equal(ask_connect(id, 0x11, offsetof(struct rdma_ucm_connect, ece)), 0);
	cm_deliver();
	cm_event(&one, CMA_EV_REJECTED, &e);
	assert_int_equal(e.status, WIRE_CM_REJ_INVALID_SERVICE_ID);
	make_listener(&two, RDMA_PS_TCP);
	id = make_resolved(RDMA_PS_TCP);
	assert_int_equal(ask_connect(id, 0x13, offsetof(struct rdma_ucm_connect, ece)), 0);
	cm_deliver();
	cm_event(&two, CMA_EV_CONNECT_REQUEST, &e);
	assert_int_equal(e.ece.vendor_id, 0);
	q.id = e.id;
	assert_int_equal(cm_ask(&two, RDMA_USER_CM_CMD_REJECT, &q, sizeof(q), NULL, 0), 0);
	cm_deliver();
	cm_event(&one, CMA_EV_REJECTED, &e);
	assert_int_equal(e.status, WIRE_CM_REJ_CONSUMER);
	assert_memory_equal(e.param.conn.private_data, "no", 3);
}

REQUIREMENT("CM-07")
CM_TEST(a_service_is_resolved)
{
	struct rdma_ucm_event_resp e;
	uint32_t id;

	make_listener(&two, RDMA_PS_UDP);
	id = make_resolved(RDMA_PS_UDP);
	assert_int_equal(ask_connect(id, 0x11, sizeof(struct rdma_ucm_connect)), 0);
	cm_deliver();
	cm_event(&two, CMA_EV_CONNECT_REQUEST, &e);
	assert_int_equal(e.param.ud.private_data_len, 180);
	assert_memory_equal(e.param.ud.private_data, "to", 3);
	assert_int_equal(ask_accept(&two, e.id, 2, 0x22), 0);
	cm_deliver();
	cm_event(&one, CMA_EV_ESTABLISHED, &e);
	assert_int_equal(e.param.ud.qp_num, 0x22);
	assert_int_equal(e.param.ud.qkey, CMA_UD_QKEY);
	assert_int_equal(e.param.ud.ah_attr.grh.sgid_index, 1);
	assert_memory_equal(e.param.ud.ah_attr.grh.dgid, d.dev[0]->net.gid[1].gid, 16);
}

REQUIREMENT("CM-06", "CM-12")
CM_TEST(a_client_that_dies_is_disconnected)
{
	uint32_t passive;

	make_listener(&two, RDMA_PS_TCP);
	make_connection(0x11, &passive);
	cm_client_close(&one);
	cm_deliver();
	cm_event(&two, CMA_EV_DISCONNECTED, NULL);
	/* a request that waits counts for the listener's user */
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 2);
}

/* The queue of 2 that the NIC puts the peer's packets into, with the label that its QP gets. */
static int
queue_of_peer(uint32_t passive)
{
	const uint8_t *gid = d.dev[0]->net.gid[1].gid;
	struct ib_uverbs_qp_attr a;

	attr_of(&two, passive, IBV_QPS_RTR, &a);
	assert_memory_equal(a.ah_attr.grh.dgid, gid, 16);
	return port_rss_queue(&d.dev[0]->port.rss, gid, gid,
			      wire_udp_sport(a.ah_attr.grh.flow_label, 0, 0));
}

REQUIREMENT("CM-12")
CM_TEST(packets_of_the_peer_come_to_the_worker_of_the_qp)
{
	struct port_rss *rss = &d.dev[0]->port.rss;
	uint32_t active, passive;

	rss->v4 = true;
	rss->n = 128;
	for (uint32_t i = 0; i < rss->n; i++)
		rss->reta[i] = i % FAKE_WORKERS;
	for (uint32_t i = 0; i < sizeof(rss->key) / 4; i++)
		rss->key[i] = i * 0x9e3779b1u + 0x6d5a56da;
	make_listener(&two, RDMA_PS_TCP);
	for (uint16_t i = 0; i < 8; i++) {
		struct qp qp = {.conn.qpn = 0x100u + 2u * i, .bind.worker = i % FAKE_WORKERS};
		struct qp **slot = &d.qps.slot[qp.conn.qpn & d.qps.mask];

		*slot = &qp;
		fake_reset();
		active = make_connection(qp.conn.qpn, &passive);
		assert_int_equal(queue_of_peer(passive), qp.bind.worker);
		*slot = NULL;
		assert_int_equal(disconnect(&one, active), 0);
		cm_deliver();
		cm_event(&one, CMA_EV_DISCONNECTED, NULL);
		cm_event(&two, CMA_EV_DISCONNECTED, NULL);
		cm_end_id(&one, active);
		cm_end_id(&two, passive);
	}
	memset(rss, 0, sizeof(*rss));
}

/* An accept with another user's QP fails, and rejects the peer, as every accept that fails. */
REQUIREMENT("CM-04", "CM-12")
CM_TEST(an_accept_with_a_qp_of_another_user_rejects)
{
	struct session theirs = {.user = quota_user_get(&d.quota, 1000), .peer.uid = 1000};
	struct obj_qp object = {.o.s = &theirs};
	struct qp qp = {.conn.qpn = 0x31, .bind.owner = &object};
	struct rdma_ucm_event_resp e;
	struct cm_client other;

	d.qps.slot[0x31 & d.qps.mask] = &qp;
	assert_int_equal(cm_client_open(&other, 1001), 0);
	make_listener(&other, RDMA_PS_TCP);
	assert_int_equal(ask_connect(make_resolved(RDMA_PS_TCP), 0x11,
				     sizeof(struct rdma_ucm_connect)),
			 0);
	cm_deliver();
	cm_event(&other, CMA_EV_CONNECT_REQUEST, &e);
	assert_int_equal(ask_accept(&other, e.id, 2, 0x31), EPERM);
	cm_deliver();
	cm_event(&one, CMA_EV_REJECTED, NULL);
	cm_client_close(&other);
	cm_deliver();
	d.qps.slot[0x31 & d.qps.mask] = NULL;
	quota_user_put(theirs.user);
}

/* No user may use a QP of another: its owner could not connect it any more. */
REQUIREMENT("CM-12")
CM_TEST(a_qp_of_another_user_is_refused)
{
	struct sockaddr_in in = cm_ipv4("10.0.0.1", 7471);
	struct session theirs = {.user = quota_user_get(&d.quota, 1000), .peer.uid = 1000};
	struct obj_qp object = {.o.s = &theirs};
	struct qp qp = {.conn.qpn = 0x31, .bind.owner = &object};
	struct rdma_ucm_connect q = {.conn_param = param(0x31, "to")};
	struct rdma_ucm_event_resp e;
	struct cm_client other;

	d.qps.slot[0x31 & d.qps.mask] = &qp;
	make_listener(&two, RDMA_PS_TCP);
	assert_int_equal(cm_client_open(&other, 1001), 0);
	q.id = cm_make_id(&other, 1, RDMA_PS_TCP);
	cm_resolve_to(&other, q.id, &in);
	assert_int_equal(cm_ask(&other, RDMA_USER_CM_CMD_CONNECT, &q, sizeof(q), NULL, 0), EPERM);
	/* root may, of any user */
	assert_int_equal(ask_connect(make_resolved(RDMA_PS_TCP), 0x11, sizeof(q)), 0);
	cm_deliver();
	cm_event(&two, CMA_EV_CONNECT_REQUEST, &e);
	assert_int_equal(ask_accept(&two, e.id, 2, 0x31), 0);
	cm_client_close(&other);
	cm_deliver();
	/* the owner may, though this number is in use now */
	assert_int_equal(cm_client_open(&other, 1000), 0);
	q.id = cm_make_id(&other, 1, RDMA_PS_TCP);
	cm_resolve_to(&other, q.id, &in);
	assert_int_equal(cm_ask(&other, RDMA_USER_CM_CMD_CONNECT, &q, sizeof(q), NULL, 0), EBUSY);
	cm_client_close(&other);
	cm_deliver();
	d.qps.slot[0x31 & d.qps.mask] = NULL;
	quota_user_put(theirs.user);
}

REQUIREMENT("CM-15")
CM_TEST(programs_learn_of_removed_addresses_and_devices)
{
	uint32_t active, passive;

	make_listener(&two, RDMA_PS_TCP);
	active = make_connection(0x11, &passive);
	ucma_address_gone(d.dev[0], d.dev[0]->net.gid[1].gid);
	cm_event(&one, CMA_EV_ADDR_CHANGE, NULL);
	ucma_device_gone(d.dev[0]);
	cm_event(&one, CMA_EV_DEVICE_REMOVAL, NULL);
	cm_deliver();
	assert_int_equal(disconnect(&one, active), EINVAL);
	cm_end_id(&one, active);
}

/* The first MAD to a neighbour leaves as soon as its MAC is known; so does a lookup end. */
REQUIREMENT("CM-11")
CM_TEST(a_neighbour_is_waited_for)
{
	static const uint8_t hop[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};
	static const uint8_t arp_reply[] = {
		2, 0, 0, 0, 0, 1, 2, 0,  0, 0, 0, 2, 8, 6, 0, 1, 8, 0,  6, 4, 0,
		2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
	};
	const struct sockaddr_in in = cm_ipv4("10.0.0.2", 7471);
	const struct cm_addr to = {.dev = d.dev[0]->port.id,
				   .pkey = 0xffff,
				   .local = {[10] = 0xff, 0xff, 10, 0, 0, 1},
				   .remote = {[10] = 0xff, 0xff, 10, 0, 0, 2}};
	static const uint8_t mad[WIRE_MAD_LEN];
	const struct net_neigh *changed;
	struct net_frame out;
	uint32_t id = cm_make_id(&one, 1, RDMA_PS_TCP);

	assert_int_equal(cm_ask_addr(&one, id, &in), 0);
	assert_false(cm_readable(&one));
	assert_string_equal(fake_said, "frame"); /* ARP */
	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
	ucma_send(d.ucma, &to, mad);
	ucma_send(d.ucma, &to, mad); /* a copy is kept once */
	assert_null(fake_sent);
	assert_int_equal(d.ucma->counters.held, 1);
	assert_true(net_rx(&d.dev[0]->net, arp_reply, sizeof(arp_reply), 1, &out, &changed));
	ucma_hop_resolved(d.dev[0], hop);
	assert_non_null(fake_sent);
	assert_int_equal(d.ucma->counters.resent, 1);
	cm_event(&one, CMA_EV_ADDR_RESOLVED, NULL);
	assert_int_equal(cm_end_id(&one, id), 1);
}

/* Turns of the loop that the watch of defer_turn has until nothing is left. */
static unsigned
turns(unsigned most_events)
{
	uint32_t had = cma_events_waiting(d.ucma->cma, 1);
	unsigned n = 0;

	while (fake_turn(&d)) {
		uint32_t has = cma_events_waiting(d.ucma->cma, 1);

		assert_in_range(has - had, 0, most_events);
		had = has;
		n++;
	}
	return n;
}

/*
 * Many ids wait for one neighbour: each is found by its number and by the neighbour in a few steps,
 * and they get their events, and end with their channel, in slices.
 */
#define MANY 300u
REQUIREMENT("CM-11")
CM_TEST(many_ids_wait_for_a_neighbour)
{
	static const uint8_t hop[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};
	const struct sockaddr_in in = cm_ipv4("10.0.0.2", 7471);
	uint64_t before = d.quota.used_all[QUOTA_CM_IDS];
	uint32_t used = 0;

	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(cm_ask_addr(&one, cm_make_id(&one, 1, RDMA_PS_TCP), &in), 0);
		if (fake_sent != NULL)
			rte_pktmbuf_free(fake_sent);
		fake_sent = NULL;
	}
	for (unsigned i = 0; i < UCMA_LOOKUP_BUCKETS; i++)
		used += !LIST_EMPTY(&d.ucma->lookup_bucket[i]);
	assert_int_equal(used, MANY); /* no two share a bucket */
	ucma_hop_resolved(d.dev[0], hop);
	assert_int_equal(cma_events_waiting(d.ucma->cma, 1), 64);
	assert_int_equal(turns(64), (MANY - 1) / 64);
	assert_int_equal(cma_events_waiting(d.ucma->cma, 1), MANY);
	cm_client_close(&one);
	cm_turn();
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], before);
	assert_int_equal(cm_client_open(&one, 0), 0);
}

/* The MADs of a burst wait for the worker, up to a limit. */
REQUIREMENT("CM-15")
CM_TEST(a_daemon_that_ends_sends_no_more_than_the_worker_takes)
{
	const struct cm_addr to = {.dev = d.dev[0]->port.id,
				   .pkey = 0xffff,
				   .local = {[10] = 0xff, 0xff, 10, 0, 0, 1},
				   .remote = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
	static const uint8_t mad[WIRE_MAD_LEN];
	uint64_t began_ns = daemon_now_ns();

	fake_waiting = 0;
	d.ucma->drain_until_ns = began_ns + 60 * (uint64_t)NS_PER_S;
	for (uint32_t i = 0; i < 3000; i++) {
		ucma_send(d.ucma, &to, mad);
		assert_in_range(fake_waiting, 0, 256);
		fake_reset();
	}
	ucma_drain(d.ucma, 0);
	assert_int_equal(fake_waiting, 0);
	fake_stuck = true;
	d.ucma->drain_until_ns = daemon_now_ns() + NS_PER_S / 100;
	for (uint32_t i = 0; i < 300; i++) {
		ucma_send(d.ucma, &to, mad);
		fake_reset();
	}
	assert_true(daemon_now_ns() >= d.ucma->drain_until_ns);
	assert_int_equal(fake_waiting, 300);
	fake_stuck = false;
}
