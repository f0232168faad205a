/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects of a context. Only their own client knows them, by handles of this context. Control
 * thread only, except where a comment names the worker.
 */
#ifndef CONTROL_OBJECT_H
#define CONTROL_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "control/defer.h"
#include "control/events.h"
#include "control/idtab.h"
#include "control/quota.h"
#include "control/conn_key.h"
#include "cq/cq.h"
#include "ipc/segment.h"
#include "mem/mr.h"
#include "qp/ah.h"
#include "qp/qp.h"
#include "qp/srq.h"

struct mrmap;
struct session;

/* Common part of all objects; their first member. */
struct object {
	struct session *s;
	struct obj_pd *pd; /* the PD it refers to; NULL: a PD, or an object without one */
	uint32_t handle;
	uint32_t refs; /* by other objects; it cannot be destroyed unless 0 */
	bool hidden;   /* from workers, for good: being destroyed, or its session ends */
	const struct object_kind *kind; /* set once it is being destroyed */
	struct defer defer;             /* waits until no worker uses it */
};

/*
 * Functions that create and destroy the objects of a kind. object.c has the steps that all kinds
 * share; these functions, any of which may be NULL, do the rest. An object ends by hide, leave, a
 * grace period, release. A kind without hide is not known to workers and ends by release only.
 */
struct object_kind {
	size_t table;          /* offset of the struct idtab of its handles in struct session */
	enum quota_kind quota; /* the quota that an object counts towards */
	/* Hides it from workers: later look-ups do not find it. */
	void (*hide)(struct object *o);
	/*
	 * Posts a job that makes the owning worker drop the object, and returns the job. At the end
	 * of a session the caller has done that. NULL: workers only look it up.
	 */
	struct worker_job *(*leave)(struct object *o);
	/* Frees everything except what object_add took. */
	void (*release)(struct object *o);
};

/*
 * Makes o, zeroed heap memory, an object of s: takes it from the quota of the session's user,
 * assigns a handle and references pd (or NULL). Returns 0, or -ENOMEM and the caller keeps o.
 */
int object_add(const struct object_kind *k, struct object *o, struct session *s, struct obj_pd *pd);
/* Undoes object_add before anyone has seen the handle. The caller owns o again. */
void object_drop(const struct object_kind *k, struct object *o);
/* Releases the object, undoes object_add and frees it. It is hidden, and no worker has it. */
void object_free(const struct object_kind *k, struct object *o);
/*
 * Handles a client's request to destroy the object of handle. Returns 0; ENOENT; EBUSY if other
 * objects refer to it; or CTRL_LATER: s->later.answer gets the result when no worker uses the
 * object any more.
 */
int object_destroy(const struct object_kind *k, struct session *s, uint32_t handle);
/*
 * Called at the end of s, in slices: hide all objects of the kind; free them when all workers were
 * quiescent. This includes objects that were already being destroyed. The caller starts with *pos =
 * 0 and repeats the call until it returns true. It returns false when *steps, from which it
 * subtracts OBJECT_STEPS for each object and 1 for each empty slot of the table, is used up.
 */
#define OBJECT_STEPS 64
bool object_hide_some(const struct object_kind *k, struct session *s, uint32_t *pos, int *steps);
bool object_free_some(const struct object_kind *k, struct session *s, uint32_t *pos, int *steps);

/* Id of a PD, carried by its QPs and regions. Shared by the PDs that imported it. */
struct pd_id {
	uint32_t id; /* unique in the daemon */
	uint32_t users;
	struct idtab windows; /* struct obj_mw of all sessions */
	uint64_t walk;        /* number of the last mw_walk that came to it */
	bool lost;            /* in daemon.lost_pds */
	SLIST_ENTRY(pd_id) lost_link;
};

struct obj_pd { /* referenced by QPs, MRs, MWs, SRQs and AHs */
	struct object o;
	uint32_t id; /* shared->id */
	struct pd_id *shared;
};

