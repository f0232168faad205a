/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of the daemon: a connection and, after HELLO with a device, a context with everything it
 * owns. Ends with the connection. Objects are known to the client by handles of this context and to
 * nobody else's. Control thread only, except where a comment names the worker.
 */
#ifndef UROCED_SESSION_H
#define UROCED_SESSION_H

#include <sys/queue.h>
#include "daemon.h"
#include "device.h"
#include "events.h"
#include "idtab.h"
#include "ipc/segment.h"
#include "ipc/server.h"

struct mrmap;

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

struct obj_mr {
	struct mr mr;
	struct session *s;
	struct obj_pd *pd;
	struct mrmap *map;
	uint32_t handle;
	bool lost; /* its memory failed: out of the key table, kept for its owner to deregister */
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
	uint32_t nmembers; /* multicast groups it is in */
	TAILQ_ENTRY(obj_qp) dev_link;
	LIST_ENTRY(obj_qp) worker_link;
};

struct session {
	TAILQ_ENTRY(session) link;
	struct daemon *d;
	struct watch w; /* the connection */
	struct ipc_peer peer;
	enum ipc_state state;
	uint32_t id;         /* for urocectl */
	uint32_t client_pid; /* as the client says, in its own namespace */
	char comm[16];
	struct device *dev;
	struct ipc_segment doorbells;
	uint32_t ndoorbells; /* that workers watch */
	struct ipc_arena *arena;
	struct events_async async;
	struct idtab pds, mrs, mws, channels, cqs, srqs, qps, ah_ids;
	uint8_t token[UROCE_TOKEN_BYTES]; /* of EXPORT */
	bool exported;
	struct qp_ah_table ahs; /* by the low bits of ah_ids */
	/* By worker, which alone touches its list: to look at all QPs after a doorbell overflow. */
	struct session_qps worker_qps[UROCE_MAX_WORKERS];
};

/* A request as its handler sees it, and the reply it fills in. */
struct ctrl_req {
	const void *body; /* of the operation's size: checked */
	const int *fds;
	unsigned nfds;
};
#define CTRL_REP_FDS (UROCE_MAX_WORKERS + 2)
struct ctrl_rep {
	void *body; /* of the operation's size, zeroed */
	int fds[CTRL_REP_FDS];
	bool close_fd[CTRL_REP_FDS]; /* not needed once it was sent */
	unsigned nfds;
};
void ctrl_rep_fd(struct ctrl_rep *rep, int fd, bool close_it);
/* Where a ring lies, with its segment's descriptor if the client has not got it yet. */
void ctrl_rep_ring(struct ctrl_rep *rep, struct session *s, const struct ipc_extent *ext,
		   uint32_t entries, uint32_t stride, struct uroce_ring_loc *loc);

/* Take the connections that wait on the listening socket. 0 or -errno. */
int session_listen(struct daemon *d);
void session_unlisten(struct daemon *d);
/* End the connection and destroy everything the client owns. */
void session_destroy(struct session *s);

/* dispatch.c: run the handler of op. 0 and a reply, or a positive errno. */
int dispatch(struct session *s, uint16_t op, const struct ctrl_req *req, struct ctrl_rep *rep);

/* Handlers: 0, or a positive errno and nothing changed. */
typedef int ctrl_handler(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep);
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
ctrl_handler show, impair, capture, set;

/* May it do what hurts or shows other clients? Who looks only may not. */
bool session_may_change(const struct session *s);

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
void ah_free_all(struct session *s);
void srq_free_all(struct session *s);
void cq_free_all(struct session *s);
void channel_free_all(struct session *s);
void pd_free_all(struct session *s);

/* The CQ of an event failed: its QPs go to the error state (EVT-08). */
void cq_failed(struct obj_cq *cq);
/* The same of an SRQ (EVT-09). */
void srq_failed(struct obj_srq *srq);

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

/* The smallest power of two that is n or more, n at most 2^31. */
static inline uint32_t
pow2_at_least(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/* Regions whose memory failed under them (a file truncated) lose their keys. */
void mr_sweep_lost(struct daemon *d);

/* Unpredictable bits. */
uint32_t random_u32(void);

#endif
