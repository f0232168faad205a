/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pair and its life: create, modify, query, free. Only the worker that owns a QP touches
 * it. The control thread creates and frees it, and sends requests to the owner for everything else.
 *
 *   qp.h        the object; modify and query
 *   conn.h      struct qp_conn: protocol state of a connection
 *   bind.h      struct qp_bind: queues, rings, timer, counters of this machine
 *   deadline.h  times at which a QP has to act although nothing has arrived
 *   table.h     QPs by number
 *   emit.h      frames into env->tx
 *   retire.h    ends of WQEs: completions, the error state, flushing
 *   fault.h     why a QP failed
 *   recorder.h  its last events; record.h: the part of it that packets run
 *   doorbell.h  the doorbell protocol between client and worker
 *   prefetch.h  data that a worker prefetches before a QP's turn
 *
 * qp.c has the functions of deadline.h, env.h, srq.h and view.h, too, modify.c those of
 * congestion.h, and recorder.c those of fault.h. May include wire, mem, cq, net, counters.
 */
#ifndef QP_QP_H
#define QP_QP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uroce_abi/ctrl.h>
#include "cq/cq.h"
#include "qp/ah.h"
#include "qp/bind.h"
#include "qp/conn.h"
#include "qp/deadline.h"
#include "qp/env.h"
#include "qp/fault.h"
#include "qp/loss.h"
#include "qp/ring.h"
#include "qp/srq.h"
#include "qp/state.h"
#include "wire/build.h"

