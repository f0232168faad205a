/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port on a kernel packet socket, which sends and receives whole frames on one interface. Runs of
 * frames of equal length and path are sent as super-frames (PACKET_VNET_HDR); received super-frames
 * are split. The port has a separate MAC, or shares the interface's MAC with the kernel. Private to
 * lib/port.
 *
 *   packet.c         the socket
 *   packet_filter.c  the socket filter; reserves the UDP port
 *   packet_tx.c      frames to messages
 *   packet_rx.c      messages to frames
 *   packet_seg.c     headers of super-frames
 *   packet_cut.c     splits super-frames
 *
 * The worker that owns the queue calls the burst functions; the control thread calls all others.
 */
#ifndef PORT_PACKET_H
#define PORT_PACKET_H

#include <sys/socket.h>
#include "port/packet_seg.h"
#include "port/port.h"
#include "port/socket.h"

#define PACKET_TX_MSGS  32
#define PACKET_TX_IOVS  (4 * UDP_SEGS_MAX) /* iovecs per sendmmsg, at least; 4 per frame at most */
#define PACKET_TX_STAGE (3 * UDP_SEGS_MAX * UDP_SHORT) /* copied bytes per sendmmsg, at least */
#define PACKET_CONTROL  96                             /* bytes of control messages */

struct packet_tx {
	struct mmsghdr msg[PACKET_TX_MSGS];
	struct iovec iov[2 * PACKET_TX_IOVS];
	uint8_t stage[2 * PACKET_TX_STAGE]; /* copies of short pieces, which iovecs point to */
	uint8_t head[PACKET_TX_MSGS][PACKET_VNET_LEN + PACKET_HDR_MAX];
	uint32_t frames[PACKET_TX_MSGS]; /* frames per message */
	bool gso;                        /* the kernel accepts super-frames, as far as known */
	bool gso_seen;                   /* it has accepted one */
	uint32_t single; /* frames left to send singly, because a super-frame was refused */
	struct udp_icrc_rows rows;
	uint64_t said[3]; /* a bit per errno: send errors that were logged */
};

struct packet_rx {
	struct packet_cutter cutter;
	struct packet_slot slot[PACKET_RX_MSGS];
	struct mmsghdr msg[PACKET_RX_MSGS];
	uint8_t control[PACKET_RX_MSGS][PACKET_CONTROL] __attribute__((aligned(8)));
	uint64_t said[PORT_SAID]; /* as in port_socket_failed */
};

struct port_packet {
	char name[64];
	char netdev[32];
	int fd;
	int udp_fd; /* shared: holds UDP port 4791; or -1 */
	bool shared;
	bool stranger;  /* shared: the interface was replaced by one with another MAC */
	uint8_t mac[6]; /* of the device */
	uint32_t ifindex;
	struct packet_tx tx;
	struct packet_rx rx;
	struct port_udp_stats stats;
};

/* port_open for a port of this kind; params->packet_netdev is set. */
int port_packet_open(struct port *p, const struct port_params *params, struct rte_mempool *pool);
void port_packet_close(struct port *p);
/*
 * Returns true if the interface exists and the socket is bound to it. If the interface was replaced
 * by another of the same name, binds the socket to that one.
 */
bool port_packet_present(struct port *p);

/*
 * Attaches the filter to fd. Frames received before this call are not filtered. Returns 0 or
 * -errno.
 */
int packet_filter_set(int fd, const uint8_t mac[6], bool shared);
/*
 * Binds UDP port 4791 on the interface, so that the kernel does not reply to RoCE packets with
 * "port unreachable". The socket never receives anything. Returns a descriptor or -errno.
 */
int packet_udp_hold(const char *netdev);

uint16_t port_packet_rx(struct port_packet *u, struct rte_mbuf **m, uint16_t n);
uint16_t port_packet_tx(struct port_packet *u, struct rte_mbuf **m, uint16_t n);

#endif
