/* SPDX-License-Identifier: BSD-3-Clause */
/* A node that sends or receives frames without queue pairs: over a port, or over a bare UDP socket.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_byteorder.h>
#include <rte_common.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_pause.h>
#include "bounds.h"
#include "port/burst.h"
#include "wire/hdr.h"

#define BURST 32

/*
 * The rate of bare UDP sockets: one sends super-frames of equal segments from one buffer, the other
 * receives them into one. There is no CRC, and no copy except the kernel's.
 */

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define SEGMENTS 64    /* of a super-frame, as the port's */
#define BYTES    65487 /* of a super-frame, as the port's */
#define HEADERS  (WIRE_ETH_LEN + WIRE_IPV4_LEN + WIRE_UDP_LEN)
#define BUFFER   (8 * 1024 * 1024) /* of the socket, as the port's */

static uint8_t bytes[65536];

static int
sockets_open(const struct node_shared *sh, unsigned side)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
	int buffer = BUFFER;

	inet_pton(AF_INET, sh->device[side], &at.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		node_fail("no UDP socket on %s: %s", sh->device[side], strerror(errno));
	if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) != 0)
		node_fail("this kernel has no UDP_GRO");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
	return fd;
}

static bool
sockets_running(const struct node_shared *sh, uint32_t step)
{
	return __atomic_load_n(&sh->step, __ATOMIC_RELAXED) == step;
}

static void
sockets_send(struct node_shared *sh, struct node_side *me, int fd, uint32_t step)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};
	uint16_t segment = (uint16_t)(sh->frame - HEADERS);
	uint32_t n = RTE_MIN((uint32_t)SEGMENTS, (uint32_t)BYTES / segment);
	uint8_t control[CMSG_SPACE(sizeof(segment))] __attribute__((aligned(8)));
	struct iovec iov = {.iov_base = bytes, .iov_len = (size_t)n * segment};
	struct msghdr msg = {.msg_name = &to,
			     .msg_namelen = sizeof(to),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	inet_pton(AF_INET, sh->device[1], &to.sin_addr);
	c->cmsg_level = IPPROTO_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	while (sockets_running(sh, step)) {
		if (sendmsg(fd, &msg, 0) < 0) {
			if (errno != EAGAIN && errno != ENOBUFS)
				node_fail("sendmsg: %s", strerror(errno));
			rte_pause();
			continue;
		}
		__atomic_store_n(&me->count, me->count + n, __ATOMIC_RELAXED);
	}
}

static void
sockets_receive(struct node_shared *sh, struct node_side *me, int fd, uint32_t step)
{
	uint32_t segment = sh->frame - HEADERS;

	while (sockets_running(sh, step)) {
		ssize_t got = recv(fd, bytes, sizeof(bytes), 0);

		if (got <= 0) {
			rte_pause();
			continue;
		}
		__atomic_store_n(&me->count, me->count + (uint64_t)got / segment, __ATOMIC_RELAXED);
	}
}

static void
sockets_run(struct node_shared *sh, unsigned side, int fd, uint32_t step)
{
	if (side == 0)
		sockets_send(sh, &sh->side[side], fd, step);
	else
		sockets_receive(sh, &sh->side[side], fd, step);
}

static void
sockets_drain(int fd)
{
	for (unsigned idle = 0; idle < 20;) {
		if (recv(fd, bytes, sizeof(bytes), 0) > 0) {
			idle = 0;
			continue;
		}
		idle++;
		usleep(100);
	}
}

/* --- frames alone -------------------------------------------------------------------------------
 */

struct frames {
	struct node_shared *sh;
	struct node_side *me;
	struct port *port;
	struct rte_mempool *pool;
	uint8_t head[64]; /* Ethernet, IPv4 and UDP of a frame, and what follows */
	uint32_t bytes;
	uint32_t step; /* of the current run */
	int socket;    /* instead of the port, which is NULL then */
};

