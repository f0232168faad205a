/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Daemon side of the control protocol (include/uroce_abi/ctrl.h): the listening socket, receiving
 * one request with its descriptors, checking its form, sending the reply. It is independent of the
 * meaning of requests. All input is hostile. Control thread only. Includes: uroce_abi only.
 */
#ifndef UROCE_IPC_SERVER_H
#define UROCE_IPC_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>
#include "ipc/ops.h"
#include "uroce_abi/ctrl.h"

struct ipc_server {
	int fd;
	struct sockaddr_un addr;
	dev_t dev; /* identity of the socket file, so that only our own is removed */
	ino_t ino;
	bool made_dir;
	bool confines; /* ipc_server_confine_root */
};

#define IPC_GROUP_KEEP ((gid_t)-1)

/*
 * Listen at path (absolute or relative, shorter than sun_path). If the last directory of the path
 * is missing it is created, accessible to others only if mode lets them use the socket. A socket
 * file without a listener is replaced; one in use gives -EADDRINUSE, another kind of file -EEXIST.
 * mode: permissions of the socket, 0 .. 0777; group: its group, or IPC_GROUP_KEEP. Returns 0 or
 * -errno.
 */
int ipc_server_listen(struct ipc_server *s, const char *path, mode_t mode, gid_t group);

/*
 * Use fd, a socket that listens at path already and whose file belongs to another process: close
 * leaves the file. The server takes fd. path: shorter than sun_path.
 */
void ipc_server_use(struct ipc_server *s, int fd, const char *path);

/* Stop listening. Removes the socket file, if it is still ours, and the directory made for it. */
void ipc_server_close(struct ipc_server *s);

/*
 * From now on, a process of root without CAP_NET_ADMIN in this user namespace counts as the user
 * UROCE_UID_CONFINED, without root's rights: containers run as root unless told otherwise.
 */
void ipc_server_confine_root(struct ipc_server *s);

/* The peer of a connection, as reported by the kernel. */
struct ipc_peer {
	int sock;  /* non-blocking; closed by the caller */
	int pidfd; /* -1 if the process is gone or not visible */
	pid_t pid; /* in our pid namespace; 0 if not visible */
	uid_t uid; /* or UROCE_UID_CONFINED */
	gid_t gid;
};

/*
 * Reads the control group of a process (cgroups(7)) to text, of size bytes: the path of version 2,
 * or, where version 1 is used, its lines. "": unknown.
 */
void ipc_peer_cgroup(pid_t pid, char *text, size_t size);

/* Accept one connection. Returns 0, -EAGAIN if none waits, or -errno. */
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
 * Receive one request from a socket that is non-blocking or readable. Does not receive descriptors,
 * because they would have to be closed here, which can block forever. Returns
 * - 1: a message without descriptors;
 * - 2: a message with descriptors, copied to m but still queued in the socket;
 * - 0: the peer has closed;
 * - -EAGAIN: no message;
 * - -EPROTO: the length is invalid or not as announced;
 * - another -errno of recvmsg.
 * After an error the socket may hold descriptors: the caller's close must not be the last unless
 * ipc_msg_end returns true.
 */
int ipc_msg_receive(int sock, struct ipc_msg *m);

/*
 * Receive one request with its descriptors, from a peer that is trusted to send none whose close
 * blocks. On 1 the caller owns the descriptors in m (ipc_msg_close_fds). Returns 1, 0 and errors as
 * above; -EPROTO also for too many descriptors. Descriptors of a refused message are closed.
 */
int ipc_msg_receive_fds(int sock, struct ipc_msg *m);
void ipc_msg_close_fds(struct ipc_msg *m);

/*
 * Shut a connection down: the peer notices at once and can send nothing more. Returns true if
 * nothing is queued in sock, so that closing it does not block; false if messages with descriptors
 * are queued.
 */
bool ipc_msg_end(int sock);

/*
 * Check the form of m against the table for a connection in state st that has agreed on version
 * (any value before HELLO), and close descriptors that the header does not announce. Returns
 * - 0: well formed and allowed;
 * - -EPROTO: the connection must end (magic, version, length, missing descriptors, anything before
 *   HELLO);
 * - a positive errno to reply with: EOPNOTSUPP unknown operation, EPERM not allowed for this kind
 *   of connection, EPROTONOSUPPORT a HELLO from before version 7, EINVAL a second HELLO,
 *   descriptors for an operation without any, or spare bytes that are not zero.
 * The body must be in m, also that of a message that is still in the socket (ipc_msg_receive).
 */
int ipc_msg_check(struct ipc_msg *m, enum ipc_state st, uint16_t version);

/* Writes the reason why ipc_msg_check refused m with the positive errno rc, or "", to why. */
void ipc_msg_why(const struct ipc_msg *m, int rc, char why[UROCE_CTRL_MAX_WHY]);

/*
 * Send the reply to the request with header req: status 0 with its body, or a positive errno with a
 * sentence that gives the reason, 0 to UROCE_CTRL_MAX_WHY bytes. The caller keeps the descriptors.
 * Never blocks. Returns 0 or -errno (-EAGAIN: the peer does not read its replies); after an error
 * the connection must end.
 */
int ipc_reply_send(int sock, const struct uroce_ctrl_hdr *req, uint32_t status, const void *body,
		   uint32_t len, const int *fds, unsigned nfds);

#endif
