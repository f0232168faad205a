/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake daemon's side of rdma_cm channels: a thread for each serves its commands. CREATE_ID
 * returns the low half of its uid, GET_EVENT the oldest event, MIGRATE_ID the number of the channel
 * that it names, every other command nothing.
 */
#ifndef TEST_UNIT_VERBS_FAKE_CM_H
#define TEST_UNIT_VERBS_FAKE_CM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "uroce_abi/cm.h"

#define FAKE_CMS 16

/* How the next replies are wrong. */
enum fake_cm_wrong {
	FAKE_CM_RIGHT,
	FAKE_CM_SHORT,            /* not even a whole header */
	FAKE_CM_LESS,             /* fewer bytes than its len */
	FAKE_CM_TOO_LONG,         /* more than the command has room for */
	FAKE_CM_COOKIE,           /* of another command */
	FAKE_CM_BYTES_OF_REFUSAL, /* a refusal with a response */
	FAKE_CM_SILENT,           /* none */
};

struct fake_cm {
	int channel, command; /* the daemon's ends; -1: closed */
	pthread_t thread;
	bool started;
	pthread_mutex_t mutex;  /* of what follows */
	uint32_t events, first; /* waiting; uid of the oldest one */
	uint32_t event;         /* their type, enum rdma_cm_event_type */
	uint32_t new_ids;       /* their ids are greater than their uids by this */
	uint32_t refuse;        /* what every command gets */
	uint32_t commands;      /* so far */
	bool ended;             /* all copies of the client's descriptor were closed */
	enum fake_cm_wrong wrong;
	struct uroce_cm_req req; /* the last one */
	uint8_t body[UROCE_CM_MAX_BODY];
};

/* A new channel, the client's ends in fds. */
void fake_cm_open(struct fake_cm *cm, uint8_t number, struct uroce_cm_open_rep *rep, int fds[2]);
/* n more events wait; events have the uids, and the ids, 1, 2 .. */
void fake_cm_events(struct fake_cm *cm, uint32_t n);
/* The daemon dies: closes both ends. */
void fake_cm_die(struct fake_cm *cm);
/* Has the client closed all copies? Waits up to 30 seconds for it. */
bool fake_cm_ended(struct fake_cm *cm);

#endif
