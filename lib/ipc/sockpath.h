/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a daemon is found: the default path of its control socket, /run/uroce/uroced.sock
 * (UROCE_DEFAULT_SOCK) or, for a daemon that may not create it, in a folder of its user; and the
 * names of its processes. No DPDK.
 */
#ifndef UROCE_IPC_SOCKPATH_H
#define UROCE_IPC_SOCKPATH_H

/* Names of threads (PR_SET_NAME): a daemon's main thread until the daemon is ready and has its
 * program's name again; the process that starts brokers. */
#define UROCED_NAME          "uroced"
#define UROCED_STARTING_NAME "uroced-starting"
#define UROCED_STARTER_NAME  "uroced-starter"

/*
 * The socket of the calling user's own daemon: $XDG_RUNTIME_DIR/uroce/uroced.sock, or
 * /tmp/uroce-UID/uroced.sock if that variable names no folder that belongs to the user alone. The
 * path is computed once. NULL for root and in set-user-id programs, which use only
 * UROCE_DEFAULT_SOCK. Any thread.
 */
const char *ipc_own_socket(void);

/*
 * Client: ipc_own_socket, if there is one and its folder belongs to this user and is writable by
 * nobody else; else UROCE_DEFAULT_SOCK.
 */
const char *ipc_socket_to_use(void);

/*
 * Daemon: UROCE_DEFAULT_SOCK if this process may create it, else ipc_own_socket. NULL: the folder
 * of the latter belongs to another user or is writable by others, so that its socket could be
 * replaced; ipc_own_socket names it.
 */
const char *ipc_socket_to_make(void);

#endif
