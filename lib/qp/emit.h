/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Putting a QP's finished frames into env->tx, sealed, or as a zero-copy frame that loops back.
 * Called on the owner worker only, with room in env->tx.
 */
#ifndef QP_EMIT_H
#define QP_EMIT_H

#include <string.h>
#include <rte_mbuf.h>
#include "qp/env.h"
#include "qp/qp.h"
#include "qp/view.h"
#include "wire/build.h"

/* Worker. The finished frame m of this QP into env->tx, where there must be room. kind: QP_TX_*. */
static inline void
qp_push(struct qp_env *env, const struct qp *qp, struct rte_mbuf *m, uint32_t kind)
{
	m->port = qp->bind.port;
	m->hash.usr = kind;
	env->tx[env->tx_n++] = m;
	env->tx_bytes += m->pkt_len;
}

/*
 * Worker. A frame of len bytes of this QP, the last made from tmpl, and closed, is in m:
 * seal it and put it into env->tx, where there must be room. A frame that loops back stays in this
 * thread's memory, where there is nothing that its ICRC would tell: it is zero
 * (engine_rx_loopback).
 */
static inline void
qp_emit(struct qp_env *env, const struct qp *qp, struct rte_mbuf *m, struct wire_tmpl *tmpl,
	uint32_t len, bool loopback)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	if (loopback)
		memset(frame + len - WIRE_ICRC_LEN, 0, WIRE_ICRC_LEN);
	else
		wire_frame_seal(tmpl, frame, len);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	qp_push(env, qp, m, loopback ? QP_TX_LOOPBACK : QP_TX_WIRE);
}

/*
 * Worker. The same of a frame that loops back, of hdr_len bytes of headers in m, and whose payload,
 * len bytes, stays at src.
 */
static inline void
qp_emit_view(struct qp_env *env, const struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
	     const uint8_t *src, uint32_t len)
{
	qp_view_set(m, hdr_len, (struct qp_view){src, len, qp->conn.qpn},
		    hdr_len + len + (-len & 3) + WIRE_ICRC_LEN);
	qp_push(env, qp, m, QP_TX_LOOPBACK);
}

#endif
