/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of the messages of one QP: when its worker found each posted message, gave its frame to the
 * port, received it and completed it, and when it yielded or slept meanwhile. For uroce-bench
 * latency --breakdown, whose clients stamp their own steps in the same form. All processes of a
 * machine read the same counter of cycles, so the stamps of both ends can be merged.
 *
 * A QP that is followed should have one message in flight at a time. Its worker stamps a step of a
 * burst once, with the number of the last message. A worker that follows none pays for a test for
 * each received message, and one in each iteration and in each burst sent.
 */
#ifndef WORKER_STEPS_H
#define WORKER_STEPS_H

#include <stdint.h>

struct steps;
struct worker_set;
struct qp;

/* In the order of a message's life, from its sender's client to its receiver's. */
enum stamp_kind {
	STAMP_POST,      /* client: calls ibv_post_send */
	STAMP_POSTED,    /* client: the call has returned */
	STAMP_FOUND,     /* worker: finds the WQE, by a doorbell or in a queue that it polls */
	STAMP_TAKEN,     /* worker: begins the run of the engine that takes the WQE */
	STAMP_SEND,      /* worker: calls the port with the message's last frame */
	STAMP_SENT,      /* worker: the port has returned */
	STAMP_RECEIVED,  /* worker: the port's receive call has returned that frame */
	STAMP_PLACED,    /* worker: the payload is in the client's memory */
	STAMP_COMPLETED, /* worker: the CQE is written */
	STAMP_POLLED,    /* client: ibv_poll_cq has returned the completion */
	STAMP_KINDS,
	/* Other things that the worker did; n is their duration in ns. */
	STAMP_YIELDED = STAMP_KINDS, /* sched_yield let another thread run */
	STAMP_SLEPT,
	STAMP_WOKE, /* a system call that wakes a client; n: 0 */
};

struct stamp {
	uint64_t tsc; /* stamp_tsc; of YIELDED, SLEPT and WOKE at the end */
	uint32_t n;   /* number of the message of this QP, sent or received, from 0 */
	uint16_t cpu;
	uint16_t kind; /* enum stamp_kind */
};
_Static_assert(sizeof(struct stamp) == 16, "a file of steps is an array");

/* Any thread. The machine's counter of cycles. */
static inline uint64_t
stamp_tsc(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#endif
}

#define STEPS_QPS 4u /* followed at a time, at most, by all workers together */

/* Control thread. Space for max steps of a QP; freed by free(). Returns NULL without memory. */
struct steps *steps_create(uint32_t qpn, uint32_t max);
/*
 * Control thread. The worker of qp, which has the number of s, writes its steps to s, which no
 * worker uses yet. A QP that moves to another worker is not followed any more.
 */
void worker_steps_start(struct worker_set *ws, const struct qp *qp, struct steps *s);
/* Control thread. Ends it. On return no worker uses s. */
void worker_steps_stop(struct worker_set *ws, struct steps *s);
/* After worker_steps_stop. Returns the n steps written, in order; *lost: those without space. */
const struct stamp *steps_get(const struct steps *s, uint32_t *n, uint64_t *lost);
uint32_t steps_qpn(const struct steps *s);

#endif
