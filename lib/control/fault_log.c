/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/fault_log.h"

#include "control/fault_text.h"
#include "control/log.h"
#include "control/log_event.h"
#include "control/session.h"
#include "qp/recorder.h"

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
