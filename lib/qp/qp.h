/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pair and its life: create, modify, query, free. One worker owns a QP and is the only
 * one to touch it; the control thread makes and frees it and asks the owner for everything else.
 *
 *   qp.h        the object; modify and query
 *   conn.h      what the protocol remembers about a connection
 *   table.h     QPs by number
 *   emit.h      frames into env->tx
 *   retire.h    ends of WQEs: completions, the error state, flushing
 *   doorbell.h  when a client rings for what it posts
 *   prefetch.h  what a worker fetches ahead of a QP's turn
 *
 * May include wire, mem, cq, net, obs.
 */
#ifndef QP_QP_H
#define QP_QP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uroce_abi/ctrl.h>
#include "cq/cq.h"
#include "qp/ah.h"
#include "qp/conn.h"
#include "qp/env.h"
#include "qp/loss.h"
#include "qp/ring.h"
#include "qp/srq.h"
#include "qp/state.h"
#include "wire/build.h"

/*
 * Attributes as the last modify left them (QP-05), and what follows from them. With thousands of
 * QPs each cache line of one comes from far away, so what WRITEs and their answers need stands
 * together: the seven lines from qpn to rcv.rq. What only receive WQEs and UD need is before and
 * behind them.
 */
struct qp {
	struct cq *recv_cq;
	struct srq *srq;               /* or NULL: rcv.rq */
	const struct qp_ah_table *ahs; /* of its context (UD) */
	const uint16_t *pkeys;         /* as in struct qp_create */
	void *timer;                   /* the worker's */
	void *owner;                   /* the control thread's object */
	uint32_t dest_qpn;             /* this, retry_cnt and rnr_retry: as in attr */
	uint16_t pkey_index;           /* and this */
	uint32_t recv_pd;              /* domain of the receive buffers: the SRQ's, or pd */

	/* read by every packet */
	uint32_t qpn __attribute__((aligned(64)));
	uint8_t type;    /* enum qp_type */
	uint8_t state;   /* enum qp_state */
	uint8_t dev_mtu; /* path MTU code of the device */
	uint8_t mig;     /* enum qp_mig */
	uint16_t pkey; /* value behind attr.pkey_index; 0: an empty entry, which matches nothing */
	uint16_t port; /* ethdev port id = device */
	uint16_t mtu;  /* bytes */
	bool loopback; /* the peer's GID is one of this device */
	bool path_ok;  /* the next hop's MAC is known */
	bool on_run_list;
	bool sig_all;
	bool rings_bad; /* qp_fatal: the shared rings are not looked at any more */
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint16_t worker;
	uint32_t pd;
	uint32_t access; /* remote rights enabled: MEM_REMOTE_* */
	uint8_t sgid[16], dgid[16];
	struct wire_tmpl tmpl;
	struct obs_block *obs; /* of its worker and device */
	uint64_t timer_at_ns;  /* what the worker's timer is set to; 0 = not set */

	struct qp_snd snd __attribute__((aligned(64)));
	struct cq *send_cq;
	uint64_t user_handle;

	TAILQ_ENTRY(qp) run; /* the worker's run list */
	struct qp_rcv rcv;

	struct qp_loss loss; /* of the requester */

	/* cold */
	struct uroce_qp_attr attr; /* but path_mig_state: mig */
	struct uroce_qp_cap cap;
	uint8_t hop[16];    /* next hop of the path in use; zero: there is none */
	struct qp_path alt; /* of path migration (qp/migrate.h) */
	bool alt_loaded;
	bool in_eal; /* where its memory is from */
	struct qp_wrong_keys wrong_keys;
	bool mig_refused;  /* PATH_MIG_ERR was raised for what the peer asks for */
	bool last_wqe_due; /* LAST_WQE_REACHED is raised at the end of the flush */
	uint32_t flush_to; /* with snd.flushing */
	/* end-to-end credits, kept if snd.limited */
	uint16_t rq_credits; /* receive WQEs that the peer has behind una; UINT16_MAX: no limit */
	uint16_t rq_out;     /* messages of tail .. cur that have started and take one of them */
	struct uroce_sge recv_sge[]; /* of rcv.cur */
};
_Static_assert(offsetof(struct qp, qpn) == 64 && offsetof(struct qp, tmpl) == 128,
	       "what packets are held against is a line, what they are made of begins the next");
_Static_assert(offsetof(struct qp, snd) == 256 && offsetof(struct qp_snd, sq) == 64 &&
		       offsetof(struct qp, run) == 448,
	       "the requester has three lines of its own");
