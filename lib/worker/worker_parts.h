/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of a worker. Private to lib/worker.
 *
 *   worker.c    the set and the loop
 *   ack_delay.c  ACKs that wait for the client's answer
 *   ports.c     attaching ports
 *   call.c      calls and jobs from the control thread, and waking a worker
 *   grace.c     grace periods: when no worker uses a removed object any more
 *   event.c     events to the control thread
 *   mad_gate.c  which datagrams for QP1 it gets
 *   doorbell.c  the clients' doorbell rings
 *   hot_queue.c send queues that are polled without a doorbell
 *   host.c      frames to and from the kernel interface of a device
 *   handoff.c   received frames that come from other workers or by loopback
 *   move.c      QPs that move from one worker to another
 *   tx.c        frames to ports, to loopback, to the worker that has the port's queue
 *   timer.c     clock and QP timers
 *   stall.c     timers of workers that did not run
 *   capture.c   copies of frames, for a capture
 *   steps.c     times of the steps of messages
 *   idle.c      yields and sleeps
 *   waiter.c    waking clients that sleep until a completion, and handing the core over to them
 *
 * Functions run on the worker unless they say otherwise. unsigned results count the work done:
 * an iteration with 0 everywhere was idle.
 */
#ifndef WORKER_WORKER_PARTS_H
#define WORKER_WORKER_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>
#include "counters/counters.h"
#include "port/queue.h"
#include "sched/waiting.h"
#include "worker/blame.h"
#include "worker/capture.h"
#include "worker/mad_gate.h"
#include "worker/steps.h"
#include "engine/engine.h"
#include "worker/worker.h"

#define WORKER_RX_BURST    32
#define WORKER_RX_SUPER    64   /* of a port with super-frames */
#define WORKER_RING_FRAMES 1024 /* frames handed over and not yet taken, per direction */
#define WORKER_LO_FRAMES   256  /* looped back per iteration */
#define WORKER_EVENTS      16384
#define WORKER_DATAGRAMS   1024 /* outstanding WORKER_EV_DATAGRAM events, at most .. */
#define WORKER_STRANGERS   768  /* .. while no QP is connected to their sender */
#define WORKER_HOT_QPS     8
#define WORKER_WAITERS     8    /* contexts whose threads are woken in one iteration */
#define WORKER_VIEW_BYTES  1024 /* smaller payloads are copied: cheaper than two more segments */
#define WORKER_TIMERS_WAIT 64   /* most iterations that timers wait for received frames */
/*
 * A worker without an iteration for this long did not run, because others used its core or the
 * daemon was stopped. Longer than its longest sleep.
 */
#define WORKER_STALL_NS 20000000ull
#define WORKER_HELD_EVENTS                                                                         \
	2048 /* events waiting for space in the ring; no new work is taken meanwhile */

/*
 * A port that has accepted no frame for this long, less a few stalls of its worker, drops its
 * frames, as a dead link would: they must not delay those of other ports, and RC retransmits.
 */
#define WORKER_PORT_DEAD_NS 100000000ull

/*
 * A socket that was full holds READ responses back for this long (qp_env.read_limit_ns). If they
 * still are too many for it after that, it is full once more, and only then.
 */
#define WORKER_OVERFLOW_NS 1000000000ull

/* Kind of a frame of the control thread or the kernel, in addition to QP_TX_*: not RoCE. */
#define TX_CONTROL 2u

struct worker_rxq {
	struct port_queue q;
	bool inward;   /* as in struct port_params */
	int fd;        /* of port_rx_fd */
	uint64_t lost; /* for port_queue_overflow */
};

/* Sending on a device by this worker. */
struct worker_dev {
	bool present;
	bool own_queue;
	uint8_t refused_stalls; /* stalls that refused_since_ns was moved by */
	uint16_t tx_worker;     /* !own_queue: a worker that has one */
	uint16_t rx_workers;    /* workers 0 .. rx_workers - 1 have a receive queue; at least one */
	struct port_queue queue;   /* own_queue */
	uint64_t refused_since_ns; /* the port has accepted no frame since; 0: it accepts */
};

