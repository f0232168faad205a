/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Throttles users whose requests take long, such as SHOW of many objects or the end of a large
 * client. The loop takes one message of each connection in turn, so a user with many connections
 * could monopolise the control thread. After a long request the user's connections are not polled
 * for as long as it took: other users wait for one request of each user, not for one of each
 * connection. Connections are those of sessions and of rdma_cm channels. Privileged users are not
 * throttled. Control thread only.
 */
#ifndef CONTROL_THROTTLE_H
#define CONTROL_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>
#include "control/daemon.h"

/* Part of the object whose connection it throttles. */
struct throttle {
	TAILQ_ENTRY(throttle) link; /* of daemon.throttled, if waits */
	struct watch *w;            /* the connection */
	struct quota_user *user;
	/* Called if the client closes the connection while it waits; must end its object. */
	void (*broken)(struct throttle *t);
	bool waits; /* its requests do */
};

/* Returns 0 or -errno. */
int throttle_open(struct daemon *d);
void throttle_close(struct daemon *d);
/*
 * Called when the connection is ready. Returns true if its requests have to wait, because its user
 * is throttled or pauses, or if it has ended meanwhile: the caller does not touch it any more.
 */
bool throttle_waits(struct daemon *d, struct throttle *t);
/* Removes a connection that ends from the throttled ones. */
void throttle_end(struct daemon *d, struct throttle *t);
/*
 * Called before each request, of u. Takes a system call at most every 50 us. From then on until
 * throttle_after or throttle_slice, waits for memory are u's (worker_control_serves).
 */
void throttle_begin(struct daemon *d, const struct quota_user *u);
/*
 * Throttles u if the request since throttle_begin took long. It is charged the CPU time since the
 * last reading of that clock, up to 50 us before it, but at most its real time.
 */
void throttle_after(struct daemon *d, struct quota_user *u);
/*
 * The same after a slice of long work (defer_turn): slices that are short add up. Call
 * throttle_begin before each.
 */
void throttle_slice(struct daemon *d, struct quota_user *u);

#endif
