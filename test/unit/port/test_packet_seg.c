/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Super-frames of a packet socket, without a socket: their headers, and how received messages are
 * cut. The kernel is recvmmsg() of this file.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "port/socket.h"
#include "wire/build.h"
#include "wire/csum.h"
#include "wire/icrc.h"
#include "wire/parse.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

#define BUFFERS 1023
#define MTU     4200
#define ROUNDS  3000

static struct rte_mempool *pool;
static struct port_socket sock = {.packet = true};
static struct rte_mbuf *ready[SOCKET_RX_SEGS];
static uint32_t ready_n;
static struct udp_icrc_rows rows;
static uint8_t message[70000];
static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
static unsigned seed = 3;

static uint32_t
below(uint32_t n)
{
	return (uint32_t)rand_r(&seed) % n;
}

static struct udp_from
from(bool v6)
{
	return (struct udp_from){
		.src = {[10] = v6 ? 1 : 0xff, v6 ? 1 : 0xff, 10, 9, 0, 1},
		.dst = {[10] = v6 ? 1 : 0xff, v6 ? 1 : 0xff, 10, 9, 0, 2},
		.sport = 0xc123,
		.tos = 2,
		.ttl = 64,
		.v6 = v6,
	};
}

/*
 * Makes a message: a super-frame of `bytes` bytes of random payload in segments of gso bytes, with
 * identification id. Returns its length.
 */
static uint32_t
super(bool v6, uint32_t bytes, uint32_t gso, uint16_t id)
{
	uint8_t headers[UDP_HDR_MAX];
	struct rte_mbuf m = {.buf_addr = headers};
	struct udp_from path = from(v6);
	uint32_t len = udp_headers_put(headers, mac, &path, 0);
	struct udp_head h;

	m.data_len = (uint16_t)len;
	m.pkt_len = len;
	assert_true(udp_head_read(&m, &h));
	if (!v6)
		((struct wire_ipv4 *)(headers + WIRE_ETH_LEN))->id = rte_cpu_to_be_16(id);
	len = packet_head_put(message, &h, bytes, gso);
	for (uint32_t i = 0; i < bytes; i++)
		message[len + i] = (uint8_t)rand_r(&seed);
	return len + bytes;
}

static struct virtio_net_hdr *
vnet(void)
{
	return (struct virtio_net_hdr *)message;
}

/* What the socket reports about a message in addition to its bytes. */
struct about {
	uint32_t len;   /* bytes of the message */
	bool truncated; /* it was longer */
	bool tagged;    /* the kernel has taken a VLAN tag out of the frame: */
	uint16_t tpid;  /* its type, host order */
	uint16_t tci;   /* its value, host order */
};
static struct about waiting; /* len 0: no message waits */

/* Stands in for the kernel's. */
int
recvmmsg(int fd, struct mmsghdr *v, unsigned n, int flags, struct timespec *timeout)
{
	struct msghdr *msg = &v->msg_hdr;
	struct cmsghdr *c = msg->msg_control;
	struct tpacket_auxdata aux = {
		.tp_status = waiting.tagged ? TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID : 0,
		.tp_vlan_tci = waiting.tci,
		.tp_vlan_tpid = waiting.tpid,
	};
	uint32_t off = 0;

	if (waiting.len == 0) {
		errno = EAGAIN;
		return -1;
	}
	for (size_t i = 0; i < msg->msg_iovlen && off < waiting.len; i++) {
		uint32_t part = RTE_MIN((uint32_t)msg->msg_iov[i].iov_len, waiting.len - off);

		memcpy(msg->msg_iov[i].iov_base, message + off, part);
		off += part;
	}
	*c = (struct cmsghdr){.cmsg_level = SOL_PACKET,
			      .cmsg_type = PACKET_AUXDATA,
			      .cmsg_len = CMSG_LEN(sizeof(aux))};
	memcpy(CMSG_DATA(c), &aux, sizeof(aux));
	msg->msg_controllen = CMSG_SPACE(sizeof(aux));
	msg->msg_flags = waiting.truncated ? MSG_TRUNC : 0;
	v->msg_len = off;
	waiting.len = 0;
	return 1;
}

