/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers: one lcore each, running an engine over queues of the ports. The control thread reaches a
 * worker by worker_call and worker_post (functions run between two bursts) and gets events through
 * the event ring; no locks, no shared lists.
 *
 * Loop of a worker: rx bursts of its queues and the handoff ring -> engine_rx; frames looped back
 * -> engine_rx_loopback; calls from the control thread; doorbell rings -> engine_doorbell; timers;
 * engine_run; tx bursts. Idle: "poll" spins; "adaptive" spins, yields, then sleeps on its eventfd
 * (written by doorbells, calls and handoffs) for bounded times, because not every port can wake it.
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

struct worker; /* defined in worker_parts.h */

/* Events for the control thread. */
enum worker_event_kind {
	WORKER_EV_CQ = 1,   /* write cq's channel */
	WORKER_EV_ASYNC,    /* asynchronous event ev of qp or cq */
	WORKER_EV_FAILED,   /* qp has failed; its recorder says why. Lost if the ring is full */
	WORKER_EV_FRAME,    /* slow path: mbuf m of device dev; the receiver frees it */
	WORKER_EV_DATAGRAM, /* RoCE datagram m (consumer of struct engine_ops), freed likewise */
	WORKER_EV_PAUSED,   /* the users at place id pause (blame.h). Lost if the ring is full */
};
struct worker_event {
	uint32_t kind;
	uint16_t ev;  /* enum qp_event */
	uint16_t why; /* enum uroce_error: why the QP failed; 0: it did not */
	void *obj;    /* struct cq *, struct qp * or struct rte_mbuf * */
	uint16_t dev;
	uint16_t worker;
	uint32_t id; /* qpn or cq id, to detect a destroyed object; datagram: its ticket
			(mad_gate.h) */
};

struct worker_set; /* all workers of the daemon */
typedef void worker_qp_fn(struct worker *w, struct qp *qp);
struct worker_params {
	unsigned nworkers;      /* 1 .. UROCE_MAX_WORKERS */
	const unsigned *lcores; /* EAL worker lcore of each */
	enum worker_idle idle;
	const struct mr_table *mrs;
	const struct qp_table *qps;
	struct rte_mempool *pool;
	/* Called on the worker that gives a QP to another one, and on that one. NULL: not wanted */
	worker_qp_fn *qp_leaves, *qp_comes;
};

/* Control thread (EAL main lcore). Creates and starts the workers. Returns NULL with errno. */
struct worker_set *worker_set_create(const struct worker_params *p);
/* Stops the loops, waits for them, frees everything. Ports must have been removed before. */
void worker_set_destroy(struct worker_set *ws);
unsigned worker_count(const struct worker_set *ws);
struct worker *worker_get(struct worker_set *ws, unsigned i);

/*
 * Control thread. Starts the thread that finds out whose memory workers wait for, and pauses these
 * users (worker/blame.h), while several users are served. 0 or -errno. worker_set_destroy ends it.
 */
int worker_blame_start(struct worker_set *ws);
/* Control thread. Are contexts of several users open? A lone user delays nobody but itself. */
void worker_blame_several(struct worker_set *ws, bool several);
/* Control thread. The user (qp_user_place) whose request it handles from now on; 0: nobody's. */
void worker_control_serves(struct worker_set *ws, uint8_t user);
/* Any thread. For how many ns the user at a place (qp_user_place) still pauses; 0: it does not. */
uint64_t worker_paused_ns(const struct worker_set *ws, uint8_t user);
/*
 * Any thread. May workers access further memory of the user at a place? Not for BLAME_DISTRUST_NS
 * after it had to pause because of holes in its memory: there would be more.
 */
bool worker_trusts(const struct worker_set *ws, uint8_t user);

/* Any thread. Nanoseconds since the workers were created, never 0; CQE timestamps use it. */
uint64_t timer_now_ns(void);

/*
 * Control thread. Runs fn(w, arg) on the worker between two bursts and waits for it. fn may use
 * everything the worker owns (QPs, engine); it must not block.
 */
void worker_call(struct worker *w, void (*fn)(struct worker *w, void *arg), void *arg);
/* The same, on the worker that has qp then: QPs may move between workers. */
void worker_call_qp(struct worker_set *ws, const struct qp *qp,
		    void (*fn)(struct worker *w, void *arg), void *arg);
/* Runs fn on all workers, one after the other: afterwards all have passed a quiescent point. */
void worker_call_all(struct worker_set *ws, void (*fn)(struct worker *w, void *arg), void *arg);
void worker_quiesce(struct worker_set *ws);

/*
 * A function that a worker runs while the control thread continues. The caller owns the memory,
 * fills in run and arg, and keeps it unchanged until worker_job_done.
 */
