/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC rows whose error the responder finds, and zero-length requests, which have none. The pairs of
 * CQE-16.
 */
#include "rows.h"

#define THREE_PACKETS 3072 /* at the path MTU 1024 */

const struct row rows_responder[] = {
	/* Receive WQEs. */
	/* Requirements: CQE-16, CQE-02, CQE-09, NAK-07 */
	{"send_recv_short", OP_SEND, RECV_SHORT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .rsp = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_recv_lkey", OP_SEND, RECV_LKEY, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_recv_readonly", OP_SEND, RECV_READONLY, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_recv_other_pd", OP_SEND, RECV_OTHER_PD, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_recv_range", OP_SEND, RECV_RANGE, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_recv_deregistered", OP_SEND, RECV_DEREG, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-13, NAK-10 */
	{"send_no_recv", OP_SEND, RECV_NONE, .status = IBV_WC_RNR_RETRY_EXC_ERR},
	/* Requirements: CQE-16, CQE-02, CQE-09, NAK-07 */
	{"send_imm_recv_short", OP_SEND_IMM, RECV_SHORT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .rsp = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_imm_recv_lkey", OP_SEND_IMM, RECV_LKEY, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_imm_recv_readonly", OP_SEND_IMM, RECV_READONLY, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_imm_recv_other_pd", OP_SEND_IMM, RECV_OTHER_PD, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_imm_recv_range", OP_SEND_IMM, RECV_RANGE, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_imm_recv_deregistered", OP_SEND_IMM, RECV_DEREG, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-13, NAK-10 */
	{"send_imm_no_recv", OP_SEND_IMM, RECV_NONE, .status = IBV_WC_RNR_RETRY_EXC_ERR},
	/* Requirements: CQE-16, CQE-02, CQE-09, NAK-07 */
	{"send_inv_recv_short", OP_SEND_INV, RECV_SHORT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .rsp = IBV_WC_LOC_LEN_ERR},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_inv_recv_lkey", OP_SEND_INV, RECV_LKEY, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR},
	/* Requirements: CQE-16, CQE-13, NAK-10 */
	{"send_inv_no_recv", OP_SEND_INV, RECV_NONE, .status = IBV_WC_RNR_RETRY_EXC_ERR},
	/* Requirements: CQE-16, CQE-02, CQE-09, NAK-07 */
	{"send_long_recv_short", OP_SEND, RECV_SHORT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .rsp = IBV_WC_LOC_LEN_ERR, .len = THREE_PACKETS},
	/* Requirements: CQE-16, CQE-04, CQE-11, NAK-08 */
	{"send_long_recv_range", OP_SEND, RECV_RANGE, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR, .len = THREE_PACKETS},
	/* Requirements: CQE-16, CQE-02, CQE-09, EVT-07 */
	{"send_srq_recv_short", OP_SEND, RECV_SHORT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .rsp = IBV_WC_LOC_LEN_ERR, .event = IBV_EVENT_QP_LAST_WQE_REACHED, .flags = ROW_SRQ},
	/* Requirements: CQE-16, CQE-04, CQE-11, EVT-07 */
	{"send_srq_recv_lkey", OP_SEND, RECV_LKEY, .status = IBV_WC_REM_OP_ERR,
	 .rsp = IBV_WC_LOC_PROT_ERR, .event = IBV_EVENT_QP_LAST_WQE_REACHED, .flags = ROW_SRQ},
	/* Requirements: CQE-16, CQE-13, SRQ-01 */
	{"send_srq_no_recv", OP_SEND, RECV_NONE, .status = IBV_WC_RNR_RETRY_EXC_ERR,
	 .flags = ROW_SRQ},
	/* The R_Key of a SEND with invalidate: delivers the message with an error completion. */
	/* Requirements: CQE-16, CQE-07, CQE-10, MEM-04 */
	{"send_inv_bad_rkey", OP_SEND_INV, INV_BAD, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, MEM-04 */
	{"send_inv_region", OP_SEND_INV, INV_REGION, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, MEM-04 */
	{"send_inv_window_other_qp", OP_SEND_INV, INV_OTHER_QP, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* R_Keys: no receive was used; an event reports the error. */
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"write_bad_rkey", OP_WRITE, RKEY_BAD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"write_other_pd", OP_WRITE, RKEY_OTHER_PD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"write_deregistered", OP_WRITE, RKEY_DEREG, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"write_no_right", OP_WRITE, RKEY_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"write_past_end", OP_WRITE, RKEY_PAST_END, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"write_before_start", OP_WRITE, RKEY_BEFORE, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"write_wrap", OP_WRITE, RKEY_WRAP, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"write_window_invalidated", OP_WRITE, MW_INVALIDATED, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"write_window_freed", OP_WRITE, MW_FREED, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"write_window_other_qp", OP_WRITE, MW_OTHER_QP, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"write_window_range", OP_WRITE, MW_RANGE, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"write_window_no_right", OP_WRITE, MW_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, NAK-09, EVT-02 */
	{"write_not_enabled", OP_WRITE, QP_NO_RIGHT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_REQ_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06 */
	{"write_long_bad_rkey", OP_WRITE, RKEY_BAD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR, .len = THREE_PACKETS},
	/* Requirements: CQE-16, CQE-10, NAK-06 */
	{"write_long_past_end", OP_WRITE, RKEY_PAST_END, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR, .len = THREE_PACKETS},
	/* Requirements: CQE-01, NAK-06 */
	{"write_of_nothing_bad_rkey", OP_WRITE, RKEY_BAD, .flags = ROW_DELIVERED},
	/* With immediate: the receive that it would have used reports the error. */
	/* Requirements: CQE-16, CQE-07, CQE-10, NAK-06 */
	{"write_imm_bad_rkey", OP_WRITE_IMM, RKEY_BAD, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, NAK-06 */
	{"write_imm_other_pd", OP_WRITE_IMM, RKEY_OTHER_PD, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, NAK-06 */
	{"write_imm_deregistered", OP_WRITE_IMM, RKEY_DEREG, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, NAK-06 */
	{"write_imm_no_right", OP_WRITE_IMM, RKEY_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, NAK-06 */
	{"write_imm_past_end", OP_WRITE_IMM, RKEY_PAST_END, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, NAK-06 */
	{"write_imm_before_start", OP_WRITE_IMM, RKEY_BEFORE, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, NAK-06 */
	{"write_imm_wrap", OP_WRITE_IMM, RKEY_WRAP, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, MEM-04 */
	{"write_imm_window_invalidated", OP_WRITE_IMM, MW_INVALIDATED,
	 .status = IBV_WC_REM_ACCESS_ERR, .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, MEM-04 */
	{"write_imm_window_freed", OP_WRITE_IMM, MW_FREED, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, MEM-04 */
	{"write_imm_window_other_qp", OP_WRITE_IMM, MW_OTHER_QP, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, MEM-04 */
	{"write_imm_window_range", OP_WRITE_IMM, MW_RANGE, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-07, CQE-10, MEM-04 */
	{"write_imm_window_no_right", OP_WRITE_IMM, MW_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .rsp = IBV_WC_LOC_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, NAK-09, EVT-02 */
	{"write_imm_not_enabled", OP_WRITE_IMM, QP_NO_RIGHT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_REQ_ERR},
	/* Requirements: CQE-16, CQE-13, NAK-10 */
	{"write_imm_no_recv", OP_WRITE_IMM, RECV_NONE, .status = IBV_WC_RNR_RETRY_EXC_ERR},
	/* EVT-03: the first of several packets does not show that an immediate follows. */
	/* Requirements: CQE-16, CQE-10, EVT-03 */
	{"write_imm_long_bad_rkey", OP_WRITE_IMM, RKEY_BAD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR, .len = THREE_PACKETS},
	/* Without a receive there is no completion either: the R_Key is checked first (RSP-05). */
	/* Requirements: CQE-16, CQE-10, RSP-05 */
	{"write_imm_bad_rkey_no_recv", OP_WRITE_IMM, RKEY_BAD_RECV_NONE,
	 .status = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-01, NAK-06 */
	{"write_imm_of_nothing_bad_rkey", OP_WRITE_IMM, RKEY_BAD, .flags = ROW_DELIVERED},
	/* Requirements: CQE-01, RSP-05 */
	{"write_imm_recv_lkey_unused", OP_WRITE_IMM, RECV_LKEY, .flags = ROW_DELIVERED},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"read_bad_rkey", OP_READ, RKEY_BAD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"read_other_pd", OP_READ, RKEY_OTHER_PD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"read_deregistered", OP_READ, RKEY_DEREG, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"read_no_right", OP_READ, RKEY_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"read_past_end", OP_READ, RKEY_PAST_END, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"read_before_start", OP_READ, RKEY_BEFORE, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"read_wrap", OP_READ, RKEY_WRAP, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"read_window_invalidated", OP_READ, MW_INVALIDATED, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"read_window_freed", OP_READ, MW_FREED, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"read_window_other_qp", OP_READ, MW_OTHER_QP, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"read_window_range", OP_READ, MW_RANGE, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"read_window_no_right", OP_READ, MW_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, NAK-09, EVT-02 */
	{"read_not_enabled", OP_READ, QP_NO_RIGHT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_REQ_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, EVT-03 */
	{"read_depth_zero", OP_READ, DEPTH_ZERO, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, EVT-03 */
	{"read_depth_overrun", OP_READ, DEPTH_OVERRUN, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR, .flags = ROW_LOSSLESS, .len = TARGET_BYTES},
	/* Requirements: CQE-16, CQE-10, NAK-06 */
	{"read_long_past_end", OP_READ, RKEY_PAST_END, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR, .len = THREE_PACKETS},
	/* Requirements: CQE-01, NAK-06 */
	{"read_of_nothing_bad_rkey", OP_READ, RKEY_BAD, .flags = ROW_DELIVERED},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"cmp_swap_bad_rkey", OP_CMP_SWAP, RKEY_BAD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"cmp_swap_other_pd", OP_CMP_SWAP, RKEY_OTHER_PD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"cmp_swap_deregistered", OP_CMP_SWAP, RKEY_DEREG, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"cmp_swap_no_right", OP_CMP_SWAP, RKEY_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"cmp_swap_past_end", OP_CMP_SWAP, RKEY_PAST_END, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"cmp_swap_before_start", OP_CMP_SWAP, RKEY_BEFORE, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"cmp_swap_wrap", OP_CMP_SWAP, RKEY_WRAP, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"cmp_swap_window_invalidated", OP_CMP_SWAP, MW_INVALIDATED,
	 .status = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"cmp_swap_window_no_right", OP_CMP_SWAP, MW_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, NAK-09, EVT-02 */
	{"cmp_swap_not_enabled", OP_CMP_SWAP, QP_NO_RIGHT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_REQ_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, EVT-03 */
	{"cmp_swap_misaligned", OP_CMP_SWAP, MISALIGNED, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, EVT-03 */
	{"cmp_swap_depth_zero", OP_CMP_SWAP, DEPTH_ZERO, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, EVT-03 */
	{"cmp_swap_depth_overrun", OP_CMP_SWAP, DEPTH_OVERRUN, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR, .flags = ROW_LOSSLESS},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"fetch_add_bad_rkey", OP_FETCH_ADD, RKEY_BAD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"fetch_add_other_pd", OP_FETCH_ADD, RKEY_OTHER_PD, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"fetch_add_deregistered", OP_FETCH_ADD, RKEY_DEREG, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"fetch_add_no_right", OP_FETCH_ADD, RKEY_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"fetch_add_past_end", OP_FETCH_ADD, RKEY_PAST_END, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"fetch_add_before_start", OP_FETCH_ADD, RKEY_BEFORE, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, NAK-09, EVT-03 */
	{"fetch_add_wrap", OP_FETCH_ADD, RKEY_WRAP, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"fetch_add_window_invalidated", OP_FETCH_ADD, MW_INVALIDATED,
	 .status = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"fetch_add_window_freed", OP_FETCH_ADD, MW_FREED, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"fetch_add_window_other_qp", OP_FETCH_ADD, MW_OTHER_QP, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"fetch_add_window_range", OP_FETCH_ADD, MW_RANGE, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-10, NAK-06, MEM-04 */
	{"fetch_add_window_no_right", OP_FETCH_ADD, MW_NO_RIGHT, .status = IBV_WC_REM_ACCESS_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, NAK-09, EVT-02 */
	{"fetch_add_not_enabled", OP_FETCH_ADD, QP_NO_RIGHT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_REQ_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, EVT-03 */
	{"fetch_add_misaligned", OP_FETCH_ADD, MISALIGNED, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, EVT-03 */
	{"fetch_add_depth_zero", OP_FETCH_ADD, DEPTH_ZERO, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	/* Requirements: CQE-16, CQE-09, NAK-07, EVT-03 */
	{"fetch_add_depth_overrun", OP_FETCH_ADD, DEPTH_OVERRUN, .status = IBV_WC_REM_INV_REQ_ERR,
	 .event = IBV_EVENT_QP_ACCESS_ERR, .flags = ROW_LOSSLESS},
	{0},
};
