/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "client": verbs programs as a user's are, on daemons as a user's are.
 *
 *   client.c         the mode: what is measured, and the rows
 *   client_plan.c    what the options mean for the processes
 *   client_host.c    daemon and client processes: starting, talking to, ending them
 *   client_hist.c    histogram of times
 *   client_child.c   the client's process: what the mode tells it, one order after the other
 *   client_verbs.c   .. its objects: device, memory, queue pairs, connections
 *   client_data.c    .. the bytes
 *   client_run.c     .. the loops that are measured
 *   client_hops.c    .. and the pieces of --measure hops; bare rings beside them
 *   client_bare.c    what a thread's sleep and its end cost on this machine
 *   client_step.c    what the worker itself does of --measure hops
 *   client_loss.c    frames lost on purpose
 *
 * A client is this program again, run by uroce-run, so that it finds the daemon's devices through
 * the stock libibverbs. It takes its orders from a socket; it exits with 1 and a line on stderr
 * where it cannot carry one out. A connection joins two ends: both are the same process's (the
 * default), or those of two processes (--apart, --peer-socket).
 */
#ifndef UROCE_BENCH_CLIENT_H
#define UROCE_BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "bench.h"

#define CLIENT_MODE       "client-process" /* argv[1] of a client, which people do not type */
#define CLIENT_NAME_MAX   64
#define CLIENT_SOCKET_MAX 128

/* ---- client_hist.c ---- */
/*
 * Times in ns, 0 .. 2^32 - 1, at a resolution of 1/128 of the value or 1 ns; larger ones count as
 * the largest.
 */
#define CLIENT_HIST_SUB_BITS 7
#define CLIENT_HIST_CELLS    ((32 - CLIENT_HIST_SUB_BITS + 1) << CLIENT_HIST_SUB_BITS)
struct client_hist {
	uint64_t n;
	uint32_t cell[CLIENT_HIST_CELLS];
};
void client_hist_add(struct client_hist *h, uint64_t ns);
/* Add what other has counted. */
void client_hist_merge(struct client_hist *h, const struct client_hist *other);
/* The time that share (0 .. 1) of all are not above; 0 where there are none. */
double client_hist_at(const struct client_hist *h, double share);
/* The mean of the quicker half: for times near the clock's own step, which a median would round to.
 */
double client_hist_low(const struct client_hist *h);

/* ---- what goes over the socket between the mode and a client, SOCK_SEQPACKET ---- */
enum client_role {
	CLIENT_BOTH = 0, /* owns both ends of its connections */
	CLIENT_ACTIVE,   /* posts the operations */
	CLIENT_PASSIVE,  /* has the memory, posts receives, answers pings */
};

/* First message to a client. */
struct client_plan {
	char dev[CLIENT_NAME_MAX]; /* "": the first */
	uint32_t role;             /* enum client_role */
	uint32_t op;               /* enum bench_op */
	uint32_t size, mtu, qps, depth;
	uint32_t batch; /* messages of one post; the last of them is signaled */
	uint32_t queue; /* WRs that each queue is made for: depth, or more */
	uint32_t inline_bytes;
	bool hops;          /* a window is there, for CLIENT_HOPS */
	int32_t worker_cpu; /* of a daemon of our own; else -1 */
	bool yield;         /* more processes than cores: give way on every empty poll */
};

/* Orders to a client; each is answered by a struct client_answer. */
enum client_order {
	/*
	 * Make and connect the QPs. A client with one side says struct client_address of each,
	 * and hears those of its peer.
	 */
	CLIENT_CONNECT = 1,
	CLIENT_PATTERN, /* new bytes in the memory, those of seed */
	CLIENT_RATE,    /* as many messages as ns take, but count at least */
	CLIENT_PING,    /* count messages one at a time, pause_us before each */
	CLIENT_HOPS,    /* count windows unbound, one at a time */
	CLIENT_SERVE,   /* the passive part of RATE, or with count != 0 of PING .. */
	CLIENT_STOP,    /* .. up to here; has no answer of its own */
	CLIENT_VERIFY,  /* did the bytes of count messages since PATTERN arrive? */
};
struct client_command {
	uint32_t order; /* enum client_order */
	uint32_t seed;  /* of the bytes that are moved */
	uint64_t count, ns, pause_us;
};
/*
 * A client's answer; to CLIENT_PING a struct client_hist follows it, to CLIENT_HOPS struct
 * client_pieces.
 */
