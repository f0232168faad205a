/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mbuf segments for frames whose payload stays in client memory until the port has copied it: one
 * for the payload, followed by one for pad and ICRC. The pairs are allocated once and lent to
 * frames. The lender keeps an extra reference to both mbufs, so that a port that frees the frame
 * returns them intact: it neither detaches them nor puts them into a pool. One thread, except for
 * creating and freeing.
 */
#ifndef QP_SEGS_H
#define QP_SEGS_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>

struct qp_segs {
	struct rte_mempool *pool; /* mempool of the pairs; empty as long as they exist */
	struct rte_mbuf_ext_shared_info info;
	uint32_t next; /* pair to lend next, if it was returned */
	uint32_t n;
	struct rte_mbuf *pair[]; /* payload segments; m->next is the tail segment */
};

/*
 * Control thread. Create n pairs (1 .. 4096) in a mempool of that name, on a socket or
 * SOCKET_ID_ANY. Returns NULL with rte_errno if out of memory or if the mempool exists.
 */
struct qp_segs *qp_segs_create(const char *name, uint32_t n, int socket);
/* Control thread. All pairs must have been returned. NULL is allowed. */
void qp_segs_free(struct qp_segs *s);

/* Was the pair returned: does only its lender hold a reference? */
static inline bool
qp_segs_is_back(const struct rte_mbuf *payload)
{
	return rte_mbuf_refcnt_read(payload) == 1 && rte_mbuf_refcnt_read(payload->next) == 1;
}

/* Control thread. Were all pairs returned, with no mbuf gone into the pool? */
bool qp_segs_whole(const struct qp_segs *s);

/*
 * Lend a pair for the end of a frame: len bytes (< 65536) at src, which must not be written through
 * the segment, and tail bytes (<= 64) for the caller to fill. Returns the first segment, which is
 * freed with the frame. Pairs are lent round robin: NULL while the next one is still lent.
 */
static inline struct rte_mbuf *
qp_segs_lend(struct qp_segs *s, const uint8_t *src, uint32_t len, uint32_t tail)
{
	struct rte_mbuf *m = s->pair[s->next];

	if (!qp_segs_is_back(m))
		return NULL;
	s->next = s->next + 1 == s->n ? 0 : s->next + 1;
	rte_mbuf_refcnt_set(m, 2);
	m->buf_addr = (void *)(uintptr_t)src;
	m->buf_len = (uint16_t)len;
	m->data_len = (uint16_t)len;
	rte_mbuf_refcnt_set(m->next, 2);
	m->next->data_len = (uint16_t)tail;
	return m;
}

#endif
