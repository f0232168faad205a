/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC connections without client or daemon, between two engines in one thread or in two processes:
 * the objects of a side, with its client's queues in plain memory, by the ABI.
 */
#ifndef KIT_RC_CONNECT_H
#define KIT_RC_CONNECT_H

#include <uroce_abi/ring.h>
#include "qp/qp.h"
#include "qp/table.h"

#define RC_QPN_BASE 0x100u /* of connection 0, unless changed; both sides use the same numbers */

/* A queue from its client's side. */
struct rc_ring {
	struct uroce_ring_hdr *hdr;
	uint8_t *slots;
	uint32_t mask, stride, prod;
};

struct rc_conn {
	struct qp *qp;
	struct rc_ring sq, rq;
	uint64_t done;  /* messages completed; counted by the client */
	uint64_t place; /* buffer of the next message; used by the client */
};

/* One side: its memory, one CQ for all, connections. */
struct rc_side {
	struct mr_table mrs;
	struct qp_table qps;
	struct mr mr;
	struct cq cq;
	struct uroce_cq_hdr *cq_hdr;
	uint32_t cq_mask, cq_cons;
	struct rc_conn *conn;
	uint32_t nconns;
	/* rc_side_open sets these to RC_QPN_BASE, 0, false; to be changed before rc_conn_open */
	uint32_t qpn_base; /* QPN of connection 0 */
	uint16_t worker;   /* whose engine runs the connections .. */
	bool moves;        /* .. at first: they may move to another one */
};

/* Zeroed pages; free with free(). NULL: no memory. */
void *rc_zalloc(size_t bytes);
/* Entries of a queue that holds n: a power of two, at least 16. */
uint32_t rc_entries(uint32_t n);

/*
 * Open side (0 or 1) with space for nconns connections and a CQ of entries. host: bytes of memory,
 * which remain the caller's; they get a pattern that differs from the other side's. False: no
 * memory.
 */
bool rc_side_open(struct rc_side *s, unsigned side, uint8_t *host, uint32_t bytes, uint32_t nconns,
		  uint32_t entries);
/* Free all that rc_side_open and rc_conn_open made, except QPs. */
void rc_side_close(struct rc_side *s);
/* Open connection i in RESET, with queues of these sizes (powers of two). False: no memory. */
bool rc_conn_open(struct rc_side *s, uint32_t i, uint32_t sq, uint32_t rq, uint16_t port,
		  struct counter_block *counters);
/* The address of an offset in the memory of either side. */
uint64_t rc_addr(uint64_t offset);
/* The next slot of a queue, which must have space. */
static inline uint8_t *
rc_next_slot(struct rc_ring *r)
{
	return r->slots + (size_t)(r->prod++ & r->mask) * r->stride;
}
/* Post and publish a receive of size bytes at offset of the side's memory. */
void rc_post_recv(struct rc_side *s, struct rc_conn *c, uint64_t wr_id, uint64_t offset,
		  uint32_t size);
/* Takes the oldest completion, or NULL. rc_cqes_done returns the slots. */
static inline const struct uroce_cqe *
rc_next_cqe(struct rc_side *s)
{
	const struct uroce_cqe *ring = (const void *)((uint8_t *)s->cq_hdr + UROCE_CQ_HDR);
	const struct uroce_cqe *cqe = &ring[s->cq_cons & s->cq_mask];

	if (__atomic_load_n(&cqe->phase, __ATOMIC_ACQUIRE) != s->cq_cons / (s->cq_mask + 1) + 1)
		return NULL;
	s->cq_cons++;
	return cqe;
}
static inline void
rc_cqes_done(struct rc_side *s)
{
	__atomic_store_n(&s->cq_hdr->cons, s->cq_cons, __ATOMIC_RELEASE);
}

/*
 * Moves qp from RESET to RTS: mtu bytes (256 .. 4096), PSNs from 0, every remote right, timeout as
 * in a modify (0 .. 31), all retries. path is not kept. Called by the thread that runs qp's engine.
 * False: a step is refused.
 */
bool rc_connect(struct qp_env *env, struct qp *qp, uint32_t mtu, uint32_t dest_qpn, uint8_t timeout,
		const struct qp_path *path);

/*
 * The path from side (0: 10.0.0.1, 1: 10.0.0.2) to the other, for the connection between two QPs of
 * number qpn.
 */
struct qp_path rc_path(const uint8_t smac[6], const uint8_t dmac[6], unsigned side, uint32_t qpn);

#endif
