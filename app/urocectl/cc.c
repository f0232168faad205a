/* SPDX-License-Identifier: BSD-3-Clause */
/* cc: the congestion policy of a running device. */
#include <stdlib.h>
#include <string.h>
#include "table.h"
#include "urocectl.h"

#define LEGAL "cc set POLICY[:NAME=VALUE].. dev DEVICE [qp QPN]"

const char cc_help[] =
	"\ncc: the congestion policy of DEVICE's QPs, also those in use (doc/congestion.md).\n"
	"  qp QPN      of this QP only, until the policy of DEVICE is set\n"
	"  set POLICY  fixed, dcqcn, dcqcn-paper, swift or timely, with parameters like\n"
	"              swift:rate=25000:target=30\n";

static uint32_t
qp_number(const char *word)
{
	char *end;
	unsigned long n = strtoul(word, &end, 0);

	if (*word == '-' || end == word || *end != '\0' || n == 0 || n > 0xffffff)
		usage_error("cc set: qp '%s' is not the number of a QP, 1 to 16777215", word);
	return (uint32_t)n;
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	static const char *const verbs[] = {"set", NULL};

	if (rq->of_set) { /* `set cc` needs no verb */
		rq->verb = "set";
		rq->set.what = UROCE_SET_CC;
	}
	if (rq->of_set && nth == 1 && strcmp(word, "set") == 0)
		return;
	if (!rq->of_set && nth == 0) {
		take_verb(rq, word, verbs, "set");
		rq->set.what = UROCE_SET_CC;
	} else if (rq->keyword != NULL && strcmp(rq->keyword, "qp") == 0) {
		rq->set.index = qp_number(word);
		rq->keyword = NULL;
	} else if (rq->keyword != NULL) {
		take_device(rq, rq->set.device, word);
		rq->keyword = NULL;
	} else if (strcmp(word, "dev") == 0 || strcmp(word, "qp") == 0) {
		if (strcmp(word, "qp") == 0 && rq->set.index != 0)
			usage_error("cc set: qp is given twice");
		rq->keyword = word;
	} else if (rq->value != NULL) {
		usage_error("cc set: unexpected argument '%s'; legal: %s", word, LEGAL);
	} else if (strlen(word) >= sizeof(rq->set.addr)) {
		usage_error("cc set: '%s' is longer than %zu characters", word,
			    sizeof(rq->set.addr) - 1);
	} else {
		rq->value = strcpy(rq->set.addr, word);
	}
}

static void
check(const struct request *rq)
{
	if (rq->verb == NULL)
		usage_error("cc: nothing to do; legal: %s", LEGAL);
	if (rq->keyword != NULL && strcmp(rq->keyword, "qp") == 0)
		usage_error("cc set: qp without a number; legal: %s", LEGAL);
	if (rq->keyword != NULL || rq->what == NULL)
		usage_error("cc set: no dev DEVICE; legal: %s", LEGAL);
	if (rq->value == NULL)
		usage_error("cc set: no policy; legal: %s", LEGAL);
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	return set_ask(c, rq, "cc");
}

static void
print(const struct request *rq, json_t *rows)
{
	table_print_record(json_array_get(rows, 0));
}

const struct command cc_command = {"cc", "set", take_word, check, ask, print, NULL};
