/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports about multicast groups: IGMPv3 (RFC 3376) and MLDv2 (RFC 3810). */
#include <string.h>
#include "net/frame.h"

#define IGMP_PROTO     2u
#define IGMP_REPORT_V3 0x22u
#define MLD_REPORT_V2  143u
#define ROUTER_ALERT   0x94u /* RFC 2113; RFC 2711 as a hop-by-hop option */
#define ROUTER_ALERT_6 5u
#define TOS_CONTROL    0xc0u

struct group_report { /* the same in both protocols */
	uint8_t type, spare;
	rte_be16_t csum;
	rte_be16_t spare2;
	rte_be16_t records; /* 1 */
	uint8_t record;     /* enum net_group_record */
	uint8_t aux_len;
	rte_be16_t sources;
} WIRE_PACKED; /* then the group's address */
_Static_assert(sizeof(struct group_report) == 12, "group report size");

struct igmp_ip { /* IPv4 header with the option Router Alert */
	struct wire_ipv4 ip;
	uint8_t option, option_len, value[2];
} WIRE_PACKED;
_Static_assert(sizeof(struct igmp_ip) == 24, "IPv4 header with Router Alert");

struct hop_by_hop { /* IPv6 extension header with Router Alert for MLD, and padding */
	uint8_t next, len;
	uint8_t option, option_len, value[2];
	uint8_t padn, padn_len;
} WIRE_PACKED;
_Static_assert(sizeof(struct hop_by_hop) == 8, "hop-by-hop header size");

/* The group of all stations, and groups that do not leave a station, are never reported. */
static bool
is_reported(const uint8_t gid[16])
{
	static const uint8_t all_hosts[4] = {224, 0, 0, 1};
	static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};

	if (net_gid_is_v4(gid))
		return memcmp(gid + 12, all_hosts, 4) != 0;
	return (gid[1] & 15) > 1 && memcmp(gid, all_nodes, 16) != 0;
}

static struct group_report *
put_report(struct net_frame *out, uint8_t type, enum net_group_record record, const uint8_t *group,
	   uint32_t group_len)
{
	struct group_report *r = net_put(out, sizeof(*r));

	r->type = type;
	r->records = rte_cpu_to_be_16(1);
	r->record = record;
	memcpy(net_put(out, group_len), group, group_len);
	return r;
}

/* Returns false if the device has no IPv4 address. */
static bool
put_igmp(const struct net_dev *d, const uint8_t gid[16], enum net_group_record record,
	 struct net_frame *out)
{
	static const uint8_t routers[16] = {
		[10] = 0xff, [11] = 0xff, [12] = 224, [13] = 0, [14] = 0, [15] = 22};
	const uint32_t len = sizeof(struct group_report) + 4;
	const uint8_t *src = net_source_for(d, gid);
	struct group_report *r;
	struct igmp_ip *h;
	uint8_t mac[6];

	if (src == NULL)
		return false;
	net_mcast_mac(routers, mac);
	net_put_eth(out, d, mac, WIRE_ETHERTYPE_IPV4);
	h = net_put(out, sizeof(*h));
	h->ip.ver_ihl = 0x40 | sizeof(*h) / 4;
	h->ip.tos = TOS_CONTROL;
	h->ip.total_len = rte_cpu_to_be_16((uint16_t)(sizeof(*h) + len));
	h->ip.frag_off = rte_cpu_to_be_16(WIRE_IPV4_DF);
	h->ip.ttl = 1;
	h->ip.proto = IGMP_PROTO;
	memcpy(h->ip.src, src + 12, 4);
	memcpy(h->ip.dst, routers + 12, 4);
	h->option = ROUTER_ALERT;
	h->option_len = 4;
	h->ip.csum = net_sum_finish(net_sum(0, h, sizeof(*h)));
	r = put_report(out, IGMP_REPORT_V3, record, gid + 12, 4);
	r->csum = net_sum_finish(net_sum(0, r, len));
	return true;
}

static bool
put_mld(const struct net_dev *d, const uint8_t gid[16], enum net_group_record record,
	struct net_frame *out)
{
	static const uint8_t routers[16] = {0xff, 0x02, [15] = 0x16};
	const uint32_t len = sizeof(struct group_report) + 16;
	const uint8_t *src = d->gid[0].gid; /* the link-local one, as RFC 3810 5.2.13 wants */
	struct group_report *r;
	struct hop_by_hop *h;
	uint8_t mac[6];

	if (!d->gid[0].used)
		return false;
	net_mcast_mac(routers, mac);
	net_put_eth(out, d, mac, WIRE_ETHERTYPE_IPV6);
	net_put_ipv6(out, src, routers, 0, 1, sizeof(*h) + len);
	h = net_put(out, sizeof(*h));
	h->next = NET_IPPROTO_ICMP6;
	h->option = ROUTER_ALERT_6;
	h->option_len = 2;
	h->padn = 1;
	r = put_report(out, MLD_REPORT_V2, record, gid, 16);
	r->csum = net_sum_finish(net_sum(net_sum_icmp6(src, routers, len), r, len));
	return true;
}

bool
net_group_report(const struct net_dev *d, const uint8_t gid[16], enum net_group_record record,
		 struct net_frame *out)
{
	bool done;

	out->len = 0;
	if (d->host || !net_gid_is_mcast(gid) || !is_reported(gid))
		return false;
	done = net_gid_is_v4(gid) ? put_igmp(d, gid, record, out) : put_mld(d, gid, record, out);
	if (done)
		net_put_pad(out);
	return done;
}
