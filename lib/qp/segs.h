/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments for frames whose payload stays in client memory until the port has copied it: one for
 * the payload, wherever that lies, and behind it one for pad and ICRC. Such pairs are made once and
 * lent to frames. Both mbufs keep a reference of their lender's, so a port that frees the frame
 * gives them back as they are, and neither takes them apart nor puts them into a pool. One thread,
 * but for creating and freeing.
 */
#ifndef QP_SEGS_H
#define QP_SEGS_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>

struct qp_segs {
	struct rte_mempool *pool; /* they come from, and stay out of */
	struct rte_mbuf_ext_shared_info info;
	uint32_t next; /* pair to lend, if it is back */
	uint32_t n;
	struct rte_mbuf *pair[]; /* of the payload; its next is the other one */
};

/*
 * Control thread. n pairs, 1 .. 4096, in a mempool of that name, on a socket or SOCKET_ID_ANY.
 * NULL, with rte_errno: no memory, or there is such a mempool.
 */
struct qp_segs *qp_segs_create(const char *name, uint32_t n, int socket);
/* Control thread. All pairs are back. NULL: nothing is done. */
void qp_segs_free(struct qp_segs *s);

/* Is the pair's owner the only one who refers to it? */
static inline bool
qp_segs_is_back(const struct rte_mbuf *payload)
{
	return rte_mbuf_refcnt_read(payload) == 1 && rte_mbuf_refcnt_read(payload->next) == 1;
}

/* Control thread. Have all pairs come back, and no mbuf of theirs gone into the pool? */
bool qp_segs_whole(const struct qp_segs *s);

/*
 * Two segments for the end of a frame: len bytes, < 65536, at src, which nobody writes to through
 * them, and tail bytes, <= 64, for the caller to fill. Pairs go round: NULL while the next one is
 * still lent. The first; the frame's then, to be freed with it.
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
