/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues, daemon side. The ring is shared memory (uroce_abi/cqe.h); this object holds
 * everything that the client must not be able to change. Made and destroyed by the control
 * thread; workers post. Includes: uroce_abi only.
 */
#ifndef CQ_CQ_H
#define CQ_CQ_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <uroce_abi/cqe.h>
#include <uroce_abi/ring.h>

#define CQ_AHEAD 8 /* entries */

/* A ring in shared memory as the daemon sees it. */
struct cq_ring {
	struct uroce_cq_hdr *hdr;  /* shared */
	struct uroce_cqe *entries; /* shared */
	uint32_t mask;             /* entries - 1 */
	uint32_t log2;             /* of entries */
	uint32_t prod;             /* next slot, free running; atomic when the CQ is multi */
	uint32_t cons;             /* the client's, as last read: a bound, and not a shared line */
};

struct cq {
	struct cq_ring *ring;   /* the one in use: one of the two below */
	struct cq_ring both[2]; /* a resize moves from one to the other */
	bool multi;             /* QPs of more than one worker complete here */
	bool dead;              /* overrun (EVT-08): takes nothing any more */
	bool told;              /* an event is on its way to the control thread; atomic */
	uint32_t id;            /* for people */
	uint64_t user_handle;   /* the client's name for it, in events */
	void *owner;            /* the control thread's object */
};

/* Control thread. hdr: a zeroed header with entries (power of two) zeroed slots behind it. */
void cq_init(struct cq *cq, struct uroce_cq_hdr *hdr, uint32_t entries);

/*
 * Control thread. Completions go to this ring (as in cq_init) from now on, on each worker from its
 * next burst at the latest; once all were quiescent the old ring does not change any more, and
 * stays the client's to read. Then call cq_resized, which moves an arm over.
 */
void cq_resize(struct cq *cq, struct uroce_cq_hdr *hdr, uint32_t entries);
void cq_resized(struct cq *cq);

/*
 * Worker. The ring r seems to have no room for entry i: ask the client's index. False when there is
 * none: the CQ is dead, and says so in hdr->error.
 */
bool cq_find_room(struct cq *cq, struct cq_ring *r, uint32_t i);

/*
 * Worker. Post one completion; phase is filled in here. note, in the head of the queue of WQE
 * index wqe, says which entry it is before that is released (CQE-15). False when the ring is full:
 * the CQ is then dead, hdr->error is set and the caller raises CQ_ERR (EVT-08).
 */
static inline __attribute__((always_inline)) bool
cq_post(struct cq *cq, const struct uroce_cqe *cqe, uint64_t *note, uint32_t wqe)
{
	struct cq_ring *r = __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE);
	struct uroce_cqe *slot;
	uint32_t i;

	i = cq->multi ? __atomic_fetch_add(&r->prod, 1, __ATOMIC_RELAXED) : r->prod++;
	if (i - __atomic_load_n(&r->cons, __ATOMIC_RELAXED) > r->mask && !cq_find_room(cq, r, i))
		return false;
	__atomic_store_n(note, uroce_ring_entry(wqe, i), __ATOMIC_RELEASE);
	slot = &r->entries[i & r->mask];
	/* Polled a lap ago by the client's core: fetched before it is that one's turn. */
	__builtin_prefetch(&r->entries[(i + CQ_AHEAD) & r->mask], 1);
	/* One by one: the caller has them in registers, and makes no copy to be copied. */
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
 * Worker. A completion will be posted some 100 ns from now: fetches the next entry, once more, as a
 * client that waits for it looks at it all the time, and takes it away each time.
 */
static inline __attribute__((always_inline)) void
cq_prefetch(const struct cq *cq)
{
	const struct cq_ring *r = __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE);

	__builtin_prefetch(&r->entries[__atomic_load_n(&r->prod, __ATOMIC_RELAXED) & r->mask], 1);
}

/*
 * Worker. After a full fence that follows the last cq_post: take the client's arm if what was
 * posted since satisfies it. solicited: a solicited or failed completion was among them.
 * True when the notifier must write the channel.
 */
bool cq_take_arm(struct cq *cq, bool solicited);

/*
 * Worker. Is the control thread to be told of a taken arm? False while it has not come to the last
 * one yet: one event then stands for both, so a client that arms all the time costs the event ring
 * one place a CQ.
 */
static inline bool
cq_event_raise(struct cq *cq)
{
	/* Partner: cq_event_taken. */
	return !__atomic_exchange_n(&cq->told, true, __ATOMIC_ACQ_REL);
}

/* Control thread. Comes to the event, and tells the client of it afterwards. */
static inline void
cq_event_taken(struct cq *cq)
{
	/*
	 * Partner: cq_event_raise. What it found true is ordered before the client's event: the
	 * completion is there when the client looks.
	 */
	(void)__atomic_exchange_n(&cq->told, false, __ATOMIC_ACQ_REL);
}

#endif