struct worker_doorbell {
	struct uroce_db_ring *ring; /* shared, hostile */
	uint32_t cons;              /* private; the shared copy is only for the client to read */
	uint32_t *waiter;           /* shared, hostile: of the context's first ring */
	uint32_t waited;            /* the value last seen there .. */
	uint64_t waited_ns;         /* .. and when it was first seen */
	uint8_t user;               /* qp_user_place of its client */
	bool scanning;              /* a scan after an overflow is not finished */
	bool scan_again;            /* restart the scan then: more doorbells were lost */
	worker_scan_fn *overflow;
	void *ctx;
};

/* The control thread's record of a doorbell ring that the worker polls. */
struct worker_wake {
	struct uroce_db_ring *ring;
	int fd; /* eventfd shared with this client only */
};

/* The one call in progress. Written by the control thread, except done. */
struct worker_mailbox {
	void (*fn)(struct worker *w, void *arg);
	void *arg;
	uint32_t posted; /* calls so far */
	uint32_t done;   /* calls run so far */
};

/*
 * Moves (move.c): this worker asks another one for a QP, and keeps the QP's frames meanwhile. The
 * other one sets the state from MOVE_ASKED on, this one to MOVE_NONE and MOVE_ASKED.
 */
enum move_state {
	MOVE_NONE = 0,
	MOVE_ASKED,
	MOVE_REFUSED,
	MOVE_GIVEN, /* qp and wqes are this worker's */
};
#define MOVE_FRAMES WORKER_RING_FRAMES /* kept; more are lost */
#define MOVE_STRAYS 16                 /* QPs of others whose frames are counted */
struct worker_move {
	uint32_t state; /* enum move_state; atomic */
	uint32_t qpn;   /* not MOVE_NONE */
	struct qp *qp;
	uint8_t *wqes;  /* ENGINE_MOVE_BYTES */
	uint32_t first; /* frames of the ring that are older than what a QP that came loops back */
	uint32_t nframes;
	struct rte_mbuf *frame[MOVE_FRAMES];
	/* by slot of the QP table: a QP of another worker, and its frames that came to a queue of
	 * this one since it was asked for */
	struct worker_stray {
		uint32_t qpn, frames;
		uint64_t bytes;
	} * stray;
	uint64_t asked_bytes; /* those of the QP that is asked for */
	uint32_t random;
	/* another worker asks for a QP of this one */
	bool is_asked;
	bool by_operator;
	uint32_t asked_qpn;
	unsigned to; /* that worker */
	/* the QP leaves; NULL: none does */
	struct qp *leaves;
	uint64_t token; /* grace period after which no worker passes frames for it to this one */
	bool over;      /* it is over: rest frames of the ring may be for the QP */
	uint32_t rest, refused;
};

/* Workers that have not taken enough of this one's frames (handoff.c): a bit each. */
struct worker_full {
	uint32_t full;     /* until the rest is small */
	uint32_t waits;    /* those of them for which this worker receives nothing from ports */
	uint64_t since_ns; /* waits != 0 */
};

struct worker {
	struct engine engine;
	struct worker_set *ws;
	uint64_t now_ns; /* of this iteration */
	/* time of iterations that found nothing to do, sleeps included, and of those that did work;
	   read by any thread */
	uint64_t spent_ns[2];
	unsigned worked; /* the last iteration did work: index in spent_ns */
	unsigned index, lcore;

	struct worker_rxq *rxqs; /* space for a queue of every device */
	unsigned nrxqs;
	struct worker_doorbell *doorbells;
	unsigned ndoorbells;       /* at most nwakes; space for wakes_room */
	unsigned next_doorbell;    /* where the next iteration begins */
	struct worker_wake *wakes; /* owned by the control thread, like the two numbers */
	unsigned nwakes, wakes_room;

