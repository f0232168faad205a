/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "program.h"

static int
link_accept(uint16_t port, unsigned int wait_s)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int one = 1, off = 0, fd, listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const void *addr = &any;
	socklen_t len = sizeof(any);
	struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct pollfd pfd;

	if (listener < 0) { /* a namespace without IPv6 */
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		addr = &any4;
		len = sizeof(any4);
	} else {
		setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	}
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listener < 0 || bind(listener, addr, len) || listen(listener, 1))
		die("listen on TCP port %u: %s", port, strerror(errno));
	pfd = (struct pollfd){.fd = listener, .events = POLLIN};
	if (poll(&pfd, 1, (int)wait_s * 1000) != 1)
		die("no peer came");
	fd = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

static int
link_connect(const char *host, uint16_t port, unsigned int wait_s)
{
	struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *res, *ai;
	uint64_t end = now_ns() + wait_s * 1000000000ull;
	char service[8];
	int fd = -1, rc;

	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hint, &res);
	if (rc)
		die("%s: %s", host, gai_strerror(rc));
	while (fd < 0 && now_ns() < end) { /* the peer may still be starting */
		for (ai = res; ai && fd < 0; ai = ai->ai_next) {
			fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, 0);
			if (fd >= 0 && connect(fd, ai->ai_addr, ai->ai_addrlen)) {
				close(fd);
				fd = -1;
			}
		}
		if (fd < 0)
			nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
	}
	freeaddrinfo(res);
	return fd;
}

int
link_open(const char *host, uint16_t port, unsigned int wait_s)
{
	int one = 1;
	int fd = host ? link_connect(host, port, wait_s) : link_accept(port, wait_s);

	if (fd < 0)
		die("no TCP connection to the peer: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

void
link_send(int fd, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("the peer is gone (send: %s)", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
}

void
link_recv(int fd, void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("the peer is gone (%s)", n ? strerror(errno) : "end of stream");
		p += n;
		len -= (size_t)n;
	}
}

void
link_swap(int fd, const void *mine, void *theirs, size_t len)
{
	link_send(fd, mine, len);
	link_recv(fd, theirs, len);
}

void
link_barrier(int fd)
{
	char mine = 'b', theirs = 0;

	link_swap(fd, &mine, &theirs, 1);
	if (theirs != mine)
		die("lost step with the peer");
}

bool
link_readable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}
