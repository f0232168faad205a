/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rdma_cm layer implements librdmacm's commands on top of cm.h (connections) and port.h (port
 * spaces). Calls correspond to the commands of the user ABI (rdma/rdma_user_cm.h) one to one. The
 * caller handles the ABI's structs and files.
 *
 * Channels and ids. A channel stands for an open file of /dev/infiniband/rdma_cm. Its ids are known
 * to this channel only: a call with the id of another channel is -EINVAL, with an unknown id
 * -ENOENT (CM-12). Events wait in the channel's queue until cma_event_get takes them.
 *
 * Bounds. The caller provides all memory as one block. At most CMA_ID_EVENTS events of an id wait,
 * and CMA_USER_EVENTS that programs wrote (cma_write_event).
 * Calls that would exceed CMA_CALL_EVENTS fail with -ENOMEM; the remaining entries are reserved for
 * events that peers cause. No event is lost. Waiting requests are bounded by the listener's backlog
 * (cm.h), which counts a request until it is accepted, rejected or destroyed.
 *
 * I/O. None. Callbacks look up addresses, routes and devices and return the result at once or later
 * (cma_resolved). MADs leave through a callback. `now` is an argument.
 *
 * Threads. One thread for a struct cma, that of its struct cm. Errors are -errno, as in the kernel.
 *
 *   IDLE --bind--> BOUND --listen--> LISTEN
 *   IDLE, BOUND --resolve_addr--> ADDR_QUERY --> ADDR_RESOLVED, or BOUND after an error
 *   ADDR_RESOLVED --resolve_route--> ROUTE_QUERY --> ROUTE_RESOLVED, or ADDR_RESOLVED
 *   ROUTE_RESOLVED --connect--> CONNECT; the id of a request begins in CONNECT
 *   any state --device removed--> REMOVED, which only cma_destroy leaves
 */
#ifndef CM_RDMA_H
#define CM_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cm/cm.h"

#define CMA_ID_EVENTS     8u          /* waiting events of one id */
#define CMA_CALL_EVENTS   3u          /* with this many waiting, calls fail */
#define CMA_USER_EVENTS   8u          /* waiting events of one id that programs wrote */
#define CMA_MAX_BACKLOG   1024u       /* used for a backlog of 0, or above this */
#define CMA_UD_QKEY       0x01234567u /* of UD QPs unless the program chooses a Q_Key */
#define CMA_EVENT_PRIVATE WIRE_CM_MAX_PRIVATE
#define CMA_LOW_PORTS     1024u /* ports below it are privileged */

/* Numbers of enum rdma_cm_event_type. */
enum cma_event_type {
	CMA_EV_ADDR_RESOLVED = 0,
	CMA_EV_ADDR_ERROR,
	CMA_EV_ROUTE_RESOLVED,
	CMA_EV_ROUTE_ERROR,
	CMA_EV_CONNECT_REQUEST,
	CMA_EV_CONNECT_RESPONSE,
	CMA_EV_CONNECT_ERROR, /* not used: cma_connect reports its errors itself */
	CMA_EV_UNREACHABLE,
	CMA_EV_REJECTED,
	CMA_EV_ESTABLISHED,
	CMA_EV_DISCONNECTED,
	CMA_EV_DEVICE_REMOVAL,
	CMA_EV_MULTICAST_JOIN,
	CMA_EV_MULTICAST_ERROR, /* not used: cma_join reports its errors itself */
	CMA_EV_ADDR_CHANGE,
	CMA_EV_TIMEWAIT_EXIT,
	CMA_EV_ADDRINFO_RESOLVED, /* not used, like its error: RoCE has no service records */
	CMA_EV_ADDRINFO_ERROR,
	CMA_EV_USER, /* this and INTERNAL: of cma_write_event */
	CMA_EV_INTERNAL,
	CMA_NEVENTS
};
/* "ADDR_RESOLVED" .. */
extern const char *const cma_event_name[CMA_NEVENTS];

enum cma_state {
	CMA_IDLE = 0,
	CMA_BOUND,
	CMA_LISTEN,
	CMA_ADDR_QUERY,
	CMA_ADDR_RESOLVED,
	CMA_ROUTE_QUERY,
	CMA_ROUTE_RESOLVED,
	CMA_CONNECT,
	CMA_REMOVED,
	CMA_NSTATES
};
/* "IDLE" .. */
extern const char *const cma_state_name[CMA_NSTATES];

