/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cc, probe: the congestion policy and the probes of a running device, or of one of its QPs.
 * set worker: the worker of a QP.
 */
#include <stdlib.h>
#include <string.h>
#include "urocectl.h"

#define LEGAL_CC     "cc set POLICY[:NAME=VALUE].. dev DEVICE [qp QPN]"
#define LEGAL_PROBE  "probe set on|off dev DEVICE [qp QPN]"
#define LEGAL_WORKER "set worker N|auto dev DEVICE qp QPN"

const char cc_help[] =
	"\ncc: the congestion policy of DEVICE's QPs, also those in use (doc/congestion.md).\n"
	"  qp QPN      of this QP only, until the policy of DEVICE is set\n"
	"  set POLICY  fixed, dcqcn, dcqcn-paper, swift or timely, with parameters like\n"
	"              swift:rate=25000:target=30\n"
	"\nprobe: retransmissions of DEVICE's RC QPs before their ACK timeout "
	"(doc/congestion.md).\n"
	"  qp QPN      of this QP only, until the setting of DEVICE is set\n"
	"  set off     retransmit only for a NAK or the ACK timeout, send one NAK for a gap: for\n"
	"              tests of peers\n"
	"  set on      retransmit a packet that gets no response within some round trips\n";

static const char *
legal(const struct request *rq)
{
	if (rq->cmd == &worker_command)
		return LEGAL_WORKER;
	return rq->cmd == &cc_command ? LEGAL_CC : LEGAL_PROBE;
}

static uint32_t
qp_number(const struct request *rq, const char *word)
{
	char *end;
	unsigned long n = strtoul(word, &end, 0);

	if (*word == '-' || end == word || *end != '\0' || n == 0 || n > 0xffffff)
		usage_error("%s set: qp '%s' is not the number of a QP, 1 to 16777215",
			    rq->cmd->name, word);
	return (uint32_t)n;
}

static void
take_value(struct request *rq, const char *word)
{
	const char *name = rq->cmd->name;

	if (rq->value != NULL)
		usage_error("%s set: unexpected argument '%s'; legal: %s", name, word, legal(rq));
	if (strlen(word) >= sizeof(rq->set.addr))
		usage_error("%s set: '%s' is longer than %zu characters", name, word,
			    sizeof(rq->set.addr) - 1);
	if (rq->cmd == &probe_command && strcmp(word, "on") != 0 && strcmp(word, "off") != 0)
		usage_error("probe set: '%s' is not on or off; legal: " LEGAL_PROBE, word);
	rq->value = strcpy(rq->set.addr, word);
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	static const char *const verbs[] = {"set", NULL};

	rq->set.what = rq->cmd == &cc_command       ? UROCE_SET_CC
		       : rq->cmd == &worker_command ? UROCE_SET_WORKER
						    : UROCE_SET_PROBE;
	if (rq->of_set) /* `set cc` needs no verb */
		rq->verb = "set";
	if (rq->of_set && nth == 1 && strcmp(word, "set") == 0)
		return;
	if (!rq->of_set && nth == 0) {
		take_verb(rq, word, verbs, "set");
	} else if (rq->keyword != NULL && strcmp(rq->keyword, "qp") == 0) {
		rq->set.index = qp_number(rq, word);
		rq->keyword = NULL;
	} else if (rq->keyword != NULL) {
		take_device(rq, rq->set.device, word);
		rq->keyword = NULL;
	} else if (strcmp(word, "dev") == 0 || strcmp(word, "qp") == 0) {
		if (strcmp(word, "qp") == 0 && rq->set.index != 0)
			usage_error("%s set: qp is given twice", rq->cmd->name);
		rq->keyword = word;
	} else {
		take_value(rq, word);
	}
}

static void
check(const struct request *rq)
{
	const char *name = rq->cmd->name;

	if (rq->verb == NULL)
		usage_error("%s: nothing to do; legal: %s", name, legal(rq));
	if (rq->keyword != NULL && strcmp(rq->keyword, "qp") == 0)
		usage_error("%s set: qp without a number; legal: %s", name, legal(rq));
	if (rq->keyword != NULL || rq->what == NULL)
		usage_error("%s set: no dev DEVICE; legal: %s", name, legal(rq));
	if (rq->value == NULL)
		usage_error("%s set: no %s; legal: %s", name,
			    rq->cmd == &cc_command ? "policy" : "setting", legal(rq));
	if (rq->cmd == &worker_command && rq->set.index == 0)
		usage_error("worker set: no qp QPN; legal: %s", legal(rq));
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	return set_ask(c, rq, rq->cmd->name);
}

static void
print(const struct request *rq, json_t *rows)
{
	table_print_record(json_array_get(rows, 0));
}

const struct command cc_command = {"cc", "set", take_word, check, ask, print, NULL};
const struct command worker_command = {"worker", "set", take_word, check, ask, print, NULL};
const struct command probe_command = {"probe", "set", take_word, check, ask, print, NULL};
