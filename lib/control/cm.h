/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's connection manager: serves rdma_cm channels (uroce_abi/cm.h) to clients, with lib/cm
 * (rdma.h), which implements the protocol, and QP1 of every device (slow_path.h). From the top
 * down:
 *
 *   cm.c           start and end
 *   cm_channel.c   channels: sockets, commands, the token
 *   cm_abi.c       commands: converts their structs to calls of lib/cm
 *   cm_query.c     queries, attributes of QPs, events: converts results of lib/cm to structs
 *   cm_input.c     MADs, time, changes of devices and neighbours
 *   cm_resolve.c   finds device, source address and next hop for a destination
 *   cm_route.c     the host's routing table
 *   cm_send.c      sends MADs, and queues those that wait for a neighbour's MAC
 *   cm_group.c     multicast groups: reports on the wire
 *   cm_addr.c      socket addresses of programs
 *
 * Ownership. A channel belongs to the holders of its socket, not to the session that opened it. Its
 * ids are charged to the user of that session (QUOTA_CM_IDS). QPs belong to sessions: the
 * connection manager knows only their numbers.
 *
 * Control thread only. Nothing here waits, except ucma_close.
 */
#ifndef CONTROL_CM_H
#define CONTROL_CM_H

#include <sys/queue.h>
#include "cm/rdma.h"
#include "control/daemon.h"
#include "control/handler.h"

#define UCMA_BUCKETS        256u /* of channels, by the first byte of their secret names */
#define UCMA_GROUP_BUCKETS  4096u
#define UCMA_LOOKUP_BUCKETS 4096u
#define UCMA_HELD           64u /* MADs that wait for a neighbour, at most */

struct ucma_channel;
struct ucma_lookup;
struct ucma_group;
struct net_query;
LIST_HEAD(ucma_groups, ucma_group);
LIST_HEAD(ucma_channels, ucma_channel);
LIST_HEAD(ucma_lookups, ucma_lookup);

/* A MAD whose next hop's MAC is not known yet. */
struct ucma_held {
	bool used;
	struct cm_addr addr;
	uint64_t until_ns; /* dropped then: its sender has retransmitted it */
	uint8_t mad[WIRE_MAD_LEN];
};

struct cm_service {
	struct daemon *d;
	struct cma *cma;
	void *mem; /* of cma */
	struct watch timer;
	uint64_t armed_ns; /* when timer expires, or CM_NEVER */
	struct ucma_channels channels[UCMA_BUCKETS];
	/* Lookups that wait for a neighbour, by id, and by the neighbour's address. */
	struct ucma_lookups lookup_bucket[UCMA_LOOKUP_BUCKETS], hop_bucket[UCMA_LOOKUP_BUCKETS];
	struct ucma_lookups resolved; /* out of hop_bucket: the neighbour's MAC is known */
	struct defer resolved_turn;   /* reports them, some per turn of the loop */
	struct ucma_channels closing; /* channels whose ids are being freed in slices */
	struct ucma_groups groups;    /* joined on devices with own addresses */
	struct ucma_groups group_bucket[UCMA_GROUP_BUCKETS]; /* the same, by address */
	uint64_t group_key;      /* of hashes of addresses, since clients choose these */
	uint64_t groups_next_ns; /* when a report is due, or CM_NEVER */
	const struct quota_user
		*by; /* user whose request is being handled; NULL: a MAD or a timer */
	struct ucma_held held[UCMA_HELD];
	uint32_t next_held;
	uint64_t drain_until_ns; /* the daemon ends: MADs wait for the worker until then; else 0 */
	struct {                 /* MADs that could not be sent at once */
		uint64_t held, resent, unreachable;
	} counters;
};

/* Starts the service: d->ucma. The devices exist. Returns 0 or -errno. */
int ucma_open(struct daemon *d);
/*
 * Ends all channels and notifies their peers, then ends the service. Waits at most 2 s until all
 * peers of connections have responded. Workers still run. Does nothing without a service.
 */
void ucma_close(struct daemon *d);

/* cm_channel.c: handler of CM_OPEN. */
ctrl_handler ucma_channel_open;

/*
 * cm_input.c: notify the service, if there is one: a device is about to be destroyed; a device has
 * lost the address gid; the MAC of a device's neighbour ip is known.
 */
void ucma_device_gone(struct device *dev);
void ucma_address_gone(struct device *dev, const uint8_t gid[16]);
void ucma_hop_resolved(struct device *dev, const uint8_t ip[16]);

/*
 * cm_input.c: handles a multicast router's query on dev. Groups are reported within the query's
 * response time, at most one report for each group, and in a version that the router understands.
 */
void ucma_group_queried(struct device *dev, const struct net_query *q);

/* cm_input.c: returns true if a new QP of dev may have this number: no connection holds it. */
bool ucma_qpn_is_free(const struct device *dev, uint32_t qpn);

#endif
