/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UD receive: a 40-byte GRH area and the datagram go into the next receive WQE (WIRE-07). Datagrams
 * that cannot be received are dropped and counted; the QP's state changes only on a bad receive
 * WQE.
 */
#include <errno.h>
#include <string.h>
#include "responder/responder_parts.h"

/*
 * The SL of a receive completion over RoCE tells which headers the datagram had, as on NICs:
 * A17.4.5.1 requires a flag for IPv4, and UCX reads it here to find the addresses in the GRH area.
 * Bit 3: UDP header present; bits 2 to 0: 1 IPv6, 2 IPv4.
 */
#define SL_UDP  (1u << 3)
#define SL_IPV6 1u
#define SL_IPV4 2u

/* Copies the IPv6 header, or the IPv4 header into the last 20 bytes. */
static void
grh_fill(uint8_t grh[WIRE_GRH_LEN], const struct wire_pkt *pkt)
{
	if (pkt->is_v6) {
		memcpy(grh, pkt->ip, WIRE_IPV6_LEN);
		return;
	}
	memset(grh, 0, WIRE_GRH_LEN - WIRE_IPV4_LEN);
	memcpy(grh + WIRE_GRH_LEN - WIRE_IPV4_LEN, pkt->ip, WIRE_IPV4_LEN);
}

/* Gets a receive WQE for len bytes. One that is too small stays for the next datagram. */
static bool
datagram_wqe(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t len)
{
	int rc = 0;

	if (!qp->conn.rcv.cur.taken)
		rc = qp_take_recv(env, qp);
	if (rc == -EPROTO)
		return false;
	if (rc == -EAGAIN) {
		qp_env_drop(env, DROP_NO_RECV_WQE);
		rsp_note(env, qp, UROCE_ERROR_NO_RECV, pkt);
		return false;
	}
	if (rc != 0) {
		rsp_fault(env, qp, UROCE_ERROR_RECV_SGES, pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_REM_OP, QP_WC_LOC_QP_OP_ERR, QP_EVENT_QP_FATAL);
		return false;
	}
	if (len > qp->conn.rcv.cur.length) {
		rsp_note(env, qp, UROCE_ERROR_RECV_TOO_SMALL, pkt);
		qp_env_drop(env, DROP_BAD_LENGTH);
		return false;
	}
	if (!rsp_recv_keys_good(env, qp, 0, len)) {
		rsp_fault_recv(env, qp, pkt, 0, len);
		rsp_nak_fatal(env, qp, WIRE_NAK_REM_OP, QP_WC_LOC_PROT_ERR, QP_EVENT_QP_FATAL);
		return false;
	}
	return true;
}

void
rsp_rx_datagram(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct uroce_cqe cqe = {
		.opcode = UROCE_CQE_RECV,
		.flags = UROCE_CQE_GRH | (pkt->op->flags & WIRE_F_IMM ? UROCE_CQE_WITH_IMM : 0) |
			 (pkt->solicited ? UROCE_CQE_SOLICITED : 0),
		.sl = SL_UDP | (pkt->is_v6 ? SL_IPV6 : SL_IPV4),
		.byte_len = pkt->payload_len + WIRE_GRH_LEN,
		.imm = pkt->op->flags & WIRE_F_IMM ? pkt->imm : 0,
		.src_qp = pkt->src_qpn,
		.pkey_index = qp->conn.pkey_index,
	};
	uint8_t grh[WIRE_GRH_LEN];
	int rc;

	if (pkt->qkey != qp->conn.attr.qkey) {
		qp_env_drop(env, DROP_BAD_QKEY); /* WIRE-08 */
		rsp_note(env, qp, UROCE_ERROR_QKEY, pkt);
		return;
	}
	if (pkt->payload_len > qp->conn.mtu) {
		qp_env_drop(env, DROP_BAD_LENGTH);
		return;
	}
	if (!datagram_wqe(env, qp, pkt, cqe.byte_len))
		return;
	grh_fill(grh, pkt);
	rc = rsp_recv_write(env, qp, grh, 0, WIRE_GRH_LEN);
	if (rc == 0)
		rc = rsp_recv_write(env, qp, pkt->payload, WIRE_GRH_LEN, pkt->payload_len);
	if (rc == -EAGAIN) {
		rsp_memory_late(env, qp);
		return;
	}
	if (rc != 0) {
		rsp_fault(env, qp, UROCE_ERROR_MEMORY_GONE, pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_REM_OP, QP_WC_LOC_PROT_ERR, QP_EVENT_QP_FATAL);
		return;
	}
	qp_complete_recv(env, qp, QP_WC_SUCCESS, &cqe);
}
