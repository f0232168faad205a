/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: set-up, and the properties that the rest of uroce needs. A port is an ethdev, or a UDP or
 * packet socket of the kernel. Any DPDK port works; known good are net_ring, net_memif,
 * net_af_packet, net_af_xdp, net_tap and PCI NICs. Control thread only, except the burst functions
 * of port/burst.h, which the owner of the queue calls.
 *
 * Debian's EAL loads every driver in its plugin folder (dpdk/pmds-*), so `--vdev net_memif0,..`
 * needs neither a linked driver nor -d. Only net_ring is linked, for port_ring_pair.
 */
#ifndef PORT_PORT_H
#define PORT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rte_mempool.h>

struct rte_eth_dev_info;

/*
 * How a NIC spreads received frames over its queues: Toeplitz hash, key and redirection table, as
 * far as its driver tells. It may be wrong: only speed depends on it.
 */
#define PORT_RSS_KEY  64  /* bytes, at most */
#define PORT_RSS_RETA 512 /* entries, at most */

struct port_rss {
	uint32_t key[PORT_RSS_KEY / 4]; /* as the driver has it: bytes */
	uint16_t n;                     /* entries of reta; 0: not known, the rest means nothing */
	bool v4, v6;                    /* frames of these have their UDP ports hashed */
	uint16_t reta[PORT_RSS_RETA];   /* queues */
};

/*
 * Asks the driver of an ethdev that is configured and started. info is what the driver says of it.
 * rss->n is 0 if the driver does not tell, or has no table of a power of two entries.
 */
void port_rss_ask(struct port_rss *rss, uint16_t port_id, const struct rte_eth_dev_info *info);
/*
 * Returns the queue to which RoCEv2 packets come from src to dst, GIDs of one family, and from this
 * UDP source port; -1: not known, or the ports are not hashed.
 */
int port_rss_queue(const struct port_rss *rss, const uint8_t src[16], const uint8_t dst[16],
		   uint16_t sport);

/*
 * The capabilities of a port's device, whether uroce uses them or not: queried when the port
 * starts. doc/hardware.md describes which of them are used.
 */
struct port_caps {
	bool known;           /* false for ports that are kernel sockets: the rest is zero */
	uint64_t rx_offloads; /* RTE_ETH_RX_OFFLOAD_.. */
	uint64_t tx_offloads; /* RTE_ETH_TX_OFFLOAD_.. */
	uint64_t rss;         /* RTE_ETH_RSS_..: hash types that the device supports */
	uint64_t rss_used;    /* hash types that the daemon configured; 0: no RSS */
	uint32_t reta_size;   /* entries of the RSS redirection table */
	uint16_t max_rxq, max_txq;
	uint32_t max_mtu; /* bytes; 0: not reported by the driver */
	/*
	 * Result of validating a rule that steers UDP port 4791 to queue 0: 0; -ENOSYS if the
	 * driver has no rules; another -errno with its reason in flow_why.
	 */
	int flow_rule;
	char flow_why[64];
};

enum port_kind {
	PORT_ETHDEV = 0,
	PORT_ETHDEV_GUARDED, /* an ethdev whose memory may vanish at any time (memif.c) */
	PORT_UDP,            /* a UDP socket of the kernel */
	PORT_PACKET,         /* a packet socket of the kernel */
};

#define PORT_IDS_MAX 16 /* ids of ports are below this */

/*
 * Counters of a PORT_UDP or PORT_PACKET in addition to the worker's. Written by the worker; any
 * thread may read.
 */
struct port_socket_stats {
	uint64_t tx_messages, rx_messages; /* super-frames and single datagrams */
	uint64_t tx_lost;                  /* frames that the kernel refused */
	uint64_t rx_copied;                /* datagrams copied again to split a super-frame */
	uint64_t rx_truncated; /* messages longer than the maximum (MSG_TRUNC): dropped */
	uint64_t rx_too_long;  /* messages whose datagrams fit no packet buffer: dropped */
	uint64_t rx_too_many;  /* super-frames of too many datagrams: dropped */
	uint64_t rx_malformed; /* PORT_PACKET: messages with inconsistent headers: dropped */
	uint64_t rx_no_buffer; /* datagrams dropped, or calls delayed, because no buffer was free */
	uint64_t rx_errors;    /* calls that failed */
	/* datagrams and super-frames lost because the socket was full, modulo 2^32; as reported
	 * with the last message that arrived */
	uint64_t rx_socket_full;
};

/* State of a VF (SR-IOV) that its PF may change. Zero for other ports. */
struct port_vf {
	unsigned pf;      /* index of the PF's interface; 0: not of this kernel or namespace */
	uint32_t number;  /* the VF's number among those of its PF */
	uint8_t mac[6];   /* that the PF has set last */
	uint16_t vlan;    /* that the PF has set; 0: none */
	uint8_t settling; /* polls of the link that are left until `returned` may be set */
	bool returned;    /* the link went down and came back, or the PF came up */
	bool asked;       /* pf_ups is known */
	uint32_t pf_ups;  /* how often the PF's carrier has come up */
};

