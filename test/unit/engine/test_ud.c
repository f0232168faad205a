/* SPDX-License-Identifier: BSD-3-Clause */
/* Unreliable datagrams (WIRE-07, WIRE-08, WIRE-01, QP-17; NAK-06 for silent drops). */
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"

#define SQ     0x001000u
#define RQ     0x555000u
#define UD(op) (WIRE_SVC_UD | WIRE_OP_##op)
#define QKEY   0x11223344u

struct ud {
	struct qp_ah ah;
	struct qp_ah *slot[4];
	struct qp_ah_table ahs;
	struct conn *c;
};

static void
ud_open(void **state, struct ud *u, bool v6)
{
	struct conn_cfg cfg = conn_rc;

	memset(u, 0, sizeof(*u));
	u->ahs = (struct qp_ah_table){.slot = u->slot, .nslots = 4};
	u->slot[2] = &u->ah;
	cfg.type = QP_TYPE_UD;
	cfg.ahs = &u->ahs;
	cfg.qkey = QKEY;
	cfg.v6 = v6;
	u->c = conn_open(*state, cfg);
	u->ah = (struct qp_ah){.path = u->c->path.wire,
			       .pd = cfg.pd,
			       .handle = 0x102,
			       .path_ok = true};
	memset(u->c->local->bytes, 0, BENCH_BYTES);
}

static void
peer_datagram(struct conn *c, uint8_t op, uint32_t qkey, uint32_t len)
{
	peer_put(c,
		 (struct wire_fields){
			 .opcode = op, .psn = RQ, .qkey = qkey, .src_qpn = 0x654321, .imm = 0xcafe},
		 0, len);
}

static void
client_sends_with(struct conn *c, uint64_t id, uint32_t flags, uint32_t ah, uint32_t qpn,
		  uint32_t qkey, uint32_t len)
{
	struct uroce_send_wqe *w =
		(struct uroce_send_wqe *)(c->sq.slots + (c->sq.prod & 63) * c->sq.stride);

	memcpy(c->local->bytes, bench_bytes, len);
	post_quiet(c, (struct wr){.id = id, .op = UROCE_WR_SEND, .flags = flags, .len = len});
	w->ud.ah = ah;
	w->ud.remote_qpn = qpn;
	w->ud.remote_qkey = qkey;
	ring_doorbell(c);
}

static void
client_sends_to(struct conn *c, uint64_t id, uint32_t ah, uint32_t qpn, uint32_t qkey, uint32_t len)
{
	client_sends_with(c, id, SIG, ah, qpn, qkey, len);
}

REQUIREMENT("WIRE-04")
BENCH_TEST(datagram_is_solicited_if_its_program_says_so)
{
	struct ud u;

	ud_open(state, &u, false);
	client_sends_to(u.c, 1, 0x102, PEER_QPN, QKEY, 8);
	assert_false(pkt_expect(u.c, UD(SEND_ONLY), SQ).solicited);
	client_sends_with(u.c, 2, SIG | UROCE_WQE_SOLICITED, 0x102, PEER_QPN, QKEY, 8);
	assert_true(pkt_expect(u.c, UD(SEND_ONLY), SQ + 1).solicited);
	send_cqe(u.c, 1, QP_WC_SUCCESS);
	send_cqe(u.c, 2, QP_WC_SUCCESS);
}

REQUIREMENT("WIRE-07")
BENCH_TEST(datagram_fills_the_grh_area_and_completion)
{
	static const uint8_t zero[20];
	struct uroce_cqe cqe;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct bench_region *r;
		uint8_t frame[2048];
		struct ud u;

		ud_open(state, &u, i);
		r = u.c->local;
		recv_post(u.c, 1, 0, 200);
		peer_datagram(u.c, UD(SEND_ONLY_IMM), QKEY, 100);
		cqe = recv_cqe(u.c, 1, QP_WC_SUCCESS);
		assert_int_equal(cqe.byte_len, 140);
		assert_int_equal(cqe.flags, UROCE_CQE_GRH | UROCE_CQE_WITH_IMM);
		assert_int_equal(cqe.imm, 0xcafe);
		assert_int_equal(cqe.src_qp, 0x654321);
		assert_int_equal(cqe.sl, i == 0 ? 0xa : 0x9); /* UDP, and which IP */
		peer_frame(u.c, (struct wire_fields){.opcode = UD(SEND_ONLY_IMM), .psn = RQ}, 0,
			   100, frame);
		if (i == 0) { /* the IPv4 header in the last 20 bytes; not its id and checksum */
			assert_memory_equal(r->bytes, zero, 20);
			assert_memory_equal(r->bytes + 20, frame + 14, 4);
			assert_memory_equal(r->bytes + 32, frame + 26, 8);
		} else {
			assert_memory_equal(r->bytes, frame + 14, 40);
		}
		assert_memory_equal(r->bytes + 40, bench_bytes, 100);
		assert_int_equal(r->bytes[140], 0);
		pkt_none(u.c);
	}
}

