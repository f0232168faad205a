/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of a device: GID table, on-link prefixes, neighbours, and the ARP, neighbour discovery
 * and ICMP echo frames about them. No I/O: frames in, frames out, time as a parameter. Control
 * thread only. May include wire and mem's siblings, not ethdev.
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
	NET_NEIGH_ASKING, /* a request is out */
	NET_NEIGH_KNOWN,
};
struct net_neigh {
	uint8_t ip[16]; /* as a GID */
	uint8_t mac[6];
	uint8_t state;    /* enum net_neigh_state */
	uint8_t asked;    /* requests since the last answer; stays at 255 */
	uint32_t owner;   /* for whom it was asked first */
	uint64_t next_ns; /* when to ask again, or to check a known one */
};
#define NET_MAX_NEIGH 1024

struct net_dev {
	uint8_t mac[6];
	uint16_t vlan_tci;
	struct net_addr gid[UROCE_MAX_GIDS]; /* [0] link-local, [1] first IPv4, then the rest */
	uint64_t held;            /* the caller's: bit i: net_addr_add must not fill slot i */
	uint8_t gw4[16], gw6[16]; /* all zero: none */
	struct net_neigh neigh[NET_MAX_NEIGH];
	bool hairpin; /* frames to an address of the device's own go to the wire, and come back */
};

/*
 * A frame to send, built by lib/net; at least 60 bytes long. Large enough to answer an echo request
 * that fills the link MTU of path MTU 4096.
 */
#define NET_FRAME_MAX 4352
struct net_frame {
	uint32_t len;
	uint8_t bytes[NET_FRAME_MAX];
};

/* Start with mac; GID 0 becomes the link-local address made from it. No VLAN, no gateways. */
void net_dev_init(struct net_dev *d, const uint8_t mac[6]);
/*
 * Add "10.0.0.1/24" or "fd00::1/64": an address that a host may have, and its prefix, which is then
 * on-link. The slot taken, or -EINVAL, -EEXIST, -ENOSPC, -EADDRINUSE (a gateway has it). Slot 1 is
 * kept for the first IPv4 one.
 */
int net_addr_add(struct net_dev *d, const char *text);
/*
 * Take away "10.0.0.1" or "10.0.0.1/24": its slot is empty then, its prefix not on-link any more
 * unless another address has it, and a gateway that is not on-link any more is forgotten. What is
 * known of neighbours stays. The slot, or -EINVAL no address; -ENOENT none of the device's, or of
 * another prefix; -EPERM GID 0, which comes from the MAC.
 */
int net_addr_del(struct net_dev *d, const char *text);
/* A gateway of either family, "10.0.0.254" or "fe80::1"; must be on-link. 0, -EINVAL, -ENETUNREACH.
 */
int net_gateway_set(struct net_dev *d, const char *text);
/* Is gid ::ffff:a.b.c.d, an IPv4 address? */
static inline bool
net_gid_is_v4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return __builtin_memcmp(gid, mapped, sizeof(mapped)) == 0;
}
/* Is gid a multicast group, 224.0.0.0/4 or ff00::/8? */
bool net_gid_is_mcast(const uint8_t gid[16]);
/* MAC of a multicast GID (RFC 1112, RFC 2464). */
void net_mcast_mac(const uint8_t gid[16], uint8_t mac[6]);
/* Is gid one of this device's? Its index, or -ENOENT. */
int net_gid_find(const struct net_dev *d, const uint8_t gid[16]);
/* Text of a gid: "10.0.0.1" for an IPv4-mapped one, else IPv6. Length, or -ENOSPC. */
int net_gid_to_text(const uint8_t gid[16], char *out, uint32_t room);

/*
 * Path of an address vector: fills *path (addresses, MACs, UDP source port from lqpn/rqpn, class,
 * hop limit, VLAN). 0 when the next hop's MAC is known or needs no asking: the destination is local
 * (*loopback, dmac is the device's own) or a multicast group.
 * -EINPROGRESS when it must be asked for: dmac is zero, the rest of *path is good;
 * -EINVAL ah has no GRH (is_global), sgid_index is empty or of the other family than dgid, or dgid
 * is no address to send to; -ENETUNREACH no route. *path is undefined after these two.
 * hop, after 0 and -EINPROGRESS: the neighbour that the path goes through, to ask for and to
 * recognise in what net_rx tells; all zero for local and multicast destinations.
 */
int net_path(const struct net_dev *d, const struct uroce_ah_attr *ah, uint32_t lqpn, uint32_t rqpn,
	     struct wire_path *path, bool *loopback, uint8_t hop[16]);

/*
 * Why net_path refuses ah, for people: a static string of one line that says what to do, too. NULL
 * when net_path does not refuse it.
 */
const char *net_path_why(const struct net_dev *d, const struct uroce_ah_attr *ah);

/*
 * Somebody wants the MAC of ip (a hop of net_path). May be called for each of them and again: only
 * when ip is neither known nor asked for already is a request (ARP or neighbour solicitation)
 * built, else out->len is 0. owner: any number that stands for whoever wants it, such as a uid. In
 * a full table owners with fewer entries take them from those with most, and none from owners with
 * fewer than they have. False: there is no entry for this owner.
 */
bool net_neigh_ask(struct net_dev *d, const uint8_t ip[16], uint32_t owner, uint64_t now_ns,
		   struct net_frame *out);
/* MAC of a known neighbour, or NULL. Good until the next call that takes a net_dev. */
const uint8_t *net_neigh_mac(const struct net_dev *d, const uint8_t ip[16]);
/*
 * A frame that is not RoCE. Learns the MACs of neighbours that were asked for (and of no others, so
 * that a stranger cannot fill the table), answers requests for our addresses and ICMP echo.
 * out->len > 0: send it. Returns true and *changed (valid until the next call) when a neighbour's
 * MAC became known or other than it was. Hostile input.
 */
bool net_rx(struct net_dev *d, const uint8_t *frame, uint32_t len, uint64_t now_ns,
	    struct net_frame *out, const struct net_neigh **changed);
/*
 * Requests due at now_ns, one a call: true and a frame to send, call again. False: nothing is due
 * before *next_ns (UINT64_MAX: until the next net_neigh_ask). Who does not answer is asked again
 * after 100 ms, 200 ms .. 1.6 s, and forgotten after NET_NEIGH_GIVE_UP requests; a known neighbour
 * is checked each 30 s and stays known, whether it answers or not.
 */
#define NET_NEIGH_GIVE_UP 64
bool net_tick(struct net_dev *d, uint64_t now_ns, struct net_frame *out, uint64_t *next_ns);
/*
 * Tell everybody on the link that GID index has our MAC (gratuitous ARP, unsolicited neighbour
 * advertisement), for a device that has just come up. False: no such GID.
 */
bool net_announce(const struct net_dev *d, uint32_t index, struct net_frame *out);

/* IPv4 or IPv6 frame for us? For the engine's first look: unicast to mac, multicast, broadcast. */
static inline bool
net_mac_is_ours(const uint8_t dst[6], const uint8_t mac[6])
{
	return (dst[0] & 1) || __builtin_memcmp(dst, mac, 6) == 0;
}

#endif
