/* SPDX-License-Identifier: BSD-3-Clause */
/* set: every change of a running daemon. Those of devices are commands, too: addr, pkey, cc, probe.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "urocectl.h"

#define LEGAL_LEVELS "error, warning, notice, info, debug"

const char set_help[] =
	"\nset SETTING: changes end with the daemon; put permanent ones into uroced.conf.\n"
	"  help                               print these settings and exit\n"
	"  addr add|del IP/LEN dev DEVICE     a GID like 10.9.0.5/24 or fd00::5/64, in the first "
	"free\n"
	"                                     entry; QPs that use a removed one continue, new ones "
	"cannot\n"
	"                                     (as the command addr; IBV_EVENT_GID_CHANGE)\n"
	"  pkey KEY dev DEVICE index N        a key, 0x0001 to 0xffff other than 0x8000 (with "
	"0x8000:\n"
	"                                     full member), into entry 0 to 15; QPs of that entry "
	"use it\n"
	"                                     at once (as pkey set; IBV_EVENT_PKEY_CHANGE)\n"
	"  pkey none dev DEVICE index N       empty entry 1 to 15 (as pkey del)\n"
	"  cc POLICY dev DEVICE               the congestion policy (as the command cc)\n"
	"  probe on|off dev DEVICE            retransmissions before the ACK timeout (as probe)\n"
	"  worker N|auto dev DEVICE qp QPN    the QP moves to a worker and stays there, or follows "
	"its\n"
	"                                     packets (auto)\n"
	"  balance on|off                     QPs move from busy workers to others, at most one a "
	"second\n"
	"  log-level LEVEL                    " LEGAL_LEVELS "\n"
	"  quota RESOURCE N                   limit of each uid except root (show quota lists "
	"the\n"
	"                                     resources), memory in MiB; objects beyond a lowered "
	"limit\n"
	"                                     remain. uroced.conf sets the total of all users\n"
	"  impair, capture                    have their own commands\n"
	"show port prints addresses and P_Keys, show quota the quotas, show config the log "
	"level.\n";

/* The words after "set" are those of another command, less its verb. */
static void
become(struct request *rq, const struct command *cmd)
{
	rq->cmd = cmd;
	rq->of_set = true;
}

static void
take_setting(struct request *rq, const char *word)
{
	static const char *const names[] = {"addr",      "pkey",  "cc",   "probe",   "worker",
					    "log-level", "quota", "help", "balance", NULL};

	switch (take_verb(rq, word, names,
			  "addr, pkey, cc, probe, worker, balance, log-level, quota, help")) {
	case 0:
		become(rq, &addr_command);
		break;
	case 1:
		become(rq, &pkey_command);
		break;
	case 2:
		become(rq, &cc_command);
		break;
	case 3:
		become(rq, &probe_command);
		break;
	case 4:
		become(rq, &worker_command);
		break;
	case 5:
		rq->set.what = UROCE_SET_LOG_LEVEL;
		break;
	case 6:
		rq->set.what = UROCE_SET_QUOTA;
		break;
	case 8:
		rq->set.what = UROCE_SET_BALANCE;
		break;
	default:
		printf("%s", set_help + 1);
		exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
}

/* The level or the resource: the daemon knows which are legal. */
static void
take_name(struct request *rq, const char *word)
{
	if (strlen(word) >= sizeof(rq->set.addr))
		usage_error("set %s: '%s' is longer than %zu bytes", rq->verb, word,
			    sizeof(rq->set.addr) - 1);
	strcpy(rq->set.addr, word);
	rq->what = word;
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	uint64_t n;

	if (nth == 0) {
		take_setting(rq, word);
	} else if (nth == 1) {
		take_name(rq, word);
	} else if (nth == 2 && rq->set.what == UROCE_SET_QUOTA) {
		if (!cli_number(word, 1, UINT32_MAX, &n))
			usage_error("set quota %s: '%s' is not a number from 1 to %u", rq->what,
				    word, UINT32_MAX);
		rq->set.pkey = (uint32_t)n;
		rq->value = word;
	} else {
		usage_error("set %s: unexpected argument '%s'", rq->verb, word);
	}
}

static void
check(const struct request *rq)
{
	static const char *const levels[] = {"error", "warning", "notice", "info", "debug", NULL};
	unsigned i = 0;

	if (rq->verb == NULL)
		usage_error("set: nothing to set; legal: addr, pkey, cc, probe, worker, balance, "
			    "log-level, quota, help");
	if (rq->set.what == UROCE_SET_QUOTA && rq->value == NULL)
		usage_error("set quota: needs RESOURCE N; urocectl show quota lists resources");
	if (rq->set.what == UROCE_SET_BALANCE && rq->what == NULL)
		usage_error("set balance: needs on or off");
	if (rq->set.what != UROCE_SET_LOG_LEVEL)
		return;
	if (rq->what == NULL)
		usage_error("set log-level: needs LEVEL; legal: " LEGAL_LEVELS);
	while (levels[i] != NULL && strcmp(levels[i], rq->what) != 0)
		i++;
	if (levels[i] == NULL)
		usage_error("set log-level: unknown '%s'; legal: " LEGAL_LEVELS, rq->what);
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_set_rep rep;
	struct ipc_call call = {
		.op = UROCE_CTRL_SET,
		.req = &rq->set,
		.req_len = sizeof(rq->set),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	int rc = ipc_client_call(c, &call);
	json_t *o;

	if (rc < 0) {
		print_refusal(c, rq, rc);
		return NULL;
	}
	errno = 0;
	if (!rep.done) {
		rep.error[sizeof(rep.error) - 1] = '\0';
		fprintf(stderr, "urocectl: set %s: %s\n", rq->verb, rep.error);
		return NULL;
	}
	o = json_object();
	json_object_set_new(o, "setting", json_string(rq->verb));
	if (rq->set.what == UROCE_SET_QUOTA) {
		json_object_set_new(o, "resource", json_string(rq->what));
		json_object_set_new(o, "value", json_integer(rq->set.pkey));
	} else {
		json_object_set_new(o, "value", json_string(rq->what));
	}
	return json_pack("{s:[o]}", "set", o);
}

static void
print(const struct request *rq, json_t *rows)
{
	table_print_record(json_array_get(rows, 0));
}

const struct command set_command = {"set", "set", take_word, check, ask, print, NULL};
