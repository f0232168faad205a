/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a context owns: objects, known to the client by handles of this context and to nobody
 * else's. Control thread only, except where a comment names the worker.
 */
#ifndef CONTROL_OBJECT_H
#define CONTROL_OBJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "control/events.h"
#include "control/triple.h"
#include "cq/cq.h"
#include "ipc/segment.h"
#include "mem/mr.h"
#include "qp/ah.h"
#include "qp/qp.h"
#include "qp/srq.h"

struct mrmap;
struct session;

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

#endif
