/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <stdio.h>
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

/* Posts the next receive request, cut in two so that scattering is exercised. */
static void
recv_post(struct stream *st)
{
	uint64_t seq = st->in.posted++;
	uint32_t first = seq % 3 ? st->plan->max_len / (1 + seq % 7) : st->plan->max_len;
	struct ibv_sge sge[2] = {
		{.addr = (uintptr_t)slot_of(st, seq),
		 .length = first,
		 .lkey = st->in.slots.mr->lkey},
		{.addr = (uintptr_t)slot_of(st, seq) + first,
		 .length = st->plan->max_len - first,
		 .lkey = st->in.slots.mr->lkey},
	};
	struct ibv_recv_wr *bad, wr = {
					 .wr_id = RECV_TAG | seq,
					 .sg_list = sge,
					 .num_sge = sge[1].length ? 2 : 1,
				 };
	int rc = ibv_post_recv(st->qp, &wr, &bad);

	if (rc)
		die("ibv_post_recv: %s", strerror(rc));
}

void
stream_in_open(struct stream *st, struct ibv_pd *pd, enum mem_kind kind)
{
	size_t slots_len = (size_t)slot_stride(st->plan) * st->plan->depth;

	st->in = (struct stream_in){
		.target = buffer_make(pd, kind, area_len(st->plan),
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
		.slots = buffer_make(pd, (kind + 1) % MEM_KINDS, slots_len, IBV_ACCESS_LOCAL_WRITE),
		.messages = digest_start(),
	};
	while (st->in.posted < st->plan->depth)
		recv_post(st);
}

void
stream_in_close(struct stream *st)
{
	buffer_free(&st->in.target);
	buffer_free(&st->in.slots);
}

void
stream_in_complete(struct stream *st, const struct ibv_wc *wc)
{
	bool is_write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	bool has_imm = wc->wc_flags & IBV_WC_WITH_IMM;
	uint32_t landed = is_write ? 0 : wc->byte_len;
	uint64_t seq = st->in.received++;
	uint8_t *slot = slot_of(st, seq);

	if (wc->wr_id != (RECV_TAG | seq))
		die("receive completion %#llx, but %#llx is next", (unsigned long long)wc->wr_id,
		    (unsigned long long)(RECV_TAG | seq));
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
	if (!buffer_guards_intact(&st->in.target) || !buffer_guards_intact(&st->in.slots) ||
	    !buffer_guards_intact(&st->src) || !buffer_guards_intact(&st->land)) {
		printf("rcdata: bytes outside a registered region have changed\n");
		good = false;
	}
	return good;
}
