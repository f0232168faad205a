/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows through the send queue and the wire (MEM-04, CQE-06). */
#include <string.h>
#include "harness.h"
#include "qp/recorder.h"

#define SQ 0x001000u
#define RQ 0x555000u

struct bound {
	struct conn *c;
	struct bench_region *r; /* may carry windows */
	struct mr mw;
};

static void
window_open(void **state, struct bound *w, uint8_t kind)
{
	struct bench *b = *state;
	struct conn_cfg cfg = conn_rc;

	memset(w, 0, sizeof(*w));
	w->c = conn_open(b, cfg);
	w->r = region_add(b, 7, 0x90000, 4096, MEM_LOCAL_WRITE | MEM_MW_BIND);
	w->mw = (struct mr){.kind = kind, .pd = 7};
	assert_int_equal(mr_table_add(&b->mrs, &w->mw, bench_key(b)), 0);
}

static void
window_close(struct bound *w)
{
	mw_unbind(&w->mw);
	mr_table_del(&w->c->b->mrs, &w->mw);
}

/* Bind [addr, addr + len) of the window named key under new_key, as the client would. */
static void
bind_named(struct bound *w, uint64_t id, uint32_t key, uint64_t addr, uint64_t len, uint32_t access,
	   uint32_t new_key)
{
	struct conn *c = w->c;
	struct uroce_send_wqe *q =
		(struct uroce_send_wqe *)(c->sq.slots + (c->sq.prod & 63) * c->sq.stride);

	post_quiet(c, (struct wr){.id = id, .op = UROCE_WR_BIND_MW, .flags = SIG});
	q->bind.addr = addr;
	q->bind.length = len;
	q->bind.mr_lkey = w->r->mr.key;
	q->bind.mw_rkey = key;
	q->bind.access = access;
	q->bind.new_rkey = new_key;
	ring_doorbell(c);
	bench_run(c->b);
}

static void
bind(struct bound *w, uint64_t id, uint64_t addr, uint64_t len, uint32_t access, uint32_t new_key)
{
	bind_named(w, id, w->mw.key, addr, len, access, new_key);
}

static void
invalidate(struct conn *c, uint64_t id, uint32_t key)
{
	post(c, (struct wr){.id = id, .op = UROCE_WR_LOCAL_INV, .flags = SIG, .imm = key});
	bench_run(c->b);
}

static void
peer_writes(struct conn *c, uint32_t psn, uint32_t key, uint64_t va, uint32_t len)
{
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_WRITE_ONLY,
				      .psn = psn,
				      .ackreq = true,
				      .va = va,
				      .rkey = key,
				      .dmalen = len},
		 0, len);
}

REQUIREMENT("MEM-04")
BENCH_TEST(bound_window_grants_its_range_only)
{
	static const struct {
		uint64_t va;
		uint32_t len;
		bool good;
	} tries[] = {{0x90100, 256, true},  {0x90180, 128, true}, {0x900ff, 8, false},
		     {0x90100, 257, false}, {0x901ff, 2, false},  {0x90200, 1, false}};
	uint32_t i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct bound w;

		window_open(state, &w, MR_WINDOW_1 + (i & 1));
		bind(&w, 1, 0x90100, 256, MEM_REMOTE_WRITE, w.mw.key ^ 0x55);
		assert_int_equal(send_cqe(w.c, 1, QP_WC_SUCCESS).opcode, UROCE_CQE_BIND_MW);
		assert_int_equal(w.r->mr.windows, 1);
		peer_writes(w.c, RQ, w.mw.key, tries[i].va, tries[i].len);
		answer_expect(w.c, RQ, tries[i].good ? ACK_SYN : NAK_SYN(REM_ACCESS));
		if (tries[i].good)
			assert_memory_equal(w.r->bytes + tries[i].va - 0x90000, bench_bytes,
					    tries[i].len);
		window_close(&w);
		assert_int_equal(w.r->mr.windows, 0);
	}
}

/* The previous key, another right, and the region's own key give no access. */
REQUIREMENT("MEM-04")
BENCH_TEST(window_grants_no_right_that_was_not_bound)
{
	uint32_t i;

	for (i = 0; i < 4; i++) {
		struct wire_fields f = {.opcode = WIRE_OP_READ_REQ,
					.psn = RQ,
					.va = 0x90000,
					.dmalen = 8};
		uint32_t old;
		struct bound w;

		window_open(state, &w, MR_WINDOW_1);
		old = w.mw.key;
		bind(&w, 1, 0x90000, 64, MEM_REMOTE_WRITE, old ^ 1);
		send_cqe(w.c, 1, QP_WC_SUCCESS);
		if (i == 0)
			peer_writes(w.c, RQ, old, 0x90000, 8);
		else if (i == 1)
			peer_writes(w.c, RQ, w.r->mr.key, 0x90000, 8);
		else if (i == 2)
			f.rkey = w.mw.key;
		else
			f.rkey = w.mw.key ^ 0x1000;
		if (i >= 2)
			peer_put(w.c, f, 0, 0);
		answer_expect(w.c, RQ, NAK_SYN(REM_ACCESS));
		window_close(&w);
	}
}

