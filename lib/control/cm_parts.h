/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the connection manager (cm.h). Private to them. */
#ifndef CONTROL_CM_PARTS_H
#define CONTROL_CM_PARTS_H

#include <rdma/rdma_user_cm.h>
#include <uroce_abi/cm.h>
#include "control/cm.h"
#include "control/device.h"
#include "control/throttle.h"

#define UCMA_NO_OWNER ((uid_t)-1) /* owner of neighbours that no user requested */

/* Descriptors of a channel in the daemon: two sockets. */
#define UCMA_CHANNEL_FDS 2

struct ucma_channel {
	LIST_ENTRY(ucma_channel) link;
	struct cm_service *svc;
	struct quota_user *user; /* a reference */
	uid_t uid;               /* of the client, which user may be the owner of */
	uint32_t number;         /* in lib/cm */
	uint32_t id;             /* a number as of sessions: for the broker and for display */
	pid_t pid;               /* of the process that opened it */
	char comm[16];
	struct watch events;      /* the channel's socket: a token, and the hang-up */
	struct watch commands;    /* fd -1: the client has closed its end */
	struct throttle throttle; /* of commands */
	struct defer end;         /* the next slice of its end */
	bool token;               /* sent, and not known to be taken */
	bool late_token;          /* could not be sent yet */
	uint8_t secret[UROCE_CM_CHANNEL_ID];
};

/* A command of a channel, and its response. */
struct ucma_call {
	struct ucma_channel *ch;
	struct cma *cma;
	uint64_t now_ns;
	const struct uroce_cm_req *req;
	const void *body; /* req->in bytes, aligned to 8 */
	void *rep;        /* UROCE_CM_MAX_BODY bytes, zeroed, aligned to 8 */
	uint32_t rep_len; /* of the response, at most req->out */
	uint32_t from;    /* MIGRATE_ID: the other channel in lib/cm; 0: none of this secret */
};

/* cm_abi.c: executes the command. Returns 0, or -errno without a response. */
int ucma_perform(struct ucma_call *c);

/* cm_query.c: commands whose response is more than a number. The sizes are checked. */
int ucma_query(struct ucma_call *c);
int ucma_query_route(struct ucma_call *c);
int ucma_init_qp_attr(struct ucma_call *c);
int ucma_get_event(struct ucma_call *c);

/*
 * cm_addr.c. Reads a struct sockaddr_in, sockaddr_in6 or sockaddr_ib of len bytes. Returns 0;
 * -EINVAL: len is not that of the family, or another family; -EPROTONOSUPPORT: an AF_IB service id
 * of no port space.
 */
int ucma_addr_get(struct cma_addr *to, const void *sockaddr, uint32_t len);
/* Returns true for fe80::/10 and, if multicast, for ff01::/16 and ff02::/16 (any flags). */
bool ucma_gid_needs_scope(const uint8_t gid[16]);
/* Returns true for 127.0.0.0/8 and ::1. */
bool ucma_gid_is_loopback(const uint8_t gid[16]);
/*
 * Converts local addresses as the kernel's rdma_cm does: binding to a loopback address binds to a
 * wildcard, and a wildcard as destination means this host's loopback address.
 */
void ucma_addr_local(struct cma_addr *a);
void ucma_addr_remote(struct cma_addr *a);
/* Returns the length of a socket address of this family (AF_INET ..), or 0. */
uint32_t ucma_addr_len(uint16_t family);
/* Writes an address as a sockaddr of its family. Returns its length; 0: no address. */
uint32_t ucma_addr_put(const struct cma_addr *from, uint16_t space, void *sockaddr);
/* Writes a GID as an AF_IB address with the service id of port. Returns its length. */
uint32_t ucma_gid_put(const uint8_t gid[16], uint16_t space, uint16_t port, void *sockaddr);

/* cm_input.c: sets the timer to the next deadline of lib/cm. Called after every use of lib/cm. */
void ucma_arm(struct cm_service *svc);
/* Start and stop the sources of inputs: the timer, and the consumer of QP1. */
int ucma_inputs_open(struct cm_service *svc);
void ucma_inputs_close(struct cm_service *svc);

/* cm_channel.c: callbacks of lib/cm, and the end of every channel. */
void ucma_readable(void *ctx, void *user);
void *ucma_charge(void *ctx, void *user);
void ucma_discharge(void *ctx, void *payer);
bool ucma_low_port(void *ctx, void *user, uint16_t port);
void ucma_channels_close(struct cm_service *svc);

/* cm_resolve.c: callbacks of lib/cm. */
int ucma_bind(void *ctx, const struct cma_addr *addr, uint16_t *dev);
int ucma_resolve(void *ctx, uint32_t id, const struct cma_addr *src, const struct cma_addr *dst,
		 uint8_t tos, struct cma_path *path);
int ucma_route(void *ctx, uint32_t id, struct cma_path *path);
uint32_t ucma_label(void *ctx, uint32_t id, uint32_t qpn, const struct cma_path *path);
void ucma_cancel(void *ctx, uint32_t id);
/* Takes the lookups that waited for this neighbour into svc->resolved. */
void ucma_lookups_resolved(struct cm_service *svc, struct device *dev, const uint8_t ip[16]);
/* Reports the next of svc->resolved to lib/cm. Returns true if more are left. */
bool ucma_lookups_report(struct cm_service *svc, uint64_t now_ns);

/*
 * cm_route.c. Looks up the host's source address for dst and the path's MTU (bytes of an IP packet)
 * in the host's routing table. src: the source address to use; all zero: any. scope: number of the
 * interface of link-local addresses; 0: none, and such an address is -EINVAL. Sends nothing.
 * Returns 0; -ENETUNREACH or another -errno of bind(2) or connect(2).
 */
int ucma_host_route(const uint8_t src[16], const uint8_t dst[16], uint32_t scope, uint8_t tos,
		    uint8_t found[16], uint32_t *mtu);
/*
 * Returns the kernel's number of the interface under dev, which is the scope of its link-local
 * addresses; 0: the device has its own addresses, or the interface is gone.
 */
uint32_t ucma_scope_of(const struct device *dev);

/* cm_group.c: returns a keyed hash of an address. */
uint64_t ucma_hash(const struct cm_service *svc, const uint8_t gid[16]);
/* Callback of lib/cm, as cma_ops.mcast. */
int ucma_change_group(void *ctx, uint16_t port, const uint8_t gid[16], bool joins);
/* Sends the reports that are due; the next are due at svc->groups_next_ns. */
void ucma_groups_tick(struct cm_service *svc, uint64_t now_ns);
/* Forgets the groups of a removed device, without reports; NULL: of all devices. */
void ucma_groups_forget(struct cm_service *svc, const struct device *dev);
/* Schedules reports as ucma_group_queried describes. */
void ucma_groups_query(struct cm_service *svc, struct device *dev, const struct net_query *q,
		       uint64_t now_ns);

/* cm_send.c: callback of lib/cm. A MAD whose next hop is not known is kept for a while. */
void ucma_send(void *ctx, const struct cm_addr *addr, const uint8_t *mad);
/*
 * When the daemon ends: waits until at most this many frames are queued for the worker, but not
 * beyond svc->drain_until_ns.
 */
void ucma_drain(const struct cm_service *svc, uint32_t most);
/* Sends the MADs that were kept for neighbours of dev, once their MAC is known. */
void ucma_send_held(struct cm_service *svc, struct device *dev, uint64_t now_ns);

#endif
