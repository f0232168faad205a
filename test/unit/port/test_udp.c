/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The port udp against a plain UDP socket of the kernel, over lo of a network separate namespace:
 * random super-frames in, cut to frames; random runs of frames out, as the datagrams that they
 * hold.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "net/net.h"
#include "port/queue.h"
#include "port/udp_seg.h"
#include "wire/hdr.h"
#include "wire/icrc.h"
#include "../../kit/hang.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define HDR    42
#define ROUNDS 1500

static struct rte_mempool *pool;
static struct port port;
static struct port_queue queue;
static int peer = -1; /* bound to 127.0.0.1, another port than RoCE's */
static uint8_t message[65536];
static unsigned seed = 1;

static uint32_t
below(uint32_t n)
{
	return (uint32_t)rand_r(&seed) % n;
}

static struct sockaddr_in
lo_address(uint16_t number)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(number),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

/* Send message[0 .. bytes) as datagrams of gso bytes. */
static void
send_super(uint32_t bytes, int gso)
{
	struct sockaddr_in to = lo_address(WIRE_UDP_PORT);

	assert_int_equal(setsockopt(peer, IPPROTO_UDP, UDP_SEGMENT, &gso, sizeof(gso)), 0);
	assert_int_equal(sendto(peer, message, bytes, 0, (struct sockaddr *)&to, sizeof(to)),
			 bytes);
}

static struct port_socket_stats
stats(void)
{
	struct port_socket_stats sum;

	assert_true(port_socket_stats(&port, &sum));
	return sum;
}

/* The next frame of q; the test fails if none comes, however busy the machine is. */
static struct rte_mbuf *
frame_of(const struct port_queue *q)
{
	struct rte_mbuf *m = NULL;

	if (!COMES_TRUE(port_queue_rx(q, &m, 1) == 1))
		fail_msg("a datagram is missing");
	return m;
}

/* m is the datagram message[off .. off + len), segment k of its super-frame. */
static void
expect_segment(const struct rte_mbuf *m, uint32_t off, uint32_t len, uint32_t k)
{
	const uint8_t *data = rte_pktmbuf_mtod_offset(m, const uint8_t *, HDR);
	struct udp_head h;
	uint32_t icrc;

	assert_int_equal(m->nb_segs, 1);
	assert_int_equal(m->data_len, m->pkt_len);
	assert_true(udp_head_read(m, &h));
	assert_int_equal(h.payload, len);
	assert_int_equal(m->data_len, HDR + len);
	assert_memory_equal(rte_pktmbuf_mtod(m, const uint8_t *), port.mac, 6);
	if (k == 0 || len < 16 || k >= UDP_SEGS_MAX) {
		assert_memory_equal(data, message + off, len);
		return;
	}
	assert_memory_equal(data, message + off, len - 4);
	memcpy(&icrc, data + len - 4, 4);
	icrc ^= wire_icrc_id_change(wire_icrc_id_factor(len + 16), (uint16_t)k);
	assert_memory_equal(&icrc, message + off + len - 4, 4);
}

static void
exchange(uint32_t bytes, uint32_t gso)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < bytes; i++)
		message[i] = (uint8_t)rand_r(&seed);
	send_super(bytes, (int)gso);
	for (uint32_t off = 0; off < bytes || off == 0; off += gso, k++) {
		struct rte_mbuf *m = frame_of(&queue);

		expect_segment(m, off, bytes - off < gso ? bytes - off : gso, k);
		rte_pktmbuf_free(m);
	}
}

UNIT_TEST(random_super_frames_are_cut)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t gso = 1 + (i & 1 ? below(4200) : below(200));
		uint32_t most = gso * UDP_SEGS_MAX < 65000 ? gso * UDP_SEGS_MAX : 65000;

		exchange(1 + below(most), gso);
	}
}

UNIT_TEST(a_stream_is_not_copied)
{
	uint64_t copied;

	/* the first shows how long the segments are; in between, what begins each message */
	for (int i = 0; i < 8; i++) {
		exchange(4128, 4128);
		exchange(15 * 4112, 4112);
		if (i == 2)
			copied = stats().rx_copied;
	}
	assert_int_equal(stats().rx_copied, copied);
}

UNIT_TEST(datagrams_that_fit_no_buffer_are_dropped_and_counted)
{
	uint64_t before = stats().rx_too_long;

	send_super(60000, 0);
	send_super(20000, 10000);
	exchange(100, 100);
	assert_int_equal(stats().rx_too_long, before + 2);
}

/* A frame for the peer: an IPv4 packet of len bytes of UDP payload, message[off ..]. */
static struct rte_mbuf *
frame_for_peer(uint32_t off, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct udp_from from = {
		.src = {[10] = 0xff, 0xff, 127, 0, 0, 1},
		.dst = {[10] = 0xff, 0xff, 127, 0, 0, 2},
		.sport = WIRE_UDP_PORT,
		.ttl = 64,
	};
	uint8_t *data;

	assert_non_null(m);
	data = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(HDR + len));
	assert_non_null(data);
	udp_headers_put(data, port.mac, &from, len);
	memcpy(data + HDR, message + off, len);
	return m;
}