	struct qp_segs *segs;
	struct qp_sqe_pool *sqes;
	struct qp_sr_pool *sr;
	/* ACKs that wait for the client's answer (ack_delay.c) */
	struct {
		uint32_t n; /* the first n frames of env.tx wait */
		struct backoff tries;
		uint64_t since_ns; /* n != 0: iteration in which the wait began */
		bool spin;         /* n != 0: the client is on another CPU */
	} hold;
	struct rte_mbuf *lo[WORKER_LO_FRAMES]; /* looped back, received in the next iteration */
	uint32_t lo_n;
	struct rte_mbuf *fwd[ENGINE_TX_CAP]; /* frames of others that the port refused */
	uint32_t fwd_n;
	uint32_t poke; /* a bit for each worker that got frames in this iteration */
	bool notify;   /* events were put in this iteration */
	uint32_t *waiters[WORKER_WAITERS]; /* shared: words of clients to wake (uroce_db_ring) */
	unsigned nwaiters;
	/* the word of the client on this CPU that was woken last and may want the core; NULL: none
	 */
	const uint32_t *handed;
	uint64_t released_ns;     /* last wake-up of a client that waited for too long */
	uint64_t beside_until_ns; /* until then clients on this CPU sleep for want of a yield */
	uint32_t
		host_poke; /* a bit for each device whose host queue got frames in this iteration */
	bool more;         /* the engine has work left */
	struct worker_event held[WORKER_HELD_EVENTS];
	uint32_t held_n;
	uint64_t events_lost;
	TAILQ_HEAD(, qp_timer) due; /* expired timers that were not handled yet (timer.c) */
	bool from_port;             /* within ports_rx */
	bool rx_full;         /* a queue or other workers gave a full burst in this iteration */
	unsigned timers_wait; /* iterations since timers were polled */

	unsigned ncaps;                       /* number of captures in cap */
	struct capture *cap[ENGINE_MAX_DEVS]; /* captures by device; NULL: none */
	struct steps *steps;                  /* list of the QPs that are followed */
	struct stamp steps_rx;                /* the last burst was received */
	unsigned watches;                     /* ncaps and the length of the list */

	struct {
		struct qp *qp;
		uint64_t used_ns; /* when it last had work */
	} hot[WORKER_HOT_QPS];
	unsigned nhot;
	struct worker_move move;
	struct worker_full full;

	struct worker_job *jobs; /* taken from posted_jobs, the oldest first */
	uint64_t grace;          /* the last grace period that this worker has reported for */

	uint32_t blame_gen;     /* blame.gen of the pauses that the engine has .. */
	uint64_t blame_next_ns; /* .. and when the next of these ends */
	uint32_t tid;           /* of its thread; set before launched is seen */

	uint64_t idle_since_ns; /* 0: not idle */
	uint64_t sleep_ns;      /* length of the next sleep */
	uint64_t spun_ns; /* last idle iteration that kept the core; 0: it was given up since */
	uint64_t alone_until_ns; /* no other thread used this core: no yield until then */
	struct crowd crowd;      /* others use this core: sleep, do not yield */
	/* this descriptor ended the last sleep, and was not read since */
	bool own_rang, client_rang;
	bool port_rang; /* a port's descriptor ended the last sleep, and no frame was found since */

	/* written or read by other threads */
	struct rte_ring *in __rte_cache_aligned; /* frames to receive */
	struct rte_ring *out;                    /* frames to send on our queues */
	int own_fd;                              /* eventfd with which the daemon ends a sleep */
	int client_fd; /* epoll of each wake_fd, with which clients end a sleep */
	struct worker_mailbox mail __rte_cache_aligned;
	struct worker_job *posted_jobs; /* pushed by the control thread, newest first */
	uint32_t launched;              /* 1 from worker_set_create until its loop has ended */
	uint32_t stop;
	/* its entry of ws->states; wake it by own_fd */
	struct uroce_worker_state *state;
	/* for the timers of others: now_ns, and when this worker resumed after WORKER_STALL_NS */
	uint64_t ran_ns __rte_cache_aligned;
	uint64_t resumed_ns;
	uint64_t out_clear_ns; /* time of the last iteration that left no frame of out unsent */

