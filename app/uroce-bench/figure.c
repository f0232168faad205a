/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include "bench.h"

void
bench_figure_add(struct bench_figure *f, double value)
{
	if (f->n < BENCH_MAX_RUNS)
		f->run[f->n++] = value;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
nth(const struct bench_figure *f, unsigned i)
{
	double sorted[BENCH_MAX_RUNS];

	if (f->n == 0)
		return 0;
	memcpy(sorted, f->run, f->n * sizeof(sorted[0]));
	qsort(sorted, f->n, sizeof(sorted[0]), compare);
	return sorted[i];
}

double
bench_figure_median(const struct bench_figure *f)
{
	return nth(f, f->n / 2);
}

double
bench_figure_least(const struct bench_figure *f)
{
	return nth(f, 0);
}

double
bench_figure_most(const struct bench_figure *f)
{
	return nth(f, f->n == 0 ? 0 : f->n - 1);
}
