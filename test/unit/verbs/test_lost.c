/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon is lost: every outstanding WR completes exactly once, wherever the worker was stopped
 * (CQE-15). Waiting threads wake up, and all objects can be destroyed (EVT-14).
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "lost_fixture.h"

/* The daemon's completions come first, then the remaining WRs of each queue in order. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(outstanding_wrs_complete_in_error)
{
	struct fixture *r = *state;
	struct ibv_wc wc;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 2);
	send_flags(r->qp, SENT + 2, IBV_WR_RDMA_READ, 0); /* unsignaled */
	send_flags(r->qp, SENT + 3, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED);
	post_recvs(r->qp, RECEIVED, 3);
	fake_retire_send(r->f, 0, 0, FAKE_WHOLE);
	fake_retire_recv(r->f, 0, 0, FAKE_WHOLE);
	daemon_dies(r);
	wc_expect(r->cq, SENT, IBV_WC_SUCCESS);
	wc_expect(r->cq, RECEIVED, IBV_WC_SUCCESS);
	wc = poll_one(r->cq);
	assert_int_equal(wc.wr_id, SENT + 1);
	assert_int_equal(wc.status, IBV_WC_FATAL_ERR);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.qp_num, r->qp->qp_num);
	wc = poll_one(r->cq);
	assert_int_equal(wc.wr_id, SENT + 2);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	wc = poll_one(r->cq);
	assert_int_equal(wc.wr_id, SENT + 3);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	wc = poll_one(r->cq);
	assert_int_equal(wc.wr_id, RECEIVED + 1);
	assert_int_equal(wc.status, IBV_WC_FATAL_ERR);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	wc_expect(r->cq, RECEIVED + 2, IBV_WC_WR_FLUSH_ERR);
	end_expect(r->cq);
}

/* A batch returns the completions that exist, and no error hides them. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(outstanding_wrs_complete_in_batches)
{
	struct fixture *r = *state;
	struct ibv_wc wc[5];

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 7);
	daemon_dies(r);
	assert_int_equal(ibv_poll_cq(r->cq, 5, wc), 5);
	assert_int_equal(wc[4].wr_id, SENT + 4);
	assert_int_equal(ibv_poll_cq(r->cq, 5, wc), 2);
	assert_int_equal(ibv_poll_cq(r->cq, 5, wc), -EIO);
}

REQUIREMENT("CQE-15")
FIXTURE_TEST(idle_queues_complete_nothing)
{
	struct fixture *r = *state;

	daemon_dies(r);
	end_expect(r->cq);
}

/* A successful unsignaled WR has nothing to report. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(unsignaled_wrs_complete_in_error_too)
{
	struct fixture *r = *state;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	for (unsigned int i = 0; i < 3; i++)
		send_flags(r->qp, SENT + i, IBV_WR_SEND, 0);
	fake_retire_send(r->f, 0, 0, FAKE_WHOLE);
	daemon_dies(r);
	left_expect(r->cq, SENT + 1, 2);
	end_expect(r->cq);
}

/* One WR complete, one in any stage of retirement, one after it. */
REQUIREMENT("CQE-15")
UNIT_TEST(wrs_complete_wherever_the_worker_stopped)
{
	for (enum fake_stop stop = FAKE_AT_CONS; stop < FAKE_STOPS; stop++) {
		struct fixture *r;
		bool there = stop == FAKE_AT_DONE; /* its completion */

		if (stop == FAKE_AT_TAKEN)
			continue;
		fixture_setup(state);
		r = *state;
		fixture_qp_to(r->qp, IBV_QPS_RTS);
		post_sends(r->qp, SENT, 3);
		post_recvs(r->qp, RECEIVED, 3);
		fake_retire_send(r->f, 0, 0, FAKE_WHOLE);
		fake_retire_recv(r->f, 0, 0, FAKE_WHOLE);
		fake_retire_send(r->f, 0, 0, stop);
		if (stop == FAKE_AT_PHASE)
			r->f->cq[0].prod++; /* another worker stops at the next entry */
		fake_retire_recv(r->f, 0, 0, stop);
		daemon_dies(r);
		wc_expect(r->cq, SENT, IBV_WC_SUCCESS);
		wc_expect(r->cq, RECEIVED, IBV_WC_SUCCESS);
		if (there) {
			wc_expect(r->cq, SENT + 1, IBV_WC_SUCCESS);
			wc_expect(r->cq, RECEIVED + 1, IBV_WC_SUCCESS);
		}
		left_expect(r->cq, SENT + 1 + there, 2 - there);
		left_expect(r->cq, RECEIVED + 1 + there, 2 - there);
		end_expect(r->cq);
		fixture_teardown(state);
	}
}

