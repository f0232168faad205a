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

/* Of the source that this was built from, as it is now. */
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

static void
row_text(const char *key, const struct bench_figure *f, const char *unit)
{
	printf("   %s %.2f %s (%.2f .. %.2f)", key, bench_figure_median(f), unit,
	       bench_figure_least(f), bench_figure_most(f));
}

static json_t *
figure_json(const struct bench_figure *f, const char *unit)
{
	json_t *each = json_array();

	for (unsigned i = 0; i < f->n; i++)
		json_array_append_new(each, json_real(f->run[i]));
	return json_pack("{s:f, s:f, s:f, s:s, s:o}", "median", bench_figure_median(f), "least",
			 bench_figure_least(f), "most", bench_figure_most(f), "unit", unit, "each",
			 each);
}

static void
add_figures(struct bench_report *r, json_t *row, va_list ap)
{
	const char *key, *unit;

	while ((key = va_arg(ap, const char *)) != NULL) {
		const struct bench_figure *f = va_arg(ap, const struct bench_figure *);

		unit = va_arg(ap, const char *);
		json_object_set_new(row, key, figure_json(f, unit));
		if (!r->json) {
			row_text(key, f, unit);
			printf("\n");
		}
	}
}

void
bench_report_row(struct bench_report *r, const char *name, ...)
{
	json_t *row = json_object();
	va_list ap;

	json_object_set_new(row, "name", json_string(name));
	if (!r->json)
		printf("%s\n", name);
	va_start(ap, name);
	add_figures(r, row, ap);
	va_end(ap);
	json_array_append_new(r->rows, row);
}

void
bench_report_more(struct bench_report *r, ...)
{
	va_list ap;

	va_start(ap, r);
	add_figures(r, json_array_get(r->rows, json_array_size(r->rows) - 1), ap);
	va_end(ap);
}

/*
 * What the cores were like before and after: ns of the loop, and how much that is of the fastest
 * loop of the two times.
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