struct qp {
	struct qp_conn conn __attribute__((aligned(64)));
	struct qp_bind bind;
	struct uroce_sge recv_sge[]; /* of conn.rcv.cur, if that is taken */
};
#define QP_ASSERT_LINE(field)                                                                      \
	_Static_assert(offsetof(struct qp, field) % 64 == 0, #field " begins a cache line")
QP_ASSERT_LINE(conn.qpn);
QP_ASSERT_LINE(conn.tmpl);
QP_ASSERT_LINE(conn.snd);
QP_ASSERT_LINE(conn.rcv.write_va);
QP_ASSERT_LINE(conn.rcv.msg_off);
QP_ASSERT_LINE(bind.sq);
QP_ASSERT_LINE(bind.rq);
_Static_assert(offsetof(struct qp, conn.snd) - offsetof(struct qp, conn.qpn) == 192 &&
		       offsetof(struct qp, bind.rq) - offsetof(struct qp, conn.rcv.msg_off) == 192,
	       "a WRITE and its response touch four and three adjacent lines");

/* Is one of these QP_PLAIN_* set for the QP? */
static inline bool
qp_is_plain(const struct qp_env *env, const struct qp *qp, uint8_t which)
{
	return ((env->plain | qp->bind.plain) & which) != 0;
}

/*
 * Any thread. The index of the worker that has qp, or gets it before anything that the caller makes
 * that worker do next. Set by the worker that gives qp away.
 */
static inline uint32_t
qp_worker(const struct qp *qp)
{
	return __atomic_load_n(&qp->bind.worker, __ATOMIC_ACQUIRE);
}

struct qp_create {
	uint32_t qpn;
	enum qp_type type;
	uint16_t port, worker;
	uint32_t pd;
	uint32_t uid; /* of its client */
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	const struct qp_ah_table *ahs;
	/*
	 * The device's P_Key table: UROCE_MAX_PKEYS entries, 0 if empty; outlives the QP. Only the
	 * control thread stores to it. NULL: entry 0 is the default key, the others are empty.
	 */
	const uint16_t *pkeys;
	uint8_t dev_mtu; /* path MTU code of the device; the limit of UD */
	bool sig_all;
	/*
	 * EAL has huge pages: allocate the QP there if there is space. With thousands of QPs on
	 * ordinary pages most turns would start with a TLB miss.
	 */
	bool huge;
	/* Stays on its worker. UD QPs do, and QPs with an SRQ, which has one worker. */
	bool fixed;
	uint64_t user_handle;
	struct uroce_qp_cap cap;   /* as granted */
	const struct cc_param *cc; /* filled (cc/param.h); copied; NULL: policy fixed */
	uint8_t plain;             /* QP_PLAIN_* */
	struct qp_ring sq, rq;     /* geometry and addresses of the shared rings */
	struct counter_block *counters;
};

/* Round requested capacities up to those granted (LIFE-03). EINVAL if over the limits (LIFE-02). */
int qp_cap_grant(const struct uroce_qp_cap *want, struct uroce_qp_cap *grant);

/* Control thread. Create a QP in RESET that no worker knows yet. NULL: out of memory. */
struct qp *qp_create(const struct qp_create *c);
/* Control thread, after its worker has released the QP. */
void qp_free(struct qp *qp);

struct qp_refusal;
/* What qp_modify_check refuses may depend on the device. */
struct qp_limits {
	uint8_t max_mtu; /* enum ibv_mtu code */
	uint16_t npkeys;
	uint16_t ngids;
	uint64_t gid_valid; /* bit i: GID index i holds a RoCEv2 GID */
};
/*
 * Check a modify against the tables and limits (QP-01..QP-04). Returns 0 or EINVAL, and in *why the
 * reason (qp/refusal.h); why may be NULL. Changes nothing.
 */
int qp_modify_check(const struct qp *qp, uint32_t mask, const struct uroce_qp_attr *attr,
		    const struct qp_limits *lim, struct qp_refusal *why);

/*
 * Worker (owner). Apply a checked modify. path: the resolved address vector if mask has AV (else
 * NULL); its path_ok is false while the next hop's MAC is being requested. alt: the same for
 * ALT_PATH.
 */
void qp_modify_apply(struct qp_env *env, struct qp *qp, uint32_t mask,
		     const struct uroce_qp_attr *attr, const struct qp_path *path,
		     const struct qp_path *alt);

/*
 * Worker. Send packets by path from now on, with the P_Key at attr.pkey_index. The caller sets the
 * path's attributes (address vector, port, timeout).
 */
void qp_path_use(struct qp *qp, const struct qp_path *path);

/* P_Key at index of qp's table; 0: the entry is empty or outside of the table. */
uint16_t qp_pkey_at(const struct qp *qp, uint16_t index);
/*
 * Worker. The P_Key table has changed (EVT-13): packets from now on carry, and must match, the
 * entry at the QP's pkey_index. Changes nothing else.
 */
void qp_pkey_refresh(struct qp *qp);

/* Worker. The next hop's MAC became known or changed: send what waited for it. */
void qp_path_resolved(struct qp_env *env, struct qp *qp, const uint8_t dmac[6]);
/* Worker. The same for each of its paths, current or alternate, with next hop hop. */
void qp_neigh_resolved(struct qp_env *env, struct qp *qp, const uint8_t hop[16],
		       const uint8_t mac[6]);

/* Worker. Fill attr with all attributes that were set and the current state (QP-05). */
void qp_query(const struct qp *qp, struct uroce_qp_attr *attr);

/* Worker. Schedule qp: it has work for the requester or responder. */
static inline void
qp_wake(struct qp_env *env, struct qp *qp)
{
	if (!qp->bind.on_run_list)
		env->ops->qp_wake(env->ops_ctx, qp);
}

/* Worker. Entry of WQE index i (tail <= i < head). */
static inline struct qp_sq_entry *
qp_sq_entry(const struct qp *qp, uint32_t i)
{
	return qp_sqes_at(&qp->bind.sqes, i);
}

/* Worker. Is there space to take one more WQE from the SQ, if one is posted? */
static inline bool
qp_sq_room(const struct qp_env *env, const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;

	return snd->head - snd->tail <= qp->bind.sqes.mask &&
	       qp_sqes_room(&qp->bind.sqes, env->sqes, snd->head);
}

/*
 * Largest path MTU code (1 = 256 .. 5 = 4096) whose packets, with the longest headers over IPv6,
 * fit a link MTU in bytes; 0 if none does (WIRE-05).
 */
uint8_t qp_mtu_code(uint32_t link_mtu);

#endif
