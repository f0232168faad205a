/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latency of bare sockets between two programs. "bare": each program has a socket and polls it.
 * "handed_over": each program shares a core with a process that owns the socket, as a client and
 * its daemon do; the two exchange messages in shared memory and yield to each other. There is no
 * transport and no acknowledgement, so that no daemon with such a port can be faster.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rte_common.h>
#include "bounds.h"
#include "wire/hdr.h"

#define PROTOCOL 0x88b5 /* for experiments */
#define OVERHEAD (WIRE_BTH_LEN + WIRE_ICRC_LEN)
#define TRIPS    4000
#define WARM_UP  400

/* Shared by all processes. posted, delivered: messages so far, each on its own cache line. */
struct latency {
	struct {
		uint32_t posted __attribute__((aligned(64)));
		uint32_t delivered __attribute__((aligned(64)));
	} side[2];
	uint32_t stop __attribute__((aligned(64)));
	uint32_t ns[TRIPS]; /* of each round trip */
	char vdev[2][256];
	bool packet;
};

struct end {
	int fd;
	struct sockaddr_storage to;
	socklen_t to_len;
	uint8_t bytes[9000];
	size_t send_len;
};

static void
open_udp(const struct latency *l, unsigned s, struct end *e)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};

	e->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, l->vdev[s], &at.sin_addr);
	if (e->fd < 0 || bind(e->fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		bench_die("no UDP socket on %s: %m", l->vdev[s]);
	inet_pton(AF_INET, l->vdev[1 - s], &at.sin_addr);
	memcpy(&e->to, &at, sizeof(at));
	e->to_len = sizeof(at);
}

static void
open_packet(unsigned s, struct end *e)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(PROTOCOL),
				 .sll_halen = ETH_ALEN};
	uint16_t type = htons(PROTOCOL);
	char name[IF_NAMESIZE];

	node_net_interface(name, 0, s);
	at.sll_ifindex = (int)if_nametoindex(name);
	e->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (e->fd < 0 || bind(e->fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		bench_die("no packet socket on %s: %m", name);
	memset(e->bytes, 0xff, ETH_ALEN); /* to everybody */
	memcpy(e->bytes + 2 * ETH_ALEN, &type, sizeof(type));
	memcpy(&e->to, &at, sizeof(at));
	e->to_len = sizeof(at);
	e->send_len += WIRE_ETH_LEN + WIRE_IPV4_LEN + WIRE_UDP_LEN;
}

/* Opens the socket of side s, in the namespace of that side, for messages of size bytes. */
static void
end_open(const struct latency *l, unsigned s, uint32_t size, struct end *e)
{
	memset(e, 0, sizeof(*e));
	e->send_len = size + OVERHEAD;
	node_net_side(s);
	if (l->packet)
		open_packet(s, e);
	else
		open_udp(l, s, e);
}

static void
end_send(struct end *e)
{
	if (sendto(e->fd, e->bytes, e->send_len, 0, (struct sockaddr *)&e->to, e->to_len) < 0 &&
	    errno != EAGAIN && errno != ENOBUFS)
		bench_die("cannot send: %m");
}

static bool
end_receive(struct end *e)
{
	return recv(e->fd, e->bytes, sizeof(e->bytes), 0) > 0;
}

/* The process that owns a socket for a program. */
static void
owner_run(struct latency *l, unsigned s, struct end *e)
{
	uint32_t sent = 0;

	while (!__atomic_load_n(&l->stop, __ATOMIC_RELAXED)) {
		if (end_receive(e))
			__atomic_add_fetch(&l->side[s].delivered, 1, __ATOMIC_RELEASE);
		else if (__atomic_load_n(&l->side[s].posted, __ATOMIC_ACQUIRE) != sent) {
			sent++;
			end_send(e);
			continue;
		}
		sched_yield();
	}
}

/* Exchanges one message each way. e NULL: by the owner of the socket. */
static void
post(struct latency *l, unsigned s, struct end *e)
{
	if (e != NULL)
		end_send(e);
	else
		__atomic_add_fetch(&l->side[s].posted, 1, __ATOMIC_RELEASE);
}

static void
wait_message(struct latency *l, unsigned s, struct end *e, uint32_t n)
{
	while (!__atomic_load_n(&l->stop, __ATOMIC_RELAXED)) {
		if (e != NULL ? end_receive(e)
			      : __atomic_load_n(&l->side[s].delivered, __ATOMIC_ACQUIRE) == n)
			return;
		if (e == NULL)
			sched_yield();
	}
}

static void
program_run(struct latency *l, unsigned s, struct end *e)
{
	uint64_t begin = bench_now_ns();

	for (uint32_t i = 0; i < WARM_UP + TRIPS; i++) {
		uint64_t now;

		if (s == 0)
			post(l, s, e);
		wait_message(l, s, e, i + 1);
		if (s == 1)
			post(l, s, e);
		now = bench_now_ns();
		if (s == 0 && i >= WARM_UP)
			l->ns[i - WARM_UP] = (uint32_t)RTE_MIN(now - begin, UINT32_MAX);
		begin = now;
	}
}

/* Starts a process on the CPU of side s. Returns 0 in it. */
static pid_t
start(unsigned s)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		bench_die("fork: %m");
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	bench_pin(sysconf(_SC_NPROCESSORS_ONLN) > 1 ? s : 0);
	return 0;
}

static int
compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void
end_of(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status != 0)
		bench_die("a process of the measurement failed");
}

/* Returns the median of half a round trip in us. */
static double
measure(struct latency *l, uint32_t size, bool handed_over)
{
	pid_t program[2], owner[2] = {-1, -1};
	struct end e[2];

	memset(l->side, 0, sizeof(l->side));
	l->stop = 0;
	for (unsigned s = 0; s < 2; s++) /* both before a message is sent */
		end_open(l, s, size, &e[s]);
	for (unsigned s = 0; s < 2; s++) {
		if (handed_over && (owner[s] = start(s)) == 0) {
			owner_run(l, s, &e[s]);
			_exit(0);
		}
		program[s] = start(s);
		if (program[s] == 0) {
			program_run(l, s, handed_over ? NULL : &e[s]);
			_exit(0);
		}
	}
	end_of(program[0]);
	end_of(program[1]);
	__atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
	for (unsigned s = 0; s < 2; s++) {
		if (owner[s] > 0)
			end_of(owner[s]);
		close(e[s].fd);
	}
	node_net_side(0);
	qsort(l->ns, TRIPS, sizeof(l->ns[0]), compare);
	return l->ns[TRIPS / 2] / 2000.0;
}

int
limits_sockets(const struct bench_options *o, struct bench_report *r)
{
	struct latency *l =
		mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (l == MAP_FAILED)
		bench_die("no memory");
	l->packet = o->port == BENCH_PORT_PACKET;
	node_net_port(o, 0, l->vdev);
	for (uint32_t k = 0; k < o->runs; k++) {
		bench_add(r, "bare", "us", measure(l, o->size, false));
		bench_add(r, "handed_over", "us", measure(l, o->size, true));
	}
	bench_report_row(r, "bare sockets, %s, latency of %u B", bench_port_name[o->port], o->size);
	munmap(l, sizeof(*l));
	return 0;
}
