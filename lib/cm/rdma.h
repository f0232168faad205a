/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rdma_cm layer implements librdmacm's commands on top of cm.h (connections) and port.h (port
 * spaces). Calls correspond to the commands of the user ABI (rdma/rdma_user_cm.h) one to one. The
 * caller handles the ABI's structs and files.
 *
 * Channels and ids. A channel stands for an open file of /dev/infiniband/rdma_cm. Its ids are known
 * to this channel only: a call with the id of another channel is -EINVAL, with an unknown id
 * -ENOENT (CM-12). Events wait in the channel's queue until rcm_event_get takes them.
 *
 * Bounds. The caller provides all memory as one block. At most RCM_ID_EVENTS events of an id wait,
 * and RCM_USER_EVENTS that programs wrote (rcm_write_event).
 * Calls that would exceed RCM_CALL_EVENTS fail with -ENOMEM; the remaining entries are reserved for
 * events that peers cause. No event is lost. Waiting requests are bounded by the listener's backlog
 * (cm.h), which counts a request until it is accepted, rejected or destroyed.
 *
 * I/O. None. Callbacks look up addresses, routes and devices and return the result at once or later
 * (rcm_resolved). MADs leave through a callback. `now` is an argument.
 *
 * Threads. One thread for a struct rcm, that of its struct cm. Errors are -errno, as in the kernel.
 *
 *   IDLE --bind--> BOUND --listen--> LISTEN
 *   IDLE, BOUND --resolve_addr--> ADDR_QUERY --> ADDR_RESOLVED, or BOUND after an error
 *   ADDR_RESOLVED --resolve_route--> ROUTE_QUERY --> ROUTE_RESOLVED, or ADDR_RESOLVED
 *   ROUTE_RESOLVED --connect--> CONNECT; the id of a request begins in CONNECT
 *   any state --device removed--> REMOVED, which only rcm_destroy leaves
 */
#ifndef CM_RDMA_H
#define CM_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cm/cm.h"

#define RCM_ID_EVENTS     8u          /* waiting events of one id */
#define RCM_CALL_EVENTS   3u          /* with this many waiting, calls fail */
#define RCM_USER_EVENTS   8u          /* waiting events of one id that programs wrote */
#define RCM_MAX_BACKLOG   1024u       /* used for a backlog of 0, or above this */
#define RCM_UD_QKEY       0x01234567u /* of UD QPs unless the program chooses a Q_Key */
#define RCM_EVENT_PRIVATE WIRE_CM_MAX_PRIVATE
#define RCM_LOW_PORTS     1024u /* ports below it are privileged */

/* Numbers of enum rdma_cm_event_type. */
enum rcm_event_type {
	RCM_EV_ADDR_RESOLVED = 0,
	RCM_EV_ADDR_ERROR,
	RCM_EV_ROUTE_RESOLVED,
	RCM_EV_ROUTE_ERROR,
	RCM_EV_CONNECT_REQUEST,
	RCM_EV_CONNECT_RESPONSE,
	RCM_EV_CONNECT_ERROR, /* not used: rcm_connect reports its errors itself */
	RCM_EV_UNREACHABLE,
	RCM_EV_REJECTED,
	RCM_EV_ESTABLISHED,
	RCM_EV_DISCONNECTED,
	RCM_EV_DEVICE_REMOVAL,
	RCM_EV_MULTICAST_JOIN,
	RCM_EV_MULTICAST_ERROR, /* not used: rcm_join reports its errors itself */
	RCM_EV_ADDR_CHANGE,
	RCM_EV_TIMEWAIT_EXIT,
	RCM_EV_ADDRINFO_RESOLVED, /* not used, like its error: RoCE has no service records */
	RCM_EV_ADDRINFO_ERROR,
	RCM_EV_USER, /* this and INTERNAL: of rcm_write_event */
	RCM_EV_INTERNAL,
	RCM_NEVENTS
};
/* "ADDR_RESOLVED" .. */
extern const char *const rcm_event_name[RCM_NEVENTS];

enum rcm_state {
	RCM_IDLE = 0,
	RCM_BOUND,
	RCM_LISTEN,
	RCM_ADDR_QUERY,
	RCM_ADDR_RESOLVED,
	RCM_ROUTE_QUERY,
	RCM_ROUTE_RESOLVED,
	RCM_CONNECT,
	RCM_REMOVED,
	RCM_NSTATES
};
/* "IDLE" .. */
extern const char *const rcm_state_name[RCM_NSTATES];

