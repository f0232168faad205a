/* SPDX-License-Identifier: BSD-3-Clause */
/* UD sends: one packet each, addressed by the address handle. */
#include <string.h>
#include <rte_mbuf.h>
#include "requester/requester_parts.h"
#include "wire/psn.h"

/* Time that a datagram waits for its next hop's MAC before it is dropped. */
#define DATAGRAM_WAIT_NS (1000ull * 1000 * 1000)

#define QKEY_OWN         0x80000000u /* if a WR's Q_Key has this bit, the QP's is sent (WIRE-08) */

/* Copies a multicast packet to group members on this device (WIRE-10). */
static void
datagram_copy_local(struct qp_env *env, struct qp *qp, const struct rte_mbuf *m,
		    struct wire_tmpl *tmpl)
{
	struct rte_mbuf *c;

	if (env->tx_n == env->tx_cap)
		return;
	c = qp_env_buf(env);
	if (c == NULL)
		return;
	memcpy(rte_pktmbuf_mtod(c, uint8_t *), rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
	qp_emit(env, qp, c, tmpl, m->data_len, true);
}

static enum req_step
datagram_emit(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, const struct qp_ah *ah)
{
	uint32_t qkey = e->wqe.ud.remote_qkey, hdr;
	struct wire_path path = ah->path;
	struct wire_tmpl tmpl;
	struct wire_fields f = {
		.opcode = req_opcode(e, 0) | WIRE_SVC_UD,
		.solicited = (e->wqe.flags & UROCE_WQE_SOLICITED) != 0,
		.psn = qp->conn.snd.next_psn,
		.qkey = qkey & QKEY_OWN ? qp->conn.attr.qkey : qkey,
		.src_qpn = qp->conn.qpn,
		.imm = e->wqe.imm,
	};
	struct rte_mbuf *m = qp_env_buf(env);
	uint8_t *p;
	int rc;

	if (m == NULL)
		return REQ_NO_ROOM;
	/* a host's stack sends from one port */
	if (path.udp_sport >= WIRE_UDP_SPORT_MIN)
		path.udp_sport =
			wire_udp_sport(path.flow_label, qp->conn.qpn, e->wqe.ud.remote_qpn);
	wire_tmpl_init(&tmpl, &path, e->wqe.ud.remote_qpn, qp->conn.pkey);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	hdr = wire_hdr_put(&tmpl, &f, e->length, p);
	rc = req_gather(env, qp, e, 0, p + hdr, e->length);
	if (rc != 0) {
		req_not_gathered(e, m, rc);
		return rc == -EAGAIN ? REQ_WAITS : REQ_NEXT;
	}
	qp_emit(env, qp, m, &tmpl, wire_frame_close(p, hdr, e->length), ah->loopback);
	if (ah->multicast)
		datagram_copy_local(env, qp, m, &tmpl);
	return REQ_SENT;
}

static void
datagram_done(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e)
{
	qp->conn.snd.next_psn = qp->conn.snd.high_psn = psn_add(qp->conn.snd.next_psn, 1);
	req_sent_all(env, qp, e);
}

enum req_step
req_send_datagram(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	const struct qp_ah *ah = qp_ah_get(qp->bind.ahs, e->wqe.ud.ah);
	enum req_step step;

	if (ah == NULL || ah->pd != qp->bind.pd || e->wqe.ud.remote_qpn > WIRE_QPN_MASK) {
		e->status = QP_WC_LOC_QP_OP_ERR;
		return REQ_NEXT;
	}
	if (!ah->path_ok) {
		if (!qp_deadline_is_set(&qp->conn, QP_DEADLINE_PATH))
			qp_deadline_set(&qp->conn, QP_DEADLINE_PATH,
					env->now_ns + DATAGRAM_WAIT_NS);
		return REQ_BLOCKED;
	}
	step = datagram_emit(env, qp, e, ah);
	if (step == REQ_SENT)
		datagram_done(env, qp, e);
	return step;
}

void
req_datagram_timeout(struct qp_env *env, struct qp *qp)
{
	struct qp_sq_entry *e = qp_sq_entry(qp, qp->conn.snd.tail);

	if (e->status != QP_WC_SUCCESS)
		return;
	env->counters->ctr[COUNTER_TX_NO_NEIGHBOUR]++;
	datagram_done(env, qp, e);
	env->ops->qp_wake(env->ops_ctx, qp);
}
