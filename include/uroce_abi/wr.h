/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Legality of send work requests: the table that provider and daemon share. The provider
 * refuses an illegal WR when it is posted (IMM-03); the daemon, which trusts no client, completes
 * one with IBV_WC_LOC_QP_OP_ERR (CQE-03). Limits that depend on the QP (SGEs, inline bytes,
 * max_rd_atomic, path MTU) are not here.
 */
#ifndef UROCE_ABI_WR_H
#define UROCE_ABI_WR_H

#include <stdbool.h>
#include <stdint.h>
#include "wqe.h"

enum uroce_qp_types { /* bit number: enum ibv_qp_type */
		      UROCE_QPT_RC = 1 << 2,
		      UROCE_QPT_UC = 1 << 3,
		      UROCE_QPT_UD = 1 << 4,
};

/* Properties of a work request, given by its opcode. */
enum uroce_wr_traits {
	UROCE_WRT_SENDS = 1 << 0,      /* sends data, from SGEs or inline */
	UROCE_WRT_FETCHES = 1 << 1,    /* its SGEs receive the response; limited by max_rd_atomic */
	UROCE_WRT_LOCAL = 1 << 2,      /* no packet */
	UROCE_WRT_REMOTE = 1 << 3,     /* names remote memory: rdma.remote_addr and rdma.rkey */
	UROCE_WRT_EIGHT = 1 << 4,      /* its SGEs are 8 bytes in total */
	UROCE_WRT_IMM = 1 << 5,        /* imm is immediate data */
	UROCE_WRT_INV = 1 << 6,        /* imm is an R_Key to invalidate, here or at the peer */
	UROCE_WRT_TAKES_RECV = 1 << 7, /* consumes a receive WQE of the peer */
};

struct uroce_wr_rule {
	uint8_t opcode;   /* enum uroce_wr_opcode */
	uint8_t qp_types; /* enum uroce_qp_types on which it is legal */
	uint8_t flags;    /* enum uroce_wqe_flags that are legal */
	uint8_t traits;   /* enum uroce_wr_traits */
};
UROCE_ABI_ASSERT(sizeof(struct uroce_wr_rule) == 4, "wr_rule size");

/* Flags that every WR may have. A fence waits for READs and atomics, which only RC has. */
#define UROCE_WQE_ANY_FLAGS (UROCE_WQE_FENCE | UROCE_WQE_SIGNALED | UROCE_WQE_SOLICITED)

/* Returns the rule of an opcode, never NULL. An unknown opcode is legal on no QP type. */
static inline const struct uroce_wr_rule *
uroce_wr_rule_get(uint32_t opcode)
{
#define CONN   (UROCE_QPT_RC | UROCE_QPT_UC)
#define ALL    (UROCE_QPT_RC | UROCE_QPT_UC | UROCE_QPT_UD)
#define FLAGS  UROCE_WQE_ANY_FLAGS
#define INLINE (UROCE_WQE_ANY_FLAGS | UROCE_WQE_INLINE)
#define DO(x)  UROCE_WRT_##x
	static const struct uroce_wr_rule rules[UROCE_WR_OPCODES + 1] = {
		{UROCE_WR_RDMA_WRITE, CONN, INLINE, DO(SENDS) | DO(REMOTE)},
		{UROCE_WR_RDMA_WRITE_IMM, CONN, INLINE,
		 DO(SENDS) | DO(REMOTE) | DO(IMM) | DO(TAKES_RECV)},
		{UROCE_WR_SEND, ALL, INLINE, DO(SENDS) | DO(TAKES_RECV)},
		{UROCE_WR_SEND_IMM, ALL, INLINE, DO(SENDS) | DO(IMM) | DO(TAKES_RECV)},
		{UROCE_WR_RDMA_READ, UROCE_QPT_RC, FLAGS, DO(FETCHES) | DO(REMOTE)},
		{UROCE_WR_ATOMIC_CMP_SWAP, UROCE_QPT_RC, FLAGS,
		 DO(FETCHES) | DO(REMOTE) | DO(EIGHT)},
		{UROCE_WR_ATOMIC_FETCH_ADD, UROCE_QPT_RC, FLAGS,
		 DO(FETCHES) | DO(REMOTE) | DO(EIGHT)},
		{UROCE_WR_LOCAL_INV, CONN, FLAGS, DO(LOCAL) | DO(INV)},
		{UROCE_WR_BIND_MW, CONN, FLAGS, DO(LOCAL)},
		{UROCE_WR_SEND_INV, UROCE_QPT_RC, INLINE, DO(SENDS) | DO(INV) | DO(TAKES_RECV)},
		{UROCE_WR_OPCODES, 0, 0, 0},
	};
#undef CONN
#undef ALL
#undef FLAGS
#undef INLINE
#undef DO

	return &rules[opcode < UROCE_WR_OPCODES ? opcode : (uint32_t)UROCE_WR_OPCODES];
}

/* Returns true if a WR of this opcode is legal on a QP of this type (enum ibv_qp_type; < 32). */
static inline bool
uroce_wr_is_legal(const struct uroce_wr_rule *rule, uint32_t qp_type)
{
	return rule->qp_types >> qp_type & 1;
}

#endif