/* The slot of the WR that was being retired holds another's by now. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(reused_slots_complete_once)
{
	struct fixture *r = *state;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 8);
	post_recvs(r->qp, RECEIVED, 8);
	fake_retire_send(r->f, 0, 0, FAKE_AT_ENTRY);
	fake_retire_recv(r->f, 0, 0, FAKE_AT_ENTRY);
	post_sends(r->qp, SENT + 8, 1);
	post_recvs(r->qp, RECEIVED + 8, 1);
	daemon_dies(r);
	left_expect(r->cq, SENT, 9);
	left_expect(r->cq, RECEIVED, 9);
	end_expect(r->cq);
}

/* The completion that the worker had just released was polled long ago. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(wrs_after_a_polled_completion_complete)
{
	struct fixture *r = *state;
	struct ibv_qp *other = qp_on(r, r->cq, NULL);

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 2);
	fake_retire_send(r->f, 0, 0, FAKE_AT_DONE);
	wc_expect(r->cq, SENT, IBV_WC_SUCCESS);
	/* and another worker has been once round the CQ since */
	for (unsigned int i = 0; i < 16; i++) {
		fake_complete(r->f, 0, (struct uroce_cqe){.wr_id = i, .qp_num = other->qp_num});
		wc_expect(r->cq, i, IBV_WC_SUCCESS);
	}
	daemon_dies(r);
	left_expect(r->cq, SENT + 1, 1);
	end_expect(r->cq);
	ibv_destroy_qp(other);
}

/* WQE indices repeat after RESET: old completions do not count for new WRs. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(wrs_posted_after_a_reset_complete)
{
	struct fixture *r = *state;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 1);
	fake_retire_send(r->f, 0, 0, FAKE_WHOLE);
	wc_expect(r->cq, SENT, IBV_WC_SUCCESS);
	fixture_qp_to(r->qp, IBV_QPS_RESET);
	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT + 10, 2);
	fake_retire_send(r->f, 0, 0, FAKE_AT_ENTRY);
	daemon_dies(r);
	left_expect(r->cq, SENT + 10, 2);
	end_expect(r->cq);
}

/* Two QPs share a CQ; the worker of one stopped at an entry before the other's. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(gap_in_a_shared_cq_is_skipped)
{
	struct fixture *r = *state;
	struct ibv_qp *other = qp_on(r, r->cq, NULL);

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 2);
	post_sends(other, SENT + 100, 3);
	fake_retire_send(r->f, 0, 0, FAKE_AT_PHASE);
	r->f->cq[0].prod++;
	fake_retire_send(r->f, 1, 0, FAKE_WHOLE);
	fake_retire_send(r->f, 1, 0, FAKE_WHOLE);
	daemon_dies(r);
	wc_expect(r->cq, SENT + 100, IBV_WC_SUCCESS);
	wc_expect(r->cq, SENT + 101, IBV_WC_SUCCESS);
	left_expect(r->cq, SENT, 2);
	left_expect(r->cq, SENT + 102, 1);
	end_expect(r->cq);
	ibv_destroy_qp(other);
}

REQUIREMENT("CQE-15")
FIXTURE_TEST(extended_poll_returns_lost_wrs)
{
	struct fixture *r = *state;
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_QP_NUM};
	struct ibv_cq_ex *ex = prov_create_cq_ex(r->ctx, &attr);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_qp *qp;

	/* libibverbs would not make one without a kernel's device */
	cq->context = r->ctx;
	pthread_mutex_init(&cq->mutex, NULL);
	pthread_cond_init(&cq->cond, NULL);
	qp = qp_on(r, cq, NULL);
	post_sends(qp, SENT, 3);
	fake_retire_send(r->f, 1, 1, FAKE_WHOLE);
	daemon_dies(r);
	assert_int_equal(ibv_start_poll(ex, &poll_attr), 0);
	assert_int_equal(ex->wr_id, SENT);
	assert_int_equal(ex->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_next_poll(ex), 0);
	assert_int_equal(ex->wr_id, SENT + 1);
	assert_int_equal(ex->status, IBV_WC_FATAL_ERR);
	assert_int_equal(ibv_wc_read_qp_num(ex), qp->qp_num);
	ibv_end_poll(ex);
	assert_int_equal(ibv_start_poll(ex, &poll_attr), 0);
	assert_int_equal(ex->wr_id, SENT + 2);
	assert_int_equal(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	assert_int_equal(ibv_start_poll(ex, &poll_attr), EIO);
	ibv_destroy_qp(qp);
	assert_int_equal(prov_destroy_cq(cq), 0);
}

/* Entries saved by a resize are older than those in the ring. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(wrs_complete_after_a_resize)
{
	struct fixture *r = *state;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 4);
	fake_retire_send(r->f, 0, 0, FAKE_WHOLE);
	assert_int_equal(ibv_resize_cq(r->cq, 64), 0);
	fake_retire_send(r->f, 0, 0, FAKE_WHOLE);
	daemon_dies(r);
	wc_expect(r->cq, SENT, IBV_WC_SUCCESS);
	wc_expect(r->cq, SENT + 1, IBV_WC_SUCCESS);
	left_expect(r->cq, SENT + 2, 2);
	end_expect(r->cq);
}

/*
 * The connection is closed but the workers still run: their completions are not made up as errors.
 */