enum cma_family { CMA_NO_ADDR = 0, CMA_IPV4, CMA_IPV6, CMA_IB };
/* An address and port. gid all zero: a wildcard. */
struct cma_addr {
	uint8_t family; /* enum cma_family */
	uint16_t port;  /* host byte order */
	uint16_t space; /* CMA_IB: the port space of its service id; 0: that of the id */
	uint32_t scope; /* of a link-local address: the kernel's number of its interface; 0: none */
	uint8_t gid[16];
};

/* Result of the resolver: resolve sets the address part, route the rest. */
struct cma_path {
	struct cm_addr addr;
	uint8_t mtu;             /* 1 .. 5 */
	uint8_t rate, sl;        /* codes of path records */
	uint8_t packet_lifetime; /* code: 4.096 us << n */
};

struct cma_dev {
	uint64_t guid;
	uint8_t ack_delay; /* code: local CA ACK delay */
};

/* QP types: numbers of enum ibv_qp_type. */
enum cma_qp_type { CMA_QP_RC = 2, CMA_QP_UC = 3, CMA_QP_UD = 4 };

struct cma_event {
	enum cma_event_type type;
	uint64_t uid;         /* of the id; of CONNECT_REQUEST: of the listener */
	uint32_t id;          /* of CONNECT_REQUEST: the new id */
	int32_t status;       /* 0, -errno, reason of a REJ, status of a SIDR_REP */
	bool ud;              /* conn is of a UD service, which path leads to */
	uint64_t arg;         /* of cma_write_event */
	struct cm_param conn; /* of the peer; private_data is data, or NULL for none */
	struct cma_path path; /* if ud */
	uint8_t data[CMA_EVENT_PRIVATE];
};

/*
 * The caller's functions for a struct cma. ctx is that of cma_init. No callback may call a function
 * of this file.
 *
 * send: as cm_ops.send.
 * readable: reports that the event queue of a channel is no longer empty. user: of the channel.
 * bind: finds the device with this local address. 0 and *dev; -EADDRNOTAVAIL; -ENODEV; -EINVAL: a
 *	link-local address without its scope.
 * resolve: finds device, source address and next hop to dst for id. src->gid all zero: any source.
 *	0 and path->addr; -EINPROGRESS: cma_resolved follows; another -errno: the call's result.
 * route: finds MTU, hop limit, flow label etc. of path, whose address part is resolved. Results as
 *	for resolve.
 * label: chooses the flow label of a connection of QP qpn to path, which has that of route or of
 *	cma_set_path. The peer takes it from the REQ. NULL: that of path.
 * cancel: cancels the resolve or route of id; cma_resolved must not follow.
 * dev: gets the attributes of a device; false: it does not exist.
 * mcast: joins or leaves a multicast group on a device, on the wire (IGMP, MLD). 0 or -errno; the
 *	result of leaving is ignored. Called once for each cma_join of a full member.
 * charge: charges a new id or membership to the channel of this user, a request to its listener's
 *	channel. NULL refuses it (-ENOMEM, or a REJ). Otherwise the result is passed to discharge
 *	when the id or membership ends, whichever channel it then belongs to. Both may be NULL.
 * low_port: returns true if the channel of this user may bind an id to port, which is below
 *	CMA_LOW_PORTS: programs trust that such a port belongs to a service of the system. NULL:
 *all.
 */
struct cma_ops {
	void (*send)(void *ctx, const struct cm_addr *addr, const uint8_t *mad);
	void (*readable)(void *ctx, void *user);
	int (*bind)(void *ctx, const struct cma_addr *addr, uint16_t *dev);
	int (*resolve)(void *ctx, uint32_t id, const struct cma_addr *src,
		       const struct cma_addr *dst, uint8_t tos, struct cma_path *path);
	int (*route)(void *ctx, uint32_t id, struct cma_path *path);
	uint32_t (*label)(void *ctx, uint32_t id, uint32_t qpn, const struct cma_path *path);
	void (*cancel)(void *ctx, uint32_t id);
	bool (*dev)(void *ctx, uint16_t dev, struct cma_dev *out);
	int (*mcast)(void *ctx, uint16_t dev, const uint8_t mgid[16], bool join);
	void *(*charge)(void *ctx, void *user);
	void (*discharge)(void *ctx, void *payer);
	bool (*low_port)(void *ctx, void *user, uint16_t port);
};

struct cma_config {
	uint32_t max_channels; /* 1 .. 2^16 */
	uint32_t max_ids;      /* 1 .. 2^18, of all channels, including waiting requests */
	uint32_t max_groups;   /* 0 .. 2^18: memberships of multicast groups */
	struct cm_config cm;   /* max_ids should include ids in TIMEWAIT */
};

