/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pair. One worker owns a QP and is the only one to touch it; the control thread makes
 * and frees it and asks the owner for everything else. Grouped by writer: cold (control, while
 * the owner is quiescent), snd (requester half), rcv (responder half).
 * May include wire, mem, cq, net, obs.
 */
#ifndef QP_QP_H
#define QP_QP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <rte_prefetch.h>
#include <uroce_abi/ctrl.h>
#include <uroce_abi/ring.h>
#include <uroce_abi/wqe.h>
#include "cq/cq.h"
#include "qp/ah.h"
#include "qp/env.h"
#include "qp/loss.h"
#include "qp/ring.h"
#include "qp/sqe.h"
#include "qp/srq.h"
#include "qp/state.h"
#include "qp/view.h"
#include "wire/build.h"

#define QP_MAX_RD_ATOMIC   16    /* READs and atomics outstanding, either way */
#define QP_MAX_SGE         32    /* SGEs of a WQE */
#define QP_MAX_INLINE      1024  /* bytes of inline data */
#define QP_MAX_WR          16384 /* WQEs of a queue */
#define QP_MAX_MSG_BYTES   (1u << 31)
#define QP_WINDOW_PKTS     128 /* unacknowledged request packets (rxe's receive queue bears 128) */
#define QP_WINDOW_AGAIN    16  /* the same after a sequence NAK; doubles with each progress */
#define QP_ACKREQ_PKTS     32  /* AckReq at least every so many packets */
#define QP_READ_CHUNK_PKTS (1u << 22) /* packets that one READ request asks for, at most */

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

/* The requester half. PSNs: una <= next <= high <= alloc in the circle. */
struct qp_snd {
	/* what every turn and answer has to do with: one cache line */
	uint32_t head; /* next WQE to take from the SQ, free running: head .. sq.prod are posted */
	uint32_t tail; /* oldest WQE not retired; published as the ring's cons */
	uint32_t cur;  /* WQE whose packets are being sent, tail .. head */
	uint32_t cur_pkt;     /* next packet of it, 0 .. npkts */
	uint32_t una_psn;     /* oldest PSN not acknowledged */
	uint32_t next_psn;    /* next PSN to send; moves back for a retry */
	uint32_t high_psn;    /* one past the highest PSN ever sent */
	uint32_t alloc_psn;   /* first PSN not yet given to a WQE */
	uint64_t deadline_ns; /* probe, ACK timeout or end of an RNR wait; 0 = none */
	uint64_t wait_ns;     /* from progress to deadline_ns (qp/loss.h); 0 = no deadline */
	uint32_t rd_psns; /* PSNs of responses awaited between una and next (not in the window) */
	uint8_t rd_out;   /* READs and atomics outstanding */
	uint8_t since_ackreq; /* packets since the last AckReq */
	uint8_t window;       /* unacknowledged request packets allowed: few after a loss */
	bool rnr_wait;        /* deadline_ns is the end of an RNR wait */
	bool ack_owed;        /* within a turn: a message ended and its ACK is not asked for yet */
	bool read_gap;        /* a gap in READ responses was already asked for again */
	bool armed;           /* told the client to ring */
	bool polled;          /* the worker looks at the SQ all the time: no need to ring */
	bool draining : 1;    /* SQD: finish what was started */
	bool flushing : 1;    /* RTS after SQE: WQEs before qp->flush_to are still to be flushed */
	bool limited : 1; /* the peer has told end-to-end credits: the two counts below are kept */
	uint8_t retry_left;
	uint8_t rnr_left;
	uint8_t watch; /* enum qp_watch */
	struct qp_ring sq;
	struct qp_sqes sqes; /* copies of the WQEs tail .. head */
};

