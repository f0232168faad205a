/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONTROL_FAULT_LOG_H
#define CONTROL_FAULT_LOG_H

#include "qp/fault.h"

struct obj_qp;

/*
 * Control thread. Logs why q has failed, in a sentence with its program, its peer and the remedy;
 * at most ten a second. Omits keys and addresses, which only the QP's owner may see.
 */
void fault_log(const struct obj_qp *q);

/* Text for faults of QPs. */

/* Returns the operation: "RDMA WRITE" of a requester's WR, "RC_WRITE_ONLY" of a packet; or "". */
const char *fault_opcode(const struct qp_fault *f);
/* Returns "requester", "responder" or "queue pair". */
const char *fault_side(const struct qp_fault *f);
/* Returns the name of a WR's operation, for any value of enum uroce_wr_opcode; "?" for others. */
const char *fault_wr_name(uint32_t wr_opcode);

#endif
