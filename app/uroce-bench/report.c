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
	double distance_before, speed_before[BENCH_CORES];
	struct {
		const char *key, *unit;
		struct bench_figure values;
	} figure[BENCH_MAX_FIGURES]; /* of the current row */
	unsigned nfigures;
};

static void
cpu_model(char *model, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(model, size, "unknown");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || colon == NULL)
			continue;
		colon[1 + strcspn(colon + 1, "\n")] = '\0';
		snprintf(model, size, "%s", colon + 2);
		break;
	}
	if (f != NULL)
		fclose(f);
}

/* The current commit of the source tree of this build. */
static void
commit_name(char *name, size_t size)
{
	FILE *f = popen("git -C '" BENCH_SOURCE "' describe --always --dirty 2>/dev/null", "re");

	snprintf(name, size, "unknown");
	if (f == NULL)
		return;
	if (fgets(name, (int)size, f) == NULL)
		snprintf(name, size, "unknown");
	name[strcspn(name, "\n")] = '\0';
	pclose(f);
}

struct bench_report *
bench_report_start(const struct bench_options *o)
{
	struct bench_report *r = calloc(1, sizeof(*r));
	char model[128], commit[64];

	if (r == NULL)
		abort();
	cpu_model(model, sizeof(model));
	commit_name(commit, sizeof(commit));
	r->json = o->json;
	r->probe = !o->no_probe;
	if (r->probe) {
		r->distance_before = bench_core_distance();
		bench_core_speed(r->speed_before);
	}
	r->rows = json_array();
	r->doc = json_pack("{s:s, s:s, s:s, s:i, s:o}", "mode", o->mode, "cpu", model, "commit",
			   commit, "runs", (int)o->runs, "rows", r->rows);
	if (!r->json)
		printf("%s, commit %s; median of %u runs (least .. most)\n", model, commit,
		       o->runs);
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

/*
 * Speed of the cores before and after: ns of the loop, and the share of the fastest loop's speed.
 */
static void
add_speeds(struct bench_report *r, const double *after)
{
	const double *at[2] = {r->speed_before, after};
	json_t *ns = json_array(), *of = json_array();
	double fastest = 0;

	for (unsigned k = 0; k < 2 * BENCH_CORES; k++) {
		double v = at[k / BENCH_CORES][k % BENCH_CORES];

		fastest = v > 0 && (fastest == 0 || v < fastest) ? v : fastest;
	}
	for (unsigned t = 0; t < 2; t++) {
		json_t *ns_then = json_array(), *of_then = json_array();

		for (unsigned k = 0; k < BENCH_CORES && at[t][k] > 0; k++) {
			json_array_append_new(ns_then, json_real(at[t][k]));
			json_array_append_new(of_then, json_real(fastest / at[t][k]));
			if (!r->json)
				printf("core %u %s: a turn of additions takes %.3f ns, %.2f of "
				       "the fastest's speed\n",
				       k, t == 0 ? "before" : "after", at[t][k],
				       fastest / at[t][k]);
		}
		json_array_append_new(ns, ns_then);
		json_array_append_new(of, of_then);
	}
	json_object_set_new(r->doc, "core_speed_ns", ns);
	json_object_set_new(r->doc, "core_speed", of);
}

void
bench_report_end(struct bench_report *r)
{
	double distance = 0, speed[BENCH_CORES] = {0};

	if (r->probe) {
		distance = bench_core_distance();
		bench_core_speed(speed);
	}
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