/* Quota that a mapping takes from the session's user. */
struct mr_cost {
	uint64_t bytes; /* QUOTA_REG_MEM */
	uint32_t fds;   /* QUOTA_FDS */
	uint32_t maps;  /* QUOTA_MAPS */
};

struct obj_mr {
	struct object o;
	struct mr mr;
	struct mrmap *map;
	struct mr_cost cost; /* of map */
	bool lost;           /* its memory failed: hidden, its owner may deregister or change it */
	bool going;          /* its session ends: hidden, freed once no window is bound to it */
	bool settled;        /* hidden, and the broker was requested to end a copy (mr_dereg) */
};

struct obj_channel { /* referenced by CQs */
	struct object o;
	struct events_channel ch;
};

struct obj_cq { /* referenced by queues of QPs */
	struct object o;
	struct cq cq;
	struct obj_channel *channel; /* NULL: none */
	struct ipc_extent ext;
	struct ipc_extent old; /* ring before the last resize, which the client may still read */
	int32_t worker;        /* worker whose QPs complete to it; -1: none yet */
	bool waiting;          /* on its channel's list */
	TAILQ_ENTRY(obj_cq) wait;
};

struct obj_mw {
	struct object o;
	struct mr mr;
	uint32_t at;  /* in its PD's windows */
	uint64_t off; /* count of windows hidden so far, when it was hidden; 0: not hidden */
};

/* A walk over the windows of some PDs (obj.h). */
struct mw_walk {
	uint64_t number;      /* of the daemon's walks: comes to each PD once */
	uint32_t pd;          /* next slot of the session's PDs */
	struct pd_id *shared; /* the PD it is at; NULL: none yet */
	uint32_t at;          /* next slot of its windows */
	bool any;             /* a window was hidden */
	uint64_t hidden;      /* unbinds windows whose off is at most this */
};

struct obj_srq { /* referenced by QPs */
	struct object o;
	struct srq srq;
	struct ipc_extent ext;
};

#define AH_MAX 65536 /* address handles of a context; a power of two */
struct obj_ah {
	struct object o;
	struct qp_ah *ah; /* what workers see */
	uint8_t sgid_index;
	uint8_t hop[16]; /* next hop of the path; zero: none */
};

#define MCAST_MAX_GROUPS 64 /* groups per QP */
struct obj_member {         /* a QP in a multicast group */
	struct obj_qp *q;
	uint8_t gid[16];
	TAILQ_ENTRY(obj_member) dev_link;
};

LIST_HEAD(session_qps, obj_qp);

struct obj_qp { /* referenced by its multicast groups, which ibv_destroy_qp(3) does not leave */
	struct object o;
	struct qp *qp;
	struct obj_cq *send_cq, *recv_cq;
	struct obj_srq *srq; /* NULL: it uses rq */
	struct ipc_extent sq, rq;
	/*
	 * Copied by the worker in the last call that concerned the paths (modify, a neighbour's
	 * MAC, a removed GID). The control thread does not read the QP, because its worker may
	 * migrate it at any time. A QP that has migrated since uses alt_hop.
	 */
	uint8_t hop[16], alt_hop[16]; /* next hops of the paths; zero: none */
	bool path_ok, alt_path_ok;    /* their MACs are known */
	uint64_t gid_slots;           /* a bit for each GID index that they use */
	/* References to the keys of both paths, in any order; NULL: none. */
	struct used_key *conn_key[2];
	uint32_t wrong_keys;    /* of its peer, at the last check (guess.c) */
	struct {                /* balance.c */
		uint64_t bytes; /* at the last look */
		uint64_t rest_until_ns;
		bool pinned; /* qp->bind.pinned, not by an operator */
	} balance;
	struct worker_job job; /* makes its worker drop it */
	TAILQ_ENTRY(obj_qp) dev_link;
	LIST_ENTRY(obj_qp) worker_link;
};

#endif
