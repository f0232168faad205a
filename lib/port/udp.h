/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port on a kernel UDP socket: RoCE on the host's own address, without privilege. The engine sees
 * whole frames. The port strips their headers, because the kernel builds new ones, and adds headers
 * to received datagrams. Runs of frames of equal length and path are sent as super-frames
 * (UDP_SEGMENT). The receive call splits a super-frame (UDP_GRO) while copying it: the iovecs
 * scatter the segments into packet buffers. Private to lib/port.
 *
 *   udp.c        the socket
 *   udp_tx.c     frames to messages
 *   udp_rx.c     messages to frames
 *   udp_seg.c    helpers of both
 *   host.c       interfaces and addresses of the kernel
 *
 * The worker that owns the queue calls the burst functions; the control thread calls all others.
 */
#ifndef PORT_UDP_H
#define PORT_UDP_H

#include <netinet/in.h>
#include <sys/socket.h>
#include "port/port.h"
#include "port/socket.h"
#include "port/udp_seg.h"

#define UDP_TX_MSGS     32                 /* messages per sendmmsg */
#define UDP_TX_IOVS     (4 * UDP_SEGS_MAX) /* iovecs per sendmmsg, at least; a frame has 4 at most */
#define UDP_TX_STAGE    (3 * UDP_SEGS_MAX * UDP_SHORT) /* copied bytes per sendmmsg, at least */
#define UDP_RX_MSGS     16                             /* messages per recvmmsg */
#define UDP_RX_SEGS_MAX 128   /* segments of a super-frame that a kernel delivers */
#define UDP_CONTROL     160   /* bytes of control messages */
#define UDP_SPILL       65536 /* maximum length of a message */

struct udp_tx {
	struct mmsghdr msg[UDP_TX_MSGS];
	struct iovec iov[2 * UDP_TX_IOVS];
	uint8_t stage[2 * UDP_TX_STAGE]; /* copies of short pieces, which the iovecs point to */
	struct sockaddr_storage to[UDP_TX_MSGS];
	uint8_t control[UDP_TX_MSGS][UDP_CONTROL] __attribute__((aligned(8)));
	uint32_t frames[UDP_TX_MSGS]; /* frames per message */
	bool gso;                     /* the kernel accepts super-frames */
	uint32_t single; /* frames left to send singly, because a super-frame was refused */
};

/* Buffers of one message: chunks of equal length in packet buffers, and a spill area. */
struct udp_slot {
	struct rte_mbuf *m[UDP_SEGS_MAX];
	struct iovec iov[UDP_SEGS_MAX + 1];
	uint32_t nm;    /* number of buffers, one per chunk */
	uint32_t chunk; /* bytes per chunk */
	uint8_t *spill; /* UDP_SPILL bytes */
	bool fresh;     /* the buffers were allocated and not used since */
	struct sockaddr_storage from;
	uint8_t control[UDP_CONTROL] __attribute__((aligned(8)));
};

struct udp_rx {
	struct udp_slot slot[UDP_RX_MSGS];
	struct mmsghdr msg[UDP_RX_MSGS];
	struct rte_mbuf *ready[UDP_RX_MSGS * UDP_RX_SEGS_MAX]; /* split, not delivered yet */
	uint32_t ready_n, ready_at;
	uint32_t chunk; /* for the next messages: segment length of the last long super-frame */
	uint32_t bulk;  /* calls for which long super-frames are still expected */
	uint32_t room;  /* UDP payload that a packet buffer holds */
	uint64_t said[PORT_SAID]; /* as in port_socket_failed */
};

/* One queue: a socket. Queue 0 also holds the state of the whole port. */
struct port_udp {
	char name[64];
	int fd;
	bool v6;         /* an IPv6 socket; if it is bound to no address, it handles IPv4, too */
	bool any;        /* bound to an interface: messages carry the address */
	uint8_t mac[6];  /* of the device */
	uint8_t gid[16]; /* !any: the address */
	uint32_t ifindex;
	struct rte_mempool *pool;
	struct udp_icrc_rows rows;
	struct udp_tx tx;
	struct udp_rx rx;
	struct port_udp_stats stats;
	uint64_t said[3]; /* a bit per errno: send errors that were logged */
};

/* Implements port_open for this kind; params->udp_addr or udp_netdev is set. */
int port_udp_open(struct port *p, const struct port_params *params, struct rte_mempool *pool);
void port_udp_close(struct port *p);
/*
 * Returns true if the address, or the interface that the socket was bound to, still exists, or if
 * the kernel cannot be queried. Updates p->netdev if the address has moved or the interface was
 * renamed.
 */
bool port_udp_present(struct port *p);

/* Implements port_host_addrs for a port of this kind. */
int port_udp_addrs(const struct port *p, struct net_addr *addr, uint32_t max);
/* Returns the socket of a queue (< p->nrxq). */
int port_udp_fd(const struct port *p, uint16_t queue);

uint16_t port_udp_rx(struct port_udp *u, struct rte_mbuf **m, uint16_t n);
uint16_t port_udp_tx(struct port_udp *u, struct rte_mbuf **m, uint16_t n);

#endif
