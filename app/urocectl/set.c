/* SPDX-License-Identifier: BSD-3-Clause */
/* addr and pkey: changes of a running device, in the words of ip(8). */
#include <errno.h>
#include <string.h>
#include "cli/cli.h"
#include "urocectl.h"

#define LEGAL_ADDR "addr add|del IP/LEN dev DEVICE"
#define LEGAL_PKEY "pkey set KEY dev DEVICE index N, pkey del dev DEVICE index N"
#define ONE_PKEY   "a key from 0x0001 to 0xffff other than 0x8000"

static bool
is_addr(const struct request *rq)
{
	return rq->cmd == &addr_command;
}

static bool
is_del(const struct request *rq)
{
	return strcmp(rq->verb, "del") == 0;
}

/* After set, a P_Key has no verb: KEY, or none for del. Returns true if word is not the key. */
static bool
verb_of_set(struct request *rq, const char *word)
{
	rq->set.what = UROCE_SET_PKEY;
	rq->verb = strcmp(word, "none") == 0 ? "del" : "set";
	return strcmp(word, "none") == 0;
}

static void
set_verb(struct request *rq, const char *word)
{
	static const char *const addr_verbs[] = {"add", "del", NULL};
	static const char *const pkey_verbs[] = {"set", "del", NULL};

	if (is_addr(rq))
		rq->set.what = UROCE_SET_ADDR_ADD + take_verb(rq, word, addr_verbs, "add, del");
	else
		take_verb(rq, word, pkey_verbs, "set, del"), rq->set.what = UROCE_SET_PKEY;
}

/* A number from 0 to max. */
static uint32_t
number(const char *what, const char *word, uint64_t max, const char *legal)
{
	uint64_t n;

	if (!cli_number(word, 0, max, &n))
		usage_error("%s '%s' is not %s", what, word, legal);
	return (uint32_t)n;
}

/* The address, or the key. */
static void
take_value(struct request *rq, const char *word)
{
	if (rq->value != NULL || (!is_addr(rq) && is_del(rq)))
		usage_error("%s %s: unexpected argument '%s'; legal: %s", rq->cmd->name, rq->verb,
			    word, is_addr(rq) ? LEGAL_ADDR : LEGAL_PKEY);
	rq->value = word;
	if (!is_addr(rq)) {
		rq->set.pkey = number("P_Key", word, 0xffff, ONE_PKEY);
		return;
	}
	if (strlen(word) >= sizeof(rq->set.addr))
		usage_error("addr: '%s' is not an address like 10.9.0.1/24 or fd00::1/64", word);
	strcpy(rq->set.addr, word);
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	if (nth == 1 && rq->of_set && !is_addr(rq) && strcmp(word, "set") != 0 &&
	    strcmp(word, "del") != 0) {
		if (!verb_of_set(rq, word))
			take_value(rq, word);
	} else if (nth == (rq->of_set ? 1 : 0)) {
		set_verb(rq, word);
	} else if (rq->keyword != NULL && strcmp(rq->keyword, "dev") == 0) {
		take_device(rq, rq->set.device, word);
		rq->keyword = NULL;
	} else if (rq->keyword != NULL) {
		if (rq->index != NULL)
			usage_error("%s %s: index '%s', but '%s' is given, too", rq->cmd->name,
				    rq->verb, word, rq->index);
		rq->index = word;
		rq->set.index = number("index", word, UROCE_MAX_PKEYS - 1, "a number from 0 to 15");
		rq->keyword = NULL;
	} else if (strcmp(word, "dev") == 0 || (!is_addr(rq) && strcmp(word, "index") == 0)) {
		rq->keyword = word;
	} else {
		take_value(rq, word);
	}
}

static void
check(const struct request *rq)
{
	const char *legal = is_addr(rq) ? LEGAL_ADDR : LEGAL_PKEY, *name = rq->cmd->name;
	const char *missing = NULL;

	if (rq->set.what == 0)
		usage_error("%s: nothing to do; legal: %s", name, legal);
	if (rq->keyword != NULL)
		usage_error("%s %s: '%s' needs a value; legal: %s", name, rq->verb, rq->keyword,
			    legal);
	if (!is_addr(rq) && rq->index == NULL)
		missing = "index N";
	if (rq->what == NULL)
		missing = "dev DEVICE";
	if (rq->value == NULL && (is_addr(rq) || !is_del(rq)))
		missing = is_addr(rq) ? "address" : "key";
	if (missing != NULL)
		usage_error("%s %s: no %s; legal: %s", name, rq->verb, missing, legal);
	if (rq->value != NULL && !is_addr(rq) && (rq->set.pkey & 0x7fff) == 0)
		usage_error("P_Key '%s' is not " ONE_PKEY, rq->value);
}

json_t *
set_ask(struct ipc_client *c, const struct request *rq, const char *key)
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
		fprintf(stderr, "urocectl: %s %s: %s\n", rq->cmd->name, rq->verb, rep.error);
		return NULL;
	}
	o = json_object();
	json_object_set_new(o, "device", json_string(rq->what));
	if (rq->set.what < UROCE_SET_CC)
		json_object_set_new(o, "index", json_integer(rep.index));
	else if (rq->set.index != 0)
		json_object_set_new(o, "qpn", json_integer(rq->set.index));
	if (rq->set.what != UROCE_SET_PKEY)
		json_object_set_new(o, key, json_string(rq->value));
	else
		json_object_set_new(o, "pkey", json_sprintf("0x%04x", rq->set.pkey));
	return json_pack("{s:[o]}", "set", o);
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	return set_ask(c, rq, "address");
}

static void
print(const struct request *rq, json_t *rows)
{
	table_print_record(json_array_get(rows, 0));
}

const struct command addr_command = {"addr", "set", take_word, check, ask, print, NULL};
const struct command pkey_command = {"pkey", "set", take_word, check, ask, print, NULL};
