/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: their set-up and the few facts about one that the rest needs. A port is an ethdev, or a
 * UDP or packet socket of the kernel. Any DPDK port works; known good are net_ring, net_memif,
 * net_af_packet, net_af_xdp, net_tap and PCI NICs. Control thread only, except the burst functions
 * of port/burst.h, which the owner of the queue calls.
 *
 * Debian's EAL loads every driver it finds in its plugin folder (dpdk/pmds-*), so that
 * `--vdev net_memif0,..` needs no driver linked or named by -d. Of drivers only net_ring is linked,
 * for port_ring_pair.
 */
#ifndef PORT_PORT_H
#define PORT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rte_mempool.h>
#include "port/caps.h"

enum port_kind {
	PORT_ETHDEV = 0,
	PORT_ETHDEV_GUARDED, /* an ethdev whose memory may vanish at any time (port/guard.h) */
	PORT_UDP,            /* a UDP socket of the kernel (port/udp.h) */
	PORT_PACKET,         /* a packet socket of the kernel (port/packet.h) */
};

#define PORT_IDS_MAX 16 /* ports have numbers below this */

/*
 * Counters of a PORT_UDP or PORT_PACKET in addition to the worker's. Written by the worker; any
 * thread may read.
 */
struct port_udp_stats {
	uint64_t tx_messages, rx_messages; /* sent and received: super-frames and lone datagrams */
	uint64_t tx_lost;                  /* frames that the kernel refused */
	uint64_t rx_copied;                /* datagrams that were copied once more to be cut off */
	uint64_t rx_truncated; /* messages longer than a message can be (MSG_TRUNC): dropped */
	uint64_t rx_too_long;  /* messages whose datagrams fit no packet buffer: dropped */
	uint64_t rx_too_many;  /* super-frames of too many datagrams: dropped */
	uint64_t rx_malformed; /* PORT_PACKET: messages whose headers do not fit: dropped */
	uint64_t rx_no_buffer; /* datagrams dropped, or calls put off, for want of buffers */
	uint64_t rx_errors;    /* calls that failed */
	/* datagrams and super-frames lost because the socket was full, modulo 2^32; as of the last
	 * that did */
	uint64_t rx_socket_full;
};

struct net_addr;
struct port_packet;
struct port_udp;

struct port {
	enum port_kind kind;
	/*
	 * Device number of the engine. Of an ethdev: its port id; other kinds take numbers that no
	 * ethdev has.
	 */
	uint16_t id;
	char name[64];   /* ethdev name: "net_memif0" */
	char driver[32]; /* "net_memif" */
	char netdev[32]; /* kernel interface under it, or "" */
	uint8_t mac[6];
	uint16_t nrxq, ntxq;
	int rx_fd;         /* readable while frames wait in its first queue; 0: it has none */
	uint32_t link_mtu; /* bytes of IP packet it carries */
	uint16_t vlan;     /* as in struct port_params */
	bool started;      /* its queues may be used */
	bool link_up;      /* atomic: its files are written by another thread (app/uroced/live.c) */
	bool memif_client;
	bool tx_multi_seg; /* takes frames of several segments */
	bool tx_copies;    /* has copied a frame, of several segments, when it has taken it */
	bool inward;       /* as in struct port_params */
	bool shared;       /* as in struct port_params */
	/*
	 * Of a shared ethdev: neighbours' replies, which do not arrive through its queues.
	 * Non-blocking; 0: none.
	 */
	int neigh_fd;
	uint64_t cnp_ns; /* set by its owner: see engine_set_cnp */
	uint8_t cnp_dscp;
	struct port_caps caps;
	bool strict;                  /* PORT_UDP, set by its owner: see engine_set_unknown_id */
	struct port_udp *udp;         /* of a PORT_UDP: a socket a queue */
	struct port_packet *packet;   /* of a PORT_PACKET */
	struct rte_mempool *own_pool; /* buffers that the driver needs in its own way, or NULL */
};

