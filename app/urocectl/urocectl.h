/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of urocectl share: main.c options and the choice of a command; show.c what can be
 * shown, and the daemon's answers; filter.c which rows; watch.c how fast counters grow; table.c
 * output; the others a command each.
 */
#ifndef UROCECTL_UROCECTL_H
#define UROCECTL_UROCECTL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "filter.h"
#include "ipc/client.h"

/* --- topics, in show.c */

/* What `show` and `watch` can show. */

struct topic {
	const char *name; /* as in the request and in the answer */
	unsigned filters; /* enum filter_kind bits */
	bool counters;    /* rows of counters: device, total, workers */
	const char *help;
	const char *states, *types; /* legal values of these filters; NULL: there is none */
};

#define QP_STATES "RESET INIT RTR RTS SQD SQE ERR"
#define QP_TYPES  "RC UC UD"

/* The topic of that name. Exits with a usage error, which names the command `of`. */
const struct topic *topic_find(const char *of, const char *name);
/* Topic i; NULL after the last. */
const struct topic *topic_at(unsigned i);
/* The names with spaces between them. */
const char *topic_names(void);

/* --- commands */

struct request {
	const struct command *cmd;
	const char *socket;
	bool json;
	bool details; /* every field of each object */
	bool pretty, batch;
	uint32_t count;      /* reports of watch and top; 0: no end */
	bool count_given;    /* by an option: only for them */
	const char *output;  /* of cdi: the file; NULL: standard output */
	const char *listen;  /* of metrics; NULL: print */
	bool all;            /* counters that are zero too */
	const char *what;    /* show: the topic; else the device */
	const char *verb;    /* of impair, capture, addr, pkey */
	const char *value;   /* of addr and pkey; capture: the file; doctor: the peer; NULL: none */
	const char *index;   /* of pkey; NULL: none yet */
	bool of_set;         /* addr or pkey after the word set */
	const char *keyword; /* "dev" or "index" while its value comes next */
	bool has_qpn;
	uint32_t qpn;
	const struct topic *topic; /* of show and watch */
	struct filters filters;
	double interval_s; /* of watch and top */
	const char *sort;  /* of top; NULL: the default */
	union {
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
	/*
	 * Instead of ask and print, for commands that ask more than once: the exit status, or -1
	 * with errno as ask.
	 */
	int (*run)(struct ipc_client *c, const struct request *rq);
};

extern const struct command show_command, impair_command, capture_command, addr_command,
	pkey_command, trace_command, set_command, watch_command, top_command, rdma_command,
	cdi_command, cc_command, probe_command, worker_command, doctor_command, metrics_command;

/* show.c, for watch: the first word; a word that is not a filter (exits); the reply; its text. */
void show_take_topic(struct request *rq, const char *word);
void show_surplus(const struct request *rq, const char *word) __attribute__((noreturn));
json_t *show_ask(struct ipc_client *c, const struct request *rq);
void show_print(const struct request *rq, json_t *rows);

/* watch.c: "interval S" and "count N", of watch and top. Returns false if word is neither. */
bool repeat_take(struct request *rq, const char *word);

/* Prints a document of JSON, indented. */
void print_json(const json_t *doc);
/* Finds uroce-run, of the build tree or beside urocectl, with its absolute path. 0, or -1 with
 * errno. */
int find_uroce_run(char path[PATH_MAX]);
/* Wrong use: prints why and exits with 2. */
void usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* word is the device, whose name goes to the request's to. */
void take_device(struct request *rq, char to[UROCE_DEV_NAME_MAX], const char *word);
/* word is one of names, ends with NULL, which legal lists. Returns its index. */
uint32_t take_verb(struct request *rq, const char *word, const char *const *names,
		   const char *legal);

/*
 * show.c. Asks for the topic `what`, of rq's QP if it has one; keeps the rows that match rq's
 * filters. Returns NULL with errno, which is 0 after the error that a filter's device does not
 * exist; `of`: the command in its message.
 */
json_t *ask_filtered(struct ipc_client *c, const struct request *rq, const char *of,
		     const char *what);

/*
 * main.c. Connects to rq's daemon. Returns 0; or -errno with a sentence in why, which has room
 * bytes.
 */
int daemon_connect(struct ipc_client *c, const struct request *rq, char *why, size_t room);

/* metrics.c. Serves at rq->listen until a signal. Returns the exit status. */
int metrics_serve(const struct request *rq);

/* doctor.c. Connects and prints all findings. Returns the exit status. */
int doctor_run(const struct request *rq);

/* show.c. Is there such a device? If not, prints that of the command `of`, with those there are. */
bool device_is_known(struct ipc_client *c, const char *of, const char *name);

/*
 * rc is a refusal that the user can mend, to whom the connection c explains it: prints it; sets
 * errno to 0, or to -rc for others.
 */
void print_refusal(struct ipc_client *c, const struct request *rq, int rc);

/* What --help prints of each command. */
extern const char impair_help[], set_help[], cc_help[], watch_help[], top_help[], rdma_help[],
	cdi_help[], doctor_help[], metrics_help[];

/* --- show.c */

/* Questions to the daemon. Results are the caller's; NULL with errno (EPROTO: no valid answer). */

/*
 * call, whose reply of these bytes comes as a descriptor: JSON text. When the reply has no
 * descriptor, *call says so and the result is NULL with errno EPROTO.
 */
json_t *call_for_json(struct ipc_client *c, struct ipc_call *call, const uint64_t *bytes);

/* The daemon's answer for a topic: {"what": [rows]}. qpn: of this QP only; NULL: of all. */
json_t *query(struct ipc_client *c, const char *what, const uint32_t *qpn);
/* The rows alone. */
json_t *query_rows(struct ipc_client *c, const char *what);

static inline long long
row_int(const json_t *row, const char *key)
{
	return (long long)json_integer_value(json_object_get(row, key));
}
/* A string member; "-" if there is none. */
static inline const char *
row_text(const json_t *row, const char *key)
{
	const char *s = json_string_value(json_object_get(row, key));

	return s != NULL ? s : "-";
}

/* --- watch.c */

/* How fast counters of rows grow, from two answers of the daemon. */

/*
 * Gives each row of after a member "rates": an object of numbers a second, which topic what ("qp",
 * "stats" ..) counts; "busy_percent" is one. A row that is not in before, or whose counters started
 * anew, gets null. seconds: between the two, more than 0. Returns true if the topic has rates.
 */
bool rates_add(const char *what, const json_t *before, json_t *after, double seconds);

/* Columns of a table of rows with rates, NULL after the last; NULL: the topic's usual ones. */
const char *const *rates_columns(const char *what);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t rates_now_ns(void);

/* Sleeps for this long; false if a key was pressed on the terminal tty (-1: none) meanwhile. */
bool rates_sleep(double seconds, int tty);

/* word is an interval, 0.1 to 3600 seconds. Exits with a usage error, which names `of`. */
double rates_interval(const char *of, const char *word);

/* --- table.c */

/* The daemon's JSON as text for people, on standard output. */

/* One line for each element of rows, with the columns of the topic what ("qp", "mr" ..). */
void table_print(const char *what, const json_t *rows);
/* The same with these columns, NULL after the last. */
void table_print_columns(const char *const *column, const json_t *rows);
/* All fields of one object, one on each line. */
void table_print_record(json_t *row);
/*
 * Counters of each device, one on each line, with a column for each worker, or, if rates is true,
 * one for the rates of rates_add. all: zeros too.
 */
void table_print_counters(const json_t *rows, bool all, bool rates);

#endif
