/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "client": ordinary verbs programs on ordinary daemons.
 *
 *   client.c          the mode: options, measurements, rows, frames to drop
 *   client_host.c     starts daemons and clients, talks to them, ends them
 *   client_process.c  the client's process: device, queue pairs, the measured loops
 *   client_data.c     .. writes and checks the bytes; histogram of times
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
#include <infiniband/verbs.h>
#include "bench.h"
#include "worker/steps.h"

#define CLIENT_MODE       "client-process"  /* argv[1] of a client; internal */
#define CONNECT_MODE      "connect-process" /* .. of the process of mode "connect" */
#define CLIENT_NAME_MAX   64
#define CLIENT_SOCKET_MAX 128

/* ---- client_data.c ---- */
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
	bool yield;     /* more processes than cores: yield after every empty poll */
	uint32_t steps; /* CLIENT_STEPS: stamps kept of PING and SERVE, at most; 0: none */
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
	CLIENT_SERVE,  /* passive part of RATE or, with count != 0, of PING .. */
	CLIENT_STOP,   /* .. until this; no separate response for SERVE */
	CLIENT_VERIFY, /* check the bytes of count messages since PATTERN */
	/* send a struct client_steps and its stamps, CLIENT_STEPS_MSG a message; forget them */
	CLIENT_STEPS,
};
#define CLIENT_STEPS_MSG 1024u
struct client_command {
	uint32_t order; /* enum client_order */
	uint32_t seed;  /* of the pattern */
	uint64_t count, ns, pause_us;
};
/*
 * A client's response. After CLIENT_PING a struct client_hist follows it.
 */
struct client_answer {
	uint64_t messages;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t equal;            /* CLIENT_VERIFY: all bytes are correct */
};
/* Since the last CLIENT_STEPS: the number of stamps, and of switches of the thread. */
struct client_steps {
	uint32_t n;
	uint32_t slept, preempted; /* switches: to wait; for others, yields included */
};
struct client_address { /* of one end of a QP and of its process's memory */
	uint8_t gid[16];
	uint32_t qpn, psn, rkey, mtu; /* mtu: code of the port */
	uint64_t va;
};

/* One message on the socket. 0, or -1 if the peer has ended or the length differs. */
int client_send(int sock, const void *msg, size_t len);
int client_recv(int sock, void *msg, size_t len);

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
/* Options of a daemon that differ from those. */
struct client_daemon_plan {
	const char *vdev;   /* of EAL; NULL: --pair p */
	const char *dev[2]; /* specifications of --dev; the second one may be NULL */
	unsigned cpu;       /* of its worker */
	bool adaptive;      /* --idle */
};
void client_daemon_start_as(struct client_daemon *d, const struct bench_options *o,
			    const struct client_daemon_plan *plan);
/*
 * Starts this program as process `mode` (argv[1]) under uroce-run, on a socket of a daemon, and
 * sends it a message. cpu >= 0: on that CPU of client_cpu, never on the worker's.
 */
void client_start(struct client_proc *p, const char *mode, int cpu, const char *socket,
		  const void *msg, size_t len);
/* The same on cpu, a number of the system. */
void client_start_on(struct client_proc *p, const char *mode, unsigned cpu, const char *socket,
		     const void *msg, size_t len);
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

/* ---- a client's process: one thread, verbs and no DPDK ---- */
/* Counters of a QP on one side. Messages are numbered from 0, modulo 2^32. */
struct client_count {
	uint32_t posted, done;   /* operations (SENDs, on the passive side: the pongs) */
	uint32_t recvs, arrived; /* receives */
	uint32_t peer_rkey;
	uint64_t peer_va; /* of the peer's memory */
};

/* All QPs of one side and their common CQs. */
struct client_end {
	struct ibv_cq *scq, *rcq;
	struct ibv_qp **qp;         /* plan.qps */
	struct client_count *count; /* .. */
};

struct client {
	struct client_plan plan;
	int sock;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	/* source and destination of the messages, in slots of stride bytes */
	uint8_t *from, *to;
	struct ibv_mr *from_mr, *to_mr;
	uint32_t slots, stride;
	bool can_inline;          /* messages are sent inline */
	struct client_end end[2]; /* 0: posts the operations; 1: their target */
	bool has[2];
	struct stamp *step;            /* plan.steps of them */
	uint32_t nsteps;               /* used */
	uint32_t step_sent, step_back; /* messages posted and received since CLIENT_STEPS */
	struct client_steps switches;  /* before that, of the thread */
};

/* Write the pattern of seed to the source, other bytes to the destination. Nothing is in flight. */
void client_pattern(struct client *c, uint32_t seed);
/*
 * Have count messages arrived since client_pattern, each complete? Always true on the side that
 * receives nothing.
 */
bool client_verify(const struct client *c, uint32_t seed, uint64_t count);
/* main of a client: argv[2] is the socket's descriptor. Returns the exit status. */
int client_main(int argc, char **argv);
/* The same of the process of mode "connect". */
int connect_main(int argc, char **argv);

#endif