struct port_params {
	const char *name;  /* ethdev name */
	unsigned nqueues;  /* wanted, >= 1; a port with fewer gives what it has */
	uint32_t link_mtu; /* 0: the MTU of the port or the interface under it */
	/*
	 * NULL: the port's own, or a random one where it has none. Over an interface of the kernel
	 * (af_packet, af_xdp) the interface keeps its MAC and gets promiscuous: so the kernel's
	 * stack drops our frames at its door, which on af_packet costs a quarter less than to route
	 * them.
	 */
	const uint8_t *mac;
	uint16_t vlan; /* VID of frames that are taken, 1 .. 4094; 0: untagged ones and VID 0 */
	uint16_t nrxd, ntxd; /* descriptors wanted; 0: 1024 */
	/*
	 * What its queue q receives, only the worker that owns q has sent, on its own queue q of
	 * some port: so no frame comes while that worker sleeps.
	 */
	bool inward;
	/*
	 * A UDP socket is wanted, not an ethdev: on this address of the host ("10.9.0.1" or
	 * "fd00::1", a prefix length is passed over), or on all addresses of this interface. One of
	 * them, or both NULL. name, mac, vlan and descriptors mean nothing then. Received
	 * packets are spread over the queues by destination QPN modulo nqueues, a power of two.
	 */
	const char *udp_addr, *udp_netdev;
	/*
	 * A packet socket is wanted, not an ethdev: on this interface of the host, or NULL. mac and
	 * vlan are as above, but NULL makes a MAC from the interface's. shared: the port has the
	 * interface's MAC, and accepts only RoCE and replies about neighbours; mac and vlan are not
	 * used. Of ethdevs net_af_xdp can be shared, with port_xdp_share_program.
	 */
	const char *packet_netdev;
	bool shared;
};

/*
 * Configure and start. pool's buffers must hold what the link carries (af_xdp makes its own, of
 * which a page holds one: its frames are limited to that). Errors are logged with the port's name
 * and reason. 0 or -errno: -ENODEV no such port, -EINVAL an impossible request, else the driver's
 * error. A memif needs as many queues as its peer, otherwise frames on queues that the peer does
 * not have wait forever.
 */
int port_open(struct port *p, const struct port_params *params, struct rte_mempool *pool);
/*
 * Makes a file with the XDP program for a shared net_af_xdp, for its argument xdp_prog=. path: its
 * name in this process, of at most 40 bytes. 0; -ENOTSUP if the build had no clang; or -errno.
 */
int port_xdp_share_program(char *path, size_t room);
/*
 * The names of all ports of EAL, each with a space before it, as far as they fit into room bytes.
 * How many bytes there are, less the NUL.
 */
size_t port_list(char *list, size_t room);
/*
 * Stop and close the ethdev, which is gone then (but for a memif server's, which EAL's end closes).
 * Workers must no longer use it.
 */
void port_close(struct port *p);
/*
 * Read the link state again, the port's and that of the kernel interface under it; true when it
 * changed.
 */
bool port_poll_link(struct port *p);

/* Returns true if the addresses of the port are those of the kernel. */
static inline bool
port_has_host_addrs(const struct port *p)
{
	return p->kind == PORT_UDP || p->shared;
}
/*
 * Of such a port: the addresses that the kernel has now. Returns how many of them are in
 * addr[0 .. max).
 */
uint32_t port_host_addrs(const struct port *p, struct net_addr *addr, uint32_t max);
/*
 * The next hop on a shared port's interface for packets to dgid, by the kernel's routes. GIDs, both
 * of one family. Returns 0, -ENETUNREACH if there is no route, or another -errno.
 */
int port_host_route(const struct port *p, const uint8_t dgid[16], uint8_t hop[16]);
/*
 * The kernel joins or leaves a multicast group for the port. Nothing is to be done for an ethdev.
 * 0, -EOPNOTSUPP if a port on one address cannot, -ENOBUFS if the kernel's limit of groups is
 * reached (net.ipv4.igmp_max_memberships), or another -errno. The caller counts: a group is joined
 * once.
 */
int port_group_join(const struct port *p, const uint8_t gid[16]);
void port_group_leave(const struct port *p, const uint8_t gid[16]);
/* Does the kernel's stack get every frame of the interface under it as well? */
bool port_shares_interface(const struct port *p);
/* Can it? */
bool port_takes_groups(const struct port *p);
/* Sums up what a PORT_UDP counts. Returns false for other kinds. */
bool port_udp_stats(const struct port *p, struct port_udp_stats *sum);
/* What a PORT_PACKET counts, or NULL for other kinds. */
const struct port_udp_stats *port_packet_stats(const struct port *p);
/*
 * Returns a descriptor that is readable while frames wait in this queue, below p->nrxq; 0: there is
 * none. The port owns it: use it for polling only.
 */
int port_rx_fd(const struct port *p, uint16_t queue);

/*
 * A memif client connects when it is started and never again: with its server absent, port_open
 * leaves it not started (and link_up false) instead of failing, and when its server goes it stays
 * down. True for such a port: call port_restart periodically.
 */
bool port_wants_restart(const struct port *p);
/* Stop and start again, with no worker using it. 0, or -errno: p->started is false. */
int port_restart(struct port *p);

/*
 * Make two net_ring ports, tied back to back: what one sends, the other receives, in this process.
 * Their ethdev names are "net_ring_" and a or b. entries: of each queue, a power of two; one of
 * them stays empty. 0 or -errno; the rings live as long as the process.
 */
int port_ring_pair(const char *a, const char *b, unsigned nqueues, unsigned entries);

#endif
