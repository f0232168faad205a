/* SPDX-License-Identifier: BSD-3-Clause */
/* impair: faults in what a device receives. */
#include <errno.h>
#include <string.h>
#include "urocectl.h"

#define LEGAL "set SPEC, show, clear"

const char impair_help[] =
	"\nSPEC: faults in the frames that DEVICE receives from others; clauses separated\n"
	"by spaces: KEY=VALUE,KEY=VALUE..\n"
	"  drop dup reorder ce  0%..100% of the frames\n"
	"  corrupt              0%..100%: bits flipped, which the receiver's checks find\n"
	"  corrupt_fixed        0%..100%: bits flipped from the BTH on, with a correct ICRC\n"
	"  delay jitter         0ns..10s (ns us ms s), for delay_prob=0%..100% [100%]\n"
	"  rate                 1kbit..1Tbit per second: a bottleneck, with\n"
	"  queue                1B..1GB (B kB MB GB) that may wait for it; more is dropped\n"
	"  kmin kmax pmax       marks CE on frames with ECT: up to kmin bytes in the queue none,\n"
	"                       from kmax on all, in between up to pmax [100%]\n"
	"  ordered              yes: jitter keeps the order of frames [no]\n"
	"  reorder_by           1..1000 frames [3], at most 10 ms\n"
	"  corrupt_bits         1..32 of a frame [1]\n"
	"  hold                 1..4096 frames that may wait [1024; with queue 4096]\n"
	"  seed                 of the random number generator [1]\n"
	"or rule:KEY=VALUE,KEY=VALUE.. for certain frames:\n"
	"  qpn opcode psn dst   which: destination QPN; a name like RC_ACK or 0..255; N or N-M, "
	"also\n"
	"                       across 0; destination IP address\n"
	"  nth count prob       from the n-th match on [1], at most so often [0: always], 0%..100% "
	"[100%]\n"
	"  action               drop dup reorder delay corrupt corrupt_fixed ce, with\n"
	"                       and their own delay jitter reorder_by corrupt_bits\n";

/* Append word with a space: the shell has split the specification there. */
static void
add_spec(struct uroce_impair_req *req, const char *word)
{
	size_t used = strlen(req->spec);

	if (used + strlen(word) + 2 > sizeof(req->spec))
		usage_error("impair: the specification is longer than %zu bytes",
			    sizeof(req->spec) - 1);
	if (used > 0)
		req->spec[used++] = ' ';
	strcpy(req->spec + used, word);
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	static const char *const verbs[] = {[UROCE_IMPAIR_SHOW] = "show",
					    [UROCE_IMPAIR_SET] = "set",
					    [UROCE_IMPAIR_CLEAR] = "clear",
					    [UROCE_IMPAIR_CLEAR + 1] = NULL};
	struct uroce_impair_req *req = &rq->impair;

	if (nth == 0)
		take_device(rq, req->device, word);
	else if (nth == 1)
		req->flags = take_verb(rq, word, verbs, LEGAL);
	else if (req->flags == UROCE_IMPAIR_SET)
		add_spec(req, word);
	else
		usage_error("impair %s %s: unexpected argument '%s'", rq->what, rq->verb, word);
}

static void
check(const struct request *rq)
{
	if (rq->what == NULL)
		usage_error("impair: no device; legal: impair DEVICE set SPEC | show | clear");
	if (rq->verb == NULL)
		usage_error("impair %s: nothing to do; legal: " LEGAL, rq->what);
	if (rq->impair.flags == UROCE_IMPAIR_SET &&
	    rq->impair.spec[strspn(rq->impair.spec, " ,;\t\n")] == '\0')
		usage_error("impair %s set: needs SPEC, like 'drop=1%%,seed=7'", rq->what);
}

static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_impair_rep rep = {0};
	struct ipc_call call = {
		.op = UROCE_CTRL_IMPAIR,
		.req = &rq->impair,
		.req_len = sizeof(rq->impair),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	json_t *all = call_for_json(c, &call, &rep.bytes);

	rep.error[sizeof(rep.error) - 1] = '\0';
	if (all == NULL && rep.error[0] != '\0') {
		fprintf(stderr, "urocectl: impair %s: %s\n", rq->what, rep.error);
		errno = 0;
	} else if (all == NULL) {
		print_refusal(c, rq, -errno);
	}
	return all;
}

static void
print(const struct request *rq, json_t *rows)
{
	json_t *row = json_array_get(rows, 0);
	json_t *spec = json_object_get(row, "spec"), *value, *rule;
	const char *key;
	size_t i;

	printf("%s  %s\n", json_string_value(json_object_get(row, "device")),
	       json_is_string(spec) ? json_string_value(spec) : "not impaired");
	json_object_foreach(row, key, value)
	{
		if (json_is_integer(value) && (rq->all || json_integer_value(value) != 0))
			printf("  %-26s %16lld\n", key, (long long)json_integer_value(value));
	}
	json_array_foreach(json_object_get(row, "rules"), i, rule)
	{
		printf("  rule %-3zu matched %16lld  acted %16lld\n", i + 1,
		       (long long)json_integer_value(json_object_get(rule, "matched")),
		       (long long)json_integer_value(json_object_get(rule, "acted")));
	}
}

const struct command impair_command = {"impair", "impair", take_word, check, ask, print, NULL};