struct worker_job {
	struct worker_job *next; /* owned by lib/worker */
	/* Runs on the worker, between two bursts. Returns false to run again next time. */
	bool (*run)(struct worker *w, void *arg);
	void *arg;
	const struct qp *qp; /* runs on the worker that has it then; NULL: on the one posted to */
	uint32_t done;       /* owned by lib/worker */
};
/*
 * Control thread. Posts job to w, which runs its jobs in the order of posting. Does not wait: when
 * the job is done, worker_event_fd becomes readable.
 */
void worker_post(struct worker *w, struct worker_job *job);
/* Control thread. Returns true if job is done: its writes are visible, its memory reusable. */
bool worker_job_done(const struct worker_job *job);

/*
 * Moves. A QP may move to the worker whose queues its packets come to, if its own worker has queues
 * of the port, too; packets that come through one queue keep their order. It does so between two
 * bursts.
 *
 * Control thread. From worker_moves_stop until worker_moves_go, which may be nested, QPs stay where
 * they are, so that a worker_call_all reaches each once. worker_moves_stop blocks until each worker
 * has begun another iteration.
 *
 * A QP that has left the table does not move any more after a grace period. If it was given away
 * before, its new worker takes it before its next call or job.
 */
void worker_moves_stop(struct worker_set *ws);
void worker_moves_go(struct worker_set *ws);
/* Control thread. worker_call_all for a function that looks for QPs of its worker (qp_worker). */
void worker_call_qps(struct worker_set *ws, void (*fn)(struct worker *w, void *arg), void *arg);
/*
 * Control thread. Moves qp to worker i, at the operator's request, even if it is pinned. Returns
 * NULL if it is there, else why it is not, in English.
 */
const char *worker_move_qp(struct worker_set *ws, const struct qp *qp, unsigned i);

/*
 * Grace periods (rte_rcu_qsbr.h). Control thread. Objects removed from the shared tables before
 * worker_grace_start are no longer used by any worker once worker_grace_over(ws, its result) is
 * true. A sleeping worker holds no reference: it is neither waited for nor woken. Later results are
 * larger, and their grace periods end later or at the same time. worker_event_fd becomes readable
 * when a worker reports a quiescent state.
 */
uint64_t worker_grace_start(struct worker_set *ws);
bool worker_grace_over(struct worker_set *ws, uint64_t token);
/*
 * Control thread. Waits for a grace period, blocking. Unlike worker_quiesce, does not guarantee
 * that doorbells rung before were served.
 */
void worker_wait_readers(struct worker_set *ws);

/*
 * In a worker_call: return the worker's engine and index, and its counters of a device (any thread
 * may read those).
 */
struct engine *worker_engine(struct worker *w);
unsigned worker_index(const struct worker *w);
struct counter_block *worker_counters(struct worker *w, uint16_t dev);
/*
 * How a worker has spent its time since worker_set_create. Added when an iteration begins: a sleep
 * that still lasts is missing (10 ms at most).
 */
struct worker_usage {
	uint64_t busy_ns; /* in iterations that did work */
	uint64_t idle_ns; /* in others, yields and sleeps included */
	unsigned lcore;   /* its EAL lcore */
	bool asleep;      /* now */
};
/* Any thread. NUMA node of its core; negative: it may run on several, or the machine has one. */
int worker_node(const struct worker *w);
/* Any thread. */
void worker_usage_get(const struct worker *w, struct worker_usage *u);
/* Control thread. Returns its own counters of a device, which are not among the workers'. */
struct counter_block *worker_control_obs(struct worker_set *ws, uint16_t dev);

/*
 * Control thread. Attaches a port; spreads its queues over the workers, if it is started. Returns 0
 * or -errno.
 */
int worker_add_port(struct worker_set *ws, struct port *p);
void worker_del_port(struct worker_set *ws, struct port *p);
/*
 * Control thread. Called before and after a port_restart. While p is paused, no worker uses its
 * queues, frames for it are dropped (COUNTER_TX_PORT_DOWN), QPs and counters stay. p must be
 * started before it is resumed. Pausing a paused port is harmless.
 */
void worker_pause_port(struct worker_set *ws, struct port *p);
void worker_resume_port(struct worker_set *ws, struct port *p);

/*
 * Called on the worker. Scans the next QPs of the context ctx, at most WORKER_SCAN_QPS, because its
 * ring lost a doorbell: from the first QP if `first`, else from where the last call ended. Returns
 * true if QPs are left.
 */
typedef bool worker_scan_fn(struct worker *w, void *ctx, bool first);
#define WORKER_SCAN_QPS 64u
/*
 * Control thread. Opens an eventfd of worker w for a context's doorbell ring (shared memory,
 * hostile), which is not accessed yet. Returns 0 or -errno.
 */
