/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero-copy loopback frames: their payload stays in the client's memory until it is received, so
 * that it is copied once. Such a frame ("view") is an mbuf of one segment: data_len covers the
 * headers, struct qp_view follows them, and pkt_len is that of the whole frame. The thread that
 * built it receives it, by engine_rx_loopback, before anything can take the memory away (MEM-03).
 * If a frame must wait longer or goes elsewhere, it becomes a linear frame (engine_own). Worker
 * only.
 */
#ifndef QP_VIEW_H
#define QP_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <rte_mbuf.h>

struct qp_view {
	const uint8_t *payload;
	uint32_t len; /* of payload; pad and ICRC are implied zeros */
	uint32_t qpn; /* sender: once this QP flushes, its client may reuse the memory */
};

/* Is the loopback frame m a zero-copy frame? */
static inline bool
qp_view_is(const struct rte_mbuf *m)
{
	return m->pkt_len != m->data_len;
}

/* Make m a zero-copy frame of frame_len bytes: hdr_len bytes of headers in m, payload v. */
static inline void
qp_view_set(struct rte_mbuf *m, uint32_t hdr_len, struct qp_view v, uint32_t frame_len)
{
	memcpy(rte_pktmbuf_mtod(m, uint8_t *) + hdr_len, &v, sizeof(v));
	m->data_len = (uint16_t)hdr_len;
	m->pkt_len = frame_len;
}

/* Payload descriptor of the zero-copy frame m. */
static inline struct qp_view
qp_view_get(const struct rte_mbuf *m)
{
	struct qp_view v;

	memcpy(&v, rte_pktmbuf_mtod(m, const uint8_t *) + m->data_len, sizeof(v));
	return v;
}

/*
 * Make the loopback frame m linear: copy its payload into its buffer, which has space (struct
 * qp_env). No effect if m is linear already. The payload must still be valid (engine_own).
 */
void qp_view_own(struct rte_mbuf *m);

/* m remains a zero-copy frame but no longer references client memory. */
static inline void
qp_view_lose(struct rte_mbuf *m)
{
	struct qp_view v = qp_view_get(m);

	v.qpn = UINT32_MAX;
	qp_view_set(m, m->data_len, v, m->pkt_len);
}

#endif
