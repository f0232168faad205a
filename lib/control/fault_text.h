/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for faults of QPs. */
#ifndef CONTROL_FAULT_TEXT_H
#define CONTROL_FAULT_TEXT_H

#include "qp/fault.h"

/* Returns the operation: "RDMA WRITE" of a requester's WR, "RC_WRITE_ONLY" of a packet; or "". */
const char *fault_opcode(const struct qp_fault *f);
/* Returns "requester", "responder" or "queue pair". */
const char *fault_side(const struct qp_fault *f);
/* Returns the name of a WR's operation, for any value of enum uroce_wr_opcode; "?" for others. */
const char *fault_wr_name(uint32_t wr_opcode);

#endif
