/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues, daemon side. The ring is shared memory (uroce_abi/cqe.h); struct cq holds
 * everything that the client must not be able to change. Created and destroyed by the control
 * thread; workers post. Includes: uroce_abi only.
 */
#ifndef CQ_CQ_H
#define CQ_CQ_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <uroce_abi/cqe.h>
#include <uroce_abi/ring.h>

#define CQ_AHEAD 8 /* prefetch distance in entries */

/* A ring in shared memory as the daemon sees it. */
struct cq_ring {
	struct uroce_cq_hdr *hdr;  /* shared */
	struct uroce_cqe *entries; /* shared */
	uint32_t mask;             /* entries - 1 */
	uint32_t log2;             /* of entries */
	uint32_t prod;             /* next slot, free running; atomic when the CQ is multi */
	uint32_t cons; /* consumer index, cached from hdr: avoids reading a shared line; atomic */
};

struct cq {
	struct cq_ring *ring;   /* the ring in use, one of both */
	struct cq_ring both[2]; /* a resize switches from one to the other */
	bool multi;             /* QPs of more than one worker complete here */
	bool dead;              /* overrun (EVT-08): accepts no more completions */
	bool watched;           /* env->ops->cq_watched hears of received messages (qp/env.h) */
	bool event_pending;     /* an event to the control thread is pending; atomic */
	uint8_t user;           /* place of the user whose memory it is (qp/bind.h); 0: unknown */
	uint32_t *waiter;       /* shared: uroce_db_ring's; cq_init: a word that is always 0 */
	uint32_t id;            /* for logs and tools */
	uint64_t user_handle;   /* the client's identifier, for events */
	void *owner;            /* the control thread's object */
};

/* Control thread. hdr: a zeroed header with entries (power of two) zeroed slots behind it. */
void cq_init(struct cq *cq, struct uroce_cq_hdr *hdr, uint32_t entries);

/*
 * Control thread. Switch to another ring (arguments as for cq_init). Each worker uses it from its
 * next burst at the latest. Once all workers were quiescent the old ring no longer changes and the
 * client may drain it; then call cq_resized, which moves a pending arm to the new ring.
 */
void cq_resize(struct cq *cq, struct uroce_cq_hdr *hdr, uint32_t entries);
void cq_resized(struct cq *cq);

/*
 * Worker. Ring r appears to have no space for entry i: read the client's consumer index. Returns
 * false if the ring is full: the CQ is then dead and hdr->error is set.
 */
bool cq_find_room(struct cq *cq, struct cq_ring *r, uint32_t i);

/*
 * Worker. Post one completion; sets its phase. *note, in the header of the queue that WQE index wqe
 * belongs to, records the entry before it is released (CQE-15). Returns false if the ring is full:
 * the CQ is then dead, hdr->error is set, and the caller raises CQ_ERR (EVT-08).
 */
static inline __attribute__((always_inline)) bool
cq_post(struct cq *cq, const struct uroce_cqe *cqe, uint64_t *note, uint32_t wqe)
{
	struct cq_ring *r = __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE);
	struct uroce_cqe *slot;
	uint32_t i;

	i = cq->multi ? __atomic_fetch_add(&r->prod, 1, __ATOMIC_RELAXED) : r->prod++;
	/* Partner: cq_find_room, perhaps of another worker. The client has read the entry. */
	if (i - __atomic_load_n(&r->cons, __ATOMIC_ACQUIRE) > r->mask && !cq_find_room(cq, r, i))
		return false;
	__atomic_store_n(note, uroce_ring_entry(wqe, i), __ATOMIC_RELEASE);
	slot = &r->entries[i & r->mask];
	/* The client's core polled this line a lap ago: prefetch it before it is needed. */
	__builtin_prefetch(&r->entries[(i + CQ_AHEAD) & r->mask], 1);
	/* Field by field, because the caller has them in registers: avoids a copy in memory. */
	slot->wr_id = cqe->wr_id;
	slot->status = cqe->status;
	slot->opcode = cqe->opcode;
	slot->flags = cqe->flags;
	slot->sl = cqe->sl;
	slot->byte_len = cqe->byte_len;
	slot->imm = cqe->imm;
	slot->qp_num = cqe->qp_num;
	slot->src_qp = cqe->src_qp;
	slot->pkey_index = cqe->pkey_index;
	slot->vendor_err = cqe->vendor_err;
	slot->timestamp_ns = cqe->timestamp_ns;
	slot->qp_cookie = cqe->qp_cookie;
	__atomic_store_n(&slot->phase, (i >> r->log2) + 1, __ATOMIC_RELEASE);
	return true;
}

/*
 * Worker. Prefetch the next entry about 100 ns before a completion is posted. cq_post prefetched it
 * once, but a client that polls the entry pulls the line back each time.
 */
static inline __attribute__((always_inline)) void
cq_prefetch(const struct cq *cq)
{
	const struct cq_ring *r = __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE);

	__builtin_prefetch(&r->entries[__atomic_load_n(&r->prod, __ATOMIC_RELAXED) & r->mask], 1);
}

/*
 * Worker. Called after a full fence that follows the last cq_post. Consume the client's arm if the
 * completions posted since satisfy it. solicited: a solicited or failed completion was among them.
 * Returns true if the completion channel must be notified.
 */
bool cq_take_arm(struct cq *cq, bool solicited);

/*
 * Worker. Called after a full fence that follows the last cq_post: true if a thread of the client
 * has gone to sleep until a completion (uroce_abi/ring.h).
 */
static inline bool
cq_has_waiter(const struct cq *cq)
{
	return __atomic_load_n(cq->waiter, __ATOMIC_RELAXED) != 0;
}

/*
 * Worker. The CPU on which a client's thread yields while it finds the CQ empty; -1: none does. A
 * hint that the client may forge.
 */
static inline int
cq_yield_cpu(const struct cq *cq)
{
	const struct cq_ring *r = __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE);

	return (int)(__atomic_load_n(&r->hdr->yield_cpu, __ATOMIC_RELAXED) - 1u);
}

/*
 * Worker. Must an event be sent to the control thread for a consumed arm? False while the CQ's
 * previous event is pending: that event then covers both. A client that arms all the time thus uses
 * at most one entry of the event ring per CQ.
 */
static inline bool
cq_event_raise(struct cq *cq)
{
	/* Partner: cq_event_taken. */
	return !__atomic_exchange_n(&cq->event_pending, true, __ATOMIC_ACQ_REL);
}

/* Control thread. Take the event; notify the client afterwards. */
static inline void
cq_event_taken(struct cq *cq)
{
	/*
	 * Partner: cq_event_raise. A raise that found event_pending set is ordered before the
	 * client's event, so its completion is visible to the client.
	 */
	(void)__atomic_exchange_n(&cq->event_pending, false, __ATOMIC_ACQ_REL);
}

#endif
