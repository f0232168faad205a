/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include "measure.h"

double
measure_jain(const double *share, uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += share[i];
		squares += share[i] * share[i];
	}
	return squares == 0 ? 1 : sum * sum / (n * squares);
}

static int
by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

uint32_t
measure_percentile(uint32_t *v, uint32_t n, uint32_t percent)
{
	uint64_t rank = ((uint64_t)n * percent + 99) / 100;

	qsort(v, n, sizeof(*v), by_value);
	return v[rank == 0 ? 0 : rank - 1];
}
