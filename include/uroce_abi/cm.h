/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An rdma_cm channel: it replaces an open file of /dev/infiniband/rdma_cm. librdmacm's commands
 * (rdma/rdma_user_cm.h, ABI 4) go to the daemon unchanged.
 *
 * An observer's connection (hello.h) that requests UROCE_CTRL_CM_OPEN gets two descriptors:
 *
 *   [0] the channel: a SOCK_SEQPACKET socket that the program gets in place of the file. It is
 *       readable as long as the channel has events: the daemon sends one byte, the token, when the
 *       queue of events is no longer empty. Nobody writes to it. When all copies of it are closed
 *       (dup, fork, exec), the daemon destroys the channel and its ids. When the daemon ends, it
 *       hangs up.
 *   [1] commands: a SOCK_SEQPACKET socket, one request and one reply at a time, both below. It
 *       does not keep the channel alive.
 *
 * The connection may be closed afterwards. UROCE_CM_TAKE_TOKEN in a reply means that the queue of
 * events has become empty: the client then receives the token byte from the channel before it sends
 * another command.
 *
 * SET_OPTION: the option's value, optlen bytes, follows the struct and is included in `in`. If the
 * sum exceeds UROCE_CM_MAX_BODY, the client returns EINVAL itself.
 *
 * GET_EVENT never waits: it returns EAGAIN if there is no event. Unless O_NONBLOCK is set, the
 * client waits for the channel to become readable and tries again.
 */
#ifndef UROCE_ABI_CM_H
#define UROCE_ABI_CM_H

#include <stdint.h>
#include "version.h"

#define UROCE_CM_ABI        4    /* RDMA_USER_CM_ABI_VERSION */
#define UROCE_CM_CHANNEL_ID 16   /* bytes of a channel's secret name */
#define UROCE_CM_MAX_BODY   2048 /* bytes of a command or of its response */
#define UROCE_CM_CHANNEL_FD 0    /* descriptors of the reply to UROCE_CTRL_CM_OPEN */
#define UROCE_CM_COMMAND_FD 1

struct uroce_cm_open_req {
	uint8_t spare[16];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_cm_open_req) == 16, "cm_open_req size");

struct uroce_cm_open_rep {
	uint8_t channel[UROCE_CM_CHANNEL_ID]; /* random: a process that knows it may migrate ids
						 from it */
	uint8_t spare[16];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_cm_open_rep) == 32, "cm_open_rep size");

/* A request on the command socket. in bytes follow: the command's struct, as librdmacm made it. */
struct uroce_cm_req {
	uint32_t cookie; /* repeated in the reply */
	uint32_t cmd;    /* RDMA_USER_CM_CMD_* */
	uint32_t in;     /* bytes that follow, 0 .. UROCE_CM_MAX_BODY */
	uint32_t out;    /* space for the response; less than the command needs: ENOSPC */
	uint8_t from[UROCE_CM_CHANNEL_ID]; /* MIGRATE_ID: the other channel, in place of its fd */
	uint8_t spare[16];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_cm_req) == 48, "cm_req size");

/*
 * Commands and a query that headers before rdma-core 60 lack. UROCE_CM_WRITE_EVENT has a struct
 * rdma_ucm_write_cm_event, of which the daemon uses the fields here.
 */
#define UROCE_CM_RESOLVE_IB_SERVICE 23
#define UROCE_CM_WRITE_EVENT        24
#define UROCE_CM_QUERY_IB_SERVICE   3 /* option of QUERY */

struct uroce_cm_ib_service { /* struct rdma_ucm_resolve_ib_service up to its id */
	uint32_t id;
};
UROCE_ABI_ASSERT(sizeof(struct uroce_cm_ib_service) == 4, "cm_ib_service size");

struct uroce_cm_write_event {
	uint32_t id;
	uint32_t reserved;
	uint32_t event; /* RDMA_CM_EVENT_USER (18) or _INTERNAL (19) */
	uint32_t status;
	uint64_t arg;
};
UROCE_ABI_ASSERT(sizeof(struct uroce_cm_write_event) == 24, "cm_write_event size");

enum uroce_cm_rep_flags {
	UROCE_CM_TAKE_TOKEN = 1 << 0,
};

/* Its reply. len bytes follow: the response, for the address in the command's `response`. */
struct uroce_cm_rep {
	uint32_t cookie;
	uint32_t status; /* 0 or a positive errno, for write(2) */
	uint32_t flags;  /* enum uroce_cm_rep_flags */
	uint32_t len;    /* 0 .. min(out, UROCE_CM_MAX_BODY); 0 if status is not 0 */
	uint8_t spare[16];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_cm_rep) == 32, "cm_rep size");

#endif
