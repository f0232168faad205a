/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of lib/cm, from the bottom up:
 *
 *   table.c  the state machine as data, names
 *   id.c     memory, ids, lookups
 *   heap.c   the heap of deadlines
 *   peer.c   number of unanswered requests of each peer
 *   listen.c listeners and the limits on peers' requests
 *   act.c, act_other.c  actions of cells: build and send MADs
 *   step.c   one input of one id: cell, action, next state, event; timers of ids
 *   call.c   calls of the owner
 *   rx_request.c  received requests, which create ids
 *   rx.c     the other received MADs
 *
 * The rdma_cm layer above has rdma_parts.h.
 *
 * Private to lib/cm.
 */
#ifndef CM_PARTS_H
#define CM_PARTS_H

#include "cm/cm.h"
#include "cm/heap.h"
#include "cm/table.h"

#define CM_NONE UINT32_MAX /* no slot */

enum cm_key { /* keys to find an id by, in addition to its number */
	      CM_KEY_REMOTE =
		      0, /* peer's address, communication id; SIDR queries have CM_SIDR_BIT */
	      CM_KEY_REMOTE_QPN, /* peer's address, QPN */
	      CM_KEY_LOCAL_QPN,  /* device, QPN */
	      CM_KEY_SERVICE,    /* of a listener: service id, connections or SIDR */
	      CM_NKEYS
};
#define CM_SIDR_BIT (1ull << 32) /* a request id of SIDR, not a communication id */

struct cm_id {
	uint32_t comm_id; /* 0: the slot is free */
	uint32_t gen;     /* number of times the slot was used */
	uint8_t state;    /* enum cm_state */
	uint8_t lap;      /* enum cm_lap_state */
	bool passive;     /* created by a peer's request */
	bool sidr;
	bool orphan;       /* destroyed by its owner */
	bool disconnected; /* DISCONNECTED has been reported */
	bool pending;      /* an unanswered request, counted for its listener and its peer */
	uint8_t keys;      /* bit per enum cm_key: set if the id has this key */
	uint8_t retries_left, max_retries;
	uint8_t transport;
	bool has_apr;
	uint32_t remote_comm_id; /* 0: not known yet */
	uint32_t listener;       /* comm id of the listener that reported it; 0: none */
	uint32_t peer;           /* in struct cm's peers while pending */
	uint32_t next[CM_NKEYS]; /* chains of the hash tables */
	uint64_t num[CM_NKEYS];
	struct cm_timer timer;
	uint32_t old_prev, old_next; /* list of the ids that may be evicted */
	bool evictable;
	uint64_t response_ns; /* time until a MAD is retransmitted */
	uint64_t linger_ns;   /* time for which copies are answered in REJ_SENT and SIDR_REP_SENT */
	uint64_t mra_ns;      /* .. extended by the longest time that an MRA requested */
	uint64_t timewait_ns;
	uint64_t made_ns;
	uint64_t tid;               /* of the exchange that created the connection */
	uint64_t first_hash;        /* of the REQ or SIDR_REQ that created it */
	uint64_t lap_hash, lap_tid; /* of the last LAP */
	void *user;
	struct cm_addr addr;
	uint64_t service_id, ca_guid;
	struct cm_ece peer_ece;
	uint32_t local_qpn;
	struct cm_qp_attr qp;        /* dest_qpn 0: not known yet */
	struct wire_cm_path loading; /* of the outstanding LAP, from this side */
	struct cm_listen listen;
	uint32_t npending;             /* of a listener */
	uint8_t request[WIRE_MAD_LEN]; /* retransmitted by the timer */
	uint8_t reply[WIRE_MAD_LEN];   /* reply to a copy: REP, RTU, REJ, SIDR_REP */
	uint8_t apr[WIRE_MAD_LEN];
};
_Static_assert(sizeof(struct cm_id) <= 2048, "an id costs at most 2 KiB");

/* A peer with unanswered requests. */
struct cm_peer {
	uint16_t dev;
	uint8_t gid[16];
	uint32_t pending; /* 0: free */
	uint32_t next;
};

