/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "client.h"

#define SUB (1u << CLIENT_HIST_SUB_BITS)

/*
 * Each value below 2 * SUB has one cell. Above, each power of two has SUB cells, and cell numbers
 * continue from one power to the next.
 */
static uint32_t
cell_of(uint32_t ns)
{
	uint32_t shift;

	if (ns < 2 * SUB)
		return ns;
	shift = 31 - (uint32_t)__builtin_clz(ns) - CLIENT_HIST_SUB_BITS;
	return shift * SUB + (ns >> shift);
}

static double
value_of(uint32_t cell)
{
	uint32_t shift;

	if (cell < 2 * SUB)
		return cell;
	shift = cell / SUB - 1;
	return ((double)(cell - shift * SUB) + 0.5) * (double)(1u << shift);
}

void
client_hist_add(struct client_hist *h, uint64_t ns)
{
	h->cell[cell_of(ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns)]++;
	h->n++;
}

void
client_hist_merge(struct client_hist *h, const struct client_hist *other)
{
	h->n += other->n;
	for (uint32_t i = 0; i < CLIENT_HIST_CELLS; i++)
		h->cell[i] += other->cell[i];
}

double
client_hist_at(const struct client_hist *h, double share)
{
	uint64_t want = (uint64_t)(share * (double)h->n), seen = 0;
	uint32_t i;

	if (h->n == 0)
		return 0;
	if (want >= h->n)
		want = h->n - 1;
	for (i = 0; i < CLIENT_HIST_CELLS - 1; i++) {
		seen += h->cell[i];
		if (seen > want)
			break;
	}
	return value_of(i);
}

double
client_hist_low(const struct client_hist *h)
{
	uint64_t want = h->n / 2, seen = 0;
	double sum = 0;

	for (uint32_t i = 0; i < CLIENT_HIST_CELLS && seen < want; i++) {
		uint64_t n = h->cell[i] < want - seen ? h->cell[i] : want - seen;

		sum += (double)n * value_of(i);
		seen += n;
	}
	return seen != 0 ? sum / (double)seen : 0;
}

/* Writes and checks the pattern of the moved bytes. */

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