/* A socket where RoCE for 127.0.0.2 comes. */
static int
roce_peer(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in at = lo_address(WIRE_UDP_PORT);
	struct timeval tv = {.tv_sec = HANGS_S};

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return fd;
}

UNIT_TEST(random_runs_leave_as_the_datagrams_that_they_hold)
{
	int fd = roce_peer();
	uint8_t got[9000];

	for (int round = 0; round < ROUNDS / 10; round++) {
		uint32_t n = 1 + below(48), len[48], same = 16 + below(1400), off = 0;
		struct rte_mbuf *m[48];

		for (uint32_t i = 0; i < n; i++) {
			len[i] = below(8) != 0 ? same : 16 + below(1400);
			m[i] = frame_for_peer(off, len[i]);
			off += len[i];
		}
		off = 0;
		assert_int_equal(port_queue_tx(&queue, m, (uint16_t)n), n);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(recv(fd, got, sizeof(got), 0), len[i]);
			assert_memory_equal(got, message + off, len[i] - 4);
			off += len[i];
		}
	}
	close(fd);
	assert_int_equal(stats().tx_lost, 0);
}

UNIT_TEST(what_the_kernel_refuses_is_counted)
{
	struct rte_mbuf *m[2];
	uint64_t lost = stats().tx_lost;

	for (int i = 0; i < 2; i++) {
		m[i] = frame_for_peer(0, 100);
		/* class E: no route */
		*rte_pktmbuf_mtod_offset(m[i], uint8_t *, 30) = 250;
	}
	assert_int_equal(port_queue_tx(&queue, m, 2), 2);
	assert_int_equal(stats().tx_lost, lost + 2);
}

static struct port
open_port(const char *addr, uint16_t nqueues, uint32_t qpn_mask)
{
	struct port_params params = {.nqueues = nqueues, .udp_addr = addr, .qpn_mask = qpn_mask};
	struct port p;

	assert_int_equal(port_open(&p, &params, pool), 0);
	assert_int_equal(p.nrxq, nqueues);
	assert_int_equal(p.ntxq, nqueues);
	return p;
}

/* Sends frames of every ECN codepoint and class to the port's own address: they arrive so. */
static void
check_class(const struct port *p, const struct udp_from *address)
{
	static const uint8_t class[] = {0, 1, 2, 3, 0x68, 0x6b, 0xff};
	struct port_queue q = port_queue_of(p, 0);

	for (unsigned i = 0; i < RTE_DIM(class); i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		struct udp_from from = *address;
		struct udp_head h;
		uint32_t hdr;

		from.tos = class[i];
		assert_non_null(m);
		hdr = udp_headers_put(rte_pktmbuf_mtod(m, uint8_t *), p->mac, &from, 64);
		memset(rte_pktmbuf_mtod_offset(m, uint8_t *, hdr), 0x5a, 64);
		rte_pktmbuf_append(m, (uint16_t)(hdr + 64));
		assert_int_equal(port_queue_tx(&q, &m, 1), 1);
		m = frame_of(&q);
		assert_true(udp_head_read(m, &h));
		assert_int_equal(h.v6, from.v6);
		assert_int_equal(h.v6 ? (h.ip[0] << 4 | h.ip[1] >> 4) & 0xff : h.ip[1], class[i]);
		assert_int_equal(h.v6 ? h.ip[7] : h.ip[8], from.ttl);
		rte_pktmbuf_free(m);
	}
}

UNIT_TEST(traffic_class_and_ecn_go_out_and_come_in)
{
	struct udp_from v4 = {
		.src = {[10] = 0xff, 0xff, 127, 0, 0, 1},
		.dst = {[10] = 0xff, 0xff, 127, 0, 0, 1},
		.sport = WIRE_UDP_PORT,
		.ttl = 33,
	};
	struct udp_from v6 = {.src = {[15] = 1},
			      .dst = {[15] = 1},
			      .sport = WIRE_UDP_PORT,
			      .ttl = 33,
			      .v6 = true};
	struct port p;

	check_class(&port, &v4);
	p = open_port("::1", 1, 0);
	check_class(&p, &v6);
	port_close(&p);
	/* a socket of both families */
	port_close(&port);
	assert_int_equal(port_open(&p, &(struct port_params){.nqueues = 1, .udp_netdev = "lo"},
				   pool),
			 0);
	check_class(&p, &v4);
	check_class(&p, &v6);
	port_close(&p);
	port = open_port("127.0.0.1", 1, 0);
	queue = port_queue_of(&port, 0);
}

