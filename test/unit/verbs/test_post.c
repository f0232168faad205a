/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting: the WQE in shared memory, refusals, and doorbells. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "provider_fixture.h"

static int
post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(qp, wr, &bad);

	if (rc)
		assert_ptr_equal(bad, wr);
	return rc;
}

static struct ibv_sge two[2] = {
	{.addr = 0x1000, .length = 100, .lkey = 7},
	{.addr = 0x2000, .length = 28, .lkey = 8},
};

FIXTURE_TEST(write_with_immediate_is_encoded)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {
		.wr_id = 0xabcdef,
		.sg_list = two,
		.num_sge = 2,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE,
		.imm_data = 0x11223344,
		.wr.rdma = {.remote_addr = 0x7fff12345678, .rkey = 0x99},
	};
	struct uroce_send_wqe *w = fake_send_wqe(r->f, 0, 0);
	struct uroce_sge *sge = (struct uroce_sge *)(w + 1);

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(r->f->qp[0].sq->prod, 1);
	assert_int_equal(w->wr_id, 0xabcdef);
	assert_int_equal(w->opcode, UROCE_WR_RDMA_WRITE_IMM);
	assert_int_equal(w->flags, UROCE_WQE_FENCE | UROCE_WQE_SIGNALED | UROCE_WQE_SOLICITED);
	assert_int_equal(w->num, 2);
	assert_int_equal(w->imm, 0x11223344);
	assert_int_equal(w->rdma.remote_addr, 0x7fff12345678);
	assert_int_equal(w->rdma.rkey, 0x99);
	assert_int_equal(sge[1].addr, 0x2000);
	assert_int_equal(sge[1].length, 28);
	assert_int_equal(sge[1].lkey, 8);
}

FIXTURE_TEST(atomic_is_encoded)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {
		.sg_list = two,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = {.remote_addr = 64, .compare_add = 1, .swap = 2, .rkey = 3},
	};
	struct uroce_send_wqe *w = fake_send_wqe(r->f, 0, 0);

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(w->opcode, UROCE_WR_ATOMIC_CMP_SWAP);
	assert_int_equal(w->rdma.remote_addr, 64);
	assert_int_equal(w->rdma.compare_add, 1);
	assert_int_equal(w->rdma.swap, 2);
	assert_int_equal(w->rdma.rkey, 3);
}

FIXTURE_TEST(inline_data_is_gathered)
{
	struct fixture *r = *state;
	char a[40], b[24];
	struct ibv_sge sge[2] = {
		{.addr = (uintptr_t)a, .length = sizeof(a)},
		{.addr = (uintptr_t)b, .length = sizeof(b)},
	};
	struct ibv_send_wr wr = {
		.sg_list = sge,
		.num_sge = 2,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};
	struct uroce_send_wqe *w = fake_send_wqe(r->f, 0, 0);

	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(w->flags, UROCE_WQE_INLINE);
	assert_int_equal(w->num, 64);
	assert_memory_equal((char *)(w + 1), a, sizeof(a));
	assert_memory_equal((char *)(w + 1) + 40, b, sizeof(b));
}

FIXTURE_TEST(receive_is_encoded_and_the_ring_wraps)
{
	struct fixture *r = *state;
	struct ibv_recv_wr wr = {.sg_list = two, .num_sge = 2}, *bad;
	struct fake_qp *q = &r->f->qp[0];

	fixture_qp_to(r->qp, IBV_QPS_INIT);
	for (uint64_t i = 0; i < 20; i++) {
		struct uroce_recv_wqe *w = fake_recv_wqe(r->f, 0, (uint32_t)i);

		wr.wr_id = i;
		assert_int_equal(ibv_post_recv(r->qp, &wr, &bad), 0);
		assert_int_equal(w->wr_id, i);
		assert_int_equal(w->num_sge, 2);
		assert_int_equal(((struct uroce_sge *)(w + 1))[0].lkey, 7);
		q->rq->cons = (uint32_t)i + 1;
	}
	assert_int_equal(q->rq->prod, 20);
}