/* A window is no L_Key. */
REQUIREMENT("MEM-04", "CQE-04")
BENCH_TEST(window_key_is_not_an_lkey)
{
	struct uroce_sge sge = {0x90000, 8, 0};
	struct bound w;

	window_open(state, &w, MR_WINDOW_1);
	bind(&w, 1, 0x90000, 64, MEM_REMOTE_WRITE, w.mw.key ^ 1);
	send_cqe(w.c, 1, QP_WC_SUCCESS);
	sge.lkey = w.mw.key;
	post(w.c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .sge = &sge, .nsge = 1});
	pkt_none(w.c);
	send_cqe(w.c, 2, QP_WC_LOC_PROT_ERR);
	window_close(&w);
}

/* Binds that cannot be: MW_BIND_ERR, the QP in ERR, the window as it was. */
REQUIREMENT("CQE-06")
BENCH_TEST(wrong_binds_fail)
{
	static const uint32_t why[] = {
		UROCE_ERROR_BIND_LKEY_BOUNDS, UROCE_ERROR_BIND_LKEY_BOUNDS,
		UROCE_ERROR_BIND_LKEY_RIGHTS, UROCE_ERROR_BIND_LKEY_RIGHTS,
		UROCE_ERROR_BIND_WINDOW_PD,   UROCE_ERROR_BIND_WINDOW,
		UROCE_ERROR_BIND_FLAGS,       UROCE_ERROR_BIND_TWICE,
	};
	uint32_t i;

	for (i = 0; i < 8; i++) {
		uint64_t addr = 0x90000, len = 64;
		uint32_t access = MEM_REMOTE_WRITE, key, name = 0;
		struct mr was;
		struct bound w;

		window_open(state, &w, i == 7 ? MR_WINDOW_2 : MR_WINDOW_1);
		switch (i) {
		case 0: /* over the region's end */
			len = 4097;
			break;
		case 1: /* before its beginning */
			addr--;
			break;
		case 2: /* a region that carries no windows */
			w.r->mr.access &= ~MEM_MW_BIND;
			break;
		case 3: /* a right to write that the region has not */
			w.r->mr.access &= ~MEM_LOCAL_WRITE;
			break;
		case 4: /* another domain's window */
			w.mw.pd++;
			break;
		case 5: /* a window that was there before */
			name = 0x1000;
			break;
		case 6: /* rights there are not */
			access |= 1 << 20;
			break;
		case 7: /* type 2 that is bound already */
			bind(&w, 1, addr, len, access, w.mw.key);
			send_cqe(w.c, 1, QP_WC_SUCCESS);
			break;
		}
		was = w.mw;
		key = w.mw.key;
		bind_named(&w, 2, key ^ name, addr, len, access, key ^ 1);
		assert_int_equal(send_cqe(w.c, 2, QP_WC_MW_BIND_ERR).vendor_err, why[i]);
		state_expect(w.c, QP_ERR);
		assert_memory_equal(&w.mw, &was, sizeof(was));
		window_close(&w);
	}
}

/*
 * A request was checked against a window. Before its payload is copied, another worker binds the
 * window elsewhere under the same key. The copy goes to the checked address.
 */
REQUIREMENT("MEM-04")
BENCH_TEST(accepted_request_keeps_its_binding)
{
	static const struct {
		uint64_t addr, len;
		uint32_t access;
	} next[] = {{0x90800, 64, MEM_REMOTE_WRITE},
		    {0x90000, 4096, MEM_REMOTE_WRITE | MEM_ZERO_BASED},
		    {0, 0, 0}};
	uint32_t i;

	for (i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
		struct mr *found, window;
		struct mw_bind b;
		struct bound w;

		window_open(state, &w, MR_WINDOW_1);
		b = (struct mw_bind){.key = w.mw.key,
				     .new_key = w.mw.key,
				     .lkey = w.r->mr.key,
				     .access = MEM_REMOTE_WRITE,
				     .pd = 7,
				     .addr = 0x90100,
				     .len = 256};
		assert_true(mw_bind(&w.c->b->mrs, &b));
		found = mr_lookup_remote(&w.c->b->mrs, w.mw.key, 7, w.c->qp->conn.qpn, 0x90180, 8,
					 MEM_REMOTE_WRITE, &window);
		assert_non_null(found);
		b.addr = next[i].addr;
		b.len = next[i].len;
		b.access = next[i].access;
		assert_true(mw_bind(&w.c->b->mrs, &b));
		assert_int_equal(mr_write(found, 0x90180, "request", 8), 0);
		assert_memory_equal(w.r->bytes + 0x180, "request", 8);
		window_close(&w);
	}
}

