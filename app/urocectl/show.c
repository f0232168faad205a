/* SPDX-License-Identifier: BSD-3-Clause */
/* show: objects and counters of the daemon. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "cli/cli.h"
#include "urocectl.h"

json_t *
call_for_json(struct ipc_client *c, struct ipc_call *call, const uint64_t *bytes)
{
	json_t *all = NULL;
	char *text;
	int fd, rc;

	call->rep_fds = &fd;
	call->rep_fds_max = 1;
	rc = ipc_client_call(c, call);
	if (rc == 0 && call->rep_nfds != 1)
		rc = -EPROTO;
	errno = -rc;
	if (rc < 0)
		return NULL;
	text = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text != MAP_FAILED) {
		all = json_loadb(text, *bytes, 0, NULL);
		munmap(text, *bytes);
		errno = all == NULL ? EPROTO : 0;
	}
	close(fd);
	return all;
}

json_t *
query(struct ipc_client *c, const char *what, const uint32_t *qpn)
{
	struct uroce_show_req req = {.has_arg = qpn != NULL, .arg = qpn != NULL ? *qpn : 0};
	json_t *all = NULL, *more;
	struct uroce_show_rep rep;

	strcpy(req.what, what);
	do {
		struct ipc_call call = {
			.op = UROCE_CTRL_SHOW,
			.req = &req,
			.req_len = sizeof(req),
			.rep = &rep,
			.rep_len = sizeof(rep),
		};

		memset(&rep, 0, sizeof(rep));
		more = call_for_json(c, &call, &rep.bytes);
		if (more == NULL) {
			json_decref(all);
			return NULL;
		}
		if (all == NULL) {
			all = more;
		} else {
			json_array_extend(json_object_get(all, what), json_object_get(more, what));
			json_decref(more);
		}
		req.from_client = rep.next_client;
		req.from_pos = rep.next_pos;
	} while (rep.next_client != 0);
	return all;
}

json_t *
query_rows(struct ipc_client *c, const char *what)
{
	json_t *all = query(c, what, NULL), *rows;

	if (all == NULL)
		return NULL;
	rows = json_incref(json_object_get(all, what));
	json_decref(all);
	return rows;
}

/* Of ids, and of connections without one. */
#define CM_STATES                                                                                  \
	"IDLE BOUND LISTEN ADDR_QUERY ADDR_RESOLVED ROUTE_QUERY ROUTE_RESOLVED CONNECT REMOVED "   \
	"destroyed"

#define OWNED (FILTER_DEV | FILTER_PID | FILTER_UID)

static const struct topic topics[] = {
	{"device", FILTER_DEV, false, "MAC, link, path MTU, clients of each device"},
	{"port", FILTER_DEV, false, "its DPDK port, GIDs and P_Keys with their index"},
	{"gid", FILTER_DEV | FILTER_TYPE, false, "addresses", NULL, "RoCEv2"},
	{"neigh", FILTER_DEV | FILTER_STATE, false, "neighbours and their MACs", "known asking",
	 NULL},
	{"client", OWNED, false, "programs that have opened a device"},
	{"quota", FILTER_UID, false, "objects of each user, and the limits"},
	{"pd", OWNED, false, "protection domains"},
	{"qp", OWNED | FILTER_QPN | FILTER_STATE | FILTER_TYPE | FILTER_WORKER, false,
	 "queue pairs; show qp QPN: everything about one", QP_STATES, QP_TYPES},
	{"cq", OWNED, false, "completion queues"},
	{"srq", OWNED | FILTER_WORKER, false, "shared receive queues"},
	{"mr", OWNED, false, "memory regions"},
	{"mw", OWNED | FILTER_QPN, false, "memory windows"},
	{"ah", OWNED, false, "address handles"},
	{"cm", OWNED | FILTER_QPN | FILTER_STATE, false, "connections of rdma_cm", CM_STATES, NULL},
	{"worker", FILTER_WORKER, false, "worker threads: time busy and idle, frames"},
	{"stats", FILTER_DEV, true, "counters"},
	{"drops", FILTER_DEV, true, "packets that were dropped, by reason"},
	{"cm_stats", 0, true, "counters of the connection manager"},
	{"daemon", 0, false, "its version, process, rights and limits"},
	{"config", 0, false, "the options that the daemon runs with"},
	{"trace", OWNED | FILTER_QPN | FILTER_STATE | FILTER_TYPE, false,
	 "QPs with recorded events; trace QPN prints them", QP_STATES, QP_TYPES},
};
#define NTOPICS (sizeof(topics) / sizeof(topics[0]))

