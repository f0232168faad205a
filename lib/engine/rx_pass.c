/* SPDX-License-Identifier: BSD-3-Clause */
/* Received frames for another thread: the worker that owns their QP, or the control thread. */
#include <rte_mbuf.h>
#include "engine/rx.h"
#include "wire/build.h"

void
rx_pass_owner(struct engine *e, uint16_t dev, struct rte_mbuf *m, uint32_t qpn)
{
	if (e->rx_loopback) {
		if (!engine_own(e, m)) {
			rx_drop(e, e->dev[dev].counters, DROP_QP_STATE, m);
			return;
		}
		wire_frame_seal_own(rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
	}
	e->dev[dev].counters->ctr[COUNTER_RX_HANDOFF]++;
	m->port = dev;
	m->hash.usr = ENGINE_RX_FRAME;
	e->ops->handoff(e->ops_ctx, qp_table_owner(e->qps, qpn), m);
}

void
rx_pass_control(struct engine *e, uint16_t dev, struct rte_mbuf *m)
{
	struct counter_block *counters = e->dev[dev].counters;

	if (e->ops->slow_path(e->ops_ctx, dev, m))
		counters->ctr[COUNTER_SLOW_PATH]++;
	else
		counters->drop[DROP_SLOW_PATH_FULL]++;
}
