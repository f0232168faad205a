/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of show.c. A function with an array out appends one JSON object for each entry. */
#ifndef UROCED_SHOW_H
#define UROCED_SHOW_H

#include <jansson.h>
#include "control/session.h"
#include "qp/recorder.h"

/* Set a member of an object; takes over the reference to value. */
static inline void
show_set(json_t *o, const char *name, json_t *value)
{
	json_object_set_new(o, name, value);
}
static inline void
show_set_int(json_t *o, const char *name, int64_t value)
{
	json_object_set_new(o, name, json_integer(value));
}

/* "10.9.0.1" or "fd00::1". */
static inline json_t *
show_gid_text(const uint8_t gid[16])
{
	char text[64];

	return net_gid_to_text(gid, text, sizeof(text)) < 0 ? json_null() : json_string(text);
}

/* "0x.." and "local_write,remote_read": JSON has no 64-bit numbers and no flags. */
static inline json_t *
show_hex(uint64_t v)
{
	return json_sprintf("0x%llx", (unsigned long long)v);
}
json_t *show_access(uint32_t access);

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

/*
 * show_obj.c, show_pd.c: the row of an object (struct obj_qp and so on). all: with every field;
 * otherwise only the fields that other users may see (session_may_see).
 */
json_t *show_qp(const void *obj, bool all);
json_t *show_cq(const void *obj, bool all);
json_t *show_mr(const void *obj, bool all);
json_t *show_pd(const void *obj, bool all);
json_t *show_srq(const void *obj, bool all);
json_t *show_mw(const void *obj, bool all);
json_t *show_ah(const void *obj, bool all);
/* show_trace.c: why (as conn.why) and the last fault of a QP as members of o. */
void show_fault(json_t *o, const struct qp_recorder *r, uint32_t why);
/*
 * show_trace.c: the QPs that asker may see, including destroyed ones. qpn: a QP's number for that
 * QP with its recorder; -1 for all QPs, each with its owner and last fault only.
 */
void show_traces(const struct session *asker, int64_t qpn, struct show_page *page, json_t *out);
/* show_caps.c: returns an object with the capabilities of a port's device. */
json_t *show_caps(const struct port_caps *caps);

/* Returns an object with the owner and device; unless all, only with the uid of the owner. */
json_t *show_owned_by(const struct session *s, bool all);

/* show_daemon.c: the daemon's limits, workers and options, as `to` may see them. */
void show_quota(const struct session *to, json_t *out);
void show_workers(const struct session *to, json_t *out);
void show_config(const struct session *to, json_t *out);
void show_daemon(const struct session *to, json_t *out);
/* Sets the options that show_config shows; they must outlive it. Call before show_config. */
struct options;
void show_config_of(const struct options *o);

/* show_cm.c: ids and MAD counters of rdma_cm, as `to` may see them. */
void show_cm(const struct session *to, struct show_page *page, json_t *out);
/* Adds the ECE words that the peer of a QP of s has sent; zeroes if none, or without rdma_cm. */
void show_cm_ece(json_t *o, const struct session *s, uint32_t qpn);
void show_cm_stats(const struct session *to, json_t *out);

/*
 * Control thread. Returns the JSON that `urocectl show` prints for root: an object with one member,
 * named by what, which is an array. what: device, port, stats, drops, client, cq, mr or qp. arg:
 * the number of a queue pair, or -1 for all.
 */
json_t *show_all(struct daemon *d, const char *what, int64_t arg);

#endif
