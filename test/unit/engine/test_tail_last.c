/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that polls the memory of a message sees its last bytes last (mem/store.h), on each path
 * on which received data is stored.
 */
#include <string.h>
#include <rte_mbuf.h>
#include "gate.h"
#include "harness.h"
#include "probe.h"
#include "mem/store.h"
#include "qp/view.h"

#define SQ   0x001000u
#define RQ   0x555000u
#define MTU  1024u
#define TAIL MEM_STORE_TAIL

/* Messages: less than a packet, some of one packet, and some of several. All end at an 8. */
static const uint32_t lens[] = {8, 16, 24, 40, 64, 128, 200, 504, 1000, 1024, 1536, 2048, 3000};
#define NLENS (sizeof(lens) / sizeof(lens[0]))

/* The packets of a message of len bytes. */
static uint32_t
npkts(uint32_t len)
{
	return (len + MTU - 1) / MTU;
}

/* Bytes of a message of len bytes that are stored with packet k and those before it. */
static uint32_t
end_of(uint32_t len, uint32_t k)
{
	return RTE_MIN((k + 1) * MTU, len);
}

/* The opcode of packet k of n. */
static uint8_t
op_of(uint8_t first, uint8_t middle, uint8_t last, uint8_t only, uint32_t k, uint32_t n)
{
	if (k == 0)
		return n == 1 ? only : first;
	return k + 1 == n ? last : middle;
}

static uint8_t
write_op(uint32_t k, uint32_t n)
{
	return op_of(WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_LAST,
		     WIRE_OP_WRITE_ONLY, k, n);
}

static uint8_t
send_op(uint32_t k, uint32_t n)
{
	return op_of(WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_LAST, WIRE_OP_SEND_ONLY,
		     k, n);
}

static uint8_t
read_op(uint32_t k, uint32_t n)
{
	return op_of(WIRE_OP_READ_RESP_FIRST, WIRE_OP_READ_RESP_MIDDLE, WIRE_OP_READ_RESP_LAST,
		     WIRE_OP_READ_RESP_ONLY, k, n);
}

/* The gate is in front of the last bytes of packet k of a message of len bytes, at off of r. */
static void
gate_at_packet(struct bench_region *r, uint32_t off, uint32_t len, uint32_t k)
{
	uint32_t body = end_of(len, k) - TAIL;

	gate_put(r, off + body);
	gate_expect(off, bench_bytes, body);
}

static void
message_expect(uint32_t off, uint32_t len)
{
	gate_passed();
	assert_memory_equal(gate_bytes(off), bench_bytes, len);
	assert_int_equal(*gate_bytes(off + len), 0xee);
}

/* Packet k of a WRITE of len bytes to off of the remote region. */
static void
write_packet(struct conn *c, uint8_t svc, uint32_t psn, uint32_t off, uint32_t len, uint32_t k)
{
	uint32_t n = npkts(len);

	peer_write(c, svc | write_op(k, n), psn + k, REMOTE_VA + off, len, k * MTU,
		   end_of(len, k) - k * MTU);
}

static void
writes(struct conn *c, uint8_t svc)
{
	uint32_t psn = RQ;

	for (uint32_t i = 0; i < NLENS; i++) {
		for (uint32_t gate = 0; gate < npkts(lens[i]); gate++) {
			gate_at_packet(c->remote, 64, lens[i], gate);
			for (uint32_t k = 0; k < npkts(lens[i]); k++)
				write_packet(c, svc, psn, 64, lens[i], k);
			message_expect(64, lens[i]);
			psn += npkts(lens[i]);
		}
	}
	pkt_count(c);
}

REQUIREMENT("RSP-08")
BENCH_TEST(writes_store_their_tail_last)
{
	writes(conn_open(*state, conn_rc), WIRE_SVC_RC);
}

REQUIREMENT("RSP-08")
BENCH_TEST(unreliable_writes_store_their_tail_last)
{
	struct conn_cfg cfg = conn_rc;

	cfg.type = QP_TYPE_UC;
	writes(conn_open(*state, cfg), WIRE_SVC_UC);
}

