/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/fault_log.h"

#include "control/fault_text.h"
#include "control/log.h"
#include "control/session.h"
#include "qp/recorder.h"

void
fault_log(const struct obj_qp *q)
{
	static struct qp_recorder copy; /* large, and there is one control thread */
	const struct qp_fault *f = &copy.fault;
	const struct session *s = q->o.s;
	char peer[64];

	qp_recorder_copy(&copy, q->qp->bind.recorder);
	if (uroce_error_word(f->reason) == NULL)
		return; /* caught in the middle of the next fault, which is logged again */
	if (net_gid_to_text(f->peer, peer, sizeof(peer)) < 0)
		strcpy(peer, "-");
	LOG_LIMITED(NOTICE,
		    "%s: QP %u of %s (pid %d, uid %u), peer %s QP %u, failed as %s: %s "
		    "(%s, vendor_err 0x%x)%s%s, PSN %u; %s; see: urocectl trace %u",
		    s->dev->name, q->qp->conn.qpn, s->comm, s->peer.pid, s->peer.uid, peer,
		    f->peer_qpn, fault_side(f), uroce_error_sentence(f->reason),
		    uroce_error_word(f->reason), f->reason, *fault_opcode(f) != '\0' ? ", " : "",
		    fault_opcode(f), f->psn, uroce_error_remedy(f->reason), q->qp->conn.qpn);
}
