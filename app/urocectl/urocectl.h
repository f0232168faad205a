/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of urocectl share: main.c options and the choice of a command; show.c, impair.c,
 * capture.c, trace.c, set.c and cdi.c a command each; table.c output.
 */
#ifndef UROCECTL_UROCECTL_H
#define UROCECTL_UROCECTL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "ipc/client.h"

struct request {
	const struct command *cmd;
	const char *socket;
	bool json;
	const char *output;  /* of cdi: the file; NULL: standard output */
	bool all;            /* counters that are zero too */
	const char *what;    /* show: the topic; else the device */
	const char *verb;    /* of impair, capture, addr, pkey */
	const char *value;   /* of addr and pkey; capture: the file; NULL: none yet */
	const char *index;   /* of pkey; NULL: none yet */
	const char *keyword; /* "dev" or "index" while its value comes next */
	bool has_qpn;
	union {
		struct uroce_show_req show;
		struct uroce_impair_req impair;
		struct uroce_capture_req capture;
		struct uroce_set_req set;
	};
};

struct command {
	const char *name;
	const char *key; /* of the rows in its JSON; NULL: what */
	/* The nth word after the name, from 0. Exits when it is wrong. */
	void (*take_word)(struct request *rq, unsigned nth, const char *word);
	/* All words were taken: exits when one is missing. */
	void (*check)(const struct request *rq);
	/* The daemon's answer; NULL with errno, which is 0 when the reason was printed. */
	json_t *(*ask)(struct ipc_client *c, const struct request *rq);
	/* The rows of the answer as text. */
	void (*print)(const struct request *rq, json_t *rows);
};

extern const struct command show_command, impair_command, capture_command, addr_command,
	pkey_command, trace_command, cdi_command;

/* Wrong use: prints why and exits with 2. */
void usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* word is the device, whose name goes to the request's to. */
void take_device(struct request *rq, char to[UROCE_DEV_NAME_MAX], const char *word);
/* word is one of names, ends with NULL, which legal lists. Returns its index. */
uint32_t take_verb(struct request *rq, const char *word, const char *const *names,
		   const char *legal);

/*
 * call, whose reply of these bytes comes as a descriptor: JSON text. NULL with errno. When the
 * reply has no descriptor, *call says so and the result is NULL with errno EPROTO.
 */
json_t *call_for_json(struct ipc_client *c, struct ipc_call *call, const uint64_t *bytes);
/* rc is a refusal that the user can mend: prints it; sets errno to 0, or to -rc for others. */
void print_refusal(const struct request *rq, int rc);

/* cdi's answer to where the user wants it. -1: it printed why not. */
int cdi_output(const struct request *rq, const json_t *all);

/* What --help prints of each command. */
extern const char impair_help[], set_help[], cdi_help[];

#endif
