/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds multicast membership reports and parses queries: IGMPv3 (RFC 3376) and MLDv2 (RFC 3810);
 * for older routers, IGMPv2 (RFC 2236), IGMPv1 (RFC 1112) and MLDv1 (RFC 2710).
 */
#include <string.h>
#include "net/frame.h"

#define IGMP_QUERY     0x11u
#define IGMP_REPORT_V1 0x12u
#define IGMP_REPORT_V2 0x16u
#define IGMP_LEAVE_V2  0x17u
#define IGMP_REPORT_V3 0x22u
#define MLD_QUERY      130u
#define MLD_REPORT_V1  131u
#define MLD_DONE_V1    132u
#define MLD_REPORT_V2  143u
#define CSUM_AT        2u    /* in every message */
#define ROUTER_ALERT   0x94u /* RFC 2113; RFC 2711 as a hop-by-hop option */
#define ROUTER_ALERT_6 5u
#define TOS_CONTROL    0xc0u
#define NS_PER_MS      1000000ull

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

struct old_igmp { /* version 1 and 2 */
	uint8_t type, code;
	rte_be16_t csum;
	uint8_t group[4];
} WIRE_PACKED;
_Static_assert(sizeof(struct old_igmp) == 8, "size of an IGMPv2 message");

struct old_mld { /* version 1 */
	uint8_t type, code;
	rte_be16_t csum;
	rte_be16_t delay, spare;
	uint8_t group[16];
} WIRE_PACKED;
_Static_assert(sizeof(struct old_mld) == 24, "size of an MLDv1 message");

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

/* The all-nodes group and node-local groups are never reported. */
static bool
is_reported(const uint8_t gid[16])
{
	static const uint8_t all_hosts[4] = {224, 0, 0, 1};
	static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};

	if (net_gid_is_v4(gid))
		return memcmp(gid + 12, all_hosts, 4) != 0;
	return (gid[1] & 15) > 1 && memcmp(gid, all_nodes, 16) != 0;
}

/* The message of a report, and its destination. */
struct message {
	uint8_t bytes[sizeof(struct group_report) + 16];
	uint32_t len;
	uint8_t dst[16];
};

static struct message
newest_report(uint8_t type, const uint8_t dst[16], const uint8_t *group, uint32_t group_len,
	      enum net_group_record record)
{
	struct group_report r = {.type = type,
				 .records = rte_cpu_to_be_16(1),
				 .record = (uint8_t)record};
	struct message m = {.len = sizeof(r) + group_len};

	memcpy(m.bytes, &r, sizeof(r));
	memcpy(m.bytes + sizeof(r), group, group_len);
	memcpy(m.dst, dst, 16);
	return m;
}

static struct message
igmp_message(const uint8_t gid[16], enum net_group_record record, enum net_group_version version)
{
	static const uint8_t capable[16] = {
		[10] = 0xff, [11] = 0xff, [12] = 224, [13] = 0, [14] = 0, [15] = 22};
	static const uint8_t routers[16] = {
		[10] = 0xff, [11] = 0xff, [12] = 224, [13] = 0, [14] = 0, [15] = 2};
	bool left = record == NET_GROUP_LEFT;
	struct old_igmp r = {.type = left                         ? IGMP_LEAVE_V2
				     : version == NET_GROUP_OLDER ? IGMP_REPORT_V2
								  : IGMP_REPORT_V1};
	struct message m = {.len = sizeof(r)};

	if (version == NET_GROUP_NEWEST)
		return newest_report(IGMP_REPORT_V3, capable, gid + 12, 4, record);
	memcpy(r.group, gid + 12, 4);
	memcpy(m.bytes, &r, sizeof(r));
	memcpy(m.dst, left ? routers : gid, 16);
	return m;
}

static struct message
mld_message(const uint8_t gid[16], enum net_group_record record, enum net_group_version version)
{
	static const uint8_t capable[16] = {0xff, 0x02, [15] = 0x16};
	static const uint8_t routers[16] = {0xff, 0x02, [15] = 2};
	bool left = record == NET_GROUP_LEFT;
	struct old_mld r = {.type = left ? MLD_DONE_V1 : MLD_REPORT_V1};
	struct message m = {.len = sizeof(r)};

	if (version == NET_GROUP_NEWEST)
		return newest_report(MLD_REPORT_V2, capable, gid, 16, record);
	memcpy(r.group, gid, 16);
	memcpy(m.bytes, &r, sizeof(r));
	memcpy(m.dst, left ? routers : gid, 16);
	return m;
}

