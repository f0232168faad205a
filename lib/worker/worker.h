/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers: one lcore each, running an engine over queues of the ports. The control thread talks to
 * a worker only by worker_call (a function run between two bursts) and hears from it through the
 * event ring; no locks, no shared lists.
 *
 * Loop of a worker: rx bursts of its queues and the handoff ring -> engine_rx; frames looped back
 * -> engine_rx_loopback; calls from the control thread; doorbell rings -> engine_doorbell; timers;
 * engine_run; tx bursts. Idle: "poll" spins; "adaptive" spins, yields, then sleeps on its eventfd
 * (rung by doorbells, calls and handoffs) for bounded times, since not every port can wake it.
 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <uroce_abi/ring.h>
#include "port/port.h"
#include "engine/engine.h"

enum worker_idle {
	WORKER_IDLE_POLL = 0,
	WORKER_IDLE_ADAPTIVE = 1,
};

struct worker; /* worker/worker.c and its siblings */

/* What a worker tells the control thread. */
enum worker_event_kind {
	WORKER_EV_CQ = 1,   /* write cq's channel */
	WORKER_EV_ASYNC,    /* asynchronous event ev of qp or cq */
	WORKER_EV_FRAME,    /* slow path: mbuf m of device dev; the receiver frees it */
	WORKER_EV_DATAGRAM, /* the same of a RoCE datagram (consumer of struct engine_ops) */
};
struct worker_event {
	uint32_t kind;
	uint32_t ev; /* enum qp_event */
	void *obj;   /* struct cq *, struct qp * or struct rte_mbuf * */
	uint16_t dev;
	uint16_t worker;
	uint32_t id; /* qpn or cq id, to recognise an object that is gone by now */
};

struct worker_set; /* all workers of the daemon */
struct worker_params {
	unsigned nworkers;      /* 1 .. UROCE_MAX_WORKERS */
	const unsigned *lcores; /* EAL worker lcore of each */
	enum worker_idle idle;
	const struct mr_table *mrs;
	const struct qp_table *qps;
	struct rte_mempool *pool;
};

/* Control thread (EAL main lcore). Makes the workers and starts their loops. NULL with errno. */
struct worker_set *worker_set_create(const struct worker_params *p);
/* Stops the loops, waits for them, frees everything. Ports must have been removed before. */
void worker_set_destroy(struct worker_set *ws);
unsigned worker_count(const struct worker_set *ws);
struct worker *worker_get(struct worker_set *ws, unsigned i);

/* Any thread. Nanoseconds since the workers were made, never 0: what CQEs' timestamps are of. */
uint64_t timer_now_ns(void);

/*
 * Control thread. Run fn(w, arg) on the worker between two bursts and wait for it. Everything the
 * worker owns (QPs, engine) may be touched in fn; it must not block.
 */
void worker_call(struct worker *w, void (*fn)(struct worker *w, void *arg), void *arg);
/* The same on every worker, one after the other: afterwards all have passed a quiescent point. */
void worker_call_all(struct worker_set *ws, void (*fn)(struct worker *w, void *arg), void *arg);
void worker_quiesce(struct worker_set *ws);

/*
 * A function for a worker to run while the control thread does something else. The memory is the
 * caller's, who fills in run and arg and keeps all of it until worker_job_done.
 */
struct worker_job {
	struct worker_job *next; /* lib/worker's */
	/* On the worker, between two bursts. False: not finished, run it again in the next
	 * iteration. */
	bool (*run)(struct worker *w, void *arg);
	void *arg;
	uint32_t done; /* lib/worker's */
};
/*
 * Control thread. Have w run job; jobs of a worker run in the order in which they were posted. Does
 * not wait: when the job is done, worker_event_fd becomes readable.
 */
void worker_post(struct worker *w, struct worker_job *job);
/* Control thread. Has job been run? What it wrote is visible then, and its memory free to reuse. */
bool worker_job_done(const struct worker_job *job);

