/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's side of its broker (ipc/broker.h). The broker holds a duplicate of every connection,
 * so that the daemon's close is never the last one. It also looks up the memory of clients. A
 * request waits for the result for a limited time, without blocking the control thread. A lost
 * broker is restarted. Control thread only.
 */
#ifndef CONTROL_BROKER_H
#define CONTROL_BROKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "ipc/broker.h"
#include "ipc/server.h"
#include "control/loop.h"

struct daemon;
struct session;

#define BROKER_LISTENER 0 /* id of the listening socket; sessions have other ids */

/* A request that waits for the broker. */
struct broker_wait {
	TAILQ_ENTRY(broker_wait) link;
	struct session *s;
	uint64_t job;
	uint64_t until_ns;
	bool take;   /* the broker must receive its message and has not yet */
	int refusal; /* positive errno to reply in any case; 0: none */
	struct ipc_msg m;
};

/*
 * Called when a request no longer waits for the broker. found: the result; fds: the descriptors
 * that found refers to, owned by the caller. A found of -EPROTO means that the connection must end.
 * refusal: positive errno to reply, or 0.
 */
typedef void broker_found(struct session *s, struct ipc_msg *m, int refusal,
			  const struct mrmap_found *found, const int *fds);

/* Called when the broker's seccomp filter has refused a system call. */
typedef void broker_refused(unsigned call);

struct broker {
	broker_found *found; /* passed to broker_open */
	broker_refused *refused;
	struct watch w;     /* the channel; fd -1: none */
	struct watch timer; /* for the oldest waiting request, and the start of a broker */
	pid_t pid;
	int starter;     /* the starter's socket, or -1 */
	const char *arg; /* of brokers */
	uint64_t last_job;
	uint64_t spawned_ns;
	TAILQ_HEAD(, broker_wait) waits; /* oldest first */
	bool owners_asked;               /* for subuid(5), without a response yet */
	uint32_t *busy;                  /* uids whose new connections are refused */
	uint32_t nbusy;
	struct broker_left {
		uint64_t id;
		uint32_t uid;
		int sock;
	} * left; /* connections that ended without a broker: for the next one to close */
	uint32_t nleft;
};

/*
 * Starts the starter and the broker. Called before large allocations and other threads. arg: an
 * argument for brokers. Returns 0 or -errno.
 */
int broker_open(struct daemon *d, broker_found *found, broker_refused *refused, const char *arg);
void broker_close(struct daemon *d);

/*
 * Makes the broker hold a connection (or the listening socket: BROKER_LISTENER, no pidfd) under id
 * until broker_drop. Repeated calls do no harm. Returns false if there is no broker.
 */
bool broker_keep(struct daemon *d, uint64_t id, const struct ipc_peer *peer);

/* Makes the broker close its descriptors of id. Returns false if there is no broker. */
bool broker_release(struct daemon *d, uint64_t id, uint32_t uid);

/*
 * Ends the connection. The peer notices at once, and peer->sock is closed without waiting for the
 * messages queued in it. kept: result of broker_keep for this id.
 */
void broker_drop(struct daemon *d, uint64_t id, const struct ipc_peer *peer, bool kept);

/* Returns true if uid gets no new connection because too many of its descriptors hang. */
bool broker_refuses(const struct daemon *d, uint32_t uid);

/*
 * Makes the broker look up the memory that m describes (REG_MR, REREG_MR). broker.found continues
 * the request. fds: m carries descriptors that are still queued in the connection, and the broker
 * receives them; other operations call this function only for that. refusal: positive errno to
 * reply to a message that must be refused; 0: none. Returns 0 or -errno.
 */
int broker_find(struct session *s, const struct ipc_msg *m, bool fds, int refusal);

/* Serves copies of s's memory (struct mrmap_copiers; ctx: the session). Returns 0 or -errno. */
int broker_copy(void *ctx, uint64_t id, int mem, int shared);

/*
 * Continues m through broker.found once the outstanding copy in the address space mem has ended, or
 * with -ETIMEDOUT. Returns 0 or -errno.
 */
int broker_settle(struct session *s, const struct ipc_msg *m, uint64_t mem);

/*
 * Has the broker stop the threads of s's process, or let them continue (PAUSE_THREADS,
 * RESUME_THREADS), and continues m through broker.found. Returns 0 or -errno.
 */
int broker_pause(struct session *s, const struct ipc_msg *m);

/* Reads subuid(5), and lets the broker open it from now on (quota.ask_owners). */
void broker_reads_owners(struct daemon *d);

/* Drops the waiting request of a session that ends. */
void broker_forget(struct session *s);

#endif
