/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the QPs' packets come from and go to. */
#include <string.h>
#include "world_parts.h"

const uint8_t peers_our_mac[6] = {0x02, 0, 0, 0, 0, 0x01};
static const uint8_t peer_mac[6] = {0x02, 0, 0, 0, 0, 0x02};
static const uint8_t our_gids[2][16] = {{[10] = 0xff, 0xff, 192, 0, 2, 1},
					{0xfe, 0x80, [8] = 0x02, [11] = 0xff, 0xfe, [15] = 1}};

void
peers_connect(uint32_t q, uint8_t svc)
{
	struct world_side *s = &world.side[q];
	struct wire_path *out = &s->path.wire, *in = &s->peer.path;

	memcpy(out->sgid, our_gids[is_v6(q)], 16);
	memcpy(out->dgid, out->sgid, 16);
	s->path.loopback = q == WORLD_LOOP;
	if (!s->path.loopback)
		out->dgid[15] = 2;
	memcpy(out->smac, peers_our_mac, 6);
	memcpy(out->dmac, s->path.loopback ? peers_our_mac : peer_mac, 6);
	out->udp_sport = 0xc123;
	out->hop_limit = 64;
	memcpy(s->path.hop, out->dgid, sizeof(s->path.hop));
	s->path.path_ok = true;
	*in = *out;
	memcpy(in->sgid, out->dgid, 16);
	memcpy(in->dgid, out->sgid, 16);
	memcpy(in->smac, out->dmac, 6);
	memcpy(in->dmac, peers_our_mac, 6);
	wire_tmpl_init(&s->peer.tmpl, in, WORLD_QPN + q, 0xffff);
	s->peer.svc = svc;
	if (is_ud(q))
		world.ah[q - WORLD_UD] = (struct qp_ah){.path = *out,
							.pd = WORLD_PD,
							.handle = 1 + q - WORLD_UD,
							.path_ok = true};
}

void
peers_groups(void)
{
	static const uint8_t gid[2][16] = {{[10] = 0xff, 0xff, 239, 1, 2, 3},
					   {0xff, 0x0e, [15] = 0x77}};
	static const uint8_t mac[2][6] = {{0x01, 0, 0x5e, 1, 2, 3}, {0x33, 0x33, 0, 0, 0, 0x77}};
	uint32_t g;

	world.other[WORLD_CONSUMER - WORLD_GROUP] = world.side[WORLD_UD].peer;
	wire_tmpl_init(&world.other[WORLD_CONSUMER - WORLD_GROUP].tmpl,
		       &world.side[WORLD_UD].peer.path, world_qpn(WORLD_CONSUMER), 0xffff);
	for (g = 0; g < 2; g++) {
		struct world_peer *p = &world.other[g];

		p->path = world.side[WORLD_UD + g].peer.path;
		p->svc = WIRE_SVC_UD;
		memcpy(p->path.dgid, gid[g], 16);
		memcpy(p->path.dmac, mac[g], 6);
		wire_tmpl_init(&p->tmpl, &p->path, WIRE_MULTICAST_QPN, 0xffff);
		/* in the order of engine_member_cmp */
		memcpy(world.member[2 * g].gid, gid[g], 16);
		memcpy(world.member[2 * g + 1].gid, gid[g], 16);
		world.member[2 * g].qpn = (WORLD_QPN + g) & ~WORLD_OURS;
		world.member[2 * g + 1].qpn = WORLD_QPN + WORLD_UD + g;
	}
	world.addrs = (struct engine_addrs){.gid = our_gids,
					    .ngids = 2,
					    .member = world.member,
					    .nmembers = 4};
	engine_set_addrs(&world.worker.engine, WORLD_DEV, &world.addrs);
}

const struct world_peer *
world_peer(enum world_qp q)
{
	return q < WORLD_QPS ? &world.side[q].peer : &world.other[q - WORLD_GROUP];
}

uint32_t
world_qpn(enum world_qp q)
{
	if (q == WORLD_GROUP || q == WORLD_GROUP_V6)
		return WIRE_MULTICAST_QPN;
	return q < WORLD_QPS ? WORLD_QPN + q : WORLD_QPN + WORLD_QPS;
}
