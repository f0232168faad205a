/* SPDX-License-Identifier: BSD-3-Clause */
/* addr and pkey: changes of a running device, in the words of ip(8). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "urocectl.h"

#define LEGAL_ADDR "addr add|del IP/LEN dev DEVICE"
#define LEGAL_PKEY "pkey set KEY dev DEVICE index N, pkey del dev DEVICE index N"

void
set_usage(FILE *out)
{
	fputs("\naddr: programs that run on DEVICE get IBV_EVENT_GID_CHANGE.\n"
	      "  add IP/LEN  a new GID, like 10.9.0.5/24 or fd00::5/64, in the first free entry\n"
	      "  del IP/LEN  its entry is empty then; QPs that use it go on, new ones cannot\n"
	      "pkey: they get IBV_EVENT_PKEY_CHANGE; QPs of that index use the new key at once.\n"
	      "  set KEY     0x0001 to 0xffff other than 0x8000; with 0x8000: full member\n"
	      "  del         no key: QPs of that index are cut off; not of entry 0\n"
	      "  index N     entry of the table, 0 to 15\n"
	      "show port shows what is there. Changes end with the daemon: uroced.conf is for "
	      "good.\n",
	      out);
}

static bool
is_addr(const struct request *rq)
{
	return strcmp(rq->object, "addr") == 0;
}

static void
take_verb(struct request *rq, const char *verb)
{
	struct uroce_set_req *req = &rq->set_req;
	bool del = strcmp(verb, "del") == 0;

	rq->verb = verb;
	if (is_addr(rq) && (del || strcmp(verb, "add") == 0))
		req->what = del ? UROCE_SET_ADDR_DEL : UROCE_SET_ADDR_ADD;
	else if (!is_addr(rq) && (del || strcmp(verb, "set") == 0))
		req->what = UROCE_SET_PKEY;
	else
		wrong("%s: unknown '%s'; legal: %s", rq->object, verb,
		      is_addr(rq) ? "add, del" : "set, del");
}

static void
take_device(struct request *rq, const char *word)
{
	rq->device = word;
	if (strlen(word) >= sizeof(rq->set_req.device))
		wrong("%s: device name '%s' is longer than %zu bytes", rq->object, word,
		      sizeof(rq->set_req.device) - 1);
	strcpy(rq->set_req.device, word);
}

/* A number from 0 to max, decimal or 0x and hexadecimal. */
static uint32_t
number(const char *what, const char *word, unsigned long max, const char *legal)
{
	char *end;
	unsigned long n = strtoul(word, &end, strncmp(word, "0x", 2) == 0 ? 16 : 10);

	if (*word < '0' || *word > '9' || *end != '\0' || n > max)
		wrong("%s '%s' is not %s", what, word, legal);
	return (uint32_t)n;
}

/* The address, or the key. */
static void
take_value(struct request *rq, const char *word)
{
	struct uroce_set_req *req = &rq->set_req;

	if (rq->value != NULL || (!is_addr(rq) && strcmp(rq->verb, "del") == 0))
		wrong("%s %s: surplus argument '%s'; legal: %s", rq->object, rq->verb, word,
		      is_addr(rq) ? LEGAL_ADDR : LEGAL_PKEY);
	rq->value = word;
	if (!is_addr(rq)) {
		req->pkey = number("P_Key", word, 0xffff,
				   "one from 0x0001 to 0xffff other than 0x8000");
		return;
	}
	if (strlen(word) >= sizeof(req->addr))
		wrong("addr: '%s' is no address like 10.9.0.1/24 or fd00::1/64", word);
	strcpy(req->addr, word);
}

void
set_take_word(struct request *rq, unsigned nth, const char *word)
{
	if (nth == 0) {
		rq->object = word;
	} else if (nth == 1) {
		take_verb(rq, word);
	} else if (rq->keyword != NULL && strcmp(rq->keyword, "dev") == 0) {
		take_device(rq, word);
		rq->keyword = NULL;
	} else if (rq->keyword != NULL) {
		rq->index = word;
		rq->set_req.index =
			number("index", word, UROCE_MAX_PKEYS - 1, "a number from 0 to 15");
		rq->keyword = NULL;
	} else if (strcmp(word, "dev") == 0 || (!is_addr(rq) && strcmp(word, "index") == 0)) {
		rq->keyword = word;
	} else {
		take_value(rq, word);
	}
}

void
set_check(const struct request *rq)
{
	const char *legal = is_addr(rq) ? LEGAL_ADDR : LEGAL_PKEY;
	const char *missing = NULL;

	if (rq->verb == NULL)
		wrong("%s: nothing to do; legal: %s", rq->object, legal);
	if (rq->keyword != NULL)
		wrong("%s %s: '%s' needs a value; legal: %s", rq->object, rq->verb, rq->keyword,
		      legal);
	if (!is_addr(rq) && rq->index == NULL)
		missing = "index N";
	if (rq->device == NULL)
		missing = "dev DEVICE";
	if (rq->value == NULL && (is_addr(rq) || strcmp(rq->verb, "del") != 0))
		missing = is_addr(rq) ? "address" : "key";
	if (missing != NULL)
		wrong("%s %s: no %s; legal: %s", rq->object, rq->verb, missing, legal);
	if (rq->value != NULL && !is_addr(rq) && (rq->set_req.pkey & 0x7fff) == 0)
		wrong("P_Key '%s' is not one from 0x0001 to 0xffff other than 0x8000", rq->value);
}

json_t *
set_ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_set_rep rep;
	struct ipc_call call = {
		.op = UROCE_CTRL_SET,
		.req = &rq->set_req,
		.req_len = sizeof(rq->set_req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	int rc = ipc_client_call(c, &call);
	json_t *o;

	errno = -rc;
	if (rc == -EPERM || rc == -ENODEV) {
		fprintf(stderr, "urocectl: %s %s: device %s: %s\n", rq->object, rq->verb,
			rq->device,
			rc == -EPERM ? "only root and the daemon's user may change it"
				     : "no such device");
		errno = 0;
	}
	if (rc < 0)
		return NULL;
	if (!rep.done) {
		rep.error[sizeof(rep.error) - 1] = '\0';
		fprintf(stderr, "urocectl: %s %s: %s\n", rq->object, rq->verb, rep.error);
		return NULL;
	}
	o = json_object();
	json_object_set_new(o, "device", json_string(rq->device));
	json_object_set_new(o, "index", json_integer(rep.index));
	if (is_addr(rq))
		json_object_set_new(o, "address", json_string(rq->value));
	else
		json_object_set_new(o, "pkey", json_sprintf("0x%04x", rq->set_req.pkey));
	return json_pack("{s:[o]}", "set", o);
}
