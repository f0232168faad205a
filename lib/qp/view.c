/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/view.h"

void
qp_view_own(struct rte_mbuf *m)
{
	uint8_t *end = rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len);
	uint32_t rest = m->pkt_len - m->data_len;
	struct qp_view v;

	if (!qp_view_is(m))
		return;
	v = qp_view_get(m);
	memcpy(end, v.payload, v.len);
	memset(end + v.len, 0, rest - v.len);
	m->data_len = (uint16_t)m->pkt_len;
}
