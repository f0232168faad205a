/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that lib/net parses and builds: ARP (RFC 826), neighbour discovery (RFC 4861), ICMP (RFC
 * 792, RFC 4443). Private to lib/net.
 */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include "net/net.h"
#include "wire/cursor.h"
#include "wire/hdr.h"

#define NET_ETHERTYPE_ARP WIRE_ETHERTYPE_ARP
#define NET_IPPROTO_ICMP  WIRE_IPPROTO_ICMP
#define NET_IPPROTO_ICMP6 WIRE_IPPROTO_ICMP6
#define NET_HOP_LIMIT     64
#define NET_ND_HOP_LIMIT  255 /* ignore ND frames with a lower limit: they passed a router */

enum net_icmp_type {
	NET_ICMP_ECHO_REPLY = 0,
	NET_ICMP_ECHO = 8,
	NET_ICMP6_ECHO = 128,
	NET_ICMP6_ECHO_REPLY = 129,
	NET_ICMP6_NS = 135,
	NET_ICMP6_NA = 136,
};

enum net_arp_op {
	NET_ARP_REQUEST = 1,
	NET_ARP_REPLY = 2,
};

struct net_arp { /* for Ethernet and IPv4 */
	rte_be16_t htype, ptype;
	uint8_t hlen, plen;
	rte_be16_t op;
	uint8_t sha[6], spa[4], tha[6], tpa[4];
} WIRE_PACKED;
_Static_assert(sizeof(struct net_arp) == 28, "ARP size");

struct net_icmp {
	uint8_t type, code;
	rte_be16_t csum;
} WIRE_PACKED;
_Static_assert(sizeof(struct net_icmp) == 4, "ICMP header size");

struct net_nd { /* solicitation and advertisement; options follow */
	struct net_icmp icmp;
	rte_be32_t flags;
	uint8_t target[16];
} WIRE_PACKED;
_Static_assert(sizeof(struct net_nd) == 24, "neighbour discovery size");
#define NET_NA_SOLICITED 0x40000000u
#define NET_NA_OVERRIDE  0x20000000u

struct net_nd_lladdr {     /* option: link-layer address */
	uint8_t type, len; /* len in units of 8 bytes */
	uint8_t mac[6];
} WIRE_PACKED;
_Static_assert(sizeof(struct net_nd_lladdr) == 8, "link-layer address option size");
#define NET_ND_OPT_SOURCE 1u
#define NET_ND_OPT_TARGET 2u

extern const uint8_t net_mac_broadcast[6];

/* Context of one received frame, passed by the dispatcher to a protocol's handler. */
struct net_rx_ctx {
	struct net_dev *d;
	const uint8_t *smac; /* Ethernet source: unicast, not our MAC */
	bool unicast;        /* sent to our MAC, not to a group */
	uint64_t now_ns;
	struct net_frame *out;
	const struct net_neigh **changed;
};

/* Start a frame with its Ethernet header; later calls append. */
void net_put_eth(struct net_frame *f, const struct net_dev *d, const uint8_t dmac[6],
		 uint16_t type);
/* Append a complete IP header for payload_len bytes, which follow. src and dst: GIDs. */
void net_put_ipv4(struct net_frame *f, const uint8_t src[16], const uint8_t dst[16], uint8_t proto,
		  uint32_t payload_len);
void net_put_ipv6(struct net_frame *f, const uint8_t src[16], const uint8_t dst[16], uint8_t next,
		  uint8_t hop_limit, uint32_t payload_len);
/* Append n zeroed bytes. The caller ensures that they fit. */
void *net_put(struct net_frame *f, uint32_t n);
/* Zero-pad to the minimum Ethernet length. */
void net_put_pad(struct net_frame *f);

/*
 * Internet checksum (RFC 1071) over parts: add each (all but the last of even length), then finish.
 * net_sum_finish returns 0 if the parts include a correct checksum, else the checksum to store.
 * Works on words in memory order: store the result unchanged.
 */
uint32_t net_sum(uint32_t sum, const void *bytes, uint32_t len);
uint16_t net_sum_finish(uint32_t sum);
/* Sum of the pseudo header for len bytes of ICMPv6 (RFC 8200 8.1). */
uint32_t net_sum_icmp6(const uint8_t src[16], const uint8_t dst[16], uint32_t len);

/* Returns our source address for ip: same family, preferably same prefix. NULL: none. */
const uint8_t *net_source_for(const struct net_dev *d, const uint8_t ip[16]);
/* Returns true if ip is link-local or within the prefix of one of our addresses. */
bool net_on_link(const struct net_dev *d, const uint8_t ip[16]);
/* IPv4 address as a GID. */
void net_gid_from_v4(uint8_t gid[16], const uint8_t v4[4]);
/* Returns true if mac is a unicast MAC other than zero. */
bool net_mac_is_station(const uint8_t mac[6]);

/*
 * Build a request for ip, sent to dmac, or to the broadcast or multicast address if dmac is NULL.
 * The device may have no address of ip's family: then the ARP request names no sender, and there is
 * no solicitation (out->len 0).
 */
void net_arp_request(const struct net_dev *d, const uint8_t ip[16], const uint8_t *dmac,
		     struct net_frame *out);
void net_nd_solicit(const struct net_dev *d, const uint8_t ip[16], const uint8_t *dmac,
		    struct net_frame *out);
/* Build a gratuitous ARP that announces ip at our MAC. */
void net_arp_announce(const struct net_dev *d, const uint8_t ip[16], struct net_frame *out);
void net_nd_announce(const struct net_dev *d, const uint8_t ip[16], struct net_frame *out);

/*
 * Learn that ip (a GID) is at mac. override: also if another MAC is known for it. Returns true and
 * *changed if a neighbour in the table has a new MAC.
 */
bool net_neigh_learn(struct net_dev *d, const uint8_t ip[16], const uint8_t mac[6], bool override,
		     uint64_t now_ns, const struct net_neigh **changed);

/*
 * Returns the Ethernet header of a frame from another station to d, in d's VLAN, or NULL for any
 * other frame. Sets *c to the bytes after the Ethernet header and *type to their EtherType.
 */
const struct wire_eth *net_rx_open(const struct net_dev *d, const uint8_t *frame, uint32_t len,
				   struct wire_cur *c, uint16_t *type);

/*
 * Consumes an IPv4 header with its options and limits *c to its payload. Returns NULL if the
 * version, a length or the checksum is wrong, or for a fragment.
 */
const struct wire_ipv4 *net_ipv4_open(struct wire_cur *c);

/*
 * Handlers, one for each protocol. c starts after the header that selected the protocol. The result
 * is that of net_rx.
 */
bool net_arp_rx(const struct net_rx_ctx *rx, struct wire_cur c);
bool net_ipv4_rx(const struct net_rx_ctx *rx, struct wire_cur c);
bool net_ipv6_rx(const struct net_rx_ctx *rx, struct wire_cur c);
/* c covers the ICMPv6 message, whose checksum is correct. */
bool net_nd_rx(const struct net_rx_ctx *rx, const struct wire_ipv6 *ip, struct wire_cur c);

#endif
