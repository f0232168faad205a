/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of selective repeat (doc/selective-repeat.md). A connection has struct qp_sr. While packets
 * are missing it also has a struct qp_reorder (responder: copies of early requests) or a struct
 * qp_scoreboard (requester: what the peer lacks). These come from a pool of the worker, which
 * bounds the memory. An early request stays in the buffer that it arrived in if that buffer is one
 * of the engine's pool, of which a share may be kept; other buffers are the port's, and are copied.
 *
 * Owner worker only, except for creating and freeing the pool.
 */
#ifndef QP_SELECTIVE_H
#define QP_SELECTIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include "qp/bind.h"
#include "wire/parse.h"
#include "wire/psn.h"

struct qp;
struct qp_env;

#define QP_SR_WINDOW 1024u /* PSNs from the ePSN on that a SACK describes; a power of two */
/* PSNs outstanding while the peer holds some, at most, if the window is CC_WINDOW_PKTS or less */
#define QP_SR_WIDE 160u
/* PSNs from una_psn on whose data may come early; a power of two */
#define QP_SR_READ_WINDOW     4096u
#define QP_SR_ASKS            64u   /* parts of READs requested again at the same time, at most */
#define QP_SR_QPS             512u  /* of a worker: reorder buffers, scoreboards */
#define QP_SR_FRAMES          4096u /* copied requests that a worker holds, at most */
#define QP_SR_FRAME_BYTES     4288u /* of a held request: overhead and the largest path MTU */

#define QP_SR_THRESHOLD       3u  /* packets behind a gap that show a loss */
#define QP_SR_THRESHOLD_FIRST 72u /* the same before the network is known */
#define QP_SR_THRESHOLD_MOST  96u /* the same for a network that reorders */
#define QP_SR_KNOWN           16u /* retransmissions by which the network is known */

enum qp_sr_state {
	QP_SR_OFF = 0, /* the device does not use it: no SACK is sent, and none accepted */
	QP_SR_CAN,     /* the peer has not agreed: no SACK is sent */
	QP_SR_ON,      /* the peer has agreed */
};

/* The connection's part. No pointers. */
struct qp_sr {
	uint8_t state;      /* enum qp_sr_state */
	uint8_t threshold;  /* requester: packets behind a gap that show a loss; 0: no packet was
			       late lately (qp_sr_threshold) */
	uint8_t ignored;    /* responder: gaps for which the peer ignored all SACKs (reorder.c) */
	uint8_t expect_dup; /* responder: duplicates that would show this once more; 255: or more */
	bool dup_reported;  /* responder: no duplicate since the last SACK */
	uint8_t undelayed;  /* requester: retransmissions since a packet was late */
	uint16_t dups;      /* responder: duplicates received */
	uint16_t dups_seen; /* requester: the last number that the peer reported */
	uint16_t unreported; /* requester: retransmissions without a reported duplicate */
	uint32_t dup_psn;    /* responder: of the last duplicate */
	uint32_t resent;     /* selective retransmissions; shown */
	uint32_t spurious;   /* of these, the original had arrived; shown */
	uint32_t acked_psn;  /* responder: the ePSN at the last ACK or SACK while lossy */
	uint8_t fresh;       /* responder: requests held since then; 255: or more */
	uint8_t lossy;       /* responder: as many ACKs may be sent twice; 0: nothing was lost */
	bool dup_again; /* responder: an ACK answers duplicates, because a SACK has not helped */
	uint8_t known;  /* requester: retransmissions before a packet was late; QP_SR_KNOWN: or
			   more, or one was */
};
_Static_assert(sizeof(struct qp_sr) == 32, "fits into the spare bytes of struct qp_conn");

/*
 * Returns how many packets behind a gap of requests show that these are lost. A network that is not
 * known yet may reorder packets (SR-05): the threshold begins high and falls with retransmissions.
 */
static inline uint32_t
qp_sr_threshold(const struct qp_sr *sr)
{
	if (sr->threshold != 0)
		return sr->threshold;
	return sr->known < QP_SR_KNOWN ? QP_SR_THRESHOLD_FIRST >> (sr->known * 4 / QP_SR_KNOWN)
				       : QP_SR_THRESHOLD;
}

#define QP_SR_WORDS (QP_SR_WINDOW / 64)

/* A set of PSNs of a window: bit psn % QP_SR_WINDOW. */
struct qp_psns {
	uint64_t word[QP_SR_WORDS];
};

