/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "control/daemon.h"
#include "control/log.h"
#include "control/throttle.h"

#define REQUEST_MAX 4096
#define HEAD_MAX    256
#define FRESH_NS    250000000ull

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

struct conn {
	struct watch w; /* fd -1: free */
	uint64_t since; /* order of arrival */
	bool eof;       /* the scraper has closed its direction */
	char *reply;    /* NULL: the request is not complete */
	size_t len, sent, got;
	char request[REQUEST_MAX + 1];
};

static struct metrics {
	struct daemon *d;
	struct watch listener;
	const char *path; /* of a unix socket, else NULL */
	struct conn conn[METRICS_CONNS];
	uint64_t arrivals;
	char *text; /* generated at made_ns */
	size_t text_len;
	uint64_t made_ns;
} metrics = {.listener.fd = -1};

/* Parses value into *a. Returns the length of the address, or 0 if value is not an address. */
static socklen_t
address_of(const char *value, union address *a)
{
	char host[INET6_ADDRSTRLEN] = "127.0.0.1", *end;
	const char *port = strrchr(value, ':');
	bool six = *value == '[';
	unsigned long n;
	size_t len;

	memset(a, 0, sizeof(*a));
	if (*value == '/') {
		a->un.sun_family = AF_UNIX;
		len = strlen(value);
		if (len >= sizeof(a->un.sun_path))
			return 0;
		memcpy(a->un.sun_path, value, len);
		return (socklen_t)sizeof(a->un);
	}
	if (port != NULL) {
		len = (size_t)(port - value) - (six ? 2 : 0);
		if (len >= sizeof(host) || (six && port[-1] != ']'))
			return 0;
		memcpy(host, value + six, len);
		host[len] = '\0';
	}
	port = port != NULL ? port + 1 : value;
	n = *port >= '0' && *port <= '9' ? strtoul(port, &end, 10) : 0;
	if (n == 0 || n > 65535 || *end != '\0')
		return 0;
	a->in.sin_family = six ? AF_INET6 : AF_INET;
	a->in.sin_port = htons((uint16_t)n); /* at the same offset in both families */
	if (six)
		return inet_pton(AF_INET6, host, &a->in6.sin6_addr) == 1 ? sizeof(a->in6) : 0;
	return inet_pton(AF_INET, host, &a->in.sin_addr) == 1 ? sizeof(a->in) : 0;
}
_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	       "one place for the port");

int
metrics_check(const char *value, char *err, size_t room)
{
	union address a;

	if (address_of(value, &a) != 0)
		return 0;
	snprintf(err, room,
		 "'%.100s' is none of: PORT (1 to 65535, on 127.0.0.1), IP:PORT, [IPV6]:PORT, "
		 "/PATH of a unix socket (at most 107 characters)",
		 value);
	return -EINVAL;
}

static void
conn_end(struct conn *c)
{
	loop_del(&metrics.d->loop, &c->w);
	close(c->w.fd);
	c->w.fd = -1;
	free(c->reply);
	c->reply = NULL;
}

/* Returns the metrics, not older than FRESH_NS; NULL: no memory. */
static const char *
fresh_text(void)
{
	uint64_t now = daemon_now_ns();

	if (metrics.text == NULL || now - metrics.made_ns > FRESH_NS) {
		free(metrics.text);
		metrics.text = metrics_text(metrics.d, &metrics.text_len);
		metrics.made_ns = now;
	}
	return metrics.text;
}

/* Builds the reply to a complete request. Returns false if out of memory. */
static bool
answer(struct conn *c)
{
	const char *status = "200 OK", *body = "";
	size_t body_len = 0;
	int head;

	if (strncmp(c->request, "GET ", 4) != 0) {
		status = "405 Method Not Allowed";
	} else if (strncmp(c->request, "GET /metrics ", 13) != 0 &&
		   strncmp(c->request, "GET /metrics?", 13) != 0) {
		status = "404 Not Found";
		body = "the metrics are at /metrics\n";
		body_len = strlen(body);
	} else {
		body = fresh_text();
		if (body == NULL)
			return false;
		body_len = metrics.text_len;
	}
	c->reply = malloc(HEAD_MAX + body_len);
	if (c->reply == NULL)
		return false;
	head = snprintf(c->reply, HEAD_MAX,
			"HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
			"Content-Length: %zu\r\nConnection: close\r\n\r\n",
			status, body_len);
	memcpy(c->reply + head, body, body_len);
	c->len = (size_t)head + body_len;
	c->sent = 0;
	return true;
}

/*
 * Sends as much as the socket accepts. Returns false if the connection must be closed: after an
 * error, or after the last byte if the scraper has closed its direction. Otherwise the scraper
 * closes first.
 */
