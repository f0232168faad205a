/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of one worker: frames in, frames, completions and deadlines out. No port, no clock, no
 * lcore: worker/worker.h drives it from real ones, test/sim from virtual ones.
 *
 *   engine_rx        frames of one device, in bursts; consumes the mbufs
 *   engine_rx_loopback  the same of frames that never left this thread
 *   engine_doorbell  a QP that its client rang for
 *   engine_run       runs QPs with work until the tx array is full or nothing is left
 *   engine_next_ns   when engine_run has a QP to run that waits for its pace now
 *   engine_timer     a QP whose deadline has come
 *   engine_last_turn, engine_forget  a QP that is destroyed
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/run_list.h"
#include "qp/env.h"
#include "qp/qp.h"
#include "qp/table.h"
#include "qp/view.h"
#include "wire/parse.h"

#define ENGINE_TX_CAP   128            /* frames between two engine_run */
#define ENGINE_TX_BYTES QP_BURST_BYTES /* of one engine_run */
#define ENGINE_DONE_CAP 32             /* received frames that are worked on, and freed, together */
#define ENGINE_ASKED    128            /* QPs that answer ahead of turns (turn.h) */
#define ENGINE_QUANTUM  64             /* packets a QP may send before the next has its turn */
#define ENGINE_WORK     256u           /* steps without a packet, of all QPs, of one engine_run */

/*
 * Addresses of a device as its workers see them: an unchanging list that the control thread
 * replaces as a whole (by engine_set_addrs on every worker) and frees after a grace period.
 */
struct engine_member { /* a UD QP that listens to a multicast group (WIRE-10) */
	uint8_t gid[16];
	uint32_t qpn;
};
struct engine_addrs {
	uint32_t ngids, nmembers;
	const uint8_t (*gid)[16];
	const struct engine_member *member;
};

struct engine_dev { /* what the engine knows of a device (an ethdev port) */
	bool present;
	bool unknown_id;                /* engine_set_unknown_id */
	uint16_t vid;                   /* of its VLAN; 0: frames without a tag, or with VID 0 */
	uint64_t mac;                   /* as the first 6 bytes of a frame read, the rest 0 */
	struct counter_block *counters; /* this worker's block for the device */
	/* Atomic. NULL: every address is taken for ours, no groups. */
	const struct engine_addrs *addrs;
	struct rte_mempool *pool;             /* frames to send on it come from there .. */
	struct rte_mempool_cache *pool_cache; /* .. by this cache, if there is one */
	uint32_t zero_copy_bytes;             /* as in struct qp_env */
};
#define ENGINE_MAX_DEVS 16

struct engine;
/* Where frames go that are not for a QP of this engine; each consumes the mbuf. */
struct engine_ops {
	/* Not RoCE (ARP, ND, ICMP): for the control thread. False: it has no room. */
	bool (*slow_path)(void *ctx, uint16_t dev, struct rte_mbuf *m);
	/* A checked datagram for the QPN of engine_set_consumer. The same. NULL: not offered. */
	bool (*consumer)(void *ctx, uint16_t dev, struct rte_mbuf *m);
	/* The QPN's owner is another worker. */
	void (*handoff)(void *ctx, uint32_t worker, struct rte_mbuf *m);
	/*
	 * Call engine_timer of qp once at_ns is reached, and not before; this replaces what was
	 * asked for earlier. The callee sets qp->bind.timer_at_ns to at_ns if it succeeds. If it
	 * fails, it is asked again after the QP's next turn or response.
	 */
	void (*set_timer)(void *ctx, struct qp *qp, uint64_t at_ns);
	void (*cq_event)(void *ctx, struct cq *cq);
	void (*async_event)(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq);
	/* As in struct qp_env_ops. NULL: never. */
	bool (*held_up)(void *ctx, const struct qp *qp, uint64_t since_ns);
};

struct engine {
	struct qp_env env;        /* its pool is that of the QP whose turn it is */
	struct rte_mempool *pool; /* of devices that have none of their own */
	struct rte_mbuf *tx[ENGINE_TX_CAP];
	struct rte_mbuf *done[ENGINE_DONE_CAP]; /* of the burst that engine_rx is at */
	uint32_t done_n;
	uint32_t asked_n;
	struct qp *asked[ENGINE_ASKED]; /* given requests since the last turn, once each or more */
	bool rx_loopback;               /* within engine_rx_loopback */
	uint32_t loop_zero_copy_bytes; /* zero_copy_bytes of struct qp_env where frames loop back */
	struct run_list run;
	struct wire_memo memo; /* of the heads of received frames */
	struct engine_dev dev[ENGINE_MAX_DEVS];
	const struct qp_table *qps;
	uint32_t worker; /* its QPs are those that qps says it owns */
	uint32_t lcore;  /* whose caches of pools are used; UINT32_MAX: none */
	const struct engine_ops *ops;
	void *ops_ctx;
	uint32_t consumer_qpn; /* atomic; of engine_set_consumer */
};

/*
 * Make an engine. pool, sqes, mrs and qps belong to the caller and outlive it; of sqes no other
 * engine takes anything.
 */
void engine_init(struct engine *e, struct rte_mempool *pool, struct qp_sqe_pool *sqes,
		 const struct mr_table *mrs, const struct qp_table *qps, uint32_t worker,
		 const struct engine_ops *ops, void *ops_ctx);

/*
 * Before engine_set_pool: the caches of pools that are used are those of this EAL lcore, on
 * which the engine runs. None are, at first.
 */
void engine_set_lcore(struct engine *e, uint32_t lcore);

