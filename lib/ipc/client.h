/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client side of the control protocol (include/uroce_abi/ctrl.h): one connection, one request at
 * a time, each answered before the next. Used by the verbs provider, uroce-run and urocectl; no
 * DPDK. The server side is server.h, which shares nothing with this file but the ABI and hello.h.
 *
 * Every function returns 0 or -errno. A socket error ends the connection permanently, because the
 * daemon destroys the client's objects with it. Later calls return -EIO at once.
 */
#ifndef UROCE_IPC_CLIENT_H
#define UROCE_IPC_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ipc/hello.h"
#include "sched/waiting.h"
#include "uroce_abi/ctrl.h"

struct ipc_client {
	int sock;               /* -1 once the connection has ended; atomic */
	uint32_t cookie;        /* of the last request */
	struct ipc_offer offer; /* for HELLO; ipc_client_init sets it to ipc_offer_own */
	uint16_t version;       /* of every message: agreed by HELLO, offer.version_max before */
	uint64_t features;      /* agreed by HELLO, 0 before */
	pthread_mutex_t mutex;  /* held from a request to its reply */
	struct backoff spin;    /* waits for replies; under the mutex */
};

/* One request and the destination of its reply. Unused members are zero. */
struct ipc_call {
	uint16_t op;     /* enum uroce_ctrl_op */
	const void *req; /* body, req_len bytes */
	size_t req_len;
	const int *req_fds; /* attached to the request; the caller keeps them */
	unsigned int req_nfds;
	void *rep; /* body of the reply, exactly rep_len bytes if status is 0 */
	size_t rep_len;
	int *rep_fds; /* space for rep_fds_max descriptors; the caller owns the received ones */
	unsigned int rep_fds_max;
	unsigned int rep_nfds; /* out: number received */
	/*
	 * nspare open descriptors, or -1, which are closed if the reply's do not fit otherwise;
	 * closed ones become -1.
	 */
	int *spare;
	unsigned int nspare;
	/* out: the daemon's reason for a refusal, printable; "": none */
	char why[UROCE_CTRL_MAX_WHY + 1];
};

/*
 * Returns the socket path to use: path if it is neither NULL nor empty, else $UROCE_SOCKET, else
 * the default (sockpath.h).
 */
const char *ipc_client_path(const char *path);

/*
 * Connects to the daemon at ipc_client_path(path). No request is sent. -ENAMETOOLONG if the path is
 * too long for a sockaddr_un, else the errors of socket(2) and connect(2) (-ENOENT, -ECONNREFUSED:
 * no daemon there; -EACCES: this user may not connect).
 */
int ipc_client_connect(struct ipc_client *c, const char *path);

/* Takes over a connected SOCK_SEQPACKET socket (tests use a socketpair). */
void ipc_client_init(struct ipc_client *c, int sock);

/* Ends the connection; the daemon then destroys what this client owns. Idempotent. */
void ipc_client_close(struct ipc_client *c);

/*
 * For the child of a fork: silently closes this process's copy of the socket, even if another
 * thread of the parent was in a call. Every later call returns -EIO.
 */
void ipc_client_abandon(struct ipc_client *c);

/*
 * Sends the request and waits for its reply, without a time limit. Any thread. Returns
 * - 0: success; rep and rep_fds are filled;
 * - the daemon's errno, negated, if it refused; rep_fds is then empty;
 * - -EMFILE: the request was executed, but this process cannot have as many descriptors as the
 *   reply carries; the connection is usable;
 * - -EIO: the connection has ended, now or before (the daemon is gone);
 * - -EPROTO: the message received is not a reply to this request, or has spare bytes that are not
 *   zero (why names the field); the connection has ended.
 */
int ipc_client_call(struct ipc_client *c, struct ipc_call *call);

/*
 * Sends HELLO with c->offer for a device ("" for an observer); sets c->version and c->features. fds
 * needs space for UROCE_HELLO_FDS descriptors; *nfds is the number received. why may be NULL;
 * if the daemon refuses, it gets the daemon's reason, or "". Returns 0, the daemon's errno, negated
 * (-ENODEV; -EPROTONOSUPPORT: no common version, or a required feature is missing), or -EPROTO and
 * -EIO as ipc_client_call.
 */
int ipc_client_hello(struct ipc_client *c, const char *device, struct uroce_hello_rep *rep,
		     int *fds, unsigned int *nfds, char why[UROCE_CTRL_MAX_WHY + 1]);

#endif