REQUIREMENT("RSP-08")
BENCH_TEST(write_with_immediate_stores_its_tail_last)
{
	struct conn *c = conn_open(*state, conn_rc);

	recv_post(c, 1, 0, 64);
	gate_at_packet(c->remote, 0, 200, 0);
	peer_write(c, WIRE_OP_WRITE_ONLY_IMM, RQ, REMOTE_VA, 200, 0, 200);
	message_expect(0, 200);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	pkt_count(c);
}

REQUIREMENT("RSP-08")
BENCH_TEST(sends_store_their_tail_last)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t psn = RQ;

	for (uint32_t i = 0; i < NLENS; i++) {
		for (uint32_t gate = 0; gate < npkts(lens[i]); gate++) {
			recv_post(c, i, 64, lens[i]);
			gate_at_packet(c->local, 64, lens[i], gate);
			for (uint32_t k = 0; k < npkts(lens[i]); k++)
				peer_send(c, send_op(k, npkts(lens[i])), psn + k, k * MTU,
					  end_of(lens[i], k) - k * MTU);
			message_expect(64, lens[i]);
			recv_cqe(c, i, QP_WC_SUCCESS);
			psn += npkts(lens[i]);
		}
	}
	pkt_count(c);
}

/* Two SGEs of the local region for a message of len bytes; the gate is in front of its tail. */
static void
gate_at_sges(struct conn *c, uint32_t len, struct uroce_sge *sge)
{
	uint32_t split = len / 16 * 8;

	sge[0] = (struct uroce_sge){.addr = LOCAL_VA, .length = split, .lkey = c->local->mr.key};
	sge[1] = (struct uroce_sge){.addr = LOCAL_VA + 16384,
				    .length = len - split,
				    .lkey = c->local->mr.key};
	gate_put(c->local, 16384 + len - split - TAIL);
	gate_expect(0, bench_bytes, split);
	gate_expect(16384, bench_bytes + split, len - split - TAIL);
}

static void
sges_expect(uint32_t len)
{
	uint32_t split = len / 16 * 8;

	gate_passed();
	assert_memory_equal(gate_bytes(16384), bench_bytes + split, len - split);
}

REQUIREMENT("RSP-08")
BENCH_TEST(scattered_sends_store_their_tail_last)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t psn = RQ;

	for (uint32_t i = 1; i < NLENS; i++) {
		struct uroce_sge sge[2];

		gate_at_sges(c, lens[i], sge);
		recv_post_sges(c, i, sge, 2);
		for (uint32_t k = 0; k < npkts(lens[i]); k++)
			peer_send(c, send_op(k, npkts(lens[i])), psn + k, k * MTU,
				  end_of(lens[i], k) - k * MTU);
		sges_expect(lens[i]);
		recv_cqe(c, i, QP_WC_SUCCESS);
		psn += npkts(lens[i]);
	}
	pkt_count(c);
}

/* The GRH in front of it is stored before it, too. */
REQUIREMENT("RSP-08")
BENCH_TEST(datagrams_store_their_tail_last)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.type = QP_TYPE_UD;
	cfg.qkey = 0x11223344;
	c = conn_open(*state, cfg);
	recv_post(c, 1, 0, 1024);
	gate_put(c->local, WIRE_GRH_LEN + 200 - TAIL);
	gate_expect(WIRE_GRH_LEN, bench_bytes, 200 - TAIL);
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_SVC_UD | WIRE_OP_SEND_ONLY,
				      .psn = RQ,
				      .qkey = cfg.qkey,
				      .src_qpn = 0x654321},
		 0, 200);
	gate_passed();
	recv_cqe(c, 1, QP_WC_SUCCESS);
}

/* The responses to a READ of len bytes with the first PSN psn: first .. n - 1. */
static void
responses(struct conn *c, uint32_t psn, uint32_t len, uint32_t first)
{
	for (uint32_t k = first; k < npkts(len); k++)
		peer_read_resp(c, read_op(k, npkts(len)), psn + k, k * MTU,
			       end_of(len, k) - k * MTU);
}

REQUIREMENT("RSP-08")
BENCH_TEST(read_responses_store_their_tail_last)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t psn = SQ;

	for (uint32_t i = 0; i < NLENS; i++) {
		for (uint32_t gate = 0; gate < npkts(lens[i]); gate++) {
			client_does(c, i, UROCE_WR_RDMA_READ, lens[i]);
			pkt_expect(c, WIRE_OP_READ_REQ, psn);
			gate_at_packet(c->local, 0, lens[i], gate);
			responses(c, psn, lens[i], 0);
			message_expect(0, lens[i]);
			send_cqe(c, i, QP_WC_SUCCESS);
			psn += npkts(lens[i]);
		}
	}
}

