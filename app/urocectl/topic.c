/* SPDX-License-Identifier: BSD-3-Clause */
#include "topic.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "filter.h"
#include "urocectl.h"

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