static inline bool
qp_psns_has(const struct qp_psns *s, uint32_t psn)
{
	return s->word[psn / 64 % QP_SR_WORDS] >> (psn % 64) & 1;
}

static inline void
qp_psns_add(struct qp_psns *s, uint32_t psn)
{
	s->word[psn / 64 % QP_SR_WORDS] |= UINT64_C(1) << (psn % 64);
}

static inline void
qp_psns_remove(struct qp_psns *s, uint32_t psn)
{
	s->word[psn / 64 % QP_SR_WORDS] &= ~(UINT64_C(1) << (psn % 64));
}

static inline bool
qp_psns_empty(const struct qp_psns *s)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < QP_SR_WORDS; i++)
		any |= s->word[i];
	return any == 0;
}

/*
 * A set of numbers 0 .. n - 1, n <= QP_SR_WINDOW, relative to a PSN. It has as few words as n
 * needs, because a window of 128 packets is usual: words = (n + 63) / 64. Bits from n on are 0.
 */
struct qp_psns_rel {
	uint32_t words;
	uint64_t word[QP_SR_WORDS];
};

/* Sets *to to the members from .. from + n - 1 of s, relative to from. n <= QP_SR_WINDOW. */
void qp_psns_from(const struct qp_psns *s, uint32_t from, uint32_t n, struct qp_psns_rel *to);
/* Adds the members of rel, which is relative to from, to s. */
void qp_psns_join(struct qp_psns *s, uint32_t from, const struct qp_psns_rel *rel);
/* Removes from .. from + n - 1 from s. n <= QP_SR_WINDOW. */
void qp_psns_cut(struct qp_psns *s, uint32_t from, uint32_t n);
/*
 * The first number of a set from i on; QP_SR_WINDOW: there is none. i <= QP_SR_WINDOW. To walk a
 * set: for (i = qp_psns_next(&s, 0); i < QP_SR_WINDOW; i = qp_psns_next(&s, i + 1)).
 */
uint32_t qp_psns_next(const struct qp_psns_rel *s, uint32_t i);

static inline bool
qp_psns_rel_has(const struct qp_psns_rel *s, uint32_t i)
{
	return i < s->words * 64 && (s->word[i / 64] >> (i % 64) & 1);
}

#define QP_SR_PEERS 16u /* places of a user's peers, by a hash of the GID */

/* Whose share of a pool a QP uses: its user's place (bind.run_user), and its peer's among them. */
struct qp_sr_place {
	uint8_t user, peer;
};

/* Early requests of a QP. Those in held have PSNs ePSN + 1 .. ePSN + QP_SR_WINDOW - 1. */
struct qp_reorder {
	struct qp_sr_place place;
	uint32_t n;
	uint32_t end_psn; /* one past the last PSN of held, ever */
	struct qp_psns held;
	uint16_t at[QP_SR_WINDOW]; /* by psn % QP_SR_WINDOW: the place in the pool (qp_held) */
};

/* A request that is held. */
struct qp_held {
	struct rte_mbuf *buf; /* its buffer; NULL: a frame of the pool */
	struct wire_pkt pkt;
};

/* A selective retransmission. */
struct qp_resent {
	uint32_t psn;
	uint32_t high_psn; /* snd.high_psn when it was sent: packets from it on were sent later */
	uint32_t serial;   /* order of retransmissions; 0: not retransmitted */
	uint32_t first_serial; /* of the first copy that may be the one that arrives */
	bool reported;         /* known to be spurious */
	uint64_t at_ns;
};

/* A set of PSNs of READ and atomic responses: bit psn % QP_SR_READ_WINDOW. */
struct qp_resp_psns {
	uint32_t n; /* its size */
	uint64_t word[QP_SR_READ_WINDOW / 64];
};

static inline bool
qp_resp_psns_has(const struct qp_resp_psns *s, uint32_t psn)
{
	return s->word[psn % QP_SR_READ_WINDOW / 64] >> (psn % 64) & 1;
}

static inline void
qp_resp_psns_add(struct qp_resp_psns *s, uint32_t psn)
{
	s->n += !qp_resp_psns_has(s, psn);
	s->word[psn % QP_SR_READ_WINDOW / 64] |= UINT64_C(1) << (psn % 64);
}

static inline void
qp_resp_psns_remove(struct qp_resp_psns *s, uint32_t psn)
{
	s->n -= qp_resp_psns_has(s, psn);
	s->word[psn % QP_SR_READ_WINDOW / 64] &= ~(UINT64_C(1) << (psn % 64));
}

