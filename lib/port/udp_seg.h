/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversion between frames and the datagrams of super-frames, for the ports udp and packet: which
 * frames may leave as one super-frame, the contents of a message, ICRCs, and headers for datagrams
 * received from a UDP socket. Private to lib/port.
 * Pure functions, any thread; no I/O.
 */
#ifndef PORT_UDP_SEG_H
#define PORT_UDP_SEG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <rte_mbuf.h>
#include "wire/icrc.h"

#define UDP_SEGS_MAX  64    /* segments per super-frame that every kernel accepts */
#define UDP_BYTES_MAX 65487 /* of UDP payload in one call, IPv6 (IPv4: 20 more) */
#define UDP_HDR_V4    42    /* Ethernet, IPv4, UDP */
#define UDP_HDR_MAX   62    /* Ethernet, IPv6, UDP */

/* The headers of a frame that a socket makes itself. */
struct udp_head {
	const uint8_t *l2, *ip;
	uint16_t hdr_len; /* Ethernet header with a VLAN tag if there is one, IP and UDP header */
	uint16_t payload; /* bytes of UDP payload */
	bool v6;
};

/*
 * Reads the headers of m, which its first segment contains. Returns false if m is not a UDP
 * packet, with one VLAN tag at most and no IP options, or its lengths disagree.
 */
bool udp_head_read(const struct rte_mbuf *m, struct udp_head *h);
/* Returns true if a and b differ only in their lengths and fields that depend on these. */
bool udp_head_same_path(const struct udp_head *a, const struct udp_head *b);

/*
 * Returns how many frames of m[0 .. n), n > 0, may leave as one super-frame: the first, whose
 * headers are *first, those of the same path and length behind it, then possibly a shorter one. At
 * most max_segs, with together at most UDP_BYTES_MAX bytes of payload. A single longer frame does
 * not take the first frame of a run behind it (the FIRST of a message and its MIDDLEs): the
 * receiver cuts runs of one length without a copy.
 */
uint32_t udp_run(struct rte_mbuf *const *m, uint32_t n, const struct udp_head *first,
		 uint32_t max_segs);

#define UDP_SHORT 256 /* bytes: to copy so many costs less than an iovec more */

/* The bytes of a message: pieces of frames, and copies of short pieces, one behind the other. */
struct udp_pieces {
	struct iovec
		*iov;   /* space for 4 a frame: 3 segments, of the last of which the ICRC apart */
	uint32_t n;     /* of these in use */
	uint8_t *stage; /* free space for copies, 3 * UDP_SHORT a frame */
};

/*
 * Appends m without its first skip bytes, which its first segment contains; icrc_changes is added
 * (xor) to its last 4 bytes, in a copy of them. m must not change before the message is sent.
 */
void udp_frame_put(struct udp_pieces *p, const struct rte_mbuf *m, uint32_t skip,
		   uint32_t icrc_changes);

/* Addresses of a datagram, from the socket. GIDs, both of one family. */
struct udp_from {
	uint8_t src[16], dst[16];
	uint16_t sport; /* host order */
	uint8_t tos, ttl;
	bool v6;
};

/*
 * Writes the headers of a frame from *from to the device with this MAC (or to a group's MAC, if dst
 * is a group) to out, which has space for UDP_HDR_MAX: identification 0, DF set, no UDP checksum,
 * source MAC 02:00:00:00:00:00. payload: bytes of UDP payload. Returns their length.
 */
uint32_t udp_headers_put(uint8_t *out, const uint8_t mac[6], const struct udp_from *from,
			 uint32_t payload);

/*
 * Sets the lengths of the IP header at ip and of the UDP header behind it to `payload` bytes of UDP
 * payload (at most UDP_BYTES_MAX), and IPv4's checksum.
 */
void udp_lengths_put(uint8_t *ip, bool v6, uint32_t payload);

/*
 * Takes n buffers out of pool for received frames. As rte_pktmbuf_alloc_bulk, but does not reset
 * fields that only drivers of NICs use; the caller sets data_off and the lengths. Returns false if
 * there are not n buffers.
 */
bool udp_buffers_take(struct rte_mempool *pool, struct rte_mbuf **m, uint32_t n);

/* Copies bytes off .. off + len of the concatenated iov[0 .. n), which must be long enough. */
void udp_copy_out(const struct iovec *iov, uint32_t n, uint32_t off, uint8_t *to, uint32_t len);

/*
 * Changes of the ICRCs of packets of one length when the identification goes from 0 to k, k below
 * UDP_SEGS_MAX: segment k of a super-frame leaves with identification k.
 */
struct udp_icrc_row {
	uint32_t after;  /* as in wire_icrc_id_factor; 0: not filled */
	uint32_t factor; /* of wire_icrc_id_factor */
	uint32_t change[UDP_SEGS_MAX];
};
#define UDP_ICRC_ROWS 8
struct udp_icrc_rows {
	struct udp_icrc_row row[UDP_ICRC_ROWS];
};

/* Fills the row for packets with `after` (as in wire_icrc_id_factor). */
void udp_icrc_row_fill(struct udp_icrc_row *row, uint32_t after);

/* Returns the row for IPv4 packets with payload bytes (16 .. 65507) of UDP payload. One thread. */
static inline const struct udp_icrc_row *
udp_icrc_row_of(struct udp_icrc_rows *rows, uint32_t payload)
{
	uint32_t after = WIRE_IPV4_LEN + WIRE_UDP_LEN + payload - WIRE_ICRC_ID_END - WIRE_ICRC_LEN;
	/* lengths that differ by an RETH or by a factor of two use different rows */
	struct udp_icrc_row *row = &rows->row[(after >> 2 ^ after >> 6) % UDP_ICRC_ROWS];

	if (unlikely(row->after != after))
		udp_icrc_row_fill(row, after);
	return row;
}

/* Returns the change of an ICRC of this row between two identifications whose xor is delta. */
static inline uint32_t
udp_icrc_row_change(const struct udp_icrc_row *row, uint16_t delta)
{
	return likely(delta < UDP_SEGS_MAX) ? row->change[delta]
					    : wire_icrc_id_change(row->factor, delta);
}

/*
 * Returns the difference (xor) of the ICRCs of a packet of payload bytes with the headers *h and of
 * the same packet with this identification. 0 over IPv6, and if there is no ICRC. One thread.
 */
static inline uint32_t
udp_icrc_change(struct udp_icrc_rows *rows, const struct udp_head *h, uint32_t payload, uint16_t id)
{
	uint16_t delta = (uint16_t)((h->ip[4] << 8 | h->ip[5]) ^ id);

	if (h->v6 || delta == 0 || payload < WIRE_BTH_LEN + WIRE_ICRC_LEN)
		return 0;
	return udp_icrc_row_change(udp_icrc_row_of(rows, payload), delta);
}

#endif