/* A response to such an address would reach no host, or many. */
REQUIREMENT("WIRE-07", "WIRE-11")
BENCH_TEST(datagrams_from_a_non_unicast_source_are_dropped)
{
	static const struct {
		uint8_t gid[16];
		bool v6, good;
	} from[] = {
		{{[10] = 0xff, 0xff, 224, 0, 0, 1}, false, false},
		{{[10] = 0xff, 0xff, 239, 255, 255, 255}, false, false},
		{{[10] = 0xff, 0xff, 240, 0, 0, 1}, false, false},
		{{[10] = 0xff, 0xff, 255, 255, 255, 255}, false, false},
		{{[10] = 0xff, 0xff, 0, 0, 0, 0}, false, false},
		{{[10] = 0xff, 0xff, 127, 0, 0, 1}, false, false},
		{{[10] = 0xff, 0xff, 1, 0, 0, 1}, false, true},
		{{[10] = 0xff, 0xff, 223, 255, 255, 254}, false, true},
		{{0xff, 0x02, [15] = 1}, true, false},
		{{0xff, 0x0e, [15] = 9}, true, false},
		{{0}, true, false},
		{{[15] = 2}, true, true},
		{{0xfe, 0x80, [15] = 9}, true, true},
	};
	uint32_t i;

	for (i = 0; i < RTE_DIM(from); i++) {
		struct wire_path path;
		struct ud u;
		uint64_t was;

		ud_open(state, &u, from[i].v6);
		was = DROPS(u.c, BAD_GID);
		path = u.c->peer_path;
		memcpy(path.sgid, from[i].gid, 16);
		wire_tmpl_init(&u.c->peer, &path, u.c->qp->conn.qpn, 0xffff);
		recv_post(u.c, 1, 0, 200);
		peer_datagram(u.c, UD(SEND_ONLY), QKEY, 8);
		assert_int_equal(DROPS(u.c, BAD_GID) - was, !from[i].good);
		if (from[i].good)
			recv_cqe(u.c, 1, QP_WC_SUCCESS);
		else
			cqe_none(u.c);
	}
}

/*
 * A loopback address is a legal source on a device that has one (port=udp on lo), to the QP's
 * address and to its group, and on no other device.
 */