struct net_addr;
struct port_socket;

struct port {
	enum port_kind kind;
	/*
	 * The engine's device number: an ethdev's port id. Other kinds use numbers that no ethdev
	 * has.
	 */
	uint16_t id;
	char name[64];   /* ethdev name: "net_memif0" */
	char driver[32]; /* "net_memif" */
	char netdev[32]; /* kernel interface under it, or "" */
	uint8_t mac[6];
	uint16_t nrxq, ntxq;
	uint32_t qpn_mask; /* as in struct port_params */
	int rx_fd;         /* readable while frames wait in the first queue; 0: none */
	uint32_t link_mtu; /* longest IP packet, bytes */
	uint16_t vlan;     /* as in struct port_params */
	bool started;      /* its queues may be used */
	bool gone;         /* after port_leave */
	bool link_up;      /* atomic: another thread writes it to files (app/uroced/live.c) */
	bool memif_client;
	bool tx_multi_seg;   /* accepts frames of several segments */
	bool tx_copies;      /* a transmit burst copies the frames that it accepts, all segments */
	bool inward;         /* as in struct port_params */
	bool shared;         /* as in struct port_params */
	unsigned wanted;     /* queues that were requested */
	uint16_t queue_gap;  /* as in struct port_params */
	uint16_t nrxd, ntxd; /* as in struct port_params */
	struct rte_mempool *pool; /* an ethdev receives into it */
	struct port_vf vf;
	/*
	 * Shared ethdev: a socket that receives neighbours' replies, which bypass its queues.
	 * Non-blocking; 0: none.
	 */
	int neigh_fd;
	int hold_fd;     /* of a shared port: holds UDP port 4791; 0: none */
	uint64_t cnp_ns; /* set by the port's owner: see engine_set_cnp */
	uint8_t cnp_dscp;
	struct port_caps caps;
	struct port_rss rss;              /* of several queues; else rss.n is 0 */
	const struct engine_peers *peers; /* set by the port's owner: engine_set_peers */
	bool strict;                  /* PORT_UDP, set by the port's owner: engine_set_unknown_id */
	struct port_socket *sockets;  /* PORT_UDP, PORT_PACKET: one per queue; NULL: other kinds */
	struct rte_mempool *own_pool; /* a pool for this driver only, or NULL */
};

struct port_params {
	const char *name; /* ethdev name */
	/*
	 * Requested, >= 1. The port may have fewer, and has more if its driver feeds all queues of
	 * the device's arguments (net_af_packet's qpairs=). Each receive queue must be polled.
	 */
	unsigned nqueues;
	/*
	 * Queues of an ethdev to leave unused behind each: queue q is its queue q * (1 +
	 * queue_gap). The ethdev must have that many. For net_ring, whose counters of neighbouring
	 * queues share a cache line.
	 */
	uint16_t queue_gap;
	uint32_t link_mtu; /* 0: the MTU of the port or the interface under it */
	/*
	 * NULL: the port's MAC, or a random one if it has none. A kernel interface (af_packet,
	 * af_xdp) keeps its MAC and becomes promiscuous. The kernel's stack then drops our frames
	 * early, which on af_packet costs a quarter less than routing them.
	 */
	const uint8_t *mac;
	uint16_t vlan;       /* VID of accepted frames, 1 .. 4094; 0: untagged frames and VID 0 */
	uint16_t nrxd, ntxd; /* descriptors requested; 0: 1024 */
	/*
	 * Every frame that queue q receives was sent by the worker that owns q, on queue q of some
	 * port. No frame therefore arrives while that worker sleeps.
	 */
	bool inward;
	/*
	 * Open a UDP socket instead of an ethdev: on this address of the host ("10.9.0.1" or
	 * "fd00::1"; a prefix length is ignored), or on all addresses of this interface. At most
	 * one is not NULL. name, mac, vlan and the descriptors are then ignored.
	 */
	const char *udp_addr, *udp_netdev;
	/*
	 * Bits of a QPN. Sockets spread received packets over the queues by their destination QPN:
	 * (QPN & qpn_mask) % nqueues.
	 */
	uint32_t qpn_mask;
	/*
	 * Open a packet socket on this interface of the host instead of an ethdev; NULL: do not.
	 * mac and vlan are as above, but for a NULL mac one is derived from the interface's.
	 * shared: the port has the interface's MAC and accepts only RoCE and neighbours' replies;
	 * mac and vlan are ignored. The only ethdev that can be shared is net_af_xdp, with
	 * port_xdp_share_program.
	 */
	const char *packet_netdev;
	bool shared;
};

/*
 * Configures and starts a port. pool's buffers must hold the longest frame of the link. af_xdp uses
 * a separate pool with one buffer per page, which limits its frames to a page. A memif needs as
 * many queues as its peer; otherwise frames on queues that the peer lacks wait forever. Returns 0
 * or -errno: -ENODEV no such port, -EINVAL an impossible request, else the driver's error. Errors
 * are logged with the port's name and the reason.
 */