/* One READ or atomic being answered, or remembered for duplicates. */
struct qp_rd_op {
	uint64_t va;
	union {
		uint64_t orig; /* atomic: the value that was there */
		struct {
			uint32_t len;
			uint32_t pos; /* READ: next response to send; npkts = done */
		};
	};
	uint32_t rkey;
	uint32_t npkts; /* responses */
	uint32_t psn;   /* of the first response */
	uint32_t msn : 24;
	uint32_t atomic : 1; /* else a READ */
	uint32_t replay : 1; /* answers a duplicate: errors are silent, takes no resource */
};
_Static_assert(sizeof(struct qp_rd_op) == 32, "two to a cache line");
/* What a peer can have under way, seen before or not, and one place to put a new one into. */
#define QP_RD_QUEUE (QP_MAX_RD_ATOMIC + 1)

/* What message the responder is inside of. */
enum qp_msg {
	QP_MSG_NONE = 0,
	QP_MSG_SEND,
	QP_MSG_WRITE,
};

struct qp_recv_wqe {
	struct uroce_recv_wqe wqe;
	bool taken;            /* a WQE is in use by the message under way */
	uint32_t index;        /* of the WQE in its queue */
	uint32_t length;       /* sum of the SGEs */
	struct uroce_sge *sge; /* room for max_sge: qp.recv_sge */
};

/* Memory that is needed has to be waited for (mem/mr.h). */
struct qp_late {
	uint64_t once;   /* of the write or atomic under way; 0: none */
	uint64_t due_ns; /* READ response: when the peer is to be told next */
	uint32_t psn;    /* of what needs it */
	uint32_t told;   /* how often the peer was told; 0: psn may mean nothing */
};

/* The responder half. */
struct qp_rcv {
	/* what every request and turn has to do with: three quarters of a cache line */
	uint64_t write_va; /* next byte of the WRITE under way */
	uint32_t write_rkey;
	uint32_t write_left;
	uint32_t msg_off; /* bytes of the SEND (or WRITE) so far */
	uint32_t epsn;
	uint32_t msn;
	uint32_t ack_psn;
	uint32_t nak_psn;
	uint32_t early_psn; /* the last packet that came too early, for which a NAK is due */
	uint8_t msg;        /* enum qp_msg */
	uint8_t nak_syndrome;
	uint8_t rdq_n;      /* in rdq */
	uint8_t hist_next;  /* in hist */
	uint8_t naks_again; /* nak_sent: how often the sequence NAK was repeated */
	bool nak_sent : 1;  /* sequence or RNR NAK went out; quiet until the ePSN comes */
	bool comm_est : 1;  /* COMM_EST was raised since RTR */
	bool ack_due : 1;   /* an ACK of ack_psn goes out once the READs before it are done */
	bool nak_due : 1;   /* the same of a NAK */
	bool key_pause : 1; /* too many wrong R_Keys: see qp.wrong_keys */
	bool fatal : 1;     /* the NAK due is fatal: no more requests, ERR once it was sent */

	struct qp_ring rq; /* mask 0 and hdr NULL with an SRQ */
	uint32_t head;     /* next receive WQE to take, free running: head .. rq.prod are posted */
	uint32_t gap_psn;  /* nak_sent: the packet that came too early and led to it */
	struct qp_recv_wqe cur;
	struct qp_rd_op rdq[QP_RD_QUEUE];       /* being answered, in PSN order */
	struct qp_rd_op hist[QP_MAX_RD_ATOMIC]; /* the last READs and atomics executed */
	struct qp_late late;                    /* of the request with the ePSN */
	struct qp_late rd_late;                 /* of the next READ response */
};

/*
 * R_Keys that name nothing, in requests to a QP (MEM-01). Each costs the connection, so a peer that
 * guesses makes its victim connect again and again: this is kept when the QP is reset. After more
 * than QP_WRONG_KEYS of them within QP_WRONG_KEY_NS no request is looked at for as long again.
 */
#define QP_WRONG_KEYS   16u
#define QP_WRONG_KEY_NS 1000000000ull
struct qp_wrong_keys {
	uint64_t since_ns; /* of the count */
	uint64_t until_ns; /* requests are dropped, while rcv.key_pause */
	uint32_t count;    /* since then */
	uint32_t total;    /* of the QP's life; the control thread looks at it */
};