REQUIREMENT("CQE-15")
FIXTURE_TEST(completion_waits_until_the_workers_have_stopped)
{
	struct fixture *r = *state;
	struct ibv_wc wc;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 2);
	fake_hang_up(r->f);
	assert_false(prov_context_alive(prov_context_of(r->ctx)));
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
	fake_retire_send(r->f, 0, 0, FAKE_WHOLE);
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
	daemon_dies(r);
	wc_expect(r->cq, SENT, IBV_WC_SUCCESS);
	left_expect(r->cq, SENT + 1, 1);
	end_expect(r->cq);
}

/* With a garbled header there are as many completions as the queue holds. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(garbled_header_loses_no_wr)
{
	struct fixture *r = *state;
	unsigned int n = 0;
	struct ibv_wc wc;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 2);
	r->f->qp[0].sq->done = r->f->qp[0].sq->cons = 0x80000000u;
	daemon_dies(r);
	while (ibv_poll_cq(r->cq, 1, &wc) >= 0)
		n++;
	assert_int_equal(n, 8);
}

/* QP-22 also holds without a daemon. */
REQUIREMENT("QP-22")
FIXTURE_TEST(queues_can_be_destroyed_after_the_loss)
{
	struct fixture *r = *state;
	struct ibv_qp *early = qp_on(r, r->cq, NULL), *late = qp_on(r, r->cq, NULL);

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(early, SENT + 100, 2);
	fake_retire_send(r->f, 1, 0, FAKE_WHOLE);
	post_sends(late, SENT + 200, 2);
	fake_retire_send(r->f, 2, 0, FAKE_WHOLE);
	post_sends(r->qp, SENT, 1);
	daemon_dies(r);
	ibv_destroy_qp(early); /* before the CQ is polled */
	wc_expect(r->cq, SENT + 200, IBV_WC_SUCCESS);
	ibv_destroy_qp(late);
	left_expect(r->cq, SENT, 1);
	end_expect(r->cq);
	assert_int_equal(ibv_destroy_cq(r->cq), EBUSY);
}

/* A worker that still runs adds no completion of a destroyed QP. */
REQUIREMENT("QP-22")
FIXTURE_TEST(queues_can_be_destroyed_while_workers_still_run)
{
	struct fixture *r = *state;
	struct ibv_qp *gone = qp_on(r, r->cq, NULL);

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(gone, SENT + 100, 1);
	post_sends(r->qp, SENT, 1);
	fake_hang_up(r->f);
	assert_false(prov_context_alive(prov_context_of(r->ctx)));
	assert_int_equal(ibv_destroy_qp(gone), 0);
	fake_retire_send(r->f, 1, 0, FAKE_WHOLE);
	daemon_dies(r);
	left_expect(r->cq, SENT, 1);
	end_expect(r->cq);
}

REQUIREMENT("CQE-15")
FIXTURE_TEST(posts_after_the_loss_fail_at_once)
{
	struct fixture *r = *state;
	struct ibv_srq *srq = srq_of(r, 8);
	struct ibv_send_wr chain[2] = {{.wr_id = SENT + 1, .opcode = IBV_WR_SEND}}, *bad = NULL;
	struct ibv_recv_wr rwr = {.wr_id = RECEIVED}, *rbad = NULL;

	chain[0].next = &chain[1];
	fixture_qp_to(r->qp, IBV_QPS_RTS);
	post_sends(r->qp, SENT, 1);
	daemon_dies(r);
	assert_int_equal(ibv_post_send(r->qp, chain, &bad), EIO);
	assert_ptr_equal(bad, &chain[0]);
	assert_int_equal(ibv_post_recv(r->qp, &rwr, &rbad), EIO);
	assert_ptr_equal(rbad, &rwr);
	rbad = NULL;
	assert_int_equal(ibv_post_srq_recv(srq, &rwr, &rbad), EIO);
	assert_ptr_equal(rbad, &rwr);
	left_expect(r->cq, SENT, 1);
	end_expect(r->cq);
	ibv_destroy_srq(srq);
}

/* A program that only posts notices it, too. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(post_notices_the_lost_daemon)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {0}, *rbad;
	int rc = 0;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	fake_die(r->f);
	for (unsigned int i = 0; i < 1u << 14 && rc != EIO; i++)
		rc = ibv_post_send(r->qp, &wr, &bad);
	assert_int_equal(rc, EIO);
	assert_int_equal(ibv_post_recv(r->qp, &rwr, &rbad), EIO);
}

/* What a thread sees that has read the descriptor before another one found the daemon gone. */
REQUIREMENT("EVT-14")
FIXTURE_TEST(a_closed_descriptor_is_a_lost_daemon)
{
	struct fixture *r = *state;
	struct prov_context *ctx = prov_context_of(r->ctx);
	int sock = ctx->ipc.sock;

	ctx->ipc.sock = fcntl(sock, F_DUPFD, 500);
	assert_true(ctx->ipc.sock >= 500);
	close(ctx->ipc.sock);
	assert_false(prov_context_alive(ctx));
	ctx->ipc.sock = sock;
	ctx->lost = false;
}
