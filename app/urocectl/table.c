/* SPDX-License-Identifier: BSD-3-Clause */
#include "urocectl.h"

#include <stdio.h>
#include <string.h>

#define MAX_COLUMNS 24
#define CELL        128
#define RATES       "rates."

/* The fields that a table shows; --json prints all. */
static const struct {
	const char *what;
	const char *column[MAX_COLUMNS + 1];
} layouts[] = {
	{"device", {"device", "port", "mac", "link", "path_mtu", "gids", "clients"}},
	{"port",
	 {"device", "port", "driver", "netdev", "link", "mac", "link_mtu", "rx_queues",
	  "tx_queues"}},
	{"gid", {"device", "index", "gid", "prefix", "type"}},
	{"neigh", {"device", "address", "mac", "state", "asked"}},
	{"qp",
	 {"qpn", "type", "state", "device", "uid", "pid", "worker", "dest_qpn", "local", "remote",
	  "path", "path_mig_state", "alt_remote", "sq_waiting", "rq_waiting", "retries_left",
	  "error"}},
	{"trace",
	 {"qpn", "type", "state", "device", "uid", "pid", "program", "dest_qpn", "remote",
	  "destroyed", "events", "error", "last_error"}},
	{"cq",
	 {"cq", "device", "uid", "pid", "entries", "posted", "waiting", "armed", "channel",
	  "queues", "error"}},
	{"cm",
	 {"id", "uid", "pid", "program", "device", "space", "state", "connection", "local",
	  "remote", "qpn", "remote_qpn", "retries_left", "age_ms", "pending", "events"}},
	{"mr", {"key", "device", "uid", "pid", "address", "length", "path", "access", "failed"}},
	{"client",
	 {"client", "program", "pid", "uid", "device", "qps", "cqs", "mrs", "pds", "ring_bytes",
	  "paused_ms"}},
	{"quota", {"uid", "resource", "unit", "used", "limit", "all_used", "all_limit", "option"}},
	{"pd", {"pd", "device", "uid", "pid", "program", "users", "contexts"}},
	{"srq",
	 {"srq", "device", "uid", "pid", "pd", "worker", "entries", "waiting", "limit", "queues",
	  "error"}},
	{"mw",
	 {"key", "type", "device", "uid", "pid", "pd", "bound", "qpn", "iova", "length", "access"}},
	{"ah", {"ah", "device", "uid", "pid", "pd", "gid_index", "local", "remote", "path"}},
	{"worker",
	 {"worker", "lcore", "state", "busy_ns", "idle_ns", "qps", "rx_frames", "rx_bytes",
	  "tx_frames", "tx_bytes", "doorbells"}},
	{"daemon",
	 {"version", "pid", "uid", "pages", "reads_any_user", "maps_any_file", "open_files",
	  "memlock_bytes", "capabilities", "broker_capabilities", "broker_pid", "sandbox",
	  "refused_calls", "landlock"}},
	{"config", {"option", "value", "default"}},
};

/* Units of values whose names do not end with it. */
static const struct {
	const char *key, *unit;
} units[] = {
	{"path_mtu", "bytes"},          {"link_mtu", "bytes"}, {"length", "bytes"},
	{"last_error_length", "bytes"}, {"window", "packets"},
};

/* Bytes a second are shown as Gb/s: "rates.tx_bytes", "rates.rx_bytes". */
static bool
is_gbps(const char *key)
{
	return strcmp(key, RATES "tx_bytes") == 0 || strcmp(key, RATES "rx_bytes") == 0;
}

/* "timeout_us" as "timeout(us)": names end with their unit, except those above. */
static void
heading(const char *key, char out[CELL])
{
	static const char *const ends[] = {"ns", "us", "ms", "bytes", "mbps", "percent"};
	const char *end = strrchr(key, '_');

	if (is_gbps(key)) {
		snprintf(out, CELL, "%.2s(Gb/s)", key + sizeof(RATES) - 1);
		return;
	}
	if (strncmp(key, RATES, sizeof(RATES) - 1) == 0 && strstr(key, "percent") == NULL) {
		snprintf(out, CELL, "%s/s", key + sizeof(RATES) - 1);
		return;
	}
	key += strncmp(key, RATES, sizeof(RATES) - 1) == 0 ? sizeof(RATES) - 1 : 0;
	for (unsigned i = 0; end != NULL && i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (strcmp(end + 1, ends[i]) == 0) {
			snprintf(out, CELL, "%.*s(%s)", (int)(end - key), key, ends[i]);
			return;
		}
	}
	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(key, units[i].key) == 0) {
			snprintf(out, CELL, "%s(%s)", key, units[i].unit);
			return;
		}
	}
	snprintf(out, CELL, "%s", key);
}

static void
cell_text(const json_t *v, char out[CELL])
{
	if (json_is_real(v))
		snprintf(out, CELL, "%.1f", json_real_value(v));
	else if (json_is_string(v))
		snprintf(out, CELL, "%s", json_string_value(v));
	else if (json_is_integer(v))
		snprintf(out, CELL, "%lld", (long long)json_integer_value(v));
	else if (json_is_boolean(v))
		snprintf(out, CELL, "%s", json_is_true(v) ? "yes" : "no");
	else
		snprintf(out, CELL, "-");
	if (*out == '\0')
		strcpy(out, "-");
}