/* While another worker changes a window no request passes. */
REQUIREMENT("MEM-04")
BENCH_TEST(window_that_is_being_changed_grants_nothing)
{
	struct mr window;
	struct bound w;

	window_open(state, &w, MR_WINDOW_1);
	bind(&w, 1, 0x90100, 256, MEM_REMOTE_WRITE, w.mw.key);
	send_cqe(w.c, 1, QP_WC_SUCCESS);
	w.mw.changes++;
	assert_null(mr_lookup_remote(&w.c->b->mrs, w.mw.key, 7, w.c->qp->conn.qpn, 0x90180, 8,
				     MEM_REMOTE_WRITE, &window));
	w.mw.changes++;
	assert_non_null(mr_lookup_remote(&w.c->b->mrs, w.mw.key, 7, w.c->qp->conn.qpn, 0x90180, 8,
					 MEM_REMOTE_WRITE, &window));
	window_close(&w);
}

/* After a bind that failed or was flushed a client does not know the bits that it last chose. */
REQUIREMENT("MEM-04")
BENCH_TEST(a_bind_ignores_the_chosen_bits_of_the_present_key)
{
	struct bound w;
	uint32_t was;

	window_open(state, &w, MR_WINDOW_1);
	was = w.mw.key;
	bind_named(&w, 1, was ^ 0x33, 0x90000, 64, MEM_REMOTE_WRITE, was ^ 0x44);
	send_cqe(w.c, 1, QP_WC_SUCCESS);
	assert_int_equal(w.mw.key, was ^ 0x44);
	peer_writes(w.c, RQ, w.mw.key, 0x90000, 8);
	ack_expect(w.c, RQ);
	window_close(&w);
}

/* Of the new key eight bits are used. */
REQUIREMENT("MEM-04")
BENCH_TEST(bind_chooses_eight_bits_of_the_key)
{
	struct bound w;
	uint32_t was;

	window_open(state, &w, MR_WINDOW_1);
	was = w.mw.key;
	bind_named(&w, 1, was, 0x90000, 64, MEM_REMOTE_WRITE, 0xabcdef42);
	send_cqe(w.c, 1, QP_WC_SUCCESS);
	assert_int_equal(w.mw.key, (was & ~0xffu) | 0x42);
	peer_writes(w.c, RQ, w.mw.key, 0x90000, 8);
	ack_expect(w.c, RQ);
	peer_writes(w.c, RQ + 1, was, 0x90000, 8);
	answer_expect(w.c, RQ + 1, NAK_SYN(REM_ACCESS));
	window_close(&w);
}

/*
 * An address that peers see as a multiple of 8 must be one for the CPU, or the access is not
 * atomic.
 */
REQUIREMENT("RSP-04")
BENCH_TEST(windows_aligned_for_the_cpu_allow_atomics)
{
	static const struct {
		uint64_t va; /* of the region's first byte */
		uint64_t addr;
		uint32_t access;
		bool good;
		uint64_t iova; /* of the region's first byte; 0: 0x90000 */
	} cases[] = {
		{0x5000, 0x90000, 0, true},
		{0x5000, 0x90004, 0, true},
		{0x5000, 0x90000, MEM_ZERO_BASED, true},
		{0x5000, 0x90001, MEM_ZERO_BASED, false},
		{0x5000, 0x90004, MEM_ZERO_BASED, false},
		{0x5004, 0x90000, 0, false},
		{0x5004, 0x90004, 0, false},
		{0x5004, 0x90000, MEM_ZERO_BASED, false},
		{0x5004, 0x90004, MEM_ZERO_BASED, true},
		{0x5002, 0x90008, 0, true, 0x90002},
		{0x5003, 0x90008, 0, false, 0x90002},
		{0x5002, 0x90008, MEM_ZERO_BASED, true, 0x90002},
	};
	struct bound w;
	uint32_t i;

	window_open(state, &w, MR_WINDOW_1);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mw_bind b = {.key = w.mw.key,
				    .new_key = w.mw.key,
				    .lkey = w.r->mr.key,
				    .access = MEM_REMOTE_ATOMIC | cases[i].access,
				    .pd = 7,
				    .addr = cases[i].addr,
				    .len = 64};

		w.r->mr.va = cases[i].va;
		w.r->mr.iova = cases[i].iova != 0 ? cases[i].iova : 0x90000;
		assert_int_equal(mw_bind(&w.c->b->mrs, &b), cases[i].good);
		/* Without atomics the alignment does not matter. */
		b.access = MEM_REMOTE_WRITE | cases[i].access;
		assert_true(mw_bind(&w.c->b->mrs, &b));
	}
	window_close(&w);
}