REQUIREMENT("IMM-01")
FIXTURE_TEST(send_before_rts_is_refused)
{
	static const enum ibv_qp_state early[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR};
	static const enum ibv_qp_state late[] = {IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE,
						 IBV_QPS_ERR};
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	for (unsigned int i = 0; i < 3; i++) {
		fixture_qp_to(r->qp, early[i]);
		assert_int_equal(post(r->qp, &wr), EINVAL);
		assert_int_equal(r->f->qp[0].sq->prod, 0);
	}
	for (unsigned int i = 0; i < 4; i++) {
		fixture_qp_to(r->qp, late[i]);
		assert_int_equal(post(r->qp, &wr), 0);
	}
}

REQUIREMENT("IMM-01")
FIXTURE_TEST(bad_wr_names_the_failed_request_of_a_chain)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr[3] = {
		{.wr_id = 1, .next = &wr[1], .opcode = IBV_WR_SEND},
		{.wr_id = 2, .next = &wr[2], .opcode = IBV_WR_SEND, .num_sge = 3},
		{.wr_id = 3, .opcode = IBV_WR_SEND},
	};
	struct ibv_send_wr *bad = NULL;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(ibv_post_send(r->qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(r->f->qp[0].sq->prod, 1);
	assert_int_equal(fake_send_wqe(r->f, 0, 0)->wr_id, 1);
}

/*
 * Without an error bad_wr is not written: programs keep a list there, or check it instead of the
 * call's result.
 */
REQUIREMENT("IMM-01")
FIXTURE_TEST(bad_wr_is_set_only_on_error)
{
	struct fixture *r = *state;
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(r->pd, &sattr);
	struct ibv_send_wr wr[2] = {{.next = &wr[1], .opcode = IBV_WR_SEND},
				    {.opcode = IBV_WR_SEND}};
	struct ibv_recv_wr rwr[3] = {{.next = &rwr[1]}, {.next = &rwr[2]}, {0}};
	struct ibv_send_wr mark, *bad = &mark;
	struct ibv_recv_wr rmark, *rbad = &rmark;

	assert_non_null(srq);
	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(ibv_post_send(r->qp, wr, &bad), 0);
	assert_ptr_equal(bad, &mark);
	assert_int_equal(ibv_post_recv(r->qp, rwr, &rbad), 0);
	assert_ptr_equal(rbad, &rmark);
	assert_int_equal(ibv_post_srq_recv(srq, rwr, &rbad), 0);
	assert_ptr_equal(rbad, &rmark);
	/* an empty chain is none */
	assert_int_equal(ibv_post_send(r->qp, NULL, &bad), 0);
	assert_int_equal(ibv_post_recv(r->qp, NULL, &rbad), 0);
	assert_int_equal(ibv_post_srq_recv(srq, NULL, &rbad), 0);
	assert_ptr_equal(bad, &mark);
	assert_ptr_equal(rbad, &rmark);
	/* one place is left: the second of the chain fails, and the first is posted */
	assert_int_equal(ibv_post_srq_recv(srq, rwr, &rbad), ENOMEM);
	assert_ptr_equal(rbad, &rwr[1]);
	assert_int_equal(r->f->srq[0].ring->prod, 4);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

REQUIREMENT("IMM-02")
FIXTURE_TEST(receive_in_reset_is_refused)
{
	struct fixture *r = *state;
	struct ibv_recv_wr wr = {0}, *bad = NULL;

	assert_int_equal(ibv_post_recv(r->qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	fixture_qp_to(r->qp, IBV_QPS_INIT);
	assert_int_equal(ibv_post_recv(r->qp, &wr, &bad), 0);
}

REQUIREMENT("IMM-03")
FIXTURE_TEST(full_queue_returns_enomem)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr rwr = {0}, *rbad;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(post(r->qp, &wr), 0);
		assert_int_equal(ibv_post_recv(r->qp, &rwr, &rbad), 0);
	}
	assert_int_equal(post(r->qp, &wr), ENOMEM);
	assert_int_equal(ibv_post_recv(r->qp, &rwr, &rbad), ENOMEM);
	/* Slots retired by the daemon are free again. */
	r->f->qp[0].sq->cons = 2;
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(post(r->qp, &wr), ENOMEM);
}

REQUIREMENT("IMM-03")
FIXTURE_TEST(malformed_requests_are_refused)
{
	struct fixture *r = *state;
	char data[65] = {0};
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = sizeof(data)};
	struct ibv_send_wr too_long = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_INLINE};
	struct ibv_send_wr inline_read = {.opcode = IBV_WR_RDMA_READ,
					  .send_flags = IBV_SEND_INLINE};
	struct ibv_send_wr sges = {.sg_list = two, .num_sge = 3, .opcode = IBV_WR_SEND};
	struct ibv_send_wr tso = {.opcode = IBV_WR_TSO};

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(post(r->qp, &too_long), EINVAL);
	assert_int_equal(post(r->qp, &inline_read), EINVAL);
	assert_int_equal(post(r->qp, &sges), EINVAL);
	assert_int_equal(post(r->qp, &tso), EINVAL);
	/* IMM-04: the QP is as it was */
	assert_int_equal(r->f->qp[0].sq->prod, 0);
	sge.length = 64;
	assert_int_equal(post(r->qp, &too_long), 0);
}

