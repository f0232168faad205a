/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of selective repeat (doc/selective-repeat.md). A connection has struct qp_sr. While packets
 * are missing it also has a struct qp_hold (responder: copies of early requests) or a struct
 * qp_mend (requester: what the peer lacks). These come from a pool of the worker, which bounds the
 * memory. Early requests are copied because the buffers that they arrive in are the port's.
 *
 * Owner worker only, except for creating and freeing the pool.
 */
#ifndef QP_SELECTIVE_H
#define QP_SELECTIVE_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/psn.h"

struct qp;

#define QP_SR_WINDOW         128u  /* PSNs from the ePSN on that a SACK describes; a power of two */
#define QP_SR_QPS            256u  /* QPs of a worker that hold requests, and that mend, at most */
#define QP_SR_FRAMES         1024u /* requests that a worker holds, at most */
#define QP_SR_FRAME_BYTES    4288u /* of a held request: overhead and the largest path MTU */
#define QP_SR_THRESHOLD      3u    /* packets behind a gap that show a loss, at first */
#define QP_SR_THRESHOLD_MOST 96u   /* the same for a network that reorders */

enum qp_sr_state {
	QP_SR_OFF = 0, /* the device does not use it: no SACK is sent, and none accepted */
	QP_SR_CAN,     /* the peer has not agreed: no SACK is sent */
	QP_SR_ON,      /* the peer has agreed */
};

/* The connection's part. No pointers. */
struct qp_sr {
	uint8_t state;      /* enum qp_sr_state */
	uint8_t threshold;  /* requester: packets behind a gap that show a loss; 0: the first */
	uint8_t ignored;    /* responder: gaps in a row for which the peer ignored all SACKs */
	uint8_t expect_dup; /* responder: duplicates that would show this once more */
	bool dup_told;      /* responder: no duplicate since the last SACK */
	uint8_t calm;       /* requester: retransmissions since a packet was late */
	uint16_t dups;      /* responder: duplicates received */
	uint16_t dups_seen; /* requester: the last number that the peer reported */
	uint16_t unjudged;  /* requester: retransmissions without a reported duplicate */
	uint32_t dup_psn;   /* responder: of the last duplicate */
	uint32_t resent;    /* selective retransmissions; shown */
	uint32_t spurious;  /* of these, the original had arrived; shown */
};
_Static_assert(sizeof(struct qp_sr) == 24, "fits into the spare bytes of struct qp_conn");

/* A set of PSNs of a window: bit psn % QP_SR_WINDOW. */
struct qp_psns {
	uint64_t word[QP_SR_WINDOW / 64];
};

static inline bool
qp_psns_has(const struct qp_psns *s, uint32_t psn)
{
	return s->word[psn / 64 % 2] >> (psn % 64) & 1;
}

static inline void
qp_psns_add(struct qp_psns *s, uint32_t psn)
{
	s->word[psn / 64 % 2] |= UINT64_C(1) << (psn % 64);
}

static inline void
qp_psns_remove(struct qp_psns *s, uint32_t psn)
{
	s->word[psn / 64 % 2] &= ~(UINT64_C(1) << (psn % 64));
}

static inline bool
qp_psns_empty(const struct qp_psns *s)
{
	return (s->word[0] | s->word[1]) == 0;
}

/* The set as a bit map that begins with PSN from; and back. */
struct qp_psns qp_psns_from(const struct qp_psns *s, uint32_t from);
struct qp_psns qp_psns_at(const struct qp_psns *s, uint32_t from);

/* Early requests of a QP. Those in held have PSNs ePSN + 1 .. ePSN + QP_SR_WINDOW - 1. */
struct qp_hold {
	struct qp_hold *next; /* in the pool's list */
	uint32_t n;
	struct qp_psns held;
	uint16_t frame[QP_SR_WINDOW]; /* by psn % QP_SR_WINDOW: frame of the pool */
	uint16_t len[QP_SR_WINDOW];
};

/* A selective retransmission. */
struct qp_resent {
	uint32_t psn;
	uint32_t high_psn; /* snd.high_psn when it was sent: packets from it on were sent later */
	uint32_t serial;   /* order of retransmissions; 0: not retransmitted */
	uint32_t first_serial; /* of the first of several times: which one arrives is not known */
	bool judged;           /* known to be spurious */
	uint64_t at_ns;
};

/* What the peer of a requester lacks. */
struct qp_mend {
	struct qp_mend *next; /* in the pool's list */
	struct qp *qp;        /* its owner */
	uint32_t base_psn;    /* sets begin here: the last reported ePSN, or una_psn */
	uint32_t top_psn;     /* one past the last PSN of got, ever */
	struct qp_psns got;   /* the peer holds these */
	struct qp_psns lost;  /* to be retransmitted; not empty iff snd.resend */
	uint32_t serial;      /* of the last retransmission */
	uint32_t newest;      /* latest serial whose packet has arrived */
	struct qp_resent resent[QP_SR_WINDOW]; /* by psn % QP_SR_WINDOW */
};

struct qp_sr_pool {
	struct qp_hold *hold; /* free ones */
	struct qp_mend *mend;
	uint32_t nfree; /* free frames: free[0 .. nfree) */
	uint16_t *free;
	uint8_t *frames;
	struct qp_hold *all_hold;
	struct qp_mend *all_mend;
	uint32_t next_mend; /* the next one to take from an idle QP */
};

/* Control thread. Creates a pool; its memory is touched only when used. NULL: no memory. */
struct qp_sr_pool *qp_sr_pool_create(void);
/* Control thread. Called after all QPs have returned their parts of p. p may be NULL. */
void qp_sr_pool_free(struct qp_sr_pool *p);
/* Was everything returned that QPs do not keep without need? */
bool qp_sr_pool_whole(const struct qp_sr_pool *p);

/* Worker. Sets the selective-repeat state of qp, an RC QP. */
void qp_sr_set(struct qp_sr_pool *p, struct qp *qp, enum qp_sr_state state);

/* Worker. Returns a frame of QP_SR_FRAME_BYTES; NULL: none is free. */
uint8_t *qp_sr_frame(struct qp_sr_pool *p, uint16_t *index);
/* Worker. The bytes of a frame. */
uint8_t *qp_sr_frame_at(const struct qp_sr_pool *p, uint16_t index);
void qp_sr_frame_put(struct qp_sr_pool *p, uint16_t index);
/* Worker. Gives qp a hold, if it has none; NULL: none is free. */
struct qp_hold *qp_hold_take(struct qp_sr_pool *p, struct qp *qp);
/* Worker. Discards the requests that qp holds. Returns their number. */
uint32_t qp_hold_drop(struct qp_sr_pool *p, struct qp *qp);
/* Worker. Gives qp a mend, if it has none; NULL: all are in use. */
struct qp_mend *qp_mend_take(struct qp_sr_pool *p, struct qp *qp);
/* Worker. Clears the mend of qp, if it has one: it retransmits everything in order. */
void qp_mend_clear(struct qp *qp);
/* Worker. Returns all that qp has of p: on reset, error, destroy. p may be NULL. */
void qp_sr_drop(struct qp_sr_pool *p, struct qp *qp);

#endif
