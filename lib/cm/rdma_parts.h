/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the rdma_cm layer, from the bottom up:
 *
 *   rdma_queue.c    memory, channels, ids, their events
 *   rdma_mcast.c    multicast groups
 *   rdma_bind.c     addresses: binding, listening, options
 *   rdma_resolve.c  lookups of addresses and routes, and their removal
 *   rdma_connect.c  calls about connections and UD services
 *   rdma.c          creation of a struct cma, time, events of struct cm
 *
 * Private to lib/cm.
 */
#ifndef CM_RDMA_PARTS_H
#define CM_RDMA_PARTS_H

#include "cm/heap.h"
#include "cm/port.h"
#include "cm/rdma.h"

#define CMA_NONE UINT32_MAX /* no slot */

struct cma_id {
	uint32_t id;         /* 0: the slot is free */
	uint32_t gen;        /* number of times the slot was used */
	uint32_t channel;    /* slot; CMA_NONE: a request that no program has taken yet */
	uint32_t next, prev; /* ids of its channel; next: free slots */
	bool listens;        /* it is in first_listener's list, not in first_id's */
	uint64_t uid;
	void *payer;   /* of charge */
	bool mute;     /* a request not accepted yet: it has no uid for events */
	uint8_t state; /* enum cma_state */
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
	uint32_t first_event, last_event; /* that wait, CMA_NONE: none */
	uint32_t first_group;             /* slot, CMA_NONE: none */
	struct cm_timer query;            /* of ADDR_QUERY and ROUTE_QUERY */
	struct cma_addr src, dst;
	struct cma_path path;
};

struct cma_waiting {
	struct cma_event ev;
	uint32_t id;               /* slot of the id that it counts for */
	uint32_t group;            /* slot of the group that it counts for; CMA_NONE: none */
	uint32_t next, prev;       /* of the channel's queue; next: free ones */
	uint32_t of_next, of_prev; /* of its id, in the same order */
};

struct cma_group {
	uint32_t id; /* 0: free */
	uint32_t gen;
	uint32_t next, prev; /* groups of the same id; next: free slots */
	uint32_t event;      /* that waits, CMA_NONE: none */
	uint32_t owner;      /* slot of its id */
	uint64_t uid;
	void *payer; /* of charge */
	bool send_only;
	uint8_t mgid[16];
	uint32_t reported;
};

struct cma_channel {
	bool used;
	bool closing; /* cma_channel_close: no new events and requests */
	void *user;
	uint32_t first, last, n; /* events */
	uint32_t first_listener, first_id;
};

struct cma {
	struct cma_config config;
	struct cma_ops ops;
	void *ctx;
	struct cm *cm;
	struct cm_ports *ports;
	uint64_t now_ns;        /* of the current call */
	struct cm_heap queries; /* ids in ADDR_QUERY and ROUTE_QUERY */
	uint64_t rng;
	uint32_t free_id, free_event, free_group;
	uint32_t nids;    /* high-water mark of used ids; later ones are not initialised */
	uint32_t nevents; /* high-water mark of used events */
	struct cma_id *ids;
	struct cma_waiting *events;
	struct cma_channel *channels;
	struct cma_group *groups;
};

/* rdma_queue.c */
struct cma_channel *cma_channel_find(const struct cma *r, uint32_t channel);
/* Returns the id of this number, of any channel or none; NULL: no such id. */
struct cma_id *cma_id_find(const struct cma *r, uint32_t id);
/* Returns the id of this number and channel, or NULL with *rc: -ENOENT or -EINVAL. */
struct cma_id *cma_find(const struct cma *r, uint32_t channel, uint32_t id, int *rc);
/* Returns a new id charged to this channel's user, zero except its number; NULL: refused. */
struct cma_id *cma_new(struct cma *r, uint32_t channel);
/* Call the callbacks charge and discharge, unless they are NULL. */
bool cma_charge(struct cma *r, uint32_t channel, void **payer);
void cma_discharge(struct cma *r, void *payer);
/* Returns true if fewer than CMA_CALL_EVENTS events wait, as calls that cause events require. */
bool cma_has_room(const struct cma_id *id);
/*
 * Queue an event of id with type and status and return it; the caller may add fields before it
 * returns. NULL: the event is not reported.
 */
struct cma_event *cma_report(struct cma *r, struct cma_id *id, enum cma_event_type type,
			     int32_t status);
/* Report MULTICAST_JOIN of a group of id, as cma_report. */
struct cma_event *cma_report_group(struct cma *r, struct cma_id *id, const struct cma_group *g);
/* Drop the waiting event of this group, if there is one. */
void cma_group_drop(struct cma *r, const struct cma_group *g);
/* Drop the waiting events of id, release all that it holds, and notify its peer. */
void cma_end(struct cma *r, struct cma_id *id);

/*
 * Put id in a channel, which is a slot, among its listeners or its other ids. It leaves the one
 * that it was in.
 */
void cma_own(struct cma *r, struct cma_id *id, uint32_t channel, bool listens);

/* rdma_mcast.c: leave one group of id, which has some, and none of whose events may wait. */
void cma_leave_one(struct cma *r, struct cma_id *id);

/* rdma_bind.c: returns true if gid is all zero. */
bool cma_gid_any(const uint8_t gid[16]);
/* Bind an id that is IDLE. */
int cma_bind_to(struct cma *r, struct cma_id *id, const struct cma_addr *addr);
/* Returns the service id of the port of addr, an address of id. */
uint64_t cma_service(const struct cma_id *id, const struct cma_addr *addr);

/* rdma_resolve.c: end resolutions that have timed out, at most CM_TICK_MOST. */
void cma_resolve_tick(struct cma *r);

#endif
