/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that take long, such as SHOW of many objects or the end of a large client. The loop
 * takes one message of each connection in turn, so a user with many connections would have the
 * control thread to itself. After such a request the user's connections are not listened to for as
 * long as it took: others wait for one request of each user, not for one of each connection. Root
 * does not rest. Control thread only.
 */
#ifndef CONTROL_REST_H
#define CONTROL_REST_H

#include <stdbool.h>
#include <stdint.h>
#include "control/daemon.h"

/*
 * broken is called for a session that has rested and cannot be listened to again: its connection
 * is to be ended. 0 or -errno.
 */
int rest_open(struct daemon *d, void (*broken)(struct session *s));
void rest_close(struct daemon *d);
/* The session's user has to wait: the connection is not listened to until then. */
bool session_rests(struct session *s);
/* The session ends: it rests no more. */
void session_rest_end(struct session *s);
/* A request of u is done, before which rest_clock_ns said this. */
void rest_after(struct quota_user *u, uint64_t began_ns);
/* Nanoseconds of the processor that this thread has had. */
uint64_t rest_clock_ns(void);

#endif
