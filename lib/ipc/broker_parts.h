/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the broker's main thread (broker_main.c) and its other threads (broker_*.c). */
#ifndef UROCE_IPC_BROKER_PARTS_H
#define UROCE_IPC_BROKER_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "ipc/broker.h"

/* What a job does with the client of a connection. */
enum kept_use {
	KEPT_UNUSED,
	KEPT_LOOKING,   /* mrmap_find, which may block */
	KEPT_ANSWERING, /* sends its descriptors to the daemon, which does not block */
};

/* A connection of the daemon. Owned by the main thread; a job may use client. */
struct kept {
	struct kept *next;
	uint64_t id;
	unsigned refs; /* the table and jobs; atomic */
	int sock;
	enum kept_use use; /* by the job that may change client; atomic */
	struct mrmap_client client;
};

struct user;

/* Closes all descriptors above fd. */
void broker_close_above(int fd);
/* Makes the starter start a broker with this end of its channel. Returns 0 or -errno. */
int starter_ask(int starter, const char *arg, int theirs, pid_t *pid);

/*
 * Daemon or broker. Send a message with at most MRMAP_MAX_FDS descriptors, which the caller keeps.
 * flags and result: as for sendmsg.
 */
ssize_t broker_put(int chan, const void *body, size_t len, const int *fds, unsigned nfds,
		   int flags);

/* A task that may block. */
struct job {
	TAILQ_ENTRY(job) link;
	struct user *user;
	void (*run)(struct job *job);
	struct kept *kept; /* a reference, or NULL */
	int fd;            /* to close */
	bool ends_thread;  /* the thread that has run it ends */
	struct {           /* PAUSE */
		TAILQ_ENTRY(job) link;
		uint64_t start_by_ms; /* CLOCK_MONOTONIC */
		bool over;
		struct job *resume; /* to answer when it is over, or NULL */
	} pause;
	/* for FIND: */
	bool taken;
	struct broker_cmd cmd;
	int fds[UROCE_CTRL_MAX_FDS]; /* received with the message */
	unsigned nfds;
	struct mrmap_found found;
	struct mrmap_files files;
};

/* Main thread. None of these functions blocks. */
void jobs_open(int chan);
/* Run job for uid on a thread; run frees it. Exposed for tests. */
void jobs_submit(struct job *job, uint32_t uid, void (*run)(struct job *job));
/* Close fd, a descriptor from uid. */
void jobs_close(uint32_t uid, int fd);
/* Release the table's reference to k. */
void jobs_drop(struct kept *k);
/* Execute the FIND of job, respond, and free it. */
void jobs_find(struct job *job);
/* Returns true if too many jobs of uid are blocked. */
bool jobs_busy(uint32_t uid);

/*
 * Stop the threads of job->kept's client but job->cmd.tid, and respond to job. They continue after
 * pauses_end, or after UROCE_PAUSE_MS. -EBUSY: there is a pause already; the caller keeps job.
 */
int pauses_begin(struct job *job);
/*
 * Ends the pause of connection id, and then responds to resume (or NULL) and frees it. Returns
 * false if there is none; the caller then keeps resume.
 */
bool pauses_end(uint64_t id, struct job *resume);
/* Before the others. */
void pauses_open(void);

/* Serve a copier's area by a separate thread, which takes over both descriptors. */
void copies_start(uint32_t uid, uint64_t id, int mem, int shared);
/* Any thread. Are so many of uid's copy threads blocked on its memory that it gets no more? */
bool copies_refused(uint32_t uid);
/*
 * Respond to job and free it once the abandoned copy in job->cmd.mem is done. Returns false if out
 * of memory; the caller then keeps job.
 */
bool copies_settle(struct job *job);

/* Any thread. Send the daemon a message without descriptors. */
void jobs_tell(const struct broker_msg *m);
/* Any thread. Send the daemon the result of job. */
void job_answer(struct job *job);
/* Any thread. Release a reference to k; the last one closes its descriptors, which may block. */
void kept_put(struct kept *k);
/* Any thread. The message's descriptors are closed by a separate job. */
void job_free(struct job *job);

#endif