static void
make_head(struct frames *f, const uint8_t *peer)
{
	uint16_t len = rte_cpu_to_be_16((uint16_t)(f->bytes - 14));

	memset(f->head, 0, sizeof(f->head));
	memcpy(f->head, peer, 6);
	memcpy(f->head + 6, f->me->mac, 6);
	memcpy(f->head + 12, (uint8_t[]){8,  0, 0x45, 0,   0,  0, 0, 0,   0x40, 0, 64,
					 17, 0, 0,    198, 18, 0, 1, 198, 18,   0, 2},
	       22);
	memcpy(f->head + 16, &len, 2);
}

static bool
make_burst(const struct frames *f, struct rte_mbuf **m, unsigned n)
{
	if (rte_pktmbuf_alloc_bulk(f->pool, m, n) != 0)
		return false;
	for (unsigned i = 0; i < n; i++) {
		memcpy(rte_pktmbuf_mtod(m[i], void *), f->head, sizeof(f->head));
		m[i]->data_len = (uint16_t)f->bytes;
		m[i]->pkt_len = f->bytes;
	}
	return true;
}

static bool
running(const struct frames *f)
{
	return __atomic_load_n(&f->sh->step, __ATOMIC_RELAXED) == f->step;
}

static void
add(struct frames *f, unsigned n)
{
	__atomic_store_n(&f->me->count, f->me->count + n, __ATOMIC_RELAXED);
}

/* Like testpmd's txonly, but refused frames are retried. */
static void
send_only(struct frames *f)
{
	struct rte_mbuf *m[BURST];
	unsigned have = 0, sent;

	while (running(f)) {
		if (have == 0 && !make_burst(f, m, BURST))
			continue;
		have = have == 0 ? BURST : have;
		sent = port_tx_burst(f->port->id, 0, m + BURST - have, (uint16_t)have);
		have -= sent;
		add(f, sent);
		if (sent == 0)
			rte_pause();
	}
	rte_pktmbuf_free_bulk(m + BURST - have, have);
}

static void
receive_only(struct frames *f)
{
	struct rte_mbuf *m[BURST];
	uint16_t n;

	while (running(f)) {
		n = port_rx_burst(f->port->id, 0, m, BURST);
		if (n == 0) {
			rte_pause();
			continue;
		}
		rte_pktmbuf_free_bulk(m, n);
		add(f, n);
	}
}

/* Receive frames in flight until none has arrived for a while. */
static void
drain(struct frames *f)
{
	struct rte_mbuf *m[BURST];

	if (f->port == NULL) {
		sockets_drain(f->socket);
		return;
	}
	for (unsigned idle = 0; idle < 20; idle++) {
		uint16_t n = port_rx_burst(f->port->id, 0, m, BURST);

		rte_pktmbuf_free_bulk(m, n);
		if (n != 0)
			idle = 0;
		else
			usleep(100);
	}
}

static void
run_frames(struct frames *f, unsigned side)
{
	static const uint8_t nobody[6] = {2, 0, 0, 0, 0, 2};

	f->bytes = f->sh->frame;
	if (f->port == NULL) {
		sockets_run(f->sh, side, f->socket, f->step);
		return;
	}
	make_head(f, f->sh->sides == 2 ? f->sh->side[1 - side].mac : nobody);
	if (side == 0)
		send_only(f);
	else
		receive_only(f);
}

static _Noreturn void
frames_loop(struct frames *f, unsigned side)
{
	for (;;) {
		f->step = node_next(f->sh, f->step);
		switch (f->sh->phase) {
		case NODE_CONNECT:
			if (f->port != NULL)
				node_link_wait(f->port);
			break;
		case NODE_PROBE:
			node_probe(f->sh, side);
			break;
		case NODE_RUN:
			run_frames(f, side);
			continue;
		default:
			drain(f);
			break;
		}
		node_reached(f->me, f->step);
	}
}

int
frames_main(int argc, char **argv)
{
	static struct port port;
	struct frames f = {0};
	unsigned side;

	f.sh = node_enter(argc, argv, &side);
	f.me = &f.sh->side[side];
	f.step = f.sh->step;
	if (node_net_is_socket(f.sh->o.port)) {
		f.socket = sockets_open(f.sh, side);
		bench_pin(f.sh->cpu[side]);
	} else {
		f.pool = node_port_open(f.sh, side, &port);
		f.port = &port;
	}
	node_reached(f.me, f.step);
	frames_loop(&f, side);
}
