/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a thread gives up its core when it finds its CQ empty. Whether it does so is cq_idle.c's
 * decision; here is how often, and for how long.
 *
 * A yield hands the core over in less than a microsecond where the daemon is on the same one. A
 * thread may poll several CQs in turn, and a completion could wait in one of them while the thread
 * yields for the next. So it yields when it is back at the CQ where it began, and then looks there
 * again at once.
 *
 * A yield reaches only the caller's scheduling group, and a daemon in another session is in another
 * one (autogroups, cgroups): it would wait for the end of the time slice, milliseconds. So a thread
 * that has found nothing for PROV_YIELD_NS sleeps for the shortest time there is, which is some 55
 * us. While the daemon has sends of the CQ to work on, the thread sleeps again after another
 * PROV_YIELD_NS. A thread that only waits for somebody else's message sleeps after 50 us, 100 us,
 * 200 us and so on: it may have other things to do (an MPI rank has its neighbours in shared
 * memory), and the sleeps together stay a small part of its time.
 *
 * A worker that this thread has just woken needs about as long as PROV_YIELD_NS to run: to sleep
 * then would double the time until its first completion. So that may take PROV_YIELD_WAKING_NS.
 *
 * A yield that nobody uses still costs some 0.5 us, in which nothing is polled. The time tells: a
 * switch to somebody else and back takes several times as long. A thread that was alone does not
 * yield again for PROV_ALONE_NS. (lib/worker/idle.c does the same on the other side.)
 *
 * Beside threads that compute, each yield takes as long as their slices. On such a crowded core
 * (sched/crowd.h) the thread does not yield: each pause is a sleep. It does not sleep right after a
 * long yield, but yields again, which tells a crowd from a scheduling group that waited for its
 * turn.
 *
 * Idleness is the thread's, not the CQ's: a thread that polls an empty CQ and a busy one in turn is
 * busy.
 */
#ifndef UROCE_VERBS_IDLE_H
#define UROCE_VERBS_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/crowd.h"

#define PROV_YIELD_NS        50000
#define PROV_YIELD_WAKING_NS 200000
#define PROV_YIELD_CQS       16   /* polled between two yields, at most */
#define PROV_ALONE_YIELD_NS  1000 /* a yield that took less let nobody else run */
#define PROV_ALONE_NS        5000

struct prov_idle {
	uint64_t since_ns; /* first pause since the last progress; 0: busy */
	uint64_t sleep_ns; /* the next sleep is due so long after since_ns; 0: the first is */
	const void *first; /* the CQ whose empty polls pause; NULL: the next that is found empty */
	uint32_t others;   /* empty polls since the last one that paused */
	uint64_t alone_until_ns; /* nobody else was on this core: no yield until then */
	struct crowd crowd;      /* others compute on this core: sleep, do not yield */
	bool waking;             /* since the last progress a worker was woken */
};
extern __thread struct prov_idle prov_idle __attribute__((tls_model("initial-exec")));

/* The calling thread posted something, or polled a completion. */
static inline void
prov_idle_busy(void)
{
	prov_idle.since_ns = 0;
	prov_idle.sleep_ns = 0;
	prov_idle.first = NULL;
	prov_idle.others = 0;
	prov_idle.waking = false;
}

/* The calling thread found cq empty: was it round all of its CQs? Then a pause is due. */
static inline bool
prov_idle_round(const void *cq)
{
	if (prov_idle.first != cq && prov_idle.others < PROV_YIELD_CQS) {
		if (prov_idle.first == NULL)
			prov_idle.first = cq;
		prov_idle.others++;
		return false;
	}
	prov_idle.first = cq;
	prov_idle.others = 0;
	return true;
}

/* The monotonic clock. */
uint64_t prov_idle_now_ns(void);
/* A pause is due at now_ns: is it a sleep? Else a yield. */
bool prov_idle_sleeps(uint64_t now_ns);
/* The pauses themselves; no lock may be held. outstanding: the daemon has sends to work on. */
void prov_idle_yield(uint64_t now_ns);
void prov_idle_sleep(bool outstanding);

#endif
