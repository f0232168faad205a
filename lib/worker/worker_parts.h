/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of a worker share. Private to lib/worker.
 *
 *   worker.c    the set and the loop
 *   ports.c     attaching ports
 *   call.c      calls and jobs from the control thread, and waking a worker
 *   grace.c     grace periods: when no worker uses any more what the control thread has removed
 *   event.c     events to the control thread
 *   doorbell.c  the clients' doorbell rings
 *   hot_queue.c       queues that are looked at without a doorbell
 *   handoff.c   received frames that come from other workers or by loopback
 *   tx.c        frames to ports, to loopback, to the worker that has the port's queue
 *   timer.c     clock and QP timers
 *   stall.c     workers that did not run: what timers make of it
 *   capture.c   copies of frames, for a capture
 *   idle.c      what to do when there is nothing to do
 *
 * Functions are the worker's own unless they say otherwise. unsigned results count what was done:
 * 0 in all of them is an empty poll.
 */
#ifndef WORKER_WORKER_PARTS_H
#define WORKER_WORKER_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>
#include "counters/counters.h"
#include "port/queue.h"
#include "sched/crowd.h"
#include "worker/capture.h"
#include "engine/engine.h"
#include "worker/worker.h"

#define WORKER_RX_BURST    32
#define WORKER_RING_FRAMES 1024 /* handed over and not yet taken, a worker and direction */
#define WORKER_LO_FRAMES   256  /* looped back in one iteration */
#define WORKER_EVENTS      16384
#define WORKER_DATAGRAMS   1024 /* of these, for consumers of the control thread */
#define WORKER_HOT_QPS     8
#define WORKER_VIEW_BYTES  1024 /* of payload: a copy of less costs less than two more segments */
#define WORKER_TIMERS_WAIT 64   /* iterations, at most, that timers wait for frames to be seen */
/*
 * Without an iteration for so long a worker does not run, be it that others have its core or that
 * the daemon is stopped: more than its longest sleep.
 */
#define WORKER_STALL_NS 20000000ull
#define WORKER_HELD_EVENTS                                                                         \
	2048 /* waiting for room among the events; no work is taken on meanwhile */

/*
 * A port that has taken nothing for so long, less a few stalls of its worker, loses what it is
 * given, as a dead link would: its frames must not keep those of other ports waiting, and RC sends
 * again.
 */
#define WORKER_PORT_DEAD_NS 100000000ull

struct worker_rxq {
	struct port_queue q;
	bool inward; /* as in struct port_params */
	int fd;      /* rx_fd of struct port */
};

/* How this worker sends on a device. */
struct worker_dev {
	bool present;
	bool own_queue;
	uint8_t refused_stalls;  /* since refused_since_ns, at most those that it was moved for */
	uint16_t tx_worker;      /* not own_queue: who has one */
	uint16_t rx_workers;     /* the first so many workers have a receive queue, at least one */
	struct port_queue queue; /* own_queue */
	uint64_t refused_since_ns; /* the port has taken nothing since then; 0: it takes */
};

struct worker_doorbell {
	struct uroce_db_ring *ring; /* shared, hostile */
	uint32_t cons;              /* ours; the shared one is for the client to read only */
	bool scanning;              /* overflow has QPs left to look at .. */
	bool scan_again;            /* .. and begins again then: more doorbells were lost */
	worker_scan_fn *overflow;
	void *ctx;
};

/* The control thread's record of a doorbell ring that the worker watches. */
struct worker_wake {
	struct uroce_db_ring *ring;
	int fd; /* eventfd of this client alone, which has it, too */
};

/* The one call in progress. Written by the control thread, but for done. */
struct worker_mailbox {
	void (*fn)(struct worker *w, void *arg);
	void *arg;
	uint32_t posted; /* calls so far */
	uint32_t done;   /* calls run so far */
};

struct worker {
	struct engine engine;
	struct worker_set *ws;
	uint64_t now_ns; /* of this iteration */
	unsigned index, lcore;

	struct worker_rxq *rxqs; /* room for a queue of every device */
	unsigned nrxqs;
	struct worker_doorbell *doorbells;
	unsigned ndoorbells;       /* at most nwakes; there is space for wakes_room */
	unsigned next_doorbell;    /* where the next iteration begins */
	struct worker_wake *wakes; /* the control thread's, like the two numbers */
	unsigned nwakes, wakes_room;

	struct qp_segs *segs;
	struct qp_sqe_pool *sqes;
	struct rte_mbuf *lo[WORKER_LO_FRAMES]; /* looped back: to receive in the next iteration */
	uint32_t lo_n;
	struct rte_mbuf *fwd[ENGINE_TX_CAP]; /* of others, that the port refused */
	uint32_t fwd_n;
	uint32_t poke; /* bit per worker that was given frames in this iteration */
	bool notify;   /* events were put in this iteration */
	bool more;     /* the engine has work left */
	struct worker_event held[WORKER_HELD_EVENTS];
	uint32_t held_n;
	uint64_t events_lost;
	unsigned timers_fired;
	bool rx_full;         /* a queue, or other workers, gave a whole burst in this iteration */
	unsigned timers_wait; /* iterations since timers were looked at */

	unsigned ncaps;                       /* of cap, that are there */
	struct capture *cap[ENGINE_MAX_DEVS]; /* of devices that are captured */

	struct {
		struct qp *qp;
		uint64_t used_ns; /* when it last had work */
	} hot[WORKER_HOT_QPS];
	unsigned nhot;

	struct worker_job *jobs; /* taken from posted_jobs, the oldest first */
	uint64_t grace;          /* the last grace period that this worker has reported for */

