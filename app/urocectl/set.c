/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every change of a running daemon: `set SETTING ..`. Those of devices are commands, too, in the
 * words of ip(8): addr, pkey, cc, probe.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "urocectl.h"

#define LEGAL_LEVELS   "error, warning, notice, info, debug"
#define LEGAL_SETTINGS "addr, pkey, cc, probe, worker, balance, log-level, quota, help"
#define ONE_PKEY       "a key from 0x0001 to 0xffff other than 0x8000"
#define ONE_ADDR       "an address like 10.9.0.1/24 or fd00::1/64"

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

/* ---- changes of a device ---- */

enum qp_use { QP_NONE, QP_MAY, QP_MUST };

/* The settings of a device. */
static const struct setting {
	const struct command *cmd;
	uint32_t what;       /* of the request, with the first verb */
	const char *verb[3]; /* NULL after the last */
	const char *value;   /* what it sets, in messages */
	const char *key;     /* .. and in JSON */
	enum qp_use qp;
	const char *legal;
} settings[] = {
	{&addr_command,
	 UROCE_SET_ADDR_ADD,
	 {"add", "del"},
	 "address",
	 "address",
	 QP_NONE,
	 "addr add|del IP/LEN dev DEVICE"},
	{&pkey_command,
	 UROCE_SET_PKEY,
	 {"set", "del"},
	 "key",
	 "pkey",
	 QP_NONE,
	 "pkey set KEY dev DEVICE index N, pkey del dev DEVICE index N"},
	{&cc_command,
	 UROCE_SET_CC,
	 {"set"},
	 "policy",
	 "cc",
	 QP_MAY,
	 "cc set POLICY dev DEVICE [qp QPN]"},
	{&probe_command,
	 UROCE_SET_PROBE,
	 {"set"},
	 "setting",
	 "probe",
	 QP_MAY,
	 "probe set on|off dev DEVICE [qp QPN]"},
	{&worker_command,
	 UROCE_SET_WORKER,
	 {"set"},
	 "setting",
	 "worker",
	 QP_MUST,
	 "set worker N|auto dev DEVICE qp QPN"},
};

static const struct setting *
setting_of(const struct request *rq)
{
	const struct setting *s = settings;

	while (s->cmd != rq->cmd)
		s++;
	return s;
}

static bool
is_pkey(const struct request *rq)
{
	return rq->cmd == &pkey_command;
}

static bool
is_del(const struct request *rq)
{
	return strcmp(rq->verb, "del") == 0;
}

static void
take_value(struct request *rq, const struct setting *s, const char *word)
{
	uint64_t n;

	if (rq->value != NULL || (is_pkey(rq) && is_del(rq)))
		usage_error("%s %s: unexpected argument '%s'; legal: %s", rq->cmd->name, rq->verb,
			    word, s->legal);
	rq->value = word;
	if (is_pkey(rq)) {
		if (!cli_number(word, 0, 0xffff, &n) || (n & 0x7fff) == 0)
			usage_error("P_Key '%s' is not " ONE_PKEY, word);
		rq->set.pkey = (uint32_t)n;
		return;
	}
	if (s->cmd == &addr_command && strlen(word) >= sizeof(rq->set.addr))
		usage_error("addr: '%s' is not " ONE_ADDR, word);
	if (strlen(word) >= sizeof(rq->set.addr))
		usage_error("%s set: '%s' is longer than %zu characters", rq->cmd->name, word,
			    sizeof(rq->set.addr) - 1);
	if (s->cmd == &probe_command && strcmp(word, "on") != 0 && strcmp(word, "off") != 0)
		usage_error("probe set: '%s' is not on or off; legal: %s", word, s->legal);
	strcpy(rq->set.addr, word);
}

/*
 * The first word: the verb. Behind `set` cc, probe and worker need none, and pkey has KEY or none.
 * Returns false if it is another word.
 */
static bool
take_first(struct request *rq, const struct setting *s, const char *word)
{
	bool is_verb = strcmp(word, s->verb[0]) == 0 ||
		       (s->verb[1] != NULL && strcmp(word, s->verb[1]) == 0);

	rq->set.what = s->what;
	if (rq->of_set && s->cmd != &addr_command && !is_verb) {
		rq->verb = is_pkey(rq) && strcmp(word, "none") == 0 ? "del" : "set";
		return is_del(rq);
	}
	take_verb(rq, word, s->verb,
		  s->verb[1] == NULL ? "set"
		  : is_pkey(rq)      ? "set, del"
				     : "add, del");
	if (s->cmd == &addr_command && is_del(rq))
		rq->set.what = UROCE_SET_ADDR_DEL;
	return true;
}

/* The value of a keyword. */
static void
take_of_keyword(struct request *rq, const char *word)
{
	const char *keyword = rq->keyword, *name = rq->cmd->name;
	uint64_t n = 0;

	rq->keyword = NULL;
	if (strcmp(keyword, "dev") == 0) {
		take_device(rq, rq->set.device, word);
		return;
	}
	if (strcmp(keyword, "qp") == 0 && !cli_number(word, 1, 0xffffff, &n))
		usage_error("%s set: qp '%s' is not the number of a QP, 1 to 16777215", name, word);
	if (strcmp(keyword, "index") == 0 && rq->index != NULL)
		usage_error("%s %s: index '%s', but '%s' is given, too", name, rq->verb, word,
			    rq->index);
	if (strcmp(keyword, "index") == 0 && !cli_number(word, 0, UROCE_MAX_PKEYS - 1, &n))
		usage_error("index '%s' is not a number from 0 to 15", word);
	rq->index = word;
	rq->set.index = (uint32_t)n;
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	const struct setting *s = setting_of(rq);

	if (nth == (rq->of_set ? 1 : 0) && take_first(rq, s, word))
		return;
	if (rq->keyword != NULL) {
		take_of_keyword(rq, word);
	} else if (strcmp(word, "dev") == 0 || (s->qp != QP_NONE && strcmp(word, "qp") == 0) ||
		   (is_pkey(rq) && strcmp(word, "index") == 0)) {
		if (strcmp(word, "qp") == 0 && rq->index != NULL)
			usage_error("%s set: qp is given twice", rq->cmd->name);
		rq->keyword = word;
	} else {
		take_value(rq, s, word);
	}
}

