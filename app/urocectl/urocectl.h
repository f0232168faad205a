/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of urocectl share: main.c the options and show; impair.c faults;
 * capture.c captures; set.c addresses and P_Keys; table.c output.
 */
#ifndef UROCECTL_UROCECTL_H
#define UROCECTL_UROCECTL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "ipc/client.h"

struct request {
	const char *socket;
	bool json;
	bool all;         /* counters that are zero too */
	const char *what; /* show */
	uint32_t qpn;
	bool has_qpn;
	bool impair; /* not show, but this: */
	const char *device;
	const char *verb; /* set show clear */
	struct uroce_impair_req impair_req;
	bool capture; /* or this, with device and verb: start stop show */
	const char *file;
	struct uroce_capture_req capture_req;
	bool set;            /* or this, with device and verb: add del set */
	const char *object;  /* addr pkey */
	const char *value;   /* address or key; NULL: none yet */
	const char *index;   /* NULL: none yet */
	const char *keyword; /* whose value comes next; NULL: none's */
	struct uroce_set_req set_req;
};

/* Wrong use: say so and exit. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The JSON text that the daemon sent as a descriptor of bytes bytes. NULL with errno. */
json_t *read_json(int fd, uint64_t bytes);

/* impair.c: what a specification can be. */
void impair_usage(FILE *out);
/* The nth word after impair, from 0: the device, the verb, then the specification's. */
void impair_take_word(struct request *rq, unsigned nth, const char *word);
/* All words were taken: is it complete? */
void impair_check(const struct request *rq);
/* What is in force then; NULL with errno, which is 0 where the reason was printed. */
json_t *impair_ask(struct ipc_client *c, const struct request *rq);
/* One device's, as text; counters that are zero too if all. */
void impair_print(json_t *row, bool all);

/* capture.c: the same of a capture. */
void capture_take_word(struct request *rq, unsigned nth, const char *word);
void capture_check(const struct request *rq);
json_t *capture_ask(struct ipc_client *c, const struct request *rq);

/* set.c: the same of addr and pkey, which is the word of number 0. */
void set_usage(FILE *out);
void set_take_word(struct request *rq, unsigned nth, const char *word);
void set_check(const struct request *rq);
json_t *set_ask(struct ipc_client *c, const struct request *rq);

#endif
