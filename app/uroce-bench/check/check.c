/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "check". How each operation is checked: each direction of a queue pair has separate memory,
 * so its expected content does not depend on the other streams:
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
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "rcdata.h"

#define FIRST_ROOM 4096 /* initial capacity in values per word; a multiple of 8 */
#define MAX_PIECES 4
#define POLL_BATCH 32
#define RECV_TAG   (1ull << 63) /* flag in the wr_id of receives */

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

static const char *const request_kind_name[REQ_KINDS] = {
	[REQ_SEND] = "SEND",           [REQ_SEND_IMM] = "SEND_IMM", [REQ_WRITE] = "WRITE",
	[REQ_WRITE_IMM] = "WRITE_IMM", [REQ_READ] = "READ",         [REQ_FETCH_ADD] = "FETCH_ADD",
	[REQ_CMP_SWAP] = "CMP_SWAP",
};

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

/* Atomic on a word that only this stream uses, so that the result is known. */
static void
build_own(struct stream *st, struct request *req, struct ibv_send_wr *wr)
{
	uint32_t i = random_range(&st->rng, 0, OWN_WORDS - 1);
	uint64_t operand = random_next(&st->rng);

	req->expect = st->own[i];
	wr->wr.atomic.remote_addr = st->peer.own_addr + 8 * i;
	wr->wr.atomic.rkey = st->peer.own_rkey;
	if (req->kind == REQ_FETCH_ADD) {
		wr->wr.atomic.compare_add = operand;
		st->own[i] += operand;
		return;
	}
	/* two in three compares succeed */
	wr->wr.atomic.compare_add = st->own[i] + (random_range(&st->rng, 0, 2) == 0);
	wr->wr.atomic.swap = operand;
	if (wr->wr.atomic.compare_add == st->own[i])
		st->own[i] = operand;
}

/* Fills wr, and req, for an atomic of req->kind. */
static void
atomic_build(struct stream *st, struct request *req, struct ibv_send_wr *wr)
{
	req->len = sizeof(uint64_t);
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)req->landing,
					  .length = sizeof(uint64_t),
					  .lkey = st->land.mr->lkey};
	wr->num_sge = 1;
	if (req->kind == REQ_CMP_SWAP || random_range(&st->rng, 0, 1)) {
		build_own(st, req, wr);
		return;
	}
	req->shared = random_range(&st->rng, 0, SHARED_WORDS - 1);
	wr->wr.atomic.remote_addr = st->peer.shared_addr + 8 * req->shared;
	wr->wr.atomic.rkey = st->peer.shared_rkey;
	wr->wr.atomic.compare_add = 1;
	st->adds[req->shared]++;
}

/* Records a result of shared word i. */
static void
note_value(struct adders *a, uint32_t i, uint64_t value)
{
	uint64_t room = a->room[i] ? a->room[i] : FIRST_ROOM;

	/* No word can count that far: such a value is an error. */
	if (value >> 32)
		die("FETCH_ADD of 1 on shared word %u returned %#llx", i,
		    (unsigned long long)value);
	while (room <= value)
		room *= 2;
	if (room != a->room[i]) {
		a->brought[i] = realloc(a->brought[i], room / 8);
		if (!a->brought[i])
			die("no memory");
		memset(a->brought[i] + a->room[i] / 8, 0, (room - a->room[i]) / 8);
		a->room[i] = room;
	}
	if (a->brought[i][value / 8] & 1u << value % 8)
		die("FETCH_ADD of 1 on shared word %u returned %llu twice", i,
		    (unsigned long long)value);
	a->brought[i][value / 8] |= 1u << value % 8;
	a->n[i]++;
}

/* Takes the result of a completed atomic. Dies if it is wrong. */
static void
atomic_finish(struct stream *st, const struct request *req)
{
	uint64_t value;

	memcpy(&value, req->landing, sizeof(value));
	if (req->shared >= 0)
		note_value(st->adders, req->shared, value);
	else if (value != req->expect)
		die("%s %llu returned %#llx, but the word must have held %#llx",
		    request_kind_name[req->kind], (unsigned long long)st->completed,
		    (unsigned long long)value, (unsigned long long)req->expect);
}

/* Are the results of each shared word 0 .. n - 1? Prints those that are not. */
static bool
adders_verify(const struct adders *a)
{
	for (uint32_t i = 0; i < SHARED_WORDS; i++) {
		/* the n values are different: they are 0 .. n - 1 if none is greater */
		for (uint64_t v = a->n[i]; v < a->room[i]; v++) {
			if (!(a->brought[i][v / 8] & 1u << v % 8))
				continue;
			printf("rcdata: %llu adds of 1 to shared word %u returned %llu values\n",
			       (unsigned long long)a->n[i], i, (unsigned long long)v);
			return false;
		}
	}
	return true;
}

