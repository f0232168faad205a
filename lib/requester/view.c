/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC frames whose payload stays in the client's memory until the port copies it. Three segments:
 * the headers, the payload where it lies, pad and ICRC. The client may change its memory after the
 * CRC was taken, though it should not: then the frame is lost, as one that was damaged on the way,
 * and goes again as a copy. Frames that loop back have no CRC, and one segment (qp/view.h).
 */
#include <string.h>
#include <rte_mbuf.h>
#include "requester/internal.h"
#include "wire/icrc.h"

const uint8_t *
req_view_of(const struct qp_env *env, const struct qp *qp, struct qp_sq_entry *e, uint32_t off,
	    uint32_t len)
{
	const struct uroce_sge *sge = req_sges(e);
	const struct mr *mr;

	if ((e->wqe.flags & UROCE_WQE_INLINE) || sge->length < off || sge->length - off < len)
		return NULL;
	mr = mr_lookup(env->mrs, sge->lkey, qp->pd, sge->addr + off, len, MEM_LOCAL_READ);
	return mr != NULL && mr->host != NULL ? mr->host + (sge->addr + off - mr->iova) : NULL;
}

/* state: of the CRC, before the PSN, which stands at psn_off of the headers. */
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
req_view_put(struct qp_env *env, struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
	     const uint8_t *src, uint32_t len)
{
	struct wire_tmpl *t = &qp->tmpl;
	uint32_t pad = -len & 3;
	struct rte_mbuf *seg[2];

	if (qp->loopback) {
		qp_emit_view(env, qp, m, hdr_len, src, len);
		return true;
	}
	if (rte_pktmbuf_alloc_bulk(env->pool, seg, 2) != 0)
		return false;
	/* Nobody writes to a frame that is to be sent, nor asks where it lies on the bus. */
	rte_pktmbuf_attach_extbuf(seg[0], (void *)(uintptr_t)src, RTE_BAD_IOVA, (uint16_t)len,
				  &env->view_info);
	seg[0]->data_len = (uint16_t)len;
	seg[1]->data_len = (uint16_t)(pad + WIRE_ICRC_LEN);
	memset(rte_pktmbuf_mtod(seg[1], uint8_t *), 0, 4);
	m->data_len = (uint16_t)hdr_len;
	m->pkt_len = hdr_len + len + pad + WIRE_ICRC_LEN;
	m->nb_segs = 3;
	m->next = seg[0];
	seg[0]->next = seg[1];
	if (!t->icrc_known)
		wire_tmpl_know_icrc(t);
	view_seal(m, t->icrc, t->len - WIRE_BTH_PSN_LEN);
	qp_push(env, qp, m, QP_TX_WIRE);
	return true;
}

void
req_view_reseal(struct rte_mbuf *m, const struct wire_tmpl *t)
{
	const uint8_t *ip = rte_pktmbuf_mtod(m, const uint8_t *) + t->ip_off;

	view_seal(m, wire_icrc_head(ip, t->is_v6), t->len - WIRE_BTH_PSN_LEN);
}
