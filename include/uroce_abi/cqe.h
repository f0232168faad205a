/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues: a ring of 64-byte entries with a phase in each. The daemon writes an entry and
 * releases it by its phase word. In lap n (from 0) of the ring the phase of a valid entry is n + 1,
 * so zeroed memory holds no valid entry.
 *
 * cons is the client's consumer index (free running). The daemon uses it to detect overruns only.
 * The client arms the queue by storing into arm. The daemon releases entries, passes a full fence,
 * takes the arm by exchange, and has the notifier write to the channel. The client owns the entries
 * between cons and the last released one: it marks those of a QP that was reset or destroyed dead
 * (opcode UROCE_CQE_DEAD).
 */
#ifndef UROCE_ABI_CQE_H
#define UROCE_ABI_CQE_H

#include <stddef.h>
#include <stdint.h>
#include "version.h"
#include "wqe.h"

enum uroce_cqe_opcode { /* the values are those of enum ibv_wc_opcode */
			UROCE_CQE_SEND = 0,
			UROCE_CQE_RDMA_WRITE = 1,
			UROCE_CQE_RDMA_READ = 2,
			UROCE_CQE_COMP_SWAP = 3,
			UROCE_CQE_FETCH_ADD = 4,
			UROCE_CQE_BIND_MW = 5,
			UROCE_CQE_LOCAL_INV = 6,
			UROCE_CQE_RECV = 128,
			UROCE_CQE_RECV_RDMA_WITH_IMM = 129,
			UROCE_CQE_DEAD = 255,
};

/* Opcode of the completion of a send WQE; SEND for an unknown opcode. */
static inline uint8_t
uroce_cqe_opcode_of(uint32_t wr_opcode)
{
	switch (wr_opcode) {
	case UROCE_WR_RDMA_WRITE:
	case UROCE_WR_RDMA_WRITE_IMM:
		return UROCE_CQE_RDMA_WRITE;
	case UROCE_WR_RDMA_READ:
		return UROCE_CQE_RDMA_READ;
	case UROCE_WR_ATOMIC_CMP_SWAP:
		return UROCE_CQE_COMP_SWAP;
	case UROCE_WR_ATOMIC_FETCH_ADD:
		return UROCE_CQE_FETCH_ADD;
	case UROCE_WR_LOCAL_INV:
		return UROCE_CQE_LOCAL_INV;
	case UROCE_WR_BIND_MW:
		return UROCE_CQE_BIND_MW;
	default:
		return UROCE_CQE_SEND;
	}
}

enum uroce_cqe_flags { /* the values are those of enum ibv_wc_flags */
		       UROCE_CQE_GRH = 1 << 0,
		       UROCE_CQE_WITH_IMM = 1 << 1,
		       UROCE_CQE_WITH_INV = 1 << 3,
		       UROCE_CQE_SOLICITED =
			       1 << 7, /* uroce's own: counts for a solicited-only arm */
};

struct uroce_cqe {
	uint64_t wr_id;
	uint8_t status; /* enum ibv_wc_status */
	uint8_t opcode; /* enum uroce_cqe_opcode */
	uint8_t flags;  /* enum uroce_cqe_flags */
	uint8_t sl;
	uint32_t byte_len;
	uint32_t imm;    /* network order, or the R_Key invalidated */
	uint32_t qp_num; /* local QPN */
	uint32_t src_qp;
	uint16_t pkey_index;
	uint16_t vendor_err; /* enum uroce_error (uroce/errors.h); 0 if status is 0 */
	uint64_t timestamp_ns;
	uint64_t qp_cookie; /* user_handle of the QP (or SRQ) */
	uint8_t spare[12];
	uint32_t phase; /* lap + 1; written last, with release */
};
UROCE_ABI_ASSERT(sizeof(struct uroce_cqe) == 64, "CQE size");
UROCE_ABI_ASSERT(offsetof(struct uroce_cqe, phase) == 60, "phase is the last word");

enum uroce_cq_arm {
	UROCE_CQ_UNARMED = 0,
	UROCE_CQ_ARM_SOLICITED = 1,
	UROCE_CQ_ARM_ANY = 2,
};

/* Header of a CQ; the entries start UROCE_CQ_HDR bytes from its start. */
struct uroce_cq_hdr {
	uint32_t cons; /* written by the client */
	/*
	 * A hint, written by the client: 1 + the CPU on which a thread yields (sched_yield)
	 * whenever it finds the CQ empty; 0: none does.
	 */
	uint32_t yield_cpu;
	uint8_t spare0[56];
	uint32_t arm; /* enum uroce_cq_arm: stored by the client, taken by the daemon */
	uint8_t spare1[60];
	uint32_t error; /* set by the daemon: overrun, the CQ is dead (EVT-08) */
	uint8_t spare2[60];
};
#define UROCE_CQ_HDR 192
UROCE_ABI_ASSERT(sizeof(struct uroce_cq_hdr) == UROCE_CQ_HDR, "CQ header size");

#endif
