/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private copies of send WQEs. From taking a WQE from the shared SQ until retiring it, the worker
 * uses only its copy. Most QPs have few outstanding WQEs, so the copies are in chunks of a pool
 * shared by the QPs of a worker. A QP takes a chunk for the first WQE in it and returns it with the
 * last. Each QP can always get one chunk, whatever the others use. One thread, except for creating
 * and freeing.
 */
#ifndef QP_SQE_H
#define QP_SQE_H

#include <stdbool.h>
#include <stdint.h>
#include <uroce_abi/wqe.h>
#include "qp/ring.h"

#define QP_RTX_WQES    128  /* most outstanding send WQEs taken from an SQ */
#define QP_CHUNK_BYTES 1280 /* 16 entries with one SGE, or one of the largest */
#define QP_CHUNKS_NEAR 8    /* chunks of a QP with one SGE per entry */
#define QP_WQE_CHUNKS  4096 /* of a worker, beyond one per QP: full windows of 512 QPs, 5 MB */
#define QP_QP_CHUNKS   QP_RTX_WQES /* of one QP, at most */

/* Fast-path class of a WQE: what its transmission need not check. */
enum qp_wqe_path {
	QP_WQE_GENERAL,    /* must check everything */
	QP_WQE_PACKETS,    /* valid RC SEND or WRITE, no fence; not of a QP with snd.general */
	QP_WQE_ONE_PACKET, /* the same, with one packet and one SGE */
};

/*
 * A send WQE taken from the SQ, and its position in the PSN space. SGEs or inline data follow
 * (qp_sqes.entry_bytes in total).
 */
struct qp_sq_entry {
	struct uroce_send_wqe wqe;
	uint32_t first_psn;
	uint32_t npkts;  /* PSNs that it uses; 0 for a local operation */
	uint32_t length; /* bytes of payload */
	uint8_t status;  /* enum qp_wc_status, result of the local checks */
	bool rd_counted; /* READ or atomic that is counted in qp_snd.rd_out */
	bool done;       /* local operation that was executed; not repeated in a retry */
	uint8_t fast;    /* enum qp_wqe_path */
};
_Static_assert(sizeof(struct qp_sq_entry) == 64, "SGEs behind an SQ entry are aligned");

struct qp_sqe_pool {
	uint8_t *mem;     /* total chunks; those from fresh on were never used */
	uint8_t **back;   /* nback returned chunks; the last, still cached, is reused first */
	uint32_t total;   /* at least qps */
	uint32_t fresh;   /* 0 .. total */
	uint32_t nback;   /* 0 .. fresh */
	uint32_t qps;     /* most QPs */
	uint32_t holders; /* QPs that have a chunk */
	uint32_t kept;    /* of those beyond one per QP: only for qp_sqes_load */
};

/*
 * Control thread. Create a pool for at most qps QPs, with `more` chunks beyond the one guaranteed
 * to each. Memory is allocated as chunks are used. NULL: out of memory.
 */
struct qp_sqe_pool *qp_sqe_pool_create(uint32_t qps, uint32_t more);
/* Control thread. No QP may hold a chunk any more. NULL is allowed. */
void qp_sqe_pool_free(struct qp_sqe_pool *p);

/* Worker, or any thread after it has ended. Were all chunks returned? */
static inline bool
qp_sqe_pool_whole(const struct qp_sqe_pool *p)
{
	return p->nback == p->fresh && p->holders == 0;
}

/* The copies of a QP: a ring of mask + 1 entries, in chunks of 1 << shift entries. */
struct qp_sqes {
	uint8_t **chunk;      /* [mask + 1 >> shift]: near or allocated; NULL entry: no chunk */
	uint16_t entry_bytes; /* sizeof(struct qp_sq_entry) + SGEs or inline data */
	uint16_t mask;
	uint8_t low; /* (1 << shift) - 1: mask of the index in a chunk */
	uint8_t shift;
	uint8_t chunks; /* chunks held */
	uint8_t *near[QP_CHUNKS_NEAR];
};

/* Control thread. Initialise for an SQ of this geometry. 0 or -ENOMEM. */
int qp_sqes_init(struct qp_sqes *q, const struct qp_ring *sq);
/* Control thread. Its chunks were returned, or the pool is gone. */
void qp_sqes_fini(struct qp_sqes *q);
/* Worker. Return all chunks; invalidates the entries. */
void qp_sqes_drop(struct qp_sqes *q, struct qp_sqe_pool *p);

static inline uint32_t
qp_sqes_chunk(const struct qp_sqes *q, uint32_t i)
{
	return (i & q->mask) >> q->shift;
}

/* Worker. Entry of WQE index i, for which qp_sqes_take succeeded. */
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

	/* Beyond its first chunk, a QP gets only chunks not reserved for QPs without one. */
	return q->chunk[qp_sqes_chunk(q, i)] != NULL ||
	       left > (q->chunks == 0 ? 0 : p->qps - p->holders + p->kept);
}

/*
 * Worker. Ensure memory for the entry of WQE index i, the next one after those taken. Returns false
 * if there is none; the QP then has outstanding WQEs, whose end makes memory available.
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

/* Worker. Will qp_sqes_load succeed, whatever is taken until then? */
static inline bool
qp_sqes_may_load(const struct qp_sqe_pool *p)
{
	return p->kept >= QP_QP_CHUNKS &&
	       p->total - p->fresh + p->nback >= p->qps - p->holders + p->kept;
}

/*
 * Worker. Copy the entries of WQEs tail .. head - 1, which are taken, to `to`: entry_bytes each.
 */
void qp_sqes_save(const struct qp_sqes *q, uint32_t tail, uint32_t head, void *to);
/*
 * Worker. Take memory for WQEs tail .. head - 1 of q, which has no chunk, and copy their entries
 * from `from`. Returns false, with nothing taken, if p has too little (qp_sqes_may_load).
 */
bool qp_sqes_load(struct qp_sqes *q, struct qp_sqe_pool *p, uint32_t tail, uint32_t head,
		  const void *from);

/* Worker. Release the entry of WQE index tail - 1; those of tail .. head stay valid. */
static inline void
qp_sqes_put(struct qp_sqes *q, struct qp_sqe_pool *p, uint32_t tail, uint32_t head)
{
	uint8_t **c;

	/* Not the chunk's last entry, or head has wrapped into the chunk. */
	if (tail != head && ((tail & q->low) != 0 || head - tail > (uint32_t)(q->mask - q->low)))
		return;
	c = &q->chunk[qp_sqes_chunk(q, tail - 1)];
	p->back[p->nback++] = *c;
	*c = NULL;
	p->holders -= --q->chunks == 0;
}

#endif
