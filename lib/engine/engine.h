/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of one worker: frames in, frames, completions and deadlines out. No port, no clock, no
 * lcore: worker/worker.h drives it from real ones, test/sim from virtual ones.
 *
 *   engine_rx        receives frames of one device, in bursts; consumes the mbufs
 *   engine_rx_loopback  receives frames that never left this thread
 *   engine_doorbell  handles a client's doorbell for a QP
 *   engine_run       runs QPs with work until the tx array is full or no work is left
 *   engine_next_ns   returns when engine_run can next run a paced QP
 *   engine_timer     handles a QP whose deadline has passed
 *   engine_last_ack, engine_last_turn, engine_forget  remove a QP that is destroyed
 *   engine_may_give, engine_leave, engine_give, engine_take  move a QP to another engine
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "engine/run_list.h"
#include "qp/ahead.h"
#include "qp/env.h"
#include "qp/qp.h"
#include "qp/table.h"
#include "qp/view.h"
#include "wire/parse.h"

#define ENGINE_TX_CAP       128 /* frames of one engine_run, those refused before included */
#define ENGINE_TX_BYTES     QP_BURST_BYTES /* bytes of one engine_run */
#define ENGINE_DONE_CAP     32     /* received frames that are processed and freed together */
#define ENGINE_ACKS_PENDING 128    /* QPs that send ACKs ahead of turns (turn.h) */
#define ENGINE_MARKED       64     /* QPs that send a CNP in one run */
#define ENGINE_CNP_NS       50000u /* between two CNPs of a QP */
#define ENGINE_CNP_DSCP     48u
#define ENGINE_QUANTUM      64   /* packets a QP may send before the next QP's turn */
#define ENGINE_WORK         256u /* steps without a packet, of all QPs, per engine_run */

/*
 * Addresses of a device for its workers: an immutable list that the control thread replaces as a
 * whole (by engine_set_addrs on every worker) and frees after a grace period.
 */
struct engine_member { /* a UD QP in a multicast group (WIRE-10) */
	uint8_t gid[16];
	uint32_t qpn;
};
/* The order of members in a list: by group, then by QPN. < 0: a is before b; 0: they are equal. */
static inline int
engine_member_cmp(const struct engine_member *a, const struct engine_member *b)
{
	int by_gid = memcmp(a->gid, b->gid, 16);

	return by_gid != 0 ? by_gid : (a->qpn > b->qpn) - (a->qpn < b->qpn);
}
struct engine_addrs {
	uint32_t ngids, nmembers;
	const uint8_t (*gid)[16];
	const struct engine_member *member; /* in the order of engine_member_cmp */
};

/* The hosts that a device accepts RoCE packets from. */
#define ENGINE_PEERS 32u
struct engine_peers {
	uint32_t n; /* 0: every host */
	struct {
		uint8_t gid[16];
		uint8_t bits; /* the first ones of gid that a source's GID must have: 0 .. 128 */
	} of[ENGINE_PEERS];
};

struct engine_dev { /* the engine's state of a device (an ethdev port) */
	bool present;
	bool unknown_id, strict;          /* engine_set_unknown_id */
	bool hostif;                      /* engine_set_hostif */
	uint8_t cnp_dscp;                 /* engine_set_cnp */
	const struct engine_peers *peers; /* engine_set_peers */
	uint64_t cnp_ns;
	uint16_t vid;                   /* VLAN ID; 0: frames without a tag, or with VID 0 */
	uint64_t mac;                   /* as the first 6 bytes of a frame read, zero-extended */
	struct counter_block *counters; /* this worker's block for the device */
	/* Atomic. NULL: accept every address, no groups. */
	const struct engine_addrs *addrs;
	struct rte_mempool *pool;             /* pool of the frames to send on it */
	struct rte_mempool_cache *pool_cache; /* this lcore's cache of pool; NULL: none */
	uint32_t zero_copy_bytes;             /* as in struct qp_env */
};
#define ENGINE_MAX_DEVS 16

/* Packets whose memory is late, with those behind them, in order of arrival (rx_late.c). */
#define RX_LATE_CAP 256
struct rx_late_pkt {
	struct rte_mbuf *m; /* one reference */
	struct qp *qp;
	uint64_t since_ns;
	uint32_t id; /* of its kind when it came; another one: the QP was reset */
	uint16_t dev;
	bool counted; /* as received */
	struct wire_pkt pkt;
};
struct rx_late {
	uint32_t n;
	uint32_t ids;               /* last id of struct qp_late_pkts */
	uint32_t passes;            /* last pass */
	uint64_t next_ns;           /* time of the next attempt, if n is not 0 */
	uint16_t of_user[QP_USERS]; /* by bind.run_user */
	struct rx_late_pkt pkt[RX_LATE_CAP];
};

