/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "urocectl.h"

void
impair_usage(FILE *out)
{
	fputs("\nSPEC: faults of what DEVICE receives; clauses apart by spaces: "
	      "KEY=VALUE,KEY=VALUE..\n"
	      "  drop dup reorder ce  0%..100% of the frames\n"
	      "  corrupt              0%..100%: bits flipped, which the receiver's checks find\n"
	      "  corrupt_fixed        0%..100%: bits flipped from the BTH on, under a right ICRC\n"
	      "  delay jitter         0ns..10s (ns us ms s), for delay_prob=0%..100% [100%]\n"
	      "  rate                 1kbit..1Tbit a second\n"
	      "  reorder_by           1..1000 frames [3], at most 10 ms\n"
	      "  corrupt_bits         1..32 of a frame [1]\n"
	      "  hold                 1..4096 frames that may wait [1024]\n"
	      "  seed                 of all that is random [1]\n"
	      "or rule:KEY=VALUE,KEY=VALUE.. for certain frames:\n"
	      "  qpn opcode psn       which: destination QPN; RC_ACK or 0..255; N or N-M\n"
	      "  nth count prob       from the n-th on [1], so often [0: always], 0%..100% [100%]\n"
	      "  action               drop dup reorder delay corrupt corrupt_fixed ce, with\n"
	      "                       delay jitter reorder_by corrupt_bits of its own\n",
	      out);
}

/* Joined by spaces, as the shell parted them. */
static void
add_spec(struct uroce_impair_req *req, const char *word)
{
	size_t used = strlen(req->spec);

	if (used + strlen(word) + 2 > sizeof(req->spec))
		wrong("impair: the specification is longer than %zu bytes", sizeof(req->spec) - 1);
	if (used > 0)
		req->spec[used++] = ' ';
	strcpy(req->spec + used, word);
}

static uint32_t
flags_of(const char *verb)
{
	if (strcmp(verb, "show") == 0)
		return UROCE_IMPAIR_SHOW;
	if (strcmp(verb, "set") == 0)
		return UROCE_IMPAIR_SET;
	if (strcmp(verb, "clear") == 0)
		return UROCE_IMPAIR_CLEAR;
	wrong("impair: unknown '%s'; legal: set SPEC, show, clear", verb);
}

void
impair_take_word(struct request *rq, unsigned nth, const char *word)
{
	struct uroce_impair_req *req = &rq->impair_req;

	if (nth == 0) {
		rq->device = word;
		if (strlen(word) >= sizeof(req->device))
			wrong("impair: device name '%s' is longer than %zu bytes", word,
			      sizeof(req->device) - 1);
		strcpy(req->device, word);
	} else if (nth == 1) {
		rq->verb = word;
		req->flags = flags_of(word);
	} else if (req->flags == UROCE_IMPAIR_SET) {
		add_spec(req, word);
	} else {
		wrong("impair %s %s: surplus argument '%s'", rq->device, rq->verb, word);
	}
}

void
impair_check(const struct request *rq)
{
	if (rq->device == NULL)
		wrong("impair: no device; legal: impair DEVICE set SPEC | show | clear");
	if (rq->verb == NULL)
		wrong("impair %s: nothing to do; legal: set SPEC, show, clear", rq->device);
	if (rq->impair_req.flags == UROCE_IMPAIR_SET && rq->impair_req.spec[0] == '\0')
		wrong("impair %s set: needs SPEC, like 'drop=1%%,seed=7'", rq->device);
}

json_t *
impair_ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_impair_rep rep;
	json_t *all;
	int fd, rc;
	struct ipc_call call = {
		.op = UROCE_CTRL_IMPAIR,
		.req = &rq->impair_req,
		.req_len = sizeof(rq->impair_req),
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_fds_max = 1,
	};

	rc = ipc_client_call(c, &call);
	errno = -rc;
	if (rc == -EPERM || rc == -ENODEV)
		fprintf(stderr, "urocectl: impair %s: %s\n", rq->device,
			rc == -EPERM ? "only root and the daemon's user may change it"
				     : "no such device");
	if (rc == -EPERM || rc == -ENODEV)
		errno = 0;
	if (rc < 0)
		return NULL;
	if (call.rep_nfds != 1) {
		rep.error[sizeof(rep.error) - 1] = '\0';
		fprintf(stderr, "urocectl: impair %s: %s\n", rq->device, rep.error);
		return NULL;
	}
	all = read_json(fd, rep.bytes);
	close(fd);
	return all;
}

void
impair_print(json_t *row, bool all)
{
	json_t *spec = json_object_get(row, "spec"), *value, *rule;
	const char *key;
	size_t i;

	printf("%s  %s\n", json_string_value(json_object_get(row, "device")),
	       json_is_string(spec) ? json_string_value(spec) : "not impaired");
	json_object_foreach(row, key, value)
	{
		if (json_is_integer(value) && (all || json_integer_value(value) != 0))
			printf("  %-26s %16lld\n", key, (long long)json_integer_value(value));
	}
	json_array_foreach(json_object_get(row, "rules"), i, rule)
	{
		printf("  rule %-3zu matched %16lld  acted %16lld\n", i + 1,
		       (long long)json_integer_value(json_object_get(rule, "matched")),
		       (long long)json_integer_value(json_object_get(rule, "acted")));
	}
}