/* The number of members from psn on without a gap; most, if there are more. */
static inline uint32_t
qp_resp_psns_run(const struct qp_resp_psns *s, uint32_t psn, uint32_t most)
{
	uint32_t n = 0;

	while (n < most) {
		uint32_t at = psn + n, left = 64 - at % 64;
		uint64_t gaps = ~(s->word[at % QP_SR_READ_WINDOW / 64] >> (at % 64));
		uint32_t run = gaps != 0 ? (uint32_t)__builtin_ctzll(gaps) : 64;

		n += run < left ? run : left;
		if (run < left)
			break;
	}
	return n < most ? n : most;
}

/* The number of PSNs from psn on before the first member; most, if there are more. */
static inline uint32_t
qp_resp_psns_skip(const struct qp_resp_psns *s, uint32_t psn, uint32_t most)
{
	uint32_t n = 0;

	while (n < most) {
		uint32_t at = psn + n;
		uint64_t rest = s->word[at % QP_SR_READ_WINDOW / 64] >> (at % 64);

		if (rest != 0) {
			n += (uint32_t)__builtin_ctzll(rest);
			break;
		}
		n += 64 - at % 64;
	}
	return n < most ? n : most;
}

/* Removes psn .. psn + n - 1, which are all members. */
static inline void
qp_resp_psns_remove_run(struct qp_resp_psns *s, uint32_t psn, uint32_t n)
{
	s->n -= n;
	while (n != 0) {
		uint32_t left = 64 - psn % 64, k = n < left ? n : left;

		s->word[psn % QP_SR_READ_WINDOW / 64] &= ~((UINT64_MAX >> (64 - k)) << (psn % 64));
		psn += k;
		n -= k;
	}
}

/* Responses psn .. psn + n - 1 of one READ or atomic were requested again. */
struct qp_ask {
	uint32_t psn;
	uint32_t n;
	uint32_t next_psn; /* responses before it have arrived, or were requested once more */
	uint32_t high_psn; /* snd.next_psn when it was sent: as in struct qp_resent */
	uint64_t at_ns;
};

/*
 * Responses of a requester that are missing. Data behind a missing response is stored at once: the
 * program may not look at it before its completion.
 */
struct qp_reads {
	struct qp_resp_psns here;   /* data behind una_psn that has arrived */
	struct qp_resp_psns wanted; /* to be requested again */
	uint32_t seen_psn;          /* what is missing before it is in wanted or in ask */
	uint32_t last_wqe;          /* number of the WQE of the last PSN looked up; a hint */
	uint32_t ask_end_psn;       /* no response of an ask has this PSN or a later one */
	uint32_t lost_psn;          /* with tail: the responses from una_psn up to it are lost .. */
	uint32_t piece;             /* .. and this many are requested again at a time */
	bool tail;
	uint32_t nasks;
	struct qp_ask ask[QP_SR_ASKS]; /* in the order of requesting */
};

/* What the peer of a requester lacks. */
struct qp_scoreboard {
	struct qp *qp; /* its owner */
	struct qp_sr_place place;
	uint32_t base_psn;   /* got and lost begin here: the peer has executed what is before */
	uint32_t top_psn;    /* one past the last PSN of got, ever */
	uint32_t wide_psn;   /* up to it packets may be sent beyond the window */
	struct qp_psns got;  /* the peer holds these */
	struct qp_psns lost; /* to be retransmitted; not empty only if snd.resend */
	uint32_t serial;     /* of the last retransmission */
	uint32_t newest;     /* latest serial whose packet has arrived */
	uint32_t tail_psn;   /* with tail_probe: the last packet that the peer lacks */
	bool tail_probe;     /* it is in lost without a sign of its loss: req_probe_tail */
	uint32_t round_psn;  /* end of a round: what was outstanding at once */
	uint32_t round_lost; /* requests lost in the round */
	struct qp_resent resent[QP_SR_WINDOW]; /* by psn % QP_SR_WINDOW */
	struct qp_reads reads;
};

/*
 * Parts of one kind. A user may have as many as are free, and one of its peers half as many as the
 * user may still have. A lone user thus gets half of them, the next user half of the rest, and no
 * number of QPs leaves another user without any; the same holds for the peers of one user.
 */
struct qp_sr_stock {
	uint32_t n, nfree;
	uint16_t *free;          /* free[0 .. nfree): numbers of free parts */
	uint16_t user[QP_USERS]; /* parts in use by place */
	uint16_t peer[QP_USERS][QP_SR_PEERS];
};

