/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two halves of a QP work with: time, memory, packet buffers, somewhere to put packets and
 * completions. A worker owns one and fills it from the clock and its ports; the simulator fills it
 * from a virtual clock and a seeded network. Nothing below it knows the difference.
 */
#ifndef QP_ENV_H
#define QP_ENV_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include "cq/cq.h"
#include "mem/mr.h"
#include "counters/counters.h"

struct qp;
struct qp_segs;
struct qp_sqe_pool;

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

/* Upcalls, made on the worker; they may queue a message, and must not touch the QP. */
struct qp_env_ops {
	/* cq was armed and has a completion that satisfies the arm: write its channel. */
	void (*cq_event)(void *ctx, struct cq *cq);
	/* An asynchronous event of qp (cq NULL) or of cq (QP_EVENT_CQ_ERR, qp NULL). */
	void (*async_event)(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq);
	/* qp has work for a later call of the requester or responder: put it on the run list. */
	void (*qp_wake)(void *ctx, struct qp *qp);
	/*
	 * A packet of qp was sent at since_ns, and no answer has come. Could either be inside this
	 * process still, because one of its threads did not run meanwhile?
	 */
	bool (*held_up)(void *ctx, const struct qp *qp, uint64_t since_ns);
};

#define QP_ENV_MAX_DIRTY 64

/* Halves that recover from losses by what the specification demands and nothing else. */
#define QP_PLAIN_REQUESTER 1u /* no probes; the window stays open after a NAK */
#define QP_PLAIN_RESPONDER 2u /* one NAK a gap, whatever comes */

struct qp_env {
	uint64_t now_ns; /* set by the owner before every call */
	const struct mr_table *mrs;
	struct rte_mempool *pool;             /* room >= WIRE_MAX_OVERHEAD + 4096; */
	struct rte_mempool_cache *pool_cache; /* of pool, this thread's; or NULL: it has none */
	/*
	 * Payloads of so many bytes and more, of RC requests sent for the first time, may stay in
	 * the client's memory: such a frame has several segments, and does not outlive the burst it
	 * was made in (MEM-03), but as a copy (rte_pktmbuf_linearize). UINT32_MAX: all are copied.
	 */
	uint32_t zero_copy_bytes; /* of the QP whose turn it is */
	struct qp_segs *segs;     /* of those frames; or NULL: all are copied */
	struct qp_sqe_pool *sqes; /* of all QPs that are worked on with this env */
	struct rte_mbuf **tx;     /* out: tx[0 .. tx_n) are frames to send, in order */
	uint32_t tx_n, tx_cap;    /* no frame is built when tx_n == tx_cap */
	uint32_t tx_bytes;        /* of frames built; the engine's: since its run began; may wrap */
	/*
	 * Steps without a packet that are left to this run of the engine: local operations, WQEs to
	 * flush, turns that found nothing. Packets are limited by tx_cap, these by nothing else.
	 */
	uint32_t work;
	struct counter_block *counters; /* of the device that the current QP belongs to */
	/* Why the frame that is received is dropped behind its QP, enum drop_reason; or DROP_NUM.
	 */
	uint32_t dropped;
	uint64_t once; /* the last number given to an operation that is executed once (mem/mr.h) */
	bool crowded;  /* other QPs wait for a turn: what is not fetched ahead is far */
	uint8_t plain; /* QP_PLAIN_*: for tests that need such a peer */
	const struct qp_env_ops *ops;
	void *ops_ctx;
	struct {
		struct cq *cq;
		bool solicited;    /* a solicited or failed completion was among them */
	} dirty[QP_ENV_MAX_DIRTY]; /* CQs posted to since the last qp_env_flush */
	uint32_t dirty_n;
	struct mr window; /* room for mr_lookup_remote */
};

/*
 * How far one turn of a QP may fill env->tx. A turn has a price of its own, in cache lines that
 * come from far away where there are many QPs, so it may have many packets; but not of long ones,
 * which would keep the others waiting. A QP that is alone keeps nobody waiting, and asks for an ACK
 * at the end of each turn (RSP-02): it has the bytes of a whole burst.
 */
#define QP_TURN_BYTES  (64 * 1024u)
#define QP_BURST_BYTES (256 * 1024u) /* still cached when sent */
#define QP_TURN_STEPS  64u           /* without a packet: a client can post them for ever */

struct qp_turn {
	uint32_t tx_n;     /* at its end */
	uint32_t tx_bytes; /* as many, or more: it may wrap */
};

/* Worker. A turn of so many packets at most, > 0, that begins now. */
static inline struct qp_turn
qp_turn_begin(const struct qp_env *env, uint32_t packets)
{
	return (struct qp_turn){RTE_MIN(env->tx_cap, env->tx_n + packets),
				env->tx_bytes + (env->crowded ? QP_TURN_BYTES : QP_BURST_BYTES)};
}

/* Worker. How many steps without a packet a turn that begins now may take. */
static inline uint32_t
qp_turn_steps(const struct qp_env *env)
{
	return RTE_MIN(env->work, QP_TURN_STEPS);
}

/* Worker. No more frames in this turn: its packets or bytes are spent, or env->tx is full. */
static inline bool
qp_turn_over(const struct qp_env *env, struct qp_turn turn)
{
	return env->tx_n >= turn.tx_n || (int32_t)(env->tx_bytes - turn.tx_bytes) >= 0;
}

/*
 * A frame in env->tx says where it goes: m->port is the device (ethdev port) and
 * m->hash.usr is QP_TX_WIRE or QP_TX_LOOPBACK (a GID of the same device: never on the wire). The
 * latter has no ICRC, and may be a view: headers, and where the payload lies (qp/view.h).
 */
#define QP_TX_WIRE     0u
#define QP_TX_LOOPBACK 1u

/* Remember that cq was posted to, so that its arm is looked at once a burst and not once a CQE. */
void qp_env_dirty(struct qp_env *env, struct cq *cq, bool solicited);

/*
 * Post cqe to cq, count it, and remember cq for qp_env_flush. Raises CQ_ERR on overrun. note and
 * wqe as in cq_post.
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
		env->counters->ctr[COUNTER_CQE_ERROR]++;
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
 * A buffer to make a frame in; the caller's. NULL: there is none left. As rte_pktmbuf_alloc, but
 * that what only receivers and offloads look at is left as it was.
 */
static __rte_always_inline struct rte_mbuf *
qp_env_buf(struct qp_env *env)
{
	void *obj;
	struct rte_mbuf *m;

	if (unlikely(rte_mempool_generic_get(env->pool, &obj, 1, env->pool_cache) != 0))
		return NULL;
	m = obj; /* one segment, referred to once, as every mbuf in a pool */
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->ol_flags &= RTE_MBUF_F_EXTERNAL;
	return m;
}

/*
 * The frame that is received is not used, for this reason, the first one given: whoever received it
 * counts it so, and not as taken.
 */
static inline void
qp_env_drop(struct qp_env *env, enum drop_reason why)
{
	if (env->dropped == DROP_NUM)
		env->dropped = why;
}

/* End of a burst: one full fence, then every CQ posted to is checked for an arm. */
void qp_env_flush(struct qp_env *env);

#endif