struct cma;

/* Returns the bytes that cma_init needs; 0 if the configuration is invalid. */
size_t cma_bytes(const struct cma_config *config);
/*
 * Initialise a struct cma in cma_bytes(config) bytes at mem, aligned to 64. The caller owns mem and
 * frees it after the last use. Memory of ids is not touched before they are used. Never fails for a
 * valid configuration.
 */
struct cma *cma_init(void *mem, const struct cma_config *config, const struct cma_ops *ops,
		     void *ctx);
/* Returns the connection manager, read-only: for cm_counters, cm_next_id, cm_qpn_held. */
const struct cm *cma_cm(const struct cma *r);

/* Handle a packet to QP1, as cm_rx. */
bool cma_rx(struct cma *r, const struct cm_rx_info *info, const uint8_t *mad, uint32_t len,
	    uint64_t now_ns);
/* Prepare for the end of the process, as cm_hurry. Wait for cm_disconnecting of cma_cm. */
void cma_hurry(struct cma *r, uint64_t again_ns, uint64_t now_ns);
/*
 * Do work that is due, for at most CM_TICK_MOST lookups and as many connections. Returns the time
 * of the next call, which is past if more is due, or CM_NEVER.
 */
uint64_t cma_tick(struct cma *r, uint64_t now_ns);
/* Returns the earliest time at which cma_tick has work, or CM_NEVER. */
uint64_t cma_next_ns(const struct cma *r);
/*
 * Pass the result of a resolve or route that returned -EINPROGRESS: status 0 and path, or -errno.
 * Ignored if id does not wait for it.
 */
void cma_resolved(struct cma *r, uint32_t id, int status, const struct cma_path *path,
		  uint64_t now_ns);
/* Report that dev was removed (CM-15): DEVICE_REMOVAL once for each id that is bound to it. */
void cma_device_removed(struct cma *r, uint16_t dev, uint64_t now_ns);
/*
 * Report that dev has lost this address, or that the address has moved (CM-15): ADDR_CHANGE once
 * for each id that uses it.
 */
void cma_address_removed(struct cma *r, uint16_t dev, const uint8_t gid[16]);

/* Create a channel for user. Returns 0 and *channel (never 0), or -ENOMEM. */
int cma_channel_open(struct cma *r, void *user, uint32_t *channel);
/*
 * Destroy the channel and all its ids (CM-12) in slices: at most `most` listeners, events,
 * memberships and ids in one call. Listeners come first, so that a server that starts again at once
 * may listen on the same port. Returns true when nothing is left, or there is no such channel. From
 * the first call on no other call may name the channel; nothing is reported to it, and requests to
 * its listeners are refused.
 */
bool cma_channel_close(struct cma *r, uint32_t channel, uint32_t most, uint64_t now_ns);
/*
 * Take the channel's oldest event. 0; -EAGAIN: none waits; -ENOENT. The event counts as reported.
 * The id of a CONNECT_REQUEST then belongs to this channel.
 */
int cma_event_get(struct cma *r, uint32_t channel, struct cma_event *ev);
/* Returns the number of waiting events of the channel. */
uint32_t cma_events_waiting(const struct cma *r, uint32_t channel);

/*
 * CREATE_ID. space: WIRE_CM_PS_TCP (RC), _UDP (UD), _IB (RC, UC or UD as qp_type says). 0 and *id
 * (never 0, below 2^31: librdmacm keeps it in an int); -EINVAL: another space or type; -ENOENT: no
 * such channel; -ENOMEM.
 */
int cma_create(struct cma *r, uint32_t channel, uint64_t uid, uint16_t space, uint8_t qp_type,
	       uint32_t *id);
/*
 * DESTROY_ID. Drops its waiting events, and the ids of requests among them. *reported: its events
 * that cma_event_get has taken, every CONNECT_REQUEST counted for the listener (CM-12). The peer
 * gets the message that cm_destroy describes.
 *
 * This and all calls below: -ENOENT: no such id; -EINVAL: the id is of another channel, or not in a
 * state that the call requires.
 */
int cma_destroy(struct cma *r, uint32_t channel, uint32_t id, uint32_t *reported, uint64_t now_ns);
/*
 * BIND, BIND_IP. -EAFNOSUPPORT: family; -EACCES: a port that low_port refuses; -EADDRINUSE;
 * -EADDRNOTAVAIL; -ENODEV; -ENOMEM. Port 0: any free port.
 */
