/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports on sockets of the kernel: PORT_UDP sends and receives RoCE on the host's own address,
 * without privilege; PORT_PACKET whole frames on one interface. Private to lib/port.
 *
 * The engine sees whole frames of both. Runs of frames of equal length and path are sent as
 * super-frames, which the kernel or the NIC cuts. A received super-frame is cut here, mostly by the
 * receive call's copy: the iovecs scatter the segments into packet buffers. This code is common to
 * both kinds:
 *
 *   socket.c         opens and closes ports, options and buffers of sockets, port ids
 *   socket_tx.c      frames to messages
 *   socket_rx.c      messages to frames
 *   udp_seg.c        headers, runs of frames, ICRCs
 *
 * They differ in what accompanies the payload in a message. PORT_UDP: addresses and control
 * messages; the port strips the frames' headers, because the kernel builds new ones, and adds
 * headers to received datagrams. PORT_PACKET: a struct virtio_net_hdr (PACKET_VNET_HDR) and the
 * headers.
 *
 *   udp.c            the socket, addresses and groups; addresses of a message
 *   packet.c         the socket and its filter; the port has a separate MAC, or shares the
 *                    interface's; headers of a message
 *   host.c           interfaces and addresses of the kernel
 *
 * The worker that owns the queue calls the burst functions; the control thread calls all others.
 */
#ifndef PORT_SOCKET_H
#define PORT_SOCKET_H

#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <rte_mbuf.h>
#include "port/port.h"
#include "port/udp_seg.h"
#include "wire/hdr.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define SOCKET_SAID     3                  /* words with a bit per errno */
#define SOCKET_CONTROL  160                /* bytes of control messages */
#define SOCKET_TX_MSGS  32                 /* messages per sendmmsg */
#define SOCKET_TX_IOVS  (4 * UDP_SEGS_MAX) /* iovecs per sendmmsg, at least; 4 per frame at most */
#define SOCKET_TX_STAGE (3 * UDP_SEGS_MAX * UDP_SHORT) /* copied bytes per sendmmsg, at least */
#define SOCKET_RX_MSGS  16                             /* messages per recvmmsg */
#define SOCKET_RX_SEGS  128                            /* segments of a received super-frame */
#define PACKET_VNET_LEN 10                             /* struct virtio_net_hdr in a message */
#define PACKET_HDR_MAX  66                             /* Ethernet, VLAN, IPv6, UDP */
#define SOCKET_SPILL    (65536 + PACKET_HDR_MAX)       /* maximum length of a message */
_Static_assert(sizeof(struct virtio_net_hdr) == PACKET_VNET_LEN, "PACKET_VNET_HDR");
_Static_assert(SOCKET_CONTROL >= PACKET_VNET_LEN + PACKET_HDR_MAX, "headers fit");

