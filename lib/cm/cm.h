/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager (CM): IBTA vol. 1, chapter 12. It connects and disconnects QPs, and
 * resolves UD services, by MADs between QP1s.
 *
 * State. A struct cm holds ids: listeners, connections, SIDR queries. Calls, MADs and timeouts are
 * inputs of an id. The tables in table.c give the action, the next state and the event for each
 * state and input. Nothing here does I/O, reads a clock or allocates: MADs and events leave through
 * struct cm_ops, `now` is an argument, and the caller provides one block of memory.
 *
 * Threads. A struct cm belongs to one thread (the daemon's control thread). There is no other
 * state, so a process may have several.
 *
 * Times. `now_ns` never decreases between calls. cm_tick must be called at its deadline; a late
 * call only delays retransmissions.
 *
 * Timers (CM-04), and the message that sets each:
 *   REQ        the response timeout that it states for its receiver
 *   REP        the response timeout that the peer's REQ states for its sender
 *   DREQ, LAP  the timeout of this side's REQ or REP (see also cm_hurry)
 *   SIDR_REQ   the timeout that the caller gives
 *   an MRA     delays the next retransmission by the service timeout that it states
 *
 * After each timeout the message is retransmitted, at most max_retries (of the REQ) times; then the
 * peer is UNREACHABLE.
 *
 * A peer's response timeout is clamped to CM_MIN_TIMEOUT .. CM_MAX_TIMEOUT. Otherwise a peer could
 * make this side send thousands of MADs a second, or keep an id for hours. The kernel states 20
 * (4.3 s) and 15 retries. CM_DEFAULT_TIMEOUT is shorter, because the response timeout is about the
 * peer's CM, not its program: a CM whose program is slow answers the second copy of a REQ or REP
 * with an MRA. A lost MAD then costs half a second instead of four. SIDR has no MRA: all its copies
 * together have to wait for the peer's program, hence CM_SIDR_TIMEOUT.
 *
 * May include wire and counters.
 */
#ifndef CM_CM_H
#define CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/mad.h"

#define CM_MAX_IDS         (1u << 20)
#define CM_MIN_TIMEOUT     12u /* code: 16.8 ms */
#define CM_DEFAULT_TIMEOUT 17u /* code: 537 ms */
#define CM_SIDR_TIMEOUT    19u /* code: 2.1 s */
#define CM_MAX_TIMEOUT     22u /* code: 17.2 s */
#define CM_DEFAULT_RETRIES 15u
#define CM_NEVER           UINT64_MAX
#define CM_DEV_ANY         UINT16_MAX

enum cm_state {
	CM_IDLE = 0,      /* created, not used yet */
	CM_LISTEN,        /* a listener for connections or for SIDR queries */
	CM_REQ_SENT,      /* active: waits for a REP */
	CM_MRA_REQ_RCVD,  /* active: the peer requested more time for the REQ */
	CM_REP_RCVD,      /* active: waits for cm_ready */
	CM_REQ_RCVD,      /* passive: waits for cm_accept or cm_reject */
	CM_REP_SENT,      /* passive: waits for an RTU */
	CM_MRA_REP_RCVD,  /* passive: the peer requested more time for the REP */
	CM_ESTABLISHED,   /* connected */
	CM_DREQ_SENT,     /* disconnecting: waits for a DREP */
	CM_TIMEWAIT,      /* disconnected: packets of the connection may still arrive */
	CM_REJ_SENT,      /* rejected: copies of the REQ, REP or RTU are answered by the REJ */
	CM_SIDR_REQ_SENT, /* waits for a SIDR_REP */
	CM_SIDR_REQ_RCVD, /* waits for cm_sidr_answer */
	CM_SIDR_REP_SENT, /* answered: copies of the SIDR_REQ are answered by the SIDR_REP */
	CM_CLOSED,        /* ended: can only be destroyed */
	CM_NSTATES
};
/* "IDLE" .. */
extern const char *const cm_state_name[CM_NSTATES];

enum cm_lap_state { /* loading an alternate path, while ESTABLISHED */
		    CM_LAP_NONE = 0,
		    CM_LAP_SENT,     /* active: waits for an APR */
		    CM_LAP_MRA_RCVD, /* active: the peer requested more time for the LAP */
		    CM_LAP_RCVD,     /* passive: waits for cm_answer_path */
		    CM_LAP_NSTATES
};
extern const char *const cm_lap_state_name[CM_LAP_NSTATES];

enum cm_event_type {
	CM_EV_NONE = 0,
	CM_EV_CONNECT_REQUEST,  /* msg: REQ. A new id, which the receiver must destroy */
	CM_EV_CONNECT_RESPONSE, /* msg: REP. Answer with cm_ready or cm_reject */
	CM_EV_ESTABLISHED,      /* passive side; msg: RTU, or NULL after cm_established */
	CM_EV_REJECTED,         /* reason; msg: REJ, or NULL if the connection was found stale */
	CM_EV_UNREACHABLE,      /* no response to a REQ, REP or SIDR_REQ; status -ETIMEDOUT */
	CM_EV_DISCONNECTED,     /* once for each connection; status -ETIMEDOUT without a DREP */
	CM_EV_TIMEWAIT_EXIT,    /* its QPN may be reused */
	CM_EV_PATH_REQUEST,     /* msg: LAP. Answer with cm_answer_path */
	CM_EV_PATH_RESPONSE,    /* msg: APR; status 0 or -ECONNREFUSED. Or -ETIMEDOUT, NULL */
	CM_EV_SIDR_REQUEST,     /* msg: SIDR_REQ. A new id, which the receiver must destroy */
	CM_EV_SIDR_RESPONSE,    /* msg: SIDR_REP, which has a QPN if its status is 0 */
	CM_NEVENTS
};
extern const char *const cm_event_name[CM_NEVENTS];

/* The addresses of an id's MADs. */
struct cm_addr {
	uint16_t dev; /* the caller's number of the device; not CM_DEV_ANY */
	uint16_t pkey;
	uint8_t local[16], remote[16]; /* GIDs, IPv4 as ::ffff:a.b.c.d */
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
};

/* Words of enhanced connection establishment (ECE): CM-14. Zeroes: none. */
struct cm_ece {
	uint32_t vendor_id; /* 24 bits */
	uint32_t options;
};

struct cm_event {
	enum cm_event_type type;
	uint32_t id;
	void *user;                  /* of the id; NULL for a new one */
	uint32_t listener;           /* requests: the listener that they are for; else 0 */
	void *listener_user;         /* its user */
	int status;                  /* 0 or -errno */
	uint16_t reason;             /* REJECTED and DISCONNECTED: enum wire_cm_reason or 0 */
	const struct wire_cm *msg;   /* the received message, or NULL */
	const uint8_t *private_data; /* of msg, padded with zeroes; or NULL */
	uint32_t private_len;        /* bytes in the MAD, not the length that the peer used */
	struct cm_ece ece;           /* of msg */
	const struct cm_addr *addr;  /* the id's, from this side */
};

/*
 * The caller's functions for a struct cm. ctx is that of cm_init.
 *
 * send: sends one MAD of WIRE_MAD_LEN bytes from QP1 to QP1, Q_Key WIRE_GSI_QKEY. It may be lost.
 * Must not call back.
 *
 * event: reports ev, which is valid during the call together with what it points to. It is the last
 * use of the id in a call, so event may call any function of this file, including
 * cm_destroy(ev->id).
 */
struct cm_ops {
	void (*send)(void *ctx, const struct cm_addr *addr, const uint8_t *mad);
	void (*event)(void *ctx, const struct cm_event *ev);
};

struct cm_config {
	uint32_t max_ids;          /* 1 .. CM_MAX_IDS, of all kinds together */
	uint32_t max_peer_pending; /* unanswered requests of one peer's GID; 0: 64 */
	uint64_t seed;             /* of ids and transaction ids: random, or fixed in a test */
	uint8_t mra_req_timeout;   /* code: time requested when a REQ arrives twice; 0: 22 */
	uint8_t mra_rep_timeout;   /* code: the same for a REP; 0: 20 */
	uint8_t max_timewait;      /* code: the longest TIMEWAIT that a peer can request; 0: 22 */
};

enum cm_drop {                   /* why a MAD was dropped */
	       CM_DROP_QKEY = 0, /* not QP1's */
	       CM_DROP_SRC_QPN,  /* not from QP1 */
	       CM_DROP_LENGTH,   /* not 256 bytes */
	       CM_DROP_BASE_VERSION,
	       CM_DROP_CLASS,
	       CM_DROP_CLASS_VERSION,
	       CM_DROP_METHOD,
	       CM_DROP_ATTR,
	       CM_DROP_FIELD,      /* a field has a value that no sender may use */
	       CM_DROP_UNKNOWN_ID, /* no such id, and no response needed */
	       CM_DROP_WRONG_PEER, /* the id has another peer */
	       CM_DROP_UNEXPECTED, /* not allowed in the id's state */
	       CM_NDROPS
};

struct cm_counters {
	uint64_t rx[WIRE_CM_NATTRS], tx[WIRE_CM_NATTRS]; /* by WIRE_CM_INDEX */
	uint64_t dropped[CM_NDROPS];
	uint64_t duplicates;   /* copies of earlier MADs, answered again or ignored */
	uint64_t retries;      /* MADs retransmitted by a timer */
	uint64_t no_listener;  /* REQs and SIDR_REQ messages */
	uint64_t over_backlog; /* refused: the listener's backlog */
	uint64_t over_peer;    /* refused: too many requests of this peer */
	uint64_t over_ids;     /* refused: all ids in use */
	uint64_t evicted; /* ids that answered copies, evicted: a later copy is a new request */
	uint64_t stale;   /* REQs and REPs refused as stale */
	uint64_t events[CM_NEVENTS];
};

struct cm;

/* Returns the bytes that cm_init needs for this configuration; 0 if it is invalid. */
size_t cm_bytes(const struct cm_config *config);
/*
 * Initialise a struct cm in cm_bytes(config) bytes at mem, aligned to 64. The caller owns mem and
 * frees it after the last use. ops is not copied. Never fails for a valid configuration.
 */
struct cm *cm_init(void *mem, const struct cm_config *config, const struct cm_ops *ops, void *ctx);

/*
 * Create an id in state IDLE, for user. Returns 0 and *id (never 0), or -ENOMEM if max_ids are in
 * use. An id is also the local communication id, and is not reused for a long time.
 */
int cm_create(struct cm *cm, void *user, uint32_t *id);
/*
 * Destroy id: no event of it follows. The peer gets the message that fits the state: DREQ, REJ, or
 * a SIDR_REP that refuses. If that takes time (DREQ_SENT, TIMEWAIT and the states in which copies
 * are still answered), the id continues without an owner and ends by itself. Ids that a listener
 * has reported are independent of it. Returns 0 or -ENOENT.
 */
int cm_destroy(struct cm *cm, uint32_t id, uint64_t now_ns);
/* Set the user of later events of id. Returns 0 or -ENOENT. */
int cm_set_user(struct cm *cm, uint32_t id, void *user);

enum cm_family { CM_FAMILY_ANY = 0, CM_FAMILY_IPV4, CM_FAMILY_IPV6 };
struct cm_listen {
	uint64_t service_id; /* WIRE_CM_SERVICE of an rdma_cm port */
	bool sidr;           /* for SIDR_REQ messages, not REQs */
	uint16_t dev;        /* or CM_DEV_ANY */
	uint8_t family;      /* enum cm_family: accepted by a wildcard */
	uint8_t gid[16];     /* all zero: a wildcard for every address */
	uint32_t backlog;    /* unanswered requests, at most; at least 1 */
};
/*
 * Listen (CM-10). A request goes to the most specific listener: address before wildcard, one family
 * before any, one device before any. 0; -ENOENT; -EINVAL: not IDLE, or backlog 0; -EADDRINUSE: such
 * a listener exists.
 */
int cm_listen(struct cm *cm, uint32_t id, const struct cm_listen *l);

/* Parameters of a connection or service, as a program or its peer states them. */
struct cm_param {
	uint32_t qpn, psn, qkey; /* 24, 24 and 32 bits */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry; /* 3 bits */
	uint8_t flow_control, srq;      /* 0 or not */
	struct cm_ece ece;
	const void *private_data; /* at most as many bytes as the message has space for */
	uint32_t private_len;
};

struct cm_connect {
	struct cm_addr addr;
	uint64_t service_id;
	uint64_t ca_guid;
	struct cm_param p;        /* retry_count, rnr_retry: for both QPs */
	uint8_t transport;        /* WIRE_CM_RC or WIRE_CM_UC */
	uint8_t mtu;              /* 1 .. 5 */
	uint8_t response_timeout; /* code 12 .. 22, for both sides' CM; 0: CM_DEFAULT_TIMEOUT */
	uint8_t max_retries;      /* 0 .. 15 */
	struct wire_cm_path primary, alternate; /* alternate: zeroes for none */
};
/*
 * Send a REQ (CM-04). CONNECT_RESPONSE, REJECTED or UNREACHABLE follows. 0; -ENOENT; -EINVAL: not
 * IDLE, private data too long, or a value out of range; -EBUSY: the QPN belongs to another id,
 * which may be in TIMEWAIT.
 */
int cm_connect(struct cm *cm, uint32_t id, const struct cm_connect *c, uint64_t now_ns);

struct cm_accept {
	uint64_t ca_guid;
	uint8_t target_ack_delay; /* code */
	uint8_t failover;
	struct cm_param p; /* but for retry_count */
};
/*
 * Send a REP in response to CONNECT_REQUEST. ESTABLISHED, REJECTED, DISCONNECTED or UNREACHABLE
 * follows. Errors as for cm_connect.
 */
int cm_accept(struct cm *cm, uint32_t id, const struct cm_accept *c, uint64_t now_ns);
/*
 * Send an RTU in response to CONNECT_RESPONSE. Called when the QP can receive. The id becomes
 * ESTABLISHED. 0; -ENOENT; -EINVAL: another state, or more than WIRE_CM_RTU_PRIVATE bytes.
 */
int cm_ready(struct cm *cm, uint32_t id, const void *data, uint32_t len, uint64_t now_ns);
/*
 * Note that a request has arrived on the QP of id (COMM_EST). This replaces an RTU that is lost or
 * late (CM-02): reports ESTABLISHED unless the RTU has. 0, also if the id is ESTABLISHED already;
 * -ENOENT; -EINVAL: any other state.
 */
int cm_established(struct cm *cm, uint32_t id, uint64_t now_ns);

struct cm_reject {
	uint16_t reason;
	const void *info;  /* additional information */
	uint32_t info_len; /* at most WIRE_CM_INFO */
	const void *private_data;
	uint32_t private_len; /* at most WIRE_CM_REJ_PRIVATE */
};
/*
 * Send a REJ: in REQ_RCVD, REP_SENT (and MRA_REP_RCVD) and REP_RCVD. Afterwards the id can only be
 * destroyed. 0; -ENOENT; -EINVAL: another state, or data too long.
 */
int cm_reject(struct cm *cm, uint32_t id, const struct cm_reject *r, uint64_t now_ns);
/*
 * Request time from the peer (MRA) before it retransmits its REQ or REP: in REQ_RCVD and REP_RCVD.
 * timeout: code 0 .. 31. Copies of the REQ or REP are answered with an MRA in any case. 0; -ENOENT;
 * -EINVAL: another state, or more than WIRE_CM_MRA_PRIVATE bytes.
 */
int cm_delay(struct cm *cm, uint32_t id, uint8_t timeout, const void *data, uint32_t len,
	     uint64_t now_ns);
/*
 * End a connection (CM-06): sends a DREQ. DISCONNECTED follows with the DREP, or after the last
 * timeout. A peer's DREQ is answered at once, without this call, which then returns 0 and does
 * nothing.
 * 0; -ENOENT; -EINVAL: the id is not and was not connected, or more than WIRE_CM_DREQ_PRIVATE
 * bytes.
 */
int cm_disconnect(struct cm *cm, uint32_t id, const void *data, uint32_t len, uint64_t now_ns);

/*
 * Load an alternate path (CM-08): sends a LAP. Only the active side may do this (IBTA 12.6.9).
 * PATH_RESPONSE follows. 0; -ENOENT; -EINVAL: not ESTABLISHED, the passive side, a LAP is
 * outstanding, or more than WIRE_CM_LAP_PRIVATE bytes.
 */
int cm_load_path(struct cm *cm, uint32_t id, const struct wire_cm_path *path, const void *data,
		 uint32_t len, uint64_t now_ns);
/*
 * Send an APR in response to PATH_REQUEST. status: enum wire_apr_status; 0 accepts the path, see
 * cm_qp_attr. 0; -ENOENT; -EINVAL: no LAP is unanswered, or more than WIRE_CM_APR_PRIVATE bytes.
 */
int cm_answer_path(struct cm *cm, uint32_t id, uint8_t status, const void *data, uint32_t len,
		   uint64_t now_ns);

struct cm_sidr_ask {
	struct cm_addr addr;
	uint64_t service_id;
	uint8_t response_timeout; /* code 12 .. 22; 0: CM_SIDR_TIMEOUT */
	uint8_t max_retries;      /* 0 .. 15 */
	const void *private_data;
	uint32_t private_len; /* at most WIRE_CM_SIDR_REQ_PRIVATE */
};
/* Send a SIDR_REQ (CM-07). SIDR_RESPONSE or UNREACHABLE follows. Errors as for cm_connect. */
int cm_sidr_ask(struct cm *cm, uint32_t id, const struct cm_sidr_ask *q, uint64_t now_ns);

struct cm_sidr_answer {
	uint8_t status; /* enum wire_sidr_status */
	const void *info;
	uint32_t info_len; /* at most WIRE_CM_INFO */
	struct cm_param p; /* qpn and qkey with status 0; ece; private data */
};
/*
 * Send a SIDR_REP in response to SIDR_REQUEST. 0; -ENOENT; -EINVAL: another state, or data too
 * long.
 */
int cm_sidr_answer(struct cm *cm, uint32_t id, const struct cm_sidr_answer *s, uint64_t now_ns);

/* A received packet to QP1, without its payload. */
struct cm_rx_info {
	struct cm_addr addr; /* local: the address that the packet was sent to */
	uint32_t qkey, src_qpn;
};
/*
 * Handle a packet to QP1: len bytes of payload. Hostile input. Costs a few hash lookups, at most
 * two sent MADs and two events, and at most one new id (CM-01).
 *
 * Returns true if the packet was useful: it began a connection or query, or moved one to another
 * state and named it by this side's id, which nobody but its peer knows. Others cost their sender
 * (worker/mad_gate.h): refused requests, copies, messages about nothing.
 */
bool cm_rx(struct cm *cm, const struct cm_rx_info *info, const uint8_t *mad, uint32_t len,
	   uint64_t now_ns);
/*
 * Prepare for the end of the process. From now on DREQs, including outstanding ones, are
 * retransmitted after at most again_ns and CM_DEFAULT_RETRIES times, whatever the REQ said. The
 * caller then calls cm_rx and cm_tick until cm_disconnecting returns 0, or as long as it can wait.
 */
void cm_hurry(struct cm *cm, uint64_t again_ns, uint64_t now_ns);
/* Returns the number of ids that wait for a DREP, including those without an owner. */
uint32_t cm_disconnecting(const struct cm *cm);
/*
 * Do work that is due at now_ns, for at most CM_TICK_MOST ids. Returns the time of the next call,
 * which is past if more is due, or CM_NEVER.
 */
#define CM_TICK_MOST 64u
uint64_t cm_tick(struct cm *cm, uint64_t now_ns);
/* Returns the time at which cm_tick has work, or CM_NEVER. */
uint64_t cm_next_ns(const struct cm *cm);

/*
 * Returns true if an id holds this QPN of device dev. A QPN is held from cm_connect or cm_accept
 * until TIMEWAIT_EXIT, even after cm_destroy: it must not be allocated meanwhile (CM-06).
 */
bool cm_qpn_held(const struct cm *cm, uint16_t dev, uint32_t qpn);

/* The attributes for a connection's QP on either side (INIT_QP_ATTR). */
struct cm_qp_attr {
	uint32_t dest_qpn, dest_qkey;
	uint32_t rq_psn, sq_psn;
	uint8_t transport;                            /* enum wire_cm_service */
	uint8_t mtu;                                  /* 1 .. 5 */
	uint8_t responder_resources, initiator_depth; /* max_dest_rd_atomic, max_rd_atomic */
	uint8_t ack_timeout;                          /* code */
	uint8_t retry_count, rnr_retry;
	uint16_t pkey;
	struct wire_cm_path primary;   /* from this side */
	struct wire_cm_path alternate; /* remote_gid all zero: none */
};
/*
 * Get the attributes of id's QP. 0; -ENOENT; -EINVAL: the peer's QPN is not known yet (states
 * before REP_RCVD and REQ_RCVD), or the id is not a connection.
 */
int cm_qp_attr_get(const struct cm *cm, uint32_t id, struct cm_qp_attr *attr);

/* An id's state, for display. */
struct cm_info {
	uint32_t id, remote_id;
	enum cm_state state;
	enum cm_lap_state lap;
	bool passive;
	bool orphan; /* its owner has destroyed it */
	void *user;
	struct cm_addr addr;
	uint64_t service_id;
	uint32_t local_qpn, remote_qpn;
	uint32_t retries_left;
	uint64_t deadline_ns; /* or CM_NEVER */
	uint64_t made_ns;     /* time when it was connected or reported; 0 in IDLE and LISTEN */
	uint32_t backlog, pending; /* of a listener */
	struct cm_ece ece;         /* the peer's */
};
/* 0 or -ENOENT. */
int cm_info_get(const struct cm *cm, uint32_t id, struct cm_info *info);
/* Get the state of the id that holds a QPN of device dev (cm_qpn_held). 0 or -ENOENT. */
int cm_info_of_qpn(const struct cm *cm, uint16_t dev, uint32_t qpn, struct cm_info *info);
/*
 * Returns the next id at or after *pos and moves *pos past it; 0: no more. Start with *pos = 0. Ids
 * may be created and destroyed between calls.
 */
uint32_t cm_next_id(const struct cm *cm, uint32_t *pos);
/* Returns the number of ids in use, including those without an owner. */
uint32_t cm_nids(const struct cm *cm);
const struct cm_counters *cm_counters(const struct cm *cm);

#endif
