/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out, after a post was refused, which check refused it: posts that succeed pay nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "provider.h"
#include "refusal.h"

#define WHY_MAX 200

static const char *
state_name(uint32_t state)
{
	static const char *const name[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",     [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return state < sizeof(name) / sizeof(name[0]) ? name[state] : "an unknown state";
}

static const char *
type_name(uint32_t type)
{
	return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

static const char *
opcode_name(uint32_t opcode)
{
	static const char *const name[UROCE_WR_OPCODES] = {
		[UROCE_WR_RDMA_WRITE] = "RDMA_WRITE",
		[UROCE_WR_RDMA_WRITE_IMM] = "RDMA_WRITE_WITH_IMM",
		[UROCE_WR_SEND] = "SEND",
		[UROCE_WR_SEND_IMM] = "SEND_WITH_IMM",
		[UROCE_WR_RDMA_READ] = "RDMA_READ",
		[UROCE_WR_ATOMIC_CMP_SWAP] = "ATOMIC_CMP_AND_SWP",
		[UROCE_WR_ATOMIC_FETCH_ADD] = "ATOMIC_FETCH_AND_ADD",
		[UROCE_WR_LOCAL_INV] = "LOCAL_INV",
		[UROCE_WR_BIND_MW] = "BIND_MW",
		[UROCE_WR_SEND_INV] = "SEND_WITH_INV",
	};

	return opcode < UROCE_WR_OPCODES && name[opcode] ? name[opcode] : "unknown";
}

static uint64_t
bytes_of(const struct ibv_send_wr *wr)
{
	uint64_t n = 0;

	for (int i = 0; i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	return n;
}

/* Writes why wr, in a state that sends, was refused with EINVAL. */
static void
explain_wr(char *why, const struct prov_qp *qp, const struct ibv_send_wr *wr)
{
	const struct uroce_wr_rule *rule = uroce_wr_rule_get(wr->opcode);
	const char *opcode = opcode_name(wr->opcode), *type = type_name(qp->vqp.qp.qp_type);
	bool is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;

	if (!uroce_wr_is_legal(rule, qp->vqp.qp.qp_type))
		snprintf(why, WHY_MAX, "QP %u: opcode %s (%u) is not possible on a QP of type %s",
			 qp->qpn, opcode, (unsigned int)wr->opcode, type);
	else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge)
		snprintf(why, WHY_MAX, "QP %u: num_sge is %d, not in 0 .. %u (max_send_sge)",
			 qp->qpn, wr->num_sge, qp->sq.max_sge);
	else if (is_inline && !(rule->flags & UROCE_WQE_INLINE))
		snprintf(why, WHY_MAX, "QP %u: IBV_SEND_INLINE is not possible with opcode %s",
			 qp->qpn, opcode);
	else if (is_inline && bytes_of(wr) > qp->max_inline)
		snprintf(why, WHY_MAX,
			 "QP %u: %llu bytes with IBV_SEND_INLINE, but max_inline_data is %u: "
			 "request more when the QP is created",
			 qp->qpn, (unsigned long long)bytes_of(wr), qp->max_inline);
	else if (wr->opcode == IBV_WR_BIND_MW && !wr->bind_mw.mw)
		snprintf(why, WHY_MAX, "QP %u: bind_mw.mw of a BIND_MW is NULL", qp->qpn);
	else if (qp->vqp.qp.qp_type == IBV_QPT_UD && !wr->wr.ud.ah)
		snprintf(why, WHY_MAX, "QP %u: wr.ud.ah of a %s is NULL", qp->qpn, opcode);
	else
		snprintf(why, WHY_MAX, "QP %u: its state has just changed", qp->qpn);
}

/* Explains what does not depend on the WR. Returns true if it has. */
static bool
explain_queue(char *why, const char *queue, uint32_t number, const struct prov_ring *r, int rc)
{
	if (rc == EIO)
		snprintf(why, WHY_MAX,
			 "%s %u: the connection to uroced is lost, or belongs to the parent of "
			 "this process",
			 queue, number);
	else if (rc == ENOMEM)
		snprintf(why, WHY_MAX, "%s %u: the queue is full: %u WRs are outstanding", queue,
			 number, r->limit);
	return rc == EIO || rc == ENOMEM;
}

/* Prints why, unless rc is that of a full queue and nobody asked for that. */
static void
print(const char *function, const char *why, int rc)
{
	int err = errno;

	if (rc != ENOMEM || getenv("UROCE_VERBOSE") != NULL)
		prov_refusal_print(function, why);
	errno = err;
}

static void
explain_send_state(char *why, const struct prov_qp *qp)
{
	snprintf(why, WHY_MAX, "QP %u: send WRs need state RTS (or SQD, SQE, ERR), and it is in %s",
		 qp->qpn, state_name(qp->state));
}

void
prov_refusal_send(const struct prov_qp *qp, const struct ibv_send_wr *wr, int rc)
{
	char why[WHY_MAX];

	if (!explain_queue(why, "QP", qp->qpn, &qp->sq, rc)) {
		if (wr == NULL || !prov_state_sends(qp->state))
			explain_send_state(why, qp);
		else
			explain_wr(why, qp, wr);
	}
	print("ibv_post_send", why, rc);
}

void
prov_refusal_ex(const struct prov_qp *qp, const char *what, int rc)
{
	char why[WHY_MAX];

	if (!explain_queue(why, "QP", qp->qpn, &qp->sq, rc)) {
		if (what == NULL)
			explain_send_state(why, qp);
		else
			snprintf(why, WHY_MAX,
				 "QP %u, type %s, max_send_sge %u, max_inline_data %u: %s", qp->qpn,
				 type_name(qp->vqp.qp.qp_type), qp->sq.max_sge, qp->max_inline,
				 what);
	}
	print("ibv_wr_complete", why, rc);
}

void
prov_refusal_recv(const struct prov_qp *qp, const struct prov_srq *srq,
		  const struct ibv_recv_wr *wr, int rc)
{
	const struct prov_ring *r = srq ? &srq->ring : &qp->rq;
	const char *queue = srq ? "SRQ" : "QP";
	uint32_t number = srq ? srq->vsrq.srq_num : qp->qpn;
	char why[WHY_MAX];

	if (!srq && !r->hdr)
		snprintf(why, WHY_MAX,
			 "QP %u: it receives from an SRQ: post there, by ibv_post_srq_recv",
			 number);
	else if (!explain_queue(why, queue, number, r, rc)) {
		if (!srq && !prov_state_receives(qp->state))
			snprintf(why, WHY_MAX,
				 "QP %u: receive WRs need state INIT, and it is in %s", number,
				 state_name(qp->state));
		else
			snprintf(why, WHY_MAX, "%s %u: num_sge is %d, not in 0 .. %u (%s)", queue,
				 number, wr ? wr->num_sge : 0, r->max_sge,
				 srq ? "max_sge" : "max_recv_sge");
	}
	print(srq ? "ibv_post_srq_recv" : "ibv_post_recv", why, rc);
}