REQUIREMENT("WIRE-07", "WIRE-11")
BENCH_TEST(loopback_sources_are_for_loopback_devices)
{
	static const uint8_t group[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	static const struct {
		uint8_t own[16], src[16];
		bool v6, good;
	} cases[] = {
		{{[10] = 0xff, 0xff, 127, 0, 0, 1}, {[10] = 0xff, 0xff, 127, 0, 0, 1}, false, true},
		{{[10] = 0xff, 0xff, 127, 0, 0, 2}, {[10] = 0xff, 0xff, 127, 9, 9, 9}, false, true},
		{{[10] = 0xff, 0xff, 10, 0, 0, 1}, {[10] = 0xff, 0xff, 127, 0, 0, 1}, false, false},
		{{[10] = 0xff, 0xff, 126, 0, 0, 1},
		 {[10] = 0xff, 0xff, 127, 0, 0, 1},
		 false,
		 false},
		{{[10] = 0xff, 0xff, 127, 0, 0, 1},
		 {[10] = 0xff, 0xff, 224, 0, 0, 1},
		 false,
		 false},
		{{[15] = 1}, {[15] = 1}, true, true},
		{{0xfd, [15] = 1}, {[15] = 1}, true, false},
		{{[15] = 1}, {0}, true, false},
	};
	uint32_t i;
	bool to_group;

	for (i = 0; i < 2 * RTE_DIM(cases); i++) {
		struct engine_member member = {0};
		struct engine_addrs addrs = {.ngids = 1, .nmembers = 1, .member = &member};
		uint8_t frame[WIRE_MAX_OVERHEAD + 64];
		struct wire_path path;
		uint64_t was;
		struct ud u;

		to_group = i % 2 != 0;
		if (to_group && cases[i / 2].v6)
			continue;
		ud_open(state, &u, cases[i / 2].v6);
		was = DROPS(u.c, BAD_GID);
		memcpy(member.gid, group, 16);
		member.qpn = u.c->qp->conn.qpn;
		addrs.gid = &cases[i / 2].own;
		path = u.c->peer_path;
		memcpy(path.sgid, cases[i / 2].src, 16);
		memcpy(path.dgid, to_group ? group : cases[i / 2].own, 16);
		wire_tmpl_init(&u.c->peer, &path, to_group ? WIRE_MULTICAST_QPN : member.qpn,
			       0xffff);
		engine_set_addrs(&u.c->b->engine, BENCH_DEV, &addrs);
		recv_post(u.c, 1, 0, 200);
		frame_rx(u.c->b, frame,
			 peer_frame(u.c,
				    (struct wire_fields){.opcode = UD(SEND_ONLY),
							 .psn = RQ,
							 .qkey = QKEY,
							 .src_qpn = 7},
				    0, 8, frame));
		engine_set_addrs(&u.c->b->engine, BENCH_DEV, NULL);
		assert_int_equal(DROPS(u.c, BAD_GID) - was, !cases[i / 2].good);
		if (cases[i / 2].good)
			recv_cqe(u.c, 1, QP_WC_SUCCESS);
		else
			cqe_none(u.c);
	}
}

/* The control thread responds to the source, too. */
REQUIREMENT("WIRE-11")
BENCH_TEST(datagrams_for_qp1_have_a_unicast_source)
{
	static const uint8_t from[][4] = {
		{239, 1, 2, 3}, {255, 255, 255, 255}, {127, 0, 0, 1}, {0, 0, 0, 0}, {10, 1, 2, 3}};
	const uint32_t good = RTE_DIM(from) - 1;
	struct wire_fields f = {.opcode = UD(SEND_ONLY), .qkey = 0x80010000, .src_qpn = 1};
	uint8_t frame[WIRE_MAX_OVERHEAD + 64];
	struct wire_path path;
	struct bench *b;
	struct ud u;
	uint32_t i;

	ud_open(state, &u, false);
	b = u.c->b;
	path = u.c->peer_path;
	qp_table_own(&b->qps, 1, 0);
	engine_set_consumer(&b->engine, 1);
	for (i = 0; i < RTE_DIM(from); i++) {
		memcpy(path.sgid + 12, from[i], 4);
		wire_tmpl_init(&u.c->peer, &path, 1, 0xffff);
		frame_rx(b, frame, peer_frame(u.c, f, 0, 60, frame));
		assert_int_equal(DROPS(u.c, BAD_GID), i < good ? i + 1 : good);
		assert_int_equal(b->consumed, i == good);
	}
	engine_set_consumer(&b->engine, 0);
}

REQUIREMENT("WIRE-08")
BENCH_TEST(wrong_qkey_is_dropped)
{
	struct ud u;

	ud_open(state, &u, false);
	recv_post(u.c, 1, 0, 200);
	peer_datagram(u.c, UD(SEND_ONLY), QKEY ^ 1, 8);
	cqe_none(u.c);
	pkt_none(u.c);
	assert_int_equal(DROPS(u.c, BAD_QKEY), 1);
	assert_int_equal(u.c->rq.hdr->cons, 0);
	peer_datagram(u.c, UD(SEND_ONLY), QKEY, 8);
	recv_cqe(u.c, 1, QP_WC_SUCCESS);
}

REQUIREMENT("WIRE-08")
BENCH_TEST(qkey_with_top_bit_sends_the_qps_qkey)
{
	struct wire_pkt p;
	struct ud u;

	ud_open(state, &u, false);
	client_sends_to(u.c, 1, 0x102, PEER_QPN, 0x42, 30);
	client_sends_to(u.c, 2, 0x102, PEER_QPN, 0x80000000, 30);
	p = pkt_expect(u.c, UD(SEND_ONLY), SQ);
	assert_int_equal(p.qkey, 0x42);
	assert_int_equal(p.src_qpn, u.c->qp->conn.qpn);
	assert_int_equal(p.payload_len, 30);
	assert_memory_equal(p.payload, bench_bytes, 30);
	p = pkt_expect(u.c, UD(SEND_ONLY), SQ + 1);
	assert_int_equal(p.qkey, QKEY);
	send_cqe(u.c, 1, QP_WC_SUCCESS);
	send_cqe(u.c, 2, QP_WC_SUCCESS);
}

/* Buffers must also hold the GRH area; a datagram that does not fit is dropped silently. */
REQUIREMENT("WIRE-07")
BENCH_TEST(datagram_longer_than_the_receive_is_dropped)
{
	struct ud u;

	ud_open(state, &u, false);
	peer_datagram(u.c, UD(SEND_ONLY), QKEY, 8);
	assert_int_equal(DROPS(u.c, NO_RECV_WQE), 1);
	recv_post(u.c, 1, 0, 47);
	peer_datagram(u.c, UD(SEND_ONLY), QKEY, 8);
	cqe_none(u.c);
	pkt_none(u.c);
	state_expect(u.c, QP_RTS);
	peer_datagram(u.c, UD(SEND_ONLY), QKEY, 7);
	assert_int_equal(recv_cqe(u.c, 1, QP_WC_SUCCESS).byte_len, 47);
}

REQUIREMENT("CQE-02")
BENCH_TEST(datagram_over_the_mtu_fails)
{
	struct ud u;

	ud_open(state, &u, false);
	client_sends_to(u.c, 1, 0x102, PEER_QPN, QKEY, 1024);
	pkt_expect(u.c, UD(SEND_ONLY), SQ);
	send_cqe(u.c, 1, QP_WC_SUCCESS);
	client_sends_to(u.c, 2, 0x102, PEER_QPN, QKEY, 1025);
	pkt_none(u.c);
	send_cqe(u.c, 2, QP_WC_LOC_LEN_ERR);
	state_expect(u.c, QP_SQE);
}

/* A stale handle, one of another PD, an unknown one, and operations that UD lacks. */
REQUIREMENT("CQE-03", "QP-17")
BENCH_TEST(bad_address_handles_and_opcodes_fail)
{
	uint32_t i;

	for (i = 0; i < 5; i++) {
		struct ud u;

		ud_open(state, &u, false);
		if (i == 2)
			u.ah.pd++;
		if (i < 3)
			client_sends_to(u.c, 1, i == 0 ? 2 : i == 1 ? 1 : 0x102, PEER_QPN, QKEY, 8);
		else
			post(u.c,
			     (struct wr){.id = 1,
					 .op = i == 3 ? UROCE_WR_RDMA_WRITE : UROCE_WR_RDMA_READ,
					 .len = 8});
		client_sends_to(u.c, 2, 0x102, PEER_QPN, QKEY, 8);
		pkt_none(u.c);
		send_cqe(u.c, 1, QP_WC_LOC_QP_OP_ERR);
		send_cqe(u.c, 2, QP_WC_WR_FLUSH_ERR);
		state_expect(u.c, QP_SQE);
		/* Receiving continues, and so does sending after the modify to RTS. */
		recv_post(u.c, 3, 0, 200);
		peer_datagram(u.c, UD(SEND_ONLY), QKEY, 8);
		recv_cqe(u.c, 3, QP_WC_SUCCESS);
		u.ah.pd = conn_rc.pd;
		assert_int_equal(conn_to(u.c, QP_RTS), 0);
		client_sends_to(u.c, 4, 0x102, PEER_QPN, QKEY, 8);
		pkt_expect(u.c, UD(SEND_ONLY), SQ);
		send_cqe(u.c, 4, QP_WC_SUCCESS);
	}
}

/* The next hop is not known: the datagram waits for a while, then counts as lost. */
REQUIREMENT("WIRE-01")
BENCH_TEST(datagram_waits_for_its_next_hop)
{
	struct ud u;

	ud_open(state, &u, false);
	u.ah.path_ok = false;
	client_sends_to(u.c, 1, 0x102, PEER_QPN, QKEY, 8);
	client_sends_to(u.c, 2, 0x102, PEER_QPN, QKEY, 8);
	bench_pass(u.c->b, 500000000);
	pkt_none(u.c);
	cqe_none(u.c);
	bench_pass(u.c->b, 500000000);
	send_cqe(u.c, 1, QP_WC_SUCCESS);
	assert_int_equal(OBS(u.c, TX_NO_NEIGHBOUR), 1);
	u.ah.path_ok = true;
	engine_wake(&u.c->b->engine, u.c->qp);
	pkt_expect(u.c, UD(SEND_ONLY), SQ + 1);
	send_cqe(u.c, 2, QP_WC_SUCCESS);
}

/* Datagrams posted before a program destroys its QP are sent and complete. */
REQUIREMENT("WIRE-07")
BENCH_TEST(datagrams_posted_before_destroy_are_sent)
{
	struct wire_pkt pkt;
	struct ud u;

	ud_open(state, &u, false);
	client_sends_to(u.c, 1, 0x102, PEER_QPN, QKEY, 8);
	client_sends_to(u.c, 2, 0x102, PEER_QPN, QKEY, 8);
	u.c->qp->bind.armed = true; /* as if the doorbell had not been served yet */
	engine_last_turn(&u.c->b->engine, u.c->b->now, u.c->qp);
	engine_forget(&u.c->b->engine, u.c->qp);
	pkt_expect(u.c, UD(SEND_ONLY), SQ);
	pkt_expect(u.c, UD(SEND_ONLY), SQ + 1);
	pkt_none(u.c);
	send_cqe(u.c, 1, QP_WC_SUCCESS);
	send_cqe(u.c, 2, QP_WC_SUCCESS);
	/* No more than the space permits, and nothing in a state that does not send. */
	ud_open(state, &u, false);
	for (uint32_t i = 0; i < 3; i++)
		client_sends_to(u.c, i, 0x102, PEER_QPN, QKEY, 8);
	u.c->b->engine.env.tx_cap = 2;
	engine_last_turn(&u.c->b->engine, u.c->b->now, u.c->qp);
	engine_forget(&u.c->b->engine, u.c->qp);
	u.c->b->engine.env.tx_cap = ENGINE_TX_CAP;
	assert_int_equal(pkt_count(u.c), 2);
	/* But more than a turn has bytes for. */
	ud_open(state, &u, false);
	for (uint32_t i = 0; i < 64; i++)
		client_sends_to(u.c, i, 0x102, PEER_QPN, QKEY, 1024);
	u.c->b->engine.env.crowded = true;
	engine_last_turn(&u.c->b->engine, u.c->b->now, u.c->qp);
	engine_forget(&u.c->b->engine, u.c->qp);
	assert_int_equal(pkt_count(u.c), 64);
	ud_open(state, &u, false);
	assert_int_equal(conn_to(u.c, QP_ERR), 0);
	client_sends_to(u.c, 1, 0x102, PEER_QPN, QKEY, 8);
	engine_last_turn(&u.c->b->engine, u.c->b->now, u.c->qp);
	engine_forget(&u.c->b->engine, u.c->qp);
	assert_false(pkt_poll(u.c, &pkt));
}

/* As worker_send_posted does before an address handle is destroyed: the QP goes on as before. */
REQUIREMENT("WIRE-07")
BENCH_TEST(qp_goes_on_after_a_last_turn)
{
	struct ud u;

	ud_open(state, &u, false);
	client_sends_to(u.c, 1, 0x102, PEER_QPN, QKEY, 8);
	engine_last_turn(&u.c->b->engine, u.c->b->now, u.c->qp);
	engine_wake(&u.c->b->engine, u.c->qp);
	pkt_expect(u.c, UD(SEND_ONLY), SQ);
	send_cqe(u.c, 1, QP_WC_SUCCESS);
	pkt_none(u.c);
	assert_true(u.c->qp->bind.armed);
	client_sends_to(u.c, 2, 0x102, PEER_QPN, QKEY, 8);
	pkt_expect(u.c, UD(SEND_ONLY), SQ + 1);
	send_cqe(u.c, 2, QP_WC_SUCCESS);
}
