/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of the RC connections of one side, run on their worker: it posts groups of messages of
 * which the last is signaled, and takes completions. Used by the modes "wire" and "scale".
 */
#ifndef UROCE_BENCH_RC_CLIENT_H
#define UROCE_BENCH_RC_CLIENT_H

#include "bench.h"
#include "test/kit/rc_connect.h"
#include "worker/worker.h"

#define RC_CLIENT_GROUP 16u /* messages posted together; or a quarter of the depth */

struct rc_client {
	/* set by the owner before the first call */
	const struct bench_options *o; /* op, size, qps, depth */
	struct rc_side *s;
	struct worker *w;
	unsigned side;          /* 0: requests, 1: responds */
	uint32_t slots, stride; /* places in the memory of a side, and bytes of each */
	/* by worker: the doorbell rings for QPs that have moved there; NULL: they do not move */
	struct uroce_db_ring *const *db;

	uint64_t posted, done; /* messages of side 0 */
	uint32_t failed;       /* status of a failed completion; 0: none */
};

/* Number of messages that are posted together. */
uint32_t rc_client_group(const struct bench_options *o);
/*
 * Opens connection i, in RESET, on device dev. The connections of a side use the places of its
 * memory in turn. Returns false without memory.
 */
bool rc_client_open(struct rc_client *c, uint32_t i, uint16_t dev);
/* Side 0. Fills in the constant fields of all send WQEs of connection i. rkey: of the other side.
 */
void rc_client_prepare(const struct rc_client *c, uint32_t i, uint32_t rkey);
/* Side 1. Posts receives of connection i until its receive queue is full. */
void rc_client_post_recvs(struct rc_client *c, uint32_t i);
/* Side 0, nothing in flight. Posts depth messages on every connection, until `until` are posted. */
void rc_client_fill(struct rc_client *c, uint64_t until);
/*
 * Takes completions. Side 0 posts the next messages of their connections while fewer than `until`
 * are posted; side 1 posts receives. Returns false if a completion has failed (c->failed).
 */
bool rc_client_reap(struct rc_client *c, uint64_t until);
/* Offset of message n (from 0) of connection i in the memory of either side. */
uint64_t rc_client_offset(const struct rc_client *c, uint32_t i, uint64_t n);
/* Side 0. The smallest number of completed messages of a connection. */
uint64_t rc_client_least(const struct rc_client *c);

#endif
