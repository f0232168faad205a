/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the flight recorder that every packet runs (qp/recorder.h). */
#ifndef QP_RECORD_H
#define QP_RECORD_H

#include "qp/qp.h"
#include "qp/recorder.h"

/*
 * Worker. A WQE of this opcode, any number, was taken from the SQ, and all before it were sent. Its
 * packets begin with snd.next_psn.
 */
static inline void
qp_taken(const struct qp_env *env, struct qp *qp, uint32_t wr_opcode)
{
	if (!QP_RECORDER)
		return;
	if (unlikely(qp->conn.sent_ops == 0))
		qp_sent_begin(env, qp);
	qp->conn.sent_ops |= (uint16_t)(1u << (wr_opcode & 31));
}

/*
 * Worker. A request with the ePSN and these enum wire_op_flags has passed all checks; the ePSN does
 * not count it yet.
 */
static inline void
qp_got(const struct qp_env *env, struct qp *qp, uint32_t flags)
{
	if (!QP_RECORDER)
		return;
	if (unlikely(qp->conn.got_ops == 0))
		qp_got_begin(env, qp);
	qp->conn.got_ops |= (uint16_t)flags;
}

#endif
