/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts a QP's finished frames into env->tx: sealed, or as zero-copy loopback frames. Called on the
 * owner worker only, with space in env->tx.
 */
#ifndef QP_EMIT_H
#define QP_EMIT_H

#include <string.h>
#include <rte_mbuf.h>
#include "qp/env.h"
#include "qp/qp.h"
#include "qp/view.h"
#include "wire/build.h"

/* Worker. Put qp's finished frame m into env->tx, which has space. kind: QP_TX_*. */
static inline void
qp_push(struct qp_env *env, const struct qp *qp, struct rte_mbuf *m, uint32_t kind)
{
	m->port = qp->bind.port;
	m->hash.usr = kind;
	m->hash.fdir.hi = qp->conn.qpn;
	env->tx[env->tx_n++] = m;
	env->tx_bytes += m->pkt_len;
}

/*
 * Worker. Seal the closed frame of len bytes in m, the last one built from tmpl, and put it into
 * env->tx, which has space. The ICRC of a loopback frame is zero, because the frame never leaves
 * this thread's memory (engine_rx_loopback).
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
 * Worker. The same for a zero-copy loopback frame: hdr_len bytes of headers in m; the payload of
 * len bytes stays at src.
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
