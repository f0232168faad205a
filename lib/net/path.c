/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include "net/frame.h"
#include "net/net.h"

#define VLAN_PCP_SHIFT 13

static bool
gid_is_zero(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return memcmp(gid, zero, 16) == 0;
}

/* Returns true if gid is not a valid destination. */
static bool
is_no_destination(const uint8_t gid[16])
{
	static const uint8_t any4[4], all4[4] = {255, 255, 255, 255};

	if (!net_gid_is_v4(gid))
		return gid_is_zero(gid);
	return memcmp(gid + 12, any4, 4) == 0 || memcmp(gid + 12, all4, 4) == 0;
}

/* Finds the next hop of a unicast packet to dgid. Returns false if there is no route. */
static bool
next_hop(const struct net_dev *d, const uint8_t dgid[16], uint8_t hop[16])
{
	const uint8_t *gw = net_gid_is_v4(dgid) ? d->gw4 : d->gw6;

	if (d->route != NULL && d->route(d->route_ctx, dgid, hop) == 0)
		return true;
	/* also with the host's stack: if the interface is down, it has no routes */
	if (net_on_link(d, dgid))
		gw = dgid;
	memcpy(hop, gw, 16);
	return !gid_is_zero(gw);
}

static uint16_t
path_tci(const struct net_dev *d, uint8_t sl)
{
	/* The service level, if not 0, becomes the priority of the VLAN tag. */
	if (d->vlan_tci == 0 || sl == 0)
		return d->vlan_tci;
	return (uint16_t)((d->vlan_tci & ((1u << VLAN_PCP_SHIFT) - 1)) | (sl & 7u)
										 << VLAN_PCP_SHIFT);
}

/* Sets the destination MAC: that of *hop, of a group, or our own. */
static int
resolve(const struct net_dev *d, struct wire_path *path, bool *loopback, uint8_t hop[16])
{
	const uint8_t *mac;

	if (net_gid_find(d, path->dgid) >= 0) {
		*loopback = !d->hairpin;
		memcpy(path->dmac, d->mac, 6);
		return 0;
	}
	if (net_gid_is_mcast(path->dgid)) {
		net_mcast_mac(path->dgid, path->dmac);
		return 0;
	}
	if (d->host_sport != 0) {
		memcpy(path->dmac, d->mac, 6);
		return 0;
	}
	if (!next_hop(d, path->dgid, hop))
		return -ENETUNREACH;
	mac = net_neigh_mac(d, hop);
	if (mac == NULL)
		return -EINPROGRESS;
	memcpy(path->dmac, mac, 6);
	return 0;
}

int
net_path(const struct net_dev *d, const struct uroce_ah_attr *ah, uint32_t lqpn, uint32_t rqpn,
	 struct wire_path *path, bool *loopback, uint8_t hop[16])
{
	const struct net_addr *src;

	memset(path, 0, sizeof(*path));
	memset(hop, 0, 16);
	*loopback = false;
	if (!ah->is_global || ah->sgid_index >= UROCE_MAX_GIDS)
		return -EINVAL;
	src = &d->gid[ah->sgid_index];
	if (!src->used || src->v4 != net_gid_is_v4(ah->dgid) || is_no_destination(ah->dgid))
		return -EINVAL;

	memcpy(path->smac, d->mac, 6);
	memcpy(path->sgid, src->gid, 16);
	memcpy(path->dgid, ah->dgid, 16);
	path->flow_label = ah->flow_label & 0xfffff;
	path->udp_sport =
		d->host_sport != 0 ? d->host_sport : wire_udp_sport(path->flow_label, lqpn, rqpn);
	path->tclass = ah->traffic_class;
	/* With a hop limit of 0 packets would not reach the peer: use the usual default. */
	path->hop_limit = ah->hop_limit != 0 ? ah->hop_limit : NET_HOP_LIMIT;
	path->vlan_tci = path_tci(d, ah->sl);
	return resolve(d, path, loopback, hop);
}

const char *
net_path_why(const struct net_dev *d, const struct uroce_ah_attr *ah)
{
	struct wire_path path;
	uint8_t hop[16];
	bool loopback;
	int rc = net_path(d, ah, 0, 0, &path, &loopback, hop);

	if (rc == 0 || rc == -EINPROGRESS)
		return NULL;
	if (!ah->is_global)
		return "RoCE needs a GRH: -g 1, or, if it was given, the peer sent no GID: its "
		       "index is empty (is_global = 1 and grh.sgid_index = 1)";
	if (rc == -ENETUNREACH)
		return d->host ? "no route: `ip route get` says what the kernel knows"
			       : "no route: the destination is in none of the device's addr= "
				 "prefixes and no gateway= is set";
	if (ah->sgid_index >= UROCE_MAX_GIDS || !d->gid[ah->sgid_index].used)
		return "this index is empty";
	if (d->gid[ah->sgid_index].v4 != net_gid_is_v4(ah->dgid))
		return "one GID is IPv4, the other IPv6: use indexes of the same kind at both ends "
		       "(-g 1 for the first IPv4 address)";
	return "the destination GID is not a valid destination address";
}