static bool
allowed(uint32_t type, uint32_t opcode)
{
	return uroce_wr_is_legal(uroce_wr_rule_get(opcode), type);
}

/* Every opcode against every type: what verbs define for RC, UC and UD. */
REQUIREMENT("IMM-03")
UNIT_TEST(opcodes_are_checked_by_qp_type)
{
	static const char legal[][UROCE_WR_OPCODES + 1] = {
		/* W WI S SI R CS FA LI BM SV */
		"1111111111", /* RC */
		"1111000110", /* UC */
		"0011000000", /* UD */
	};
	static const uint32_t type[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	for (unsigned int t = 0; t < 3; t++) {
		for (uint32_t op = 0; op < UROCE_WR_OPCODES; op++)
			assert_int_equal(allowed(type[t], op), legal[t][op] == '1');
		assert_false(allowed(type[t], UROCE_WR_OPCODES));
	}
	assert_false(allowed(IBV_QPT_RAW_PACKET, UROCE_WR_SEND));
	assert_false(allowed(31, UROCE_WR_SEND));
}

static uint64_t
woken(struct fixture *r, unsigned int worker)
{
	uint64_t n = 0;

	if (read(r->f->wake_fd[worker], &n, sizeof(n)) < 0)
		return 0;
	return n;
}

FIXTURE_TEST(doorbell_rings_only_if_armed)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct uroce_db_ring *db = r->f->db[0]; /* QPN 0x100 */

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(db->prod, 0);
	r->f->qp[0].sq->armed = 1;
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(r->f->qp[0].sq->armed, 0);
	assert_int_equal(db->prod, 1);
	assert_int_equal(db->qpn[0], 0x100);
	assert_int_equal(woken(r, 0), 0);
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(db->prod, 1);
	/* a sleeping worker is woken as well, and only that one */
	r->f->qp[0].sq->armed = 1;
	r->f->states[0].asleep = 1;
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(db->prod, 2);
	assert_int_equal(woken(r, 0), 1);
	assert_int_equal(woken(r, 1), 0);
}

FIXTURE_TEST(doorbell_follows_a_qp_that_moves)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp *fixed;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	r->f->qp[0].sq->worker = 1;
	r->f->qp[0].sq->armed = 1;
	r->f->states[1].asleep = 1;
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(r->f->db[0]->prod, 0);
	assert_int_equal(r->f->db[1]->prod, 1);
	assert_int_equal(r->f->db[1]->qpn[0], 0x100);
	assert_int_equal(woken(r, 1), 1);
	/* no index of a worker: nothing is touched outside of the rings */
	r->f->qp[0].sq->worker = FAKE_WORKERS;
	r->f->qp[0].sq->armed = 1;
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(r->f->db[0]->prod, 1);
	/* an older daemon leaves the word alone: QPN 0x101 stays with worker 1 */
	prov_context_of(r->ctx)->ipc.features = 0;
	fixed = fixture_create_qp(r, IBV_QPT_RC);
	fixture_qp_to(fixed, IBV_QPS_RTS);
	r->f->qp[1].sq->worker = 0;
	r->f->qp[1].sq->armed = 1;
	assert_int_equal(post(fixed, &wr), 0);
	assert_int_equal(r->f->db[1]->prod, 2);
	assert_int_equal(ibv_destroy_qp(fixed), 0);
}

FIXTURE_TEST(full_doorbell_ring_sets_the_overflow_flag)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct uroce_db_ring *db = r->f->db[0];

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	db->prod = UROCE_DB_ENTRIES + 5;
	db->cons = 5;
	r->f->qp[0].sq->armed = 1;
	assert_int_equal(post(r->qp, &wr), 0);
	assert_int_equal(db->overflow, 1);
	assert_int_equal(db->prod, UROCE_DB_ENTRIES + 5);
}

