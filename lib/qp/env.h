/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Environment of a QP's two halves: time, memory, packet buffers, and output arrays for packets and
 * completions. A worker owns one and fills it from the clock and its ports; the simulator fills it
 * from a virtual clock and a seeded network. The code that uses it cannot tell the difference.
 */
#ifndef QP_ENV_H
#define QP_ENV_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include "cq/cq.h"
#include "mem/late.h"
#include "mem/mr.h"
#include "counters/counters.h"

struct qp;
struct qp_ahead;
struct qp_segs;
struct qp_sqe_pool;
struct qp_sr_pool;
struct wire_pkt;

/* Asynchronous events; the values are those of enum ibv_event_type. */
enum qp_event {
	QP_EVENT_CQ_ERR = 0,
	QP_EVENT_QP_FATAL = 1,
	QP_EVENT_QP_REQ_ERR = 2,
	QP_EVENT_QP_ACCESS_ERR = 3,
	QP_EVENT_COMM_EST = 4,
	QP_EVENT_SQ_DRAINED = 5,
	QP_EVENT_PATH_MIG = 6,
	QP_EVENT_PATH_MIG_ERR = 7,
	QP_EVENT_SRQ_ERR = 14,
	QP_EVENT_SRQ_LIMIT_REACHED = 15,
	QP_EVENT_QP_LAST_WQE_REACHED = 16,
};

/* Completion status; the values are those of enum ibv_wc_status. */
enum qp_wc_status {
	QP_WC_SUCCESS = 0,
	QP_WC_LOC_LEN_ERR = 1,
	QP_WC_LOC_QP_OP_ERR = 2,
	QP_WC_LOC_PROT_ERR = 4,
	QP_WC_WR_FLUSH_ERR = 5,
	QP_WC_MW_BIND_ERR = 6,
	QP_WC_BAD_RESP_ERR = 7,
	QP_WC_LOC_ACCESS_ERR = 8,
	QP_WC_REM_INV_REQ_ERR = 9,
	QP_WC_REM_ACCESS_ERR = 10,
	QP_WC_REM_OP_ERR = 11,
	QP_WC_RETRY_EXC_ERR = 12,
	QP_WC_RNR_RETRY_EXC_ERR = 13,
	QP_WC_REM_ABORT_ERR = 16,
	QP_WC_FATAL_ERR = 19,
	QP_WC_RESP_TIMEOUT_ERR = 20,
	QP_WC_GENERAL_ERR = 21,
};

/* Upcalls, made on the worker. They may queue a message but must not touch the QP. */
struct qp_env_ops {
	/* cq has a completion that satisfies its arm: notify its channel. */
	void (*cq_event)(void *ctx, struct cq *cq);
	/* A client's thread sleeps until cq, or another CQ of its context, has a completion. */
	void (*cq_waiter)(void *ctx, struct cq *cq);
	/* A received message is about to complete on recv_cq of qp, which is watched, or has. */
	void (*cq_watched)(void *ctx, const struct qp *qp, bool written);
	/* An asynchronous event of qp (cq NULL) or of cq (QP_EVENT_CQ_ERR, qp NULL). */
	void (*async_event)(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq);
	/* qp has work for the requester or responder: put it on the run list. */
	void (*qp_wake)(void *ctx, struct qp *qp);
	/*
	 * A packet of qp was sent at since_ns and got no response. Could the packet or the response
	 * still be inside this process, because one of its threads did not run meanwhile?
	 */
	bool (*held_up)(void *ctx, const struct qp *qp, uint64_t since_ns);
	/* qp has failed; its recorder says why. */
	void (*failed)(void *ctx, const struct qp *qp);
};

#define QP_ENV_MAX_DIRTY 64
#define QP_ENV_KEPT      (DROP_NUM + 1u)

/*
 * Flags that limit loss recovery to what the specification requires: of an env, for tests, and of a
 * QP (qp_bind.plain), for operators.
 */
#define QP_PLAIN_REQUESTER 1u /* no probes; a NAK does not reduce the window */
#define QP_PLAIN_RESPONDER 2u /* only one NAK per gap (NAK-04) */
#define QP_PLAIN_TIMERS    4u /* retransmit only for a NAK, a gap or the ACK timeout (REQ-04) */
#define QP_PLAIN_LETTER    (QP_PLAIN_RESPONDER | QP_PLAIN_TIMERS) /* probe=off */

