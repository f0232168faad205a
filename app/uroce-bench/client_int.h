/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of a client's process (client.h): one thread, verbs and no DPDK. */
#ifndef UROCE_BENCH_CLIENT_INT_H
#define UROCE_BENCH_CLIENT_INT_H

#include <infiniband/verbs.h>
#include "client.h"

#define CLIENT_BATCH_MAX 64
#define CLIENT_POLL      32 /* completions taken at a time */

/* What a QP has done, on one side. Messages are numbered from 0 and counted modulo 2^32. */
struct client_count {
	uint32_t posted, done;   /* operations (SENDs, on the passive side: the pongs) */
	uint32_t recvs, arrived; /* receives */
	uint32_t peer_rkey;
	uint64_t peer_va; /* of the peer's memory */
};

/* All QPs of one side, and the CQs that they share. */
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
	/* slots of stride bytes each: what is moved, and where it is moved to */
	uint8_t *from, *to;
	struct ibv_mr *from_mr, *to_mr;
	uint32_t slots, stride;
	struct ibv_mw *mw;        /* of --measure hops */
	bool can_inline;          /* the plan's messages go with their WR */
	struct client_end end[2]; /* 0: posts the operations; 1: what they go to */
	bool has[2];
};

/* Ends the client's process with 1 and a line on stderr. */
#define client_die(...) bench_die("client: " __VA_ARGS__)

/* ---- client_verbs.c: each ends the process where it fails ---- */
/* Everything that the plan says but the QPs; those, in RESET. */
void client_open(struct client *c);
void client_open_qps(struct client *c);
/* Addresses of side's QPs, plan.qps of them, into a. */
void client_addresses(struct client *c, unsigned side, struct client_address *a);
/* All QPs of side to those of the peer, up to RTS, with their receives posted. */
void client_connect(struct client *c, unsigned side, const struct client_address *peer);
/* Post n receives to QP q of side, 1 .. CLIENT_BATCH_MAX. */
void client_post_recvs(struct client *c, unsigned side, uint32_t q, uint32_t n);
/* Post the next n operations of QP q, 1 .. CLIENT_BATCH_MAX; the last is signaled. */
void client_post(struct client *c, unsigned side, uint32_t q, uint32_t n);
/* Unbind the window, which was not bound: no packet is made, no peer is asked. */
void client_post_bind(struct client *c);
/* Take completions of a CQ; how many. Gives way where there are none and the plan says so. */
int client_poll(struct client *c, struct ibv_cq *cq, struct ibv_wc wc[CLIENT_POLL]);

/* ---- client_data.c ---- */
/* Bytes of seed in what is moved, anything else in where it goes. Nothing may be in flight. */
void client_pattern(struct client *c, uint32_t seed);
/*
 * Have count messages been moved here since client_pattern, each whole? True on the side that
 * nothing is moved to.
 */
bool client_verify(const struct client *c, uint32_t seed, uint64_t count);

/* ---- client_run.c ---- */
/* Many messages in flight on all QPs. */
void client_rate(struct client *c, const struct client_command *cmd, struct client_answer *a);
/* One message at a time on QP 0: how long each takes, into h. */
void client_ping(struct client *c, const struct client_command *cmd, struct client_answer *a,
		 struct client_hist *h);
/* One window unbound after the other, count of them, in pieces. client_hops.c. */
void client_hops(struct client *c, uint64_t count, struct client_pieces *p);
/* The passive side, until something is there to read on the socket. */
void client_serve(struct client *c, bool pong);

#endif