int port_open(struct port *p, const struct port_params *params, struct rte_mempool *pool);
/*
 * Creates a file with the XDP program of a shared net_af_xdp, for the argument xdp_prog=. path: its
 * name in this process, at most 40 bytes. Returns 0; -ENOTSUP if built without clang; or -errno.
 */
int port_xdp_share_program(char *path, size_t room);
/*
 * Lists the names of all EAL ports, each preceded by a space, as far as they fit into room bytes.
 * Returns the length of the list, without the NUL.
 */
size_t port_list(char *list, size_t room);
/* Returns true if name has the shape of a PCI address; it then contains no path. */
bool port_is_pci(const char *name);
/*
 * If name is a PCI address that is no port: stores in why (room bytes) the reason and what to do.
 * Returns false for other names.
 */
bool port_pci_why(const char *name, char *why, size_t room);
/*
 * Stops and closes the port. An ethdev no longer exists then, except a memif server's, which EAL's
 * cleanup closes. No worker may use the port any more.
 */
void port_close(struct port *p);
/*
 * Reads the link state of the port and of the kernel interface under it. Returns true if it
 * changed.
 */
bool port_poll_link(struct port *p);

/* Returns true if the port uses the kernel's addresses. */
static inline bool
port_has_host_addrs(const struct port *p)
{
	return p->kind == PORT_UDP || p->shared;
}
/*
 * For such a port: stores the kernel's current addresses in addr[0 .. max). Returns their number,
 * or -errno if the kernel cannot be queried.
 */
int port_host_addrs(const struct port *p, struct net_addr *addr, uint32_t max);
/*
 * Looks up the next hop to dgid on a shared port's interface in the kernel's routing table. Both
 * are GIDs of the same family. Returns 0, -ENETUNREACH if there is no route, or another -errno.
 */
int port_host_route(const struct port *p, const uint8_t dgid[16], uint8_t hop[16]);
/*
 * Makes the kernel join or leave a multicast group for the port; does nothing for an ethdev. The
 * caller counts references: a group is joined once. Returns 0, -EOPNOTSUPP if the port is on one
 * address and does not support groups, -ENOBUFS if the kernel's limit is reached
 * (net.ipv4.igmp_max_memberships), or another -errno.
 */
int port_group_join(const struct port *p, const uint8_t gid[16]);
void port_group_leave(const struct port *p, const uint8_t gid[16]);
/* Returns true if the kernel's stack also receives every frame of the interface under the port. */
bool port_shares_interface(const struct port *p);
/* Returns true if port_group_join is supported: false only for a PORT_UDP on one address. */
bool port_takes_groups(const struct port *p);
/* Adds up the counters of all queues of a PORT_UDP or PORT_PACKET. Returns false for other kinds.
 */
bool port_socket_stats(const struct port *p, struct port_socket_stats *sum);
/*
 * Returns the bytes that the kernel keeps in the socket of each queue, with its overhead; 0 for
 * other kinds.
 */
uint32_t port_socket_buffer(const struct port *p);
/*
 * Returns a descriptor that is readable while frames wait in this queue (< p->nrxq); 0 if there is
 * none. The port owns it: use it for polling only.
 */
int port_rx_fd(const struct port *p, uint16_t queue);

/*
 * Returns true if the caller must call port_restart, periodically until this is false:
 * - A memif client without a server. The driver connects only when the port is started. If the
 *   server is absent, port_open leaves the port stopped (link_up false) instead of failing; if the
 *   server leaves, the port stays down.
 * - The driver reported that the device must be reset, for example a VF whose PF was reset.
 * - A VF whose link came back: its PF may have stopped its queues.
 * - The last port_restart failed.
 */
bool port_wants_restart(const struct port *p);
/*
 * Stops and starts the port. Resets the device before if its driver reported that it must be, and
 * sets it up as port_open did; p->mac stays. No worker may use the port. Returns 0, or -errno with
 * p->started false. The next port_poll_link reports a change of the link, except for a memif
 * client, whose link is down afterwards.
 */
int port_restart(struct port *p);

/*
 * Returns true if the port's device is being removed from the machine. The removal waits until the
 * caller calls port_leave.
 */
bool port_must_leave(const struct port *p);
/*
 * Closes an ethdev port and gives its device back for good: the port stays down, and port_close
 * does nothing any more. No worker may use the port.
 */
void port_leave(struct port *p);

/*
 * Creates two net_ring ports back to back in this process: each receives what the other sends. The
 * ethdev names are "net_ring_" followed by a or b. entries: size of each queue, a power of two, of
 * which one entry stays empty. Returns 0 or -errno. The rings live as long as the process.
 */
int port_ring_pair(const char *a, const char *b, unsigned nqueues, unsigned entries);

#endif