/* "rates.sends" is a member of the member "rates". */
static const json_t *
member(const json_t *row, const char *column)
{
	if (strncmp(column, RATES, sizeof(RATES) - 1) == 0)
		return json_object_get(json_object_get(row, "rates"), column + sizeof(RATES) - 1);
	return json_object_get(row, column);
}

/* 3782696 as "3,782,696". */
static void
separated(long long v, char out[CELL])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%lld", v), at = 0;

	for (int i = 0; i < n; i++) {
		out[at++] = digits[i];
		if (digits[i] != '-' && i + 1 < n && (n - i - 1) % 3 == 0)
			out[at++] = ',';
	}
	out[at] = '\0';
}

/* The cell of a column; rates are for people: Gb/s, and separators. */
static void
cell_of(const json_t *row, const char *column, char out[CELL])
{
	const json_t *v = member(row, column);

	if (is_gbps(column) && json_is_integer(v))
		snprintf(out, CELL, "%.3f", (double)json_integer_value(v) * 8 / 1e9);
	else if (strncmp(column, RATES, sizeof(RATES) - 1) == 0 && json_is_integer(v))
		separated(json_integer_value(v), out);
	else
		cell_text(v, out);
}

static const char *const *
columns_of(const char *what)
{
	static const char *const none[] = {NULL};

	for (unsigned i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (strcmp(layouts[i].what, what) == 0)
			return layouts[i].column;
	}
	return none;
}

/* Arrays in a row, one line for each element below it: "gids" and "pkeys" of a port. */
static void
print_lists(json_t *row)
{
	const char *key, *field;
	json_t *list, *entry, *value;
	char text[CELL];
	size_t i;

	json_object_foreach(row, key, list)
	{
		json_array_foreach(list, i, entry)
		{
			printf("  %.*s", (int)strlen(key) - 1, key); /* the singular */
			json_object_foreach(entry, field, value)
			{
				cell_text(value, text);
				if (strcmp(field, "index") == 0)
					printf(" %-3s", text);
				else if (strcmp(field, "prefix") == 0)
					printf("/%s", text);
				else
					printf(" %s", text);
			}
			printf("\n");
		}
	}
}

/* An object in a row, one line for each member: "udp" of a port. */
static void
print_part(const char *name, json_t *part)
{
	const char *key;
	json_t *value;
	char text[CELL], head[CELL];

	json_object_foreach(part, key, value)
	{
		cell_text(value, text);
		snprintf(head, sizeof(head), "%s.%s", name, key);
		printf("%-22s %s\n", head, text);
	}
}

/* The last one has no blanks behind it. */
static void
print_cell(const char *text, int width, bool last)
{
	if (last)
		printf("%s\n", text);
	else
		printf("%-*s  ", width, text);
}

void
table_print(const char *what, const json_t *rows)
{
	table_print_columns(columns_of(what), rows);
}

void
table_print_columns(const char *const *column, const json_t *rows)
{
	int width[MAX_COLUMNS];
	char text[CELL];
	size_t i;
	json_t *row;

	for (unsigned c = 0; column[c] != NULL; c++) {
		heading(column[c], text);
		width[c] = (int)strlen(text);
		json_array_foreach(rows, i, row)
		{
			cell_of(row, column[c], text);
			if ((int)strlen(text) > width[c])
				width[c] = (int)strlen(text);
		}
	}
	for (unsigned c = 0; column[c] != NULL; c++) {
		heading(column[c], text);
		print_cell(text, width[c], column[c + 1] == NULL);
	}
	json_array_foreach(rows, i, row)
	{
		for (unsigned c = 0; column[c] != NULL; c++) {
			cell_of(row, column[c], text);
			print_cell(text, width[c], column[c + 1] == NULL);
		}
		print_lists(row);
	}
}

void
table_print_record(json_t *row)
{
	const char *key;
	json_t *value;
	char text[CELL], head[CELL];

	json_object_foreach(row, key, value)
	{
		if (json_is_array(value) || json_is_object(value))
			continue;
		cell_text(value, text);
		heading(key, head);
		printf("%-22s %s\n", head, text);
	}
	json_object_foreach(row, key, value)
	{
		if (json_is_object(value))
			print_part(key, value);
	}
	print_lists(row);
}

void
table_print_counters(const json_t *rows, bool all, bool rates)
{
	json_t *row, *worker, *value;
	const char *key;
	size_t i, w;

	json_array_foreach(rows, i, row)
	{
		json_t *workers = rates ? NULL : json_object_get(row, "workers");

		if (rates)
			printf("%-28s %16s %16s\n", row_text(row, "device"), "total", "per second");
		else
			printf("%s\n", row_text(row, "device"));
		json_object_foreach(json_object_get(row, "total"), key, value)
		{
			if (!all && json_integer_value(value) == 0)
				continue;
			printf("  %-26s %16lld", key, (long long)json_integer_value(value));
			if (rates)
				printf(" %16lld", row_int(json_object_get(row, "rates"), key));
			json_array_foreach(workers, w, worker)
			{
				if (json_array_size(workers) > 1)
					printf(" %14lld", row_int(worker, key));
			}
			printf("\n");
		}
	}
}