int cma_bind(struct cma *r, uint32_t channel, uint32_t id, const struct cma_addr *addr);
/* LISTEN. An id that is not bound is bound to a chosen port of any IPv4 address. -EADDRINUSE. */
int cma_listen(struct cma *r, uint32_t channel, uint32_t id, uint32_t backlog);
/*
 * RESOLVE_ADDR, RESOLVE_IP (CM-11). src NULL or of family CMA_NO_ADDR: any. ADDR_RESOLVED or
 * ADDR_ERROR follows; -ETIMEDOUT after timeout_ms. Or an errno of cma_bind or of the resolver;
 * -ENOMEM: too many events wait.
 */
int cma_resolve_addr(struct cma *r, uint32_t channel, uint32_t id, const struct cma_addr *src,
		     const struct cma_addr *dst, uint32_t timeout_ms, uint64_t now_ns);
/* RESOLVE_ROUTE. ROUTE_RESOLVED or ROUTE_ERROR follows. */
int cma_resolve_route(struct cma *r, uint32_t channel, uint32_t id, uint32_t timeout_ms,
		      uint64_t now_ns);
/*
 * CONNECT: sends a REQ, or a SIDR_REQ in a UD space. CONNECT_RESPONSE (ESTABLISHED for UD),
 * REJECTED or UNREACHABLE follows. -EINVAL also for private data of more than 56 bytes (UD 180; 36
 * more for CMA_IB, CM-09); -EBUSY: another connection has the QPN; -ENODEV; -ENOMEM.
 */
int cma_connect(struct cma *r, uint32_t channel, uint32_t id, const struct cm_param *conn,
		uint64_t now_ns);
/*
 * ACCEPT. conn: answers CONNECT_REQUEST by a REP or SIDR_REP and sets the id's uid; only then does
 * the id get events. conn NULL (valid 0): answers CONNECT_RESPONSE by an RTU. On error the peer is
 * rejected as by cma_reject with reason 0, so that it does not wait in vain, and the id can only be
 * destroyed. -EBUSY: another connection has the QPN. -EINVAL also for private data of more than 196
 * bytes (UD 136).
 */
int cma_accept(struct cma *r, uint32_t channel, uint32_t id, uint64_t uid,
	       const struct cm_param *conn, uint64_t now_ns);
/*
 * REJECT. reason: 0 and 28: rejected by the consumer; 35: vendor option; others: -EINVAL. At most
 * 148 bytes of data.
 */
int cma_reject(struct cma *r, uint32_t channel, uint32_t id, uint8_t reason, const void *data,
	       uint32_t len, uint64_t now_ns);
/* DISCONNECT (CM-06). DISCONNECTED follows, once. */
int cma_disconnect(struct cma *r, uint32_t channel, uint32_t id, uint64_t now_ns);
/* NOTIFY: event IBV_EVENT_COMM_EST (CM-02), others -EINVAL. -EISCONN: the id is ESTABLISHED. */
int cma_notify(struct cma *r, uint32_t channel, uint32_t id, uint32_t event, uint64_t now_ns);
/*
 * WRITE_CM_EVENT: queues CMA_EV_USER or CMA_EV_INTERNAL for id, with this status and arg. -EINVAL
 * also: another type, or a request that was not accepted yet, which has no uid; -ENOMEM:
 * CMA_USER_EVENTS wait.
 */
int cma_write_event(struct cma *r, uint32_t channel, uint32_t id, uint32_t type, int32_t status,
		    uint64_t arg);
/*
 * RESOLVE_IB_SERVICE: -EOPNOTSUPP, as on RoCE; -EINVAL unless id is in BOUND and has a device.
 */
int cma_resolve_service(struct cma *r, uint32_t channel, uint32_t id);
/*
 * MIGRATE_ID: moves id from the channel `from` to `channel`, with its waiting events. *reported:
 * the number of its events that were taken before.
 */
int cma_migrate(struct cma *r, uint32_t channel, uint32_t from, uint32_t id, uint32_t *reported);

/*
 * JOIN_MCAST, JOIN_IP_MCAST (CM-13): for a UD id in BOUND or ADDR_RESOLVED that has a device.
 * send_only: sends no reports and receives nothing. Returns 0 and *group (never 0, distinct from
 * all ids); MULTICAST_JOIN follows, with this uid, id *group, the group's QPN, Q_Key and path.
 * -EAFNOSUPPORT; -EINVAL: not a multicast address; -ENOMEM; an errno of mcast.
 */