	struct worker_dev dev[ENGINE_MAX_DEVS];
	struct counter_block counters[ENGINE_MAX_DEVS];
	struct counter_block counters_none; /* env.counters before the first packet */
};

struct worker_set {
	unsigned n;
	struct rte_rcu_qsbr *qs; /* a worker's thread id is its index */
	enum worker_idle idle;
	bool running;
	struct worker *worker[UROCE_MAX_WORKERS];
	struct rte_ring *events;           /* of struct worker_event */
	struct uroce_worker_state *states; /* a page, read by clients */
	int states_fd;
	int event_fd;
	uint32_t listener_asleep; /* the control thread waits for event_fd */
	bool port_present[ENGINE_MAX_DEVS];
	struct counter_block control_counters[ENGINE_MAX_DEVS];
	struct worker_host *host[ENGINE_MAX_DEVS]; /* of worker_set_host; NULL: none */
	uint32_t datagrams; /* number of WORKER_EV_DATAGRAM in events; atomic */
	uint32_t no_moves;  /* of worker_moves_stop; atomic */
	worker_qp_fn *qp_leaves, *qp_comes;
	struct blame blame;
	struct mad_gate mads;
};

/* call.c */
unsigned call_run(struct worker *w);
/* Runs a bounded number of jobs. */
unsigned job_run(struct worker *w);
bool job_waits(const struct worker *w);
/* Any thread. Wakes w if it sleeps or is about to. Called after the work is posted. */
void worker_wake(struct worker *w);
/* Wakes the workers that got frames in this iteration. */
void wake_poked(struct worker *w);

/* grace.c. Returns NULL without memory; freed by free(). */
struct rte_rcu_qsbr *grace_create(unsigned nworkers);
/* Reports that the worker holds no reference to objects found before this iteration. */
void grace_report(struct worker *w, uint64_t token);
/* Called before and after a sleep, in which the worker holds no references. */
void grace_offline(struct worker *w);
void grace_online(struct worker *w);
/* Returns the newest grace period. Not reported by this worker if it differs from w->grace. */
static inline uint64_t
grace_newest(const struct worker *w)
{
	return __atomic_load_n(&w->ws->qs->token, __ATOMIC_RELAXED);
}
static inline void
grace_quiescent(struct worker *w)
{
	uint64_t token = grace_newest(w);

	if (unlikely(token != w->grace))
		grace_report(w, token);
}

/* blame.c. blame_stop: nothing if the thread was not started. */
void blame_stop(struct worker_set *ws);
/* Makes w's engine follow the pauses that have begun or ended. */
void blame_apply(struct worker *w);
/* Called at the start of an iteration. */
static inline void
blame_look(struct worker *w)
{
	qp_env_serve(&w->engine.env, 0);
	if (unlikely(__atomic_load_n(&w->ws->blame.gen, __ATOMIC_RELAXED) != w->blame_gen ||
		     w->now_ns >= w->blame_next_ns))
		blame_apply(w);
}
/* From now on, w uses memory of this user. Returns false if it must not: the user is paused. */
static inline bool
blame_serve(struct worker *w, uint8_t user)
{
	qp_env_serve(&w->engine.env, user);
	return !engine_is_paused(&w->engine, user);
}

/* event.c: upcalls of the engine, and the end of an iteration */
bool event_frame(void *ctx, uint16_t dev, struct rte_mbuf *m);
enum drop_reason event_datagram(void *ctx, uint16_t dev, struct rte_mbuf *m,
				const struct wire_pkt *pkt);
