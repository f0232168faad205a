/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's use of its broker (ipc/broker.h). The broker holds a duplicate of every connection,
 * so that the daemon's close is never the last one. Look-ups in a client run there, and the
 * client's request waits for the result, for a limited time and without the control thread. A
 * broker that is lost is started again. Control thread only.
 */
#ifndef CONTROL_BROKER_H
#define CONTROL_BROKER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "ipc/broker.h"
#include "ipc/server.h"
#include "control/loop.h"

struct daemon;
struct session;

#define BROKER_LISTENER 0 /* id of the listening socket; sessions have others */

/* A request that waits for the broker. */
struct broker_wait {
	TAILQ_ENTRY(broker_wait) link;
	struct session *s;
	uint64_t job;
	uint64_t until_ns;
	bool take;   /* its message is the broker's to receive, and was not yet */
	int refusal; /* errno to answer in any case; 0: none */
	struct ipc_msg m;
};

/*
 * A request is over that waited for the broker. found is what it asked for, fds are what found
 * names and stay the caller's. -EPROTO in it: the connection cannot go on. refusal: not 0: a
 * positive errno, the answer.
 */
typedef void broker_found(struct session *s, struct ipc_msg *m, int refusal,
			  const struct mrmap_found *found, const int *fds);

struct broker {
	broker_found *found; /* of broker_open */
	struct watch w;      /* the channel; fd -1: there is none */
	struct watch timer;  /* for the request that has waited longest */
	pid_t pid;
	cpu_set_t cpus; /* it may run on: the daemon's, before EAL binds its threads */
	uint64_t last_job;
	uint64_t spawned_ns;
	TAILQ_HEAD(, broker_wait) waits; /* oldest first */
	uint32_t *busy;                  /* uids whose connections are refused */
	uint32_t nbusy;
};

/* Before anything else that costs memory or threads. 0 or -errno. */
int broker_open(struct daemon *d, broker_found *found);
void broker_close(struct daemon *d);

/*
 * Keep a connection (or the listening socket: BROKER_LISTENER, no pidfd) under id until
 * broker_drop. Again is harmless. False: there is no broker.
 */
bool broker_keep(struct daemon *d, uint64_t id, const struct ipc_peer *peer);

/* Have the broker close what it holds under id. False: there is no broker. */
bool broker_release(struct daemon *d, uint64_t id, uint32_t uid);

/*
 * The connection ends: the peer sees it at once, and peer->sock is closed without waiting for what
 * is queued in it. kept: what broker_keep said, with this id.
 */
void broker_drop(struct daemon *d, uint64_t id, const struct ipc_peer *peer, bool kept);

/* So many of uid's descriptors hang that it gets no further connection. */
bool broker_refuses(const struct daemon *d, uint32_t uid);

/*
 * Have the memory that m asks for looked up (REG_MR, REREG_MR), and go on with broker.found. fds:
 * m carries descriptors and is still in the connection, which the broker empties of it; other
 * operations come here for this alone. refusal: a positive errno, the answer to a message that is
 * not to be answered otherwise; 0: none. 0, or -errno.
 */
int broker_find(struct session *s, const struct ipc_msg *m, bool fds, int refusal);

/* Have copied memory of s served (struct mrmap_copiers; ctx: the session). 0 or -errno. */
int broker_copy(void *ctx, uint64_t id, int mem, int shared);

/*
 * Go on with m, by broker.found, once the copy that is under way in the address space mem is over,
 * or with -ETIMEDOUT. 0, or -errno.
 */
int broker_settle(struct session *s, const struct ipc_msg *m, uint64_t mem);

/* The session ends: nobody waits for its answer any more. */
void broker_forget(struct session *s);

#endif
