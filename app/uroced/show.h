/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of show.c. A function with an array out appends one JSON object for each entry. */
#ifndef UROCED_SHOW_H
#define UROCED_SHOW_H

#include <jansson.h>
#include "control/session.h"
#include "qp/recorder.h"

/* Send all with rep and release it; *bytes gets the length of the JSON. 0 or a positive errno. */
int show_send(json_t *all, struct ctrl_rep *rep, uint64_t *bytes);

/* Handler of SHOW. */
ctrl_handler show_request;

/* Rows of a reply to SHOW, at most: others wait for the control thread while it makes them. */
#define SHOW_ROWS 128u

/* Where a reply begins; and where the next one does, if it is full. Rows are in this order. */
struct show_page {
	uint32_t client, pos; /* number of the client, slot of its object or the like */
	uint32_t left;        /* rows that still fit */
	bool full;
};

/* Returns whether the row of a client at pos fits, and counts it. */
static inline bool
show_page_take(struct show_page *p, uint32_t client, uint32_t pos)
{
	if (p->left == 0) {
		p->client = client;
		p->pos = pos;
		p->full = true;
		return false;
	}
	p->left--;
	return true;
}

/* Returns the reply to a request about the fault injector of dev. */
json_t *show_impair(const struct device *dev);

/* Sets the options that `show config` shows; they must outlive it. */
struct options;
void show_config_of(const struct options *o);

/*
 * show_trace.c: the kind of a record, its words (until the next call), its time of timer_now_ns,
 * and such a time in nanoseconds since 1970, by the clocks of the last trace_epoch_set.
 */
const char *trace_kind(const struct qp_record *r);
const char *trace_words(const struct qp_record *r);
uint64_t trace_record_ns(const struct qp_record *r);
void trace_epoch_set(void);
int64_t trace_epoch_ns(uint64_t at_ns);
/* Sorts the records by time. The time of a run is that of its first packet. Returns their number.
 */
uint32_t trace_order(const struct qp_recorder *r, const struct qp_record *order[QP_RECORDS]);

/*
 * Control thread. Returns the JSON that `urocectl show` prints for root: an object with one member,
 * named by what, which is an array. what: device, port, stats, drops, client, cq, mr or qp. arg:
 * the number of a queue pair, or -1 for all.
 */
json_t *show_all(struct daemon *d, const char *what, int64_t arg);

#endif
