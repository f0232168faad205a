/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's and the broker's own restrictions, which need no privilege and last: seccomp filters
 * that refuse the system calls that nothing needs after the start, and for the daemon Landlock
 * rules. A refused call fails with EPERM; it is counted, and logged by the control
 * thread. Nothing here is on the data path: the kernel looks up allowed calls in a bitmap.
 */
#ifndef UROCED_SANDBOX_H
#define UROCED_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include "options.h"

struct daemon;

/*
 * Restricts all threads of the daemon, and those that they start later. Call when everything is
 * open. families: socket families that may still be used, a bit each; all: of drivers whose needs
 * are not known. A kernel without seccomp or Landlock is logged and no failure. With --sandbox=off
 * does nothing. Returns 0 or -errno.
 */
int sandbox_start(struct daemon *d, const struct options *o, uint64_t families);
/* Call before the event loop closes. */
void sandbox_stop(struct daemon *d);
/* Logs a call that the broker's filter has refused. */
void sandbox_broker_refused(unsigned call);
/* Number of refused calls of daemon and broker. */
uint64_t sandbox_refused(void);
/* Returns the mode in force, as --sandbox names it; "off" also if the kernel has no seccomp. */
const char *sandbox_mode(void);

/* Returns the kernel's version of Landlock if its rules are in force, or 0. */
int sandbox_landlock(void);

/* The argument that a broker gets for o. */
const char *sandbox_broker_arg(const struct options *o);
/* Broker. Restricts the calling process. chan: the channel to the daemon. arg: from the daemon. */
void sandbox_broker(int chan, const char *arg);

/*
 * Runs fn once in every thread of this process, also the calling one, at any point of the thread's
 * code: fn may use only what a signal handler may. Threads must not block SIGSYS. One caller at a
 * time. Returns false if a thread has not run it within a second.
 */
bool sandbox_every_thread(void (*fn)(void *arg), void *arg);

/*
 * landlock.c: the files that the daemon may open, make and remove after its start: rules of the
 * kernel that need no privilege and last. Open descriptors, received ones included, are not
 * affected. A refused call fails with EACCES. TCP (version 4) is not restricted.
 */

/*
 * Makes the rules from what d has open. unknown: o has drivers whose needs are not known. Returns a
 * descriptor, or -errno: -ENOSYS or -EOPNOTSUPP if the kernel has no Landlock. *abi: the kernel's
 * version of Landlock, or less than 1.
 */
int landlock_ruleset(const struct daemon *d, const struct options *o, bool unknown, int *abi);
/* Any thread, also in a signal handler: restricts it. Needs no_new_privs. False: errno. */
bool landlock_restrict(int ruleset);

#endif