/* Receives the message. */
static void
receive(struct about about)
{
	waiting = about;
	ready_n = port_socket_rx(&sock, ready, SOCKET_RX_SEGS);
}

static void
release(void)
{
	rte_pktmbuf_free_bulk(ready, ready_n);
	ready_n = 0;
}

/*
 * m is segment k: message[off .. off + len) behind right headers, but over IPv4 with the
 * identification of the first, id, and with an ICRC changed from id + k to that. tag: bytes of VLAN
 * tag.
 */
static void
expect_segment(const struct rte_mbuf *m, bool v6, uint32_t off, uint32_t len, uint16_t id,
	       uint32_t k, uint32_t tag)
{
	uint32_t hdr = (v6 ? 62 : 42) + tag, icrc;
	const struct wire_udp *udp;
	struct udp_head h;

	assert_int_equal(m->nb_segs, 1);
	assert_int_equal(m->data_len, hdr + len);
	assert_int_equal(m->pkt_len, hdr + len);
	assert_true(udp_head_read(m, &h));
	assert_int_equal(h.hdr_len, hdr);
	assert_int_equal(h.payload, len);
	assert_int_equal(h.v6, v6);
	assert_memory_equal(h.l2, mac, 6);
	icrc = udp_icrc_change(&rows, &h, len, (uint16_t)(h.v6 ? 0 : id + k));
	if (icrc != 0) {
		uint32_t have;

		memcpy(&have, h.l2 + hdr + len - sizeof(have), sizeof(have));
		have ^= icrc;
		assert_memory_equal(message + off + len - sizeof(have), &have, sizeof(have));
		assert_memory_equal(h.l2 + hdr, message + off, len - sizeof(have));
	} else {
		assert_memory_equal(h.l2 + hdr, message + off, len);
	}
	udp = (const struct wire_udp *)(h.l2 + hdr - WIRE_UDP_LEN);
	assert_int_equal(rte_be_to_cpu_16(udp->len), len + WIRE_UDP_LEN);
	assert_int_equal(udp->csum, 0);
	if (v6)
		return;
	assert_true(wire_ipv4_sum_ok(h.ip));
	assert_int_equal(h.ip[4] << 8 | h.ip[5], id);
}

