/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's P_Key table: which key a QP's packets carry and which it accepts (QP-04, WIRE-09),
 * and how a change of the table affects QPs (EVT-13).
 */
#include <errno.h>
#include <string.h>
#include "harness.h"

#define SQ 0x001000u /* first PSNs of conn_rc */
#define RQ 0x555000u

/* Of the device. Entry 1 is of partition 1, 2 and 3 of partition 2: full member and limited. */
static uint16_t table[UROCE_MAX_PKEYS];

static const enum qp_type types[] = {QP_TYPE_RC, QP_TYPE_UC, QP_TYPE_UD};
static const uint8_t svc[] = {WIRE_SVC_RC, WIRE_SVC_UC, WIRE_SVC_UD};
#define NTYPES (sizeof(types) / sizeof(types[0]))

/* A UD QP's one address handle. */
static struct qp_ah ah;
static struct qp_ah *ah_slot[1] = {&ah};
static const struct qp_ah_table ahs = {.slot = ah_slot, .nslots = 1};

static struct conn *
conn_of(void **state, uint32_t t, uint32_t index, enum qp_state to)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	memcpy(table, (uint16_t[]){0xffff, 0x8001, 0x8002, 0x0002}, 8);
	memset(table + 4, 0, sizeof(table) - 8);
	cfg.type = types[t];
	cfg.state = to;
	cfg.pkeys = table;
	cfg.pkey_index = index;
	cfg.ahs = &ahs;
	c = conn_open(*state, cfg);
	ah = (struct qp_ah){.path = c->path.wire, .pd = cfg.pd, .path_ok = true};
	c->pkey = table[index];
	return c;
}

static void
peer_sends(struct conn *c, uint32_t psn, uint16_t pkey)
{
	uint32_t t = c->qp->conn.type - QP_TYPE_RC;

	wire_tmpl_set_pkey(&c->peer, pkey);
	peer_put(c,
		 (struct wire_fields){.opcode = svc[t] | WIRE_OP_SEND_ONLY,
				      .psn = psn,
				      .ackreq = true,
				      .src_qpn = 7},
		 0, 16);
}

static void
client_asks(struct conn *c, uint64_t id)
{
	struct uroce_send_wqe *w =
		(struct uroce_send_wqe *)(c->sq.slots + (c->sq.prod & 63) * c->sq.stride);

	post_quiet(c, (struct wr){.id = id, .op = UROCE_WR_SEND, .flags = SIG, .len = 16});
	if (c->qp->conn.type == QP_TYPE_UD) {
		w->ud.ah = ah.handle;
		w->ud.remote_qpn = PEER_QPN;
		w->ud.remote_qkey = 0;
	}
	ring_doorbell(c);
}

/* c accepts key from its peer and sends requests and responses with its own. */
static void
speaks(struct conn *c, uint32_t n, uint16_t key)
{
	uint32_t t = c->qp->conn.type - QP_TYPE_RC, psn = SQ + c->sq.prod;

	recv_post(c, n, 0, 200);
	peer_sends(c, RQ + n, key);
	recv_cqe(c, n, QP_WC_SUCCESS);
	if (types[t] == QP_TYPE_RC)
		pkt_expect(c, WIRE_OP_ACK, RQ + n); /* whose key the bench checks */
	if (c->qp->conn.state != QP_RTS)
		return;
	client_asks(c, n);
	pkt_expect(c, svc[t] | WIRE_OP_SEND_ONLY, psn);
	if (types[t] == QP_TYPE_RC)
		peer_ack(c, psn);
	send_cqe(c, n, QP_WC_SUCCESS);
}

static void
refuses(struct conn *c, uint32_t n, uint16_t key)
{
	uint64_t before = DROPS(c, BAD_PKEY);
	uint32_t state = c->qp->conn.state;

	peer_sends(c, RQ + n, key);
	pkt_none(c);
	cqe_none(c);
	assert_int_equal(DROPS(c, BAD_PKEY), before + 1);
	state_expect(c, state);
}

