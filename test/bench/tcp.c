/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP connection between two processes, as the base of test/bench/scale.sh: half a round trip of
 * small messages, polled or blocking, and the rate of a stream. Prints a JSON document like a mode
 * of uroce-bench.
 *
 *   tcp serve ADDRESS PORT              answers until it is killed
 *   tcp ping  ADDRESS PORT SIZE spin    .. or block
 *   tcp send  ADDRESS PORT SIZE         bytes of a write, for a second
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TRIPS   20000
#define WARM_UP 2000
#define RUNS    5
#define MOST    (1 << 20)

enum { PING_SPIN = 1, PING_BLOCK, SEND };

struct hello { /* the client's first bytes */
	uint32_t what, size;
};

static char bytes[MOST];

static void
die(const char *what)
{
	fprintf(stderr, "tcp: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Receives size bytes. Returns 0 at the end of the stream. */
static int
get(int fd, size_t size, int flags)
{
	for (size_t have = 0; have < size;) {
		ssize_t n = recv(fd, bytes + have, size - have, flags);

		if (n == 0)
			return 0;
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n < 0)
			return 0;
		have += (size_t)n;
	}
	return 1;
}

static void
put(int fd, size_t size)
{
	for (size_t sent = 0; sent < size;) {
		ssize_t n = send(fd, bytes, size - sent, MSG_NOSIGNAL);

		if (n < 0)
			die("send");
		sent += (size_t)n;
	}
}

static void
serve_one(int fd)
{
	struct hello h;

	if (recv(fd, &h, sizeof(h), MSG_WAITALL) != sizeof(h) || h.size == 0 || h.size > MOST)
		return;
	while (get(fd, h.size, h.what == PING_SPIN ? MSG_DONTWAIT : 0))
		if (h.what != SEND)
			put(fd, h.size);
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
print_figure(const char *key, double *run, const char *unit, const char *end)
{
	double sorted[RUNS];

	memcpy(sorted, run, sizeof(sorted));
	qsort(sorted, RUNS, sizeof(sorted[0]), by_value);
	printf("   \"%s\": {\n    \"median\": %.4f,\n    \"least\": %.4f,\n    \"most\": %.4f,\n"
	       "    \"unit\": \"%s\"\n   }%s\n",
	       key, sorted[RUNS / 2], sorted[0], sorted[RUNS - 1], unit, end);
}

static void
ping(int fd, uint32_t size, int spin)
{
	static double ns[TRIPS];
	double p50[RUNS], p99[RUNS], begin;

	for (int r = 0; r < RUNS; r++) {
		for (int i = -WARM_UP; i < TRIPS; i++) {
			begin = now_ns();
			put(fd, size);
			if (!get(fd, size, spin ? MSG_DONTWAIT : 0))
				die("the server is gone");
			if (i >= 0)
				ns[i] = (now_ns() - begin) / 2000;
		}
		qsort(ns, TRIPS, sizeof(ns[0]), by_value);
		p50[r] = ns[TRIPS / 2];
		p99[r] = ns[TRIPS / 100 * 99];
	}
	print_figure("p50", p50, "us", ",");
	print_figure("p99", p99, "us", "");
}

static void
stream(int fd, uint32_t size)
{
	double rate[RUNS];

	for (int r = 0; r < RUNS; r++) {
		double begin = now_ns(), moved = 0, end;

		do {
			put(fd, size);
			moved += size;
			end = now_ns();
		} while (end - begin < 1e9);
		rate[r] = moved * 8 / (end - begin);
	}
	print_figure("goodput", rate, "Gb/s", "");
}

int
main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, conn;
	struct hello h = {0};

	if (argc < 4 || inet_pton(AF_INET, argv[2], &at.sin_addr) != 1) {
		fputs("usage: tcp serve|ping|send ADDRESS PORT [SIZE [spin|block]]\n", stderr);
		return 2;
	}
	at.sin_port = htons((uint16_t)atoi(argv[3]));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (strcmp(argv[1], "serve") == 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1) != 0)
			die(argv[2]);
		while ((conn = accept(fd, NULL, NULL)) >= 0) {
			setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
			serve_one(conn);
			close(conn);
		}
		die("accept");
	}
	h.size = argc > 4 ? (uint32_t)atoi(argv[4]) : 64;
	h.what = strcmp(argv[1], "send") == 0               ? SEND
		 : argc > 5 && strcmp(argv[5], "spin") == 0 ? PING_SPIN
							    : PING_BLOCK;
	if (h.size == 0 || h.size > MOST || connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		die(argv[2]);
	if (send(fd, &h, sizeof(h), 0) != sizeof(h))
		die("send");
	printf("{\n \"mode\": \"tcp\",\n \"rows\": [\n  {\n   \"name\": \"TCP, %u B, %s\",\n",
	       h.size,
	       h.what == SEND        ? "stream"
	       : h.what == PING_SPIN ? "half a round trip, polling"
				     : "half a round trip, blocking");
	if (h.what == SEND)
		stream(fd, h.size);
	else
		ping(fd, h.size, h.what == PING_SPIN);
	printf("  }\n ]\n}\n");
	return 0;
}