/* Where the packets of a connected QP go. */
struct qp_path {
	struct wire_path wire;
	bool loopback;   /* the peer's GID is one of this device */
	bool path_ok;    /* the next hop's MAC is known */
	uint8_t hop[16]; /* the next hop, as a GID; zero: there is none */
};

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

/*
 * Worker. Into the error state (QP-19, REQ-10): the oldest send WQE completes with status unless
 * that is QP_WC_SUCCESS, every other WQE of both queues is flushed, in order. WQEs that the worker
 * has taken are flushed here; qp_flush does the rest in the turns that follow. A QP with an SRQ
 * raises LAST_WQE_REACHED when these are over.
 */
void qp_error(struct qp_env *env, struct qp *qp, enum qp_wc_status status);
/*
 * Worker. A turn of a QP in the error state, or in SQE (sends only): flush what the client has
 * posted, QP_TURN_STEPS WQEs of each queue at most and no more than env->work. Each queue's prod is
 * read once. Wakes the QP for another turn while WQEs are left.
 */
void qp_flush(struct qp_env *env, struct qp *qp);
/*
 * Worker. The QP leaves SQE for RTS: what was posted before is flushed all the same, and nothing
 * behind it is taken before that is done (qp_flush_rest).
 */
void qp_flush_mark(struct qp_env *env, struct qp *qp);
/* Worker. A turn of a QP with snd.flushing. True when that is not over. */
bool qp_flush_rest(struct qp_env *env, struct qp *qp);
/*
 * Worker. A send WQE failed: the oldest completes with status and the rest is flushed. RC goes to
 * the error state (QP-20), UC and UD to SQE, where the receive side works on (QP-17).
 */
void qp_send_error(struct qp_env *env, struct qp *qp, enum qp_wc_status status);
/* Worker. A ring of this QP makes no sense: error state, QP_FATAL (EVT-01), rings not read again.
 */
void qp_fatal(struct qp_env *env, struct qp *qp);

/* Worker. The finished frame m of this QP into env->tx, where there must be room. kind: QP_TX_. */
static inline void
qp_push(struct qp_env *env, const struct qp *qp, struct rte_mbuf *m, uint32_t kind)
{
	m->port = qp->port;
	m->hash.usr = kind;
	env->tx[env->tx_n++] = m;
	env->tx_bytes += m->pkt_len;
}

/*
 * Worker. A frame of len bytes of this QP, the last made from tmpl, and closed, is in m:
 * seal it and put it into env->tx, where there must be room. A frame that loops back stays in this
 * thread's memory, where there is nothing that its ICRC would tell: it is zero
 * (engine_rx_loopback).
 */
static inline void
qp_emit(struct qp_env *env, const struct qp *qp, struct rte_mbuf *m, struct wire_tmpl *tmpl,
	uint32_t len, bool loopback)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	if (loopback)
		memset(frame + len - WIRE_ICRC_LEN, 0, WIRE_ICRC_LEN);
	else
		wire_frame_seal(tmpl, frame, len);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	qp_push(env, qp, m, loopback ? QP_TX_LOOPBACK : QP_TX_WIRE);
}

/*
 * Worker. The same of a frame that loops back, of hdr_len bytes of headers in m, and whose payload,
 * len bytes, stays at src.
 */
static inline void
qp_emit_view(struct qp_env *env, const struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
	     const uint8_t *src, uint32_t len)
{
	qp_view_set(m, hdr_len, (struct qp_view){src, len, qp->qpn},
		    hdr_len + len + (-len & 3) + WIRE_ICRC_LEN);
	qp_push(env, qp, m, QP_TX_LOOPBACK);
}

/* Worker. qp has work for a later call of the requester or responder. */
static inline void
qp_wake(struct qp_env *env, struct qp *qp)
{
	if (!qp->on_run_list)
		env->ops->qp_wake(env->ops_ctx, qp);
}

/*
 * Worker. The send WQE at index tail - 1 is over, tail the oldest now; its copy, if it has one, is
 * the caller's to put. In this order its client is told: the slot is free; the completion, if there
 * is one; that there is none to come (ring.h).
 */
