/* SPDX-License-Identifier: BSD-3-Clause */
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
#include "errmatrix.h"

#define OPEN_WAIT_S 60 /* an emulated guest takes its time */

static int
link_accept(uint16_t port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
	int one = 1, fd, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd pfd = {.fd = listener, .events = POLLIN};

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listener < 0 || bind(listener, (const struct sockaddr *)&any, sizeof(any)) ||
	    listen(listener, 1))
		die("listen on TCP port %u: %s", port, strerror(errno));
	if (poll(&pfd, 1, OPEN_WAIT_S * 1000) != 1)
		die("no requester came");
	fd = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

static int
link_connect(const char *host, uint16_t port)
{
	struct addrinfo hint = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ai;
	double end = now_s() + OPEN_WAIT_S;
	char service[8];
	int fd = -1, rc;

	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hint, &ai);
	if (rc)
		die("%s: %s", host, gai_strerror(rc));
	while (fd < 0 && now_s() < end) { /* the responder may still be starting */
		fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, ai->ai_addr, ai->ai_addrlen)) {
			close(fd);
			fd = -1;
			nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
		}
	}
	freeaddrinfo(ai);
	return fd;
}

int
link_open(const struct options *opt)
{
	int one = 1;
	int fd = opt->host ? link_connect(opt->host, opt->tcp_port) : link_accept(opt->tcp_port);

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
