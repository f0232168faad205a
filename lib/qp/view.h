/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that loop back and whose payload stays in the client's memory until it is received, so
 * that it is copied once. Such a view is an mbuf of one segment: data_len covers the headers,
 * behind which a struct qp_view stands, and pkt_len is that of the whole frame. It is received by
 * the thread that made it, by engine_rx_loopback, before anything that may take the memory away
 * (MEM-03); what has to wait longer, or goes elsewhere, becomes a frame of its own (engine_own).
 * Worker only.
 */
#ifndef QP_VIEW_H
#define QP_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <rte_mbuf.h>

struct qp_view {
	const uint8_t *payload;
	uint32_t len; /* of it; pad and ICRC are zero, and nowhere */
	uint32_t qpn; /* whose memory it is: once that QP flushes, its client may have it back */
};

/* Is m, a frame that loops back, a view? */
static inline bool
qp_view_is(const struct rte_mbuf *m)
{
	return m->pkt_len != m->data_len;
}

/* Make m a view: it has hdr_len bytes of headers, and is a frame of frame_len bytes with v. */
static inline void
qp_view_set(struct rte_mbuf *m, uint32_t hdr_len, struct qp_view v, uint32_t frame_len)
{
	memcpy(rte_pktmbuf_mtod(m, uint8_t *) + hdr_len, &v, sizeof(v));
	m->data_len = (uint16_t)hdr_len;
	m->pkt_len = frame_len;
}

/* What stands behind the headers of the view m. */
static inline struct qp_view
qp_view_get(const struct rte_mbuf *m)
{
	struct qp_view v;

	memcpy(&v, rte_pktmbuf_mtod(m, const uint8_t *) + m->data_len, sizeof(v));
	return v;
}

/*
 * The payload of m, a frame that loops back, lies in its own buffer from now on, which has room for
 * it (struct qp_env). Nothing to do if m is no view. It must still be there (engine_own).
 */
void qp_view_own(struct rte_mbuf *m);

/* The payload of the view m is gone, whatever its QP does from now on: m stays a view, of none. */
static inline void
qp_view_lose(struct rte_mbuf *m)
{
	struct qp_view v = qp_view_get(m);

	v.qpn = UINT32_MAX;
	qp_view_set(m, m->data_len, v, m->pkt_len);
}

#endif