void event_cq(void *ctx, struct cq *cq);
void event_failed(void *ctx, const struct qp *qp);
void event_async(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq);
/* The thread of blame.c: this user (a place) pauses from now on. */
void event_paused(struct worker_set *ws, uint8_t user);
/* Notifies the control thread of events put. */
void event_notify(struct worker *w);
/* Retries events that found the ring full. Returns true if none is left. */
bool event_retry_held(struct worker *w);

/* host.c: an upcall of the engine, and the end of an iteration: wakes the threads that got frames
 */
bool host_frame(void *ctx, uint16_t dev, struct rte_mbuf *m);
void host_wake(struct worker *w);
static inline void
host_notify(struct worker *w)
{
	if (unlikely(w->host_poke != 0))
		host_wake(w);
}

/* doorbell.c */
unsigned doorbell_poll(struct worker *w);
bool doorbell_waits(struct worker *w);

/* hot_queue.c: qp's client rang (NULL: no client did); poll hot queues; a QP leaves */
void hot_queue_rang(struct worker *w, struct qp *qp);
unsigned hot_queue_poll(struct worker *w);
void hot_queue_forget(struct worker *w, const struct qp *qp);

/* handoff.c; handoff_to is an upcall of the engine */
void handoff_to(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *m);
/* The worker (w: itself, in move_keeps) has many frames of w to take. */
void handoff_full(struct worker *w, uint32_t worker);
/* Returns true if w waits for such a worker: it receives nothing from ports and no loopback frames.
 */
bool handoff_look(struct worker *w);
static inline bool
handoff_waits(struct worker *w)
{
	return unlikely(w->full.full != 0) && handoff_look(w);
}
unsigned handoff_rx(struct worker *w);
/* Receives frames, whose devices are set, of QPs that this worker has. Consumes them. */
void handoff_receive(struct worker *w, struct rte_mbuf **m, uint32_t n);
unsigned loopback_rx(struct worker *w);
/* Copies the payload of frames that loop back, so that they do not refer to client memory. */
void loopback_own(struct worker *w);

/*
 * move.c. A message of another worker in the ring `in`: no mbuf has such an address. It asks for a
 * QP.
 */
static inline bool
move_is_message(const void *in)
{
	return ((uintptr_t)in & 1) != 0;
}
void move_asked(struct worker *w, const void *message);
/* m, for a QP of another worker, has come: takes it and returns true if this worker keeps it. */
bool move_keeps(struct worker *w, uint32_t worker, uint32_t qpn, struct rte_mbuf *m);
/* m has come to a queue, for a QP of another worker: counts it, and asks for the QP in the end.
 */
void move_stray(struct worker *w, const struct rte_mbuf *m, uint32_t worker, uint32_t qpn);
/* The end of an iteration: answers the worker that asks. */
void move_answer(struct worker *w);
static inline void
move_end(struct worker *w)
{
	if (unlikely(w->move.is_asked || w->move.leaves != NULL))
		move_answer(w);
}
/* qp is destroyed. */
void move_forget(struct worker *w, const struct qp *qp);
/* Called before anything that may use a QP that another worker has given to w. */
void move_take(struct worker *w);
/* Receives the frames that other workers have handed over until a QP came. */
void move_receive_handed(struct worker *w);
/* Receives the frames of a QP that this worker has kept, behind the move's end. */
void move_receive_kept(struct worker *w);
static inline void
move_receive(struct worker *w)
{
	if (unlikely(w->move.nframes != 0 &&
		     __atomic_load_n(&w->move.state, __ATOMIC_RELAXED) == MOVE_NONE))
		move_receive_kept(w);
}
/* Has the worker that w has asked answered? */
static inline bool
move_waits(const struct worker *w)
{
	return __atomic_load_n(&w->move.state, __ATOMIC_ACQUIRE) > MOVE_ASKED;
}
static inline void
move_look(struct worker *w)
{
	if (unlikely(move_waits(w)))
		move_take(w);
}

