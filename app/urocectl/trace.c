/* SPDX-License-Identifier: BSD-3-Clause */
/* trace: what happened to a queue pair, also to one that was destroyed. */
#include <string.h>
#include <time.h>
#include "cli/cli.h"
#include "table.h"
#include "urocectl.h"

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	uint64_t qpn;

	if (nth > 0)
		usage_error("trace: surplus argument '%s'", word);
	if (!cli_number(word, 0, 0xffffff, &qpn))
		usage_error("QPN '%s' is not a number from 0 to 0xffffff", word);
	rq->show.arg = (uint32_t)qpn;
	rq->show.has_arg = rq->has_qpn = true;
}

static void
check(const struct request *rq)
{
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_show_req req = rq->show;
	struct uroce_show_rep rep = {0};
	struct ipc_call call = {
		.op = UROCE_CTRL_SHOW,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};

	strcpy(req.what, "trace");
	return call_for_json(c, &call, &rep.bytes);
}

static const char *
string_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? s : "-";
}

static long long
number_of(const json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

/* "18:59:01.123456", local time. */
static void
print_time(const json_t *o, const char *key)
{
	long long ns = number_of(o, key);
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
	printf("  %s as %s: %s\n", string_of(o, "last_error_effect"),
	       string_of(o, "last_error_side"), string_of(o, "last_error_text"));
	printf("    reason     %s (vendor_err 0x%llx)\n", string_of(o, "last_error"),
	       (unsigned long long)number_of(o, "last_error_code"));
	printf("    packet     %s, PSN %lld, key %s, address %s, %lld bytes\n",
	       string_of(o, "last_error_operation"), number_of(o, "last_error_psn"),
	       string_of(o, "last_error_key"), string_of(o, "last_error_address"),
	       number_of(o, "last_error_length"));
	printf("    remedy     %s\n", string_of(o, "last_error_remedy"));
}

static void
print_story(const json_t *o)
{
	json_t *record;
	size_t i;

	printf("QP %lld (%s) of %s (pid %lld, uid %lld) on %s, %s%s\n", number_of(o, "qpn"),
	       string_of(o, "type"), string_of(o, "program"), number_of(o, "pid"),
	       number_of(o, "uid"), string_of(o, "device"), string_of(o, "state"),
	       json_is_true(json_object_get(o, "destroyed")) ? ", destroyed" : "");
	printf("  %s > %s QP %lld\n", string_of(o, "local"), string_of(o, "remote"),
	       number_of(o, "dest_qpn"));
	print_fault(o);
	printf("  the last %zu of %lld events:\n", json_array_size(json_object_get(o, "records")),
	       number_of(o, "events"));
	json_array_foreach(json_object_get(o, "records"), i, record)
	{
		printf("  ");
		print_time(record, "time_ns");
		printf("  %s\n", string_of(record, "text"));
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

const struct command trace_command = {"trace", "trace", take_word, check, ask, print};
