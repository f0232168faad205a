/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <uroce/errors.h>
#include "lost_fixture.h"

void
send_flags(struct ibv_qp *qp, uint64_t id, enum ibv_wr_opcode op, unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = op, .send_flags = flags}, *bad;

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

void
post_sends(struct ibv_qp *qp, uint64_t first, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		send_flags(qp, first + i, IBV_WR_SEND, IBV_SEND_SIGNALED);
}

void
post_recvs(struct ibv_qp *qp, uint64_t first, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct ibv_recv_wr wr = {.wr_id = first + i}, *bad;

		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	}
}

void
post_srq(struct ibv_srq *srq, uint64_t first, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct ibv_recv_wr wr = {.wr_id = first + i}, *bad;

		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
}

/* One poll that finds something; -EIO and the like fail the test. */
struct ibv_wc
poll_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (n == 0);
	assert_int_equal(n, 1);
	return wc;
}

void
wc_expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = poll_one(cq);

	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.status, status);
	if (status != IBV_WC_SUCCESS)
		assert_int_equal(wc.vendor_err, UROCE_ERROR_DAEMON_LOST);
}

/* n WRs from first on, the oldest of their queue in front. */
void
left_expect(struct ibv_cq *cq, uint64_t first, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		wc_expect(cq, first + i, i == 0 ? IBV_WC_FATAL_ERR : IBV_WC_WR_FLUSH_ERR);
}

void
end_expect(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (n == 0);
	assert_int_equal(n, -EIO);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), -EIO);
}

void
daemon_dies(struct fixture *r)
{
	fake_die(r->f);
	assert_false(prov_context_alive(prov_context_of(r->ctx)));
}

struct ibv_srq *
srq_of(struct fixture *r, uint32_t wrs)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = wrs, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(r->pd, &attr);

	assert_non_null(srq);
	return srq;
}

struct ibv_qp *
qp_on(struct fixture *r, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &attr);

	assert_non_null(qp);
	fixture_qp_to(qp, IBV_QPS_RTS);
	return qp;
}