int cma_join(struct cma *r, uint32_t channel, uint32_t id, uint64_t uid,
	     const struct cma_addr *addr, bool send_only, uint32_t *group);
/*
 * LEAVE_MCAST. Drops the group's waiting events. *reported: the number of its events that were
 * taken; these also count for its id. -ENOENT: no such group; -EINVAL: of another channel. An id
 * leaves its groups when it ends.
 */
int cma_leave(struct cma *r, uint32_t channel, uint32_t group, uint32_t *reported);

/*
 * SET_OPTION, IB_PATH: replaces cma_resolve_route. Uses this path except its addresses and device,
 * which are those resolved before. ROUTE_RESOLVED follows. -ENOMEM as there.
 */
int cma_set_path(struct cma *r, uint32_t channel, uint32_t id, const struct cma_path *path);
/*
 * SET_OPTION of level RDMA_OPTION_ID. tos: traffic class of later resolutions. reuse: in every
 * state, but it cannot be set while the id listens. afonly: before the id is bound. ack_timeout:
 * code 0 .. 31 of the local ACK timeout for later connects, RC only.
 */
int cma_set_tos(struct cma *r, uint32_t channel, uint32_t id, uint8_t tos);
int cma_set_reuse(struct cma *r, uint32_t channel, uint32_t id, bool reuse);
int cma_set_afonly(struct cma *r, uint32_t channel, uint32_t id, bool afonly);
int cma_set_ack_timeout(struct cma *r, uint32_t channel, uint32_t id, uint8_t code);

/* QUERY, QUERY_ROUTE: the attributes of an id. */
struct cma_info {
	uint32_t id;
	void *user;  /* of its channel; NULL: a request that the listener's program has not taken */
	void *payer; /* of charge */
	uint32_t waiting; /* events */
	enum cma_state state;
	uint16_t space;
	uint8_t qp_type;
	uint16_t dev; /* CM_DEV_ANY: none yet */
	uint32_t cm;  /* the id in cma_cm, or 0 */
	struct cma_addr src, dst;
	bool has_path; /* ROUTE_RESOLVED, CONNECT */
	struct cma_path path;
};
int cma_query(const struct cma *r, uint32_t channel, uint32_t id, struct cma_info *info);
/*
 * For display: gets the next id at or after *pos and moves *pos past it. Returns false if there are
 * no more. Start with *pos = 0. Ids may be created and destroyed between calls.
 */
bool cma_next(const struct cma *r, uint32_t *pos, struct cma_info *info);

/* States for INIT_QP_ATTR: numbers of enum ibv_qp_state. */
enum cma_qp_state { CMA_QPS_INIT = 1, CMA_QPS_RTR = 2, CMA_QPS_RTS = 3 };
/* Valid fields of struct cma_qp_attr: bits of enum ibv_qp_attr_mask. */
enum cma_qp_mask {
	CMA_QPM_STATE = 1 << 0,
	CMA_QPM_ACCESS = 1 << 3,
	CMA_QPM_PKEY_INDEX = 1 << 4,
	CMA_QPM_PORT = 1 << 5,
	CMA_QPM_QKEY = 1 << 6,
	CMA_QPM_AV = 1 << 7,
	CMA_QPM_PATH_MTU = 1 << 8,
	CMA_QPM_TIMEOUT = 1 << 9,
	CMA_QPM_RETRY_CNT = 1 << 10,
	CMA_QPM_RNR_RETRY = 1 << 11,
	CMA_QPM_RQ_PSN = 1 << 12,
	CMA_QPM_MAX_RD_ATOMIC = 1 << 13,
	CMA_QPM_MIN_RNR_TIMER = 1 << 15,
	CMA_QPM_SQ_PSN = 1 << 16,
	CMA_QPM_MAX_DEST_RD_ATOMIC = 1 << 17,
	CMA_QPM_DEST_QPN = 1 << 20,
};
struct cma_qp_attr {
	uint32_t mask;        /* enum cma_qp_mask */
	uint32_t qkey;        /* UD */
	bool remote_write;    /* of ACCESS: false until the peer's QPN is known */
	bool remote_read;     /* and atomics */
	struct cm_qp_attr cm; /* the rest; min_rnr_timer is 0 (655.36 ms) */
};
/*
 * INIT_QP_ATTR. -EINVAL: no device yet; RTR and RTS before the peer's QPN is known; another state.
 * pkey_index and port are the device's first.
 */
int cma_qp_attr_get(const struct cma *r, uint32_t channel, uint32_t id, enum cma_qp_state state,
		    struct cma_qp_attr *attr);

#endif
