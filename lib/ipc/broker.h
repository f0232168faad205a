/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The broker: a small process beside the daemon that does what may block on something a client
 * holds, because not even SIGKILL ends a thread that waits for a FUSE server.
 *
 *   - Descriptors of clients. A message may carry any (a socket that lingers, a file of a FUSE
 *     server that never answers FLUSH), also one that nobody ever reads: the last close of a
 *     connection drops what is queued in it. So the broker has a duplicate of every connection and
 *     of the listening socket; the daemon's close is never the last one. It receives the messages
 *     that carry descriptors, and only memfds sealed against shrinking reach the daemon.
 *   - Looks into a client: /proc/PID/maps, map_files and mem, which may wait for its mmap_lock or
 *     for the server of its files (mrmap_find).
 *   - Accesses to memory that the daemon cannot map, for the workers (map/copier.h), by a thread
 *     for each address space.
 *
 * Its main thread does nothing that blocks; threads do the rest, at most BROKER_USER_THREADS for a
 * uid and BROKER_THREADS for all, so that one user's hanging files do not use up what others need,
 * and all users' together not what root needs. As many threads that copy may stay behind for a uid;
 * beyond that none of its memory is copied any more. It ends when the daemon does, however the
 * daemon does.
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

#define BROKER_USER_THREADS 8u         /* that a uid's files may hold at a time */
#define BROKER_THREADS      1024u      /* of all uids, as many as one may hold kept for root */
#define BROKER_USER_QUEUE   64u        /* closes of a uid that wait, beyond which it is BUSY */
#define BROKER_ARG          "--broker" /* argv[1] of the process; argv[2] is its descriptor */

/* What the daemon asks. */
enum broker_op {
	BROKER_KEEP = 1, /* fds: a connection and, unless it is a listener, its peer's pidfd */
	BROKER_DROP,     /* close what was kept under id */
	BROKER_FIND,     /* mrmap_find for the client of id; its descriptors wait in the connection
			  * if nfds is not 0 */
	BROKER_COPY,     /* fds: /proc/PID/mem and a copier's area: serve it (map/copier.h) */
	BROKER_SETTLE,   /* answer like FIND, once the copy that is under way in mem is over */
};
struct broker_cmd {
	uint32_t op; /* enum broker_op */
	uint32_t uid;
	uint64_t id;   /* of the connection: unique, never used again */
	uint64_t job;  /* FIND, SETTLE: unique */
	uint64_t mem;  /* COPY, SETTLE: the address space, mrmap_found.mem_id */
	int32_t pid;   /* KEEP */
	uint32_t take; /* FIND: a message with descriptors waits, to be received */
	uint32_t nfds; /* FIND: that it announces */
	uint32_t rsvd;
	struct uroce_reg_mr_req req; /* FIND */
};
#define BROKER_CMD_SHORT offsetof(struct broker_cmd, req) /* bytes of all but FIND */

/* What the broker tells. */
enum broker_says {
	BROKER_FOUND = 1, /* the answer to FIND and SETTLE; the fds of found */
	BROKER_TAKEN,     /* FIND's message is out of the connection, the answer follows */
	BROKER_BUSY,      /* so much of uid's hangs that its connections are to be refused */
	BROKER_CLEAR,     /* no longer */
};
struct broker_msg {
	uint32_t says; /* enum broker_says */
	uint32_t uid;
	uint64_t job;
	bool taken; /* FOUND: its message is out of the connection */
	struct mrmap_found found;
};

/*
 * Daemon. Start a broker: the running program again, with BROKER_ARG. *pid: of it. Its end of the
 * channel, non-blocking for reading, or -errno. Costs an exec; needs /proc.
 */
int broker_spawn(pid_t *pid);

/*
 * Daemon. Send cmd with nfds descriptors, which stay the caller's. Waits only if the broker does
 * not run, and then for a second at most. 0 or -errno.
 */
int broker_send(int chan, const struct broker_cmd *cmd, const int *fds, unsigned nfds);

/*
 * Daemon. Take one message; fds has room for MRMAP_MAX_FDS, and what is in it is the caller's to
 * close: it never is anything whose close blocks. 1, 0 when the broker is gone, -EAGAIN, -errno.
 */
int broker_receive(int chan, struct broker_msg *m, int *fds, unsigned *nfds);

/* The broker itself: serves chan until the daemon is gone. Does not return. */
void broker_main(int chan) __attribute__((noreturn));

#endif
