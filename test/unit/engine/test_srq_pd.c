/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP and its SRQ in different protection domains. Receive buffers belong to the SRQ's domain;
 * R_Keys, and the L_Keys of the QP's own work requests, to the QP's (SRQ-01, MEM-02).
 */
#include <string.h>
#include "harness.h"

#define SQ     0x001000u
#define RQ     0x555000u
#define MTU    1024u
#define SRQ_PD 8u /* conn_rc's is 7 */
#define BUF_VA 0x40000000u

struct srq_fixture {
	struct bench *b;
	struct bench_srq *srq;
	struct conn *c;
	struct bench_region *in_srq_pd, *in_qp_pd; /* what receives may name */
	struct qp_ah_table ahs;
};

static void
srq_fixture_open(void **state, struct srq_fixture *t, enum qp_type type)
{
	struct conn_cfg cfg = conn_rc;

	memset(t, 0, sizeof(*t));
	t->b = *state;
	t->srq = srq_open_in(t->b, 8, 2, SRQ_PD);
	t->in_srq_pd = region_add(t->b, SRQ_PD, BUF_VA, BENCH_BYTES, MEM_LOCAL_WRITE);
	t->in_qp_pd = region_add(t->b, cfg.pd, BUF_VA, BENCH_BYTES, MEM_LOCAL_WRITE);
	cfg.type = type;
	cfg.srq = &t->srq->srq;
	cfg.access = ALL_REMOTE | MEM_REMOTE_ATOMIC;
	cfg.qkey = 0x11223344;
	if (type == QP_TYPE_UD)
		cfg.ahs = &t->ahs;
	t->c = conn_open(t->b, cfg);
}

/* A message that takes one receive WQE: of one packet or two, into one SGE or two. */
static const struct shape {
	uint32_t packets, sges;
} shapes[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};

#define NSHAPES (sizeof(shapes) / sizeof(shapes[0]))

static uint32_t
shape_bytes(const struct shape *s, enum qp_type type)
{
	return (s->packets - 1) * MTU + 100 + (type == QP_TYPE_UD ? WIRE_GRH_LEN : 0);
}

/* Posts the receive; SGE odd lies in region odd_in, the other in even_in. */
static void
srq_fixture_recv(struct srq_fixture *t, const struct shape *s, struct bench_region *even_in,
		 struct bench_region *odd_in)
{
	uint32_t len = shape_bytes(s, t->c->qp->conn.type);
	struct uroce_sge sge[2] = {
		{.addr = BUF_VA, .length = s->sges == 2 ? 60 : len, .lkey = even_in->mr.key},
		{.addr = BUF_VA + 60, .length = len - 60, .lkey = odd_in->mr.key},
	};

	srq_post_sges(t->srq, 1, sge, s->sges);
}

static void
srq_fixture_message(struct srq_fixture *t, const struct shape *s)
{
	uint8_t svc = t->c->qp->conn.type == QP_TYPE_RC   ? WIRE_SVC_RC
		      : t->c->qp->conn.type == QP_TYPE_UC ? WIRE_SVC_UC
							  : WIRE_SVC_UD;

	if (svc == WIRE_SVC_UD) {
		peer_put(t->c,
			 (struct wire_fields){.opcode = svc | WIRE_OP_SEND_ONLY,
					      .psn = RQ,
					      .qkey = 0x11223344,
					      .src_qpn = 0x654321},
			 0, 100);
	} else if (s->packets == 1) {
		peer_send(t->c, svc | WIRE_OP_SEND_ONLY, RQ, 0, 100);
	} else {
		peer_send(t->c, svc | WIRE_OP_SEND_FIRST, RQ, 0, MTU);
		peer_send(t->c, svc | WIRE_OP_SEND_LAST, RQ + 1, MTU, 100);
	}
	bench_run(t->b);
}

static bool
shape_fits(const struct shape *s, enum qp_type type)
{
	return type != QP_TYPE_UD || s->packets == 1;
}

static const enum qp_type types[] = {QP_TYPE_RC, QP_TYPE_UC, QP_TYPE_UD};

REQUIREMENT("SRQ-01", "MEM-02")
BENCH_TEST(buffers_in_the_srqs_pd_are_accepted)
{
	for (uint32_t i = 0; i < 3 * NSHAPES; i++) {
		const struct shape *s = &shapes[i % NSHAPES];
		enum qp_type type = types[i / NSHAPES];
		uint32_t grh = type == QP_TYPE_UD ? WIRE_GRH_LEN : 0;
		struct srq_fixture t;

		if (!shape_fits(s, type))
			continue;
		srq_fixture_open(state, &t, type);
		srq_fixture_recv(&t, s, t.in_srq_pd, t.in_srq_pd);
		srq_fixture_message(&t, s);
		assert_int_equal(recv_cqe(t.c, 1, QP_WC_SUCCESS).byte_len, shape_bytes(s, type));
		assert_memory_equal(t.in_srq_pd->bytes + grh, bench_bytes,
				    shape_bytes(s, type) - grh);
		cqe_none(t.c);
		event_none(t.b);
		state_expect(t.c, QP_RTS);
		srq_close(t.srq);
	}
}

