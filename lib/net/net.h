/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of a device: GID table, on-link prefixes, neighbours, and the ARP, neighbour discovery
 * and ICMP echo frames about them. No I/O: frames in, frames out, time as a parameter. Control
 * thread only. Includes lib/wire and uroce_abi only.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <uroce_abi/ctrl.h>
#include "wire/build.h"

struct net_addr {
	uint8_t gid[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t plen;    /* prefix length, 0 .. 32 or 0 .. 128 in the address's own family */
	bool v4;
	bool used;
};

enum net_neigh_state {
	NET_NEIGH_FREE = 0,
	NET_NEIGH_ASKING, /* request sent, MAC not known yet */
	NET_NEIGH_KNOWN,
};
struct net_neigh {
	uint8_t ip[16]; /* as a GID */
	uint8_t mac[6];
	uint8_t state;    /* enum net_neigh_state */
	uint8_t requests; /* requests since the last response; at most 255 */
	uint32_t owner;   /* owner of the first request */
	bool hashed;      /* in its bucket */
	uint16_t next;    /* 1 + index of the next entry of its bucket; 0: none */
	bool doubtful;    /* its MAC has changed: no station has answered a request since */
	uint64_t next_ns; /* time of the next request or check */
	uint64_t hold_ns; /* its MAC does not change again before; 0: it has not changed */
};
#define NET_MAX_NEIGH     1024
#define NET_NEIGH_BUCKETS 1024 /* a power of two */

/*
 * Finds the next hop of packets to dgid; both are GIDs. Returns 0, or -errno if there is none.
 */
typedef int net_route_fn(const void *ctx, const uint8_t dgid[16], uint8_t hop[16]);

struct net_dev {
	uint8_t mac[6];
	uint16_t vlan_tci;
	struct net_addr gid[UROCE_MAX_GIDS]; /* [0] link-local, [1] first IPv4, then the rest */
	uint8_t past[UROCE_MAX_GIDS][16];    /* the address that an empty slot had; zero: none */
	uint64_t held;            /* set by the caller; bit i: slot i is only for past[i] */
	uint8_t gw4[16], gw6[16]; /* all zero: none */
	struct net_neigh neigh[NET_MAX_NEIGH];
	/*
	 * 1 + index of a bucket's first entry; 0: none. The hash depends on the address of this
	 * struct, which must not be copied.
	 */
	uint16_t neigh_bucket[NET_NEIGH_BUCKETS];
	bool hairpin; /* frames to the device's own addresses are sent to the wire and return */
	/*
	 * The kernel also has the device's IPv4 (IPv6) addresses, on an interface that receives
	 * every frame of that family. It answers ARP, neighbour solicitations and echo requests.
	 */
	bool kernel_v4, kernel_v6;
	/*
	 * The addresses and routes are those of the host's own stack (net_host_init), which also
	 * answers neighbours and announces addresses.
	 */
	bool host;
	/*
	 * host: not 0 if the stack sends the packets. MACs of paths are then unused, neighbours are
	 * not resolved, and every packet has this UDP source port. 0: the device sends frames
	 * itself, gets next hops from `route` and resolves neighbours.
	 */
	uint16_t host_sport;
	net_route_fn *route; /* host, host_sport 0: set by the caller */
	const void *route_ctx;
};

/*
 * A frame to send, built by lib/net, at least 60 bytes long. Large enough for the response to an
 * echo request that fills the link MTU of path MTU 4096.
 */
#define NET_FRAME_MAX 4352
struct net_frame {
	uint32_t len;
	uint8_t bytes[NET_FRAME_MAX];
};

/* Initialise with mac. GID 0 becomes the link-local address of mac. No VLAN, no gateways. */
void net_dev_init(struct net_dev *d, const uint8_t mac[6]);
/*
 * Initialise as a device that uses the host's stack, without addresses. mac: our MAC in frames that
 * we receive and send. sport: the UDP source port that the stack sends from; 0: the device sends
 * frames itself.
 */
void net_host_init(struct net_dev *d, const uint8_t mac[6], uint16_t sport);
/*
 * For a device of the host's stack: replace its addresses by addr[0 .. n), GIDs with their prefix
 * lengths. Addresses that remain keep their slots. A link-local IPv6 address gets slot 0 if that is
 * free, the first IPv4 address slot 1. Without a link-local address, slot 0 has a copy of the first
 * IPv4 address, else of the first address, until a link-local one takes its place; not while slot 0
 * is held by another address. An address that was removed before returns to its slot if that is
 * empty. Addresses without a free slot are left out. *added and *gone: a bit for each slot that was
 * filled, and for each that was emptied.
 */
void net_host_addrs_set(struct net_dev *d, const struct net_addr *addr, uint32_t n, uint64_t *added,
			uint64_t *gone);
/*
 * Add "10.0.0.1/24" or "fd00::1/64": a valid host address, and its prefix, which is then on-link.
 * Returns the slot, or -EINVAL, -EEXIST, -ENOSPC, -EADDRINUSE (a gateway has the address). Slot 1
 * is reserved for the first IPv4 address.
 */
int net_addr_add(struct net_dev *d, const char *text);
/*
 * Remove "10.0.0.1" or "10.0.0.1/24". Its slot becomes empty. Its prefix is no longer on-link
 * unless another address has it; a gateway that is no longer on-link is removed. Neighbours stay.
 * Returns the slot, or -EINVAL no address; -ENOENT not an address of the device, or with another
 * prefix; -EPERM GID 0, which comes from the MAC.
 */
int net_addr_del(struct net_dev *d, const char *text);
/*
 * Set the gateway of the address's family, "10.0.0.254" or "fe80::1". Returns 0, -EINVAL, or
 * -ENETUNREACH if it is not on-link.
 */
int net_gateway_set(struct net_dev *d, const char *text);
/* Returns true if gid is an IPv4 address, ::ffff:a.b.c.d. */
static inline bool
net_gid_is_v4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return __builtin_memcmp(gid, mapped, sizeof(mapped)) == 0;
}
/* Returns true if the first bits (0 .. 128) of two GIDs are equal. Any thread. */
static inline bool
net_gid_same_prefix(const uint8_t a[16], const uint8_t b[16], uint32_t bits)
{
	uint32_t bytes = bits / 8, rest = bits % 8;

	return __builtin_memcmp(a, b, bytes) == 0 &&
	       (rest == 0 || ((a[bytes] ^ b[bytes]) >> (8 - rest)) == 0);
}
/* Returns true if gid is a multicast group, 224.0.0.0/4 or ff00::/8. */
bool net_gid_is_mcast(const uint8_t gid[16]);
/* MAC of a multicast GID (RFC 1112, RFC 2464). */
void net_mcast_mac(const uint8_t gid[16], uint8_t mac[6]);
/* Returns true if ip is in the prefix of a; false if a is empty or of the other family. */
bool net_addr_covers(const struct net_addr *a, const uint8_t ip[16]);
/* Index of gid among the device's GIDs, or -ENOENT. 0 only if no other slot has it. */
int net_gid_find(const struct net_dev *d, const uint8_t gid[16]);
/* Text of a GID: "10.0.0.1" if IPv4-mapped, else IPv6. Returns its length, or -ENOSPC. */
int net_gid_to_text(const uint8_t gid[16], char *out, uint32_t room);