static __rte_always_inline void
qp_retire_one(struct qp_env *env, struct qp *qp, uint32_t tail, const struct uroce_send_wqe *wqe,
	      uint32_t byte_len, enum qp_wc_status status)
{
	struct qp_ring *sq = &qp->snd.sq;

	qp->snd.tail = tail;
	qp_ring_retire(sq, tail, wqe->wr_id);
	if (status != QP_WC_SUCCESS || qp->sig_all || (wqe->flags & UROCE_WQE_SIGNALED)) {
		struct uroce_cqe cqe = {
			.wr_id = wqe->wr_id,
			.status = status,
			.opcode = uroce_cqe_opcode_of(wqe->opcode),
			.byte_len = byte_len,
			.qp_num = qp->qpn,
			.src_qp = qp->dest_qpn,
			.timestamp_ns = env->now_ns,
			.qp_cookie = qp->user_handle,
		};

		qp_env_post(env, qp->send_cq, &cqe, &sq->hdr->entry, tail - 1);
	}
	qp_ring_done(sq, tail);
}

/*
 * Worker. Retire the oldest send WQE, whose entry is e: its slot goes back to the client, and it
 * completes with status if it is signaled or failed (REQ-01). e is void then.
 */
void qp_retire_send(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e,
		    enum qp_wc_status status);

/* Worker. Does the good WQE of e complete without a word? */
static inline bool
qp_is_silent(const struct qp *qp, const struct qp_sq_entry *e)
{
	return !qp->sig_all && !(e->wqe.flags & UROCE_WQE_SIGNALED);
}

/*
 * Worker. The WQEs before tail are retired, the last of them, of this wr_id, silently as all since
 * the client was told the last time: tell it. So an ACK of many silent ones writes the line that
 * they share with their client once.
 */
static inline void
qp_retire_told(struct qp *qp, uint32_t tail, uint64_t wr_id)
{
	qp->snd.tail = tail;
	qp_ring_retire(&qp->snd.sq, tail, wr_id);
	qp_ring_done(&qp->snd.sq, tail);
}

/*
 * Worker. Take the next receive WQE into qp->rcv.cur. 0; -EAGAIN none is posted; -EINVAL it is
 * malformed (taken all the same); -EPROTO the ring is corrupt (qp_fatal was called).
 */
int qp_take_recv(struct qp_env *env, struct qp *qp);
/*
 * Worker. Complete the receive WQE taken. cqe: opcode, flags, byte_len, imm set by the caller; the
 * rest is filled in here.
 */
void qp_complete_recv(struct qp_env *env, struct qp *qp, enum qp_wc_status status,
		      struct uroce_cqe *cqe);

/* Largest path MTU code (1 = 256 .. 5 = 4096) that fits a link MTU in bytes; 0 if none does. */
uint8_t qp_mtu_code(uint32_t link_mtu);

/*
 * Table of QPs by QPN. The control thread writes, workers read (a slot is a pointer store). The
 * slot is the QPN's low bits; the rest tells a stale QPN from a live one.
 */
struct qp_table {
	struct qp **slot;
	uint32_t mask;
};
int qp_table_init(struct qp_table *t, uint32_t nslots); /* power of two; 0 or -errno */
void qp_table_free(struct qp_table *t);
/* The entry of WQE index i (tail <= i < head). */
static inline struct qp_sq_entry *
qp_sq_entry(const struct qp_snd *snd, uint32_t i)
{
	return qp_sqes_at(&snd->sqes, i);
}

/* Worker. Can one more WQE be taken from the SQ, if it is posted? */
static inline bool
qp_sq_room(const struct qp_env *env, const struct qp_snd *snd)
{
	return snd->head - snd->tail <= snd->sqes.mask &&
	       qp_sqes_room(&snd->sqes, env->sqes, snd->head);
}

/*
 * Where there are many QPs, what a worker needs of the next ones must come from far away: it asks
 * for that some time before. First for the QP, then, when it has come, for what it points to. By
 * rte_prefetch0: of __builtin_prefetch GCC (12) thinks that a function which has nothing else need
 * not be called.
 */
