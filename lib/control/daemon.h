/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's state, owned by the control thread. Workers see the MR and QP tables and what
 * worker_call passes to them.
 *
 * The files of this folder, top down, without call cycles (test/lint/circles.py):
 *
 *   listen.c         the socket; new connections
 *   request.c        a client's requests and replies     worker_events.c  events of workers
 *   dispatch.c       operation -> handler
 *   session.c        a client: its connection and everything it owns
 *   device.c         a port and its periodic work
 *   host.c           addresses of the host's own stack
 *   set.c            changes by the operator             neigh.c, neigh_rx.c   its neighbours
 *   balance.c        moves QPs from busy workers to others
 *   numa.c           warns of memory on another node than the workers
 *   cm_channel.c, cm_abi.c, cm_query.c, cm_addr.c        commands of rdma_cm (cm.h)
 *   cm_input.c, cm_resolve.c, cm_route.c, cm_send.c      its MADs, timers, addresses
 *   obj_*.c          handlers, one file per object kind
 *   session_end.c    a client's objects end, step by step and in slices
 *   object.c         create and destroy objects          device_*.c       attributes and addresses
 *   sr_peer.c        agreement with peers on selective repeat
 *   peer_probe.c     asks a peer's daemon to answer, for urocectl doctor
 *   slow_path.c      datagrams for QP1, in and out
 *   fault_log.c      logs why QPs failed, names for these lines
 *   log_event.c      log lines with fields
 *   qp_history.c        records of destroyed QPs
 *   neigh.c          requests for neighbours' MACs
 *   broker.c         the process that may block: holds connections, looks up memory
 *   throttle.c       throttles users whose requests take long
 *   events.c         channels and asynchronous events of clients
 *   ring.c           memory of queues                    quota.c          limits of each user
 *   conn_key.c         ownership of (sgid, dgid, dest_qpn) by uids
 *   defer.c          work that waits for workers, or for its turn of the loop
 *   daemon.c, loop.c, idtab.c, qpn.c, devspec.c          helpers of all the above
 */
#ifndef CONTROL_DAEMON_H
#define CONTROL_DAEMON_H

#include <stdint.h>
#include <sys/queue.h>
#include "control/broker.h"
#include "control/defer.h"
#include "control/idtab.h"
#include "ipc/server.h"
#include "control/qp_history.h"
#include "control/loop.h"
#include "mem/mr.h"
#include "control/config.h"
#include "control/peer_probe.h"
#include "qp/qp.h"
#include "control/qpn.h"
#include "control/quota.h"
#include "control/conn_key.h"
#include "worker/worker.h"

struct cm_service;
struct control_program;
struct device;
struct session;
struct slow_datagram;

TAILQ_HEAD(session_list, session);
TAILQ_HEAD(throttle_list, throttle);
SLIST_HEAD(pd_list, pd_id);

/* Times of throttle.c. */
struct throttle_clock {
	uint64_t began_ns;        /* the request that is executed; daemon_now_ns */
	uint64_t read_ns, cpu_ns; /* the last reading of the control thread's CPU clock */
};

struct balance;

struct daemon {
	const struct control_config *cfg;
	const struct control_program *program;
	struct loop loop;
	struct watch signals, listener, worker_events;
	struct ipc_server server;
	struct broker broker;

	struct rte_mempool *pool;
	struct mr_table mrs;
	struct qp_table qps;
	struct worker_set *workers;
	uint32_t nworkers;
	bool huge;         /* huge pages exist and may be used */
	bool shared_cores; /* clients should yield when idle */

	struct device *dev[UROCE_MAX_DEVICES];
	uint32_t ndevs;