enum rcm_family { RCM_NO_ADDR = 0, RCM_IPV4, RCM_IPV6, RCM_IB };
/* An address and port. gid all zero: a wildcard. */
struct rcm_addr {
	uint8_t family; /* enum rcm_family */
	uint16_t port;  /* host byte order */
	uint16_t space; /* RCM_IB: the port space of its service id; 0: that of the id */
	uint32_t scope; /* of a link-local address: the kernel's number of its interface; 0: none */
	uint8_t gid[16];
};

/* Result of the resolver: resolve sets the address part, route the rest. */
struct rcm_path {
	struct cm_addr addr;
	uint8_t mtu;             /* 1 .. 5 */
	uint8_t rate, sl;        /* codes of path records */
	uint8_t packet_lifetime; /* code: 4.096 us << n */
};

struct rcm_dev {
	uint64_t guid;
	uint8_t ack_delay; /* code: local CA ACK delay */
};

/* QP types: numbers of enum ibv_qp_type. */
enum rcm_qp_type { RCM_QP_RC = 2, RCM_QP_UC = 3, RCM_QP_UD = 4 };

/* Parameters of connect and accept, and of events. */
struct rcm_conn {
	uint32_t qpn, qkey; /* qkey only of UD */
	uint8_t srq, responder_resources, initiator_depth, flow_control, retry_count, rnr_retry;
	struct cm_ece ece;
	const void *private_data;
	uint32_t private_len;
};

struct rcm_event {
	enum rcm_event_type type;
	uint64_t uid;         /* of the id; of CONNECT_REQUEST: of the listener */
	uint32_t id;          /* of CONNECT_REQUEST: the new id */
	int32_t status;       /* 0, -errno, reason of a REJ, status of a SIDR_REP */
	bool ud;              /* conn is of a UD service, which path leads to */
	uint64_t arg;         /* of rcm_write_event */
	struct rcm_conn conn; /* private_data is data, or NULL for none */
	struct rcm_path path; /* if ud */
	uint8_t data[RCM_EVENT_PRIVATE];
};

/*
 * The caller's functions for a struct rcm. ctx is that of rcm_init. No callback may call a function
 * of this file.
 *
 * send: as cm_ops.send.
 * readable: reports that the event queue of a channel is no longer empty. user: of the channel.
 * bind: finds the device with this local address. 0 and *dev; -EADDRNOTAVAIL; -ENODEV; -EINVAL: a
 *	link-local address without its scope.
 * resolve: finds device, source address and next hop to dst for id. src->gid all zero: any source.
 *	0 and path->addr; -EINPROGRESS: rcm_resolved follows; another -errno: the call's result.
 * route: finds MTU, hop limit, flow label etc. of path, whose address part is resolved. Results as
 *	for resolve.
 * cancel: cancels the resolve or route of id; rcm_resolved must not follow.
 * dev: gets the attributes of a device; false: it does not exist.
 * mcast: joins or leaves a multicast group on a device, on the wire (IGMP, MLD). 0 or -errno; the
 *	result of leaving is ignored. Called once for each rcm_join of a full member.
 * charge: charges a new id or membership to the channel of this user, a request to its listener's
 *	channel. NULL refuses it (-ENOMEM, or a REJ). Otherwise the result is passed to discharge
 *	when the id or membership ends, whichever channel it then belongs to. Both may be NULL.
 * low_port: returns true if the channel of this user may bind an id to port, which is below
 *	RCM_LOW_PORTS: programs trust that such a port belongs to a service of the system. NULL:
 *all.
 */
struct rcm_ops {
	void (*send)(void *ctx, const struct cm_addr *addr, const uint8_t *mad);
	void (*readable)(void *ctx, void *user);
	int (*bind)(void *ctx, const struct rcm_addr *addr, uint16_t *dev);
	int (*resolve)(void *ctx, uint32_t id, const struct rcm_addr *src,
		       const struct rcm_addr *dst, uint8_t tos, struct rcm_path *path);
	int (*route)(void *ctx, uint32_t id, struct rcm_path *path);
	void (*cancel)(void *ctx, uint32_t id);
	bool (*dev)(void *ctx, uint16_t dev, struct rcm_dev *out);
	int (*mcast)(void *ctx, uint16_t dev, const uint8_t mgid[16], bool join);
	void *(*charge)(void *ctx, void *user);
	void (*discharge)(void *ctx, void *payer);
	bool (*low_port)(void *ctx, void *user, uint16_t port);
};

struct rcm_config {
	uint32_t max_channels; /* 1 .. 2^16 */
	uint32_t max_ids;      /* 1 .. 2^18, of all channels, including waiting requests */
	uint32_t max_groups;   /* 0 .. 2^18: memberships of multicast groups */
	struct cm_config cm;   /* max_ids should include ids in TIMEWAIT */
};