	uint64_t idle_since_ns;  /* 0: was not idle */
	uint64_t sleep_ns;       /* the next sleep */
	uint64_t alone_until_ns; /* nobody else was on this core: no yield until then */
	struct crowd crowd;      /* others compute on this core: sleep, do not yield */
	/* this descriptor ended the last sleep, and was not read yet */
	bool own_rang, client_rang;
	bool port_rang; /* a port's descriptor ended the last sleep, and nothing was found since */

	/* written by others, or read by them */
	struct rte_ring *in __rte_cache_aligned; /* frames to receive */
	struct rte_ring *out;                    /* frames to send on our queues */
	int own_fd;                              /* eventfd that ends a sleep, for the daemon */
	int client_fd;                           /* the same for doorbells: epoll of each wake_fd */
	struct worker_mailbox mail __rte_cache_aligned;
	struct worker_job *posted_jobs; /* pushed by the control thread: the newest first */
	uint32_t launched;              /* 1 from worker_set_create until its loop has ended */
	uint32_t stop;
	uint32_t asleep __rte_cache_aligned; /* wake by own_fd */
	/* for the timers of others: now_ns, when this worker ran again after WORKER_STALL_NS, .. */
	uint64_t ran_ns __rte_cache_aligned;
	uint64_t resumed_ns;
	uint64_t out_clear_ns; /* .. and of the last iteration that left nothing of out unsent */

	struct worker_dev dev[ENGINE_MAX_DEVS];
	struct counter_block counters[ENGINE_MAX_DEVS];
	struct counter_block counters_none; /* what env.counters is before the first packet */
};

struct worker_set {
	unsigned n;
	struct rte_rcu_qsbr *qs; /* a worker's thread id is its index */
	enum worker_idle idle;
	bool running;
	struct worker *worker[UROCE_MAX_WORKERS];
	struct rte_ring *events; /* of struct worker_event */
	int event_fd;
	uint32_t listener_asleep; /* the control thread is to be told of events by event_fd */
	bool port_present[ENGINE_MAX_DEVS];
	struct counter_block control_counters[ENGINE_MAX_DEVS];
	uint32_t datagrams; /* of events: WORKER_EV_DATAGRAM; atomic */
};

/* call.c */
unsigned call_run(struct worker *w);
/* Run jobs, a bounded number. */
unsigned job_run(struct worker *w);
bool job_waits(const struct worker *w);
/* Any thread: w sleeps, or goes to: make it look again. Follows what it is to find. */
void worker_wake(struct worker *w);
/* Wake those whom this iteration has given something. */
void wake_poked(struct worker *w);

/* grace.c. NULL: no memory; to be freed by free(). */
struct rte_rcu_qsbr *grace_create(unsigned nworkers);
/* The worker holds no reference to anything that the shared tables had before this iteration. */
void grace_report(struct worker *w, uint64_t token);
/* Around a sleep: without references, with any. */
void grace_offline(struct worker *w);
void grace_online(struct worker *w);
/* The newest grace period; one that this worker has not reported for, if it is not w->grace. */
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

/* event.c: upcalls of the engine, and the end of an iteration */
bool event_frame(void *ctx, uint16_t dev, struct rte_mbuf *m);
bool event_datagram(void *ctx, uint16_t dev, struct rte_mbuf *m);
void event_cq(void *ctx, struct cq *cq);
void event_async(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq);
/* Tell the control thread of events put. */
void event_notify(struct worker *w);
/* Try again with the events that found no room. True when none is left. */
bool event_retry_held(struct worker *w);

/* doorbell.c */
unsigned doorbell_poll(struct worker *w);
bool doorbell_waits(const struct worker *w);
void doorbell_set_asleep(struct worker *w, uint32_t asleep);

/* hot_queue.c: qp's client has rung (NULL: nobody's has); look at what is hot; a QP leaves this
 * worker */
void hot_queue_rang(struct worker *w, struct qp *qp);
unsigned hot_queue_poll(struct worker *w);
void hot_queue_forget(struct worker *w, const struct qp *qp);

/* handoff.c; handoff_to is an upcall of the engine */
void handoff_to(void *ctx, uint32_t worker, struct rte_mbuf *m);
unsigned handoff_rx(struct worker *w);
unsigned loopback_rx(struct worker *w);
/* Frames that loop back wait: client memory is not to be touched for them any more. */
void loopback_own(struct worker *w);

/* tx.c */
unsigned tx_flush(struct worker *w);
/* Device dev goes: no frame for it stays behind. */
void tx_forget_dev(struct worker *w, uint16_t dev);

/* stall.c: an upcall of the engine; an iteration begins, gap_ns >= WORKER_STALL_NS after the last
 */
bool stall_held_up(void *ctx, const struct qp *qp, uint64_t since_ns);
void stall_over(struct worker *w, uint64_t gap_ns);

/* capture.c, where ncaps is not 0: frames of one device came; frames are to be sent */
void captured_burst(struct worker *w, uint16_t dev, struct rte_mbuf *const *m, uint32_t n);
void captured_sent(struct worker *w, struct rte_mbuf *const *m, uint32_t n);

/* worker.c: frames of one device that a port gave us, or that looped back, came to this worker */
void worker_count_rx(struct counter_block *counters, struct rte_mbuf *const *m, unsigned n);

/* timer.c; timer_set is an upcall of the engine */
int timer_init(void); /* control thread; 0 or -errno */
void timer_set(void *ctx, struct qp *qp, uint64_t at_ns);
unsigned timer_poll(struct worker *w);
/* Nanoseconds until the next timer, or until a paced QP may send; UINT64_MAX: there is neither. */
uint64_t timer_next_ns(const struct worker *w);

/* idle.c: an iteration found nothing / something to do */
void idle_empty(struct worker *w);
static inline void
idle_busy(struct worker *w)
{
	w->idle_since_ns = 0;
}

#endif