/* A device appears on this engine. counters: this worker's counters of it. */
void engine_add_dev(struct engine *e, uint16_t dev, const uint8_t mac[6],
		    struct counter_block *counters);

/* The worker's own thread, or a worker_call: dev takes frames of this VLAN only; 0, as at first: of
 * none. */
void engine_set_vlan(struct engine *e, uint16_t dev, uint16_t vid);

/*
 * The worker's own thread, or a worker_call: received IPv4 frames of dev do not have the
 * identification that they had on the wire, because the port could not see it. An ICRC is taken for
 * right if it is right for some identification (wire_icrc_check_any_id). False at first.
 */
void engine_set_unknown_id(struct engine *e, uint16_t dev, bool unknown_id);

/*
 * The worker's own thread, or a worker_call: frames to send on dev are made in buffers of pool from
 * now on (NULL: of the engine's), which belongs to the caller. With room as qp_env's, but that
 * dev's MTU sets the payload.
 */
void engine_set_pool(struct engine *e, uint16_t dev, struct rte_mempool *pool);

/*
 * Before the first engine_run: segments for payloads that stay in client memory (qp/segs.h), which
 * belong to the caller. Without any, as at first, payloads are copied.
 */
void engine_set_segs(struct engine *e, struct qp_segs *segs);
/*
 * The worker's own thread, or a worker_call: payloads of so many bytes and more may stay in client
 * memory in frames to send on dev (zero_copy_bytes of struct qp_env); UINT32_MAX, as at first:
 * none.
 */
void engine_set_zero_copy(struct engine *e, uint16_t dev, uint32_t bytes);
/*
 * The same of frames that loop back, whatever the device: they are views then (qp/view.h), and
 * engine_rx_loopback comes before any worker_call.
 */
void engine_set_loop_zero_copy(struct engine *e, uint32_t bytes);

/*
 * Any thread, one at a time: the device's addresses from now on. A burst that has begun may use the
 * list before this one until its end.
 */
void engine_set_addrs(struct engine *e, uint16_t dev, const struct engine_addrs *addrs);

/*
 * Any thread: datagrams for qpn, which is no QP's, are for the consumer of struct engine_ops from
 * now on, and are dropped (DROP_BAD_QPN) for any other number without a QP. 0, as at first: none.
 */
void engine_set_consumer(struct engine *e, uint32_t qpn);

/*
 * n frames that arrived on device dev (or came by handoff for it). Consumes them. Packets are
 * parsed, checked (ICRC, QPN, P_Key, addresses) and given to their QP's half.
 */
void engine_rx(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n);

/* A frame that came by handoff: m->hash.usr. */
#define ENGINE_RX_FRAME 0u
#define ENGINE_RX_EXTRA                                                                            \
	3u /* none of QP_TX_*: a copy for one more member of a group: engine_rx_extra */

/*
 * The same of such a copy: the frame is counted for the members that got it before, so here it is
 * not; when it is refused it is counted as such (COUNTER_MCAST_REFUSED).
 */
void engine_rx_extra(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf *m);

/*
 * The same of frames that this very engine has made for a GID of its own device (QP_TX_LOOPBACK),
 * as they were: their ICRC is not looked at. Where one goes to another worker it gets one first.
 */
void engine_rx_loopback(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m,
			uint32_t n);

/*
 * The worker's own thread, which made the frame m. A frame that loops back and has to wait, or goes
 * elsewhere than engine_rx_loopback, has its payload in its own buffer from now on (qp/view.h).
 * False: the payload is gone, since the QP has flushed; engine_rx_loopback will drop m.
 */
bool engine_own(const struct engine *e, struct rte_mbuf *m);

/*
 * The client rang for qpn (any number: unknown ones and those of others are ignored). The QP that
 * has work, or NULL.
 */
struct qp *engine_doorbell(struct engine *e, uint32_t qpn);

/* qp is ready for a turn, even if its pace holds its requests back. */
void engine_wake(struct engine *e, struct qp *qp);

/*
 * Run QPs in turn until e->env.tx is full (or has ENGINE_TX_BYTES), ENGINE_WORK is spent, or no QP
 * has work; then flush completions. The bounds hold whatever clients do. True when work is left.
 * The caller sends e->env.tx[0 .. tx_n), keeps what the port refused in front, and sets tx_n to
 * that.
 */
bool engine_run(struct engine *e, uint64_t now_ns);

/*
 * The time in ns at which engine_run will find a QP ready that is parked now, because its
 * congestion policy holds its next packet back; sometimes a little before. UINT64_MAX: no QP is
 * parked. QPs that are ready, and timers, do not count. Reads a slot of the run list: for callers
 * that sleep.
 */
uint64_t engine_next_ns(const struct engine *e);

/*
 * The timer of qp went off. Acts on the deadlines that have passed, if any, and asks for a new
 * timer by set_timer if a deadline is left.
 */
void engine_timer(struct engine *e, uint64_t now_ns, struct qp *qp);

/*
 * A UC or UD QP that is about to leave: what was posted to it before goes into e->env.tx, as far as
 * there is room, and completes. A program may send a last datagram, which nothing answers, and
 * destroy its QP: a NIC would have sent it by then. RC's last packets would have no one left to
 * hear their answers, and lie in memory that goes too.
 */
void engine_last_turn(struct engine *e, uint64_t now_ns, struct qp *qp);

/* qp leaves this engine (destroy): off every list, and the copies of its WQEs are void. */
void engine_forget(struct engine *e, struct qp *qp);

#endif