REQUIREMENT("QP-04", "WIRE-09")
BENCH_TEST(pkey_index_selects_the_pkey)
{
	uint32_t t;

	for (t = 0; t < NTYPES; t++) {
		struct conn *c = conn_of(state, t, 1, QP_RTS);

		refuses(c, 0, 0xffff);
		refuses(c, 0, 0x8002);
		speaks(c, 0, 0x8001);
		speaks(c, 1, 0x0001); /* a limited member, and we are a full one */
		c = conn_of(state, t, 3, QP_RTS);
		refuses(c, 0, 0x0002); /* two limited members */
		speaks(c, 0, 0x8002);
	}
}

REQUIREMENT("QP-04")
BENCH_TEST(empty_and_invalid_pkey_indices_are_refused)
{
	static const uint16_t bad[] = {4, UROCE_MAX_PKEYS - 1, UROCE_MAX_PKEYS, 255, 65535};
	uint32_t t, i;

	for (t = 0; t < NTYPES; t++) {
		struct conn *c = conn_of(state, t, 0, QP_INIT);

		for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			struct uroce_qp_attr a = {.qp_state = QP_INIT, .pkey_index = bad[i]}, q;

			assert_int_equal(conn_modify(c, QP_STATE | QP_PKEY_INDEX, &a), EINVAL);
			qp_query(c->qp, &q);
			assert_int_equal(q.pkey_index, 0);
			assert_int_equal(c->qp->conn.pkey, 0xffff);
		}
	}
	/* Without a table there is the default key. */
	assert_int_equal(qp_pkey_at(&(struct qp){0}, 0), 0xffff);
	assert_int_equal(qp_pkey_at(&(struct qp){0}, 1), 0);
}

/* INIT to INIT, and INIT to RTR where the address vector comes with the index or without. */
REQUIREMENT("QP-04")
BENCH_TEST(pkey_index_may_change_before_RTR)
{
	struct uroce_qp_attr a = {.qp_state = QP_INIT, .pkey_index = 2};
	struct uroce_qp_attr rtr = {.qp_state = QP_RTR,
				    .path_mtu = 3,
				    .dest_qp_num = PEER_QPN,
				    .rq_psn = RQ,
				    .pkey_index = 1,
				    .ah = {.is_global = 1, .port_num = 1}};
	uint32_t t, mask, with;

	for (t = 0; t < NTYPES; t++) {
		mask = types[t] == QP_TYPE_UD ? 0 : QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN;
		if (types[t] == QP_TYPE_RC)
			mask |= QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER;
		for (with = 0; with < 2; with++) {
			struct conn *c = conn_of(state, t, 0, QP_INIT);

			assert_int_equal(conn_modify(c, QP_STATE | QP_PKEY_INDEX, &a), 0);
			assert_int_equal(conn_modify(c,
						     QP_STATE | mask | (with ? QP_PKEY_INDEX : 0),
						     &rtr),
					 0);
			c->pkey = with ? 0x8001 : 0x8002;
			refuses(c, 0, with ? 0x8002 : 0x8001);
			speaks(c, 0, c->pkey);
		}
	}
}

/* In SQD no address vector needs to come with it; to SQD itself, or on the way back to RTS. */
REQUIREMENT("QP-04")
BENCH_TEST(pkey_index_may_change_in_SQD)
{
	struct uroce_qp_attr a = {.pkey_index = 1};
	uint32_t t, back;

	for (t = 0; t < NTYPES; t++) {
		for (back = 0; back < 2; back++) {
			struct conn *c = conn_of(state, t, 0, QP_RTS);

			speaks(c, 0, 0xffff);
			assert_int_equal(conn_to(c, QP_SQD), 0);
			bench_run(c->b); /* drained */
			a.qp_state = back ? QP_RTS : QP_SQD;
			assert_int_equal(conn_modify(c, QP_STATE | QP_PKEY_INDEX, &a), 0);
			c->pkey = 0x8001;
			refuses(c, 1, 0xffff);
			speaks(c, 1, 0x8001);
			if (!back) {
				assert_int_equal(conn_to(c, QP_RTS), 0);
				speaks(c, 2, 0x8001);
			}
		}
	}
}

/* In the other transitions the index is not taken, and the key stays (QP-02). */
REQUIREMENT("QP-04")
BENCH_TEST(pkey_index_may_not_change_in_RTS)
{
	struct uroce_qp_attr a = {.qp_state = QP_RTS, .pkey_index = 1};
	uint32_t t;

	for (t = 0; t < NTYPES; t++) {
		struct conn *c = conn_of(state, t, 0, QP_RTS);

		assert_int_equal(conn_modify(c, QP_STATE | QP_PKEY_INDEX, &a), EINVAL);
		speaks(c, 0, 0xffff);
	}
}