/*
 * Grace periods (rte_rcu_qsbr.h). Control thread. What left the shared tables before
 * worker_grace_start is no longer used by any worker once worker_grace_over(ws, its result) is
 * true. A worker that sleeps holds no reference and is neither waited for nor woken. Later results
 * are larger, and their grace periods end later or at the same time. worker_event_fd becomes
 * readable when a worker reports a quiescent state.
 */
uint64_t worker_grace_start(struct worker_set *ws);
bool worker_grace_over(struct worker_set *ws, uint64_t token);
/*
 * Control thread. Waits for a grace period, blocking. Unlike worker_quiesce, this does not mean
 * that doorbells rung before were served.
 */
void worker_wait_readers(struct worker_set *ws);

/* In a worker_call: the worker's engine and index; its counters of a device (any thread may read).
 */
struct engine *worker_engine(struct worker *w);
unsigned worker_index(const struct worker *w);
struct counter_block *worker_counters(struct worker *w, uint16_t dev);
/* Control thread: what itself has counted of a device, beside the workers. */
struct counter_block *worker_control_obs(struct worker_set *ws, uint16_t dev);

/*
 * Control thread. Attach a port: its queues are spread over the workers, if it is started. 0 or
 * -errno.
 */
int worker_add_port(struct worker_set *ws, struct port *p);
void worker_del_port(struct worker_set *ws, struct port *p);
/*
 * Control thread. Around a port_restart: no worker uses p's queues any more, what is sent on it is
 * lost (COUNTER_TX_PORT_DOWN), QPs and counters stay; and once p is started, all is as before.
 * Pausing one that is paused is harmless.
 */
void worker_pause_port(struct worker_set *ws, struct port *p);
void worker_resume_port(struct worker_set *ws, struct port *p);

/*
 * Looks at the next QPs of the context ctx, WORKER_SCAN_QPS at most, because its ring lost a
 * doorbell: from the first QP if `first`, else where the last call ended. True when QPs are left.
 * On the worker.
 */
typedef bool worker_scan_fn(struct worker *w, void *ctx, bool first);
#define WORKER_SCAN_QPS 64u
/*
 * Control thread. Watch a context's doorbell ring (shared memory, hostile) on worker w, with an
 * eventfd for it. 0 or -errno.
 */
int worker_add_doorbell(struct worker *w, struct uroce_db_ring *ring, worker_scan_fn *overflow,
			void *ctx);
void worker_del_doorbell(struct worker *w, struct uroce_db_ring *ring);
/*
 * The two steps of worker_del_doorbell, for callers that do not block: in a worker_call or a job,
 * the worker stops watching ring; after that, on the control thread, its eventfd is closed.
 */
void worker_leave_doorbell(struct worker *w, struct uroce_db_ring *ring);
void worker_close_doorbell(struct worker *w, struct uroce_db_ring *ring);

/*
 * In a worker_call: a QP begins or ends to be this worker's (its timer lives here). Afterwards it
 * is or is not reachable by packets through the QP table, which the caller changes. What was posted
 * to a UC or UD QP goes out before it is forgotten (engine_last_turn).
 */
int worker_adopt_qp(struct worker *w, struct qp *qp);
void worker_forget_qp(struct worker *w, struct qp *qp);

/*
 * Control thread. The eventfd to write when this doorbell ring says asleep. It is given to the
 * ring's client, who may do anything to it, and to no other.
 */
int worker_wake_fd(struct worker *w, const struct uroce_db_ring *ring);

/* Readable when events wait; the control thread drains with worker_events, then sleeps again. */
int worker_event_fd(struct worker_set *ws);
unsigned worker_events(struct worker_set *ws, struct worker_event *ev, unsigned max);

/*
 * Control thread. Send a frame on a device through worker 0 (ARP, ND, ICMP); consumes m. 0 or
 * -ENOBUFS, which is counted (COUNTER_TX_CONTROL_LOST).
 */
int worker_send_frame(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m);
/* The same of a RoCE frame for an address of the device itself: worker 0 receives it. */
int worker_send_loopback(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m);

#endif
