/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ids of a process's channels, as far as its commands show them. When the daemon is gone, each
 * of them gets DEVICE_REMOVAL once (CM-15), like the ids of a device that is unplugged. It can
 * still be destroyed: librdmacm waits there for as many events as were reported.
 *
 * A forked child starts without ids: those of its parent get no event in it. Any thread.
 */
#ifndef UROCE_VERBS_CM_IDS_H
#define UROCE_VERBS_CM_IDS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct cm_channel;
struct cm_known;
TAILQ_HEAD(cm_known_list, cm_known);

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