union socket_address {
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct socket_tx {
	struct mmsghdr msg[SOCKET_TX_MSGS];
	struct iovec iov[2 * SOCKET_TX_IOVS];
	uint8_t stage[2 * SOCKET_TX_STAGE];      /* copies of short pieces, which iovecs point to */
	union socket_address to[SOCKET_TX_MSGS]; /* PORT_UDP */
	/* PORT_UDP: control messages; PORT_PACKET: struct virtio_net_hdr and the headers */
	uint8_t head[SOCKET_TX_MSGS][SOCKET_CONTROL] __attribute__((aligned(8)));
	uint32_t frames[SOCKET_TX_MSGS]; /* frames per message */
	bool gso;                        /* the kernel accepts super-frames, as far as known */
	bool gso_seen;                   /* it has accepted one */
	uint32_t single; /* frames left to send singly, because a super-frame was refused */
	uint64_t said[SOCKET_SAID]; /* a bit per errno: errors that were logged */
};

/*
 * Buffers of one message. iov[0] is struct virtio_net_hdr (PORT_PACKET only); iov[1] the frame
 * header and the first chunk, contiguous, in m[0]; iov[1 + i] the chunk in m[i]; the last one the
 * spill area.
 */
struct socket_slot {
	struct rte_mbuf *m[UDP_SEGS_MAX];
	struct iovec iov[UDP_SEGS_MAX + 2];
	uint32_t nm;    /* number of buffers */
	uint32_t chunk; /* bytes per chunk */
	uint32_t hdr;   /* bytes of frame header in iov[1]; PORT_UDP: 0 */
	uint8_t *spill; /* SOCKET_SPILL bytes */
	bool fresh;     /* filled, and unused since */
	struct virtio_net_hdr vnet;
	union socket_address from; /* PORT_UDP */
	uint8_t control[SOCKET_CONTROL] __attribute__((aligned(8)));
};

/*
 * PORT_PACKET: flows whose IPv4 identifications were looked at. A super-frame that the receiver's
 * kernel has merged has the identification that its sender gave to all packets, if that was always
 * the same.
 */
#define SOCKET_FLOWS 64
struct socket_flow {
	uint32_t key;
	bool fixed;   /* all segments have the identification of the first */
	uint8_t left; /* super-frames until it is checked again */
};

struct socket_rx {
	struct socket_slot slot[SOCKET_RX_MSGS];
	struct mmsghdr msg[SOCKET_RX_MSGS];
	struct rte_mbuf *ready[SOCKET_RX_MSGS * SOCKET_RX_SEGS]; /* frames, not delivered yet */
	uint32_t ready_n, ready_at;
	uint32_t chunk, hdr; /* for the next messages: of the last long super-frame */
	uint32_t bulk;       /* calls for which long super-frames are still expected */
	uint32_t room;       /* UDP payload that a packet buffer holds */
	struct socket_flow flow[SOCKET_FLOWS];
	uint64_t said[SOCKET_SAID]; /* a bit per errno: errors that were logged */
};

/* One queue of a port. */
struct port_socket {
	char name[64];
	int fd;
	bool packet;    /* of a PORT_PACKET, else of a PORT_UDP */
	uint8_t mac[6]; /* of the device */
	uint32_t ifindex;
	uint32_t rx_buffer; /* bytes that the kernel keeps, with its overhead */
	struct rte_mempool *pool;
	struct udp_icrc_rows rows;
	struct socket_tx tx;
	struct socket_rx rx;
	struct port_socket_stats stats;

	/* PORT_UDP */
	bool v6;         /* an IPv6 socket; if it is bound to no address, it handles IPv4, too */
	bool any;        /* bound to an interface: messages carry the address */
	uint8_t gid[16]; /* !any: the address */

