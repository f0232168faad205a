/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_byteorder.h>
#include <rte_mbuf.h>
#include "switch.h"
#include "wire/csum.h"
#include "wire/hdr.h"

#define ECN_CE       3u
#define V6_ECN_SHIFT 20

void
switch_init(struct fabric_switch *s, const struct switch_params *p, uint64_t seed)
{
	s->p = *p;
	sim_rng_init(&s->rng, seed, 0);
}

uint32_t
switch_route(const struct fabric_switch *s, const struct rte_mbuf *m)
{
	const struct wire_eth *eth = rte_pktmbuf_mtod(m, const struct wire_eth *);

	if (m->data_len < WIRE_ETH_LEN || eth->dmac[5] >= s->p.ports)
		return SWITCH_PORTS;
	return eth->dmac[5];
}

uint32_t
switch_mark_ppm(const struct switch_params *p, uint64_t queue_bytes)
{
	if (p->kmax_bytes == 0 || queue_bytes <= p->kmin_bytes)
		return 0;
	if (queue_bytes >= p->kmax_bytes)
		return 1000000;
	return (uint32_t)(p->pmax_ppm * (queue_bytes - p->kmin_bytes) /
			  (p->kmax_bytes - p->kmin_bytes));
}

static bool
mark_v4(struct wire_ipv4 *ip)
{
	if ((ip->tos & ECN_CE) == 0)
		return false;
	ip->tos |= ECN_CE;
	ip->csum = 0;
	ip->csum = (rte_be16_t)~wire_ipv4_sum(ip);
	return true;
}

bool
switch_mark(struct rte_mbuf *m)
{
	struct wire_eth *eth = rte_pktmbuf_mtod(m, struct wire_eth *);
	struct wire_ipv6 *v6 = (struct wire_ipv6 *)(eth + 1);

	if (eth->type == RTE_BE16(WIRE_ETHERTYPE_IPV4) &&
	    m->data_len >= WIRE_ETH_LEN + WIRE_IPV4_LEN)
		return mark_v4((struct wire_ipv4 *)(eth + 1));
	if (eth->type != RTE_BE16(WIRE_ETHERTYPE_IPV6) ||
	    m->data_len < WIRE_ETH_LEN + WIRE_IPV6_LEN ||
	    (v6->ver_tc_flow & rte_cpu_to_be_32(ECN_CE << V6_ECN_SHIFT)) == 0)
		return false;
	v6->ver_tc_flow |= rte_cpu_to_be_32(ECN_CE << V6_ECN_SHIFT);
	return true;
}

static void
mark_by_queue(struct fabric_switch *s, struct switch_port *to, struct rte_mbuf *m)
{
	if (!sim_chance(&s->rng, switch_mark_ppm(&s->p, to->out.waiting_bytes)))
		return;
	if (switch_mark(m))
		to->marked++;
	else
		to->unmarkable++;
}

static bool
fits(const struct fabric_switch *s, const struct switch_port *to, uint32_t bytes)
{
	return s->used_bytes + bytes <= s->p.shared_bytes &&
	       to->out.waiting_bytes + bytes <= s->p.port_bytes;
}

enum switch_flow
switch_receive(struct fabric_switch *s, uint64_t now_ns, uint32_t in, struct rte_mbuf *m)
{
	struct switch_port *from = &s->port[in], *to;
	uint32_t out = switch_route(s, m), bytes = m->pkt_len;

	if (out == SWITCH_PORTS) {
		from->dropped++;
		rte_pktmbuf_free(m);
		return SWITCH_FLOW_SAME;
	}
	to = &s->port[out];
	if (!fits(s, to, bytes)) {
		to->dropped++;
		rte_pktmbuf_free(m);
		return SWITCH_FLOW_SAME;
	}
	mark_by_queue(s, to, m);
	if (!line_push(&to->out, now_ns, m, in)) {
		to->dropped++;
		rte_pktmbuf_free(m);
		return SWITCH_FLOW_SAME;
	}
	s->used_bytes += bytes;
	from->held_bytes += bytes;
	if (s->p.xoff_bytes == 0 || from->xoff || from->held_bytes <= s->p.xoff_bytes)
		return SWITCH_FLOW_SAME;
	from->xoff = true;
	from->pauses++;
	return SWITCH_XOFF;
}

bool
switch_send(struct fabric_switch *s, uint64_t now_ns, uint32_t out, uint32_t *in, uint32_t *bytes,
	    enum switch_flow *flow)
{
	struct switch_port *to = &s->port[out], *from;

	if (!line_sent(&to->out, now_ns, in, bytes))
		return false;
	from = &s->port[*in];
	to->sent_frames++;
	to->sent_bytes += *bytes;
	s->used_bytes -= *bytes;
	from->held_bytes -= *bytes;
	*flow = SWITCH_FLOW_SAME;
	if (from->xoff && from->held_bytes <= s->p.xon_bytes) {
		from->xoff = false;
		*flow = SWITCH_XON;
	}
	return true;
}
