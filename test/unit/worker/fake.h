/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fake engine that the test's frames control, linked instead of the real one, and a ppoll that
 * can be made to sleep forever.
 */
#ifndef TEST_WORKER_FAKE_H
#define TEST_WORKER_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include "engine/engine.h"
#include "worker/worker.h"

/* First bytes of every frame of these tests. */
struct fake_frame {
	uint8_t action; /* enum fake_action */
	uint8_t owner;  /* FAKE_FOR: worker that keeps it */
	uint16_t pad;
	uint32_t seq;
	uint32_t epoch; /* fake_epoch at its creation */
	uint32_t qpn;   /* FAKE_QP: keep it, or hand it to this QP's worker */
	uint8_t body[48];
};
enum fake_action {
	FAKE_FOR = 1, /* keep it, or hand it to its owner */
	FAKE_SLOW,    /* not RoCE */
	FAKE_QP,
};

/* A frame of such bytes, or NULL. */
static inline struct rte_mbuf *
fake_frame_make(struct rte_mempool *pool, uint8_t action, uint8_t owner, uint32_t seq)
{
	struct fake_frame frame = {.action = action, .owner = owner, .seq = seq};
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	char *to = m != NULL ? rte_pktmbuf_append(m, sizeof(frame)) : NULL;

	if (to == NULL)
		return NULL;
	__builtin_memcpy(to, &frame, sizeof(frame));
	return m;
}

/* Frames that engine_run sends, and events that it raises then: set in a call. */
struct fake_send {
	uint16_t dev;
	uint8_t owner;
	bool loopback;
	uint32_t qpn;        /* not 0: the frames are FAKE_QP, one in each call */
	const struct qp *qp; /* not NULL: it sends them, whatever worker it is on */
	uint32_t next, end, events;
};

#define FAKE_LOG 65536
struct fake_worker { /* written by the worker's engine; n is stored last, and read first */
	uint32_t rx_n;
	struct {
		uint32_t seq;
		uint16_t dev;
	} rx[FAKE_LOG];
	uint32_t bell_n;
	uint32_t bell[FAKE_LOG];
	uint32_t timer_n;
	uint64_t timer_now_ns;
	uint32_t timer_rx_n;   /* value of rx_n when the last timer fired */
	uint32_t given, taken; /* QPs */
	struct fake_send send;
};
extern struct fake_worker fake[UROCE_MAX_WORKERS];
/* Atomic. Not NULL: what a worker sends from when the next QP begins to leave it. */
extern const struct fake_send *fake_at_leave;

/* Number n of a fake_worker, as seen by another thread. */
#define FAKE_COUNT(n) __atomic_load_n(&(n), __ATOMIC_ACQUIRE)

/* Whether QPs may move; FAKE_GIVES_NOT_THEN: they may until they leave. Atomic. */
extern enum fake_gives { FAKE_GIVES, FAKE_GIVES_NOT, FAKE_GIVES_NOT_THEN } fake_gives;
extern uint32_t fake_disorder; /* FAKE_QP frames that came out of order, or to another QP; atomic */

/*
 * While true, engine_run sends frames of two segments, or zero-copy frames (qp/view.h) if they loop
 * back. Counts: refused frames that kept both segments; zero-copy frames received; those received
 * after a call had advanced fake_epoch.
 */
/* Atomic: tests set it while workers run. */
extern bool fake_views;
#define FAKE_FLAG(flag) __atomic_load_n(&(flag), __ATOMIC_RELAXED)
extern uint32_t fake_views_kept, fake_views_seen, fake_views_late, fake_epoch;

/* While true, ppoll sleeps until its descriptor is written. Counts the threads in such a sleep. */
extern bool fake_sleep_for_ever;
extern uint32_t fake_sleeping;

/* Once, before the next read of the descriptor fake_read_fd. */
extern void (*fake_before_read)(void);
extern int fake_read_fd;

#endif
