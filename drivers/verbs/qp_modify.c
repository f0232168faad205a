/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modify and query. The daemon decides on every transition. This side records the state that it
 * requested, to refuse posts that the state forbids (IMM-01, IMM-02) and to empty the queues at
 * RESET.
 */
#include "provider.h"

#include <string.h>
#include "fork.h"

/* The attributes that have one name in struct ibv_qp_attr and struct uroce_qp_attr. */
#define ATTR_COPY(to, from)                                                                        \
	do {                                                                                       \
		(to)->qp_state = (from)->qp_state;                                                 \
		(to)->cur_qp_state = (from)->cur_qp_state;                                         \
		(to)->path_mtu = (from)->path_mtu;                                                 \
		(to)->path_mig_state = (from)->path_mig_state;                                     \
		(to)->qkey = (from)->qkey;                                                         \
		(to)->rq_psn = (from)->rq_psn;                                                     \
		(to)->sq_psn = (from)->sq_psn;                                                     \
		(to)->dest_qp_num = (from)->dest_qp_num;                                           \
		(to)->qp_access_flags = (from)->qp_access_flags;                                   \
		(to)->pkey_index = (from)->pkey_index;                                             \
		(to)->alt_pkey_index = (from)->alt_pkey_index;                                     \
		(to)->en_sqd_async_notify = (from)->en_sqd_async_notify;                           \
		(to)->max_rd_atomic = (from)->max_rd_atomic;                                       \
		(to)->max_dest_rd_atomic = (from)->max_dest_rd_atomic;                             \
		(to)->min_rnr_timer = (from)->min_rnr_timer;                                       \
		(to)->port_num = (from)->port_num;                                                 \
		(to)->timeout = (from)->timeout;                                                   \
		(to)->retry_cnt = (from)->retry_cnt;                                               \
		(to)->rnr_retry = (from)->rnr_retry;                                               \
		(to)->alt_port_num = (from)->alt_port_num;                                         \
		(to)->alt_timeout = (from)->alt_timeout;                                           \
		(to)->rate_limit = (from)->rate_limit;                                             \
	} while (0)

static void
attr_out(struct uroce_qp_attr *to, const struct ibv_qp_attr *from)
{
	memset(to, 0, sizeof(*to));
	ATTR_COPY(to, from);
	prov_ah_attr_out(&to->ah, &from->ah_attr);
	prov_ah_attr_out(&to->alt_ah, &from->alt_ah_attr);
}

static void
attr_in(struct ibv_qp_attr *to, const struct uroce_qp_attr *from)
{
	memset(to, 0, sizeof(*to));
	ATTR_COPY(to, from);
	to->sq_draining = from->sq_draining;
	prov_qp_cap_in(&to->cap, &from->cap);
	prov_ah_attr_in(&to->ah_attr, &from->ah);
	prov_ah_attr_in(&to->alt_ah_attr, &from->alt_ah);
}

/* Takes both rings' locks, so that no post sees the state change within a WR. */
static void
state_set(struct prov_qp *qp, uint32_t state)
{
	prov_lock(&qp->sq.lock);
	prov_lock(&qp->rq.lock);
	qp->state = state;
	prov_unlock(&qp->rq.lock);
	prov_unlock(&qp->sq.lock);
}

/*
 * Empties a queue after RESET. The daemon publishes its next index in cons, so both sides agree
 * whether or not it has restarted from 0.
 */
static void
ring_reset(struct prov_ring *r)
{
	if (!r->hdr)
		return;
	prov_lock(&r->lock);
	r->cons = __atomic_load_n(&r->hdr->cons, __ATOMIC_ACQUIRE);
	r->prod = r->cons;
	__atomic_store_n(&r->hdr->prod, r->prod, __ATOMIC_RELEASE);
	prov_unlock(&r->lock);
}

void
prov_qp_purge_cqs(struct prov_qp *qp)
{
	struct ibv_qp *ibqp = &qp->vqp.qp;

	prov_cq_purge(prov_cq_of(ibqp->send_cq), qp->qpn);
	if (ibqp->recv_cq != ibqp->send_cq)
		prov_cq_purge(prov_cq_of(ibqp->recv_cq), qp->qpn);
}

int
prov_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct prov_qp *qp = prov_qp_of(ibqp);
	struct uroce_modify_qp_req req = {.handle = ibqp->handle, .attr_mask = (uint32_t)mask};
	bool reset = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	uint32_t before = qp->state;
	int rc;

	fork_enter(); /* before the rings' locks */
	attr_out(&req.attr, attr);
	/* No WR may be posted between the time the daemon empties the queues and we do. */
	if (reset)
		state_set(qp, IBV_QPS_RESET);
	rc = prov_call(ibqp->context, UROCE_CTRL_MODIFY_QP, &req, sizeof(req), NULL, 0);
	if (rc) {
		if (reset)
			state_set(qp, before);
		return rc;
	}
	if (reset) {
		ring_reset(&qp->sq);
		ring_reset(&qp->rq);
		prov_qp_purge_cqs(qp);
	} else if (mask & IBV_QP_STATE) {
		state_set(qp, attr->qp_state);
	}
	return 0;
}

int
prov_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
	      struct ibv_qp_init_attr *init)
{
	struct prov_qp *qp = prov_qp_of(ibqp);
	struct uroce_handle req = {.handle = ibqp->handle};
	struct uroce_query_qp_rep rep;
	int rc;

	(void)mask; /* a hint only: all attributes are returned */
	rc = prov_call(ibqp->context, UROCE_CTRL_QUERY_QP, &req, sizeof(req), &rep, sizeof(rep));
	if (rc)
		return rc;
	attr_in(attr, &rep.attr);
	memset(init, 0, sizeof(*init));
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->qp_type = ibqp->qp_type;
	init->cap = attr->cap;
	init->sq_sig_all = qp->sig_all;
	return 0;
}