/* Does word hold value? Prints a difference. */
static bool
word_verify(const char *what, uint32_t i, const uint64_t *word, uint64_t value)
{
	if (*word == value)
		return true;
	printf("rcdata: %s word %u holds %#llx, but the peer left %#llx\n", what, i,
	       (unsigned long long)*word, (unsigned long long)value);
	return false;
}

/* Adds one message to a running digest; payload may be NULL (a WRITE's is in the image). */
static void
message_digest(struct digest *dig, bool is_write, bool has_imm, uint32_t imm, uint32_t len,
	       const void *payload)
{
	uint32_t head[4] = {is_write, has_imm, has_imm ? imm : 0, len};

	digest_add(dig, head, sizeof(head));
	if (payload)
		digest_add(dig, payload, len);
}

static uint8_t *
slot_of(struct stream *st, uint64_t seq)
{
	return st->in.slots.addr + (seq % st->plan->depth) * slot_stride(st->plan);
}

static uint8_t *
shared_slot(const struct shared_in *sh, const struct plan *plan, uint64_t i)
{
	return sh->slots.addr + i * slot_stride(plan);
}

/* Cuts a receive in two pieces, differently each time, to test scattering. Returns their number. */
static int
cut(const struct plan *plan, const struct buffer *slots, uint8_t *slot, uint64_t seq,
    struct ibv_sge *sge)
{
	uint32_t first = seq % 3 ? plan->max_len / (1 + seq % 7) : plan->max_len;

	sge[0] =
		(struct ibv_sge){.addr = (uintptr_t)slot, .length = first, .lkey = slots->mr->lkey};
	sge[1] = (struct ibv_sge){.addr = (uintptr_t)slot + first,
				  .length = plan->max_len - first,
				  .lkey = slots->mr->lkey};
	return sge[1].length ? 2 : 1;
}

static void
shared_post(struct shared_in *sh, const struct plan *plan, uint64_t i)
{
	struct ibv_sge sge[2];
	struct ibv_recv_wr *bad, wr = {.wr_id = RECV_TAG | i, .sg_list = sge};
	int rc;

	wr.num_sge = cut(plan, &sh->slots, shared_slot(sh, plan, i), i, sge);
	sh->posted[i] = true;
	rc = ibv_post_srq_recv(sh->srq, &wr, &bad);
	if (rc)
		die("ibv_post_srq_recv: %s", strerror(rc));
}

/* Posts all requests of a shared receive queue, for qps queue pairs. */
static void
shared_in_open(struct shared_in *sh, struct ibv_pd *pd, struct ibv_srq *srq,
	       const struct plan *plan)
{
	*sh = (struct shared_in){.srq = srq, .n = plan->depth * plan->qps};
	sh->posted = calloc(sh->n, sizeof(*sh->posted));
	if (!sh->posted)
		die("no memory");
	sh->slots = buffer_make(pd, MEM_ANON, (size_t)slot_stride(plan) * sh->n,
				IBV_ACCESS_LOCAL_WRITE);
	for (uint32_t i = 0; i < sh->n; i++)
		shared_post(sh, plan, i);
}

/* Posts the next receive request. */
static void
recv_post(struct stream *st)
{
	uint64_t seq = st->in.posted++;
	struct ibv_sge sge[2];
	struct ibv_recv_wr *bad, wr = {.wr_id = RECV_TAG | seq, .sg_list = sge};
	int rc;

	wr.num_sge = cut(st->plan, &st->in.slots, slot_of(st, seq), seq, sge);
	rc = ibv_post_recv(st->qp, &wr, &bad);
	if (rc)
		die("ibv_post_recv: %s", strerror(rc));
}

/*
 * Makes the receiving half of a stream and posts all its receive requests. shared: the SRQ to
 * receive from instead, or NULL.
 */
