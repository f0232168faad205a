/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of test_errno.c that post to queues and poll CQs. */
#include <errno.h>
#include "errno_fixture.h"

/* It returns a negative number, whichever. */
int
poll_overrun_cq(struct errno_fixture *b)
{
	struct ibv_wc wc;
	int rc;

	b->r->f->cq[0].hdr->error = 1;
	rc = ibv_poll_cq(b->r->cq, 1, &wc);
	b->r->f->cq[0].hdr->error = 0;
	return rc < 0 ? errno : rc;
}

int
start_poll_strange(struct errno_fixture *b)
{
	struct ibv_poll_cq_attr attr = {.comp_mask = 1};

	return ibv_start_poll(b->cq_ex, &attr);
}

int
start_poll_overrun(struct errno_fixture *b)
{
	struct ibv_poll_cq_attr attr = {0};
	int rc;

	b->r->f->cq[1].hdr->error = 1;
	rc = ibv_start_poll(b->cq_ex, &attr);
	b->r->f->cq[1].hdr->error = 0;
	return rc;
}

/* bad_wr is the WR that fails, here the second, and the one before it is posted. */
static int
post_recvs(int (*post)(void *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), void *queue)
{
	struct ibv_recv_wr wr[2] = {{.next = &wr[1]}, {.num_sge = 99}}, *bad = NULL;
	int rc = post(queue, wr, &bad);

	assert_ptr_equal(bad, &wr[1]);
	return rc;
}

static int
post_to_qp(void *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ibv_post_recv(queue, wr, bad);
}

static int
post_to_srq(void *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ibv_post_srq_recv(queue, wr, bad);
}

int
post_recv_malformed(struct errno_fixture *b)
{
	return post_recvs(post_to_qp, b->qp_wr);
}

int
post_srq_recv_malformed(struct errno_fixture *b)
{
	return post_recvs(post_to_srq, b->srq);
}

int
post_recv_in_reset(struct errno_fixture *b)
{
	struct ibv_recv_wr wr = {0}, *bad = NULL;
	int rc = ibv_post_recv(b->r->qp, &wr, &bad);

	assert_ptr_equal(bad, &wr);
	return rc;
}

int
post_recv_to_a_qp_with_srq(struct errno_fixture *b)
{
	struct ibv_recv_wr wr = {0}, *bad = NULL;
	int rc = ibv_post_recv(b->qp_srq, &wr, &bad);

	assert_ptr_equal(bad, &wr);
	return rc;
}

int
post_srq_recv_full(struct errno_fixture *b)
{
	struct ibv_recv_wr wr = {0}, *bad;
	int rc;

	do {
		bad = NULL;
		rc = ibv_post_srq_recv(b->srq, &wr, &bad);
		assert_ptr_equal(bad, rc ? &wr : NULL);
	} while (rc == 0);
	return rc;
}

int
post_send_in_reset(struct errno_fixture *b)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	int rc = ibv_post_send(b->r->qp, &wr, &bad);

	assert_ptr_equal(bad, &wr);
	return rc;
}

int
post_send_malformed(struct errno_fixture *b)
{
	struct ibv_send_wr wr[2] = {{.next = &wr[1], .opcode = IBV_WR_SEND},
				    {.opcode = IBV_WR_SEND, .num_sge = 99}};
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(b->qp_wr, wr, &bad);

	assert_ptr_equal(bad, &wr[1]);
	return rc;
}

int
post_send_full(struct errno_fixture *b)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	int rc;

	do {
		bad = NULL;
		rc = ibv_post_send(b->qp_wr, &wr, &bad);
		assert_ptr_equal(bad, rc ? &wr : NULL);
	} while (rc == 0);
	return rc;
}

/* Builders: the list fails as a whole. */
int
wr_complete_full(struct errno_fixture *b)
{
	ibv_wr_start(b->qp_ex);
	for (unsigned int i = 0; i < 9; i++)
		ibv_wr_send(b->qp_ex);
	return ibv_wr_complete(b->qp_ex);
}

int
wr_complete_malformed(struct errno_fixture *b)
{
	struct ibv_sge sge[9] = {{0}};

	ibv_wr_start(b->qp_ex);
	ibv_wr_send(b->qp_ex);
	ibv_wr_set_sge_list(b->qp_ex, 9, sge);
	return ibv_wr_complete(b->qp_ex);
}
