/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"

#define MAX_PIECES 4

const char *const request_kind_name[REQ_KINDS] = {
	[REQ_SEND] = "SEND",           [REQ_SEND_IMM] = "SEND_IMM", [REQ_WRITE] = "WRITE",
	[REQ_WRITE_IMM] = "WRITE_IMM", [REQ_READ] = "READ",         [REQ_FETCH_ADD] = "FETCH_ADD",
	[REQ_CMP_SWAP] = "CMP_SWAP",
};

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

void
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

void
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

void
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