static void
stream_in_open(struct stream *st, struct ibv_pd *pd, enum mem_kind kind, struct shared_in *shared)
{
	size_t slots_len = (size_t)slot_stride(st->plan) * st->plan->depth;
	int atomic = IBV_ACCESS_LOCAL_WRITE | (st->plan->mixed ? IBV_ACCESS_REMOTE_ATOMIC : 0);

	st->in = (struct stream_in){
		.target = buffer_make(pd, kind, area_len(st->plan),
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
		.slots = buffer_make(pd, (kind + 1) % MEM_KINDS, shared ? 1 : slots_len,
				     IBV_ACCESS_LOCAL_WRITE),
		.shared = shared,
		.own = buffer_make(pd, kind, sizeof(st->own), atomic),
		.messages = digest_start(),
	};
	memset(st->in.own.addr, 0, sizeof(st->own));
	while (!shared && st->in.posted < st->plan->depth)
		recv_post(st);
}

static void
stream_in_close(struct stream *st)
{
	buffer_free(&st->in.target);
	buffer_free(&st->in.slots);
	buffer_free(&st->in.own);
}

/* The slot of a receive request that completed: the oldest, or any slot of an SRQ. */
static uint8_t *
completed_slot(struct stream *st, const struct ibv_wc *wc, uint64_t seq)
{
	struct shared_in *sh = st->in.shared;
	uint64_t i = wc->wr_id & ~RECV_TAG;

	if (sh && (i >= sh->n || !sh->posted[i]))
		die("receive completion %#llx, which was not posted",
		    (unsigned long long)wc->wr_id);
	if (sh) {
		sh->posted[i] = false;
		return shared_slot(sh, st->plan, i);
	}
	if (i != seq)
		die("receive completion %#llx, but %#llx is next", (unsigned long long)wc->wr_id,
		    (unsigned long long)(RECV_TAG | seq));
	return slot_of(st, seq);
}

/*
 * Takes a receive completion: verifies it and posts the request again. Dies on the first
 * difference.
 */
static void
stream_in_complete(struct stream *st, const struct ibv_wc *wc)
{
	bool is_write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	bool has_imm = wc->wc_flags & IBV_WC_WITH_IMM;
	uint32_t landed = is_write ? 0 : wc->byte_len;
	uint64_t seq = st->in.received++;
	uint8_t *slot = completed_slot(st, wc, seq);

	if (wc->opcode != IBV_WC_RECV && !is_write)
		die("receive completion with opcode %d", wc->opcode);
	if (is_write && !has_imm)
		die("a WRITE completed a receive without immediate data");
	if (wc->byte_len > st->plan->max_len)
		die("a message of %u bytes, the longest is %u", wc->byte_len, st->plan->max_len);
	if (!all_guard(slot + landed, GUARD_BYTES))
		die("bytes behind message %llu of %u bytes have changed", (unsigned long long)seq,
		    landed);
	message_digest(st->in.messages, is_write, has_imm, has_imm ? ntohl(wc->imm_data) : 0,
		       wc->byte_len, is_write ? NULL : slot);
	memset(slot, GUARD_FILL, landed);
	if (st->in.shared)
		shared_post(st->in.shared, st->plan, wc->wr_id & ~RECV_TAG);
	else
		recv_post(st);
}

/* Did all that the peer reports as sent arrive? Prints differences. */
static bool
stream_in_verify(struct stream *st, const struct stream_done *peer)
{
	struct digest *target = digest_start();
	uint8_t sha[DIGEST_BYTES];
	bool good = true;

	digest_end(st->in.messages, sha);
	if (memcmp(sha, peer->messages_sha, sizeof(sha))) {
		printf("rcdata: messages received differ from those sent\n");
		good = false;
	}
	digest_add(target, st->in.target.addr, st->in.target.len);
	digest_end(target, sha);
	if (memcmp(sha, peer->image_sha, sizeof(sha))) {
		printf("rcdata: memory written by the peer differs from what it wrote\n");
		good = false;
	}
	for (uint32_t i = 0; i < OWN_WORDS; i++)
		good &= word_verify("own", i, (uint64_t *)st->in.own.addr + i, peer->own[i]);
	if (!buffer_guards_intact(&st->in.own) || !buffer_guards_intact(&st->echo) ||
	    !buffer_guards_intact(&st->in.target) || !buffer_guards_intact(&st->in.slots) ||
	    !buffer_guards_intact(&st->src) || !buffer_guards_intact(&st->land)) {
		printf("rcdata: bytes outside a registered region have changed\n");
		good = false;
	}
	return good;
}

static const enum ibv_wr_opcode kind_opcode[REQ_KINDS] = {
	[REQ_SEND] = IBV_WR_SEND,
	[REQ_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
	[REQ_WRITE] = IBV_WR_RDMA_WRITE,
	[REQ_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[REQ_READ] = IBV_WR_RDMA_READ,
	[REQ_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[REQ_CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
};

static const enum ibv_wc_opcode kind_completion[REQ_KINDS] = {
	[REQ_SEND] = IBV_WC_SEND,          [REQ_SEND_IMM] = IBV_WC_SEND,
	[REQ_WRITE] = IBV_WC_RDMA_WRITE,   [REQ_WRITE_IMM] = IBV_WC_RDMA_WRITE,
	[REQ_READ] = IBV_WC_RDMA_READ,     [REQ_FETCH_ADD] = IBV_WC_FETCH_ADD,
	[REQ_CMP_SWAP] = IBV_WC_COMP_SWAP,
};

/* A random length: often tiny, often next to a multiple of an MTU, sometimes zero or large. */
static uint32_t
random_len(struct stream *st)
{
	uint32_t max = st->plan->max_len, len;

	switch (random_range(&st->rng, 0, 9)) {
	case 0:
		len = 0;
		break;
	case 1:
	case 2:
	case 3:
		len = random_range(&st->rng, 1, 64);
		break;
	case 4:
	case 5:
		len = 256 * random_range(&st->rng, 1, 64) + random_range(&st->rng, 0, 4) - 2;
		break;
	case 6:
	case 7:
	case 8:
		len = random_range(&st->rng, 1, 16384);
		break;
	default:
		len = random_range(&st->rng, 1, max);
	}
	return len < max ? len : max;
}

/* Cuts len bytes of source into pieces from random offsets; returns their number. */
static int
gather(struct stream *st, uint32_t len, struct ibv_sge *sge)
{
	int want = random_range(&st->rng, 1, MAX_PIECES), n = 0;

	while (len) {
		uint32_t piece = n + 1 == want ? len : random_range(&st->rng, 1, len);
		uint32_t off = random_range(&st->rng, 0, st->src.len - piece);

		sge[n++] = (struct ibv_sge){.addr = (uintptr_t)st->src.addr + off,
					    .length = piece,
					    .lkey = st->src.mr->lkey};
		len -= piece;
	}
	return n;
}

/*
 * Records an outgoing SEND or WRITE: the content that the peer must end up with. bytes: what it
 * will send, if not in the source yet; else NULL.
 */
static void
account(struct stream *st, const struct request *req, const struct ibv_send_wr *wr,
	const uint8_t *bytes)
{
	bool is_write = req->kind == REQ_WRITE || req->kind == REQ_WRITE_IMM;
	bool has_imm = req->kind == REQ_SEND_IMM || req->kind == REQ_WRITE_IMM;
	uint8_t *whole = is_write ? st->image + (wr->wr.rdma.remote_addr - st->peer.target_addr)
				  : malloc(req->len + 1);
	uint32_t at = 0;

	if (!whole)
		die("no memory");
	if (bytes)
		memcpy(whole, bytes, req->len);
	for (int i = 0; !bytes && i < wr->num_sge; i++) {
		memcpy(whole + at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		at += wr->sg_list[i].length;
	}
	if (!is_write || has_imm)
		message_digest(st->messages, is_write, has_imm, has_imm ? ntohl(wr->imm_data) : 0,
			       req->len, is_write ? NULL : whole);
	if (!is_write)
		free(whole);
}

/* Fills wr for a READ into the request's slot. */
static void
build_read(struct stream *st, struct request *req, struct ibv_send_wr *wr)
{
	struct buffer *into = &st->land;

	if (st->plan->mixed && req->len && random_range(&st->rng, 0, 3) == 0) {
		/*
		 * There are as many slots as requests in flight, so the last SEND from this slot is
		 * complete.
		 */
		into = &st->echo;
		req->echo = st->echo_due = true;
		req->landing =
			into->addr + (st->echoes++ % st->plan->depth) * slot_stride(st->plan);
	}
	req->remote_off = random_range(&st->rng, 0, st->src.len - req->len);
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)req->landing,
					  .length = req->len,
					  .lkey = into->mr->lkey};
	wr->num_sge = req->len ? 1 : 0;
	wr->wr.rdma.remote_addr = st->peer.src_addr + req->remote_off;
	wr->wr.rdma.rkey = st->peer.src_rkey;
}

/* Fills wr for a SEND or WRITE gathered from random offsets; small ones may go inline. */
static void
build_out(struct stream *st, struct request *req, struct ibv_send_wr *wr)
{
	wr->num_sge = gather(st, req->len, wr->sg_list);
	wr->imm_data = htonl((uint32_t)random_next(&st->rng));
	if (req->kind == REQ_WRITE || req->kind == REQ_WRITE_IMM) {
		wr->wr.rdma.remote_addr = st->peer.target_addr +
					  random_range(&st->rng, 0, st->in.target.len - req->len);
		wr->wr.rdma.rkey = st->peer.target_rkey;
	}
	if (req->len <= st->max_inline && random_range(&st->rng, 0, 1))
		wr->send_flags |= IBV_SEND_INLINE;
	account(st, req, wr, NULL);
}

/*
 * Fills wr for the SEND of the preceding READ's data: without the fence it would send the old
 * bytes.
 */
static void
build_echo(struct stream *st, struct request *req, struct ibv_send_wr *wr)
{
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)st->echo_of.landing,
					  .length = req->len,
					  .lkey = st->echo.mr->lkey};
	wr->num_sge = 1;
	wr->imm_data = htonl((uint32_t)random_next(&st->rng));
	wr->send_flags |= IBV_SEND_FENCE;
	account(st, req, wr, st->peer_src + st->echo_of.remote_off);
}

static enum request_kind
random_kind(struct stream *st)
{
	if (st->echo_due)
		return random_range(&st->rng, REQ_SEND, REQ_SEND_IMM);
	return random_range(&st->rng, 0, (st->plan->mixed ? REQ_KINDS : REQ_FETCH_ADD) - 1);
}

static void
build(struct stream *st, struct request *req, struct ibv_send_wr *wr)
{
	if (st->plan->mixed && random_range(&st->rng, 0, 15) == 0)
		wr->send_flags |= IBV_SEND_FENCE;
	if (st->plan->mixed && random_range(&st->rng, 0, 7) == 0)
		wr->send_flags |= IBV_SEND_SOLICITED;
	if (st->echo_due) {
		st->echo_due = false;
		build_echo(st, req, wr);
	} else if (req->kind >= REQ_FETCH_ADD) {
		atomic_build(st, req, wr);
	} else if (req->kind == REQ_READ) {
		build_read(st, req, wr);
		st->echo_of = *req;
	} else {
		build_out(st, req, wr);
	}
}

/* Posts one random request; the queue must have space (posted - completed < plan->depth). */
static void
stream_post(struct stream *st)
{
	struct request *req = &st->inflight[st->posted % st->plan->depth];
	struct ibv_sge sge[MAX_PIECES];
	struct ibv_send_wr *bad, wr = {.wr_id = st->posted, .sg_list = sge};
	int rc;

	*req = (struct request){.kind = random_kind(st),
				.len = st->echo_due ? st->echo_of.len : random_len(st),
				.landing = st->land.addr +
					   (st->posted % st->plan->depth) * slot_stride(st->plan),
				.shared = -1};
	wr.opcode = kind_opcode[req->kind];
	/* an unsignaled run must end before it fills the queue */
	if (random_range(&st->rng, 0, 3) || ++st->unsignaled > st->plan->depth / 2) {
		wr.send_flags = IBV_SEND_SIGNALED;
		st->unsignaled = 0;
	}
	build(st, req, &wr);
	rc = ibv_post_send(st->qp, &wr, &bad);
	if (rc)
		die("ibv_post_send of a %s: %s", request_kind_name[req->kind], strerror(rc));
	st->posted++;
	st->count[req->kind]++;
	st->bytes += req->len;
}

/* Completes the oldest request in flight: compares a READ's bytes. */
static void
request_finish(struct stream *st)
{
	struct request *req = &st->inflight[st->completed % st->plan->depth];
	bool fetches = req->kind >= REQ_READ;

	if (req->kind == REQ_READ && memcmp(req->landing, st->peer_src + req->remote_off, req->len))
		die("READ %llu of %u bytes returned bytes that differ from the peer's",
		    (unsigned long long)st->completed, req->len);
	if (req->kind > REQ_READ)
		atomic_finish(st, req);
	/* An echo's SEND may be retransmitted from its slot, so no other READ may use it yet. */
	if (fetches && !req->echo)
		memset(req->landing, GUARD_FILL, req->len);
	if (!req->echo && !all_guard(req->landing + (fetches ? req->len : 0), GUARD_BYTES))
		die("bytes of a READ's slot changed outside the READ");
	st->completed++;
}

/* Takes a send completion, which ends all requests up to it. Dies on the first difference. */
static void
stream_complete(struct stream *st, const struct ibv_wc *wc)
{
	struct request *req = &st->inflight[wc->wr_id % st->plan->depth];

	if (wc->wr_id < st->completed || wc->wr_id >= st->posted)
		die("completion of request %llu, but %llu .. %llu are in flight",
		    (unsigned long long)wc->wr_id, (unsigned long long)st->completed,
		    (unsigned long long)st->posted - 1);
	if (wc->opcode != kind_completion[req->kind])
		die("a %s completed with opcode %d", request_kind_name[req->kind], wc->opcode);
	while (st->completed <= wc->wr_id)
		request_finish(st);
}

/*
 * The last request of a stream may be unsignaled. Posts a signaled, empty WRITE behind it, if there
 * is space, so that it completes. The WRITE changes nothing at the peer.
 */
static void
stream_flush(struct stream *st)
{
	struct ibv_send_wr *bad, wr = {.wr_id = st->posted,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED};
	int rc;

	if (!st->unsignaled || st->posted - st->completed >= st->plan->depth)
		return;
	wr.wr.rdma.remote_addr = st->peer.target_addr;
	wr.wr.rdma.rkey = st->peer.target_rkey;
	st->inflight[st->posted % st->plan->depth] =
		(struct request){.kind = REQ_WRITE,
				 .landing = st->land.addr +
					    (st->posted % st->plan->depth) * slot_stride(st->plan)};
	rc = ibv_post_send(st->qp, &wr, &bad);
	if (rc)
		die("ibv_post_send of the last WRITE: %s", strerror(rc));
	st->posted++;
	st->unsignaled = 0;
}

struct check {
	struct endpoint *ep;
	const struct options *opt;
	const struct plan *plan;
	struct stream stream[MAX_QPS];
	struct shared_in shared_in; /* with plan->srq */
	struct buffer shared;       /* words for atomics of all the peer's streams */
	struct adders adders;
	uint64_t start_ns, progress_ns; /* when the run began, when a request last completed */
	bool posting;                   /* this side has requests left to post */
	bool told;                      /* the peer has our stream_done */
	bool heard;                     /* we have the peer's stream_done */
	bool peer_gone;
	struct stream_done peer[MAX_QPS];
};

static volatile sig_atomic_t enough; /* set by a signal: post no more requests */

static void
on_enough(int sig)
{
	enough = 1;
}

static uint64_t
source_seed(const struct plan *plan, bool server, uint32_t qp)
{
	return plan->seed * 1000003 + qp * 2 + server;
}

static void
stream_open(struct check *ck, uint32_t i)
{
	struct stream *st = &ck->stream[i];
	const struct plan *plan = ck->plan;
	bool server = !ck->opt->host;
	struct remote_area mine;
	size_t len = area_len(plan);

	*st = (struct stream){
		.qp = ck->ep->qp[i],
		.plan = plan,
		.rng = source_seed(plan, server, i) ^ 0x5eed,
		.max_inline = ck->ep->max_inline,
		.src = buffer_make(ck->ep->pd, i % MEM_KINDS, len, IBV_ACCESS_REMOTE_READ),
		.land = buffer_make(ck->ep->pd, (i + 1) % MEM_KINDS,
				    (size_t)slot_stride(plan) * plan->depth,
				    IBV_ACCESS_LOCAL_WRITE),
		.echo = buffer_make(ck->ep->pd, i % MEM_KINDS,
				    plan->mixed ? (size_t)slot_stride(plan) * plan->depth : 1,
				    IBV_ACCESS_LOCAL_WRITE),
		.adders = &ck->adders,
		.peer_src = malloc(len),
		.image = malloc(len),
		.inflight = calloc(plan->depth, sizeof(struct request)),
		.messages = digest_start(),
	};
	if (!st->peer_src || !st->image || !st->inflight)
		die("no memory");
	random_fill(st->src.addr, len, source_seed(plan, server, i));
	random_fill(st->peer_src, len, source_seed(plan, !server, i));
	memset(st->image, GUARD_FILL, len);
	stream_in_open(st, ck->ep->pd, (i + 2) % MEM_KINDS, plan->srq ? &ck->shared_in : NULL);
	mine = (struct remote_area){
		.src_addr = (uintptr_t)st->src.addr,
		.src_rkey = st->src.mr->rkey,
		.target_addr = (uintptr_t)st->in.target.addr,
		.target_rkey = st->in.target.mr->rkey,
		.own_addr = (uintptr_t)st->in.own.addr,
		.own_rkey = st->in.own.mr->rkey,
		.shared_addr = (uintptr_t)ck->shared.addr,
		.shared_rkey = ck->shared.mr->rkey,
	};
	link_swap(ck->ep->link, &mine, &st->peer, sizeof(mine));
}

static void
stream_close(struct stream *st)
{
	buffer_free(&st->src);
	buffer_free(&st->land);
	buffer_free(&st->echo);
	stream_in_close(st);
	free(st->peer_src);
	free(st->image);
	free(st->inflight);
}

static struct stream *
stream_of(struct check *ck, uint32_t qp_num)
{
	for (uint32_t i = 0; i < ck->plan->qps; i++)
		if (ck->stream[i].qp->qp_num == qp_num)
			return &ck->stream[i];
	die("completion of an unknown QP %#x", qp_num);
}

/* Has the stream posted all its requests? */
static bool
stream_posted_all(const struct check *ck, const struct stream *st)
{
	return !ck->posting || (!ck->plan->duration_ms && st->posted >= ck->plan->ops);
}

/* Posts what fits; returns true if all of this side's work is done. */
static bool
post_all(struct check *ck)
{
	bool done = true;

	if (enough ||
	    (ck->plan->duration_ms && now_ns() - ck->start_ns > ck->plan->duration_ms * 1000000))
		ck->posting = false;
	for (uint32_t i = 0; i < ck->plan->qps; i++) {
		struct stream *st = &ck->stream[i];

		while (!stream_posted_all(ck, st) && st->posted - st->completed < ck->plan->depth)
			stream_post(st);
		if (stream_posted_all(ck, st))
			stream_flush(st);
		done &= stream_posted_all(ck, st) && st->posted == st->completed;
	}
	return done;
}

static void
tell_peer(struct check *ck)
{
	for (uint32_t i = 0; i < ck->plan->qps; i++) {
		struct stream *st = &ck->stream[i];
		struct stream_done mine = {0};
		struct digest *image = digest_start();

		mine.messages =
			st->count[REQ_SEND] + st->count[REQ_SEND_IMM] + st->count[REQ_WRITE_IMM];
		digest_end(st->messages, mine.messages_sha);
		digest_add(image, st->image, area_len(ck->plan));
		digest_end(image, mine.image_sha);
		memcpy(mine.own, st->own, sizeof(mine.own));
		memcpy(mine.adds, st->adds, sizeof(mine.adds));
		link_send(ck->ep->link, &mine, sizeof(mine));
	}
	ck->told = true;
}

/* Takes the peer's report if it has arrived. A dead peer must show as a completion error first. */
static void
hear_peer(struct check *ck)
{
	char byte;

	if (ck->heard || ck->peer_gone || !link_readable(ck->ep->link))
		return;
	if (recv(ck->ep->link, &byte, 1, MSG_PEEK) <= 0) {
		ck->peer_gone = true;
		return;
	}
	link_recv(ck->ep->link, ck->peer, sizeof(ck->peer[0]) * ck->plan->qps);
	ck->heard = true;
}

static bool
all_received(const struct check *ck)
{
	for (uint32_t i = 0; ck->heard && i < ck->plan->qps; i++)
		if (ck->stream[i].in.received < ck->peer[i].messages)
			return false;
	return ck->heard;
}

static void
take_completions(struct check *ck)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = endpoint_poll(ck->ep, wc, POLL_BATCH);

	for (int i = 0; i < n; i++) {
		struct stream *st = stream_of(ck, wc[i].qp_num);

		if (wc[i].wr_id & RECV_TAG)
			stream_in_complete(st, &wc[i]);
		else
			stream_complete(st, &wc[i]);
	}
	if (n)
		ck->progress_ns = now_ns();
	if (now_ns() - ck->progress_ns < ck->opt->stall_s * 1e9)
		return;
	printf("rcdata: no completion for %u s%s\n", ck->opt->stall_s,
	       ck->peer_gone ? ", and the peer is gone" : "");
	for (uint32_t i = 0; i < ck->plan->qps; i++)
		printf("rcdata: stream %u: posted %llu completed %llu received %llu\n", i,
		       (unsigned long long)ck->stream[i].posted,
		       (unsigned long long)ck->stream[i].completed,
		       (unsigned long long)ck->stream[i].in.received);
	fflush(stdout);
	exit(EXIT_STALLED);
}

static void
check_open(struct check *ck)
{
	const struct plan *plan = ck->plan;
	int access = IBV_ACCESS_LOCAL_WRITE | (plan->mixed ? IBV_ACCESS_REMOTE_ATOMIC : 0);

	ck->shared = buffer_make(ck->ep->pd, MEM_ANON, SHARED_WORDS * sizeof(uint64_t), access);
	memset(ck->shared.addr, 0, ck->shared.len);
	if (plan->srq)
		shared_in_open(&ck->shared_in, ck->ep->pd, ck->ep->srq, plan);
	for (uint32_t i = 0; i < plan->qps; i++)
		stream_open(ck, i);
}

static void
check_close(struct check *ck)
{
	for (uint32_t i = 0; i < ck->plan->qps; i++)
		stream_close(&ck->stream[i]);
	for (uint32_t i = 0; i < SHARED_WORDS; i++)
		free(ck->adders.brought[i]);
	if (ck->plan->srq)
		buffer_free(&ck->shared_in.slots);
	free(ck->shared_in.posted);
	buffer_free(&ck->shared);
}

/* Checks the state that all streams of a side share: the peer's adds to these words. */
static bool
shared_verify(struct check *ck)
{
	bool good = adders_verify(&ck->adders) && buffer_guards_intact(&ck->shared) &&
		    (!ck->plan->srq || buffer_guards_intact(&ck->shared_in.slots));

	for (uint32_t w = 0; w < SHARED_WORDS; w++) {
		uint64_t adds = 0;

		for (uint32_t i = 0; i < ck->plan->qps; i++)
			adds += ck->peer[i].adds[w];
		good &= word_verify("shared", w, (uint64_t *)ck->shared.addr + w, adds);
	}
	return good;
}

/* After both sides are done nothing more may complete. */
static bool
quiet_at_the_end(struct check *ck)
{
	struct ibv_wc wc;

	link_barrier(ck->ep->link);
	/* Wait for frames still in the network before the queue pairs are destroyed. */
	for (int i = 0; i < (ck->plan->mixed ? 100 : 10); i++) {
		if (ibv_poll_cq(ck->ep->cq, 1, &wc)) {
			printf("rcdata: an extra completion: wr_id %#llx\n",
			       (unsigned long long)wc.wr_id);
			return false;
		}
		nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
	}
	return true;
}

static void
report(const struct check *ck, bool good)
{
	uint64_t count[REQ_KINDS] = {0}, bytes = 0, received = 0;
	double seconds = (now_ns() - ck->start_ns) / 1e9;
	const char *sep = ck->opt->json ? "\", \"" : "";

	for (uint32_t i = 0; i < ck->plan->qps; i++) {
		for (int k = 0; k < REQ_KINDS; k++)
			count[k] += ck->stream[i].count[k];
		bytes += ck->stream[i].bytes;
		received += ck->stream[i].in.received;
	}
	if (ck->opt->json)
		printf("{\"mode\": \"check\", \"ok\": %s, \"qps\": %u, \"bytes\": %llu, "
		       "\"received\": %llu, \"seconds\": %.3f",
		       good ? "true" : "false", ck->plan->qps, (unsigned long long)bytes,
		       (unsigned long long)received, seconds);
	else
		printf("%s: %u QPs, posted %llu bytes, received %llu messages in %.2f s:",
		       good ? "all bytes equal" : "DATA DIFFER", ck->plan->qps,
		       (unsigned long long)bytes, (unsigned long long)received, seconds);
	for (int k = 0; k < REQ_KINDS; k++)
		printf(*sep ? ", \"%s\": %llu" : " %s %llu", request_kind_name[k],
		       (unsigned long long)count[k]);
	printf(*sep ? "}\n" : "\n");
}

bool
check_run(struct endpoint *ep, const struct options *opt, const struct plan *plan)
{
	static struct check ck;
	bool good = true;

	ck = (struct check){.ep = ep, .opt = opt, .plan = plan};
	ck.posting = opt->host || !plan->oneway;
	signal(SIGUSR1, on_enough);
	check_open(&ck);
	link_barrier(ep->link);
	ck.start_ns = ck.progress_ns = now_ns();
	while (!ck.told || !all_received(&ck)) {
		bool done = post_all(&ck);

		if (done && !ck.told && !ck.peer_gone)
			tell_peer(&ck);
		if (done && ck.peer_gone)
			die("the peer is gone, and nothing was left in flight");
		hear_peer(&ck);
		take_completions(&ck);
	}
	good = quiet_at_the_end(&ck);
	for (uint32_t i = 0; i < plan->qps; i++)
		good &= stream_in_verify(&ck.stream[i], &ck.peer[i]);
	good &= shared_verify(&ck);
	report(&ck, good);
	link_barrier(ep->link);
	check_close(&ck);
	return good;
}
