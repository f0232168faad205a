/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's state, all of it owned by the control thread. Workers see the MR and QP tables, and
 * what they are handed by worker_call.
 *
 * The files of this folder, from above; none calls one that calls it back (test/lint/circles.py):
 *
 *   listen.c         the socket, connections that come
 *   request.c        a client's requests, in and out     worker_events.c  what workers report
 *   dispatch.c       operation -> handler
 *   session.c        a client: its connection and everything it owns
 *   device.c         a port and what is to be done for it now and then
 *   host.c           addresses that are the kernel's
 *   set.c            what an operator changes of it      guess.c          peers that guess keys
 *   neigh_rx.c       what its neighbours answer
 *   obj_*.c          handlers, one file an object
 *   session_end.c    a client's objects end, step by step
 *   object.c         how objects come and go             device_*.c       what is known of a device
 *   slow_path.c      datagrams for QP1, in and out
 *   neigh.c          a device's neighbours are asked
 *   broker.c         connections are kept by a process that may block, lookups are made there
 *   rest.c           users whose requests take long wait in between
 *   events.c         channels and asynchronous events of clients
 *   ring.c           memory of queues                    quota.c          what each user may hold
 *   triple.c         who speaks from which address to which QP
 *   defer.c          what waits until no worker uses it
 *   daemon.c, loop.c, idtab.c, qpn.c, devspec.c          what all of them stand on
 */
#ifndef CONTROL_DAEMON_H
#define CONTROL_DAEMON_H

#include <stdint.h>
#include <sys/queue.h>
#include "control/broker.h"
#include "control/defer.h"
#include "control/idtab.h"
#include "ipc/server.h"
#include "control/loop.h"
#include "mem/mr.h"
#include "control/config.h"
#include "qp/qp.h"
#include "control/qpn.h"
#include "control/quota.h"
#include "control/triple.h"
#include "worker/worker.h"

struct control_program;
struct device;
struct session;
struct slow_datagram;

TAILQ_HEAD(session_list, session);

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
	uint32_t nworkers; /* a power of two */
	bool huge;         /* there are huge pages, and they may be used */
	bool shared_cores; /* clients should yield when they have nothing to do */

	struct device *dev[UROCE_MAX_DEVICES];
	uint32_t ndevs;

	struct quota quota;
	struct session_list sessions;
	struct session_list new_sessions; /* without HELLO, the oldest first */
	struct session_list ending;       /* connection closed, objects not freed (session_end.c) */
	struct session_list retrying;     /* requests that wait for what those give back */
	struct defer_list deferred;
	struct { /* the consumer of QP1's datagrams (slow_path.h); fn NULL: none */
		void (*fn)(void *ctx, const struct slow_datagram *g);
		void *ctx;
	} qp1;
	uint64_t mw_releases; /* so far (mw_release_begin) */
	struct defer lost;    /* regions whose memory failed: their windows wait to be unbound .. */
	uint64_t lost_release; /* .. in this release */
	struct watch hello_timer;
	struct session_list resting; /* whose users wait (rest.c) */
	struct watch rest_timer;
	void (*rest_broken)(struct session *s); /* of rest_open */
	uint64_t rest_at_ns;                    /* when it fires next */
	uint32_t next_session;
	int spare_fd; /* given up when there is no other, to turn a connection away */
	struct qpn_alloc qpns;
	struct triple_table triples; /* of connected QPs */
	uint32_t next_worker;        /* of the next QP */
	uint64_t mr_failures;        /* of memory under regions, at the last look */
	struct idtab cqs;            /* struct obj_cq by cq.id */
	struct idtab pds;            /* struct obj_pd by id */
};

/*
 * Make the tables: cfg and nworkers are set, the rest of *d is zero. 0 or -errno; in any case
 * daemon_tables_close gives back what it made.
 */
int daemon_tables_open(struct daemon *d);
/* Every session and every worker is gone. */
void daemon_tables_close(struct daemon *d);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t daemon_now_ns(void);

/*
 * Give mr an unpredictable key and make it visible to workers; mr_table_del takes it out again. 0
 * or -ENOMEM: the table is full.
 */
int daemon_mr_add(struct daemon *d, struct mr *mr);

/* Unpredictable bits. */
uint32_t random_u32(void);

/* The smallest power of two that is n or more, n at most 2^31. */
static inline uint32_t
pow2_at_least(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/* The device whose ethdev port is port, or of that name; NULL: none. */
struct device *daemon_device(const struct daemon *d, uint16_t port);
struct device *daemon_device_named(const struct daemon *d, const char *name);

#endif
