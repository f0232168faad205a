/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "client": ordinary verbs programs on ordinary daemons.
 *
 *   client.c         the mode: measurements and rows
 *   client_plan.c    checks the options, plans the processes
 *   client_host.c    starts daemons and clients, talks to them, ends them
 *   client_hist.c    histogram of times
 *   client_child.c   the client's process: receives and executes commands
 *   client_verbs.c   .. its device, memory, queue pairs, connections
 *   client_data.c    .. writes and checks the bytes
 *   client_run.c     .. the measured loops
 *   client_hops.c    .. the parts of --measure hops, the worker's too; bare rings
 *   client_bare.c    cost of a thread's sleep and wake-up on this machine
 *   client_loss.c    drops frames
 *
 * A client is this program, started by uroce-run, so that the stock libibverbs finds the daemon's
 * devices. It gets commands from a socket. If a command fails, it prints a line on stderr and exits
 * with 1. The two ends of a connection are in one process (the default) or in two (--apart,
 * --peer-socket).
 */
#ifndef UROCE_BENCH_CLIENT_H
#define UROCE_BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "bench.h"

#define CLIENT_MODE       "client-process" /* argv[1] of a client; internal */
#define CLIENT_NAME_MAX   64
#define CLIENT_SOCKET_MAX 128

/* ---- client_hist.c ---- */
/*
 * Times in ns, 0 .. 2^32 - 1, with a resolution of 1/128 of the value or 1 ns. Larger ones count as
 * 2^32 - 1.
 */
#define CLIENT_HIST_SUB_BITS 7
#define CLIENT_HIST_CELLS    ((32 - CLIENT_HIST_SUB_BITS + 1) << CLIENT_HIST_SUB_BITS)
struct client_hist {
	uint64_t n;
	uint32_t cell[CLIENT_HIST_CELLS];
};
void client_hist_add(struct client_hist *h, uint64_t ns);
/* Add the counts of other. */
void client_hist_merge(struct client_hist *h, const struct client_hist *other);
/* The quantile share (0 .. 1) of the times; 0 if there are none. */
double client_hist_at(const struct client_hist *h, double share);
/* The mean of the faster half, for times near the clock's resolution, where a median is coarse. */
double client_hist_low(const struct client_hist *h);

/* ---- messages between the mode and a client, over SOCK_SEQPACKET ---- */
enum client_role {
	CLIENT_BOTH = 0, /* owns both ends of its connections */
	CLIENT_ACTIVE,   /* posts the operations */
	CLIENT_PASSIVE,  /* has the memory, posts receives, returns pings */
};

/* First message to a client. */
struct client_plan {
	char dev[CLIENT_NAME_MAX]; /* "": the first */
	uint32_t role;             /* enum client_role */
	uint32_t op;               /* enum bench_op */
	uint32_t size, mtu, qps, depth;
	uint32_t batch; /* messages per post; the last is signaled */
	uint32_t queue; /* WRs that each queue holds: depth or more */
	uint32_t inline_bytes;
	bool hops;          /* allocate a memory window, for CLIENT_HOPS */
	int32_t worker_cpu; /* of a daemon that this program started; else -1 */
	bool yield;         /* more processes than cores: yield after every empty poll */
};

/* Commands for a client. The response to each is a struct client_answer. */
enum client_order {
	/*
	 * Make and connect the QPs. A client with one side sends a struct client_address for each
	 * QP and receives those of its peer.
	 */
	CLIENT_CONNECT = 1,
	CLIENT_PATTERN, /* write the pattern of seed into the memory */
	CLIENT_RATE,    /* send messages for ns, but at least count */
	/* send count messages one at a time, with pause_us before each; ns != 0: end after ns */
	CLIENT_PING,
	CLIENT_HOPS,   /* unbind count windows, one at a time */
	CLIENT_SERVE,  /* passive part of RATE or, with count != 0, of PING .. */
	CLIENT_STOP,   /* .. until this; no separate response for SERVE */
	CLIENT_VERIFY, /* check the bytes of count messages since PATTERN */
};
struct client_command {
	uint32_t order; /* enum client_order */
	uint32_t seed;  /* of the pattern */
	uint64_t count, ns, pause_us;
};
/*
 * A client's response. After CLIENT_PING a struct client_hist follows it, after CLIENT_HOPS a
 * struct client_pieces.
 */
