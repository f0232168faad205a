/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/fault_text.h"

#include <stdbool.h>
#include <uroce_abi/wqe.h>
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
