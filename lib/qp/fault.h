/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a QP failed, or refused something: the packet or WQE, the key, the address, the peer. A QP
 * keeps the last one (struct qp_recorder). conn.why is the reason for which the QP left its working
 * state; it is the vendor_err of all completions with an error.
 */
#ifndef QP_FAULT_H
#define QP_FAULT_H

#include <stdbool.h>
#include <stdint.h>
#include <uroce/errors.h>

struct qp;
struct qp_env;

enum qp_side {
	QP_SIDE_QP, /* the QP as a whole */
	QP_SIDE_REQUESTER,
	QP_SIDE_RESPONDER,
};

struct qp_fault {
	uint64_t at_ns; /* of env->now_ns */
	uint64_t addr;  /* of the request or of the SGE */
	uint32_t length;
	uint32_t key; /* that was refused; 0: none */
	uint32_t psn;
	uint32_t peer_qpn;
	uint8_t peer[16]; /* GID */
	uint16_t reason;  /* enum uroce_error; 0: nothing has happened */
	uint8_t side;     /* enum qp_side */
	uint8_t opcode;   /* responder: of the BTH; requester: enum uroce_wr_opcode */
	bool fatal;       /* the QP left its working state */
	uint8_t spare[3];
};

/*
 * Worker. qp is about to fail for f->reason: records it, with the time and the peer, and tells the
 * control thread. Called before the first completion with an error. Of several faults before a QP
 * is in the error state the first counts. The caller sets reason, side, opcode, psn, key, addr and
 * length; for a datagram that was received, also the peer.
 */
void qp_fault_set(struct qp_env *env, struct qp *qp, const struct qp_fault *f);
/* Worker. qp has refused something for f->reason, but continues. */
void qp_fault_note(struct qp_env *env, struct qp *qp, const struct qp_fault *f);

#endif
