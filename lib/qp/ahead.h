/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads payload ahead from regions that are accessed by ops (mem/mr.h), where an operation of many
 * packets costs hardly more than one of a single packet. A requester reads ahead in the message
 * that it sends and, if no other QP waits, in the messages behind it: their WQEs are posted, so the
 * client leaves the payload alone until they complete. The bytes are good for these messages only.
 * A responder reads ahead within the responses to one READ and within a turn.
 */
#ifndef QP_AHEAD_H
#define QP_AHEAD_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>
#include "mem/mr.h"

struct qp;

#define QP_AHEAD_BYTES (256u * 1024) /* at once */
#define QP_AHEAD_SHORT (64u * 1024)  /* the same, if the rest of the message may wait for long */
#define QP_AHEAD_NS    100000000u    /* for how long: PSNs come again */
#define QP_AHEAD_OLD   8u            /* reads discarded in a burst whose frames still use them */

/* Payload of one message, in a region. */
struct qp_ahead_part {
	uint64_t addr;
	uint32_t len;
	uint32_t psn; /* the message's first */
};

/* What a worker has read: parts of one region, one behind the other. All zero at first. */
struct qp_ahead {
	const struct qp *qp; /* whose requests they belong to; NULL: responses to a READ */
	const struct mr *mr;
	uint64_t read_ns;
	const void *ops_ctx; /* of mr, which may have been registered again since .. */
	uint64_t va;
	uint32_t key; /* .. or freed */
	uint32_t n;   /* parts; 0: nothing */
	/* The last operation of this QP was late: the next one reads one packet, which needs less
	 * of the memory. */
	const struct qp *late;
	struct qp_ahead_part part[MEM_MAX_PARTS];
	struct mem_lent lent; /* their bytes */
	/* Frames of this burst point to them, and to some that were discarded since it began. */
	bool viewed;
	uint32_t nold;
	struct mem_lent old[QP_AHEAD_OLD];
	/* Messages of the received burst whose first packets were written with one before them. */
	struct {
		const struct qp *qp;
		const struct mr *mr;
		uint64_t at_ns;
		uint32_t n;
		struct {
			uint64_t va;
			uint32_t psn, pkts;
		} msg[MEM_MAX_PARTS];
	} prewritten;
};

/* Worker. Discards the payload that was read. */
void qp_ahead_forget(struct qp_ahead *a);

/* Worker. The frames of the last burst no longer point to payload that was read (struct qp_env). */
static inline void
qp_ahead_next_burst(struct qp_ahead *a, uint64_t now_ns)
{
	while (unlikely(a->nold != 0)) {
		a->nold--;
		a->old[a->nold].ops->release(&a->old[a->nold]);
	}
	a->viewed = false;
	if (unlikely(a->n != 0 && now_ns - a->read_ns > QP_AHEAD_NS))
		qp_ahead_forget(a);
}

/*
 * Worker. Discards the payload that was read for qp, and for READ responses. Called before PSNs are
 * used again for other messages (reset, send queue error), and when qp is destroyed.
 */
static inline void
qp_ahead_forget_qp(struct qp_ahead *a, const struct qp *qp)
{
	if (a->qp == qp || a->qp == NULL)
		qp_ahead_forget(a);
	if (a->late == qp)
		a->late = NULL;
	if (a->prewritten.qp == qp)
		a->prewritten.n = 0;
}

/*
 * Worker. Remembers, until the burst ends, n messages received by qp (< MEM_MAX_PARTS): pkts[i]
 * packets from psn[i] on were written to part[i] of mr. Forgets others.
 */
void qp_ahead_prewrite(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp,
		       const struct mr *mr, uint32_t n, const struct mem_part *part,
		       const uint32_t *psn, const uint32_t *pkts);
/* Worker. Returns how many packets from psn on were written to va of mr. Forgets them. */
uint32_t qp_ahead_prewritten(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp,
			     const struct mr *mr, uint32_t psn, uint64_t va);

/*
 * Worker. Returns the bytes [want->addr, want->addr + want->len) of mr, payload of the message
 * want->psn of qp (NULL: of a READ response), if they were read ahead; else NULL. The range was
 * checked by a lookup in this burst. The bytes are valid until the next call of another function.
 */
const uint8_t *qp_ahead_get(const struct qp_ahead *a, uint64_t now_ns, const struct qp *qp,
			    const struct mr *mr, const struct qp_ahead_part *want);
/* Worker. The same, for a frame of this burst: the bytes are valid until qp_ahead_next_burst. */
const uint8_t *qp_ahead_view(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp,
			     const struct mr *mr, const struct qp_ahead_part *want);

/*
 * Worker. Reads part[0 .. n) of mr at once, and copies the first len bytes, which belong to
 * part[0], to dst. The ranges were checked by lookups in this burst. n: 1 .. MEM_MAX_PARTS; all
 * parts together have at most QP_AHEAD_BYTES, unless part[0] has len bytes and is alone. If that
 * fails, reads only the len bytes, because the client may have unmapped the others. Returns what
 * mr_read returns for the len bytes.
 */
int qp_ahead_read(struct qp_ahead *a, uint64_t now_ns, const struct qp *qp, const struct mr *mr,
		  const struct qp_ahead_part *part, uint32_t n, void *dst, uint32_t len);

#endif
