/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include "cc/param.h"
#include "engine_link.h"
#include "port/port.h"
#include "wire/hdr.h"
#include "wire/icrc.h"

#define POOL_MBUFS 16383
#define PORT_SLOTS 4096
#define MEM_BYTES  (64u * 1024) /* memory for messages, unless one is larger */

/* for a sender without a transport */
#define BARE_HEADERS 54 /* Ethernet, IPv4, UDP and BTH */
#define BARE_SWEEPS  5

static struct rte_mempool *pool;
static struct port ports[2];

static void
ports_open(void)
{
	static const char *const name[2] = {"net_ring_bencha", "net_ring_benchb"};

	if (pool != NULL)
		return;
	pool = rte_pktmbuf_pool_create("bench", POOL_MBUFS, 256, 0,
				       RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + 4096, 0);
	if (pool == NULL)
		bench_die("no memory for packets");
	if (port_ring_pair("bencha", "benchb", 1, PORT_SLOTS) != 0)
		bench_die("net_ring: no ports");
	for (unsigned i = 0; i < 2; i++) {
		struct port_params p = {.name = name[i], .nqueues = 1, .link_mtu = 4200};

		if (port_open(&ports[i], &p, pool) != 0)
			bench_die("net_ring: a port does not start");
	}
}

#define LINK_KBPS 100000000u /* that the policy assumes: more than an engine sends */

static void
policy_set(struct cc_param *policy, const char *text)
{
	char err[256];

	if (!cc_param_parse(policy, text, err, sizeof(err)) ||
	    !cc_param_fill(policy, LINK_KBPS, err, sizeof(err)))
		bench_die("--policy: %s", err);
}

void
engine_link_open(struct engine_link *l, const struct bench_options *o)
{
	uint32_t stride = RTE_MAX(RTE_ALIGN_CEIL(o->size, 64), 64u);
	struct engine_pair_params params = {
		.mtu = o->mtu,
		.qps = o->qps,
		.depth = o->depth,
		.size = o->size,
		.places = stride >= MEM_BYTES ? 1 : MEM_BYTES / stride,
		.sr = o->loss > 0,
	};

	policy_set(&params.policy, o->policy != NULL ? o->policy : "fixed");
	ports_open();
	params.pool = pool;
	for (unsigned side = 0; side < 2; side++) {
		params.dev[side] = ports[side].id;
		memcpy(params.mac[side], ports[side].mac, 6);
	}
	l->o = *o;
	l->now_ns = 1000000000;
	l->lost_rng = 1;
	engine_pair_open(&l->pair, &params);
	for (unsigned side = 0; side < 2; side++)
		engine_set_lcore(&l->pair.node[side].engine, rte_lcore_id());
}

void
engine_link_close(struct engine_link *l)
{
	engine_pair_close(&l->pair);
}

void
engine_link_post(struct engine_link *l, uint32_t i)
{
	static const uint8_t opcode[BENCH_OPS] = {
		[BENCH_WRITE] = UROCE_WR_RDMA_WRITE,
		[BENCH_SEND] = UROCE_WR_SEND,
		[BENCH_READ] = UROCE_WR_RDMA_READ,
		[BENCH_ATOMIC] = UROCE_WR_ATOMIC_FETCH_ADD,
	};

	if (l->o.op == BENCH_SEND)
		engine_pair_post_recv(&l->pair, i, l->pair.posted);
	engine_pair_post(&l->pair, i, opcode[l->o.op]);
}

uint32_t
engine_link_poll(struct engine_link *l, unsigned side)
{
	uint32_t took = engine_pair_poll(&l->pair, side);

	if (l->pair.failed)
		bench_die("a message, a QP or a CQ failed");
	return took;
}

void
engine_link_send(struct engine_link *l, unsigned side)
{
	struct engine_pair_node *n = &l->pair.node[side];
	struct qp_env *env = &n->engine.env;

	if (env->tx_n != 0)
		engine_pair_sent(n,
				 rte_eth_tx_burst(ports[side].id, 0, env->tx, (uint16_t)env->tx_n));
}