/* Appends the message, with its checksum; sum: of the pseudo header. */
static void
put_message(struct net_frame *out, struct message *m, uint32_t sum)
{
	uint16_t csum = net_sum_finish(net_sum(sum, m->bytes, m->len));

	memcpy(m->bytes + CSUM_AT, &csum, sizeof(csum));
	memcpy(net_put(out, m->len), m->bytes, m->len);
}

/* Returns false if the device has no IPv4 address. */
static bool
put_igmp(const struct net_dev *d, const uint8_t gid[16], struct message *m, struct net_frame *out)
{
	const uint8_t *src = net_source_for(d, gid);
	struct igmp_ip *h;
	uint8_t mac[6];

	if (src == NULL)
		return false;
	net_mcast_mac(m->dst, mac);
	net_put_eth(out, d, mac, WIRE_ETHERTYPE_IPV4);
	h = net_put(out, sizeof(*h));
	h->ip.ver_ihl = 0x40 | sizeof(*h) / 4;
	h->ip.tos = TOS_CONTROL;
	h->ip.total_len = rte_cpu_to_be_16((uint16_t)(sizeof(*h) + m->len));
	h->ip.frag_off = rte_cpu_to_be_16(WIRE_IPV4_DF);
	h->ip.ttl = 1;
	h->ip.proto = WIRE_IPPROTO_IGMP;
	memcpy(h->ip.src, src + 12, 4);
	memcpy(h->ip.dst, m->dst + 12, 4);
	h->option = ROUTER_ALERT;
	h->option_len = 4;
	h->ip.csum = net_sum_finish(net_sum(0, h, sizeof(*h)));
	put_message(out, m, 0);
	return true;
}

static bool
put_mld(const struct net_dev *d, struct message *m, struct net_frame *out)
{
	const uint8_t *src = d->gid[0].gid; /* the link-local address (RFC 3810 5.2.13) */
	struct hop_by_hop *h;
	uint8_t mac[6];

	if (!d->gid[0].used)
		return false;
	net_mcast_mac(m->dst, mac);
	net_put_eth(out, d, mac, WIRE_ETHERTYPE_IPV6);
	net_put_ipv6(out, src, m->dst, 0, 1, sizeof(*h) + m->len);
	h = net_put(out, sizeof(*h));
	h->next = NET_IPPROTO_ICMP6;
	h->option = ROUTER_ALERT_6;
	h->option_len = 2;
	h->padn = 1;
	put_message(out, m, net_sum_icmp6(src, m->dst, m->len));
	return true;
}

bool
net_group_report(const struct net_dev *d, const uint8_t gid[16], enum net_group_record record,
		 enum net_group_version version, struct net_frame *out)
{
	bool done, v4 = net_gid_is_v4(gid);
	struct message m;

	out->len = 0;
	if (d->host || !net_gid_is_mcast(gid) || !is_reported(gid) ||
	    (v4 && version == NET_GROUP_OLDEST && record == NET_GROUP_LEFT))
		return false;
	m = v4 ? igmp_message(gid, record, version) : mld_message(gid, record, version);
	done = v4 ? put_igmp(d, gid, &m, out) : put_mld(d, &m, out);
	if (done)
		net_put_pad(out);
	return done;
}

struct igmp_query { /* of version 3; versions 1 and 2 end after the group */
	uint8_t type, code;
	rte_be16_t csum;
	uint8_t group[4];
	uint8_t more[4]; /* robustness, interval, number of sources */
} WIRE_PACKED;
_Static_assert(sizeof(struct igmp_query) == 12, "IGMP query size");

struct mld_query { /* of version 2; version 1 ends after the group */
	uint8_t type, code;
	rte_be16_t csum;
	rte_be16_t delay, spare;
	uint8_t group[16];
	uint8_t more[4];
} WIRE_PACKED;
_Static_assert(sizeof(struct mld_query) == 28, "MLD query size");

