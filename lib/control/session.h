/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of the daemon: a connection and, after HELLO with a device, a context with everything it
 * owns. Ends with the connection. Control thread only, except where a comment names the worker.
 */
#ifndef CONTROL_SESSION_H
#define CONTROL_SESSION_H

#include <sys/queue.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/events.h"
#include "control/handler.h"
#include "control/idtab.h"
#include "control/object.h"
#include "map/mrmap.h"
#include "ipc/segment.h"
#include "ipc/server.h"

struct broker_wait;

#define SESSION_FDS  2 /* of a connection: its socket, its pidfd */
#define CONTEXT_FDS  2 /* of a context by itself: its asynchronous socket, its doorbells .. */
#define CONTEXT_MAPS 1 /* of a context by itself: its doorbells */

/* session_end.c: what a session that ends waits for. */
struct session_end {
	struct defer defer;
	struct worker_job job[UROCE_MAX_WORKERS];
	uint64_t release;                 /* of windows on its regions: mw_release_begin */
	void (*ended)(struct session *s); /* everything is freed but s itself */
};

struct session {
	TAILQ_ENTRY(session) link;     /* of daemon.sessions, or .ending */
	TAILQ_ENTRY(session) new_link; /* as long as it is IPC_STATE_NEW */
	uint64_t deadline_ns;          /* of its HELLO */
	struct daemon *d;
	struct watch w; /* the connection */
	TAILQ_ENTRY(session) rest_link;
	bool resting; /* not listened to: rest.c */
	struct ipc_peer peer;
	struct quota_user *user;  /* of peer.uid: who pays for what the client owns */
	bool kept;                /* by the broker, too */
	struct broker_wait *wait; /* its request waits for the broker; else NULL */
	struct ctrl_later later;  /* its request waits for workers */
	struct ipc_msg *retry;    /* .. or for what other sessions give back; else NULL */
	void (*retry_ready)(struct session *s); /* it may be tried again; retry is NULL then */
	TAILQ_ENTRY(session) retry_link;
	enum ipc_state state;
	uint16_t version;    /* of the ABI, agreed by HELLO */
	uint64_t features;   /* agreed by HELLO */
	uint32_t id;         /* for urocectl */
	uint32_t client_pid; /* as the client says, in its own namespace */
	char comm[16];
	struct device *dev;
	struct ipc_segment doorbells;
	uint32_t ndoorbells; /* that workers watch */
	struct ipc_arena *arena;
	size_t arena_bytes;  /* taken from the quota for it */
	uint32_t arena_segs; /* its segments: a descriptor and a mapping of the quota each */
	struct events_async async;
	struct idtab pds, mrs, mws, channels, cqs, srqs, qps, ah_ids;
	struct mrkept *mrkept; /* what the client adopted memory into; NULL: nothing yet */
	struct mrmap_copiers copiers;
	uint8_t token[UROCE_TOKEN_BYTES]; /* of EXPORT */
	bool exported;
	struct qp_ah_table ahs; /* by the low bits of ah_ids */
	/* By worker, which alone touches its list: to look at all QPs after a doorbell overflow. */
	struct session_qps worker_qps[UROCE_MAX_WORKERS];
	/* the worker's: where its look at all of worker_qps goes on; NULL: nowhere */
	struct obj_qp *worker_scan[UROCE_MAX_WORKERS];
	struct session_end end; /* once its connection is closed */
};

/*
 * A connection that was accepted becomes a session, whose watch calls ready. user, its reference,
 * and a connection and a new one of its quota become the session's. 0 or -errno: they stay the
 * caller's.
 */
int session_create(struct daemon *d, const struct ipc_peer *peer, struct quota_user *user,
		   void (*ready)(struct watch *w, uint32_t events));
/*
 * End the connection and destroy everything the client owns. Its objects, and s, end when workers
 * have let go of them; what belongs to the connection alone is given back at once.
 */
void session_destroy(struct session *s);
/* session_end.c: frees what the context of s owns, which may outlast the call, then calls ended. */
void session_end(struct session *s, void (*ended)(struct session *s));
/* The doorbell ring that worker w watches for s. */
static inline struct uroce_db_ring *
session_doorbell(struct session *s, uint32_t w)
{
	return (struct uroce_db_ring *)(s->doorbells.base + w * sizeof(struct uroce_db_ring));
}

/* May it do what hurts or shows other clients? Who looks only may not. */
bool session_may_change(const struct session *s);
/*
 * May s see what owner has? Its own user and the privileged ones may. Others see what ss(8) shows
 * everybody of sockets, and none of what it takes to reach memory or to pose as a peer: keys,
 * addresses of memory, QPNs, PSNs.
 */
bool session_may_see(const struct session *s, const struct session *owner);

ctrl_handler session_hello;

/* The answer of a handler that returned CTRL_LATER. s may be gone on return. */
static inline void
session_answer_later(struct session *s, int status, const void *body)
{
	struct ctrl_later l = s->later;

	s->later.answer = NULL;
	s->later.defer = NULL;
	l.answer(s, status, body);
}

#endif
