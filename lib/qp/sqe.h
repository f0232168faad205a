/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The private copies of send WQEs: from where a WQE is taken from the shared SQ until it is
 * retired, everything works from its copy. Most QPs have few WQEs under way at a time, so the
 * copies stand in chunks of a pool that the QPs of a worker share: a chunk is taken with the first
 * WQE that needs it and goes back with the last. Whatever others do, a QP can always have one.
 * One thread, but for creating and freeing.
 */
#ifndef QP_SQE_H
#define QP_SQE_H

#include <stdbool.h>
#include <stdint.h>
#include <uroce_abi/wqe.h>
#include "qp/ring.h"

#define QP_RTX_WQES    128  /* send WQEs taken from an SQ at a time */
#define QP_CHUNK_BYTES 1280 /* 16 entries of one SGE; one of the largest */
#define QP_CHUNKS_NEAR 8    /* what QPs of such entries need */
#define QP_WQE_CHUNKS  4096 /* a worker's, beyond one a QP: the windows of 512 QPs; 5 MB if used */

/* How much of a WQE need not be asked again when it is sent. */
enum qp_wqe_path {
	QP_WQE_GENERAL,    /* all */
	QP_WQE_PACKETS,    /* good, a SEND or WRITE of RC, no fence, no credits: only packets */
	QP_WQE_ONE_PACKET, /* that, and one packet, from one SGE */
};

/*
 * A send WQE taken from the SQ, and its place in the PSN space. SGEs or inline data follow
 * (qp_sqes.entry_bytes for all of it).
 */
struct qp_sq_entry {
	struct uroce_send_wqe wqe;
	uint32_t first_psn;
	uint32_t npkts;  /* PSNs it takes; 0 for a local operation */
	uint32_t length; /* bytes of payload */
	uint8_t status;  /* enum qp_wc_status found by the local checks */
	bool rd_counted; /* a READ or atomic that is counted in qp_snd.rd_out */
	bool done;       /* a local operation that was executed: never again, even in a retry */
	uint8_t fast;    /* enum qp_wqe_path */
};
_Static_assert(sizeof(struct qp_sq_entry) == 64, "SGEs behind an SQ entry are aligned");

struct qp_sqe_pool {
	uint8_t *mem;   /* total chunks; those from fresh on were never taken */
	uint8_t **back; /* nback chunks that came back: the last is in the cache, and goes first */
	uint32_t total; /* at least qps */
	uint32_t fresh; /* 0 .. total */
	uint32_t nback; /* 0 .. fresh */
	uint32_t qps;   /* QPs that there can be */
	uint32_t holders; /* QPs that have a chunk */
};

/*
 * Control thread. A pool for at most qps QPs, with `more` chunks beyond the one that each can
 * always have. Memory is used as chunks are. NULL: no memory.
 */
struct qp_sqe_pool *qp_sqe_pool_create(uint32_t qps, uint32_t more);
/* Control thread. No QP has a chunk any more. NULL: nothing is done. */
void qp_sqe_pool_free(struct qp_sqe_pool *p);

/* Worker, or when there is none any more. Has every chunk come back that was taken? */
static inline bool
qp_sqe_pool_whole(const struct qp_sqe_pool *p)
{
	return p->nback == p->fresh && p->holders == 0;
}

/* The copies of a QP: a ring of mask + 1 entries, in chunks of 1 << shift of them. */
struct qp_sqes {
	uint8_t **chunk;      /* [mask + 1 >> shift]: near or memory of its own; NULL: none taken */
	uint16_t entry_bytes; /* sizeof(struct qp_sq_entry) + room for SGEs or inline data */
	uint16_t mask;
	uint8_t low; /* (1 << shift) - 1: the place in a chunk */
	uint8_t shift;
	uint8_t chunks; /* taken */
	uint8_t *near[QP_CHUNKS_NEAR];
};

/* Control thread. For an SQ of this geometry. 0 or -ENOMEM. */
int qp_sqes_init(struct qp_sqes *q, const struct qp_ring *sq);
/* Control thread. Its chunks are back in their pool, or the pool is gone. */
void qp_sqes_fini(struct qp_sqes *q);
/* Worker. All chunks go back; the entries are void. */
void qp_sqes_drop(struct qp_sqes *q, struct qp_sqe_pool *p);

static inline uint32_t
qp_sqes_chunk(const struct qp_sqes *q, uint32_t i)
{
	return (i & q->mask) >> q->shift;
}

/* Worker. The entry of WQE index i, which qp_sqes_take has taken. */
static inline struct qp_sq_entry *
qp_sqes_at(const struct qp_sqes *q, uint32_t i)
{
	return (struct qp_sq_entry *)(q->chunk[qp_sqes_chunk(q, i)] +
				      (i & q->low) * q->entry_bytes);
}

/* Worker. Would qp_sqes_take of WQE index i succeed? */
static inline bool
qp_sqes_room(const struct qp_sqes *q, const struct qp_sqe_pool *p, uint32_t i)
{
	uint32_t left = p->total - p->fresh + p->nback;

	/* Behind the first one, only what is not kept for QPs that have none. */
	return q->chunk[qp_sqes_chunk(q, i)] != NULL ||
	       left > (q->chunks == 0 ? 0 : p->qps - p->holders);
}

/*
 * Worker. Have memory for the entry of WQE index i, the next one behind those that are taken. False
 * when there is none: something of this QP is under way, and when that is done there will be.
 */
static inline bool
qp_sqes_take(struct qp_sqes *q, struct qp_sqe_pool *p, uint32_t i)
{
	uint8_t **c = &q->chunk[qp_sqes_chunk(q, i)];

	if (*c != NULL)
		return true;
	if (!qp_sqes_room(q, p, i))
		return false;
	p->holders += q->chunks++ == 0;
	*c = p->nback != 0 ? p->back[--p->nback] : p->mem + (size_t)p->fresh++ * QP_CHUNK_BYTES;
	return true;
}

/* Worker. The entry of WQE index tail - 1 is void; those of tail .. head are not. */
static inline void
qp_sqes_put(struct qp_sqes *q, struct qp_sqe_pool *p, uint32_t tail, uint32_t head)
{
	uint8_t **c;

	/* In the midst of the chunk; or head has come round to it. */
	if (tail != head && ((tail & q->low) != 0 || head - tail > (uint32_t)(q->mask - q->low)))
		return;
	c = &q->chunk[qp_sqes_chunk(q, tail - 1)];
	p->back[p->nback++] = *c;
	*c = NULL;
	p->holders -= --q->chunks == 0;
}

#endif
