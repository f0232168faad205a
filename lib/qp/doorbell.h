/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doorbell protocol: when a client must ring for posted WQEs. Both sides are here; the daemon,
 * the provider and all test clients use only these functions.
 *
 * A queue (uroce_ring_hdr) has two states, given by its `armed` field:
 *
 *   armed 0  the worker polls the queue, or has work in it
 *   armed 1  the worker does not poll: the client rings for the next WQE that it posts
 *
 *   0 -> 1   by the worker, when the queue is empty: qp_doorbell_arm
 *   1 -> 0   by the client, which then rings: qp_doorbell_publish; or by the worker, when it has
 *            found a WQE: qp_doorbell_disarm
 *
 * Each side stores, issues a full fence and loads what the other side stores. Therefore either the
 * worker sees the WQE, or the client sees `armed`.
 *
 * To ring means to put the QPN into the doorbell ring of the QP's worker (uroce_db_ring), and to
 * write the worker's eventfd if it sleeps. A full doorbell ring is marked as overflowed; the worker
 * then polls every QP of the client. lib/worker/doorbell.c consumes the QPNs.
 *
 * Includes only the ABI, so that the provider can include this header.
 */
#ifndef QP_DOORBELL_H
#define QP_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>
#include <uroce_abi/ring.h>

/*
 * Client. Publish all WQEs before index prod in the queue of hdr. Returns true if the caller must
 * ring the doorbell; the queue is then no longer armed. Several threads may post to a queue if they
 * serialise by a lock.
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

/* The same for a client on the worker's thread, which needs no fence. */
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
 * Worker. Stop polling: the client must ring for WQEs posted from now on. Returns false if the
 * client has posted a WQE at or behind index head meanwhile; it may or may not ring for it.
 */
static inline bool
qp_doorbell_arm(struct uroce_ring_hdr *hdr, uint32_t head)
{
	__atomic_store_n(&hdr->armed, 1, __ATOMIC_RELAXED);
	/* Partner: the fence in qp_doorbell_publish. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&hdr->prod, __ATOMIC_ACQUIRE) == head;
}

/* Worker. Poll the queue again: the client need not ring. */
static inline void
qp_doorbell_disarm(struct uroce_ring_hdr *hdr)
{
	__atomic_store_n(&hdr->armed, 0, __ATOMIC_RELAXED);
}

/*
 * Client. Put qpn into the doorbell ring of its worker, or mark the ring as overflowed. The caller
 * holds the lock shared by all users of the ring in this process, and calls qp_doorbell_is_asleep
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
 * Client. Called after qp_doorbell_ring, with or without the lock. Returns true if the worker may
 * sleep; the caller must then write 8 bytes to its eventfd.
 */
static inline bool
qp_doorbell_is_asleep(const struct uroce_worker_state *worker)
{
	/* Partner: the worker's fence between setting asleep and its last poll. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&worker->asleep, __ATOMIC_RELAXED) != 0;
}

#endif