REQUIREMENT("RSP-08")
BENCH_TEST(scattered_read_responses_store_their_tail_last)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t psn = SQ;

	for (uint32_t i = 1; i < NLENS; i++) {
		struct uroce_sge sge[2];

		gate_at_sges(c, lens[i], sge);
		post(c, (struct wr){.id = i,
				    .op = UROCE_WR_RDMA_READ,
				    .flags = SIG,
				    .len = lens[i],
				    .sge = sge,
				    .nsge = 2});
		pkt_expect(c, WIRE_OP_READ_REQ, psn);
		responses(c, psn, lens[i], 0);
		sges_expect(lens[i]);
		send_cqe(c, i, QP_WC_SUCCESS);
		psn += npkts(lens[i]);
	}
}

/* The first response of a READ is lost; the others are stored when they arrive. */
REQUIREMENT("RSP-08")
BENCH_TEST(early_read_responses_store_their_tail_last)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t len = 2 * MTU + 200;

	c->b->engine.env.plain = 0;
	client_does(c, 1, UROCE_WR_RDMA_READ, len);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	gate_put(c->local, len - TAIL);
	gate_expect(MTU, bench_bytes + MTU, len - MTU - TAIL);
	responses(c, SQ, len, 1);
	gate_passed();
	pkt_count(c);
}

/* Held requests are executed when the first one has come: not before, and in order. */
REQUIREMENT("RSP-08")
BENCH_TEST(held_requests_store_their_tail_last)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	uint32_t len = 2 * MTU + 200;

	gate_at_packet(c->remote, 0, len, 2);
	for (uint32_t k = 3; k-- > 0;)
		write_packet(c, WIRE_SVC_RC, RQ, 0, len, k);
	message_expect(0, len);
	recv_post(c, 1, 0, len);
	gate_at_packet(c->local, 0, len, 2);
	for (uint32_t k = 3; k-- > 0;)
		peer_send(c, send_op(k, 3), RQ + 3 + k, k * MTU, end_of(len, k) - k * MTU);
	message_expect(0, len);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	pkt_count(c);
}

/* A frame that is looped back, and whose payload is still in the sender's memory. */
static void
loop_back(struct conn *c, struct wire_fields f, uint32_t len)
{
	uint8_t frame[WIRE_MAX_OVERHEAD + MTU];
	uint32_t frame_len = peer_frame(c, f, 0, len, frame);
	struct rte_mbuf *m = rte_pktmbuf_alloc(c->b->engine.env.pool);
	struct wire_pkt pkt;
	uint32_t hdr_len;

	assert_non_null(m);
	assert_int_equal(wire_parse(frame, frame_len, &pkt), WIRE_OK);
	hdr_len = (uint32_t)(pkt.payload - frame);
	memcpy(rte_pktmbuf_mtod(m, uint8_t *), frame, hdr_len);
	qp_view_set(m, hdr_len, (struct qp_view){bench_bytes, len, c->qp->conn.qpn}, frame_len);
	engine_rx_loopback(&c->b->engine, c->b->now, BENCH_DEV, &m, 1);
}

REQUIREMENT("RSP-08")
BENCH_TEST(looped_back_messages_store_their_tail_last)
{
	struct wire_fields f = {.opcode = WIRE_OP_WRITE_ONLY, .psn = RQ, .va = REMOTE_VA};
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	c = conn_open(*state, cfg);
	c->qp->conn.loopback = true;
	f.rkey = c->remote->mr.key;
	for (uint32_t len = 504; len <= MTU; len += 104) {
		gate_at_packet(c->remote, 0, len, 0);
		f.dmalen = len;
		loop_back(c, f, len);
		message_expect(0, len);
		f.psn++;
	}
	f = (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY, .psn = f.psn};
	recv_post(c, 1, 0, MTU);
	gate_at_packet(c->local, 0, MTU, 0);
	loop_back(c, f, MTU);
	message_expect(0, MTU);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	pkt_count(c);
}
