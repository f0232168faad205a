/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the broker's main thread (broker_main.c) and its other threads (broker_*.c). */
#ifndef UROCE_IPC_BROKER_PARTS_H
#define UROCE_IPC_BROKER_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "ipc/broker.h"

/* A connection of the daemon's. The main thread's, but for what a job does with client. */
struct kept {
	struct kept *next;
	uint64_t id;
	unsigned refs; /* the table and jobs; atomic */
	int sock;
	bool looking; /* a job has client; atomic */
	struct mrmap_client client;
};

struct user;

/*
 * Either side. Send a message with at most MRMAP_MAX_FDS descriptors, which stay the caller's.
 * flags: of sendmsg. As sendmsg.
 */
ssize_t broker_put(int chan, const void *body, size_t len, const int *fds, unsigned nfds,
		   int flags);

/* Something that may block. */
struct job {
	TAILQ_ENTRY(job) link;
	struct user *user;
	void (*run)(struct job *job);
	struct kept *kept; /* a reference, or NULL */
	int fd;            /* to close */
	/* FIND, all below */
	bool taken;
	struct broker_cmd cmd;
	int fds[UROCE_CTRL_MAX_FDS]; /* that came with the message */
	unsigned nfds;
	struct mrmap_found found;
	struct mrmap_files files;
};

/* Main thread, none of them blocks. */
void jobs_open(int chan);
/* Let a thread run job, which run frees, for uid. Exposed for tests. */
void jobs_submit(struct job *job, uint32_t uid, void (*run)(struct job *job));
/* Close fd, which came from uid. */
void jobs_close(uint32_t uid, int fd);
/* Let the table's reference to k go. */
void jobs_drop(struct kept *k);
/* Look for what job asks, answer, and free it. */
void jobs_find(struct job *job);
/* Too much of uid's hangs already. */
bool jobs_busy(uint32_t uid);

/* Serve a copier's area, by a thread of its own; both descriptors change hands. */
void copies_start(uint32_t uid, uint64_t id, int mem, int shared);
/* Any thread. So many threads that copied for uid wait for its memory that there are no more. */
bool copies_refused(uint32_t uid);
/*
 * Answer job, and free it, once the copy that is under way in job->cmd.mem, and that no worker
 * waits for, is over. False: no memory, job is the caller's.
 */
bool copies_settle(struct job *job);

/* Any thread. Tell the daemon; a message without descriptors. */
void jobs_tell(const struct broker_msg *m);
/* Any thread. Tell the daemon what was found. */
void job_answer(struct job *job);
/* Any thread. What came with the message is closed by a job of its own. */
void job_free(struct job *job);

#endif
