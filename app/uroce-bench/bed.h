/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two engines in one thread, joined by a pair of net_ring ports, with RC connections between them:
 * node 0 requests, node 1 responds. The bed plays both clients (rings in plain memory, by the ABI)
 * and the clock.
 */
#ifndef UROCE_BENCH_BED_H
#define UROCE_BENCH_BED_H

#include "bench.h"
#include "engine/engine.h"

#define BED_BURST 32 /* frames taken from a port at a time, as a worker does */

struct bed_ring {
	struct uroce_ring_hdr *hdr;
	uint8_t *slots;
	uint32_t mask, stride, prod;
};

struct bed_conn {
	struct qp *qp;
	struct bed_ring sq, rq;
	uint32_t done; /* messages completed */
};

struct bed_node {
	struct engine engine;
	struct obs_block obs;
	struct mr_table mrs;
	struct qp_table qps;
	struct qp_sqe_pool *sqes;
	struct mr mr;
	struct cq cq;
	struct uroce_cq_hdr *cq_hdr;
	uint32_t cq_mask, cq_cons;
	struct bed_conn *conn; /* one a connection */
	uint16_t port;
};

struct bed {
	struct bench_options o;
	struct bed_node node[2];
	uint32_t slots; /* places in memory that messages are moved from and to, in turn */
	uint32_t stride;
	uint64_t posted; /* messages, by all connections */
	uint64_t now_ns;
};

/* Both nodes, connected, nothing posted. Exits with 1 when there is no memory. */
void bed_open(struct bed *b, const struct bench_options *o);
/* Frees all; the ports live on and are used by the next bed. */
void bed_close(struct bed *b);

/* Post message number conn->sq.prod of connection i; and for SEND its receive at the other side. */
void bed_post(struct bed *b, uint32_t i);
/* Ring where the engine asked for it. */
void bed_publish(struct bed *b, uint32_t i);
/* Take the completions of a node, in order; those of node 0 move conn->done. Returns how many. */
uint32_t bed_poll(struct bed *b, unsigned node);

/* Send what a node's engine has built. */
void bed_send(struct bed_node *n);

/*
 * ns a message, at best, of a sender that has no transport: buffers of the pool, bytes of headers,
 * the CRC of BTH and of the message where it lies, the port. Nothing may be under way.
 */
double bed_bare_ns(struct bed *b);

/* Did the bytes of the last message in each place arrive? */
bool bed_verify(struct bed *b);

#endif
