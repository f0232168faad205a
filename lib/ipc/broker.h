/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The broker: a small process beside the daemon that does everything that may block on something a
 * client controls. A separate process, because not even SIGKILL ends a thread that waits for a FUSE
 * server.
 *
 *   - Descriptors of clients. A message may carry any descriptor whose close blocks (a lingering
 *     socket, a file of a FUSE server that never answers FLUSH), even if nobody reads it: the last
 *     close of a connection drops queued messages. The broker therefore holds a duplicate of every
 *     connection and of the listening socket, so that the daemon's close is never the last. It
 *     receives the messages with descriptors; only memfds sealed against shrinking reach the
 *     daemon.
 *   - Inspection of clients: /proc/PID/maps, map_files and mem, which may block on the client's
 *     mmap_lock or the server of its files (mrmap_find).
 *   - Pauses of a client's threads while one of them moves its pages (map/pause.h).
 *   - Accesses to memory that the daemon cannot map, for the workers (map/copier.h), by one thread
 *     per address space.
 *
 * The main thread never blocks. Other threads do the rest: at most BROKER_USER_THREADS per uid and
 * BROKER_THREADS for all, so that one user's blocked files do not use up the threads of others, nor
 * all users together those of root. The same number of copy threads may remain blocked per uid;
 * beyond it the uid's memory is no longer copied. The broker ends when the daemon does, for
 * whatever reason.
 *
 * Includes: include/uroce_abi, lib/map, the rest of lib/ipc. No DPDK.
 */
#ifndef UROCE_IPC_BROKER_H
#define UROCE_IPC_BROKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "map/mrmap.h"
#include "uroce_abi/ctrl.h"

#define BROKER_USER_THREADS 8u    /* threads that one uid may use at a time */
#define BROKER_THREADS      1024u /* of all uids; BROKER_USER_THREADS of them are reserved for root */
#define BROKER_USER_QUEUE   64u   /* waiting jobs of a uid before it is BUSY */
#define BROKER_ARG          "--broker" /* argv[1] of the process; argv[2] is the channel's descriptor */
#define BROKER_ARG_MAX      16
#define STARTER_ARG         "--broker-starter" /* argv[1] of a starter of a service manager */

/* Commands from the daemon. */
enum broker_op {
	BROKER_KEEP = 1, /* fds: a connection and, unless it is a listener, its peer's pidfd */
	BROKER_DROP,     /* close the connection id and its pidfd */
	BROKER_FIND,     /* mrmap_find for the client of id; if nfds is not 0, its
			  * descriptors are queued in the connection */
	BROKER_COPY,     /* serve a copier (map/copier.h); fds: /proc/PID/mem, the area */
	BROKER_PAUSE,    /* stop all threads of the client of id but tid; respond as to FIND */
	BROKER_RESUME,   /* let them continue; respond as to FIND */
	BROKER_SETTLE,   /* respond as to FIND once the outstanding copy in mem is done */
	BROKER_OWNERS,   /* open subuid(5) and passwd(5); the daemon may not */
};
struct broker_cmd {
	uint32_t op; /* enum broker_op */
	uint32_t uid;
	uint64_t id;                 /* of the connection: unique, never reused */
	uint64_t job;                /* FIND, SETTLE, PAUSE, RESUME: unique */
	uint64_t mem;                /* COPY, SETTLE: the address space, mrmap_found.mem_id */
	int32_t pid;                 /* KEEP */
	uint32_t copied;             /* FIND: the memory must not be mapped */
	uint32_t take;               /* FIND: receive a message with descriptors first */
	uint32_t nfds;               /* FIND: descriptors that the message announces */
	uint32_t tid;                /* PAUSE */
	struct uroce_reg_mr_req req; /* FIND */
};
#define BROKER_CMD_SHORT offsetof(struct broker_cmd, req) /* length of all but FIND */

/* Messages from the broker. */
enum broker_says {
	BROKER_FOUND = 1, /* response to FIND, SETTLE, PAUSE and RESUME, with the fds of found */
	BROKER_TAKEN,     /* FIND's message was received; its response follows */
	BROKER_BUSY,      /* too many jobs of uid are blocked: refuse its connections */
	BROKER_CLEAR,     /* uid is no longer BUSY */
	BROKER_OWNED,     /* response to OWNERS; fds: both files, or fewer if one is missing */
	BROKER_REFUSED,   /* its seccomp filter has refused the system call number job */
};
struct broker_msg {
	uint32_t says; /* enum broker_says */
	uint32_t uid;
	uint64_t job;
	bool taken; /* FOUND: FIND's message was received */
	struct mrmap_found found;
};

/*
 * Daemon. Forks the starter, a process that starts brokers, so that the daemon itself needs neither
 * exec nor the broker's capabilities. It ends when the daemon does. Call once, early: brokers
 * inherit the capabilities, CPUs and limits that the daemon has now. Returns the starter's socket
 * or -errno.
 */
int broker_starter_fork(void);
/*
 * Daemon. Connects to a starter that a service manager starts (broker_starter_main). Returns the
 * starter's socket or -errno.
 */
int broker_starter_connect(const char *path);
/* The program with STARTER_ARG: a starter on the socket 3, until the daemon closes it. */
void broker_starter_main(void) __attribute__((noreturn));

/*
 * Daemon. Start a broker: the running program with BROKER_ARG. starter: its socket. arg: the
 * broker's argv[3], less than BROKER_ARG_MAX bytes, not empty. *pid: the broker's pid. Returns the
 * daemon's end of the channel, non-blocking for reading, or -errno: -EPIPE if the starter has
 * ended. Needs /proc.
 */
int broker_spawn(int starter, const char *arg, pid_t *pid);

/*
 * Daemon. Send cmd with nfds descriptors, which the caller keeps. Waits, at most a second, only if
 * the broker does not run. Returns 0 or -errno.
 */
int broker_send(int chan, const struct broker_cmd *cmd, const int *fds, unsigned nfds);

/*
 * Daemon. Receive one message. fds has space for MRMAP_MAX_FDS; the caller closes the received
 * ones, which never blocks. Returns 1, 0 if the broker is gone, -EAGAIN or -errno.
 */
int broker_receive(int chan, struct broker_msg *m, int *fds, unsigned *nfds);

/* Broker process: serves chan until the daemon is gone. Does not return. */
void broker_main(int chan) __attribute__((noreturn));

#endif