	struct quota quota;
	struct session_list sessions;
	struct session_list new_sessions; /* connections without HELLO, oldest first */
	struct session_list ending;   /* connection closed, objects not freed yet (session_end.c) */
	uint64_t ended;               /* sessions whose connection was closed so far */
	struct session_list retrying; /* their requests wait for resources of ending sessions */
	struct defer_list deferred;   /* wait for workers */
	struct defer_list turns;      /* wait for their turn of the loop (defer_turn) */
	struct watch turn;
	struct { /* the consumer of QP1's datagrams (slow_path.h); fn NULL: none */
		bool (*fn)(void *ctx, const struct slow_datagram *g);
		void *ctx;
	} qp1;
	struct peer_probes probes;    /* questions to peers' daemons */
	struct cm_service *ucma;      /* the connection manager (cm.h); NULL: none */
	uint64_t mw_walks, mw_hidden; /* counts so far of walks over windows, and of hidden ones */
	struct defer lost;       /* regions whose memory failed and whose windows must be unbound */
	uint64_t lost_hidden;    /* mw_hidden, when these windows were hidden */
	struct pd_list lost_pds; /* of these regions; a reference each */
	struct watch hello_timer;
	struct throttle_list throttled; /* connections of throttled users (throttle.c) */
	struct watch throttle_timer;
	uint64_t throttle_at_ns; /* next expiry of throttle_timer */
	struct throttle_clock throttle_clock;
	uint32_t next_session;
	int spare_fd; /* closed to get a descriptor for turning a connection away */
	struct qpn_alloc qpns;
	struct conn_key_table conn_keys;        /* of connected QPs */
	uint32_t next_worker;                   /* worker of the next QP */
	struct balance *balance;                /* balance.h; NULL: off */
	uint64_t balance_rounds, balance_moves; /* so far */
	uint64_t mr_failures;   /* memory failures under regions, at the last check */
	struct idtab cqs;       /* struct obj_cq by cq.id */
	struct idtab pds;       /* struct obj_pd by id */
	struct qp_history kept; /* destroyed QPs, for the operator */
};

/*
 * Creates the tables. cfg and nworkers are set, the rest of *d is zero. Returns 0 or -errno. In
 * both cases daemon_tables_close frees what was created.
 */
int daemon_tables_open(struct daemon *d);
/* Frees the tables. No session and no worker may remain. */
void daemon_tables_close(struct daemon *d);

/*
 * The daemon's functions for struct worker_params. Called on the worker: qp is in its list of the
 * session's QPs from now on, or no longer.
 */
worker_qp_fn qp_comes, qp_leaves;

/* Returns CLOCK_MONOTONIC in nanoseconds. */
uint64_t daemon_now_ns(void);

/*
 * Gives mr an unpredictable key and makes it visible to workers; mr_table_del removes it. Returns 0
 * or -ENOMEM if the table is full.
 */
int daemon_mr_add(struct daemon *d, struct mr *mr);

/* Returns unpredictable bits. */
uint32_t random_u32(void);

/* Returns the smallest power of two that is at least n. n is at most 2^31. */
static inline uint32_t
pow2_at_least(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/* Returns the device with this ethdev port or this name; NULL: none. */
struct device *daemon_device(const struct daemon *d, uint16_t port);
struct device *daemon_device_named(const struct daemon *d, const char *name);

/* The socket that clients connect to; accepts and refuses connections. Control thread only. */

/* Starts to accept connections. Returns 0 or -errno, which is logged. */
int listen_start(struct daemon *d);
/* Stops accepting and ends all connections. */
void listen_stop(struct daemon *d);

/*
 * Events from workers: completions that clients wait for, asynchronous events, frames of
 * neighbours. Control thread only.
 */

/* Starts to watch the workers' event ring. Returns 0 or -errno. */
int worker_events_start(struct daemon *d);
/*
 * Waits for events, at most wait_ns, and handles one batch. Used while the daemon ends: neither
 * clients nor timers get a turn meanwhile.
 */
void worker_events_wait(struct daemon *d, uint64_t wait_ns);
/* Takes the remaining events and stops watching the ring. All clients are gone. */
void worker_events_stop(struct daemon *d);

#endif