	/* PORT_PACKET */
	bool stranger; /* shared: the interface was replaced by one with another MAC */
};

/* Receives up to n frames, which the caller then owns. */
uint16_t port_socket_rx(struct port_socket *s, struct rte_mbuf **m, uint16_t n);
/*
 * Sends m[0 .. n) in order, and frees what it sent or lost. Returns how many; the caller keeps the
 * rest.
 */
uint16_t port_socket_tx(struct port_socket *s, struct rte_mbuf **m, uint16_t n);

/*
 * Prepares s, whose memory is zero but for `packet`, for messages of at most mtu bytes of IP.
 * Returns 0, -ENOMEM, or -EINVAL if they fit no buffer of pool.
 */
int socket_init(struct port_socket *s, struct rte_mempool *pool, uint32_t mtu);
/* Frees the buffers. */
void socket_fini(struct port_socket *s);

/* The headers of a received message, and what replaces them in its frames. */
struct socket_head {
	uint32_t in_len;                             /* bytes of headers in the message */
	uint32_t hdr_len;                            /* bytes in hdr, which replace these */
	uint8_t hdr[PACKET_HDR_MAX + WIRE_VLAN_LEN]; /* with right lengths if it is a lone frame */
	uint32_t bytes;                              /* that follow: UDP payload of a super-frame */
	uint32_t gso;                                /* of a segment; >= bytes: a lone frame */
	/* of a super-frame: */
	uint32_t ip_at; /* offset of the IP header in hdr */
	bool v6;
	bool roce;   /* by its UDP port */
	uint16_t id; /* IPv4 identification of the first segment */
};

/* udp.c. */

/*
 * Fills in the destination and the control messages of msg, which holds UDP payload in segments of
 * gso bytes; gso 0: one frame. *h: headers of the first frame.
 */
void udp_message_put(const struct port_socket *s, const struct udp_head *h, uint16_t gso,
		     struct msghdr *msg);
/* Reads the addresses and control messages of a received message of len bytes. */
void udp_message_read(struct port_socket *s, struct msghdr *msg, uint32_t len,
		      struct socket_head *head);

/* packet.c. */

/*
 * Writes the message header and the frame headers of a message that holds `bytes` bytes of UDP
 * payload, in segments of gso bytes; gso 0: one frame. *h: headers of the first frame. The payload
 * follows. out has space for PACKET_VNET_LEN + PACKET_HDR_MAX. Super-frames and IPv6 get a UDP
 * checksum, which the kernel or the interface completes. Returns the length written.
 */
uint32_t packet_head_put(uint8_t *out, const struct udp_head *h, uint32_t bytes, uint32_t gso);
/*
 * Reads the headers and control messages of a received message of len bytes. Returns false if they
 * are malformed.
 */
bool packet_message_read(struct port_socket *s, const struct socket_slot *slot, struct msghdr *msg,
			 uint32_t len, struct socket_head *head);

/* Returns true if err is to be logged: the first time. said: zero at first. Worker. */
bool socket_say_once(uint64_t said[SOCKET_SAID], int err);

/* The rest is for the control thread. */

/* Implements port_open for both kinds. */
int port_socket_open(struct port *p, const struct port_params *params, struct rte_mempool *pool);
void port_socket_close(struct port *p);

/* Sets an integer option. Returns false if the kernel refuses it. */
bool socket_set(const struct port_socket *s, int level, int option, int value);
/*
 * Requests large buffers, and sets rx_buffer. With CAP_NET_ADMIN the system's limit does not apply.
 * tell: logs it if the receive buffer stays too small.
 */
void socket_buffers(struct port_socket *s, bool tell);

/* udp.c. */

/* Appends a control message to msg, whose buffer has room for it. Any thread that owns msg. */
static inline void
socket_control_put(struct msghdr *msg, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)msg->msg_control + msg->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	msg->msg_controllen += CMSG_SPACE(len);
}

/* Finds the address or the interface, and the MAC. Returns 0, or -errno after logging the error. */
int udp_find(struct port *p, const struct port_params *params);
/* Opens the sockets of all queues. Returns 0, or -errno after logging the error. */
int udp_open(struct port *p);
/*
 * Returns true if the address, or the interface that the socket was bound to, still exists, or if
 * the kernel cannot be queried. Updates p->netdev if the address has moved or the interface was
 * renamed.
 */
bool port_udp_present(struct port *p);
/* Implements port_host_addrs for a port of this kind. */
int port_udp_addrs(const struct port *p, struct net_addr *addr, uint32_t max);

/* packet.c. */

/* Finds the interface and its MAC. Returns 0, or -errno after logging the error. */
int packet_find(struct port *p, const struct port_params *params);
/*
 * Opens the sockets of all queues; leaves one queue, which it logs, if the kernel makes no group of
 * several. Returns 0, or -errno after logging the error.
 */
int packet_open(struct port *p);
/*
 * Returns true if the interface exists and the sockets are bound to it. If the interface was
 * replaced by another of the same name, opens sockets on that one.
 */
bool port_packet_present(struct port *p);

/* Replaces the filter of fd: frames of such a port, on an interface that is shared or not. 0 or
 * -errno. */
int packet_filter_set(int fd, const uint8_t mac[6], bool shared);
/*
 * Binds UDP port 4791 on p's interface, so that the kernel does not reply to RoCE packets with
 * "port unreachable", and replaces the previous socket (p->hold_fd). The socket never receives
 * anything. tell: logs an error. Returns 0 or -errno.
 */
int port_udp_hold(struct port *p, bool tell);
/* Ends port_udp_hold. No effect on a port that holds nothing. */
void port_udp_release(struct port *p);

/* port.c: device numbers of ports that are not ethdevs. */

/* Reserves an id that no ethdev or other port uses. Returns PORT_IDS_MAX if none is free. */
uint16_t port_id_take(void);
void port_id_give(uint16_t id);

#endif