/* One's complement sum of n bytes. */
static uint16_t
sum_of(uint32_t sum, const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

UNIT_TEST(headers_of_a_super_frame_are_complete)
{
	for (int v6 = 0; v6 < 2; v6++) {
		uint32_t len = super(v6, 60 * 1040 + 20, 1040, 9);
		const uint8_t *ip = message + PACKET_VNET_LEN + WIRE_ETH_LEN;
		const uint8_t *udp = ip + (v6 ? 40 : 20);
		uint32_t udp_len = 8 + 60 * 1040 + 20;
		uint16_t pseudo = sum_of(udp_len + 17, v6 ? ip + 8 : ip + 12, v6 ? 32 : 8);

		assert_int_equal(len, PACKET_VNET_LEN + (v6 ? 62 : 42) + udp_len - 8);
		assert_int_equal(vnet()->flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
		assert_int_equal(vnet()->gso_type, VIRTIO_NET_HDR_GSO_UDP_L4);
		assert_int_equal(vnet()->gso_size, 1040);
		assert_int_equal(vnet()->hdr_len, v6 ? 62 : 42);
		assert_int_equal(vnet()->csum_start, v6 ? 54 : 34);
		assert_int_equal(vnet()->csum_offset, 6);
		assert_int_equal(udp[4] << 8 | udp[5], udp_len);
		assert_int_equal(udp[6] << 8 | udp[7], pseudo);
		if (!v6) {
			assert_true(wire_ipv4_sum_ok(ip));
			assert_int_equal(ip[2] << 8 | ip[3], udp_len + 20);
		}
	}
}

UNIT_TEST(a_lone_frame_stays_but_ipv6_gets_a_checksum)
{
	super(false, 100, 0, 9);
	assert_int_equal(vnet()->flags, 0);
	assert_int_equal(vnet()->gso_type, VIRTIO_NET_HDR_GSO_NONE);
	assert_memory_equal(message + PACKET_VNET_LEN + 40, "\0\0", 2);
	super(true, 100, 0, 0);
	assert_int_equal(vnet()->flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
	assert_int_equal(vnet()->gso_type, VIRTIO_NET_HDR_GSO_NONE);
	assert_memory_not_equal(message + PACKET_VNET_LEN + 60, "\0\0", 2);
}

UNIT_TEST(random_super_frames_are_cut)
{
	for (int round = 0; round < ROUNDS; round++) {
		bool v6 = below(2), tagged = below(4) == 0;
		uint32_t gso = 1 + (round & 1 ? below(4160) : below(300));
		uint32_t most =
			gso * (SOCKET_RX_SEGS - 1) < 60000 ? gso * (SOCKET_RX_SEGS - 1) : 60000;
		/* streams of one length are cut by the kernel's copy */
		uint32_t bytes = gso + 1 + below(most), times = 1 + below(3);
		uint16_t id = (uint16_t)(65500 + below(1000));

		while (times-- > 0) {
			uint32_t len = super(v6, bytes, gso, id), n = 0, off = 0;
			uint32_t hdr = len - bytes;

			receive((struct about){
				.len = len, .tagged = tagged, .tpid = 0x8100, .tci = 7});
			for (; off < bytes; n++, off += gso)
				expect_segment(ready[n], v6, hdr + off,
					       bytes - off < gso ? bytes - off : gso, id, n,
					       tagged ? 4 : 0);
			assert_int_equal(ready_n, n);
			release();
		}
	}
}

UNIT_TEST(a_stream_is_not_copied)
{
	uint64_t copied = 0;

	for (int i = 0; i < 6; i++) {
		receive((struct about){.len = super(false, 15 * 4112, 4112, 0)});
		release();
		receive((struct about){.len = super(false, 4128, 0, 0)}); /* a FIRST */
		release();
		if (i == 1)
			copied = sock.stats.rx_copied;
	}
	assert_int_equal(sock.stats.rx_copied, copied);
}

UNIT_TEST(a_lone_frame_arrives_whole)
{
	for (int round = 0; round < 300; round++) {
		uint32_t bytes = 1 + below(MTU - 48), len = super(round & 1, bytes, 0, 0);
		uint32_t tag = round % 3 == 0 ? 4 : 0;
		const uint8_t *frame;

		receive((struct about){
			.len = len, .tagged = tag != 0, .tpid = 0x88a8, .tci = 0x2007});
		assert_int_equal(ready_n, 1);
		frame = rte_pktmbuf_mtod(ready[0], const uint8_t *);
		assert_int_equal(ready[0]->pkt_len, len - PACKET_VNET_LEN + tag);
		assert_memory_equal(frame, message + PACKET_VNET_LEN, 12);
		if (tag != 0)
			assert_memory_equal(frame + 12, "\x88\xa8\x20\x07", 4);
		assert_memory_equal(frame + 12 + tag, message + PACKET_VNET_LEN + 12,
				    len - PACKET_VNET_LEN - 12);
		release();
	}
}

/* Puts right ICRCs into the message's segments; step: of their identifications. */
static void
seal(uint32_t bytes, uint32_t gso, uint16_t id, uint16_t step)
{
	uint8_t frame[WIRE_IPV4_LEN + WIRE_UDP_LEN + 4200];
	uint8_t *at = message + PACKET_VNET_LEN + 42;

	for (uint32_t off = 0, k = 0; off < bytes; off += gso, k++) {
		uint32_t len = bytes - off < gso ? bytes - off : gso, icrc;

		memcpy(frame, message + PACKET_VNET_LEN + WIRE_ETH_LEN, 28);
		udp_lengths_put(frame, false, len);
		((struct wire_ipv4 *)frame)->id = rte_cpu_to_be_16((uint16_t)(id + k * step));
		at[off] = WIRE_OP_SEND_ONLY;
		memcpy(frame + 28, at + off, len);
		icrc = wire_icrc_frame(frame, false, frame + 28 + len - 4);
		memcpy(at + off + len - 4, &icrc, 4);
	}
}

REQUIREMENT("WIRE-03")
UNIT_TEST(icrcs_of_merged_frames_with_one_identification_are_right)
{
	for (uint16_t step = 0; step < 2; step++) {
		for (uint32_t round = 0; round < 100; round++) {
			uint32_t gso = 64 + 4 * below(500), bytes = gso * (2 + below(20));
			uint16_t id = (uint16_t)(step == 0 ? below(3) * 77 : 65530 + below(9));
			uint32_t len = super(false, bytes, gso, id);

			seal(bytes, gso, id, step);
			receive((struct about){.len = len});
			for (uint32_t k = 0; k < ready_n; k++) {
				const uint8_t *ip =
					rte_pktmbuf_mtod_offset(ready[k], const uint8_t *,
								WIRE_ETH_LEN);
				const uint8_t *end = ip + 28 + gso - 4;
				uint32_t want = wire_icrc_frame(ip, false, end);

				assert_memory_equal(end, &want, 4);
				assert_int_equal(ip[4] << 8 | ip[5], id);
				assert_true(wire_ipv4_sum_ok(ip));
			}
			release();
		}
		memset(sock.rx.flow, 0, sizeof(sock.rx.flow)); /* another sender */
	}
}

/* Their bytes stay, and each has the identification that the kernel would give it. */
UNIT_TEST(segments_that_are_not_roce_keep_their_bytes)
{
	uint32_t gso = 500, bytes = 3 * gso + 20, len = super(false, bytes, gso, 65534);
	const uint8_t *payload = message + PACKET_VNET_LEN + UDP_HDR_V4;

	message[PACKET_VNET_LEN + WIRE_ETH_LEN + WIRE_IPV4_LEN + 3]++; /* the UDP port */
	receive((struct about){.len = len});
	assert_int_equal(ready_n, 4);
	for (uint32_t k = 0; k < 4; k++) {
		uint32_t part = k < 3 ? gso : 20;
		const uint8_t *ip =
			rte_pktmbuf_mtod_offset(ready[k], const uint8_t *, WIRE_ETH_LEN);

		assert_int_equal(ready[k]->pkt_len, UDP_HDR_V4 + part);
		assert_memory_equal(ip + WIRE_IPV4_LEN + WIRE_UDP_LEN, payload + k * gso, part);
		assert_int_equal(ip[4] << 8 | ip[5], (uint16_t)(65534 + k));
		assert_true(wire_ipv4_sum_ok(ip));
	}
	release();
}

/* The message gives no frame, and counts once in *counter. */
static void
refused(struct about about, const uint64_t *counter)
{
	uint64_t before = *counter;

	receive(about);
	assert_int_equal(ready_n, 0);
	assert_int_equal(*counter, before + 1);
}

UNIT_TEST(malformed_messages_are_dropped_and_counted)
{
	uint8_t *frame = message + PACKET_VNET_LEN;
	uint32_t len = super(false, 5000, 1000, 0);

	refused((struct about){.len = len, .truncated = true}, &sock.stats.rx_truncated);
	/* the last segment is missing */
	refused((struct about){.len = len - 1}, &sock.stats.rx_malformed);
	refused((struct about){.len = PACKET_VNET_LEN + 30}, &sock.stats.rx_malformed);
	refused((struct about){.len = PACKET_VNET_LEN + 13}, &sock.stats.rx_malformed);
	refused((struct about){.len = 3}, &sock.stats.rx_malformed);
	vnet()->gso_size = 0;
	refused((struct about){.len = len}, &sock.stats.rx_malformed);
	vnet()->gso_size = 1000;
	vnet()->gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	refused((struct about){.len = len}, &sock.stats.rx_malformed);
	vnet()->gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
	frame[39]++; /* UDP length */
	refused((struct about){.len = len}, &sock.stats.rx_malformed);
	frame[39]--;
	frame[20] = 0x20; /* a fragment */
	refused((struct about){.len = len}, &sock.stats.rx_malformed);
	frame[20] = 0;
	frame[14] = 0x46; /* options */
	refused((struct about){.len = len}, &sock.stats.rx_malformed);
	frame[14] = 0x45;
	frame[23] = WIRE_IPPROTO_ICMP;
	refused((struct about){.len = len}, &sock.stats.rx_malformed);
	frame[23] = WIRE_IPPROTO_UDP;
	vnet()->gso_size = 10; /* 500 segments */
	refused((struct about){.len = len}, &sock.stats.rx_too_many);
	len = super(false, 60000, 20000, 0);
	refused((struct about){.len = len}, &sock.stats.rx_too_long);
	len = super(false, 60000, 0, 0);
	refused((struct about){.len = len}, &sock.stats.rx_too_long);
	/* a segment that is longer than all is a lone frame */
	len = super(false, 900, 1000, 0);
	receive((struct about){.len = len});
	assert_int_equal(ready_n, 1);
	release();
}

UNIT_TEST(want_of_buffers_drops_and_is_counted)
{
	struct rte_mbuf *held[BUFFERS];
	uint64_t before = sock.stats.rx_no_buffer;
	uint32_t n = 0;

	sock.rx.bulk = 0;
	receive((struct about){.len = 0}); /* fills the slots */
	while (n < BUFFERS && (held[n] = rte_pktmbuf_alloc(pool)) != NULL)
		n++;
	receive((struct about){.len = super(false, 3000, 300, 0)});
	assert_int_equal(sock.stats.rx_no_buffer, before + 10);
	release();
	socket_fini(&sock);
	memset(&sock.rx, 0, sizeof(sock.rx));
	assert_int_equal(socket_init(&sock, pool, MTU), 0);
	while (n < BUFFERS && (held[n] = rte_pktmbuf_alloc(pool)) != NULL)
		n++;
	receive((struct about){.len = super(false, 300, 0, 0)});
	assert_int_equal(ready_n, 0);
	assert_int_equal(sock.stats.rx_no_buffer, before + 11);
	rte_pktmbuf_free_bulk(held, n);
}

UNIT_TEST(no_buffer_is_lost)
{
	socket_fini(&sock);
	assert_int_equal(rte_mempool_avail_count(pool), BUFFERS);
}

/* From a header with identification `from` to `to`. */
static void
check_change(uint16_t old, uint16_t new)
{
	struct udp_from path = from(false);
	uint8_t frame[1500];
	uint32_t len = 42 + 200, icrc, stored;
	struct rte_mbuf m = {.buf_addr = frame,
			     .nb_segs = 1,
			     .data_len = (uint16_t)len,
			     .pkt_len = len};
	struct wire_ipv4 *ip = (struct wire_ipv4 *)(frame + 14);
	struct udp_head h;

	memset(frame, new, sizeof(frame));
	udp_headers_put(frame, mac, &path, 200);
	ip->id = rte_cpu_to_be_16(old);
	stored = wire_icrc_frame(frame + 14, false, frame + len - 4);
	assert_true(udp_head_read(&m, &h));
	stored ^= udp_icrc_change(&rows, &h, 200, new);
	ip->id = rte_cpu_to_be_16(new);
	icrc = wire_icrc_frame(frame + 14, false, frame + len - 4);
	assert_int_equal(stored, icrc);
}

UNIT_TEST(icrc_changes_with_the_identification)
{
	for (uint32_t k = 0; k < 200; k++) {
		uint16_t id = (uint16_t)(k < 64 ? k : k * 331);

		check_change(0, id);
		check_change(id, 0);
		check_change(id, (uint16_t)(id + 63));
	}
}

static int
start(void **state)
{
	if (unit_eal_with(NULL, "critical", NULL, 0) < 0)
		return -1;
	pool = rte_pktmbuf_pool_create("pool", BUFFERS, 0, 0, 8320 + RTE_PKTMBUF_HEADROOM,
				       SOCKET_ID_ANY);
	return pool == NULL ? -1 : socket_init(&sock, pool, MTU);
}

static int
end_group(void **state)
{
	return rte_eal_cleanup();
}

UNIT_PROGRAM(start, end_group);
