/* SPDX-License-Identifier: BSD-3-Clause */
/* show: objects and counters of the daemon. */
#include <string.h>
#include "cli/cli.h"
#include "table.h"
#include "urocectl.h"

#define LEGAL "device port gid neigh qp cq mr client stats drops cm cm_stats"

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	static const char *const topics[] = {"device", "port",     "gid",    "neigh", "qp",
					     "cq",     "mr",       "client", "stats", "drops",
					     "cm",     "cm_stats", NULL};
	uint64_t qpn;

	if (nth == 0) {
		take_verb(rq, word, topics, LEGAL);
		rq->what = word;
		strcpy(rq->show.what, word);
		return;
	}
	if (nth > 1 || strcmp(rq->what, "qp") != 0)
		usage_error("show %s: surplus argument '%s'", rq->what, word);
	if (!cli_number(word, 0, 0xffffff, &qpn))
		usage_error("QPN '%s' is not a number from 0 to 0xffffff", word);
	rq->show.arg = (uint32_t)qpn;
	rq->show.has_arg = rq->has_qpn = true;
}

static void
check(const struct request *rq)
{
	if (rq->what == NULL)
		usage_error("show: nothing to show; legal: show " LEGAL);
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_show_rep rep = {0};
	struct ipc_call call = {
		.op = UROCE_CTRL_SHOW,
		.req = &rq->show,
		.req_len = sizeof(rq->show),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};

	return call_for_json(c, &call, &rep.bytes);
}

static void
print(const struct request *rq, json_t *rows)
{
	if (rq->has_qpn)
		table_print_record(json_array_get(rows, 0));
	else if (strcmp(rq->what, "stats") == 0 || strcmp(rq->what, "drops") == 0 ||
		 strcmp(rq->what, "cm_stats") == 0)
		table_print_counters(rows, rq->all);
	else
		table_print(rq->what, rows);
}

const struct command show_command = {"show", NULL, take_word, check, ask, print};
