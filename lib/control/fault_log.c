/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>
#include <uroce_abi/wqe.h>
#include "control/fault_log.h"
#include "control/log.h"
#include "control/log_event.h"
#include "control/session.h"
#include "qp/recorder.h"
#include "wire/opcode.h"

const char *
fault_wr_name(uint32_t wr_opcode)
{
	static const char *const name[UROCE_WR_OPCODES] = {
		[UROCE_WR_RDMA_WRITE] = "RDMA WRITE",
		[UROCE_WR_RDMA_WRITE_IMM] = "RDMA WRITE with immediate",
		[UROCE_WR_SEND] = "SEND",
		[UROCE_WR_SEND_IMM] = "SEND with immediate",
		[UROCE_WR_RDMA_READ] = "RDMA READ",
		[UROCE_WR_ATOMIC_CMP_SWAP] = "compare and swap",
		[UROCE_WR_ATOMIC_FETCH_ADD] = "fetch and add",
		[UROCE_WR_LOCAL_INV] = "local invalidate",
		[UROCE_WR_BIND_MW] = "bind window",
		[UROCE_WR_SEND_INV] = "SEND with invalidate",
	};

	return wr_opcode < UROCE_WR_OPCODES && name[wr_opcode] != NULL ? name[wr_opcode] : "?";
}

const char *
fault_opcode(const struct qp_fault *f)
{
	switch (f->side) {
	case QP_SIDE_REQUESTER:
		return fault_wr_name(f->opcode);
	case QP_SIDE_RESPONDER:
		return wire_op_table[f->opcode].name;
	default:
		return "";
	}
}

const char *
fault_side(const struct qp_fault *f)
{
	static const char *const name[] = {
		[QP_SIDE_QP] = "queue pair",
		[QP_SIDE_REQUESTER] = "requester",
		[QP_SIDE_RESPONDER] = "responder",
	};

	return name[f->side <= QP_SIDE_RESPONDER ? f->side : QP_SIDE_QP];
}

static void
set_fields(struct log_fields *to, const struct obj_qp *q, const struct qp_fault *f,
	   const char *peer)
{
	const struct session *s = q->o.s;

	log_field(to, "UROCE_DEVICE", "%s", s->dev->name);
	log_field(to, "UROCE_QPN", "%u", q->qp->conn.qpn);
	log_field_client(to, s);
	log_field(to, "UROCE_PEER_GID", "%s", peer);
	log_field(to, "UROCE_PEER_QPN", "%u", f->peer_qpn);
	log_field(to, "UROCE_REASON", "%s", uroce_error_word(f->reason));
	log_field(to, "UROCE_VENDOR_ERR", "0x%x", f->reason);
	log_field(to, "UROCE_SIDE", "%s", fault_side(f));
	log_field(to, "UROCE_OPCODE", "%s", fault_opcode(f));
	log_field(to, "UROCE_PSN", "%u", f->psn);
}

void
fault_log(const struct obj_qp *q)
{
	static struct qp_recorder copy; /* large, and there is one control thread */
	static struct log_limit limit;
	const struct qp_fault *f = &copy.fault;
	const struct session *s = q->o.s;
	struct log_fields fields = {0};
	char peer[64];

	qp_recorder_copy(&copy, q->qp->bind.recorder);
	if (uroce_error_word(f->reason) == NULL)
		return; /* caught in the middle of the next fault, which is logged again */
	if (!log_allowed(&limit))
		return;
	if (net_gid_to_text(f->peer, peer, sizeof(peer)) < 0)
		strcpy(peer, "-");
	set_fields(&fields, q, f, peer);
	log_event(RTE_LOG_NOTICE, LOG_EVENT_QP_FAILED, &fields,
		  "%s: QP %u of %s (pid %d, uid %u), peer %s QP %u, failed as %s: %s "
		  "(%s, vendor_err 0x%x)%s%s, PSN %u; %s; see: urocectl trace %u",
		  s->dev->name, q->qp->conn.qpn, s->comm, s->peer.pid, s->peer.uid, peer,
		  f->peer_qpn, fault_side(f), uroce_error_sentence(f->reason),
		  uroce_error_word(f->reason), f->reason, *fault_opcode(f) != '\0' ? ", " : "",
		  fault_opcode(f), f->psn, uroce_error_remedy(f->reason), q->qp->conn.qpn);
}
