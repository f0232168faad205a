/* SPDX-License-Identifier: BSD-3-Clause */
#include "table.h"

#include <stdio.h>
#include <string.h>

#define MAX_COLUMNS 17
#define CELL        128

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
	 {"client", "program", "pid", "uid", "device", "qps", "cqs", "mrs", "pds", "ring_bytes"}},
};

static void
cell_text(const json_t *v, char out[CELL])
{
	if (json_is_string(v))
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

void
table_print(const char *what, const json_t *rows)
{
	const char *const *column = columns_of(what);
	int width[MAX_COLUMNS];
	char text[CELL];
	size_t i;
	json_t *row;

	for (unsigned c = 0; column[c] != NULL; c++) {
		width[c] = (int)strlen(column[c]);
		json_array_foreach(rows, i, row)
		{
			cell_text(json_object_get(row, column[c]), text);
			if ((int)strlen(text) > width[c])
				width[c] = (int)strlen(text);
		}
	}
	for (unsigned c = 0; column[c] != NULL; c++)
		printf("%-*s%s", width[c], column[c], column[c + 1] != NULL ? "  " : "\n");
	json_array_foreach(rows, i, row)
	{
		for (unsigned c = 0; column[c] != NULL; c++) {
			cell_text(json_object_get(row, column[c]), text);
			printf("%-*s%s", width[c], text, column[c + 1] != NULL ? "  " : "\n");
		}
		print_lists(row);
	}
}

void
table_print_record(json_t *row)
{
	const char *key;
	json_t *value;
	char text[CELL];

	json_object_foreach(row, key, value)
	{
		cell_text(value, text);
		printf("%-20s %s\n", key, text);
	}
}

void
table_print_counters(const json_t *rows, bool all)
{
	size_t i, w;
	json_t *row, *worker;

	json_array_foreach(rows, i, row)
	{
		json_t *workers = json_object_get(row, "workers"), *value;
		const char *key;

		printf("%s\n", json_string_value(json_object_get(row, "device")));
		json_object_foreach(json_object_get(row, "total"), key, value)
		{
			if (!all && json_integer_value(value) == 0)
				continue;
			printf("  %-26s %16lld", key, (long long)json_integer_value(value));
			json_array_foreach(workers, w, worker)
			{
				if (json_array_size(workers) > 1)
					printf(" %14lld", (long long)json_integer_value(
								  json_object_get(worker, key)));
			}
			printf("\n");
		}
	}
}
