/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "check", split in three: check.c drives the run, check_out.c posts requests and ends them,
 * check_in.c verifies what the peer's requests did here.
 *
 * What proves what. Each direction of a queue pair has its own memory, so what it must hold is
 * known whatever the other streams do:
 *  - SEND: sender and receiver each keep a running digest of all messages (kind, length, immediate
 *    data, payload) in order; they are equal only if each message arrived once, in order, whole.
 *  - WRITE: the sender applies each WRITE to its own image of the peer's target, overlapping and in
 *    order; the digest of the image and of the target must be equal. WRITE with immediate also
 *    counts as a message.
 *  - READ: the peer's source never changes and its content follows from the seed.
 *  - Completions: wr_id counts up by one a request, none missing, none twice, none after the end.
 *  - Guards around and behind everything a peer may write keep their value.
 */
#ifndef RCDATA_CHECK_H
#define RCDATA_CHECK_H

#include "rcdata.h"

#define RECV_TAG (1ull << 63) /* in the wr_id of receives */

enum request_kind {
	REQ_SEND,
	REQ_SEND_IMM,
	REQ_WRITE,
	REQ_WRITE_IMM,
	REQ_READ,
	REQ_KINDS,
};

extern const char *const request_kind_name[REQ_KINDS];

struct request { /* one request in flight */
	enum request_kind kind;
	uint32_t len;
	uint32_t remote_off; /* READ: where in the peer's source */
};

struct remote_area {
	uint64_t src_addr, target_addr;
	uint32_t src_rkey, target_rkey;
};

struct stream_in {
	struct buffer target; /* the peer's WRITEs land here */
	struct buffer slots;  /* its SENDs: a slot of max_len + GUARD_BYTES a receive request */
	uint64_t received, posted; /* receive requests completed and posted */
	struct digest *messages;
};

struct stream {
	struct ibv_qp *qp;
	const struct plan *plan;
	struct remote_area peer;
	uint64_t rng;
	struct buffer src;        /* SENDs and WRITEs gather from it; the peer READs it */
	struct buffer land;       /* READs land here: a slot of max_len + GUARD_BYTES a request */
	uint8_t *peer_src;        /* what the peer's src holds */
	uint8_t *image;           /* what the peer's target must hold */
	struct request *inflight; /* ring of plan->depth */
	uint64_t posted, completed;
	uint32_t unsignaled; /* requests since the last signaled one */
	uint32_t max_inline;
	uint64_t count[REQ_KINDS];
	uint64_t bytes;
	struct digest *messages; /* of all SENDs and immediates */
	struct stream_in in;
};

/* What a side tells about one stream when its last request has completed. */
struct stream_done {
	uint64_t messages;
	uint8_t messages_sha[DIGEST_BYTES];
	uint8_t image_sha[DIGEST_BYTES];
};

/* Bytes of source and of target a stream has. */
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

/* Posts one random request; there must be room (posted - completed < plan->depth). */
void stream_post(struct stream *st);
/*
 * The last request of a stream may be unsignaled: posts one signaled, empty WRITE behind it, if
 * there is room, so that it completes. It changes nothing at the peer.
 */
void stream_flush(struct stream *st);
/* Takes a send completion: it ends all requests up to it. Dies on the first difference. */
void stream_complete(struct stream *st, const struct ibv_wc *wc);

/* Makes the receiving half of a stream and posts all its receive requests. */
void stream_in_open(struct stream *st, struct ibv_pd *pd, enum mem_kind kind);
void stream_in_close(struct stream *st);
/* Takes a receive completion: verifies and posts the request again. Dies on the first difference.
 */
void stream_in_complete(struct stream *st, const struct ibv_wc *wc);
/* Whether what arrived is what the peer says it sent; prints what is not. */
bool stream_in_verify(struct stream *st, const struct stream_done *peer);

#endif
