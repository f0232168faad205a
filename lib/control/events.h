/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delivers events to clients. Workers report through their event ring (worker_events.c); this
 * module sends messages on a client's sockets: 8 bytes (user_handle of the CQ) on a completion
 * channel, 16 bytes (u64 user_handle, u32 event, u32 reason) on the asynchronous descriptor. A
 * client that does not read never blocks the daemon: messages that do not fit its socket wait here,
 * bounded. Control thread only.
 */
#ifndef CONTROL_EVENTS_H
#define CONTROL_EVENTS_H

#include <stdint.h>
#include <sys/queue.h>
#include "control/daemon.h"

#define EVENTS_MAX_CQE   (1u << 18) /* entries of a CQ */
#define EVENTS_MAX_ASYNC 256        /* waiting asynchronous events per client */

enum events_port_type { /* values of enum ibv_event_type */
			EVENTS_PORT_ACTIVE = 9,
			EVENTS_PORT_ERR = 10,
			EVENTS_PKEY_CHANGE = 12,
			EVENTS_GID_CHANGE = 18,
};

/* What a client reads from its asynchronous descriptor. */
struct events_async_msg {
	uint64_t user_handle; /* or the port number */
	uint32_t event;       /* enum ibv_event_type */
	uint32_t reason;      /* enum uroce_error; libibverbs ignores it */
};
_Static_assert(sizeof(struct events_async_msg) == 16, "message size");

/* The daemon's end of a client's asynchronous socket, with the messages that did not fit. */
struct events_async {
	struct daemon *d;
	struct watch w; /* fd -1: the client has closed its end */
	struct events_async_msg wait[EVENTS_MAX_ASYNC];
	uint32_t head, n;
	uint64_t lost; /* events dropped because wait was full */
};

/* Creates the socket pair. The caller sends and closes *client_fd. Returns 0 or -errno. */
int events_async_open(struct events_async *a, struct daemon *d, int *client_fd);
void events_async_close(struct events_async *a);
/* Sends an event. reason: enum uroce_error, why the object failed; 0: it did not. */
void events_async_send(struct events_async *a, uint64_t user_handle, uint32_t event,
		       uint32_t reason);

struct obj_cq;
TAILQ_HEAD(events_cqs, obj_cq);

/* The daemon's end of a completion channel. A CQ waits at most once: its client must rearm it. */
struct events_channel {
	struct daemon *d;
	struct watch w;
	struct events_cqs wait;
	/* Called when the client has closed its end. May free the channel. */
	void (*closed)(struct events_channel *ch);
};
int events_channel_open(struct events_channel *ch, struct daemon *d, int *client_fd);
void events_channel_close(struct events_channel *ch);
void events_channel_send(struct events_channel *ch, struct obj_cq *cq);
/* Removes cq, which is about to be freed, from the channel's list. */
void events_channel_forget(struct events_channel *ch, struct obj_cq *cq);

/*
 * Reports a change of dev's port to every client (EVT-11 .. EVT-13). IBV_EVENT_LID_CHANGE,
 * SM_CHANGE and CLIENT_REREGISTER are never sent: they come from a subnet manager, and RoCE links
 * have neither one nor LIDs.
 */
void events_port(struct device *dev, enum events_port_type event);

#endif
