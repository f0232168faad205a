/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of the daemon: a connection and, after HELLO with a device, a context with everything it
 * owns. Ends with the connection. Control thread only, except where a comment names the worker.
 */
#ifndef CONTROL_SESSION_H
#define CONTROL_SESSION_H

#include <stddef.h>
#include <sys/queue.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/events.h"
#include "control/handler.h"
#include "control/idtab.h"
#include "control/object.h"
#include "control/throttle.h"
#include "map/mrmap.h"
#include "ipc/segment.h"
#include "ipc/server.h"
#include "qp/bind.h"

struct broker_wait;

#define SESSION_FDS  2 /* per connection: socket, pidfd */
#define CONTEXT_FDS  2 /* per context: asynchronous socket, doorbells */
#define CONTEXT_MAPS 1 /* per context: doorbells */

/* session_end.c: state of a session that ends. */
struct session_end {
	struct defer defer;
	struct worker_job job[UROCE_MAX_WORKERS];
	void (*slice)(struct defer *df); /* the next slice of a step */
	unsigned kind; /* where the next slice of a step begins: an index of the step's kinds, .. */
	uint32_t pos;  /* .. and a slot of that kind's table */
	struct mw_walk windows;           /* on its regions */
	void (*ended)(struct session *s); /* called when everything but s is freed */
};

struct session {
	TAILQ_ENTRY(session) link;     /* of daemon.sessions, or .ending */
	TAILQ_ENTRY(session) new_link; /* while in IPC_STATE_NEW */
	uint64_t deadline_ns;          /* of its HELLO */
	struct daemon *d;
	struct watch w; /* the connection */
	struct throttle throttle;
	struct ipc_peer peer;
	struct quota_user *user;  /* of peer.uid: its quota is charged */
	bool kept;                /* also held by the broker */
	struct broker_wait *wait; /* its request waits for the broker; NULL: none */
	struct ctrl_later later;  /* its request waits for workers */
	struct ipc_msg *retry; /* its request waits for resources of ending sessions; NULL: none */
	void (*retry_ready)(struct session *s); /* called to retry it; retry is NULL then */
	TAILQ_ENTRY(session) retry_link;
	uint64_t retry_until; /* ended of the last session its request waits for; 0: none yet */
	uint64_t ended;       /* in daemon.ending: its number, in the order of the list */
	enum ipc_state state;
	uint16_t version;    /* of the ABI, agreed by HELLO */
	uint64_t features;   /* agreed by HELLO */
	uint32_t id;         /* for urocectl */
	uint32_t client_pid; /* from the client, in its own namespace */
	char comm[16];
	uint32_t numa_looks; /* numa.c */
	struct device *dev;
	struct ipc_segment doorbells;
	uint32_t ndoorbells;     /* workers that have an eventfd for it */
	bool doorbells_polled;   /* by these workers */
	struct ipc_arena *arena; /* a segment takes a descriptor and a mapping of the quota, too */
	size_t ring_lacks; /* bytes of the ring that the last request had no room for; 0: it had */
	struct events_async async;
	struct idtab pds, mrs, mws, channels, cqs, srqs, qps, ah_ids;
	struct mrkept *mrkept; /* memory descriptors kept for the client; NULL: none yet */
	struct mrmap_copiers copiers;
	uint8_t token[UROCE_TOKEN_BYTES]; /* of EXPORT */
	bool exported;
	struct qp_ah_table ahs; /* by the low bits of ah_ids */
	/* By worker; only that worker uses its list, to scan all QPs after a doorbell overflow. */
	struct session_qps worker_qps[UROCE_MAX_WORKERS];
	/* owned by the worker: next QP of its scan of worker_qps; NULL: no scan */
	struct obj_qp *worker_scan[UROCE_MAX_WORKERS];
	struct session_end end; /* used once its connection is closed */
};

/*
 * Creates a session for an accepted connection; its watch calls ready. The session takes over the
 * reference user, and a connection and a new connection of its quota. Returns 0, or -errno and the
 * caller keeps them.
 */
int session_create(struct daemon *d, const struct ipc_peer *peer, struct quota_user *user,
		   void (*ready)(struct watch *w, uint32_t events));
/*
 * Ends the connection and destroys all objects of the client. Objects and s are freed when workers
 * no longer use them; resources of the connection alone are freed at once.
 */
void session_destroy(struct session *s);
/* session_end.c: frees the objects of s, possibly after the call returns, then calls ended. */
void session_end(struct session *s, void (*ended)(struct session *s));
/* session_end.c: a user has opened its first context, or lost its last one. */
void session_users_changed(struct daemon *d);
/* Returns the doorbell ring that worker w polls for s. */
static inline struct uroce_db_ring *
session_doorbell(struct session *s, uint32_t w)
{
	return (struct uroce_db_ring *)(s->doorbells.base + w * sizeof(struct uroce_db_ring));
}

/*
 * Returns true if s may use operations that affect or expose other clients: a privileged user's
 * observer.
 */
bool session_may_change(const struct session *s);
/*
 * Returns true if s may see owner's objects: it has the same user or a privileged one. Others see
 * what ss(8) shows everybody about sockets, but nothing that would help to access memory or to
 * impersonate a peer (keys, memory addresses, QPNs, PSNs).
 */
bool session_may_see(const struct session *s, const struct session *owner);
/* May memory that s registers be mapped for workers? Else it is copied. */
static inline bool
session_may_map(const struct session *s)
{
	return !s->d->cfg->copy_memory && worker_trusts(s->d->workers, qp_user_place(s->user->id));
}

ctrl_handler session_hello;

/* Sends the reply of a handler that returned CTRL_LATER. s may be freed on return. */
static inline void
session_answer_later(struct session *s, int status, const void *body)
{
	struct ctrl_later l = s->later;

	s->later.answer = NULL;
	s->later.defer = NULL;
	l.answer(s, status, body);
}

/*
 * A client's requests: receives one, replies to it, continues one that waited for the broker.
 * Control thread only.
 */

/*
 * Handles input on the connection of a session, whose watch is w. The session may be freed on
 * return.
 */
void request_ready(struct watch *w, uint32_t events);
/* Continues a request that waited for the broker, which calls it (broker_found). */
broker_found request_found;

#endif