static void
check(const struct request *rq)
{
	const struct setting *s = setting_of(rq);
	const char *name = rq->cmd->name, *missing = NULL;

	if (rq->verb == NULL)
		usage_error("%s: nothing to do; legal: %s", name, s->legal);
	if (rq->keyword != NULL && strcmp(rq->keyword, "qp") == 0)
		usage_error("%s set: qp without a number; legal: %s", name, s->legal);
	if (rq->keyword != NULL)
		usage_error("%s %s: '%s' needs a value; legal: %s", name, rq->verb, rq->keyword,
			    s->legal);
	if (rq->index == NULL && (is_pkey(rq) || s->qp == QP_MUST))
		missing = is_pkey(rq) ? "index N" : "qp QPN";
	if (rq->what == NULL)
		missing = "dev DEVICE";
	if (rq->value == NULL && !(is_pkey(rq) && is_del(rq)))
		missing = s->value;
	if (missing != NULL)
		usage_error("%s %s: no %s; legal: %s", name, rq->verb, missing, s->legal);
}

/* Sends rq->set. Returns false with errno, which is 0 after an error that was printed. */
static bool
send_set(struct ipc_client *c, const struct request *rq, struct uroce_set_rep *rep)
{
	struct ipc_call call = {
		.op = UROCE_CTRL_SET,
		.req = &rq->set,
		.req_len = sizeof(rq->set),
		.rep = rep,
		.rep_len = sizeof(*rep),
	};
	int rc = ipc_client_call(c, &call);

	if (rc < 0) {
		print_refusal(c, rq, rc);
		return false;
	}
	errno = 0;
	rep->error[sizeof(rep->error) - 1] = '\0';
	if (!rep->done)
		fprintf(stderr, "urocectl: %s %s: %s\n", rq->cmd->name, rq->verb, rep->error);
	return rep->done;
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	const struct setting *s = setting_of(rq);
	struct uroce_set_rep rep;
	json_t *o;

	if (!send_set(c, rq, &rep))
		return NULL;
	o = json_pack("{s:s}", "device", rq->what);
	if (s->qp == QP_NONE)
		json_object_set_new(o, "index", json_integer(rep.index));
	else if (rq->set.index != 0)
		json_object_set_new(o, "qpn", json_integer(rq->set.index));
	json_object_set_new(o, s->key,
			    is_pkey(rq) ? json_sprintf("0x%04x", rq->set.pkey)
					: json_string(rq->value));
	return json_pack("{s:[o]}", "set", o);
}

static void
print(const struct request *rq, json_t *rows)
{
	table_print_record(json_array_get(rows, 0));
}

const struct command addr_command = {"addr", "set", take_word, check, ask, print, NULL};
const struct command pkey_command = {"pkey", "set", take_word, check, ask, print, NULL};
const struct command cc_command = {"cc", "set", take_word, check, ask, print, NULL};
const struct command probe_command = {"probe", "set", take_word, check, ask, print, NULL};
const struct command worker_command = {"worker", "set", take_word, check, ask, print, NULL};

/* ---- set: one of these, or a change of the daemon itself ---- */

static void
take_setting(struct request *rq, const char *word)
{
	/* those of devices in the order of settings */
	static const char *const names[] = {"addr",      "pkey",  "cc",      "probe", "worker",
					    "log-level", "quota", "balance", "help",  NULL};
	static const uint32_t what[] = {[5] = UROCE_SET_LOG_LEVEL,
					UROCE_SET_QUOTA,
					UROCE_SET_BALANCE};
	uint32_t i = take_verb(rq, word, names, LEGAL_SETTINGS);

	if (i < sizeof(settings) / sizeof(settings[0])) {
		rq->cmd = settings[i].cmd;
		rq->of_set = true;
		rq->verb = NULL;
	} else if (i < sizeof(what) / sizeof(what[0])) {
		rq->set.what = what[i];
	} else {
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
set_take_word(struct request *rq, unsigned nth, const char *word)
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
set_check(const struct request *rq)
{
	static const char *const levels[] = {"error", "warning", "notice", "info", "debug", NULL};
	unsigned i = 0;

	if (rq->verb == NULL)
		usage_error("set: nothing to set; legal: " LEGAL_SETTINGS);
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
set_ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_set_rep rep;
	json_t *o;

	if (!send_set(c, rq, &rep))
		return NULL;
	o = json_pack("{s:s}", "setting", rq->verb);
	if (rq->set.what == UROCE_SET_QUOTA) {
		json_object_set_new(o, "resource", json_string(rq->what));
		json_object_set_new(o, "value", json_integer(rq->set.pkey));
	} else {
		json_object_set_new(o, "value", json_string(rq->what));
	}
	return json_pack("{s:[o]}", "set", o);
}

const struct command set_command = {"set", "set", set_take_word, set_check, set_ask, print, NULL};
