/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --daemon: the process that was started returns when the daemon is ready, or has failed, and has
 * printed what the daemon printed until then. Later output goes to SOCKET.log, unless standard
 * error is the journal.
 */
#ifndef UROCED_DETACH_H
#define UROCED_DETACH_H

/*
 * Call before threads start. In the daemon returns 0, or -errno. The first process does not return:
 * it exits with the daemon's status, or 0 when the daemon is ready.
 */
int detach_start(void);
/* The daemon is ready: ends the first process. socket: the control socket's path. */
void detach_ready(const char *socket);
/* Before an execv that starts the daemon again: the first process goes on waiting. */
void detach_again(void);

#endif
