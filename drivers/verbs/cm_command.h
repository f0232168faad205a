/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by cm_channel.c, the table, and cm_command.c, the commands. */
#ifndef UROCE_VERBS_CM_COMMAND_H
#define UROCE_VERBS_CM_COMMAND_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "sched/waiting.h"
#include "uroce_abi/cm.h"
#include <stddef.h>
#include <sys/queue.h>

struct cm_known;
TAILQ_HEAD(cm_known_list, cm_known);

/* State shared by the processes that inherited a channel by fork, in a separate page. */
struct cm_shared {
	pthread_mutex_t lock; /* held from a command to its reply; robust */
	uint32_t cookie;      /* of the last command */
	bool broken;          /* every command fails: the order of replies is lost */
	struct backoff spin;  /* waits for replies */
};

/* Creates the shared state. Returns NULL if out of memory. */
struct cm_shared *cm_shared_map(void);
/* Unmaps it from this process. NULL is ignored. */
void cm_shared_unmap(struct cm_shared *shared);

/* A channel. All but next, users, ids and turn are constant. */
struct cm_channel {
	struct cm_channel *next;
	dev_t dev; /* of the channel's socket */
	ino_t ino;
	int fd;                   /* the channel's descriptor that the program got */
	int command;              /* the command socket, this process's copy */
	struct cm_known_list ids; /* cm_ids.c */
	unsigned int users;       /* threads between get and put; under the table's lock */
	uint8_t secret[UROCE_CM_CHANNEL_ID];
	struct cm_shared *shared;
	sem_t turn; /* one thread of this process waits in the socket, the others here */
};

/* Returns the channel of fd, which stays valid until it is put; NULL: none. Preserves errno. */
struct cm_channel *cm_channel_get(int fd);
void cm_channel_put(struct cm_channel *c);

/*
 * The ids of a process's channels, as far as its commands show them. When the daemon is gone, each
 * of them gets DEVICE_REMOVAL once (CM-15), like the ids of a device that is unplugged. It can
 * still be destroyed: librdmacm waits there for as many events as were reported.
 *
 * A forked child starts without ids: those of its parent get no event in it. Any thread.
 */

/*
 * The daemon has performed command cmd (RDMA_USER_CM_CMD_*) of ch: body, of in bytes, is its
 * struct, reply the response, of len bytes. from: the secret of the channel that MIGRATE_ID names.
 */
void cm_ids_note(struct cm_channel *ch, const uint8_t *from, uint32_t cmd, const void *body,
		 size_t in, const void *reply, size_t len);

/*
 * Executes cmd without the daemon, which has ended: GET_EVENT, as long as an id of ch lacks its
 * event; DESTROY_ID and LEAVE_MCAST of known ids. Returns 0 with *len bytes in reply, which has
 * space for at least 512; EIO for all other commands.
 */
int cm_ids_lost(struct cm_channel *ch, uint32_t cmd, const void *body, size_t in, void *reply,
		size_t *len);

/* Forgets all ids of ch, which is being closed. */
void cm_ids_forget(struct cm_channel *ch);

/* In a forked child: forgets all ids. The caller initialises the lists of the channels again. */
void cm_ids_fork_child(void);

#endif