/*
 * Decodes the maximum response time of a query. If the top bit of the code is set, it is a floating
 * point number with a mantissa of this many bits (RFC 3376 4.1.1, RFC 3810 5.1.3).
 */
static uint32_t
query_time(uint32_t code, uint32_t bits)
{
	uint32_t mantissa = code & ((1u << bits) - 1), exponent = code >> bits & 7;

	return code >> (bits + 3) == 0 ? code : (mantissa | 1u << bits) << (exponent + 3);
}

static bool
igmp_query(struct wire_cur c, struct net_query *query)
{
	static const uint8_t all[4];
	const struct wire_ipv4 *ip = net_ipv4_open(&c);
	const struct igmp_query *q;
	const uint8_t *msg;
	uint32_t len;

	if (ip == NULL || ip->proto != WIRE_IPPROTO_IGMP || ip->ttl != 1)
		return false;
	len = wire_cur_left(&c);
	msg = wire_cur_take(&c, len);
	q = (const struct igmp_query *)msg;
	if ((len != 8 && len < sizeof(*q)) || q->type != IGMP_QUERY ||
	    net_sum_finish(net_sum(0, msg, len)) != 0)
		return false;
	query->version = len >= sizeof(*q) ? NET_GROUP_NEWEST
			 : q->code != 0    ? NET_GROUP_OLDER
					   : NET_GROUP_OLDEST;
	/* version 1 always asks for all groups, whatever the field contains, within 10 s */
	net_gid_from_v4(query->gid, query->version == NET_GROUP_OLDEST ? all : q->group);
	query->within_ns = (query->version == NET_GROUP_OLDEST ? 100 : query_time(q->code, 4)) *
			   100 * NS_PER_MS;
	return true;
}

static bool
mld_query(struct wire_cur c, struct net_query *query)
{
	const struct wire_ipv6 *ip = wire_cur_get(&c, struct wire_ipv6);
	const struct hop_by_hop *h = wire_cur_get(&c, struct hop_by_hop);
	const struct mld_query *q;
	const uint8_t *msg;
	uint32_t payload, len;

	if (ip == NULL || h == NULL || rte_be_to_cpu_32(ip->ver_tc_flow) >> 28 != 6 ||
	    ip->next != 0 || ip->hop_limit != 1 || ip->src[0] != 0xfe ||
	    (ip->src[1] & 0xc0) != 0x80 || h->next != NET_IPPROTO_ICMP6 || h->len != 0)
		return false;
	payload = rte_be_to_cpu_16(ip->payload_len);
	if (payload < sizeof(*h) || !wire_cur_limit(&c, payload - sizeof(*h)))
		return false;
	len = wire_cur_left(&c);
	msg = wire_cur_take(&c, len);
	q = (const struct mld_query *)msg;
	if ((len != 24 && len < sizeof(*q)) || q->type != MLD_QUERY || q->code != 0 ||
	    net_sum_finish(net_sum(net_sum_icmp6(ip->src, ip->dst, len), msg, len)) != 0)
		return false;
	memcpy(query->gid, q->group, 16);
	query->version = len == 24 ? NET_GROUP_OLDER : NET_GROUP_NEWEST;
	query->within_ns = (len == 24 ? rte_be_to_cpu_16(q->delay)
				      : query_time(rte_be_to_cpu_16(q->delay), 12)) *
			   NS_PER_MS;
	return true;
}

bool
net_query_is_general(const uint8_t gid[16])
{
	static const uint8_t none[16];

	return net_gid_is_v4(gid) ? memcmp(gid + 12, none, 4) == 0 : memcmp(gid, none, 16) == 0;
}

bool
net_group_query(const struct net_dev *d, const uint8_t *frame, uint32_t len, struct net_query *q)
{
	struct wire_cur c;
	uint16_t type;

	if (d->host || !net_rx_open(d, frame, len, &c, &type))
		return false;
	switch (type) {
	case WIRE_ETHERTYPE_IPV4:
		return igmp_query(c, q);
	case WIRE_ETHERTYPE_IPV6:
		return mld_query(c, q);
	default:
		return false;
	}
}
