/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ACKs that wait for the client's answer. On a port that is a socket of the kernel, each message
 * costs a system call and a pass through the kernel's network stack, about 3 us. A client that
 * answers a message would wait until the ACK is sent. The worker therefore waits once between the
 * delivery of a message and its ACK. If the client posts an answer meanwhile, both leave in one
 * call, the ACK behind the answer: it is shorter, so the two can form one super-frame.
 *
 * A client on the worker's CPU that yields while its CQ is empty (uroce_cq_hdr.yield_cpu) gets the
 * core for one yield, or one sleep of the worker if a yield does not reach it (waiter.c). A
 * client elsewhere, if it polls, has DELAY_SPIN_NS, in which the worker polls its queue only.
 *
 * An ACK waits once, and only if all frames to send are ACKs. The peer's requester does not care
 * about the order of ACKs and our requests. If there was no answer, or if the wait took long, the
 * next ACKs do not wait, twice as many each time.
 */
#include <sched.h>
#include <string.h>
#include <rte_common.h>
#include "cq/cq.h"
#include "qp/table.h"
#include "worker/worker_parts.h"

#define DELAY_ACKS     4        /* delay no more: a burst for many QPs is not a question */
#define DELAY_RX       4        /* and after no more received frames than this */
#define DELAY_LONG_NS  50000ull /* a yield that took longer was not worth it */
#define DELAY_SPIN_NS  1500ull  /* a completion's way to another core, and the answer's back */
#define DELAY_SKIP_MAX 1024     /* ACKs sent at once after yields that were not worth it */

/* Returns true if all frames to send are ACKs and leave through sockets of this worker. */
static bool
all_acks(const struct worker *w)
{
	const struct qp_env *env = &w->engine.env;

	if (likely(env->acks == 0 || env->acks != env->tx_n || env->acks > DELAY_ACKS))
		return false;
	for (uint32_t i = 0; i < env->tx_n; i++) {
		const struct worker_dev *d = &w->dev[env->tx[i]->port];

		if (env->tx[i]->hash.usr != QP_TX_WIRE || !d->own_queue || d->queue.kind < PORT_UDP)
			return false;
	}
	return true;
}

/* Returns true if a client whose message is acknowledged yields on this CPU. */
static bool
client_is_here(struct worker *w)
{
	const struct qp_env *env = &w->engine.env;
	int cpu = sched_getcpu();

	for (uint32_t i = 0; i < env->tx_n; i++) {
		const struct qp *qp =
			qp_table_find(w->engine.qps, env->tx[i]->hash.fdir.hi & QP_TX_QPN_MASK);

		if (qp == NULL || !blame_serve(w, qp->bind.run_user))
			continue;
		if (qp->bind.recv_cq != NULL && cq_yield_cpu(qp->bind.recv_cq) == cpu)
			return true;
	}
	return false;
}

static void
begin(struct worker *w, unsigned received)
{
	if (received > DELAY_RX || w->more || w->ncaps != 0 || w->fwd_n != 0 || w->lo_n != 0 ||
	    !rte_ring_empty(w->out))
		return;
	if (backoff_skips(&w->hold.tries))
		return;
	w->hold.spin = !((idle_may_yield(w) || waiter_has_core(w)) && client_is_here(w));
	w->hold.n = w->engine.env.tx_n;
	w->hold.since_ns = w->now_ns;
}

static void
end(struct worker *w, unsigned received)
{
	struct rte_mbuf *acks[DELAY_ACKS];
	struct qp_env *env = &w->engine.env;
	uint32_t n = w->hold.n, answers = env->tx_n - n;

	if (w->hold.spin && answers == 0 && received == 0 &&
	    w->now_ns - w->hold.since_ns < DELAY_SPIN_NS)
		return;
	w->hold.n = 0;
	backoff_tried(&w->hold.tries, answers != 0 && w->now_ns - w->hold.since_ns <= DELAY_LONG_NS,
		      DELAY_SKIP_MAX);
	/* a received frame may have caused a response: keep the order of responses */
	if (answers == 0 || received != 0)
		return;
	memcpy(acks, env->tx, n * sizeof(*acks));
	memmove(env->tx, env->tx + n, answers * sizeof(*acks));
	memcpy(env->tx + answers, acks, n * sizeof(*acks));
}

void
ack_delay_run(struct worker *w, unsigned received)
{
	if (unlikely(w->hold.n != 0))
		end(w, received);
	else if (unlikely(all_acks(w)))
		begin(w, received);
}
