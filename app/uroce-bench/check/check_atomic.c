/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"

#define FIRST_ROOM 4096 /* initial capacity in values per word; a multiple of 8 */

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

void
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

void
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

bool
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

bool
word_verify(const char *what, uint32_t i, const uint64_t *word, uint64_t value)
{
	if (*word == value)
		return true;
	printf("rcdata: %s word %u holds %#llx, but the peer left %#llx\n", what, i,
	       (unsigned long long)*word, (unsigned long long)value);
	return false;
}