/* Any SGE in the QP's domain that the message reaches is a protection error. */
REQUIREMENT("SRQ-01", "MEM-02")
BENCH_TEST(buffers_in_the_qps_pd_are_a_protection_error)
{
	for (uint32_t i = 0; i < 3 * NSHAPES; i++) {
		const struct shape *s = &shapes[i % NSHAPES];
		enum qp_type type = types[i / NSHAPES];
		struct srq_fixture t;

		if (!shape_fits(s, type))
			continue;
		srq_fixture_open(state, &t, type);
		memset(t.in_qp_pd->bytes, 0xee, BENCH_BYTES);
		srq_fixture_recv(&t, s, s->sges == 2 ? t.in_srq_pd : t.in_qp_pd, t.in_qp_pd);
		srq_fixture_message(&t, s);
		recv_cqe(t.c, 1, QP_WC_LOC_PROT_ERR);
		for (uint32_t k = 0; k < shape_bytes(s, type); k++)
			assert_int_equal(t.in_qp_pd->bytes[k], 0xee);
		state_expect(t.c, QP_ERR);
		srq_close(t.srq);
	}
}

/* A request by R_Key, which is the key of a region in each of the two domains in turn. */
static void
peer_request(struct srq_fixture *t, uint8_t op, uint32_t rkey)
{
	struct wire_fields f = {
		.opcode = op, .psn = RQ, .ackreq = true, .va = REMOTE_VA, .rkey = rkey};

	if (op != WIRE_OP_FETCH_ADD && op != WIRE_OP_CMP_SWAP)
		f.dmalen = 8;
	peer_put(t->c, f, 0, op == WIRE_OP_WRITE_ONLY || op == WIRE_OP_WRITE_ONLY_IMM ? 8 : 0);
	bench_run(t->b);
}

REQUIREMENT("MEM-02")
BENCH_TEST(rkeys_are_checked_against_the_qps_pd)
{
	static const uint8_t op[] = {WIRE_OP_WRITE_ONLY, WIRE_OP_WRITE_ONLY_IMM, WIRE_OP_READ_REQ,
				     WIRE_OP_FETCH_ADD, WIRE_OP_CMP_SWAP};

	for (uint32_t i = 0; i < sizeof(op); i++) {
		struct bench_region *foreign;
		struct wire_pkt pkt;
		struct srq_fixture t;

		srq_fixture_open(state, &t, QP_TYPE_RC);
		t.c->remote->mr.access |= MEM_REMOTE_ATOMIC;
		srq_fixture_recv(&t, &shapes[0], t.in_srq_pd, t.in_srq_pd);
		peer_request(&t, op[i], t.c->remote->mr.key);
		assert_true(pkt_poll(t.c, &pkt));
		assert_int_equal(pkt.syndrome & 0x60, WIRE_SYN_ACK);
		state_expect(t.c, QP_RTS);
		srq_close(t.srq);

		srq_fixture_open(state, &t, QP_TYPE_RC);
		foreign = region_add(t.b, SRQ_PD, REMOTE_VA, BENCH_BYTES,
				     ALL_REMOTE | MEM_REMOTE_ATOMIC);
		srq_fixture_recv(&t, &shapes[0], t.in_srq_pd, t.in_srq_pd);
		peer_request(&t, op[i], foreign->mr.key);
		answer_expect(t.c, RQ, NAK_SYN(REM_ACCESS));
		state_expect(t.c, QP_ERR);
		srq_close(t.srq);
	}
}

/* Sends gather from the QP's own domain, not from the SRQ's. */
REQUIREMENT("MEM-02")
BENCH_TEST(sends_gather_from_the_qps_pd)
{
	struct uroce_sge sge = {.addr = BUF_VA, .length = 8};
	struct srq_fixture t;

	srq_fixture_open(state, &t, QP_TYPE_RC);
	sge.lkey = t.in_qp_pd->mr.key;
	post(t.c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .sge = &sge, .nsge = 1});
	pkt_expect(t.c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(t.c, SQ);
	send_cqe(t.c, 1, QP_WC_SUCCESS);
	sge.lkey = t.in_srq_pd->mr.key;
	post(t.c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .sge = &sge, .nsge = 1});
	send_cqe(t.c, 2, QP_WC_LOC_PROT_ERR);
	srq_close(t.srq);
}