static void
check_queues(uint16_t queues, uint32_t mask)
{
	struct port p = open_port("127.0.0.3", queues, mask);
	struct sockaddr_in to = lo_address(WIRE_UDP_PORT);
	int none = 0;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 2);
	setsockopt(peer, IPPROTO_UDP, UDP_SEGMENT, &none, sizeof(none));
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t qpn = i < 8 ? i : (uint32_t)rand_r(&seed) & 0xffffff;
		uint8_t bth[64] = {[4] = 0xc0,
				   (uint8_t)(qpn >> 16),
				   (uint8_t)(qpn >> 8),
				   (uint8_t)qpn};
		struct port_queue q = port_queue_of(&p, (uint16_t)((qpn & mask) % queues));
		struct rte_mbuf *m;

		assert_int_equal(sendto(peer, bth, sizeof(bth), 0, (struct sockaddr *)&to,
					sizeof(to)),
				 sizeof(bth));
		m = frame_of(&q);
		assert_memory_equal(rte_pktmbuf_mtod_offset(m, uint8_t *, HDR), bth, sizeof(bth));
		rte_pktmbuf_free(m);
	}
	for (uint16_t i = 0; i < queues; i++) {
		assert_int_not_equal(port_rx_fd(&p, i), 0);
		for (uint16_t k = 0; k < i; k++)
			assert_int_not_equal(port_rx_fd(&p, i), port_rx_fd(&p, k));
	}
	port_close(&p);
}

/* Their number need not be a power of two. */
UNIT_TEST(each_queue_gets_the_packets_of_its_qpns)
{
	check_queues(4, 0xffffff);
	check_queues(3, 0x3fff);
	check_queues(7, 0xfff);
}

/* Several sockets of one port share the address, but with no other program. */
UNIT_TEST(nobody_joins_the_sockets_of_a_port)
{
	struct port p = open_port("127.0.0.3", 2, 0), other;
	struct port_params params = {.udp_addr = "127.0.0.3"};

	for (params.nqueues = 1; params.nqueues <= 2; params.nqueues++)
		assert_int_equal(port_open(&other, &params, pool), -EADDRINUSE);
	port_close(&p);
}

static void
send_to_3(void)
{
	struct sockaddr_in to = lo_address(WIRE_UDP_PORT);
	int none = 0;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 2);
	setsockopt(peer, IPPROTO_UDP, UDP_SEGMENT, &none, sizeof(none));
	assert_int_equal(sendto(peer, message, 64, 0, (struct sockaddr *)&to, sizeof(to)), 64);
}

/* What q's socket holds, if it says that it was full, after one more datagram. */
static uint32_t
overflow_of(const struct port_queue *q, uint64_t *lost)
{
	struct rte_mbuf *m[64];

	send_to_3();
	rte_pktmbuf_free_bulk(m, port_queue_rx(q, m, RTE_DIM(m)));
	return port_queue_overflow(q, lost);
}

UNIT_TEST(a_socket_that_was_full_says_so_once)
{
	struct port p = open_port("127.0.0.3", 1, 0);
	struct port_queue q = port_queue_of(&p, 0);
	uint64_t lost = 0;
	uint32_t held = 0;
	int least = 1;

	assert_int_equal(overflow_of(&q, &lost), 0);
	assert_return_code(setsockopt(port_rx_fd(&p, 0), SOL_SOCKET, SO_RCVBUF, &least,
				      sizeof(least)),
			   errno);
	for (int i = 0; i < 100; i++)
		send_to_3();
	assert_true(COMES_TRUE((held = overflow_of(&q, &lost)) != 0));
	assert_in_range(held, 1 << 16, 1 << 30); /* as before it was made small */
	assert_in_range(lost, 1, 100);
	assert_int_equal(overflow_of(&q, &lost), 0);
	port_close(&p);
}

UNIT_TEST(no_buffer_is_lost)
{
	uint32_t all = 2047;

	port_close(&port);
	assert_int_equal(rte_mempool_avail_count(pool), all);
}

/* lo is up, and has 127.0.0.3, too. */
static void
lo_up(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP}, more = {.ifr_name = "lo:1"};
	struct sockaddr_in at = lo_address(0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 2);
	memcpy(&more.ifr_addr, &at, sizeof(at));
	ioctl(fd, SIOCSIFFLAGS, &req);
	ioctl(fd, SIOCSIFADDR, &more);
	close(fd);
}

static int
start(void **state)
{
	struct port_params params = {.nqueues = 1, .udp_addr = "127.0.0.1"};
	struct sockaddr_in at = lo_address(0);

	lo_up();
	if (unit_eal_with(NULL, "critical", NULL, 0) < 0)
		return -1;
	pool = rte_pktmbuf_pool_create("pool", 2047, 0, 0, 8320 + RTE_PKTMBUF_HEADROOM,
				       SOCKET_ID_ANY);
	if (pool == NULL || port_open(&port, &params, pool) != 0)
		return -1;
	queue = port_queue_of(&port, 0);
	peer = socket(AF_INET, SOCK_DGRAM, 0);
	return bind(peer, (struct sockaddr *)&at, sizeof(at));
}

static int
end_group(void **state)
{
	close(peer);
	return rte_eal_cleanup();
}

UNIT_PROGRAM(start, end_group);

int
main(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 && unshare(CLONE_NEWNET) != 0)
		return 77; /* meson: skipped */
	return unit_run();
}
