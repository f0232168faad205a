/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two engines in one thread with RC connections between them: node 0 requests, node 1 responds.
 * The pair plays both clients (rings in plain memory, by the ABI). The caller moves the frames from
 * one engine to the other, and runs engines and timers by its own clock.
 */
#ifndef KIT_ENGINE_PAIR_H
#define KIT_ENGINE_PAIR_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/engine.h"
#include "rc_connect.h"

struct engine_pair_node {
	struct engine engine;
	struct counter_block counters;
	struct qp_sqe_pool *sqes;
	struct qp_sr_pool *sr; /* NULL: no selective repeat */
	struct rc_side rc;
};

struct engine_pair_params {
	struct rte_mempool *pool; /* of all frames; remains the caller's */
	uint32_t mtu;             /* 256 .. 4096 */
	uint32_t qps, depth;      /* connections; messages that may be posted on each */
	uint32_t size;            /* of a message, bytes */
	uint32_t places;          /* number of buffers that messages use in turn */
	uint16_t dev[2];
	uint8_t mac[2][6];
	bool sr;                /* both sides have agreed to selective repeat */
	struct cc_param policy; /* of all connections, filled; zero: fixed */
};

struct engine_pair {
	struct engine_pair_params params;
	struct engine_pair_node node[2];
	uint32_t stride; /* bytes between two buffers */
	uint64_t posted; /* messages, by all connections */
	bool failed;     /* a message completed in error, or a QP or CQ failed */
};

/*
 * Open both nodes, connected, with nothing posted and with different bytes in their memories. p is
 * overwritten. Exits with status 1 if there is no memory.
 */
void engine_pair_open(struct engine_pair *p, const struct engine_pair_params *params);
/* Free everything, including frames that were built and not sent. */
void engine_pair_close(struct engine_pair *p);

/* Post message number p->posted (enum uroce_wr_opcode) on connection i, which must have space. */
void engine_pair_post(struct engine_pair *p, uint32_t i, uint8_t opcode);
/* Post the receive of node 1's connection i for message number message. */
void engine_pair_post_recv(struct engine_pair *p, uint32_t i, uint64_t message);
/* Publish connection i's posted WQEs to its engine, and ring if it requested that. */
void engine_pair_publish(struct engine_pair *p, uint32_t i);
/*
 * Take the completions of a node, in order; those of node 0 advance conn->done. Returns their
 * number.
 */
uint32_t engine_pair_poll(struct engine_pair *p, unsigned side);
/* The first n frames that node's engine built were sent: drop them. */
void engine_pair_sent(struct engine_pair_node *node, uint32_t n);

/* Is the last message in each buffer the same on both sides? */
bool engine_pair_verify(const struct engine_pair *p);

#endif