const char *
topic_names(void)
{
	static char names[256];
	size_t len = 0;

	for (unsigned i = 0; i < NTOPICS; i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? " " : "",
					topics[i].name);
	return names;
}

const struct topic *
topic_at(unsigned i)
{
	return i < NTOPICS ? &topics[i] : NULL;
}

const struct topic *
topic_find(const char *of, const char *name)
{
	for (unsigned i = 0; i < NTOPICS; i++) {
		if (strcmp(topics[i].name, name) == 0)
			return &topics[i];
	}
	usage_error("%s: unknown '%s'; legal: %s", of, name, topic_names());
}

/* "show qp" */
static const char *
name_of(const struct request *rq)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s %s", rq->cmd->name, rq->what);
	return name;
}

void
show_surplus(const struct request *rq, const char *word)
{
	char words[256];

	filter_words(rq->topic->filters, words, sizeof(words));
	usage_error("%s: unexpected argument '%s'; legal: %s", name_of(rq), word,
		    words[0] != '\0' ? words : "nothing more");
}

void
show_take_topic(struct request *rq, const char *word)
{
	rq->topic = topic_find(rq->cmd->name, word);
	rq->what = rq->topic->name;
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	uint64_t qpn;

	if (nth == 0 && strcmp(word, "trace") == 0) {
		rq->cmd = &trace_command;
	} else if (nth == 0) {
		show_take_topic(rq, word);
	} else if (filter_take(&rq->filters, rq->topic->filters, name_of(rq), word)) {
		return;
	} else if (nth == 1 && strcmp(rq->what, "qp") == 0) {
		if (!cli_number(word, 0, 0xffffff, &qpn))
			usage_error("QPN '%s' is not a number from 0 to 0xffffff", word);
		rq->qpn = (uint32_t)qpn;
		rq->has_qpn = true;
	} else {
		show_surplus(rq, word);
	}
}

static void
check(const struct request *rq)
{
	if (rq->what == NULL)
		usage_error("show: nothing to show; legal: show %s", topic_names());
	filter_check(&rq->filters, name_of(rq), rq->topic->states, rq->topic->types);
}

bool
device_is_known(struct ipc_client *c, const char *of, const char *name)
{
	json_t *rows = query_rows(c, "device"), *row;
	char names[512] = "";
	size_t i, len = 0;
	bool known = false;

	json_array_foreach(rows, i, row)
	{
		known |= strcmp(row_text(row, "device"), name) == 0;
		if (len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, " %s",
						row_text(row, "device"));
	}
	if (!known)
		fprintf(stderr, "urocectl: %s: no device '%s'; devices:%s\n", of, name,
			names[0] != '\0' ? names : " none");
	json_decref(rows);
	return known;
}

json_t *
ask_filtered(struct ipc_client *c, const struct request *rq, const char *of, const char *what)
{
	json_t *all = query(c, what, rq->has_qpn ? &rq->qpn : NULL), *rows;
	const char *dev = filter_text(&rq->filters, "device");

	if (all == NULL)
		return NULL;
	rows = json_object_get(all, what);
	filter_rows(&rq->filters, rows);
	if (dev != NULL && json_array_size(rows) == 0 && !device_is_known(c, of, dev)) {
		json_decref(all);
		errno = 0;
		return NULL;
	}
	return all;
}

json_t *
show_ask(struct ipc_client *c, const struct request *rq)
{
	return ask_filtered(c, rq, name_of(rq), rq->what);
}

/* Removes unused quotas. */
static void
drop_unused(json_t *rows)
{
	for (size_t i = json_array_size(rows); i > 0; i--) {
		if (row_int(json_array_get(rows, i - 1), "used") == 0)
			json_array_remove(rows, i - 1);
	}
}

void
show_print(const struct request *rq, json_t *rows)
{
	json_t *row;
	size_t i;

	if (strcmp(rq->what, "quota") == 0 && !rq->all)
		drop_unused(rows);
	if (rq->topic->counters) {
		table_print_counters(rows, rq->all, false);
		return;
	}
	if (!rq->has_qpn && !rq->details) {
		table_print(rq->what, rows);
		return;
	}
	json_array_foreach(rows, i, row)
	{
		if (i > 0)
			printf("\n");
		table_print_record(row);
	}
}

const struct command show_command = {"show", NULL, take_word, check, show_ask, show_print, NULL};