/* The operator changes an entry: only the QPs of that index use the new key. */
REQUIREMENT("EVT-13")
BENCH_TEST(changed_pkey_entry_applies_to_its_qps)
{
	uint32_t t;

	for (t = 0; t < NTYPES; t++) {
		struct conn *c = conn_of(state, t, 1, QP_RTS);
		struct conn *other = conn_of(state, t, 2, QP_RTS);

		speaks(c, 0, 0x8001);
		table[1] = 0x8005;
		qp_pkey_refresh(c->qp);
		qp_pkey_refresh(other->qp);
		c->pkey = 0x8005;
		refuses(c, 1, 0x8001);
		speaks(c, 1, 0x8005);
		speaks(other, 0, 0x8002);
		state_expect(c, QP_RTS);
	}
}

/* Retransmitted packets carry the new key, and their responses need it. */
REQUIREMENT("EVT-13")
BENCH_TEST(changed_pkey_entry_applies_to_outstanding_wqes)
{
	struct conn *c = conn_of(state, 0, 1, QP_RTS);

	client_asks(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	table[1] = 0x8005;
	qp_pkey_refresh(c->qp);
	c->pkey = 0x8005;
	wire_tmpl_set_pkey(&c->peer, 0x8001);
	peer_ack(c, SQ);
	cqe_none(c);
	assert_int_equal(DROPS(c, BAD_PKEY), 1);
	bench_pass(c->b, 70000000);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	wire_tmpl_set_pkey(&c->peer, 0x8005);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

REQUIREMENT("EVT-13")
BENCH_TEST(emptied_pkey_entry_stops_traffic_until_it_is_set)
{
	uint32_t t;

	for (t = 0; t < NTYPES; t++) {
		struct conn *c = conn_of(state, t, 1, QP_RTS);

		table[1] = 0;
		qp_pkey_refresh(c->qp);
		refuses(c, 0, 0x8001);
		refuses(c, 0, 0x8000);
		refuses(c, 0, 0xffff);
		table[1] = 0x8001;
		qp_pkey_refresh(c->qp);
		c->pkey = 0x8001;
		speaks(c, 0, 0x8001);
	}
}

/* A member of a group that is in another partition gets no copy, which is counted. */
REQUIREMENT("WIRE-09", "WIRE-10")
BENCH_TEST(group_member_of_another_partition_gets_no_copy)
{
	static const uint8_t group[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	struct conn *a = conn_of(state, 2, 1, QP_RTS), *b = conn_of(state, 2, 2, QP_RTS);
	struct engine_member member[2] = {{.qpn = a->qp->conn.qpn}, {.qpn = b->qp->conn.qpn}};
	uint8_t frame[WIRE_MAX_OVERHEAD + 64];
	struct engine_addrs addrs = {.nmembers = 2, .member = member};
	struct wire_path path = a->peer_path;
	uint32_t len;

	memcpy(member[0].gid, group, 16);
	memcpy(member[1].gid, group, 16);
	engine_set_addrs(&a->b->engine, BENCH_DEV, &addrs);
	recv_post(a, 1, 0, 200);
	recv_post(b, 2, 0, 200);
	memcpy(path.dgid, group, 16);
	memcpy(path.dmac, (const uint8_t[]){0x01, 0, 0x5e, 1, 2, 3}, 6);
	wire_tmpl_init(&a->peer, &path, WIRE_MULTICAST_QPN, 0x8001);
	len = peer_frame(a,
			 (struct wire_fields){.opcode = WIRE_SVC_UD | WIRE_OP_SEND_ONLY,
					      .psn = RQ,
					      .src_qpn = 7},
			 0, 16, frame);
	frame_rx(a->b, frame, len);
	recv_cqe(a, 1, QP_WC_SUCCESS);
	cqe_none(b);
	assert_int_equal(OBS(a, MCAST_BAD_PKEY), 1);
	assert_int_equal(OBS(a, RX_ROCE), 1); /* one frame, and it was taken */
	engine_set_addrs(&a->b->engine, BENCH_DEV, NULL);
}