int worker_add_doorbell(struct worker *w, struct uroce_db_ring *ring);
/*
 * Control thread. Makes worker w poll a ring that was added. waiter: the word of the context's
 * first ring. user: qp_user_place of its client. Calls overflow with ctx.
 */
void worker_poll_doorbell(struct worker *w, struct uroce_db_ring *ring, uint32_t *waiter,
			  uint8_t user, worker_scan_fn *overflow, void *ctx);
/*
 * The end of a ring. First, in a worker_call or a job, the worker stops polling it, if it does;
 * then, on the control thread, its eventfd is closed.
 */
void worker_leave_doorbell(struct worker *w, struct uroce_db_ring *ring);
void worker_close_doorbell(struct worker *w, struct uroce_db_ring *ring);

/*
 * In a worker_call: adds a QP to this worker (its timer runs here), or removes it. The caller then
 * makes it reachable by packets through the QP table, or unreachable. WRs posted to a UC or UD QP
 * are sent before it is removed (engine_last_turn).
 */
int worker_adopt_qp(struct worker *w, struct qp *qp);
void worker_forget_qp(struct worker *w, struct qp *qp);
/*
 * In a worker_call: sends what is posted to a UD QP of this worker, as far as there is space
 * (engine_last_turn), before something that the WRs name is destroyed. The QP goes on as before.
 */
void worker_send_posted(struct worker *w, struct qp *qp);

/*
 * Any thread. The descriptor of the workers' states (struct uroce_worker_state, in the order of
 * worker_get), for clients. They cannot map it for writing.
 */
int worker_states_fd(const struct worker_set *ws);
/*
 * Control thread. Returns the eventfd to write when the worker is asleep and this doorbell ring has
 * an entry. Only the ring's client gets it, and may do anything to it.
 */
int worker_wake_fd(struct worker *w, const struct uroce_db_ring *ring);

/* Readable when events wait. The control thread drains them with worker_events and sleeps again. */
int worker_event_fd(struct worker_set *ws);
unsigned worker_events(struct worker_set *ws, struct worker_event *ev, unsigned max);
/*
 * Control thread. The datagram of this event was useful: it does not count against its sender,
 * whose later datagrams are dropped (DROP_MAD_LIMIT) if too many were not (worker/mad_gate.h).
 */
void worker_datagram_useful(struct worker_set *ws, const struct worker_event *ev);
/*
 * Control thread. One QP more, or one fewer, is connected to the host of this GID: floods of hosts
 * without one do not keep its datagrams out.
 */
void worker_host_connected(struct worker_set *ws, const uint8_t gid[16], bool more);

/*
 * Control thread. Sends a frame on a device through worker 0 (ARP, ND, ICMP); consumes m. Returns 0
 * or -ENOBUFS, which is counted (COUNTER_TX_CONTROL_LOST).
 */
int worker_send_frame(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m);
/*
 * Passes a RoCE frame for an address of the device itself to worker 0, which receives it. Consumes
 * m; returns as worker_send_frame does.
 */
int worker_send_loopback(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m);
/* Control thread. Number of frames of these two kinds that worker 0 has not taken yet. */
uint32_t worker_frames_waiting(const struct worker_set *ws);

/*
 * Queue of a device's frames for the kernel, from workers and the control thread to one other
 * thread. The owner creates both ring (multiple producers, one consumer) and wake_fd (an eventfd).
 */
struct worker_host {
	struct rte_ring *ring;
	int wake_fd;
	uint32_t asleep; /* atomic: the consumer waits for wake_fd, or is about to */
};
/*
 * Control thread, while dev's port is not added: its frames that are neither RoCE nor for the slow
 * path go to h, which the caller owns, from the next worker_add_port on. NULL (default): dropped.
 */
void worker_set_host(struct worker_set *ws, uint16_t dev, struct worker_host *h);
/*
 * Any thread. Puts m into the ring and wakes the consumer. Returns false if the ring is full; the
 * caller then keeps m.
 */
bool worker_host_put(struct worker_host *h, struct rte_mbuf *m);
/*
 * Consumer. Prepares to wait for wake_fd. Returns false if frames are queued: do not wait. Call
 * worker_host_awake after the wait.
 */
bool worker_host_sleeps(struct worker_host *h);
void worker_host_awake(struct worker_host *h);
/*
 * Consumer. Sends frames from the kernel on dev through worker 0, whose ring reserves half of its
 * space for other frames. Returns how many of m[0 .. n) were accepted, from the first on.
 */
uint32_t worker_send_host(struct worker_set *ws, uint16_t dev, struct rte_mbuf **m, uint32_t n);

#endif
