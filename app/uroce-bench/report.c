/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "bench.h"

struct bench_report {
	json_t *doc, *rows;
	bool json, probe;
	const char *mode;
	unsigned runs;
	double distance_before, speed_before[BENCH_CORES];
	struct {
		const char *key, *unit;
		struct bench_figure values;
	} figure[BENCH_MAX_FIGURES]; /* of the current row */
	unsigned nfigures;
};

struct bench_report *
bench_report_start(const struct bench_options *o)
{
	struct bench_report *r = calloc(1, sizeof(*r));

	if (r == NULL)
		abort();
	r->json = o->json;
	r->mode = o->mode;
	r->runs = o->runs;
	if (o->quiet)
		cli_progress_quiet();
	cli_progress("uroce-bench: %s: preparing", o->mode);
	r->probe = !o->no_probe;
	if (r->probe) {
		r->distance_before = bench_core_distance();
		bench_core_speed(r->speed_before);
	}
	r->rows = json_array();
	r->doc = json_pack("{s:s, s:i, s:o}", "mode", o->mode, "runs", (int)o->runs, "rows",
			   r->rows);
	if (!r->json)
		printf("median of %u runs (min .. max)\n", o->runs);
	return r;
}

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

static struct bench_figure *
figure_of(struct bench_report *r, const char *key)
{
	for (unsigned i = 0; i < r->nfigures; i++)
		if (strcmp(r->figure[i].key, key) == 0)
			return &r->figure[i].values;
	return NULL;
}

void
bench_add(struct bench_report *r, const char *key, const char *unit, double value)
{
	struct bench_figure *f = figure_of(r, key);

	if (f == NULL) {
		if (r->nfigures == BENCH_MAX_FIGURES)
			abort();
		f = &r->figure[r->nfigures].values;
		r->figure[r->nfigures].key = key;
		r->figure[r->nfigures++].unit = unit;
		f->n = 0;
	}
	bench_figure_add(f, value);
	cli_progress("uroce-bench: %s: row %zu, run %u of %u", r->mode,
		     json_array_size(r->rows) + 1, f->n, r->runs);
}

double
bench_median(struct bench_report *r, const char *key)
{
	const struct bench_figure *f = figure_of(r, key);

	return f != NULL ? bench_figure_median(f) : 0;
}

static json_t *
figure_json(const struct bench_figure *f, const char *unit)
{
	json_t *each = json_array();

	for (unsigned i = 0; i < f->n; i++)
		json_array_append_new(each, json_real(f->run[i]));
	return json_pack("{s:f, s:f, s:f, s:s, s:o}", "median", bench_figure_median(f), "least",
			 nth(f, 0), "most", nth(f, f->n - 1), "unit", unit, "each", each);
}

void
bench_report_row(struct bench_report *r, const char *fmt, ...)
{
	json_t *row = json_object();
	char name[192];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	json_object_set_new(row, "name", json_string(name));
	cli_progress_end();
	if (!r->json)
		printf("%s\n", name);
	for (unsigned i = 0; i < r->nfigures; i++) {
		const char *key = r->figure[i].key, *unit = r->figure[i].unit;
		const struct bench_figure *f = &r->figure[i].values;

		json_object_set_new(row, key, figure_json(f, unit));
		if (!r->json)
			printf("   %s %.2f %s (%.2f .. %.2f)\n", key, bench_figure_median(f), unit,
			       nth(f, 0), nth(f, f->n - 1));
	}
	r->nfigures = 0;
	json_array_append_new(r->rows, row);
}

void
bench_report_text(struct bench_report *r, const char *key, const char *text)
{
	json_object_set_new(r->doc, key, json_string(text));
	if (!r->json)
		printf("%s: %s\n", key, text);
}

bool
bench_report_json(struct bench_report *r, const char *key, json_t *value)
{
	json_object_set_new(r->doc, key, value);
	return r->json;
}

/* Adds the speed of the cores before and after: ns per iteration of the loop of additions. */
static void
add_speeds(struct bench_report *r, const double *after)
{
	const double *at[2] = {r->speed_before, after};
	json_t *ns = json_array();

	for (unsigned t = 0; t < 2; t++) {
		json_t *then = json_array();

		for (unsigned k = 0; k < BENCH_CORES && at[t][k] > 0; k++) {
			json_array_append_new(then, json_real(at[t][k]));
			if (!r->json)
				printf("core %u %s: an iteration of additions takes %.3f ns\n", k,
				       t == 0 ? "before" : "after", at[t][k]);
		}
		json_array_append_new(ns, then);
	}
	json_object_set_new(r->doc, "core_speed_ns", ns);
}

void
bench_report_end(struct bench_report *r)
{
	double distance = 0, speed[BENCH_CORES] = {0};

	if (r->probe) {
		distance = bench_core_distance();
		bench_core_speed(speed);
	}
	cli_progress_end();
	json_object_set_new(r->doc, "core_distance_ns",
			    json_pack("[f, f]", r->distance_before, distance));
	if (!r->json && r->probe)
		printf("one-way distance of the cores: %.0f ns before, %.0f ns after\n",
		       r->distance_before, distance);
	add_speeds(r, speed);
	if (r->json) {
		json_dumpf(r->doc, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
		printf("\n");
	}
	json_decref(r->doc);
	free(r);
}
