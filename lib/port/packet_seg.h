/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Super-frames of a packet socket with PACKET_VNET_HDR: the headers of one to send, and the cutting
 * of a received one into frames. A message is a struct virtio_net_hdr and a frame. A received
 * message lies in a slot, whose packet buffers the kernel has filled. Private to lib/port. One
 * thread; no I/O.
 */
#ifndef PORT_PACKET_SEG_H
#define PORT_PACKET_SEG_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <rte_mbuf.h>
#include "port/port.h"
#include "port/udp_seg.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define PACKET_VNET_LEN 10 /* struct virtio_net_hdr in a message */
_Static_assert(sizeof(struct virtio_net_hdr) == PACKET_VNET_LEN, "PACKET_VNET_HDR");
#define PACKET_HDR_MAX  66  /* Ethernet, VLAN, IPv6, UDP */
#define PACKET_SEGS_MAX 128 /* segments of a received super-frame */
#define PACKET_RX_MSGS  16  /* messages received at once */
#define PACKET_READY    (PACKET_RX_MSGS * PACKET_SEGS_MAX)
#define PACKET_SPILL    (65536 + PACKET_HDR_MAX)

/*
 * Writes the message header and the frame headers of a message that holds `bytes` bytes of UDP
 * payload, in segments of gso bytes; gso 0: one frame. *h: headers of the first frame. The payload
 * follows. out has space for PACKET_VNET_LEN + PACKET_HDR_MAX. Super-frames and IPv6 get a UDP
 * checksum, which the kernel or the interface completes. Returns the length written.
 */
uint32_t packet_head_put(uint8_t *out, const struct udp_head *h, uint32_t bytes, uint32_t gso);

/*
 * Sets the lengths of the IP header at ip and of the UDP header behind it to `payload` bytes of UDP
 * payload (at most UDP_BYTES_MAX), and IPv4's checksum.
 */
void packet_lengths_put(uint8_t *ip, bool v6, uint32_t payload);

/*
 * Buffers of one message. iov[0] is the message header; iov[1] the frame header and the first
 * chunk, contiguous, in m[0]; iov[1 + i] the chunk in m[i]; the last one the spill area.
 */
struct packet_slot {
	struct rte_mbuf *m[UDP_SEGS_MAX];
	struct iovec iov[UDP_SEGS_MAX + 2];
	uint32_t nm;    /* number of buffers */
	uint32_t chunk; /* bytes per chunk */
	uint32_t hdr;   /* bytes of frame header in iov[1] */
	uint8_t *spill; /* PACKET_SPILL bytes */
	bool fresh;     /* filled, and unused since */
	struct virtio_net_hdr vnet;
};

/* What the socket reports about a message in addition to its bytes. */
struct packet_about {
	uint32_t len;   /* bytes of the message */
	bool truncated; /* it was longer */
	bool tagged;    /* the kernel has taken a VLAN tag out of the frame: */
	uint16_t tpid;  /* its type, host order */
	uint16_t tci;   /* its value, host order */
};

/*
 * Flows whose IPv4 identifications were looked at. A super-frame that the receiver's kernel has
 * merged has the identification that its sender gave to all packets, if that was always the same.
 */
#define PACKET_FLOWS 64
struct packet_flow {
	uint32_t key;
	bool fixed;   /* all segments have the identification of the first */
	uint8_t left; /* super-frames until it is checked again */
};

struct packet_cutter {
	struct rte_mempool *pool;
	struct port_udp_stats *stats;
	struct rte_mbuf *ready[PACKET_READY]; /* frames, not delivered yet */
	uint32_t ready_n, ready_at;
	uint32_t chunk, hdr; /* for the next messages: of the last long super-frame */
	uint32_t bulk;       /* calls for which long super-frames are still expected */
	uint32_t room;       /* UDP payload that a packet buffer holds */
	struct packet_flow flow[PACKET_FLOWS];
	struct udp_icrc_rows rows;
};

/* Starts with messages of at most mtu bytes of IP. Returns 0, or -EINVAL if they fit no buffer. */
int packet_cutter_init(struct packet_cutter *c, struct rte_mempool *pool, uint32_t mtu,
		       struct port_udp_stats *stats);
/* Frees the frames that were not delivered. */
void packet_cutter_fini(struct packet_cutter *c);
/*
 * Prepares the slot for a message: buffers for a super-frame if some are expected, else one.
 * Returns false if there is no buffer at all.
 */
bool packet_slot_fill(struct packet_cutter *c, struct packet_slot *s);
void packet_slot_free(struct packet_slot *s);
/*
 * Makes frames of the message in s and queues them in c->ready, which has space for
 * PACKET_SEGS_MAX. Drops and counts what is malformed.
 */
void packet_cut(struct packet_cutter *c, struct packet_slot *s, const struct packet_about *about);

#endif