struct rcm;

/* Returns the bytes that rcm_init needs; 0 if the configuration is invalid. */
size_t rcm_bytes(const struct rcm_config *config);
/*
 * Initialise a struct rcm in rcm_bytes(config) bytes at mem, aligned to 64. The caller owns mem and
 * frees it after the last use. Memory of ids is not touched before they are used. Never fails for a
 * valid configuration.
 */
struct rcm *rcm_init(void *mem, const struct rcm_config *config, const struct rcm_ops *ops,
		     void *ctx);
/* Returns the connection manager, read-only: for cm_counters, cm_next_id, cm_qpn_held. */
const struct cm *rcm_cm(const struct rcm *r);

/* Handle a packet to QP1, as cm_rx. */
void rcm_rx(struct rcm *r, const struct cm_rx_info *info, const uint8_t *mad, uint32_t len,
	    uint64_t now_ns);
/* Prepare for the end of the process, as cm_hurry. Wait for cm_disconnecting of rcm_cm. */
void rcm_hurry(struct rcm *r, uint64_t again_ns, uint64_t now_ns);
/*
 * Do work that is due, for at most CM_TICK_MOST lookups and as many connections. Returns the time
 * of the next call, which is past if more is due, or CM_NEVER.
 */
uint64_t rcm_tick(struct rcm *r, uint64_t now_ns);
/* Returns the earliest time at which rcm_tick has work, or CM_NEVER. */
uint64_t rcm_next_ns(const struct rcm *r);
/*
 * Pass the result of a resolve or route that returned -EINPROGRESS: status 0 and path, or -errno.
 * Ignored if id does not wait for it.
 */
void rcm_resolved(struct rcm *r, uint32_t id, int status, const struct rcm_path *path,
		  uint64_t now_ns);
/* Report that dev was removed (CM-15): DEVICE_REMOVAL once for each id that is bound to it. */
void rcm_device_removed(struct rcm *r, uint16_t dev, uint64_t now_ns);
/*
 * Report that dev has lost this address, or that the address has moved (CM-15): ADDR_CHANGE once
 * for each id that uses it.
 */
void rcm_address_removed(struct rcm *r, uint16_t dev, const uint8_t gid[16]);

/* Create a channel for user. Returns 0 and *channel (never 0), or -ENOMEM. */
int rcm_channel_open(struct rcm *r, void *user, uint32_t *channel);
/*
 * Destroy the channel and all its ids (CM-12) in slices: at most `most` listeners, events,
 * memberships and ids in one call. Listeners come first, so that a server that starts again at once
 * may listen on the same port. Returns true when nothing is left, or there is no such channel. From
 * the first call on no other call may name the channel; nothing is reported to it, and requests to
 * its listeners are refused.
 */
bool rcm_channel_close(struct rcm *r, uint32_t channel, uint32_t most, uint64_t now_ns);
/*
 * Take the channel's oldest event. 0; -EAGAIN: none waits; -ENOENT. The event counts as reported.
 * The id of a CONNECT_REQUEST then belongs to this channel.
 */
int rcm_event_get(struct rcm *r, uint32_t channel, struct rcm_event *ev);
/* Returns the number of waiting events of the channel. */
uint32_t rcm_events_waiting(const struct rcm *r, uint32_t channel);

/*
 * CREATE_ID. space: WIRE_CM_PS_TCP (RC), _UDP (UD), _IB (RC, UC or UD as qp_type says). 0 and *id
 * (never 0, below 2^31: librdmacm keeps it in an int); -EINVAL: another space or type; -ENOENT: no
 * such channel; -ENOMEM.
 */
int rcm_create(struct rcm *r, uint32_t channel, uint64_t uid, uint16_t space, uint8_t qp_type,
	       uint32_t *id);
/*
 * DESTROY_ID. Drops its waiting events, and the ids of requests among them. *reported: its events
 * that rcm_event_get has taken, every CONNECT_REQUEST counted for the listener (CM-12). The peer
 * gets the message that cm_destroy describes.
 *
 * This and all calls below: -ENOENT: no such id; -EINVAL: the id is of another channel, or not in a
 * state that the call requires.
 */
int rcm_destroy(struct rcm *r, uint32_t channel, uint32_t id, uint32_t *reported, uint64_t now_ns);
/*
 * BIND, BIND_IP. -EAFNOSUPPORT: family; -EACCES: a port that low_port refuses; -EADDRINUSE;
 * -EADDRNOTAVAIL; -ENODEV; -ENOMEM. Port 0: any free port.
 */
