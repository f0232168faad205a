/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of the daemon: a connection and, after HELLO with a device, a context with everything it
 * owns. Ends with the connection. Objects are known to the client by handles of this context and to
 * nobody else's. Control thread only, except where a comment names the worker.
 */
#ifndef CONTROL_SESSION_H
#define CONTROL_SESSION_H

#include <sys/queue.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/events.h"
#include "control/handler.h"
#include "control/idtab.h"
#include "ipc/segment.h"
#include "ipc/server.h"

struct broker_wait;
struct mrmap;
struct mrmap_found;

/* A PD's number, which its QPs and regions carry: of the PD and of those that imported it. */
struct pd_id {
	uint32_t id; /* unique in the daemon */
	uint32_t users;
};

struct obj_pd {
	struct session *s;
	uint32_t handle;
	uint32_t id; /* shared->id */
	struct pd_id *shared;
	uint32_t refs; /* QPs, MRs, MWs, SRQs and AHs */
};

/* What is taken from the quota of the session's user for a mapping. */
struct mr_cost {
	uint64_t bytes; /* QUOTA_REG_MEM */
	uint32_t fds;   /* QUOTA_FDS */
	uint32_t maps;  /* QUOTA_MAPS */
};

struct obj_mr {
	struct mr mr;
	struct session *s;
	struct obj_pd *pd;
	struct mrmap *map;
	struct mr_cost cost; /* of map */
	uint32_t handle;
	bool lost;  /* its memory failed: hidden, kept for its owner to deregister or change */
	bool going; /* its session ends: hidden, to be freed once no window is bound to it */
};

struct obj_channel {
	struct events_channel ch;
	struct session *s;
	uint32_t handle;
	uint32_t refs; /* CQs */
};

struct obj_cq {
	struct cq cq;
	struct session *s;
	struct obj_channel *channel; /* NULL: none */
	struct ipc_extent ext;
	struct ipc_extent old; /* ring before the last resize, which the client may still read */
	uint32_t handle;
	uint32_t refs;  /* queues of QPs */
	int32_t worker; /* the one whose QPs complete here; -1: none yet */
	bool waiting;   /* on its channel's list */
	TAILQ_ENTRY(obj_cq) wait;
};

struct obj_mw {
	struct mr mr;
	struct session *s;
	struct obj_pd *pd;
	uint32_t handle;
	bool hidden;    /* its session ends */
	bool releasing; /* within mw_release: hidden until it is unbound */
};

struct obj_srq {
	struct srq srq;
	struct session *s;
	struct obj_pd *pd;
	struct ipc_extent ext;
	uint32_t handle;
	uint32_t refs; /* QPs */
};

#define AH_MAX 65536 /* address handles of a context; a power of two */
struct obj_ah {
	struct qp_ah *ah; /* what workers see */
	struct session *s;
	struct obj_pd *pd;
	uint32_t handle;
	uint8_t sgid_index;
	uint8_t hop[16]; /* neighbour that the path goes through; zero: none */
};

#define MCAST_MAX_GROUPS 64 /* that a QP listens to */
struct obj_member {         /* a QP in a multicast group */
	struct obj_qp *q;
	uint8_t gid[16];
	TAILQ_ENTRY(obj_member) dev_link;
};

LIST_HEAD(session_qps, obj_qp);

struct obj_qp {
	struct qp *qp;
	struct session *s;
	struct obj_pd *pd;
	struct obj_cq *send_cq, *recv_cq;
	struct obj_srq *srq; /* NULL: rq is its own */
	struct ipc_extent sq, rq;
	uint32_t handle;
	/*
	 * Neighbours that the path and the alternate one go through, as of the last modify; zero:
	 * none. A QP that has migrated since goes by alt_hop.
	 */
	uint8_t hop[16], alt_hop[16];
	/* Claims on the addresses of both paths, in no order; NULL: none. */
	struct triple *triple[2];
	uint32_t nmembers;   /* multicast groups it is in */
	uint32_t wrong_keys; /* of its peer, at the last look (guess.c) */
	TAILQ_ENTRY(obj_qp) dev_link;
	LIST_ENTRY(obj_qp) worker_link;
};

struct session {
	TAILQ_ENTRY(session) link;
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
	enum ipc_state state;
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
};

/*
 * Ring memory of the context, which counts as its user's. 0, or -errno of ipc_arena_alloc: -ENOMEM
 * beyond a limit.
 */
int session_ring_alloc(struct session *s, size_t bytes, struct ipc_extent *ext);

/* Take the connections that wait on the listening socket. 0 or -errno. */
int session_listen(struct daemon *d);
void session_unlisten(struct daemon *d);
/*
 * Go on with a request that waited for the broker: found is what it asked for, fds are what found
 * names and stay the caller's. -EPROTO in it: the connection cannot go on. refusal: not 0: a
 * positive errno, the answer.
 */
void session_found(struct session *s, struct ipc_msg *m, int refusal,
		   const struct mrmap_found *found, const int *fds);
