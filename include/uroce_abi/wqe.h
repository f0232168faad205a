/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work queue entries. A send WQE is a 48-byte header followed by SGEs or by inline data. The stride
 * of a queue is fixed: 48 + max(16 * max_send_sge, max_inline) bytes, rounded up to 64. A receive
 * WQE is a 16-byte header followed by SGEs; its stride is 16 + 16 * max_recv_sge, rounded up to 32.
 */
#ifndef UROCE_ABI_WQE_H
#define UROCE_ABI_WQE_H

#include <stddef.h>
#include <stdint.h>
#include "version.h"

enum uroce_wr_opcode {
	UROCE_WR_RDMA_WRITE = 0, /* the values are those of enum ibv_wr_opcode */
	UROCE_WR_RDMA_WRITE_IMM = 1,
	UROCE_WR_SEND = 2,
	UROCE_WR_SEND_IMM = 3,
	UROCE_WR_RDMA_READ = 4,
	UROCE_WR_ATOMIC_CMP_SWAP = 5,
	UROCE_WR_ATOMIC_FETCH_ADD = 6,
	UROCE_WR_LOCAL_INV = 7,
	UROCE_WR_BIND_MW = 8,
	UROCE_WR_SEND_INV = 9,
	UROCE_WR_OPCODES = 10,
};

enum uroce_wqe_flags { /* the values are those of enum ibv_send_flags */
		       UROCE_WQE_FENCE = 1 << 0,
		       UROCE_WQE_SIGNALED = 1 << 1,
		       UROCE_WQE_SOLICITED = 1 << 2,
		       UROCE_WQE_INLINE = 1 << 3,
};

struct uroce_sge {
	uint64_t addr;
	uint32_t length; /* 0 .. 2^31; 0 means 0 */
	uint32_t lkey;
};
UROCE_ABI_ASSERT(sizeof(struct uroce_sge) == 16, "SGE size");

struct uroce_send_wqe {
	uint64_t wr_id;
	uint8_t opcode; /* enum uroce_wr_opcode */
	uint8_t flags;  /* enum uroce_wqe_flags */
	uint16_t num;   /* SGEs, or bytes of inline data when UROCE_WQE_INLINE */
	uint32_t imm;   /* immediate data in network order, or the R_Key to invalidate */
	union {
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
			uint8_t spare[4];
		} rdma; /* READ, WRITE (addr and rkey) and atomics */
		struct {
			uint32_t ah; /* handle of an address handle of this context */
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
		struct {
			uint64_t addr;
			uint64_t length;
			uint32_t mr_lkey;
			uint32_t mw_rkey; /* names the window; its low 8 bits are ignored */
			uint32_t access;
			uint32_t new_rkey; /* type 2 only */
		} bind;
	};
	/* struct uroce_sge sge[num], or inline data */
};
#define UROCE_SEND_WQE_HDR 48
UROCE_ABI_ASSERT(sizeof(struct uroce_send_wqe) == UROCE_SEND_WQE_HDR, "send WQE header size");
UROCE_ABI_ASSERT(offsetof(struct uroce_send_wqe, rdma) == 16, "send WQE union offset");

struct uroce_recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint8_t spare[4];
	/* struct uroce_sge sge[num_sge] */
};
#define UROCE_RECV_WQE_HDR 16
UROCE_ABI_ASSERT(sizeof(struct uroce_recv_wqe) == UROCE_RECV_WQE_HDR, "receive WQE header size");

/* Stride in bytes of a send queue whose WQEs hold max_sge SGEs or max_inline bytes. */
static inline uint32_t
uroce_sq_stride(uint32_t max_sge, uint32_t max_inline)
{
	uint32_t body = max_sge * 16 > max_inline ? max_sge * 16 : max_inline;

	return (UROCE_SEND_WQE_HDR + body + 63) & ~63u;
}

/* Stride in bytes of a receive queue or SRQ whose WQEs hold max_sge SGEs. */
static inline uint32_t
uroce_rq_stride(uint32_t max_sge)
{
	return (UROCE_RECV_WQE_HDR + max_sge * 16 + 31) & ~31u;
}

#endif