int rcm_bind(struct rcm *r, uint32_t channel, uint32_t id, const struct rcm_addr *addr);
/* LISTEN. An id that is not bound is bound to a chosen port of any IPv4 address. -EADDRINUSE. */
int rcm_listen(struct rcm *r, uint32_t channel, uint32_t id, uint32_t backlog);
/*
 * RESOLVE_ADDR, RESOLVE_IP (CM-11). src NULL or of family RCM_NO_ADDR: any. ADDR_RESOLVED or
 * ADDR_ERROR follows; -ETIMEDOUT after timeout_ms. Or an errno of rcm_bind or of the resolver;
 * -ENOMEM: too many events wait.
 */
int rcm_resolve_addr(struct rcm *r, uint32_t channel, uint32_t id, const struct rcm_addr *src,
		     const struct rcm_addr *dst, uint32_t timeout_ms, uint64_t now_ns);
/* RESOLVE_ROUTE. ROUTE_RESOLVED or ROUTE_ERROR follows. */
int rcm_resolve_route(struct rcm *r, uint32_t channel, uint32_t id, uint32_t timeout_ms,
		      uint64_t now_ns);
/*
 * CONNECT: sends a REQ, or a SIDR_REQ in a UD space. CONNECT_RESPONSE (ESTABLISHED for UD),
 * REJECTED or UNREACHABLE follows. -EINVAL also for private data of more than 56 bytes (UD 180; 36
 * more for RCM_IB, CM-09); -EBUSY: another connection has the QPN; -ENODEV; -ENOMEM.
 */
int rcm_connect(struct rcm *r, uint32_t channel, uint32_t id, const struct rcm_conn *conn,
		uint64_t now_ns);
/*
 * ACCEPT. conn: answers CONNECT_REQUEST by a REP or SIDR_REP and sets the id's uid; only then does
 * the id get events. conn NULL (valid 0): answers CONNECT_RESPONSE by an RTU. On error the peer is
 * rejected as by rcm_reject with reason 0, so that it does not wait in vain, and the id can only be
 * destroyed. -EBUSY: another connection has the QPN. -EINVAL also for private data of more than 196
 * bytes (UD 136).
 */
int rcm_accept(struct rcm *r, uint32_t channel, uint32_t id, uint64_t uid,
	       const struct rcm_conn *conn, uint64_t now_ns);
/*
 * REJECT. reason: 0 and 28: rejected by the consumer; 35: vendor option; others: -EINVAL. At most
 * 148 bytes of data.
 */
int rcm_reject(struct rcm *r, uint32_t channel, uint32_t id, uint8_t reason, const void *data,
	       uint32_t len, uint64_t now_ns);
/* DISCONNECT (CM-06). DISCONNECTED follows, once. */
int rcm_disconnect(struct rcm *r, uint32_t channel, uint32_t id, uint64_t now_ns);
/* NOTIFY: event IBV_EVENT_COMM_EST (CM-02), others -EINVAL. -EISCONN: the id is ESTABLISHED. */
int rcm_notify(struct rcm *r, uint32_t channel, uint32_t id, uint32_t event, uint64_t now_ns);
/*
 * WRITE_CM_EVENT: queues RCM_EV_USER or RCM_EV_INTERNAL for id, with this status and arg. -EINVAL
 * also: another type, or a request that was not accepted yet, which has no uid; -ENOMEM:
 * RCM_USER_EVENTS wait.
 */
int rcm_write_event(struct rcm *r, uint32_t channel, uint32_t id, uint32_t type, int32_t status,
		    uint64_t arg);
/*
 * RESOLVE_IB_SERVICE: -EOPNOTSUPP, as on RoCE; -EINVAL unless id is in BOUND and has a device.
 */
int rcm_resolve_service(struct rcm *r, uint32_t channel, uint32_t id);
/*
 * MIGRATE_ID: moves id from the channel `from` to `channel`, with its waiting events. *reported:
 * the number of its events that were taken before.
 */
int rcm_migrate(struct rcm *r, uint32_t channel, uint32_t from, uint32_t id, uint32_t *reported);

/*
 * JOIN_MCAST, JOIN_IP_MCAST (CM-13): for a UD id in BOUND or ADDR_RESOLVED that has a device.
 * send_only: sends no reports and receives nothing. Returns 0 and *group (never 0, distinct from
 * all ids); MULTICAST_JOIN follows, with this uid, id *group, the group's QPN, Q_Key and path.
 * -EAFNOSUPPORT; -EINVAL: not a multicast address; -ENOMEM; an errno of mcast.
 */