/*
 * Resolve an address vector: fills *path (addresses, MACs, UDP source port from lqpn/rqpn, class,
 * hop limit, VLAN).
 * - 0: complete. The next hop's MAC is known or not needed, because the destination is local
 *   (*loopback, dmac is the device's own) or multicast.
 * - -EINPROGRESS: the next hop's MAC must be requested; dmac is zero, the rest of *path is valid.
 * - -EINVAL: ah has no GRH (is_global), sgid_index is empty or of another family than dgid, or dgid
 *   is not a valid destination; *path is undefined.
 * - -ENETUNREACH: no route; *path is undefined.
 * hop, set with 0 and -EINPROGRESS: the next hop, for net_neigh_ask and to compare with the result
 * of net_rx; all zero for local and multicast destinations.
 */
int net_path(const struct net_dev *d, const struct uroce_ah_attr *ah, uint32_t lqpn, uint32_t rqpn,
	     struct wire_path *path, bool *loopback, uint8_t hop[16]);

/*
 * Why net_path refuses ah: a static one-line message for users that also says what to do, unless
 * the GID index is empty: the caller then lists those that are not. NULL if net_path does not
 * refuse it.
 */
const char *net_path_why(const struct net_dev *d, const struct uroce_ah_attr *ah);

/*
 * Request the MAC of ip, a hop of net_path. May be called repeatedly: a request (ARP or neighbour
 * solicitation) is built in out only if ip is neither known nor requested, else out->len is 0.
 * owner: any number that identifies the user of the entry, such as a uid. If the table is full,
 * owners with few entries evict those of owners with most; an owner never loses an entry to one
 * that has more. Returns false if there is no entry for this owner.
 */