struct client_answer {
	uint64_t messages;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t equal;            /* CLIENT_VERIFY: all bytes are correct */
};
/* Times of a WR: its post; from there to the found completion; a successful poll alone. */
struct client_pieces {
	double post_ns, away_ns, poll_ns;
};
struct client_address { /* of one end of a QP and of its process's memory */
	uint8_t gid[16];
	uint32_t qpn, psn, rkey, mtu; /* mtu: code of the port */
	uint64_t va;
};

/* One message on the socket. 0, or -1 if the peer has ended or the length differs. */
int client_send(int sock, const void *msg, size_t len);
int client_recv(int sock, void *msg, size_t len);

/* ---- client_plan.c ---- */
/* Checks combinations of options. On an error: prints a message and exits with status 2. */
void client_check(const struct bench_options *o);
/* Are the two ends of a connection in two processes? */
bool client_apart(const struct bench_options *o);
/* Makes the plan for a client of that role. */
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
/* Remembers the CPUs that this process may use, for its children. Call before DPDK starts. */
void client_host_init(void);
unsigned client_cpus(void);
/* CPU number n of those, 0 .. client_cpus() - 1. */
unsigned client_cpu(unsigned n);
/* Is this CPU one of those? */
bool client_may_use(unsigned cpu);
/*
 * Start a daemon with devices uroce0 and uroce1 on a --pair, with a new socket and file prefix and
 * its worker on the last CPU. Waits until it is ready. Exits with 1 if it does not start. All
 * processes started here end when this process ends.
 */
void client_daemon_start(struct client_daemon *d, const struct bench_options *o);
/* Start client i on the i-th CPU, never on the worker's, and send it the plan. */
void client_start(struct client_proc *p, unsigned i, const char *socket,
		  const struct client_plan *plan);
/*
 * Writes the path of another program of uroce to path, which has room for PATH_MAX bytes. In the
 * build tree each program has a separate folder; installed, they share one. Exits with 1 if the
 * program is not found.
 */
void client_program(char *path, const char *name);
/* Messages from and to a client. Exits with 1 if the client has ended. */
void client_hear(struct client_proc *p, void *msg, size_t len);
void client_say(struct client_proc *p, const void *msg, size_t len);
/* End all clients and, with daemons true, all daemons; remove their files. */
void client_end_all(bool daemons);
/* CPU time of a process in ns; its proportional memory in bytes. */
uint64_t client_cpu_ns(pid_t pid);
uint64_t client_memory(pid_t pid);

/* ---- client_loss.c ---- */
struct client_losses { /* the daemon's counters, summed over its devices */
	uint64_t resent, timeouts, probes, exhausted;
};
/*
 * Drop percent of the frames that dev receives; negative: remove the fault injector. Exits with 1
 * on failure.
 */
void client_loss_set(const struct client_daemon *d, const char *dev, double percent);
void client_loss_counters(const struct client_daemon *d, struct client_losses *sum);

/* ---- client_bare.c ---- */
/* The share (0 .. 1) of cpu that a thread uses which only sleeps, 2 ms at a time, for ns. */
double client_bare_sleeps(unsigned cpu, uint64_t ns);
/*
 * Adds n times to h, each after a pause of pause_us (below a second): a thread on CPU `from` writes
 * an eventfd; the time until it sees that the thread on CPU `to` was woken.
 */
void client_bare_wakes(unsigned from, unsigned to, uint32_t n, uint32_t pause_us,
		       struct client_hist *h);

/* ---- client_hops.c ---- */
/*
 * Times of the cache lines that a WR and its completion move (WQE of two lines and index one way,
 * CQE back) between two threads that do nothing else, on the first and the last CPU. 0 with one
 * CPU.
 */
struct client_floor {
	double publish_ns; /* index stored and fence, which waits for the index's line */
	double away_ns;    /* from there until the CQE is found */
};
void client_floor(struct client_floor *f);
/*
 * ns that a requester needs from WQE to CQE for the window that --measure hops unbinds, with all
 * data in this core's cache. DPDK has been started.
 */
double client_step_ns(void);

/* ---- client_child.c ---- */
/* main of a client: argv[2] is the socket's descriptor. Returns the exit status. */
int client_main(int argc, char **argv);

#endif
