/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/slow_path.h"

#include <errno.h>
#include <string.h>
#include <rte_mbuf.h>
#include "control/neigh.h"
#include "qp/match.h"
#include "wire/build.h"
#include "wire/parse.h"

#define GSI_QPN   1u
#define HOP_LIMIT 64u

static void
tell_workers(struct daemon *d, uint32_t qpn)
{
	for (unsigned i = 0; i < worker_count(d->workers); i++)
		engine_set_consumer(worker_engine(worker_get(d->workers, i)), qpn);
}

int
slow_path_register(struct daemon *d, uint32_t qpn, slow_path_fn *fn, void *ctx)
{
	if (qpn != GSI_QPN)
		return -EINVAL;
	if (d->qp1.fn != NULL)
		return -EEXIST;
	d->qp1.fn = fn;
	d->qp1.ctx = ctx;
	tell_workers(d, qpn);
	return 0;
}

void
slow_path_unregister(struct daemon *d, uint32_t qpn)
{
	if (qpn != GSI_QPN)
		return;
	tell_workers(d, 0);
	d->qp1.fn = NULL;
}

static bool
pkey_in_table(const struct device *dev, uint16_t pkey)
{
	for (uint32_t i = 0; i < UROCE_MAX_PKEYS; i++) {
		if (qp_pkeys_match(pkey, dev->pkey[i]))
			return true;
	}
	return false;
}

/* Reads the fields that struct wire_pkt does not have. */
static void
from_ip(struct slow_datagram *g, const struct wire_pkt *pkt)
{
	const struct wire_ipv6 *v6 = (const void *)pkt->ip;
	const struct wire_ipv4 *v4 = (const void *)pkt->ip;

	g->hop_limit = pkt->is_v6 ? v6->hop_limit : v4->ttl;
	g->flow_label = pkt->is_v6 ? rte_be_to_cpu_32(v6->ver_tc_flow) & 0xfffff : 0;
}

bool
slow_path_rx(struct device *dev, struct rte_mbuf *m)
{
	struct slow_datagram g = {.dev = dev};
	struct wire_pkt pkt;

	/* Parsed and checked by the engine, which passes on only contiguous frames. */
	if (wire_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, &pkt) != WIRE_OK ||
	    dev->d->qp1.fn == NULL || pkt.qpn != GSI_QPN || !pkey_in_table(dev, pkt.pkey))
		return false;
	wire_dst_gid(&pkt, g.local);
	wire_src_gid(&pkt, g.remote);
	from_ip(&g, &pkt);
	g.local_qpn = pkt.qpn;
	g.remote_qpn = pkt.src_qpn;
	g.qkey = pkt.qkey;
	g.pkey = pkt.pkey;
	g.traffic_class = pkt.tclass;
	g.payload = pkt.payload;
	g.len = pkt.payload_len;
	return dev->d->qp1.fn(dev->d->qp1.ctx, &g);
}

/* Builds the frame in m, which has space for it. */
static void
frame_put(struct rte_mbuf *m, const struct slow_datagram *g, const struct wire_path *path)
{
	struct wire_fields f = {.opcode = WIRE_SVC_UD | WIRE_OP_SEND_ONLY,
				.qkey = g->qkey,
				.src_qpn = g->local_qpn};
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	struct wire_tmpl t;
	uint32_t len;

	wire_tmpl_init(&t, path, g->remote_qpn, g->pkey);
	len = wire_hdr_put(&t, &f, g->len, frame);
	memcpy(frame + len, g->payload, g->len);
	m->data_len = (uint16_t)wire_frame_finish(&t, frame, len, g->len);
	m->pkt_len = m->data_len;
}

int
slow_path_send(const struct slow_datagram *g, uid_t uid)
{
	struct uroce_ah_attr ah = {.flow_label = g->flow_label,
				   .hop_limit = g->hop_limit != 0 ? g->hop_limit : HOP_LIMIT,
				   .traffic_class = g->traffic_class,
				   .is_global = 1,
				   .port_num = 1};
	struct device *dev = g->dev;
	int rc = net_gid_find(&dev->net, g->local);
	struct wire_path path;
	struct rte_mbuf *m;
	uint8_t hop[16];
	bool loopback;

	if (rc < 0)
		return -EADDRNOTAVAIL;
	if (g->len > 128u << dev->max_mtu)
		return -EMSGSIZE;
	ah.sgid_index = (uint8_t)rc;
	memcpy(ah.dgid, g->remote, 16);
	rc = net_path(&dev->net, &ah, g->local_qpn, g->remote_qpn, &path, &loopback, hop);
	if (rc == -EINPROGRESS) {
		neigh_ask_for(dev, hop, uid);
		return -EAGAIN;
	}
	if (rc < 0)
		return rc;
	m = rte_pktmbuf_alloc(dev->d->pool);
	if (m == NULL) {
		worker_control_obs(dev->d->workers, dev->port.id)->ctr[COUNTER_TX_CONTROL_LOST]++;
		return 0;
	}
	frame_put(m, g, &path);
	if (loopback)
		(void)worker_send_loopback(dev->d->workers, dev->port.id, m);
	else
		(void)worker_send_frame(dev->d->workers, dev->port.id, m);
	return 0;
}