struct client_answer {
	uint64_t messages;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t equal;            /* CLIENT_VERIFY: all bytes are as they should be */
};
/* Of a WR: its post; from there until a poll has found its completion; such a poll, all at hand. */
struct client_pieces {
	double post_ns, away_ns, poll_ns;
};
struct client_address { /* of one QP's end, and its process's memory */
	uint8_t gid[16];
	uint32_t qpn, psn, rkey, mtu; /* mtu: code of the port */
	uint64_t va;
};

/* Whole messages on the socket: 0, or -1 when the other side is gone or sent another length. */
int client_send(int sock, const void *msg, size_t len);
int client_recv(int sock, void *msg, size_t len);

/* ---- client_plan.c ---- */
/* Do the options go together? Else says why not and exits with 2. */
void client_check(const struct bench_options *o);
/* Are the two ends of a connection in two processes? */
bool client_apart(const struct bench_options *o);
/* What a client of that role is told. */
void client_plan_make(struct client_plan *p, const struct bench_options *o, enum client_role role);

/* ---- client_host.c ---- */
struct client_proc {
	pid_t pid;
	int sock;
};
struct client_daemon {
	pid_t pid; /* 0: not ours */
	char socket[CLIENT_SOCKET_MAX];
};
/* Where processes are put: the CPUs that this one had before DPDK pinned it. Call first. */
void client_host_init(void);
unsigned client_cpus(void);
/* CPU number n of those, 0 .. client_cpus() - 1. */
unsigned client_cpu(unsigned n);
/*
 * Start a daemon with a device uroce0 .. on a pair of ports joined in memory, on a socket and
 * prefix of its own, its worker on the last CPU; wait until it is ready. Exits with 1 where it
 * does not start. Everything started here ends with this process, however that ends.
 */
void client_daemon_start(struct client_daemon *d, const struct bench_options *o);
/* Start client number i on CPU i, from the first, leaving the worker's alone; it gets the plan. */
void client_start(struct client_proc *p, unsigned i, const char *socket,
		  const struct client_plan *plan);
/*
 * Writes the path of another program of uroce to path, which has room for PATH_MAX bytes. In the
 * build tree each program has a separate folder; installed, they share one. Exits with 1 if the
 * program is not found.
 */
void client_program(char *path, const char *name);
/* Messages from and to a client. One that has ended ends this program with 1. */
void client_hear(struct client_proc *p, void *msg, size_t len);
void client_say(struct client_proc *p, const void *msg, size_t len);
/* End all clients, and with daemons true all daemons, and remove what they left. */
void client_end_all(bool daemons);
/* CPU time that a process has used, in ns; proportional memory that it has, in bytes. */
uint64_t client_cpu_ns(pid_t pid);
uint64_t client_memory(pid_t pid);

/* ---- client_loss.c ---- */
struct client_losses { /* the daemon's counters, of all its devices */
	uint64_t resent, timeouts, probes, exhausted;
};
/* dev loses so many percent of the frames that come to it; 0: none. Exits with 1 on failure. */
void client_loss_set(const struct client_daemon *d, const char *dev, double percent);
void client_loss_counters(const struct client_daemon *d, struct client_losses *sum);

/* ---- client_step.c ---- */
/*
 * What a requester needs for the window that --measure hops unbinds, WQE to CQE, with all of it in
 * this core's cache: nanoseconds. DPDK has been started.
 */
double client_step_ns(void);

/* ---- client_bare.c ---- */
/* The share (0 .. 1) of core cpu that a thread takes which does nothing for ns but sleep, 2 ms
 * each. */
double client_bare_sleeps(unsigned cpu, uint64_t ns);
/*
 * n times after a silence of pause_us (below a second): from just before a thread on core from
 * writes an eventfd until it sees that one on core to has been woken by it. Adds to h.
 */
void client_bare_wakes(unsigned from, unsigned to, uint32_t n, uint32_t pause_us,
		       struct client_hist *h);

/* ---- client_hops.c ---- */
/*
 * The lines that a WR and its completion move, WQE of two lines and index one way, CQE back,
 * between two threads that do nothing else, on the first CPU and the last. 0 where there is one CPU
 * only.
 */
struct client_floor {
	double publish_ns; /* index stored and fence, which waits for the index's line */
	double away_ns;    /* from there until the CQE is seen */
};
void client_floor(struct client_floor *f);

/* ---- client_child.c ---- */
/* main of a client: argv[2] is the socket's descriptor. Returns the exit status. */
int client_main(int argc, char **argv);

#endif
