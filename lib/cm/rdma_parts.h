/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the rdma_cm layer, from the bottom up:
 *
 *   rdma_queue.c    memory, channels, ids, their events
 *   rdma_mcast.c    multicast groups
 *   rdma_bind.c     addresses: binding, listening, options
 *   rdma_resolve.c  lookups of addresses and routes, and their removal
 *   rdma_connect.c  calls about connections and UD services
 *   rdma.c          creation of a struct rcm, time, events of struct cm
 *
 * Private to lib/cm.
 */
#ifndef CM_RDMA_PARTS_H
#define CM_RDMA_PARTS_H

#include "cm/heap.h"
#include "cm/port.h"
#include "cm/rdma.h"

#define RCM_NONE UINT32_MAX /* no slot */

struct rcm_id {
	uint32_t id;         /* 0: the slot is free */
	uint32_t gen;        /* number of times the slot was used */
	uint32_t channel;    /* slot; RCM_NONE: a request that no program has taken yet */
	uint32_t next, prev; /* ids of its channel; next: free slots */
	bool listens;        /* it is in first_listener's list, not in first_id's */
	uint64_t uid;
	void *payer;   /* of charge */
	bool mute;     /* a request not accepted yet: it has no uid for events */
	uint8_t state; /* enum rcm_state */
	uint8_t qp_type;
	uint8_t tos, ack_timeout;
	bool reuse, afonly, has_ack_timeout;
	bool moved; /* ADDR_CHANGE has been reported */
	uint16_t space, dev;
	uint32_t owner; /* in the port spaces, 0: none */
	uint32_t cm;    /* id in struct cm, 0: none */
	uint32_t psn;   /* first PSN of its peer */
	uint32_t reported,
		nwaiting; /* events; those of its groups and nuser do not count as waiting */
	uint32_t nuser;   /* waiting events that programs wrote */
	uint32_t first_event, last_event; /* that wait, RCM_NONE: none */
	uint32_t first_group;             /* slot, RCM_NONE: none */
	struct cm_timer query;            /* of ADDR_QUERY and ROUTE_QUERY */
	struct rcm_addr src, dst;
	struct rcm_path path;
};

struct rcm_waiting {
	struct rcm_event ev;
	uint32_t id;               /* slot of the id that it counts for */
	uint32_t group;            /* slot of the group that it counts for; RCM_NONE: none */
	uint32_t next, prev;       /* of the channel's queue; next: free ones */
	uint32_t of_next, of_prev; /* of its id, in the same order */
};

struct rcm_group {
	uint32_t id; /* 0: free */
	uint32_t gen;
	uint32_t next, prev; /* groups of the same id; next: free slots */
	uint32_t event;      /* that waits, RCM_NONE: none */
	uint32_t owner;      /* slot of its id */
	uint64_t uid;
	void *payer; /* of charge */
	bool send_only;
	uint8_t mgid[16];
	uint32_t reported;
};

struct rcm_channel {
	bool used;
	bool closing; /* rcm_channel_close: no new events and requests */
	void *user;
	uint32_t first, last, n; /* events */
	uint32_t first_listener, first_id;
};

struct rcm {
	struct rcm_config config;
	struct rcm_ops ops;
	void *ctx;
	struct cm *cm;
	struct cm_ports *ports;
	uint64_t now_ns;        /* of the current call */
	struct cm_heap queries; /* ids in ADDR_QUERY and ROUTE_QUERY */
	uint64_t rng;
	uint32_t free_id, free_event, free_group;
	uint32_t nids;    /* high-water mark of used ids; later ones are not initialised */
	uint32_t nevents; /* high-water mark of used events */
	struct rcm_id *ids;
	struct rcm_waiting *events;
	struct rcm_channel *channels;
	struct rcm_group *groups;
};

/* rdma_queue.c */
struct rcm_channel *rcm_channel_find(const struct rcm *r, uint32_t channel);
/* Returns the id of this number, of any channel or none; NULL: no such id. */
struct rcm_id *rcm_id_find(const struct rcm *r, uint32_t id);
/* Returns the id of this number and channel, or NULL with *rc: -ENOENT or -EINVAL. */
struct rcm_id *rcm_find(const struct rcm *r, uint32_t channel, uint32_t id, int *rc);
/* Returns a new id charged to this channel's user, zero except its number; NULL: refused. */
struct rcm_id *rcm_new(struct rcm *r, uint32_t channel);
/* Call the callbacks charge and discharge, unless they are NULL. */
bool rcm_charge(struct rcm *r, uint32_t channel, void **payer);
void rcm_discharge(struct rcm *r, void *payer);
/* Returns true if fewer than RCM_CALL_EVENTS events wait, as calls that cause events require. */
bool rcm_has_room(const struct rcm_id *id);
/*
 * Queue an event of id with type and status and return it; the caller may add fields before it
 * returns. NULL: the event is not reported.
 */
struct rcm_event *rcm_report(struct rcm *r, struct rcm_id *id, enum rcm_event_type type,
			     int32_t status);
/* Report MULTICAST_JOIN of a group of id, as rcm_report. */
struct rcm_event *rcm_report_group(struct rcm *r, struct rcm_id *id, const struct rcm_group *g);
/* Drop the waiting event of this group, if there is one. */
void rcm_group_drop(struct rcm *r, const struct rcm_group *g);
/* Drop the waiting events of id, release all that it holds, and notify its peer. */
void rcm_end(struct rcm *r, struct rcm_id *id);

/*
 * Put id in a channel, which is a slot, among its listeners or its other ids. It leaves the one
 * that it was in.
 */
void rcm_own(struct rcm *r, struct rcm_id *id, uint32_t channel, bool listens);

/* rdma_mcast.c: leave one group of id, which has some, and none of whose events may wait. */
void rcm_leave_one(struct rcm *r, struct rcm_id *id);

/* rdma_bind.c: returns true if gid is all zero. */
bool rcm_gid_any(const uint8_t gid[16]);
/* Bind an id that is IDLE. */
int rcm_bind_to(struct rcm *r, struct rcm_id *id, const struct rcm_addr *addr);
/* Returns the service id of the port of addr, an address of id. */
uint64_t rcm_service(const struct rcm_id *id, const struct rcm_addr *addr);

/* rdma_resolve.c: end resolutions that have timed out, at most CM_TICK_MOST. */
void rcm_resolve_tick(struct rcm *r);

#endif
