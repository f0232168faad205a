/* SPDX-License-Identifier: BSD-3-Clause */
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