#define QP_AHEAD_WQES 4u /* before a turn; and of the WQE that is taken, where QPs wait */

static inline void
qp_prefetch_lines(const struct qp *qp, size_t from, size_t to)
{
	for (size_t off = from; off < to; off += 64)
		rte_prefetch0((const uint8_t *)qp + off);
}

/* What requests need of their QP, and its answer to them, if it has nothing else to do. */
static inline void
qp_prefetch_responder(const struct qp *qp)
{
	qp_prefetch_lines(qp, offsetof(struct qp, qpn), offsetof(struct qp, snd) + 1);
	qp_prefetch_lines(qp, offsetof(struct qp, run), offsetof(struct qp, rcv.rdq));
}

/* What a turn needs of its QP. */
static inline void
qp_prefetch(const struct qp *qp)
{
	qp_prefetch_lines(qp, 0, offsetof(struct qp, rcv.rq));
}

/* The copy of WQE index i, if it has a place. */
static inline void
qp_prefetch_copy(const struct qp_snd *snd, uint32_t i)
{
	if (snd->sqes.chunk[qp_sqes_chunk(&snd->sqes, i)] == NULL)
		return;
	rte_prefetch0(qp_sq_entry(snd, i));
	rte_prefetch0(qp_sq_entry(snd, i) + 1);
}

/* The WQE of index i of an SQ: its first two lines, or its own and the next one's. */
static inline void
qp_prefetch_wqe(const struct qp_ring *sq, uint32_t i)
{
	const uint8_t *slot = sq->slots + (size_t)(i & sq->mask) * sq->stride;

	rte_prefetch0(slot);
	rte_prefetch0(slot + 64);
}

/* WQEs to be taken; and what this writes for the client to see: armed, and later cons. */
static inline void
qp_prefetch_sq(const struct qp *qp)
{
	const struct qp_snd *snd = &qp->snd;

	rte_prefetch0_write(&snd->sq.hdr->armed);
	rte_prefetch0_write(&snd->sq.hdr->cons);
	for (uint32_t i = snd->head; i != snd->head + QP_AHEAD_WQES; i++)
		qp_prefetch_wqe(&snd->sq, i);
	qp_prefetch_copy(snd, snd->head);
}

/* WQEs to be retired. */
static inline void
qp_prefetch_oldest(const struct qp *qp)
{
	rte_prefetch0_write(&qp->snd.sq.hdr->cons);
	qp_prefetch_copy(&qp->snd, qp->snd.tail);
}

/* Receive WQEs to be taken. */
static inline void
qp_prefetch_rq(const struct qp *qp)
{
	const struct qp_rcv *rcv = &qp->rcv;

	if (qp->srq != NULL)
		return;
	rte_prefetch0(&rcv->rq.hdr->prod);
	rte_prefetch0(&rcv->rq.hdr->cons);
	rte_prefetch0(rcv->rq.slots + (size_t)(rcv->head & rcv->rq.mask) * rcv->rq.stride);
}

/* Any worker. The QP of this number will be asked for soon: its slot; and, when that is here, it.
 */
static inline void
qp_table_prefetch(const struct qp_table *t, uint32_t qpn)
{
	rte_prefetch0(&t->slot[qpn & t->mask]);
}
static inline void
qp_table_prefetch_qp(const struct qp_table *t, uint32_t qpn, bool answers)
{
	const struct qp *qp = __atomic_load_n(&t->slot[qpn & t->mask], __ATOMIC_RELAXED);

	if (qp != NULL && answers)
		qp_prefetch_responder(qp);
	else if (qp != NULL)
		qp_prefetch(qp);
}
static inline struct qp *
qp_table_find(const struct qp_table *t, uint32_t qpn)
{
	struct qp *qp = __atomic_load_n(&t->slot[qpn & t->mask], __ATOMIC_ACQUIRE);

	return qp != NULL && qp->qpn == qpn ? qp : NULL;
}

#endif