struct engine;
struct rx_frame;
/* Upcalls for frames that are not for a QP of this engine; each consumes the mbuf. */
struct engine_ops {
	/* Not RoCE (ARP, ND, ICMP): for the control thread. Returns false if it has no space. */
	bool (*slow_path)(void *ctx, uint16_t dev, struct rte_mbuf *m);
	/*
	 * A checked datagram for the QPN of engine_set_consumer; pkt: m, parsed. Returns DROP_NUM,
	 * or why it is not wanted. NULL: not offered.
	 */
	enum drop_reason (*consumer)(void *ctx, uint16_t dev, struct rte_mbuf *m,
				     const struct wire_pkt *pkt);
	/*
	 * Another frame that is not for the transport, of a device with engine_set_hostif: for the
	 * kernel. Returns false if it has no space. NULL: not offered.
	 */
	bool (*host)(void *ctx, uint16_t dev, struct rte_mbuf *m);
	/*
	 * A frame for qpn, which another worker owns, or which is on its way to this one
	 * (QP_TABLE_COMES): then the callee passes it to engine_rx again, behind engine_take.
	 */
	void (*handoff)(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *m);
	/*
	 * Arms qp's timer: engine_timer is called once at_ns is reached, not before. Replaces an
	 * earlier request. The callee sets qp->bind.timer_at_ns to at_ns if it succeeds. If it
	 * fails, the engine retries after the QP's next turn or response.
	 */
	void (*set_timer)(void *ctx, struct qp *qp, uint64_t at_ns);
	void (*cq_event)(void *ctx, struct cq *cq);
	/* As in struct qp_env_ops. NULL if no CQ has a client's word for it (struct cq, waiter). */
	void (*cq_waiter)(void *ctx, struct cq *cq);
	/* As in struct qp_env_ops. NULL if no CQ is watched. */
	void (*cq_watched)(void *ctx, const struct qp *qp, bool written);
	void (*async_event)(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq);
	/* As in struct qp_env_ops. NULL: never. */
	bool (*held_up)(void *ctx, const struct qp *qp, uint64_t since_ns);
	/* qp has failed; its recorder says why. NULL: not wanted. */
	void (*failed)(void *ctx, const struct qp *qp);
};

struct engine {
	struct qp_env env;        /* its pool is that of the current QP */
	struct rte_mempool *pool; /* of devices without a separate pool */
	struct rte_mbuf *tx[ENGINE_TX_CAP];
	struct rte_mbuf *done[ENGINE_DONE_CAP]; /* frames of engine_rx's current burst */
	uint32_t done_n;
	struct rx_frame *rx_end; /* of engine_rx's current burst, within its last step */
	uint16_t rx_dev;
	uint32_t ack_pending_n;
	struct qp *ack_pending[ENGINE_ACKS_PENDING]; /* QPs with a pending ACK, each once or more */
	uint32_t marked_n;
	struct qp *marked[ENGINE_MARKED]; /* QPs to send a CNP, each once or more (notify.c) */
	bool rx_marked;                   /* a packet of the current burst may have CE */
	bool rx_loopback;                 /* within engine_rx_loopback */
	bool rx_extra;                    /* within engine_rx_extra */
	bool rx_handed;       /* set by the worker: engine_rx gets frames of other workers */
	uint32_t leaving_qpn; /* of engine_leave */
	uint32_t loop_zero_copy_bytes; /* as zero_copy_bytes, for frames that loop back */
	struct run_list run;
	uint32_t npaused;      /* users */
	bool copies;           /* engine_set_copies */
	struct wire_memo memo; /* cache of received headers */
	struct engine_dev dev[ENGINE_MAX_DEVS];
	const struct qp_table *qps;
	uint32_t worker; /* owner id of its QPs in qps */
	uint32_t lcore;  /* whose mempool caches are used; UINT32_MAX: none */
	const struct engine_ops *ops;
	void *ops_ctx;
	uint32_t consumer_qpn; /* atomic; of engine_set_consumer */
	struct qp_ahead ahead;
	struct rx_late late;
};

/*
 * Initialises an engine. The caller owns pool, sqes, mrs and qps, which outlive the engine; no
 * other engine uses sqes.
 */
void engine_init(struct engine *e, struct rte_mempool *pool, struct qp_sqe_pool *sqes,
		 const struct mr_table *mrs, const struct qp_table *qps, uint32_t worker,
		 const struct engine_ops *ops, void *ops_ctx);

/*
 * Makes the engine use the mempool caches of this EAL lcore, on which it must run. Called before
 * engine_set_pool. Default: no caches.
 */
void engine_set_lcore(struct engine *e, uint32_t lcore);

/* Adds a device to this engine. counters: this worker's counters of it. */
void engine_add_dev(struct engine *e, uint16_t dev, const uint8_t mac[6],
		    struct counter_block *counters);

