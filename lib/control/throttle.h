/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Throttles users whose requests take long, such as SHOW of many objects or the end of a large
 * client. The loop takes one message of each connection in turn, so a user with many connections
 * could monopolise the control thread. After a long request the user's connections are not polled
 * for as long as it took: other users wait for one request of each user, not for one of each
 * connection. Privileged users are not throttled. Control thread only.
 */
#ifndef CONTROL_THROTTLE_H
#define CONTROL_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>
#include "control/daemon.h"

/*
 * broken is called for a throttled session that cannot be watched again and must be ended. Returns
 * 0 or -errno.
 */
int throttle_open(struct daemon *d, void (*broken)(struct session *s));
void throttle_close(struct daemon *d);
/* Returns true if the session's user is throttled; the connection is then not polled. */
bool session_throttled(struct session *s);
/* Removes a session that ends from the throttled ones. */
void session_throttle_end(struct session *s);
/* Throttles u after a long request. began_ns: throttle_clock_ns before it. */
void throttle_after(struct quota_user *u, uint64_t began_ns);
/* Returns the CPU time of this thread in nanoseconds. */
uint64_t throttle_clock_ns(void);

#endif