static bool
send_more(struct conn *c)
{
	ssize_t n =
		send(c->w.fd, c->reply + c->sent, c->len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN;
	c->sent += (size_t)n;
	if (c->sent < c->len) {
		loop_set(&metrics.d->loop, &c->w, c->eof ? EPOLLOUT : EPOLLIN | EPOLLOUT);
		return true;
	}
	if (c->eof)
		return false;
	/* Do not close yet: that could discard the end of the reply. */
	shutdown(c->w.fd, SHUT_WR);
	loop_set(&metrics.d->loop, &c->w, EPOLLIN);
	return true;
}

/* Reads; replies once the request is complete. Returns false if the connection must be closed. */
static bool
read_more(struct conn *c)
{
	char rest[512];
	bool have = c->reply != NULL; /* data after a request is ignored */
	ssize_t n = have ? recv(c->w.fd, rest, sizeof(rest), MSG_DONTWAIT)
			 : recv(c->w.fd, c->request + c->got, REQUEST_MAX - c->got, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN;
	if (n == 0) {
		c->eof = true;
		return have && c->sent < c->len && send_more(c);
	}
	if (have)
		return true;
	c->got += (size_t)n;
	c->request[c->got] = '\0';
	if (strstr(c->request, "\r\n\r\n") == NULL && strstr(c->request, "\n\n") == NULL)
		return c->got < REQUEST_MAX;
	return answer(c) && send_more(c);
}

static void
on_conn(struct watch *w, uint32_t events)
{
	struct conn *c = WATCH_OF(w, struct conn, w);
	bool keep = true;

	if (events & EPOLLIN)
		keep = read_more(c);
	else if (events & (EPOLLERR | EPOLLHUP))
		keep = false;
	if (keep && (events & EPOLLOUT) && c->reply != NULL && c->sent < c->len)
		keep = send_more(c);
	if (!keep)
		conn_end(c);
}

/* Returns a free entry. If there is none, closes the oldest connection. */
static struct conn *
conn_place(void)
{
	struct conn *oldest = &metrics.conn[0];

	for (unsigned i = 0; i < METRICS_CONNS; i++) {
		struct conn *c = &metrics.conn[i];

		if (c->w.fd < 0)
			return c;
		if (c->since < oldest->since)
			oldest = c;
	}
	conn_end(oldest);
	return oldest;
}

/*
 * Accepts a connection with the spare descriptor and closes it. As long as it is pending, the loop
 * would spin.
 */
static void
turn_away(struct daemon *d, int listener)
{
	int fd;

	close(d->spare_fd);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	d->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	LOG_LIMITED(WARNING, "a request for metrics refused: no descriptor left");
}

static void
on_listener(struct watch *w, uint32_t events)
{
	int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct conn *c;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		turn_away(metrics.d, w->fd);
	if (fd < 0)
		return;
	c = conn_place();
	c->eof = false;
	c->w.fd = fd;
	c->w.ready = on_conn;
	c->since = ++metrics.arrivals;
	c->got = 0;
	if (loop_add(&metrics.d->loop, &c->w, EPOLLIN) < 0) {
		close(fd);
		c->w.fd = -1;
	}
}

/* Removes a socket that no process listens on any more. */
static void
remove_stale(const union address *a, socklen_t len)
{
	struct stat st;
	int fd;

	if (a->any.sa_family != AF_UNIX || lstat(a->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, &a->any, len) < 0 && errno == ECONNREFUSED)
		unlink(a->un.sun_path);
	if (fd >= 0)
		close(fd);
}

static int
listen_at(const union address *a, socklen_t len, uint32_t mode)
{
	int one = 1, fd, rc;

	remove_stale(a, len);
	fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &a->any, len) == 0 &&
	    (a->any.sa_family != AF_UNIX || chmod(a->un.sun_path, mode) == 0) &&
	    listen(fd, 128) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int
metrics_start(struct daemon *d, const char *where)
{
	union address a;
	socklen_t len = address_of(where, &a);
	int rc = listen_at(&a, len, d->cfg->socket_mode);

	for (unsigned i = 0; i < METRICS_CONNS; i++)
		metrics.conn[i].w.fd = -1;
	metrics.d = d;
	if (rc >= 0) {
		metrics.listener.fd = rc;
		metrics.listener.ready = on_listener;
		metrics.path = *where == '/' ? where : NULL;
		rc = loop_add(&d->loop, &metrics.listener, EPOLLIN);
	}
	if (rc < 0)
		LOG(ERR, "option --metrics: %s: %s", where, strerror(-rc));
	return rc;
}

void
metrics_stop(struct daemon *d)
{
	if (metrics.listener.fd < 0)
		return;
	for (unsigned i = 0; i < METRICS_CONNS; i++) {
		if (metrics.conn[i].w.fd >= 0)
			conn_end(&metrics.conn[i]);
	}
	loop_del(&d->loop, &metrics.listener);
	close(metrics.listener.fd);
	metrics.listener.fd = -1;
	if (metrics.path != NULL)
		unlink(metrics.path);
	free(metrics.text);
	metrics.text = NULL;
}