struct cm {
	struct cm_config config;
	struct cm_ops ops;
	void *ctx;
	uint64_t rng;
	uint64_t hash_key[2];
	uint32_t perm_key[4];
	uint32_t id_bits; /* of a slot's number */
	uint32_t bucket_mask;
	uint32_t nused, nremote;        /* ids; ids created by peers */
	uint32_t ndisconnecting;        /* ids in DREQ_SENT */
	uint64_t hurry_ns;              /* cm_hurry's again_ns; 0: not called */
	uint32_t nids, npeers;          /* slots used so far; later ones are not initialised */
	uint32_t free_first, free_last; /* first in, first out, by next[0] */
	uint32_t old_first, old_last;   /* ids that may be evicted, the oldest first */
	uint32_t free_peer;
	struct cm_id *ids;
	uint32_t *bucket[CM_NKEYS];
	struct cm_peer *peers;
	uint32_t *peer_bucket;
	struct cm_heap heap;
	struct cm_counters counters;
	uint8_t seen[CM_NSTATES][CM_NINPUTS];
	uint8_t lap_seen[CM_LAP_NSTATES][CM_NINPUTS];
};

/* An input's data, and the results of its action for the step. */
struct cm_args {
	uint64_t now_ns;
	const struct wire_cm *msg; /* of a MAD, else NULL */
	const void *call;          /* the struct of a call; path of cm_load_path */
	const void *data;          /* private data of a call without a struct */
	uint32_t len;
	uint8_t code;    /* timeout of cm_delay, status of cm_answer_path */
	uint16_t reason; /* of CM_IN_STALE and REJs: reported */
	uint64_t arm_ns; /* set by the action: the timer, 0 for none */
};

/* id.c */
uint64_t cm_random(struct cm *cm);
/* A 64-bit hash of a MAD. */
uint64_t cm_mad_hash(const uint8_t mad[WIRE_MAD_LEN]);
static inline uint32_t
cm_slot(const struct cm *cm, const struct cm_id *id)
{
	return (uint32_t)(id - cm->ids);
}
/* Returns the id of this number, or NULL. */
struct cm_id *cm_find(const struct cm *cm, uint32_t id);
/* Returns a new id in state IDLE, if necessary by evicting one (cm_evict); NULL: none is free. */
struct cm_id *cm_new(struct cm *cm);
void cm_free(struct cm *cm, struct cm_id *id);
/* Frees the oldest id that has no owner and only answers copies, if there is one. */
void cm_evict(struct cm *cm);
/* Returns the bucket of a key. The hash is keyed, because a peer chooses parts of the key. */
uint32_t cm_key_bucket(const struct cm *cm, enum cm_key key, uint16_t dev, const uint8_t *gid,
		       uint64_t num);
/* Finds an id by a key; dev and gid if the key has them. CM_KEY_SERVICE: the first of many. */
struct cm_id *cm_key_find(const struct cm *cm, enum cm_key key, uint16_t dev, const uint8_t *gid,
			  uint64_t num);
/* Returns the next id after id with the same service. */
struct cm_id *cm_key_next_service(const struct cm *cm, const struct cm_id *id);
/* Add key num to id, whose addr is set. id must not have this key yet. */
void cm_key_add(struct cm *cm, struct cm_id *id, enum cm_key key, uint64_t num);
/* Remove the key; no effect if id does not have it. */
void cm_key_del(struct cm *cm, struct cm_id *id, enum cm_key key);
/* Make id evictable, or not. */
void cm_evictable_set(struct cm *cm, struct cm_id *id, bool evictable);

/* step.c: set id's timer, or none for CM_NEVER. */
void cm_timer_set(struct cm *cm, struct cm_id *id, uint64_t deadline_ns);

/* peer.c: returns the number of this peer's unanswered requests. */
uint32_t cm_peer_pending(const struct cm *cm, const struct cm_addr *addr);
/* Count id, an unanswered request, for its listener and its peer. */
void cm_pending_begin(struct cm *cm, struct cm_id *id);
void cm_pending_end(struct cm *cm, struct cm_id *id);