/* End the connection and destroy everything the client owns. */
void session_destroy(struct session *s);

/* rest.c. 0 or -errno. */
int rest_open(struct daemon *d);
void rest_close(struct daemon *d);
/* The session's user has to wait: the connection is not listened to until then. */
bool session_rests(struct session *s);
/* The session ends: it rests no more. */
void session_rest_end(struct session *s);
/* A request of u is done, before which rest_clock_ns said this. */
void rest_after(struct quota_user *u, uint64_t began_ns);
uint64_t rest_clock_ns(void);

/* request.c: the connection has something to read. */
void session_ready(struct watch *w, uint32_t events);

/* dispatch.c: run the handler of op. 0 and a reply, or a positive errno. */
int dispatch(struct session *s, uint16_t op, const struct ctrl_req *req, struct ctrl_rep *rep);

/* Handlers. */
ctrl_handler session_hello;
ctrl_handler pd_alloc, pd_dealloc;
ctrl_handler mr_reg, mr_rereg, mr_dereg;
ctrl_handler channel_create;
ctrl_handler mw_alloc, mw_dealloc;
ctrl_handler cq_create, cq_resize_obj, cq_destroy;
ctrl_handler srq_create, srq_modify, srq_resize, srq_query, srq_destroy;
ctrl_handler ah_create, ah_destroy;
ctrl_handler mcast_attach, mcast_detach;
ctrl_handler qp_obj_create, qp_obj_modify, qp_obj_query, qp_obj_destroy;
ctrl_handler context_export, pd_import, mr_import;
ctrl_handler set_request;

/* May it do what hurts or shows other clients? Who looks only may not. */
bool session_may_change(const struct session *s);
/*
 * May s see what owner has? Its own user and the privileged ones may. Others see what ss(8) shows
 * everybody of sockets, and none of what it takes to reach memory or to pose as a peer: keys,
 * addresses of memory, QPNs, PSNs.
 */
bool session_may_see(const struct session *s, const struct session *owner);

/* A PD of s with the number of another, or with a new one if shared is NULL. 0 or ENOMEM. */
int pd_make(struct session *s, struct pd_id *shared, uint32_t *handle);

/* The worker that owns q. */
static inline struct worker *
obj_qp_worker(const struct obj_qp *q)
{
	return worker_get(q->s->d->workers, q->qp->worker);
}

/*
 * Everything of a kind, at the end of a session. QPs leave their workers and all tables, MRs their
 * table; then the caller has all workers pass a quiescent point; then _free gives back the rest.
 */
void qp_detach_all(struct session *s);
void mr_detach_all(struct session *s);
void mw_detach_all(struct session *s);
void qp_free_all(struct session *s);
void mw_free_all(struct session *s);
void mr_free_all(struct session *s);
/* After the regions: the descriptors that the session keeps for them. */
void mr_kept_free(struct session *s);
/* The session's user is known: its memory may be copied. */
void mr_copies_open(struct session *s);
/*
 * DEREG_MR of this region: hide it. Not 0: wait before it is freed, for the copy that is under way
 * in this address space.
 */
uint64_t mr_must_settle(struct session *s, uint32_t handle);
void ah_free_all(struct session *s);
void srq_free_all(struct session *s);
void cq_free_all(struct session *s);
void channel_free_all(struct session *s);
void pd_free_all(struct session *s);

/* The CQ of an event failed: its QPs go to the error state (EVT-08). */
void cq_failed(struct obj_cq *cq);
/* The same of an SRQ (EVT-09). */
void srq_failed(struct obj_srq *srq);

/* The QP is gone, or as new: others may have its triples. */
void qp_triples_release(struct obj_qp *q);

/* Neighbour ip of dev has this MAC now: QPs that go through it are told. */
void qp_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6]);

/* The same for address handles, and for UD QPs that wait for one. */
void ah_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6]);
/* GID index of dev was taken away: no QP migrates to it (EVT-06). */
void qp_gid_gone(struct device *dev, uint32_t index);
/* The QP leaves every group. */
void mcast_leave(struct obj_qp *q);
/* The context's table of address handles. 0 or -ENOMEM. */
int ah_table_open(struct session *s);

/* Give mr an unpredictable key and make it visible to workers. 0 or -ENOMEM: the table is full. */
int mr_key_add(struct daemon *d, struct mr *mr);

/*
 * Unbind every window, of whatever session, that is bound to a region which is going or lost. Those
 * regions are hidden, and every worker was quiescent since: no window becomes bound to one any
 * more. Waits until workers have let go of the windows. A region is unmapped after this only.
 */
void mw_release(struct daemon *d);

/* Give users back what they paid for regions that have been unmapped by now. */
void mr_debts_settle(void);

/* Regions whose memory failed under them (a file truncated) lose their keys and windows. */
void mr_sweep_lost(struct daemon *d);

/* guess.c, some times a second: tell of peers that try R_Keys until one is right (MEM-01). */
void guess_look(struct device *dev);

#endif