/* Invalidated by its own side, or by a SEND of the peer: the key is dead from then on. */
REQUIREMENT("MEM-04")
BENCH_TEST(invalidated_window_grants_nothing)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct uroce_cqe cqe;
		struct bound w;

		window_open(state, &w, MR_WINDOW_2);
		bind(&w, 1, 0x90000, 64, MEM_REMOTE_WRITE, w.mw.key ^ 1);
		send_cqe(w.c, 1, QP_WC_SUCCESS);
		peer_writes(w.c, RQ, w.mw.key, 0x90000, 8);
		ack_expect(w.c, RQ);
		if (i == 0) {
			invalidate(w.c, 2, w.mw.key);
			cqe = send_cqe(w.c, 2, QP_WC_SUCCESS);
			assert_int_equal(cqe.opcode, UROCE_CQE_LOCAL_INV);
		} else {
			recv_post(w.c, 3, 0, 64);
			peer_put(w.c,
				 (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY_INV,
						      .psn = RQ + 1,
						      .inv_rkey = w.mw.key},
				 0, 4);
			cqe = recv_cqe(w.c, 3, QP_WC_SUCCESS);
			assert_int_equal(cqe.flags, UROCE_CQE_WITH_INV);
			assert_int_equal(cqe.imm, w.mw.key);
		}
		peer_writes(w.c, RQ + 1 + i, w.mw.key, 0x90000, 8);
		answer_expect(w.c, RQ + 1 + i, NAK_SYN(REM_ACCESS));
		window_close(&w);
	}
}

/*
 * A type 2 window belongs to one QP: another QP of the same domain can neither use nor invalidate
 * it.
 */
REQUIREMENT("MEM-04")
BENCH_TEST(type_2_window_belongs_to_one_qp)
{
	uint32_t i;

	for (i = 0; i < 3; i++) {
		struct bound w, other;

		window_open(state, &w, MR_WINDOW_2);
		window_open(state, &other, MR_WINDOW_2);
		bind(&w, 1, 0x90000, 64, MEM_REMOTE_WRITE, w.mw.key ^ 1);
		send_cqe(w.c, 1, QP_WC_SUCCESS);
		if (i == 0) {
			peer_writes(other.c, RQ, w.mw.key, 0x90000, 8);
			answer_expect(other.c, RQ, NAK_SYN(REM_ACCESS));
		} else if (i == 1) {
			invalidate(other.c, 2, w.mw.key);
			assert_int_equal(other.c->qp->conn.state, QP_ERR);
		} else {
			recv_post(other.c, 3, 0, 64);
			peer_put(other.c,
				 (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY_INV,
						      .psn = RQ,
						      .inv_rkey = w.mw.key},
				 0, 4);
			answer_expect(other.c, RQ, NAK_SYN(REM_ACCESS));
			assert_int_equal(other.c->qp->bind.recorder->fault.reason,
					 UROCE_ERROR_INV_OTHER_QP);
			assert_int_equal(other.c->qp->bind.recorder->fault.psn, RQ);
		}
		peer_writes(w.c, RQ, w.mw.key, 0x90000, 8);
		ack_expect(w.c, RQ); /* it is still there */
		window_close(&w);
		window_close(&other);
	}
}

/* Local operations keep their place: executed in turn, completed in order, once, retries or not. */
REQUIREMENT("MEM-04", "REQ-01")
BENCH_TEST(local_operations_complete_in_order)
{
	struct bound w;

	window_open(state, &w, MR_WINDOW_2);
	post(w.c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	bind(&w, 2, 0x90000, 64, MEM_REMOTE_WRITE, w.mw.key ^ 1);
	post(w.c, (struct wr){.id = 3, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	pkt_expect(w.c, WIRE_OP_SEND_ONLY, SQ);
	pkt_expect(w.c, WIRE_OP_SEND_ONLY, SQ + 1);
	cqe_none(w.c);
	/* A retry goes past it; a second bind would fail. */
	peer_nak(w.c, SQ, NAK_SYN(PSN_SEQ));
	pkt_expect(w.c, WIRE_OP_SEND_ONLY, SQ);
	pkt_expect(w.c, WIRE_OP_SEND_ONLY, SQ + 1);
	peer_ack(w.c, SQ);
	send_cqe(w.c, 1, QP_WC_SUCCESS);
	send_cqe(w.c, 2, QP_WC_SUCCESS);
	cqe_none(w.c);
	peer_ack(w.c, SQ + 1);
	send_cqe(w.c, 3, QP_WC_SUCCESS);
	window_close(&w);
}