/* act.c: execute the action. 0, or the -errno of a call, after which nothing has changed. */
int cm_act(struct cm *cm, struct cm_id *id, enum cm_act act, struct cm_args *a);
/* Send and count a MAD. */
void cm_send(struct cm *cm, const struct cm_addr *addr, const uint8_t mad[WIRE_MAD_LEN]);
/* Return when the DREQ of id that was sent at now_ns is due again, after cm_hurry. */
uint64_t cm_hurried_ns(const struct cm *cm, struct cm_id *id, uint64_t now_ns);
/* Build and send a message. */
void cm_send_msg(struct cm *cm, const struct cm_addr *addr, const struct wire_cm *m);
/* Begin a message: all fields are zero except attr and tid. */
void cm_msg_begin(struct wire_cm *m, uint32_t attr, uint64_t tid);
/* Return a peer's response timeout in ns, clamped to CM_MIN_TIMEOUT .. CM_MAX_TIMEOUT. */
uint64_t cm_response_ns(uint32_t code);
/* Return the duration of TIMEWAIT in ns for a path with this ACK timeout, a code or 0. */
uint64_t cm_timewait_ns(const struct cm *cm, uint32_t code);
/* Send m, which the timer retransmits until a response arrives. */
void cm_send_request(struct cm *cm, struct cm_id *id, const struct wire_cm *m, struct cm_args *a);
/* Send m, and keep it as the reply to copies of the message that it answers. */
void cm_send_reply(struct cm *cm, struct cm_id *id, const struct wire_cm *m);
/*
 * Begin a message of id's connection: sets attr, tid, both communication ids and private data, all
 * else to zero. For all messages except REQ, SIDR_REQ and SIDR_REP. 0, or -EINVAL: data too long.
 */
int cm_msg_of(const struct cm_id *id, struct wire_cm *m, uint32_t attr, uint64_t tid,
	      const void *data, uint32_t len);
/* Copy a call's private data to m. -EINVAL: too long. */
int cm_put_private(struct wire_cm *m, const void *data, uint32_t len);

/* act_other.c: the actions of these names; results as of cm_act. */
int cm_act_send_lap(struct cm *cm, struct cm_id *id, struct cm_args *a);
int cm_act_send_apr(struct cm *cm, struct cm_id *id, const struct cm_args *a);
int cm_act_send_sidr_req(struct cm *cm, struct cm_id *id, struct cm_args *a);
int cm_act_send_sidr_rep(struct cm *cm, struct cm_id *id, const struct cm_sidr_answer *s);
/* Return a path of the peer's message as seen from this side. */
struct wire_cm_path cm_path_turned(const struct wire_cm_path *p);

/* listen.c: the action of this name. */
int cm_act_listen(struct cm *cm, struct cm_id *id, const struct cm_listen *l);
/* Return the most specific listener for a request to addr, or NULL. */
struct cm_id *cm_listener_find(const struct cm *cm, const struct cm_addr *addr, uint64_t service_id,
			       bool sidr);
/* Return a new id for a request of addr's peer to l, or NULL if a limit is reached (CM-16). */
struct cm_id *cm_request_new(struct cm *cm, struct cm_id *l, const struct cm_addr *addr);

/*
 * step.c: execute an input of id. Returns 0; -EINVAL if the table refuses it; or cm_act's error. id
 * may be free afterwards.
 */
int cm_step(struct cm *cm, struct cm_id *id, enum cm_input in, struct cm_args *a);
/* Returns true if this input moves id to another state, unless cm_step fails. */
bool cm_moves(const struct cm_id *id, enum cm_input in);
/* Report the request that created id. */
void cm_report_request(struct cm *cm, struct cm_id *id, const struct wire_cm *msg);

/* A MAD that has been received, for rx.c and rx_request.c. */
struct cm_mad {
	struct cm *cm;
	const struct cm_addr *addr;
	const uint8_t *mad;
	struct wire_cm msg;
	uint64_t now_ns;
	bool useful; /* the result of cm_rx */
};

/* rx.c: count a MAD as dropped. */
void cm_rx_drop(struct cm_mad *rx, enum cm_drop why);
/* Pass a MAD to id as an input. A MAD that the table refuses is counted. */
void cm_rx_input(struct cm_mad *rx, struct cm_id *id, enum cm_input in, uint16_t reason);
/* Send a REJ for a message that has no id here. */
void cm_rx_reject(struct cm_mad *rx, uint8_t about, uint16_t reason, uint32_t local,
		  uint32_t remote);

/* rx_request.c: handle a REQ, and a SIDR_REQ. */
void cm_rx_req(struct cm_mad *rx);
void cm_rx_sidr_req(struct cm_mad *rx);

#endif
