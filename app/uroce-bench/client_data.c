/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes and checks the pattern of the moved bytes. */
#include <string.h>
#include "client_int.h"

static uint64_t
word_of(uint32_t seed, uint64_t off)
{
	return (off + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)seed << 32;
}

void
client_pattern(struct client *c, uint32_t seed)
{
	for (uint64_t off = 0; off < (uint64_t)c->slots * c->stride; off += sizeof(uint64_t)) {
		uint64_t word = word_of(seed, off), other = ~word;

		if (c->plan.op == BENCH_ATOMIC)
			word = other = 0;
		memcpy(c->from + off, &word, sizeof(word));
		memcpy(c->to + off, &other, sizeof(other));
	}
}

/* State of the slot at: completely moved (1), unchanged (0), or anything else (-1). */
static int
slot_state(const struct client *c, uint32_t seed, uint64_t at)
{
	uint32_t moved = 0, kept = 0;

	for (uint32_t i = 0; i < c->plan.size; i++) {
		uint64_t word = word_of(seed, at + (i & ~7u));
		uint8_t want = (uint8_t)(word >> (i % 8 * 8));

		moved += c->to[at + i] == want;
		kept += (c->to[at + i] ^ want) == 0xff;
	}
	if (moved == c->plan.size)
		return 1;
	return kept == c->plan.size ? 0 : -1;
}

bool
client_verify(const struct client *c, uint32_t seed, uint64_t count)
{
	uint64_t sum = 0, want = count / c->plan.qps;

	if (!c->has[c->plan.op == BENCH_READ ? 0 : 1])
		return true;
	for (uint32_t i = 0; i < c->slots; i++) {
		uint64_t at = (uint64_t)i * c->stride, add;
		int state;

		if (c->plan.op == BENCH_ATOMIC) {
			memcpy(&add, c->to + at, sizeof(add));
			sum += add;
			continue;
		}
		state = slot_state(c, seed, at);
		if (state < 0)
			return false;
		sum += (uint64_t)state;
	}
	if (c->plan.op == BENCH_ATOMIC)
		return sum == count;
	/* at least one QP moved its share of the messages, each to a separate slot */
	if (want == 0 && count != 0)
		want = 1;
	return sum >= (want < c->slots ? want : c->slots);
}
