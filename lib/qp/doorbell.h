/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a client rings for what it posts. Both sides of the protocol are here: the daemon, the
 * provider and every test client use these functions and no others.
 *
 * A queue (uroce_ring_hdr) is in one of two states, which its `armed` field says:
 *
 *   armed 0  the worker looks at the queue without being asked: it has work there, or it polls
 *   armed 1  the worker looks away: the client rings for the next WQE that it posts
 *
 *   0 -> 1   the worker found nothing: qp_doorbell_arm
 *   1 -> 0   the client, which rings then: qp_doorbell_publish; or the worker, which found
 *            something: qp_doorbell_disarm
 *
 * Both sides store, issue a full fence and load what the other side stores. So either the worker
 * sees the WQE, or the client sees `armed`.
 *
 * To ring is to put the QPN into the doorbell ring of the QP's worker (uroce_db_ring), and to write
 * its eventfd if the worker says that it sleeps. A full doorbell ring is marked as overflowed; the
 * worker then looks at every QP of the client. lib/worker/doorbell.c takes the QPNs out.
 *
 * This header needs nothing but the ABI, so that the provider can include it.
 */
#ifndef QP_DOORBELL_H
#define QP_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>
#include <uroce_abi/ring.h>

/*
 * Client. Everything before index prod is posted to the queue of hdr. True if the caller has to
 * ring the doorbell: the worker asked for it, and asks again when it looks away the next time.
 * Several threads may post to a queue if they hold a lock of theirs.
 */
static inline bool
qp_doorbell_publish(struct uroce_ring_hdr *hdr, uint32_t prod)
{
	__atomic_store_n(&hdr->prod, prod, __ATOMIC_RELEASE);
	/* Partner: the fence in qp_doorbell_arm. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&hdr->armed, __ATOMIC_RELAXED) != 0 &&
	       __atomic_exchange_n(&hdr->armed, 0, __ATOMIC_ACQ_REL) == 1;
}

/* The same for a client that runs on the worker's own thread: it needs no fence. */
static inline bool
qp_doorbell_publish_here(struct uroce_ring_hdr *hdr, uint32_t prod)
{
	__atomic_store_n(&hdr->prod, prod, __ATOMIC_RELEASE);
	if (__atomic_load_n(&hdr->armed, __ATOMIC_RELAXED) != 1)
		return false;
	__atomic_store_n(&hdr->armed, 0, __ATOMIC_RELAXED);
	return true;
}

/*
 * Worker. The client has to ring for what it posts from now on. False: it has posted something
 * behind index head meanwhile, for which it may or may not ring.
 */
static inline bool
qp_doorbell_arm(struct uroce_ring_hdr *hdr, uint32_t head)
{
	__atomic_store_n(&hdr->armed, 1, __ATOMIC_RELAXED);
	/* Partner: the fence in qp_doorbell_publish. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&hdr->prod, __ATOMIC_ACQUIRE) == head;
}

/* Worker. It looks at the queue again: the client need not ring. */
static inline void
qp_doorbell_disarm(struct uroce_ring_hdr *hdr)
{
	__atomic_store_n(&hdr->armed, 0, __ATOMIC_RELAXED);
}

/*
 * Client. Put qpn into the doorbell ring of its worker, or mark the ring as overflowed. The caller
 * holds the lock that all users of the ring in this process share, and calls qp_doorbell_is_asleep
 * next.
 */
static inline void
qp_doorbell_ring(struct uroce_db_ring *db, uint32_t qpn)
{
	uint32_t prod = db->prod;

	if (prod - __atomic_load_n(&db->cons, __ATOMIC_ACQUIRE) >= UROCE_DB_ENTRIES) {
		__atomic_store_n(&db->overflow, 1, __ATOMIC_RELEASE);
		return;
	}
	__atomic_store_n(&db->qpn[prod % UROCE_DB_ENTRIES], qpn, __ATOMIC_RELAXED);
	__atomic_store_n(&db->prod, prod + 1, __ATOMIC_RELEASE);
}

/*
 * Client. After qp_doorbell_ring, with or without the lock: true if the worker may sleep, and the
 * caller has to write 8 bytes to its eventfd.
 */
static inline bool
qp_doorbell_is_asleep(const struct uroce_db_ring *db)
{
	/* Partner: the worker's fence between setting asleep and its last look. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&db->asleep, __ATOMIC_RELAXED) != 0;
}

#endif