/*
 * The worker's own thread, or a worker_call. Makes dev accept only frames of this VLAN; 0
 * (default): only frames without one.
 */
void engine_set_vlan(struct engine *e, uint16_t dev, uint16_t vid);

/*
 * The worker's own thread, or a worker_call. Declares that received IPv4 frames of dev do not have
 * their identification of the wire, because the port cannot see it. An ICRC is then accepted if it
 * is right for some identification (wire_icrc_check_any_id), unless strict is set, too: such frames
 * are then dropped with a separate reason, DROP_INEXACT_ICRC. Default: both false.
 */
void engine_set_unknown_id(struct engine *e, uint16_t dev, bool unknown_id, bool strict);

/*
 * The worker's own thread, or a worker_call. Makes dev accept RoCE packets, datagrams of the
 * connection manager included, only from these hosts; others are dropped (DROP_REFUSED_PEER) before
 * a QP is looked up. Frames that loop back inside are not asked. peers outlives the device's use;
 * NULL (default): every host.
 */
void engine_set_peers(struct engine *e, uint16_t dev, const struct engine_peers *peers);

/*
 * The worker's own thread, or a worker_call. Lets QPs of dev send a CNP for packets with CE, at
 * most one per QP in interval_ns, with this DSCP (0 .. 63). interval_ns 0: never. Default:
 * ENGINE_CNP_NS, ENGINE_CNP_DSCP.
 */
void engine_set_cnp(struct engine *e, uint16_t dev, uint64_t interval_ns, uint8_t dscp);

/*
 * The worker's own thread, or a worker_call. Passes frames that are neither RoCE nor for the slow
 * path to the host op of struct engine_ops. Default: false, they are dropped.
 */
void engine_set_hostif(struct engine *e, uint16_t dev, bool hostif);

/*
 * The worker's own thread, or a worker_call. Makes frames for dev use buffers of pool (NULL: the
 * engine's), which the caller owns. Buffers are as large as qp_env's, with the payload of dev's
 * MTU.
 */
void engine_set_pool(struct engine *e, uint16_t dev, struct rte_mempool *pool);

/*
 * Sets the segments for zero-copy payloads (qp/segs.h), which the caller owns. Called before the
 * first engine_run. Default: none, payloads are copied.
 */
void engine_set_segs(struct engine *e, struct qp_segs *segs);
/*
 * The worker's own thread, or a worker_call. Sets the minimum size of zero-copy payloads in frames
 * sent on dev (zero_copy_bytes of struct qp_env); UINT32_MAX (default): none.
 */
void engine_set_zero_copy(struct engine *e, uint16_t dev, uint32_t bytes);
/*
 * Sets it for frames that loop back, on any device. They are then zero-copy frames (qp/view.h), and
 * the caller must call engine_rx_loopback before any worker_call.
 */
void engine_set_loop_zero_copy(struct engine *e, uint32_t bytes);

/*
 * Sets the pool of selective repeat (qp/selective.h), which the caller owns and no other engine
 * uses. Called before the first engine_rx. Default: NULL, no QP uses selective repeat.
 */
void engine_set_sr(struct engine *e, struct qp_sr_pool *sr);

/*
 * Any thread, one at a time. Sets the device's addresses. A burst that has begun may use the
 * previous list until its end.
 */
void engine_set_addrs(struct engine *e, uint16_t dev, const struct engine_addrs *addrs);

/*
 * Any thread. Passes datagrams for qpn, which has no QP, to the consumer of struct engine_ops.
 * Datagrams for other QPNs without a QP are dropped (DROP_BAD_QPN). 0 (default): none.
 */
void engine_set_consumer(struct engine *e, uint32_t qpn);

/*
 * Receives n frames that arrived on device dev (or came by handoff for it). Consumes them. Packets
 * are parsed, checked (ICRC, QPN, P_Key, addresses) and passed to their QP's requester or
 * responder.
 */
void engine_rx(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n);

/* m->hash.usr of a frame that came by handoff. */
#define ENGINE_RX_FRAME 0u
#define ENGINE_RX_EXTRA                                                                            \
	3u /* unlike all QP_TX_*: a copy for one more member of a group: engine_rx_extra */

/*
 * Receives such a copy. The frame was counted for the members that got it before and is not counted
 * here; a refused copy is counted in COUNTER_MCAST_REFUSED.
 */
void engine_rx_extra(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf *m);

/*
 * Receives unchanged frames that this engine has made for a GID of the same device
 * (QP_TX_LOOPBACK). Their ICRC is not checked. A frame for another worker gets its ICRC first.
 */
void engine_rx_loopback(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m,
			uint32_t n);

/*
 * The worker's own thread, which made the frame m. Copies the payload into m's own buffer, for a
 * frame that loops back and has to wait, or does not go to engine_rx_loopback (qp/view.h). Returns
 * false if the payload is gone because the QP has flushed; engine_rx_loopback will drop m.
 */