/* Frees the frames that are lost. Returns the number of the others, in order in m. */
static uint32_t
lose(struct engine_link *l, struct rte_mbuf **m, uint32_t n)
{
	uint32_t most = (uint32_t)(l->o.loss / 100 * UINT32_MAX), kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		l->lost_rng = l->lost_rng * 6364136223846793005u + 1442695040888963407u;
		if (l->lost_rng >> 32 < most)
			rte_pktmbuf_free(m[i]);
		else
			m[kept++] = m[i];
	}
	return kept;
}

uint32_t
engine_link_receive(struct engine_link *l, unsigned side)
{
	uint16_t port = ports[side].id;
	struct rte_mbuf *m[ENGINE_LINK_BURST];
	uint32_t total = 0, k;

	do {
		k = rte_eth_rx_burst(port, 0, m, ENGINE_LINK_BURST);
		if (l->o.loss > 0) {
			total = k;
			if (side == 1) /* one worker has both engines */
				l->pair.node[0].engine.env.behind = k >= ENGINE_LINK_BURST / 2;
			k = lose(l, m, k);
		}
		if (k != 0)
			engine_rx(&l->pair.node[side].engine, l->now_ns, port, m, k);
		if (l->o.loss > 0)
			return total;
		total += k;
	} while (k == ENGINE_LINK_BURST);
	return total;
}

bool
engine_link_verify(const struct engine_link *l)
{
	/* Atomics change only the responder's words; the requester gets their old values. */
	return l->o.op == BENCH_ATOMIC || engine_pair_verify(&l->pair);
}

/* Continue the CRC after the template: over the BTH, which holds the PSN, and the payload. */
static void
bare_frame(struct rte_mbuf *m, const uint8_t *payload, uint32_t len)
{
	static const uint8_t head[BARE_HEADERS];
	uint8_t *at = (uint8_t *)rte_pktmbuf_append(m, BARE_HEADERS + WIRE_ICRC_LEN);
	uint32_t crc;

	memcpy(at, head, BARE_HEADERS);
	crc = wire_icrc_update(0, at + BARE_HEADERS - WIRE_BTH_LEN, WIRE_BTH_LEN);
	crc = wire_icrc_update(crc, payload, len);
	memcpy(at + BARE_HEADERS, &crc, sizeof(crc));
}

double
engine_link_bare_ns(struct engine_link *l)
{
	uint32_t mtu = l->o.mtu, left, n, k;
	uint64_t spent, best = UINT64_MAX, start;
	struct rte_mbuf *m[ENGINE_LINK_BURST];

	for (unsigned sweep = 0; sweep < BARE_SWEEPS; sweep++) {
		const uint8_t *at = l->pair.node[0].rc.mr.host;

		for (spent = 0, left = l->o.size; left != 0;) {
			start = rte_rdtsc_precise();
			n = RTE_MIN((left + mtu - 1) / mtu, (uint32_t)ENGINE_LINK_BURST);
			if (rte_pktmbuf_alloc_bulk(pool, m, n) != 0)
				bench_die("no memory for packets");
			for (uint32_t i = 0; i < n; i++) {
				uint32_t len = RTE_MIN(left, mtu);

				bare_frame(m[i], at, len);
				at += len;
				left -= len;
			}
			k = rte_eth_tx_burst(ports[0].id, 0, m, (uint16_t)n);
			spent += rte_rdtsc_precise() - start;
			rte_pktmbuf_free_bulk(m + k, n - k);
			k = rte_eth_rx_burst(ports[1].id, 0, m, ENGINE_LINK_BURST);
			rte_pktmbuf_free_bulk(m, k);
		}
		best = RTE_MIN(best, spent);
	}
	return bench_ns(best);
}