struct qp_env {
	uint64_t now_ns; /* set by the owner before every call */
	const struct mr_table *mrs;
	struct rte_mempool *pool;             /* data room >= WIRE_MAX_OVERHEAD + 4096 */
	struct rte_mempool_cache *pool_cache; /* this thread's cache of pool; NULL: none */
	/*
	 * RC payloads of at least this many bytes, sent for the first time, may stay in the
	 * client's memory. Such a frame has several segments and must not outlive its burst
	 * (MEM-03), except as a linear copy (rte_pktmbuf_linearize). UINT32_MAX: all are copied.
	 */
	uint32_t zero_copy_bytes; /* for the current QP */
	struct qp_segs *segs;     /* for these frames; NULL: all payloads are copied */
	struct qp_sqe_pool *sqes; /* shared by all QPs of this env */
	struct qp_sr_pool *sr;    /* the same; NULL: no selective repeat */
	struct rte_mbuf **tx;     /* out: tx[0 .. tx_n) are frames to send, in order */
	uint32_t tx_n, tx_cap;    /* no frame is built if tx_n == tx_cap */
	uint32_t tx_bytes;        /* bytes of frames built since the engine's run began; may wrap */
	uint32_t acks;            /* ACKs, but not NAKs, built since then */
	/*
	 * Steps without a packet that remain for this run of the engine: local operations, WQEs to
	 * flush, turns without work. The only limit of these; tx_cap limits packets.
	 */
	uint32_t work;
	struct counter_block *counters; /* of the device that the current QP belongs to */
	/*
	 * Why the QP dropped the received frame, enum drop_reason; DROP_NUM: not dropped;
	 * QP_ENV_KEPT: accepted, and its mbuf belongs to the QP now (rsp_reorder_put).
	 */
	uint32_t dropped;
	struct mem_late_list late_ops; /* of its QPs */
	bool again;                    /* the packet has waited for memory (engine/rx_late.c) */
	bool crowded; /* other QPs have work, so data must be prefetched to be in the cache */
	/*
	 * Packets wait for this thread: in the iteration before, a receive queue gave half a burst
	 * or more. Set by the owner.
	 */
	bool behind;
	/*
	 * Until this time, a QP's READs of several packets request at most read_bytes at a time: a
	 * socket of this thread has just lost frames because it was full. Set by the owner.
	 */
	uint64_t read_limit_ns;
	uint32_t read_bytes;
	uint8_t plain; /* QP_PLAIN_*, for tests that need such a peer */
	/*
	 * The user (qp_user_place) whose memory this thread may be using; 0: nobody's, or unknown.
	 * Read by other threads (worker/blame.h).
	 */
	uint8_t serves;
	const struct qp_env_ops *ops;
	void *ops_ctx;
	struct {
		struct cq *cq;
		bool solicited;    /* a solicited or failed completion was among them */
	} dirty[QP_ENV_MAX_DIRTY]; /* CQs posted to since the last qp_env_flush */
	uint32_t dirty_n;
	struct mr window; /* buffer for mr_lookup_remote */
	struct qp_ahead *ahead;
	/* Within a burst: responses to READs of qp, up to this PSN, whose data was stored at once.
	 */
	const struct qp *stored_qp;
	uint32_t stored_psn;
	/*
	 * The packet behind pkt in the received burst, if it is intact and the QP of pkt accepts
	 * it; else NULL. NULL outside of a burst.
	 */
	const struct wire_pkt *(*rx_next)(struct qp_env *env, const struct wire_pkt *pkt);
};

/*
 * Quantum: how far one turn of a QP may fill env->tx. Each turn has a fixed cost, cache misses if
 * there are many QPs, so a turn may have many packets. Its bytes are limited, because long packets
 * delay the other QPs. A lone QP delays no other and requests an ACK at the end of each turn
 * (RSP-02): it gets the bytes of a whole burst.
 */
#define QP_TURN_BYTES  (64 * 1024u)
#define QP_BURST_BYTES (256 * 1024u) /* still in the cache when sent */
#define QP_TURN_STEPS  64u           /* steps without a packet, which a client can post endlessly */

struct qp_turn {
	uint32_t tx_n;     /* env->tx_n at which the turn ends */
	uint32_t tx_bytes; /* env->tx_bytes at which it ends; may wrap */
};

