/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a thread gives up its core when it finds its CQ empty. cq_idle.c decides whether it does so;
 * this file decides how often and for how long.
 *
 * A yield hands the core over in less than a microsecond if the daemon is on the same core. A
 * thread may poll several CQs in turn, and a completion could arrive in one of them while the
 * thread yields for another. It therefore yields when it is back at the CQ where it began, and
 * polls that CQ again at once.
 *
 * A yield reaches only the caller's scheduling group. A daemon that systemd started, or a peer in
 * another session, is in another group (cgroups, autogroups) and would wait for the end of the time
 * slice, which takes milliseconds. A thread that has found nothing for PROV_YIELD_NS therefore
 * sleeps until a worker posts a completion (waiter in uroce_abi/ring.h), for about 55 us at most.
 * While the daemon has sends of the CQ to process, the thread sleeps again after another
 * PROV_YIELD_NS. A thread that only waits for a peer's message sleeps after 50 us, 100 us, 200 us
 * and so on: it may have other work (an MPI rank has its neighbours in shared memory), and all
 * sleeps together stay a small part of its time.
 *
 * A wait that ended in such a sleep, by a completion, shows that its yields were of no use: those
 * who had to run were in another group, or took longer. The next wait then begins with a sleep,
 * after the next such wait the next three, then seven and so on, up to PROV_SKIP_MAX. A wait that
 * ends during its yields resets this, and so does a long sleep that no completion ends. Once the
 * thread is used to sleeping at once, its sleeps are longer, because programming a timer costs as
 * much as some messages on a virtual machine.
 *
 * A worker that this thread has just woken needs about PROV_YIELD_NS until it runs. A sleep at that
 * moment would double the time until the first completion, so the limit is then
 * PROV_YIELD_WAKING_NS.
 *
 * A yield that no other thread uses still costs about 0.5 us, in which nothing is polled. Its
 * duration shows this: a switch to another thread and back takes several times as long. After such
 * a yield the thread does not yield again for PROV_ALONE_NS. (lib/worker/idle.c does the same for
 * workers.)
 *
 * Beside threads that compute, each yield takes as long as their time slices. On such an
 * oversubscribed core (sched/waiting.h) the thread does not yield: each pause is a sleep. It does
 * not sleep right after a long yield, but yields again, to tell an oversubscribed core from a
 * scheduling group that waited for its turn.
 *
 * Idle time is counted for the thread, not for the CQ: a thread that polls an empty and a busy CQ
 * in turn is busy.
 */
#ifndef UROCE_VERBS_IDLE_H
#define UROCE_VERBS_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/waiting.h"

#define PROV_YIELD_NS        50000
#define PROV_YIELD_WAKING_NS 200000
#define PROV_YIELD_CQS       16 /* polled between two yields, at most */
#define PROV_ALONE_NS        5000
#define PROV_SLEEP_NS        50000
#define PROV_SLEEP_LONG_NS   4000000 /* beyond the scheduler's tick: no timer is programmed */
#define PROV_SKIP_MAX        1023
#define PROV_SKIP_LONG       7 /* back is so high or higher: sleeps are long */

struct prov_idle {
	uint64_t since_ns; /* first pause since the last progress; 0: busy */
	uint64_t sleep_ns; /* the next sleep is due this long after since_ns; 0: the first is */
	const void *first; /* the CQ whose empty polls pause; NULL: the next CQ found empty */
	uint32_t others;   /* empty polls since the last one that paused */
	uint64_t alone_until_ns;   /* no other thread was on this core: no yield until then */
	struct crowd crowd;        /* threads compute on this core: sleep, do not yield */
	bool waking;               /* since the last completion a worker was woken */
	bool slept;                /* since the last progress this thread has slept */
	struct backoff yields;     /* skipped: the wait begins with a sleep */
	const uint32_t *announced; /* the word that the next sleep is on; its CQs are polled */
	uint32_t value;            /* the value that this thread has stored there */
};
extern __thread struct prov_idle prov_idle __attribute__((tls_model("initial-exec")));

/* The calling thread posted something. */
static inline void
prov_idle_busy(void)
{
	prov_idle.since_ns = 0;
	prov_idle.sleep_ns = 0;
	prov_idle.first = NULL;
	prov_idle.others = 0;
	prov_idle.slept = false;
}

/* The calling thread polled a completion. */
static inline void
prov_idle_found(void)
{
	if (prov_idle.since_ns != 0 && !backoff_skips(&prov_idle.yields))
		backoff_tried(&prov_idle.yields, !prov_idle.slept, PROV_SKIP_MAX);
	prov_idle.waking = false;
	prov_idle_busy();
}

/* The calling thread found cq empty. True if it has polled all of its CQs: a pause is due. */
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
/* A pause is due at now_ns. True: it is a sleep; false: a yield. */
bool prov_idle_sleeps(uint64_t now_ns);
/*
 * The pauses themselves; no lock may be held. outstanding: the daemon has sends to work on. A sleep
 * lasts ns, or until word is no longer value; NULL: there is no word. Returns false if it lasted
 * ns.
 */
void prov_idle_yield(uint64_t now_ns);
bool prov_idle_sleep(const uint32_t *word, uint32_t value, bool outstanding);

#endif