_Static_assert(offsetof(struct qp, rcv.rq) == 512, "the responder's is one with its run list's");

struct qp_create {
	uint32_t qpn;
	enum qp_type type;
	uint16_t port, worker;
	uint32_t pd;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	const struct qp_ah_table *ahs;
	/*
	 * The device's P_Key table, UROCE_MAX_PKEYS entries, 0 for an empty one; outlives the QP.
	 * The control thread alone stores to it. NULL: entry 0 is the default key, the others
	 * empty.
	 */
	const uint16_t *pkeys;
	uint8_t dev_mtu; /* path MTU code of the device: what UD sends at most */
	bool sig_all;
	/*
	 * EAL has huge pages: the QP lies in them, if they have room. Of thousands of QPs on
	 * ordinary pages few are in the TLB when their turn comes.
	 */
	bool huge;
	uint64_t user_handle;
	struct uroce_qp_cap cap; /* as granted */
	struct qp_ring sq, rq;   /* geometry and addresses of the shared rings */
	struct obs_block *obs;
};

/* Round what a caller asked for up to what a QP gets (LIFE-03). EINVAL over the limits (LIFE-02).
 */
int qp_cap_grant(const struct uroce_qp_cap *want, struct uroce_qp_cap *grant);

/* Control thread. A QP in RESET, not yet known to any worker. NULL: no memory. */
struct qp *qp_create(const struct qp_create *c);
/* Control thread, after its worker has let go of it. */
void qp_free(struct qp *qp);

/*
 * Check a modify against the tables and limits (QP-01..QP-04): 0, or a positive errno and nothing
 * changed. Pure. port_mtu: largest path MTU code (1..5) of the device; gids: valid GID indices.
 */
struct qp_limits {
	uint8_t max_mtu; /* enum ibv_mtu code */
	uint16_t npkeys;
	uint16_t ngids;
	uint64_t gid_valid; /* bit i: GID index i holds a RoCEv2 GID */
};
int qp_modify_check(const struct qp *qp, uint32_t mask, const struct uroce_qp_attr *attr,
		    const struct qp_limits *lim);

/*
 * Worker (owner). Apply a checked modify. path: where its packets go when mask has AV (else NULL);
 * path_ok false when the next hop's MAC is still asked for. alt: the same of ALT_PATH.
 */
void qp_modify_apply(struct qp_env *env, struct qp *qp, uint32_t mask,
		     const struct uroce_qp_attr *attr, const struct qp_path *path,
		     const struct qp_path *alt);

/*
 * Worker. Packets go by path from now on, with the P_Key behind attr.pkey_index. What the path has
 * of attributes (address vector, port, timeout) is the caller's.
 */
void qp_path_use(struct qp *qp, const struct qp_path *path);

/* The P_Key at index of the table that qp goes by; 0: the entry is empty, or beyond the table. */
uint16_t qp_pkey_at(const struct qp *qp, uint16_t index);
/*
 * Worker. An entry of the P_Key table has another value (EVT-13): packets from now on carry, and
 * must match, what is behind the QP's pkey_index. State and everything else stay.
 */
void qp_pkey_refresh(struct qp *qp);

/* Worker. The next hop's MAC became known (or changed): what waited goes out. */
void qp_path_resolved(struct qp_env *env, struct qp *qp, const uint8_t dmac[6]);
/* Worker. The same of whichever of its paths, in use or alternate, goes through neighbour hop. */
void qp_neigh_resolved(struct qp_env *env, struct qp *qp, const uint8_t hop[16],
		       const uint8_t mac[6]);

/* Worker. Fill attr with everything that was set and the present state (QP-05). */
void qp_query(const struct qp *qp, struct uroce_qp_attr *attr);

/* Worker. qp has work for a later call of the requester or responder. */
static inline void
qp_wake(struct qp_env *env, struct qp *qp)
{
	if (!qp->on_run_list)
		env->ops->qp_wake(env->ops_ctx, qp);
}

/* Worker. Can one more WQE be taken from the SQ, if it is posted? */
static inline bool
qp_sq_room(const struct qp_env *env, const struct qp_snd *snd)
{
	return snd->head - snd->tail <= snd->sqes.mask &&
	       qp_sqes_room(&snd->sqes, env->sqes, snd->head);
}

/* Largest path MTU code (1 = 256 .. 5 = 4096) that fits a link MTU in bytes; 0 if none does. */
uint8_t qp_mtu_code(uint32_t link_mtu);

#endif