/*
 * ack_delay.c. Called after the engine has run; received: number of frames received in this
 * iteration. If it sets hold.n, this iteration sends nothing, idle_hold follows, and the next
 * iteration receives nothing from ports.
 */
void ack_delay_run(struct worker *w, unsigned received);

/* tx.c */
unsigned tx_flush(struct worker *w);
/* Drops all frames for device dev, which is removed. */
void tx_forget_dev(struct worker *w, uint16_t dev);

/*
 * stall.c: an upcall of the engine; start of an iteration gap_ns >= WORKER_STALL_NS after the last
 */
bool stall_held_up(void *ctx, const struct qp *qp, uint64_t since_ns);
void stall_over(struct worker *w, uint64_t gap_ns);

/* capture.c, called if ncaps is not 0: captures frames to send */
/*
 * Called if watches is not 0. As engine_rx, and captures the frames with what became of each. e is
 * a worker's.
 */
void captured_rx(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n);
void captured_sent(struct worker *w, struct rte_mbuf *const *m, uint32_t n);

/*
 * steps.c, called if steps is not NULL: new WQEs may have been found; instead of engine_run and of
 * port_queue_tx; a burst was received. steps_cq is an upcall of the engine.
 */
void steps_found(struct worker *w);
void steps_run(struct worker *w);
uint16_t steps_tx(struct worker *w, const struct port_queue *q, struct rte_mbuf **m, uint16_t n);
void steps_rx(struct worker *w);
void steps_cq(void *ctx, const struct qp *qp, bool written);

/* worker.c: counts received frames of one device, from a port or looped back */
void worker_count_rx(struct counter_block *counters, struct rte_mbuf *const *m, unsigned n);

/* timer.c; timer_set is an upcall of the engine */
int timer_init(void); /* control thread; 0 or -errno */
void timer_set(void *ctx, struct qp *qp, uint64_t at_ns);
/* Stops qp's timer, which goes to another worker with it. */
void timer_leave(struct worker *w, struct qp *qp);
/* Handles expired timers, a bounded number in each iteration. Returns their number. */
unsigned timer_poll(struct worker *w);
/*
 * Returns nanoseconds until the next timer, or until a paced QP may send; UINT64_MAX: neither. 0:
 * an expired timer is left.
 */
uint64_t timer_next_ns(const struct worker *w);

/*
 * waiter.c. An upcall of the engine: a client sleeps until a completion of cq's context, which has
 * one. waiters_wake wakes these clients at the end of the engine's work.
 */
void waiter_found(void *ctx, struct cq *cq);
void waiters_wake(struct worker *w);
/* db's word is set: wakes the client if it has waited on this CPU for UROCE_WAITER_NS. */
void waiter_seen(struct worker *w, struct worker_doorbell *db);
/* Before a sleep: wakes all clients that wait on this CPU. */
void waiters_release(struct worker *w);
/* Returns true if a client on this CPU was woken and has neither posted nor gone back to sleep. */
bool waiter_has_core(const struct worker *w);
/* Returns true if such a client was woken shortly before. */
static inline bool
waiter_is_beside(const struct worker *w)
{
	return w->now_ns < w->beside_until_ns;
}
static inline void
waiters_notify(struct worker *w)
{
	if (unlikely(w->nwaiters != 0))
		waiters_wake(w);
}

/*
 * idle.c: whether other threads may want this core; the wait of held ACKs; an iteration that found
 * no work, or some
 */
bool idle_may_yield(const struct worker *w);
void idle_hold(struct worker *w);
void idle_empty(struct worker *w);
static inline void
idle_busy(struct worker *w)
{
	w->idle_since_ns = 0;
	w->spun_ns = 0;
}

#endif