struct qp_sr_pool {
	struct qp_sr_stock reorders, scoreboards, frames;
	struct qp_sr_stock kept;        /* requests whose buffers may be kept */
	const struct rte_mempool *bufs; /* they come from here; NULL: none */
	struct qp_reorder *all_reorders;
	struct qp_scoreboard *all_scoreboards;
	struct qp_held *all_held; /* those with kept buffers, then one for each frame */
	uint8_t *all_frames;
	uint32_t used_scoreboards; /* those from this number on were never used */
	uint32_t next_scoreboard;  /* the next one to take from an idle QP */
};

/*
 * Control thread. Creates a pool; its memory is touched only when used. Up to nbufs buffers of the
 * mempool bufs (61439 at most) are kept with the requests in them; bufs may be NULL. NULL: no
 * memory.
 */
struct qp_sr_pool *qp_sr_pool_create(const struct rte_mempool *bufs, uint32_t nbufs);
/* Control thread. Called after all QPs have returned their parts of p. p may be NULL. */
void qp_sr_pool_free(struct qp_sr_pool *p);
/* Was everything returned that QPs do not keep without need? */
bool qp_sr_pool_whole(const struct qp_sr_pool *p);

/* Worker. Sets the selective-repeat state of qp, an RC QP. */
void qp_sr_set(struct qp_sr_pool *p, struct qp *qp, enum qp_sr_state state);
/*
 * Worker. The peer of qp, which is in state QP_SR_CAN, has agreed: sets QP_SR_ON. Packets in flight
 * are probed as such a peer's are.
 */
void qp_sr_agree(struct qp_env *env, struct qp *qp);
/*
 * Worker. The peer of qp has told that its socket's receive buffer holds this many times
 * QP_PEER_BUFFER_BYTES; 255: or more; 0: it has no such limit, or did not tell. Sets the window
 * that the peer takes (qp/congestion.h). qp_sr_set forgets it.
 */
#define QP_PEER_BUFFER_BYTES 32768u
#define QP_PEER_BUFFER_HDRS  64u /* of a packet: headers and its share of the kernel's */
void qp_sr_told(struct qp *qp, uint8_t peer_buffer);

/* Worker. Gives qp a reorder buffer, if it has none; NULL: none is free for its user and peer. */
struct qp_reorder *qp_reorder_take(struct qp_sr_pool *p, struct qp *qp);
/* Worker. The request psn, which is in h->held. */
static inline struct qp_held *
qp_held_at(const struct qp_sr_pool *p, const struct qp_reorder *h, uint32_t psn)
{
	return &p->all_held[h->at[psn % QP_SR_WINDOW]];
}
/*
 * Worker. Holds the request pkt of h's QP, which is in the received buffer m. *kept: m is the
 * the reorder buffer's from now on; otherwise the request's len <= QP_SR_FRAME_BYTES bytes were
 * copied. Returns false if there is no memory for the QP's user and peer.
 */
bool qp_reorder_put(struct qp_sr_pool *p, struct qp_reorder *h, const struct wire_pkt *pkt,
		    uint32_t len, struct rte_mbuf *m, bool *kept);
/*
 * Worker. The request psn is not in h->held any more: gives its frame back, or returns its buffer,
 * which the caller frees (NULL: none). h may belong to no QP by now, but not to another one.
 */
struct rte_mbuf *qp_reorder_release(struct qp_sr_pool *p, struct qp_reorder *h, uint32_t psn);
/* Worker. Discards the requests that qp holds. Returns their number. */
uint32_t qp_reorder_drop(struct qp_sr_pool *p, struct qp *qp);
/*
 * Worker. Gives qp a scoreboard, if it has none; NULL: none is free for its user and peer, and
 * those looked at are in use or belong to users with fewer. Each call looks at a few scoreboards,
 * and the next call at others.
 */
struct qp_scoreboard *qp_scoreboard_take(struct qp_sr_pool *p, struct qp *qp);
/* Worker. Clears the scoreboard of qp, if it has one: it retransmits everything in order. */
void qp_scoreboard_clear(struct qp *qp);
/* Worker. Is nothing missing on either side, as far as qp knows? qp_sr_drop then loses nothing. */
bool qp_sr_is_idle(const struct qp *qp);
/* Worker. Returns all that qp has of p: on reset, error, destroy, move. p may be NULL. */
void qp_sr_drop(struct qp_sr_pool *p, struct qp *qp);

#endif
