/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Daemon side of the control protocol (include/uroce_abi/ctrl.h): the listening socket, receiving
 * one request with its descriptors, checking its form, sending the reply. What a request means is
 * not known here. Everything that arrives is hostile. Control thread only. Includes: uroce_abi
 * only.
 */
#ifndef UROCE_IPC_SERVER_H
#define UROCE_IPC_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>
#include "uroce_abi/ctrl.h"

/* How far a connection has come; an operation needs at least its own min_state. */
enum ipc_state {
	IPC_STATE_NEW = 0,  /* no HELLO yet */
	IPC_STATE_OBSERVER, /* HELLO without a device */
	IPC_STATE_CONTEXT,  /* HELLO with a device */
};

/* The form of an operation. */
struct ipc_op {
	const char *name;  /* NULL: no such operation */
	uint16_t req_len;  /* bytes of the request's body, exactly */
	uint16_t rep_len;  /* bytes of the body of a reply with status 0 */
	uint8_t min_state; /* enum ipc_state */
	uint8_t max_fds;   /* descriptors the request may carry */
};

/* The row of an operation, or NULL when op is unknown. */
const struct ipc_op *ipc_op_get(uint16_t op);

struct ipc_server {
	int fd;
	struct sockaddr_un addr;
	dev_t dev; /* identity of the socket file, so that only our own is removed */
	ino_t ino;
	bool made_dir;
};

#define IPC_GROUP_KEEP ((gid_t)-1)

/*
 * Listen at path (absolute or relative, shorter than sun_path). A missing last directory of the
 * path is made, closed to others unless mode opens the socket to them. A socket file nobody listens
 * on is replaced; one in use gets -EADDRINUSE, a file of another kind -EEXIST. mode: permissions of
 * the socket, 0 .. 0777; group: its owner group, or IPC_GROUP_KEEP. 0 or -errno.
 */
int ipc_server_listen(struct ipc_server *s, const char *path, mode_t mode, gid_t group);

/* Stop listening; removes the socket file (if it is still ours) and the directory made for it. */
void ipc_server_close(struct ipc_server *s);

/* Who is at the other end, as the kernel says. */
struct ipc_peer {
	int sock;  /* non-blocking; the receiver's to close */
	int pidfd; /* -1 where the process is gone or not visible */
	pid_t pid; /* in our pid namespace; 0 where it is not visible */
	uid_t uid;
	gid_t gid;
};

/* Accept one connection. 0; -EAGAIN when none waits; else -errno. */
int ipc_server_accept(struct ipc_server *s, struct ipc_peer *peer);

/* One received request. */
struct ipc_msg {
	struct uroce_ctrl_hdr hdr;
	uint8_t body[UROCE_CTRL_MAX_MSG - sizeof(struct uroce_ctrl_hdr)]
		__attribute__((aligned(8)));
	int fds[UROCE_CTRL_MAX_FDS];
	unsigned nfds;
};

/*
 * Receive one request from a non-blocking socket, or from one with something to read. Descriptors
 * are not received, for they would have to be closed here, which can block for ever: 2: a message
 * that carries some, in m but still in the socket. 1: a message without; 0: the peer has closed;
 * -EAGAIN: nothing there; -EPROTO: shorter or longer than any message, or than it says; other
 * -errno of recvmsg. After an error the socket may hold descriptors: it is not for the caller to
 * be the last to close it, unless ipc_msg_end says so.
 */
int ipc_msg_receive(int sock, struct ipc_msg *m);

/*
 * Receive one request with its descriptors, from a peer that is trusted not to give any whose close
 * blocks. On 1 the descriptors in m are the caller's (ipc_msg_close_fds). 1, 0 and errors as above,
 * -EPROTO also for more descriptors than allowed. Descriptors of a refused message are closed.
 */
int ipc_msg_receive_fds(int sock, struct ipc_msg *m);
void ipc_msg_close_fds(struct ipc_msg *m);

/*
 * End a connection: the peer sees it at once and can send nothing more. True: nothing is queued in
 * sock, so that closing it does not block; false: it has messages that carry descriptors.
 */
bool ipc_msg_end(int sock);

/*
 * Check the form of m against the table for a connection in state st, and close descriptors that
 * the header does not announce. 0: well formed and allowed; -EPROTO: the connection must end
 * (magic, version, length, announced descriptors missing, anything before HELLO); a positive errno:
 * answer that and go on (EOPNOTSUPP unknown operation, EPERM not for this kind of connection,
 * EINVAL HELLO again, or descriptors where the operation takes none).
 */
int ipc_msg_check(struct ipc_msg *m, enum ipc_state st);

/*
 * Send the reply to the request whose header is req: status 0 with the body, or a positive errno
 * and as the body a sentence that says why, of 0 to UROCE_CTRL_MAX_WHY bytes. Descriptors stay the
 * caller's. Never blocks: 0 or -errno, -EAGAIN when the peer does not read its replies; after an
 * error the connection must end.
 */
int ipc_reply_send(int sock, const struct uroce_ctrl_hdr *req, uint32_t status, const void *body,
		   uint32_t len, const int *fds, unsigned nfds);

#endif
