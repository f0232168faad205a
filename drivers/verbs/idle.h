/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a thread does that finds its CQ empty on cores that the daemon shares (UROCE_HELLO_YIELD).
 *
 * At first it yields: with the daemon on the same core that hands it over in less than a
 * microsecond. Not on every empty poll, since a thread may have several CQs: what came while others
 * had the core would lie in one while it yields for the next. So it yields when it is back at the
 * CQ where it began, and then looks there again at once. But a yield reaches only the caller's
 * scheduling group, and a daemon in another session is in another one (autogroups, cgroups): it
 * would wait for the end of the time slice, milliseconds. So a thread that has got nowhere for
 * UV_YIELD_NS sleeps for the shortest time there is, which is some 55 us.
 *
 * A worker that this thread has just woken needs about as long as UV_YIELD_NS to run: to sleep then
 * would double the time until its first completion. So that may take UV_YIELD_WAKING_NS.
 *
 * A yield that nobody uses still costs some 0.5 us, in which nothing is polled. It is told by that:
 * a switch to somebody else and back takes several times as long. Who was alone does not yield
 * again for UV_ALONE_NS. (lib/worker/idle.c does the same on the other side.)
 *
 * Idleness is the thread's, not the CQ's: who polls an empty CQ and a busy one in turn is busy.
 */
#ifndef UROCE_VERBS_IDLE_H
#define UROCE_VERBS_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UV_YIELD_NS        50000
#define UV_YIELD_WAKING_NS 200000
#define UV_YIELD_CQS       16   /* polled between two yields, at most */
#define UV_ALONE_YIELD_NS  1000 /* a yield that took less let nobody else run */
#define UV_ALONE_NS        5000

struct uv_idle {
	uint64_t since_ns; /* first yield since the last progress; 0: busy */
	const void *first; /* the CQ whose empty polls yield; NULL: the next that is found empty */
	uint32_t others;   /* empty polls since the last one that yielded */
	uint64_t alone_until_ns; /* nobody else was on this core: no yield until then */
	bool waking;             /* since the last progress a worker was woken */
};
extern __thread struct uv_idle uv_idle __attribute__((tls_model("initial-exec")));

/* The calling thread posted something, or polled a completion. */
static inline void
uv_idle_busy(void)
{
	uv_idle.since_ns = 0;
	uv_idle.first = NULL;
	uv_idle.others = 0;
	uv_idle.waking = false;
}

/* The calling thread found cq empty: was it round all of its CQs? Then uv_idle_pause is due. */
static inline bool
uv_idle_round(const void *cq)
{
	if (uv_idle.first != cq && uv_idle.others < UV_YIELD_CQS) {
		if (uv_idle.first == NULL)
			uv_idle.first = cq;
		uv_idle.others++;
		return false;
	}
	uv_idle.first = cq;
	uv_idle.others = 0;
	return true;
}

/* The calling thread found nothing: lets somebody else have the core. No lock may be held. */
void uv_idle_pause(void);

#endif