int rcm_join(struct rcm *r, uint32_t channel, uint32_t id, uint64_t uid,
	     const struct rcm_addr *addr, bool send_only, uint32_t *group);
/*
 * LEAVE_MCAST. Drops the group's waiting events. *reported: the number of its events that were
 * taken; these also count for its id. -ENOENT: no such group; -EINVAL: of another channel. An id
 * leaves its groups when it ends.
 */
int rcm_leave(struct rcm *r, uint32_t channel, uint32_t group, uint32_t *reported);

/*
 * SET_OPTION, IB_PATH: replaces rcm_resolve_route. Uses this path except its addresses and device,
 * which are those resolved before. ROUTE_RESOLVED follows. -ENOMEM as there.
 */
int rcm_set_path(struct rcm *r, uint32_t channel, uint32_t id, const struct rcm_path *path);
/*
 * SET_OPTION of level RDMA_OPTION_ID. tos: traffic class of later resolutions. reuse: in every
 * state, but it cannot be set while the id listens. afonly: before the id is bound. ack_timeout:
 * code 0 .. 31 of the local ACK timeout for later connects, RC only.
 */
int rcm_set_tos(struct rcm *r, uint32_t channel, uint32_t id, uint8_t tos);
int rcm_set_reuse(struct rcm *r, uint32_t channel, uint32_t id, bool reuse);
int rcm_set_afonly(struct rcm *r, uint32_t channel, uint32_t id, bool afonly);
int rcm_set_ack_timeout(struct rcm *r, uint32_t channel, uint32_t id, uint8_t code);

/* QUERY, QUERY_ROUTE: the attributes of an id. */
struct rcm_info {
	uint32_t id;
	void *user;  /* of its channel; NULL: a request that the listener's program has not taken */
	void *payer; /* of charge */
	uint32_t waiting; /* events */
	enum rcm_state state;
	uint16_t space;
	uint8_t qp_type;
	uint16_t dev; /* CM_DEV_ANY: none yet */
	uint32_t cm;  /* the id in rcm_cm, or 0 */
	struct rcm_addr src, dst;
	bool has_path; /* ROUTE_RESOLVED, CONNECT */
	struct rcm_path path;
};
int rcm_query(const struct rcm *r, uint32_t channel, uint32_t id, struct rcm_info *info);
/*
 * For display: gets the next id at or after *pos and moves *pos past it. Returns false if there are
 * no more. Start with *pos = 0. Ids may be created and destroyed between calls.
 */
bool rcm_next(const struct rcm *r, uint32_t *pos, struct rcm_info *info);

/* States for INIT_QP_ATTR: numbers of enum ibv_qp_state. */
enum rcm_qp_state { RCM_QPS_INIT = 1, RCM_QPS_RTR = 2, RCM_QPS_RTS = 3 };
/* Valid fields of struct rcm_qp_attr: bits of enum ibv_qp_attr_mask. */
enum rcm_qp_mask {
	RCM_QPM_STATE = 1 << 0,
	RCM_QPM_ACCESS = 1 << 3,
	RCM_QPM_PKEY_INDEX = 1 << 4,
	RCM_QPM_PORT = 1 << 5,
	RCM_QPM_QKEY = 1 << 6,
	RCM_QPM_AV = 1 << 7,
	RCM_QPM_PATH_MTU = 1 << 8,
	RCM_QPM_TIMEOUT = 1 << 9,
	RCM_QPM_RETRY_CNT = 1 << 10,
	RCM_QPM_RNR_RETRY = 1 << 11,
	RCM_QPM_RQ_PSN = 1 << 12,
	RCM_QPM_MAX_RD_ATOMIC = 1 << 13,
	RCM_QPM_MIN_RNR_TIMER = 1 << 15,
	RCM_QPM_SQ_PSN = 1 << 16,
	RCM_QPM_MAX_DEST_RD_ATOMIC = 1 << 17,
	RCM_QPM_DEST_QPN = 1 << 20,
};
struct rcm_qp_attr {
	uint32_t mask;        /* enum rcm_qp_mask */
	uint32_t qkey;        /* UD */
	bool remote_write;    /* of ACCESS: false until the peer's QPN is known */
	bool remote_read;     /* and atomics */
	struct cm_qp_attr cm; /* the rest; min_rnr_timer is 0 (655.36 ms) */
};
/*
 * INIT_QP_ATTR. -EINVAL: no device yet; RTR and RTS before the peer's QPN is known; another state.
 * pkey_index and port are the device's first.
 */
int rcm_qp_attr_get(const struct rcm *r, uint32_t channel, uint32_t id, enum rcm_qp_state state,
		    struct rcm_qp_attr *attr);

#endif