REQUIREMENT("QP-10")
FIXTURE_TEST(reset_empties_the_queues)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr rwr = {0}, *bad;
	struct fake_qp *q = &r->f->qp[0];

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(post(r->qp, &wr), 0);
		assert_int_equal(ibv_post_recv(r->qp, &rwr, &bad), 0);
	}
	fixture_qp_to(r->qp, IBV_QPS_RESET);
	/* both are empty at once, wherever the daemon reads next */
	assert_int_equal(q->sq->prod, q->sq->cons);
	assert_int_equal(q->rq->prod, q->rq->cons);
	assert_int_equal(post(r->qp, &wr), EINVAL);
	fixture_qp_to(r->qp, IBV_QPS_RTS);
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(post(r->qp, &wr), 0);
		assert_int_equal(ibv_post_recv(r->qp, &rwr, &bad), 0);
	}
	assert_int_equal(post(r->qp, &wr), ENOMEM);
	assert_int_equal(ibv_post_recv(r->qp, &rwr, &bad), ENOMEM);
}

FIXTURE_TEST(refused_reset_changes_nothing)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	r->f->refuse[UROCE_CTRL_MODIFY_QP] = EINVAL;
	assert_int_equal(ibv_modify_qp(r->qp, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(post(r->qp, &wr), 0);
}

static struct ibv_qp_ex *
create_ex(struct fixture *r, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.cap = {.max_send_wr = 4, .max_send_sge = 2, .max_inline_data = 32},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r->pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(r->ctx, &attr);

	return qp ? ibv_qp_to_qp_ex(qp) : NULL;
}

FIXTURE_TEST(wr_builders_encode_as_post_send_does)
{
	struct fixture *r = *state;
	struct ibv_qp_ex *ex = create_ex(r, IBV_QPT_RC, IBV_QP_EX_WITH_SEND_WITH_IMM);
	struct uroce_send_wqe *w;

	assert_non_null(ex);
	fixture_qp_to(&ex->qp_base, IBV_QPS_RTS);
	ibv_wr_start(ex);
	ex->wr_id = 10;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, 0x55, 0x1234);
	ibv_wr_set_sge_list(ex, 2, two);
	ex->wr_id = 11;
	ex->wr_flags = 0;
	ibv_wr_send_imm(ex, 0xfeed);
	ibv_wr_set_inline_data(ex, (char *)"hello", 5);
	assert_int_equal(r->f->qp[1].sq->prod, 0);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(r->f->qp[1].sq->prod, 2);
	w = fake_send_wqe(r->f, 1, 0);
	assert_int_equal(w->wr_id, 10);
	assert_int_equal(w->opcode, UROCE_WR_RDMA_WRITE);
	assert_int_equal(w->flags, UROCE_WQE_SIGNALED);
	assert_int_equal(w->rdma.remote_addr, 0x1234);
	assert_int_equal(w->num, 2);
	w = fake_send_wqe(r->f, 1, 1);
	assert_int_equal(w->wr_id, 11);
	assert_int_equal(w->imm, 0xfeed);
	assert_int_equal(w->flags, UROCE_WQE_INLINE);
	assert_memory_equal(w + 1, "hello", 5);
	ibv_destroy_qp(&ex->qp_base);
}

FIXTURE_TEST(wr_complete_posts_all_or_nothing)
{
	struct fixture *r = *state;
	struct ibv_qp_ex *ex =
		create_ex(r, IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ);
	char big[33] = {0};

	fixture_qp_to(&ex->qp_base, IBV_QPS_RTS);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, big, sizeof(big));
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(r->f->qp[1].sq->prod, 0);
	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 1, 2);
	ibv_wr_set_inline_data(ex, big, 1); /* a READ has nothing to send */
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(r->f->qp[1].sq->prod, 0);
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < 5; i++)
		ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), ENOMEM);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	/* the failed lists took no slots, and the lock is free */
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < 4; i++)
		ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(r->f->qp[1].sq->prod, 4);
	ibv_destroy_qp(&ex->qp_base);
	errno = 0;
	assert_null(create_ex(r, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_READ));
	assert_int_equal(errno, EOPNOTSUPP);
}
