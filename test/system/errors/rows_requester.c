/* SPDX-License-Identifier: BSD-3-Clause */
/* RC rows whose error the requester finds, or that end without a response. */
#include "rows.h"

#define THREE_PACKETS 3072 /* at the path MTU 1024 */

const struct row rows_requester[] = {
	/* L_Keys and lengths: nothing is sent. */
	/* Requirements: CQE-04, REQ-03 */
	{"send_own_bad_lkey", OP_SEND, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"send_own_other_pd", OP_SEND, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"send_own_deregistered", OP_SEND, LKEY_DEREG, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"send_own_range", OP_SEND, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-02, WIRE-05 */
	{"send_too_long", OP_SEND, TOO_LONG, .status = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"send_imm_own_bad_lkey", OP_SEND_IMM, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"send_imm_own_other_pd", OP_SEND_IMM, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"send_imm_own_deregistered", OP_SEND_IMM, LKEY_DEREG, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"send_imm_own_range", OP_SEND_IMM, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-02, WIRE-05 */
	{"send_imm_too_long", OP_SEND_IMM, TOO_LONG, .status = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"write_own_bad_lkey", OP_WRITE, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"write_own_other_pd", OP_WRITE, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"write_own_deregistered", OP_WRITE, LKEY_DEREG, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"write_own_range", OP_WRITE, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-02, WIRE-05 */
	{"write_too_long", OP_WRITE, TOO_LONG, .status = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"write_imm_own_bad_lkey", OP_WRITE_IMM, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"write_imm_own_other_pd", OP_WRITE_IMM, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"write_imm_own_deregistered", OP_WRITE_IMM, LKEY_DEREG, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"write_imm_own_range", OP_WRITE_IMM, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-02, WIRE-05 */
	{"write_imm_too_long", OP_WRITE_IMM, TOO_LONG, .status = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"read_own_bad_lkey", OP_READ, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"read_own_other_pd", OP_READ, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"read_own_deregistered", OP_READ, LKEY_DEREG, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"read_own_range", OP_READ, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"read_own_readonly", OP_READ, LKEY_READONLY, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-02, WIRE-05 */
	{"read_too_long", OP_READ, TOO_LONG, .status = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-03, REQ-02 */
	{"read_no_credit", OP_READ, NO_CREDIT, .status = IBV_WC_LOC_QP_OP_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"cmp_swap_own_bad_lkey", OP_CMP_SWAP, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"cmp_swap_own_other_pd", OP_CMP_SWAP, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"cmp_swap_own_deregistered", OP_CMP_SWAP, LKEY_DEREG, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"cmp_swap_own_range", OP_CMP_SWAP, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"cmp_swap_own_readonly", OP_CMP_SWAP, LKEY_READONLY, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-02, REQ-03 */
	{"cmp_swap_of_16_bytes", OP_CMP_SWAP, ATOMIC_LENGTH, .status = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-03, REQ-02 */
	{"cmp_swap_no_credit", OP_CMP_SWAP, NO_CREDIT, .status = IBV_WC_LOC_QP_OP_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"fetch_add_own_bad_lkey", OP_FETCH_ADD, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"fetch_add_own_other_pd", OP_FETCH_ADD, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"fetch_add_own_deregistered", OP_FETCH_ADD, LKEY_DEREG, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"fetch_add_own_range", OP_FETCH_ADD, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-04, REQ-03 */
	{"fetch_add_own_readonly", OP_FETCH_ADD, LKEY_READONLY, .status = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-02, REQ-03 */
	{"fetch_add_of_16_bytes", OP_FETCH_ADD, ATOMIC_LENGTH, .status = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-03, REQ-02 */
	{"fetch_add_no_credit", OP_FETCH_ADD, NO_CREDIT, .status = IBV_WC_LOC_QP_OP_ERR},
	/* Binds and invalidations. */
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_bad_lkey", OP_BIND_MW, BIND_LKEY, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_other_pd", OP_BIND_MW, BIND_OTHER_PD, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_not_allowed", OP_BIND_MW, BIND_NO_RIGHT, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_readonly", OP_BIND_MW, BIND_READONLY, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_range", OP_BIND_MW, BIND_RANGE, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_twice", OP_BIND_MW, BIND_TWICE, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_of_nothing", OP_BIND_MW, BIND_EMPTY, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_stale_rkey", OP_BIND_MW, BIND_STALE, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"bind_mw_window_other_pd", OP_BIND_MW, BIND_WINDOW_PD, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"local_inv_bad_rkey", OP_LOCAL_INV, INVALIDATE_BAD, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"local_inv_region", OP_LOCAL_INV, INVALIDATE_REGION, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"local_inv_unbound", OP_LOCAL_INV, INVALIDATE_UNBOUND, .status = IBV_WC_MW_BIND_ERR},
	/* Requirements: CQE-06, MEM-04 */
	{"local_inv_window_other_qp", OP_LOCAL_INV, INVALIDATE_OTHER_QP,
	 .status = IBV_WC_MW_BIND_ERR},
	/* No response. */
	/* Requirements: CQE-12, REQ-04 */
	{"send_no_peer", OP_SEND, PEER_NONE, .status = IBV_WC_RETRY_EXC_ERR},
	/* Requirements: CQE-12, REQ-04 */
	{"write_no_peer", OP_WRITE, PEER_NONE, .status = IBV_WC_RETRY_EXC_ERR},
	/* Requirements: CQE-12, REQ-04 */
	{"read_no_peer", OP_READ, PEER_NONE, .status = IBV_WC_RETRY_EXC_ERR},
	/* Requirements: CQE-12, REQ-04 */
	{"cmp_swap_no_peer", OP_CMP_SWAP, PEER_NONE, .status = IBV_WC_RETRY_EXC_ERR},
	/* Requirements: CQE-12, QP-19 */
	{"send_peer_destroyed", OP_SEND, PEER_DESTROYED, .status = IBV_WC_RETRY_EXC_ERR},
	/* Requirements: CQE-12, QP-19 */
	{"send_peer_in_err", OP_SEND, PEER_ERR, .status = IBV_WC_RETRY_EXC_ERR},
	/* Requirements: CQE-12, QP-10 */
	{"send_peer_in_reset", OP_SEND, PEER_RESET, .status = IBV_WC_RETRY_EXC_ERR},
	/* In ERR before the post. */
	/* Requirements: CQE-05, QP-21 */
	{"send_in_err", OP_SEND, BY_HAND, .status = IBV_WC_WR_FLUSH_ERR},
	/* Requirements: CQE-05, QP-21 */
	{"write_imm_in_err", OP_WRITE_IMM, BY_HAND, .status = IBV_WC_WR_FLUSH_ERR},
	/* Requirements: CQE-05, QP-21 */
	{"read_in_err", OP_READ, BY_HAND, .status = IBV_WC_WR_FLUSH_ERR},
	/* Requirements: CQE-05, QP-21 */
	{"fetch_add_in_err", OP_FETCH_ADD, BY_HAND, .status = IBV_WC_WR_FLUSH_ERR},
	{0},
};
