/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues of messages to systemd: journal entries, and reports to the service manager (sd_notify).
 * libsystemd blocks while the receiver's socket is full, so a separate thread for each receiver
 * calls it, in order. At most OUTBOX_WAITING messages wait for a receiver; further ones are dropped
 * and counted.
 */
#ifndef UROCED_OUTBOX_H
#define UROCED_OUTBOX_H

#define OUTBOX_WAITING 1024
#define OUTBOX_FIELDS  20

enum outbox_to {
	OUTBOX_JOURNAL, /* up to OUTBOX_FIELDS fields, "NAME=value" */
	OUTBOX_MANAGER, /* one string in the format of sd_notify(3) */
	OUTBOX_NUM
};

/*
 * Starts the thread of a receiver. Call once, before other threads use it. Returns 0 or an errno,
 * ELIBACC if the machine has no libsystemd. Without the thread, messages are queued but never sent.
 */
int outbox_open(enum outbox_to to);

/*
 * A function of libsystemd, which is loaded only under systemd; NULL if the machine does not have
 * it. Any thread.
 */
void *outbox_libsystemd(const char *name);

/* Waits at most a second until queued messages are sent. Messages added afterwards are lost. */
void outbox_close(void);

/* Any thread; never waits. Copies the n strings of a message. */
void outbox_add(enum outbox_to to, const char *const *text, unsigned n);

#endif
