/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rate of bare UDP sockets: one sends super-frames of equal segments from one buffer, the other
 * receives them into one. There is no CRC, and no copy except the kernel's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_pause.h>
#include "node_pair.h"
#include "wire/hdr.h"

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

int
node_sockets_open(const struct node_shared *sh, unsigned side)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
	int buffer = BUFFER;

	inet_pton(AF_INET, sh->vdev[side], &at.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		node_fail("no UDP socket on %s: %s", sh->vdev[side], strerror(errno));
	if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) != 0)
		node_fail("this kernel has no UDP_GRO");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
	return fd;
}

static bool
running(const struct node_shared *sh, uint32_t step)
{
	return __atomic_load_n(&sh->step, __ATOMIC_RELAXED) == step;
}

static void
send_only(struct node_shared *sh, struct node_side *me, int fd, uint32_t step)
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

	inet_pton(AF_INET, sh->vdev[1], &to.sin_addr);
	c->cmsg_level = IPPROTO_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	while (running(sh, step)) {
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
receive_only(struct node_shared *sh, struct node_side *me, int fd, uint32_t step)
{
	uint32_t segment = sh->frame - HEADERS;

	while (running(sh, step)) {
		ssize_t got = recv(fd, bytes, sizeof(bytes), 0);

		if (got <= 0) {
			rte_pause();
			continue;
		}
		__atomic_store_n(&me->count, me->count + (uint64_t)got / segment, __ATOMIC_RELAXED);
	}
}

void
node_sockets_run(struct node_shared *sh, unsigned side, int fd, uint32_t step)
{
	if (side == 0)
		send_only(sh, &sh->side[side], fd, step);
	else
		receive_only(sh, &sh->side[side], fd, step);
}

void
node_sockets_drain(int fd)
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