/* Worker. Begin a turn of at most this many packets (> 0). */
static inline struct qp_turn
qp_turn_begin(const struct qp_env *env, uint32_t packets)
{
	return (struct qp_turn){RTE_MIN(env->tx_cap, env->tx_n + packets),
				env->tx_bytes + (env->crowded ? QP_TURN_BYTES : QP_BURST_BYTES)};
}

/* Worker. Number of steps without a packet that a turn beginning now may take. */
static inline uint32_t
qp_turn_steps(const struct qp_env *env)
{
	return RTE_MIN(env->work, QP_TURN_STEPS);
}

/* Worker. Is the turn over: its packets or bytes are used up, or env->tx is full? */
static inline bool
qp_turn_over(const struct qp_env *env, struct qp_turn turn)
{
	return env->tx_n >= turn.tx_n || (int32_t)(env->tx_bytes - turn.tx_bytes) >= 0;
}

/*
 * Destination of a frame in env->tx: m->port is the device (ethdev port); m->hash.usr is QP_TX_WIRE
 * or QP_TX_LOOPBACK (to a GID of the same device, never on the wire). Loopback frames have no ICRC
 * and may be zero-copy (qp/view.h).
 */
#define QP_TX_WIRE     0u
#define QP_TX_LOOPBACK 1u

/*
 * For captures: m->hash.fdir.hi of a frame in env->tx is the number of its QP, with QP_TX_AGAIN if
 * it holds a request that was sent before.
 */
#define QP_TX_QPN_MASK 0xffffffu
#define QP_TX_AGAIN    0x80000000u

/* Worker. From now on, memory of the user at this place (qp_user_place) may be used; 0: nobody's.
 */
static inline void
qp_env_serve(struct qp_env *env, uint8_t user)
{
	__atomic_store_n(&env->serves, user, __ATOMIC_RELAXED);
}

/* Record that cq was posted to, so that its arm is checked once per burst rather than per CQE. */
void qp_env_dirty(struct qp_env *env, struct cq *cq, bool solicited);

/* Count a completion with an error: of this enum uroce_cqe_opcode and status. */
void qp_env_count_error(struct qp_env *env, uint8_t opcode, uint8_t status) __rte_cold;

/*
 * Post cqe to cq, count it, and record cq for qp_env_flush. Raises CQ_ERR on overrun. note and wqe:
 * as for cq_post.
 */
static __rte_always_inline void
qp_env_post(struct qp_env *env, struct cq *cq, const struct uroce_cqe *cqe, uint64_t *note,
	    uint32_t wqe)
{
	bool failed = cqe->status != 0, solicited;

	if (cq->dead)
		return;
	env->counters->ctr[COUNTER_CQE]++;
	if (unlikely(failed))
		qp_env_count_error(env, cqe->opcode, cqe->status);
	if (!cq_post(cq, cqe, note, wqe)) {
		env->ops->async_event(env->ops_ctx, QP_EVENT_CQ_ERR, NULL, cq);
		return;
	}
	solicited = failed || (cqe->flags & UROCE_CQE_SOLICITED) != 0;
	if (env->dirty_n != 0 && env->dirty[env->dirty_n - 1].cq == cq)
		env->dirty[env->dirty_n - 1].solicited |= solicited;
	else
		qp_env_dirty(env, cq, solicited);
}

/*
 * Get a buffer for a frame, owned by the caller; NULL: none left. As rte_pktmbuf_alloc, but does
 * not reset fields that only receive and offloads use.
 */
static __rte_always_inline struct rte_mbuf *
qp_env_buf(struct qp_env *env)
{
	void *obj;
	struct rte_mbuf *m;

	if (unlikely(rte_mempool_generic_get(env->pool, &obj, 1, env->pool_cache) != 0))
		return NULL;
	m = obj; /* one segment, one reference, like every mbuf in a pool */
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->ol_flags &= RTE_MBUF_F_EXTERNAL;
	return m;
}

/*
 * Mark the received frame as dropped for reason why. Only the first reason counts. The receiver of
 * the frame then counts it as dropped rather than accepted.
 */
static inline void
qp_env_drop(struct qp_env *env, enum drop_reason why)
{
	if (env->dropped == DROP_NUM)
		env->dropped = why;
}

/* End a burst: one full fence, then check the arm of every CQ posted to. */
void qp_env_flush(struct qp_env *env);

#endif