bool net_neigh_ask(struct net_dev *d, const uint8_t ip[16], uint32_t owner, uint64_t now_ns,
		   struct net_frame *out);
/* MAC of a known neighbour, or NULL. Valid until the next call that takes a net_dev. */
const uint8_t *net_neigh_mac(const struct net_dev *d, const uint8_t ip[16]);
/*
 * Handle a received frame that is not RoCE; hostile input. Learns MACs only of neighbours that were
 * requested, so that other stations cannot fill the table; responds to ARP, ND and ICMP echo
 * requests, unless the host's stack does (host, kernel_v4, kernel_v6). If out->len > 0, send out.
 * Returns true and *changed (valid until the next call) if a neighbour's MAC became known or
 * changed. A MAC changes at most once in NET_NEIGH_HOLD_NS, because each change is work for all
 * address handles of clients, and any station can claim an address: at the end of that time a
 * broadcast asks which station has it, so that a forged claim is undone.
 */
#define NET_NEIGH_HOLD_NS 250000000ull
bool net_rx(struct net_dev *d, const uint8_t *frame, uint32_t len, uint64_t now_ns,
	    struct net_frame *out, const struct net_neigh **changed);
/*
 * Build the requests that are due at now_ns, one per call. True: send out and call again. False:
 * nothing is due before *next_ns (UINT64_MAX: until the next net_neigh_ask). Requests are repeated
 * after 100 ms, 200 ms .. 1.6 s; after NET_NEIGH_GIVE_UP requests the entry is freed. A known
 * neighbour is checked every 30 s and stays known even if it does not respond.
 */
#define NET_NEIGH_GIVE_UP 64
bool net_tick(struct net_dev *d, uint64_t now_ns, struct net_frame *out, uint64_t *next_ns);
/*
 * Build the announcement that GID index has our MAC (gratuitous ARP, unsolicited neighbour
 * advertisement), for a device that has just come up. Returns false if there is no such GID or the
 * host's stack announces it.
 */
bool net_announce(const struct net_dev *d, uint32_t index, struct net_frame *out);

/* Record type of a report, as in RFC 3376 and RFC 3810. */
enum net_group_record {
	NET_GROUP_MEMBER = 2, /* we are a member (response to a query) */
	NET_GROUP_LEFT = 3,
	NET_GROUP_JOINED = 4,
};
enum net_group_version {
	NET_GROUP_NEWEST = 0, /* IGMPv3, MLDv2 */
	NET_GROUP_OLDER,      /* IGMPv2, MLDv1 */
	NET_GROUP_OLDEST,     /* IGMPv1; MLDv1 for IPv6 groups */
};
/*
 * Build a report of this version about a multicast group, sent from an IPv4 address of the device
 * or from its link-local address. Returns false with out->len 0 if gid is not a group or is never
 * reported (224.0.0.1, ff02::1, ff01::/16), the device has no such address, the host's stack
 * reports, or the version has no such message: IGMPv1 does not report NET_GROUP_LEFT.
 */
bool net_group_report(const struct net_dev *d, const uint8_t gid[16], enum net_group_record record,
		      enum net_group_version version, struct net_frame *out);

struct net_query {          /* of a multicast router */
	uint8_t gid[16];    /* the queried group; the family's unspecified address: all groups */
	uint64_t within_ns; /* maximum response time */
	enum net_group_version version;
};
/*
 * Parse a multicast router's query, IGMP (RFC 1112, RFC 2236, RFC 3376) or MLD (RFC 2710, RFC
 * 3810), into *q. A source-specific query counts as one for its group. Returns false for any other
 * frame, and always if d->host, because the host's stack reports.
 */
bool net_group_query(const struct net_dev *d, const uint8_t *frame, uint32_t len,
		     struct net_query *q);
/* Returns true if a query for gid is a general query, for all groups of its family. */
bool net_query_is_general(const uint8_t gid[16]);

/* Returns true if dst is our MAC, multicast or broadcast. The engine's first filter. */
static inline bool
net_mac_is_ours(const uint8_t dst[6], const uint8_t mac[6])
{
	return (dst[0] & 1) || __builtin_memcmp(dst, mac, 6) == 0;
}

#endif