bool engine_own(const struct engine *e, struct rte_mbuf *m);

/*
 * Handles a client's doorbell for qpn (any number; ignores unknown QPNs and those of other
 * workers). Returns the QP if it has work, else NULL.
 */
struct qp *engine_doorbell(struct engine *e, uint32_t qpn);

/* Makes qp ready for a turn, even if its pace holds its requests back. */
void engine_wake(struct engine *e, struct qp *qp);

/* Makes QPs copy every payload in their turn, whatever zero_copy_bytes says, or ends that. */
static inline void
engine_set_copies(struct engine *e, bool copies)
{
	e->copies = copies;
}

/*
 * Pauses a user (qp_user_place), or ends that: while it is paused, its QPs get no turn and no
 * timer, and packets for them are dropped (DROP_PAUSED), so that nothing touches its memory.
 * Without effect if it is so already.
 */
void engine_pause_user(struct engine *e, uint8_t user, bool paused);
static inline bool
engine_is_paused(const struct engine *e, uint8_t user)
{
	return unlikely(e->npaused != 0) && e->run.user[user].paused;
}

/*
 * Runs users, and the QPs of each, round robin (run_list.h) until e->env.tx is full (or has
 * ENGINE_TX_BYTES), ENGINE_WORK is spent, or no QP has work; then flushes completions. The bounds
 * hold whatever clients do. Returns true if work is left. The caller sends e->env.tx[0 .. tx_n),
 * moves the frames that the port refused to the front, and sets tx_n to their number.
 */
bool engine_run(struct engine *e, uint64_t now_ns);

/*
 * Returns the time in ns at which engine_run will find a parked QP ready, whose congestion policy
 * holds its next packet back, or will try late packets again (rx_late.c); sometimes a little
 * before. UINT64_MAX: there are none. Ignores ready QPs and timers. Reads a slot of the run list;
 * meant for callers that sleep.
 */
uint64_t engine_next_ns(const struct engine *e);

/*
 * Handles the timer of qp. Acts on the deadlines that have passed, if any, and calls set_timer if a
 * deadline is left.
 */
void engine_timer(struct engine *e, uint64_t now_ns, struct qp *qp);

/*
 * Worker. Sends the ACK of requests that an RC QP has executed, if it is due and there is space in
 * e->env.tx. For a QP that is about to be destroyed or to leave RTS: a program that has seen the
 * data may do that at once, and a NIC would have acknowledged it by then (RSP-02).
 */
void engine_last_ack(struct engine *e, uint64_t now_ns, struct qp *qp);

/*
 * Sends what a QP that is about to be destroyed owes: RC's ACK (engine_last_ack); the posted WRs of
 * a UC or UD QP, which it puts into e->env.tx, as far as there is space, and completes. A program
 * may send a last datagram, which has no response, and destroy its QP: a NIC would have sent it by
 * then. RC's last requests would find no receiver for their ACKs, and their memory goes, too.
 */
void engine_last_turn(struct engine *e, uint64_t now_ns, struct qp *qp);

/* Removes qp from this engine (destroy) and its lists; invalidates the copies of its WQEs. */
void engine_forget(struct engine *e, struct qp *qp);

/*
 * A QP moves to another engine, whose thread continues where this one has stopped: all of its state
 * stays in struct qp, except for the copies of its WQEs. Each function runs on its engine's thread,
 * between two other calls. Until it is taken, nobody may use qp.
 */
#define ENGINE_MOVE_BYTES (QP_RTX_WQES * QP_CHUNK_BYTES)
/*
 * The engine's thread. Returns NULL if qp can be given away now; else why not, in English: it never
 * moves, or a part of it is in the engine (packets of selective repeat, late memory). Its frames in
 * e->env.tx do not matter, but may then be sent behind later ones.
 */
const char *engine_may_give(const struct qp *qp);
/*
 * From now on other workers pass frames for qpn to worker `to`, which keeps them; e still has the
 * QP, and receives the frames that were handed over to it before (rx_handed). 0: none leaves.
 */
void engine_leave(struct engine *e, uint32_t qpn, uint32_t to);
/*
 * Gives away qp, which has no late memory. Early packets that it has kept are dropped; the peer
 * sends them again. wqes: ENGINE_MOVE_BYTES, for its copies of WQEs.
 */
void engine_give(struct engine *e, struct qp *qp, void *wqes);
/*
 * Takes qp, with the copies of WQEs that engine_give has written to wqes. counters: this engine's
 * block of the QP's device. The QP's timer is not set; its next turn sets it and arms the doorbell.
 * Returns false, and changes nothing, if e's pool of copies has too little memory
 * (qp_sqes_may_load).
 */
bool engine_take(struct engine *e, struct qp *qp, const void *wqes, struct counter_block *counters);

#endif
