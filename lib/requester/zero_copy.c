/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC frames whose payload stays in the client's memory until the port copies it. Three segments:
 * headers; payload in place; pad and ICRC. The client may change its memory after the CRC was
 * computed, though it should not: the frame is then lost like a corrupted one, and retransmitted as
 * a copy. Loopback frames have one segment and no CRC (qp/view.h).
 */
#include <string.h>
#include <rte_mbuf.h>
#include "qp/segs.h"
#include "requester/requester_parts.h"
#include "wire/icrc.h"

const uint8_t *
req_zero_copy_source(const struct qp_env *env, const struct qp *qp, struct qp_sq_entry *e,
		     uint32_t off, uint32_t len)
{
	const struct uroce_sge *sge = req_sges(e);
	const struct mr *mr;

	if ((e->wqe.flags & UROCE_WQE_INLINE) || sge->length < off || sge->length - off < len)
		return NULL;
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr + off, len, MEM_LOCAL_READ);
	return mr != NULL && mr->host != NULL ? mr->host + (sge->addr + off - mr->iova) : NULL;
}

/* Sets the ICRC. state: CRC before the PSN, which is at psn_off in the headers. */
static void
view_seal(struct rte_mbuf *m, uint32_t state, uint32_t psn_off)
{
	const struct rte_mbuf *payload = m->next;
	struct rte_mbuf *tail = payload->next;
	uint32_t pad = tail->data_len - WIRE_ICRC_LEN;
	uint8_t *end = rte_pktmbuf_mtod(tail, uint8_t *);

	state = wire_icrc_update(state, rte_pktmbuf_mtod(m, uint8_t *) + psn_off,
				 m->data_len - psn_off);
	state = wire_icrc_update(state, rte_pktmbuf_mtod(payload, const uint8_t *),
				 payload->data_len);
	if (pad != 0)
		state = wire_icrc_update(state, end, pad);
	state = wire_icrc_final(state);
	memcpy(end + pad, &state, sizeof(state));
}

bool
req_zero_copy_attach(struct qp_env *env, struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
		     const uint8_t *src, uint32_t len)
{
	struct wire_tmpl *t = &qp->conn.tmpl;
	uint32_t pad = -len & 3;
	struct rte_mbuf *payload;

	if (qp->conn.loopback) {
		qp_emit_view(env, qp, m, hdr_len, src, len);
		return true;
	}
	payload = env->segs != NULL ? qp_segs_lend(env->segs, src, len, pad + WIRE_ICRC_LEN) : NULL;
	if (payload == NULL)
		return false;
	memset(rte_pktmbuf_mtod(payload->next, uint8_t *), 0, 4);
	m->data_len = (uint16_t)hdr_len;
	m->pkt_len = hdr_len + len + pad + WIRE_ICRC_LEN;
	m->nb_segs = 3;
	m->next = payload;
	if (!t->icrc_known)
		wire_tmpl_know_icrc(t);
	view_seal(m, t->icrc, t->len - WIRE_BTH_PSN_LEN);
	qp_push(env, qp, m, QP_TX_WIRE);
	return true;
}

void
req_zero_copy_reseal(struct rte_mbuf *m, const struct wire_tmpl *t)
{
	const uint8_t *ip = rte_pktmbuf_mtod(m, const uint8_t *) + t->ip_off;

	view_seal(m, wire_icrc_head(ip, t->is_v6), t->len - WIRE_BTH_PSN_LEN);
}
