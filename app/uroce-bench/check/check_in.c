/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"

void
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

void
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

void
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

void
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

void
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

bool
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
