/* SPDX-License-Identifier: BSD-3-Clause */
/* UC and UD rows. The requester does not learn of the responder's errors. */
#include "rows.h"

#define THREE_PACKETS 3072 /* at the path MTU 1024 */

const struct row rows_unreliable[] = {
	/* UC: the responder never responds. */
	/* Requirements: CQE-16, CQE-02, RSP-06 */
	{"uc_send_recv_short", OP_SEND, RECV_SHORT, .rsp = IBV_WC_LOC_LEN_ERR, .type = IBV_QPT_UC},
	/* Requirements: CQE-16, CQE-02, RSP-06 */
	{"uc_send_long_recv_short", OP_SEND, RECV_SHORT, .rsp = IBV_WC_LOC_LEN_ERR,
	 .type = IBV_QPT_UC, .len = THREE_PACKETS},
	/* Requirements: CQE-16, CQE-04 */
	{"uc_send_recv_lkey", OP_SEND, RECV_LKEY, .rsp = IBV_WC_LOC_PROT_ERR, .type = IBV_QPT_UC},
	/* Requirements: CQE-16, CQE-04 */
	{"uc_send_imm_recv_other_pd", OP_SEND_IMM, RECV_OTHER_PD, .rsp = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-16, RSP-06 */
	{"uc_send_no_recv", OP_SEND, RECV_NONE, .type = IBV_QPT_UC},
	/* Requirements: CQE-16, EVT-03 */
	{"uc_write_bad_rkey", OP_WRITE, RKEY_BAD, .event = IBV_EVENT_QP_ACCESS_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-16, EVT-03 */
	{"uc_write_past_end", OP_WRITE, RKEY_PAST_END, .event = IBV_EVENT_QP_ACCESS_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-16, EVT-03 */
	{"uc_write_no_right", OP_WRITE, RKEY_NO_RIGHT, .event = IBV_EVENT_QP_ACCESS_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-16, CQE-07 */
	{"uc_write_imm_bad_rkey", OP_WRITE_IMM, RKEY_BAD, .rsp = IBV_WC_LOC_ACCESS_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-16, EVT-03 */
	{"uc_write_imm_long_bad_rkey", OP_WRITE_IMM, RKEY_BAD, .event = IBV_EVENT_QP_ACCESS_ERR,
	 .type = IBV_QPT_UC, .len = THREE_PACKETS},
	/* Requirements: CQE-16, RSP-06 */
	{"uc_write_imm_no_recv", OP_WRITE_IMM, RECV_NONE, .type = IBV_QPT_UC},
	/* Requirements: CQE-16, RSP-06 */
	{"uc_write_not_enabled", OP_WRITE, QP_NO_RIGHT, .type = IBV_QPT_UC},
	/* Requirements: CQE-01 */
	{"uc_write_of_nothing_bad_rkey", OP_WRITE, RKEY_BAD, .type = IBV_QPT_UC,
	 .flags = ROW_DELIVERED},
	/* Local errors end in SQE, which the queue pair then leaves. */
	/* Requirements: CQE-04, CQE-05, QP-17 */
	{"uc_send_own_bad_lkey", OP_SEND, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-04, CQE-05, QP-17 */
	{"uc_send_imm_own_other_pd", OP_SEND_IMM, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-04, CQE-05, QP-17 */
	{"uc_write_own_deregistered", OP_WRITE, LKEY_DEREG, .status = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-04, CQE-05, QP-17 */
	{"uc_write_imm_own_range", OP_WRITE_IMM, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-02, CQE-05, QP-17 */
	{"uc_write_too_long", OP_WRITE, TOO_LONG, .status = IBV_WC_LOC_LEN_ERR, .type = IBV_QPT_UC},
	/* Requirements: CQE-06, CQE-05, QP-17 */
	{"uc_bind_mw_bad_lkey", OP_BIND_MW, BIND_LKEY, .status = IBV_WC_MW_BIND_ERR,
	 .type = IBV_QPT_UC},
	/* Requirements: CQE-06, CQE-05, QP-17 */
	{"uc_local_inv_bad_rkey", OP_LOCAL_INV, INVALIDATE_BAD, .status = IBV_WC_MW_BIND_ERR,
	 .type = IBV_QPT_UC},
	/* Operations that the type does not have. */
	/* Requirements: IMM-03, IMM-04 */
	{"uc_read", OP_READ, BAD_OPCODE, .type = IBV_QPT_UC, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"uc_cmp_swap", OP_CMP_SWAP, BAD_OPCODE, .type = IBV_QPT_UC, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"uc_fetch_add", OP_FETCH_ADD, BAD_OPCODE, .type = IBV_QPT_UC, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"uc_send_inv", OP_SEND_INV, BAD_OPCODE, .type = IBV_QPT_UC, .flags = ROW_REFUSED},
	/* UD: a datagram that does not fit is dropped, and the receive stays for the next one. */
	/* Requirements: CQE-16, WIRE-08 */
	{"ud_send_wrong_qkey", OP_SEND, QKEY_WRONG, .type = IBV_QPT_UD},
	/* Requirements: CQE-16 */
	{"ud_send_recv_short", OP_SEND, RECV_SHORT, .type = IBV_QPT_UD},
	/* Requirements: CQE-16, SRQ-01 */
	{"ud_send_no_recv", OP_SEND, RECV_NONE, .type = IBV_QPT_UD},
	/* Requirements: CQE-16, CQE-04 */
	{"ud_send_recv_lkey", OP_SEND, RECV_LKEY, .rsp = IBV_WC_LOC_PROT_ERR, .type = IBV_QPT_UD},
	/* Requirements: CQE-16, CQE-04 */
	{"ud_send_imm_recv_readonly", OP_SEND_IMM, RECV_READONLY, .rsp = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UD},
	/* Requirements: CQE-16, CQE-04 */
	{"ud_send_recv_deregistered", OP_SEND, RECV_DEREG, .rsp = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UD},
	/* Requirements: CQE-04, CQE-05, QP-17 */
	{"ud_send_own_bad_lkey", OP_SEND, LKEY_BAD, .status = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UD},
	/* Requirements: CQE-04, CQE-05, QP-17 */
	{"ud_send_imm_own_other_pd", OP_SEND_IMM, LKEY_OTHER_PD, .status = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UD},
	/* Requirements: CQE-04, CQE-05, QP-17 */
	{"ud_send_own_range", OP_SEND, LKEY_RANGE, .status = IBV_WC_LOC_PROT_ERR,
	 .type = IBV_QPT_UD},
	/* Requirements: CQE-02, CQE-05, QP-17 */
	{"ud_send_too_long", OP_SEND, TOO_LONG, .status = IBV_WC_LOC_LEN_ERR, .type = IBV_QPT_UD},
	/* Requirements: CQE-03, CQE-05, QP-17 */
	{"ud_send_ah_other_pd", OP_SEND, AH_OTHER_PD, .status = IBV_WC_LOC_QP_OP_ERR,
	 .type = IBV_QPT_UD},
	/* Requirements: IMM-03, IMM-04 */
	{"ud_write", OP_WRITE, BAD_OPCODE, .type = IBV_QPT_UD, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"ud_write_imm", OP_WRITE_IMM, BAD_OPCODE, .type = IBV_QPT_UD, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"ud_read", OP_READ, BAD_OPCODE, .type = IBV_QPT_UD, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"ud_cmp_swap", OP_CMP_SWAP, BAD_OPCODE, .type = IBV_QPT_UD, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"ud_fetch_add", OP_FETCH_ADD, BAD_OPCODE, .type = IBV_QPT_UD, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"ud_send_inv", OP_SEND_INV, BAD_OPCODE, .type = IBV_QPT_UD, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"ud_bind_mw", OP_BIND_MW, BAD_OPCODE, .type = IBV_QPT_UD, .flags = ROW_REFUSED},
	/* Requirements: IMM-03, IMM-04 */
	{"ud_local_inv", OP_LOCAL_INV, BAD_OPCODE, .type = IBV_QPT_UD, .flags = ROW_REFUSED},
	{0},
};
