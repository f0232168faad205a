/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a context owns: objects, known to the client by handles of this context and to nobody
 * else's. Control thread only, except where a comment names the worker.
 */
#ifndef CONTROL_OBJECT_H
#define CONTROL_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "control/defer.h"
#include "control/events.h"
#include "control/quota.h"
#include "control/triple.h"
#include "cq/cq.h"
#include "ipc/segment.h"
#include "mem/mr.h"
#include "qp/ah.h"
#include "qp/qp.h"
#include "qp/srq.h"

struct mrmap;
struct session;

/* What every object has, as its first member. */
struct object {
	struct session *s;
	struct obj_pd *pd; /* that it refers to; NULL: a PD, or nothing that belongs to one */
	uint32_t handle;
	uint32_t refs; /* from other objects: while there are any it is not destroyed */
	bool hidden;   /* from workers, for good: it is being destroyed, or its session ends */
	const struct object_kind *kind; /* once it is being destroyed */
	struct defer defer;             /* until no worker uses it */
};

/*
 * How the objects of a kind are created and destroyed. object.c has the steps that all kinds share;
 * these functions, any of which may be NULL, have the rest. An object ends by hide, leave, a grace
 * period, release. A kind without hide is not known to workers and ends by release alone.
 */
struct object_kind {
	size_t table;          /* struct idtab of its handles, in struct session */
	enum quota_kind quota; /* that an object counts as one of */
	/* No worker finds it from now on. */
	void (*hide)(struct object *o);
	/*
	 * Posts a job that makes the worker which owns the object let go of it, and returns the
	 * job. At the end of a session the caller did that. NULL: workers only look it up.
	 */
	struct worker_job *(*leave)(struct object *o);
	/* Gives back all that it holds besides what object_add took. */
	void (*release)(struct object *o);
};

/*
 * Make o, on the heap and zeroed, an object of s: take it from the quota of the session's user,
 * give it a handle, and refer to pd (or NULL). 0 or -ENOMEM: it is the caller's still.
 */
int object_add(const struct object_kind *k, struct object *o, struct session *s, struct obj_pd *pd);
/* Undo object_add for an object that could not be completed; it is the caller's again. */
void object_drop(const struct object_kind *k, struct object *o);
/* Hidden, and no worker has it: release, undo object_add, free. */
void object_free(const struct object_kind *k, struct object *o);
/*
 * A client's request to destroy the object of handle. 0; ENOENT; EBUSY: others refer to it;
 * CTRL_LATER: s->later.answer gets the result when no worker uses the object any more.
 */
int object_destroy(const struct object_kind *k, struct session *s, uint32_t handle);
/*
 * The end of s: hide all objects of the kind; then, when all workers were quiescent, free them. An
 * object whose destruction had begun ends with the others.
 */
void object_hide_all(const struct object_kind *k, struct session *s);
void object_free_all(const struct object_kind *k, struct session *s);

/* A PD's number, which its QPs and regions carry: of the PD and of those that imported it. */
struct pd_id {
	uint32_t id; /* unique in the daemon */
	uint32_t users;
};

struct obj_pd { /* refs: QPs, MRs, MWs, SRQs and AHs */
	struct object o;
	uint32_t id; /* shared->id */
	struct pd_id *shared;
};

/* What is taken from the quota of the session's user for a mapping. */
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
	bool lost;    /* its memory failed: hidden, kept for its owner to deregister or change */
	bool going;   /* its session ends: hidden, to be freed once no window is bound to it */
	bool settled; /* hidden, and the broker has been asked to let a copy end (mr_dereg) */
};

struct obj_channel { /* refs: CQs */
	struct object o;
	struct events_channel ch;
};

struct obj_cq { /* refs: queues of QPs */
	struct object o;
	struct cq cq;
	struct obj_channel *channel; /* NULL: none */
	struct ipc_extent ext;
	struct ipc_extent old; /* ring before the last resize, which the client may still read */
	int32_t worker;        /* the one whose QPs complete here; -1: none yet */
	bool waiting;          /* on its channel's list */
	TAILQ_ENTRY(obj_cq) wait;
};

struct obj_mw {
	struct object o;
	struct mr mr;
	/* Hidden for the release of this number (mw_release_begin), or an earlier one; 0: not
	 * hidden
	 */
	uint64_t off;
};

struct obj_srq { /* refs: QPs */
	struct object o;
	struct srq srq;
	struct ipc_extent ext;
};

#define AH_MAX 65536 /* address handles of a context; a power of two */
struct obj_ah {
	struct object o;
	struct qp_ah *ah; /* what workers see */
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

struct obj_qp { /* refs: multicast groups it is in (ibv_destroy_qp(3) does not end that) */
	struct object o;
	struct qp *qp;
	struct obj_cq *send_cq, *recv_cq;
	struct obj_srq *srq; /* NULL: rq is its own */
	struct ipc_extent sq, rq;
	/*
	 * What the worker has noted of both paths in the last call about them (modify, a
	 * neighbour's MAC, a GID that is gone): the control thread does not read the QP, which its
	 * worker may migrate at any time. A QP that has migrated since uses alt_hop.
	 */
	uint8_t hop[16], alt_hop[16]; /* neighbours that they go through; zero: none */
	bool path_ok, alt_path_ok;    /* their MACs are known */
	uint64_t gid_slots;           /* bit per GID index that they use */
	/* Claims on the addresses of both paths, in no order; NULL: none. */
	struct triple *triple[2];
	uint32_t wrong_keys;   /* of its peer, at the last look (guess.c) */
	struct worker_job job; /* that makes its worker let go of it */
	TAILQ_ENTRY(obj_qp) dev_link;
	LIST_ENTRY(obj_qp) worker_link;
};

#endif
