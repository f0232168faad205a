/* SPDX-License-Identifier: BSD-3-Clause */
/* trace: what happened to a queue pair, also to one that was destroyed. */
#include <string.h>
#include <time.h>
#include "cli/cli.h"
#include "filter.h"
#include "urocectl.h"

#define FILTERS (FILTER_DEV | FILTER_PID | FILTER_UID | FILTER_QPN | FILTER_STATE | FILTER_TYPE)

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	uint64_t qpn;

	if (filter_take(&rq->filters, FILTERS, "trace", word))
		return;
	if (rq->has_qpn)
		usage_error("trace: unexpected argument '%s'", word);
	if (!cli_number(word, 0, 0xffffff, &qpn))
		usage_error("QPN '%s' is not a number from 0 to 0xffffff", word);
	rq->qpn = (uint32_t)qpn;
	rq->has_qpn = true;
}

static void
check(const struct request *rq)
{
	filter_check(&rq->filters, "trace", QP_STATES, QP_TYPES);
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	return ask_filtered(c, rq, "trace", "trace");
}

/* "18:59:01.123456", local time. */
static void
print_time(const json_t *o, const char *key)
{
	long long ns = row_int(o, key);
	time_t seconds = (time_t)(ns / 1000000000);
	char text[16] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm) != NULL)
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	printf("%s.%06lld", text, ns / 1000 % 1000000);
}

static void
print_fault(const json_t *o)
{
	if (!json_is_string(json_object_get(o, "last_error")))
		return;
	printf("  ");
	print_time(o, "last_error_time_ns");
	printf("  %s as %s: %s\n", row_text(o, "last_error_effect"), row_text(o, "last_error_side"),
	       row_text(o, "last_error_text"));
	printf("    reason     %s (vendor_err 0x%llx)\n", row_text(o, "last_error"),
	       (unsigned long long)row_int(o, "last_error_code"));
	printf("    packet     %s, PSN %lld, key %s, address %s, %lld bytes\n",
	       row_text(o, "last_error_operation"), row_int(o, "last_error_psn"),
	       row_text(o, "last_error_key"), row_text(o, "last_error_address"),
	       row_int(o, "last_error_length"));
	printf("    remedy     %s\n", row_text(o, "last_error_remedy"));
}

static void
print_story(const json_t *o)
{
	json_t *record;
	size_t i;

	printf("QP %lld (%s) of %s (pid %lld, uid %lld) on %s, %s%s\n", row_int(o, "qpn"),
	       row_text(o, "type"), row_text(o, "program"), row_int(o, "pid"), row_int(o, "uid"),
	       row_text(o, "device"), row_text(o, "state"),
	       json_is_true(json_object_get(o, "destroyed")) ? ", destroyed" : "");
	printf("  %s > %s QP %lld\n", row_text(o, "local"), row_text(o, "remote"),
	       row_int(o, "dest_qpn"));
	print_fault(o);
	printf("  the last %zu of %lld events:\n", json_array_size(json_object_get(o, "records")),
	       row_int(o, "events"));
	json_array_foreach(json_object_get(o, "records"), i, record)
	{
		printf("  ");
		print_time(record, "time_ns");
		printf("  %s\n", row_text(record, "text"));
	}
	if (json_is_true(json_object_get(o, "destroyed"))) {
		printf("  ");
		print_time(o, "destroyed_time_ns");
		printf("  destroyed\n");
	}
}

static void
print(const struct request *rq, json_t *rows)
{
	json_t *row;
	size_t i;

	if (!rq->has_qpn) {
		table_print("trace", rows);
		return;
	}
	json_array_foreach(rows, i, row)
	{
		if (i > 0)
			printf("\n");
		print_story(row);
	}
}

const struct command trace_command = {"trace", "trace", take_word, check, ask, print, NULL};
