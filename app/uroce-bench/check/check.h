/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "check", split in four: check.c drives the run, check_out.c posts requests and ends them,
 * check_in.c verifies what the peer's requests did here, check_atomic.c does both for atomics.
 *
 * How each operation is checked. Each direction of a queue pair has separate memory, so its
 * expected content does not depend on the other streams:
 *  - SEND: sender and receiver each keep a running digest of all messages (kind, length, immediate
 *    data, payload) in order; they are equal only if each message arrived once, in order, whole.
 *  - WRITE: the sender applies each WRITE to its own image of the peer's target, overlapping and in
 *    order; the digest of the image and of the target must be equal. WRITE with immediate also
 *    counts as a message.
 *  - READ: the peer's source never changes and its content follows from the seed.
 *  - Fence: a SEND that is fenced behind a READ sends exactly the bytes that the READ fetches.
 *  - Atomics on words that only one queue pair uses: each returns the value that those before it
 *    left, and so does the word at the end. FETCH_ADD of 1 on words that all queue pairs use: the
 *    n values returned are 0 .. n - 1, each once, and the word is n at the end.
 *  - Completions: wr_id grows by one per request, none missing, none twice, none after the end.
 *  - Guards around and behind everything a peer may write keep their value.
 */
#ifndef RCDATA_CHECK_H
#define RCDATA_CHECK_H

#include "rcdata.h"

#define RECV_TAG (1ull << 63) /* flag in the wr_id of receives */

enum request_kind {
	REQ_SEND,
	REQ_SEND_IMM,
	REQ_WRITE,
	REQ_WRITE_IMM,
	REQ_READ,
	REQ_FETCH_ADD, /* from here on with --mixed only */
	REQ_CMP_SWAP,
	REQ_KINDS,
};

extern const char *const request_kind_name[REQ_KINDS];

struct request { /* one request in flight */
	enum request_kind kind;
	uint32_t len;
	uint32_t remote_off; /* READ: offset in the peer's source */
	bool echo;           /* READ: into a slot for the fenced SEND that follows */
	uint8_t *landing;    /* READ, atomic: destination */
	uint64_t expect;     /* atomic on a private word: the expected result */
	int shared;          /* atomic on a shared word: its index; else -1 */
};

struct remote_area {
	uint64_t src_addr, target_addr, own_addr, shared_addr;
	uint32_t src_rkey, target_rkey, own_rkey, shared_rkey;
};

#define OWN_WORDS    4 /* words that atomics of one stream alone change */
#define SHARED_WORDS 3 /* words that atomics of all streams change */

/* The results of all streams' atomics on the peer's shared words. */
struct adders {
	uint8_t *brought[SHARED_WORDS]; /* values returned, as bitmaps */
	uint64_t room[SHARED_WORDS];    /* bits */
	uint64_t n[SHARED_WORDS];       /* number of results */
};

/* Receive requests of a shared receive queue; wr_id is the number of the slot. */
struct shared_in {
	struct ibv_srq *srq;
	struct buffer slots;
	uint32_t n;
	bool *posted; /* each slot: its request is posted and has not completed */
};

struct stream_in {
	struct buffer target;      /* target of the peer's WRITEs */
	struct buffer slots;       /* for its SENDs: max_len + GUARD_BYTES per receive request */
	uint64_t received, posted; /* receive requests completed and posted */
	struct shared_in *shared;  /* used instead of slots; NULL: none */
	struct buffer own;         /* words for the peer's atomics */
	struct digest *messages;
};

struct stream {
	struct ibv_qp *qp;
	const struct plan *plan;
	struct remote_area peer;
	uint64_t rng;
	struct buffer src;        /* source of SENDs, WRITEs and the peer's READs */
	struct buffer land;       /* destination of READs: max_len + GUARD_BYTES per request */
	uint8_t *peer_src;        /* content of the peer's src */
	uint8_t *image;           /* expected content of the peer's target */
	struct request *inflight; /* ring of plan->depth */
	struct buffer echo;       /* a slot for each READ that a SEND follows */
	uint64_t echoes;          /* such READs so far */
	bool echo_due;            /* the next request must be the SEND of the last */
	struct request echo_of;
	uint64_t own[OWN_WORDS]; /* expected content of the peer's words */
	uint64_t adds[SHARED_WORDS];
	struct adders *adders;
	uint64_t posted, completed;
	uint32_t unsignaled; /* requests since the last signaled one */
	uint32_t max_inline;
	uint64_t count[REQ_KINDS];
	uint64_t bytes;
	struct digest *messages; /* digest of all SENDs and immediates */
	struct stream_in in;
};

/* A side's report about one stream after its last request has completed. */
struct stream_done {
	uint64_t messages;
	uint8_t messages_sha[DIGEST_BYTES];
	uint8_t image_sha[DIGEST_BYTES];
	uint64_t own[OWN_WORDS];     /* expected content of the words */
	uint64_t adds[SHARED_WORDS]; /* number of times that 1 was added */
};

/* Size in bytes of a stream's source and of its target. */
static inline uint32_t
area_len(const struct plan *plan)
{
	return 2 * plan->max_len + 4096;
}

/* Bytes from one slot to the next. */
static inline uint32_t
slot_stride(const struct plan *plan)
{
	return plan->max_len + GUARD_BYTES;
}

/* Adds one message to a running digest; payload may be NULL (a WRITE's is in the image). */
void message_digest(struct digest *dig, bool is_write, bool has_imm, uint32_t imm, uint32_t len,
		    const void *payload);

/* Posts one random request; the queue must have space (posted - completed < plan->depth). */
void stream_post(struct stream *st);
/*
 * The last request of a stream may be unsignaled. Posts a signaled, empty WRITE behind it, if there
 * is space, so that it completes. The WRITE changes nothing at the peer.
 */
void stream_flush(struct stream *st);
/* Takes a send completion, which ends all requests up to it. Dies on the first difference. */
void stream_complete(struct stream *st, const struct ibv_wc *wc);

/* check_atomic.c: fills wr, and req, for an atomic of req->kind. */
void atomic_build(struct stream *st, struct request *req, struct ibv_send_wr *wr);
/* Takes the result of a completed atomic. Dies if it is wrong. */
void atomic_finish(struct stream *st, const struct request *req);
/* Are the results of each shared word 0 .. n - 1? Prints those that are not. */
bool adders_verify(const struct adders *adders);
/* Does word hold value? Prints a difference. */
bool word_verify(const char *what, uint32_t i, const uint64_t *word, uint64_t value);

/* Posts all requests of a shared receive queue, for qps queue pairs. */
void shared_in_open(struct shared_in *sh, struct ibv_pd *pd, struct ibv_srq *srq,
		    const struct plan *plan);

/*
 * Makes the receiving half of a stream and posts all its receive requests. shared: the SRQ to
 * receive from instead, or NULL.
 */
void stream_in_open(struct stream *st, struct ibv_pd *pd, enum mem_kind kind,
		    struct shared_in *shared);
void stream_in_close(struct stream *st);
/*
 * Takes a receive completion: verifies it and posts the request again. Dies on the first
 * difference.
 */
void stream_in_complete(struct stream *st, const struct ibv_wc *wc);
/* Did all that the peer reports as sent arrive? Prints differences. */
bool stream_in_verify(struct stream *st, const struct stream_done *peer);

#endif
