/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of a client's process (client.h): one thread, verbs and no DPDK. */
#ifndef UROCE_BENCH_CLIENT_INT_H
#define UROCE_BENCH_CLIENT_INT_H

#include <infiniband/verbs.h>
#include "client.h"

#define CLIENT_BATCH_MAX 64
#define CLIENT_POLL      32 /* completions taken at a time */

/* Counters of a QP on one side. Messages are numbered from 0, modulo 2^32. */
struct client_count {
	uint32_t posted, done;   /* operations (SENDs, on the passive side: the pongs) */
	uint32_t recvs, arrived; /* receives */
	uint32_t peer_rkey;
	uint64_t peer_va; /* of the peer's memory */
};

/* All QPs of one side and their common CQs. */
struct client_end {
	struct ibv_cq *scq, *rcq;
	struct ibv_qp **qp;         /* plan.qps */
	struct client_count *count; /* .. */
};

struct client {
	struct client_plan plan;
	int sock;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	/* source and destination of the messages, in slots of stride bytes */
	uint8_t *from, *to;
	struct ibv_mr *from_mr, *to_mr;
	uint32_t slots, stride;
	struct ibv_mw *mw;        /* for --measure hops */
	bool can_inline;          /* messages are sent inline */
	struct client_end end[2]; /* 0: posts the operations; 1: their target */
	bool has[2];
};

/* Ends the client's process with 1 and a line on stderr. */
#define client_die(...) bench_die("client: " __VA_ARGS__)

/* ---- client_verbs.c: each function ends the process on failure ---- */
/* Opens everything in the plan except the QPs; then the QPs, in RESET. */
void client_open(struct client *c);
void client_open_qps(struct client *c);
/* Addresses of side's QPs, plan.qps of them, into a. */
void client_addresses(struct client *c, unsigned side, struct client_address *a);
/* Connects all QPs of side to the peer, up to RTS, and posts their receives. */
void client_connect(struct client *c, unsigned side, const struct client_address *peer);
/* Post n receives to QP q of side, 1 .. CLIENT_BATCH_MAX. */
void client_post_recvs(struct client *c, unsigned side, uint32_t q, uint32_t n);
/* Post the next n operations of QP q, 1 .. CLIENT_BATCH_MAX; the last is signaled. */
void client_post(struct client *c, unsigned side, uint32_t q, uint32_t n);
/* Unbind the window, which is not bound. This sends no packet. */
void client_post_bind(struct client *c);
/* Takes completions of a CQ. Returns their number. If there are none, yields if plan.yield is set.
 */
int client_poll(struct client *c, struct ibv_cq *cq, struct ibv_wc wc[CLIENT_POLL]);

/* ---- client_data.c ---- */
/* Write the pattern of seed to the source, other bytes to the destination. Nothing is in flight. */
void client_pattern(struct client *c, uint32_t seed);
/*
 * Have count messages arrived since client_pattern, each complete? Always true on the side that
 * receives nothing.
 */
bool client_verify(const struct client *c, uint32_t seed, uint64_t count);

/* ---- client_run.c ---- */
/* Many messages in flight on all QPs. */
void client_rate(struct client *c, const struct client_command *cmd, struct client_answer *a);
/* One message at a time on QP 0; adds the time of each to h. */
void client_ping(struct client *c, const struct client_command *cmd, struct client_answer *a,
		 struct client_hist *h);
/* Unbind count windows, one after the other, and measure the parts (client_hops.c). */
void client_hops(struct client *c, uint64_t count, struct client_pieces *p);
/* The passive side, until the socket has a message. */
void client_serve(struct client *c, bool pong);

#endif
