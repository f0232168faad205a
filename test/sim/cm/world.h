/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator of the connection manager: two to four CMs (lib/cm) over a network that loses,
 * duplicates and reorders MADs, with programs that connect, accept, reject, load paths, disconnect
 * and die at random. One 64-bit seed gives one schedule, always the same.
 *
 *   world.c    nodes, the network, the clock; a schedule from its seed to its verdict
 *   program.c  what the programs do, and which events they may get
 *   main.c     options
 *
 * Checks: every id ends, and leaves nothing behind; no event comes twice, after the id was
 * destroyed, or in an impossible order; a request is reported once; a polite schedule, in which no
 * program dies or refuses, connects all of them.
 */
#ifndef SIM_CM_WORLD_H
#define SIM_CM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include "cm/cm.h"
#include "../prng.h"

#define WORLD_NODES 4
#define WORLD_IDS   48  /* of a node's CM */
#define WORLD_ENDS  512 /* ids of programs in one schedule */
#define WORLD_MADS  4096
#define WORLD_NEVER UINT64_MAX

struct config {
	uint32_t nodes, connects;
	uint32_t loss, dup; /* ppm */
	uint64_t min_delay_ns, max_delay_ns;
	uint64_t think_ns; /* average time that a program waits before it acts */
	uint32_t dies;     /* ppm of a program's actions that kill its node */
	bool polite;
};

struct mad { /* in flight */
	uint64_t at_ns, order;
	struct cm_addr addr; /* of the sender */
	uint32_t to;
	uint8_t bytes[WIRE_MAD_LEN];
};

/* A program's id. */
struct end {
	uint32_t node, id, life; /* life: of the node */
	bool used, destroyed, passive, sidr, listener;
	uint32_t told;   /* bit per enum cm_event_type */
	uint32_t qpn;    /* of an accept or connect; 0 none */
	uint32_t laps;   /* PATH_RESPONSE events that may still come */
	uint32_t steps;  /* actions left before it destroys the id */
	uint64_t act_ns; /* when the program acts next */
};

struct node {
	struct world *w;
	uint32_t idx, life;
	uint8_t gid[16];
	void *mem;
	struct cm *cm;
	uint32_t next_qpn;
};

/* A request that a node has reported. */
struct request {
	uint32_t node, life, from, comm_id;
	uint64_t tid;
};

struct world {
	uint64_t seed, now_ns, order, digest;
	struct sim_rng net, load;
	struct config cfg;
	struct node node[WORLD_NODES];
	struct end end[WORLD_ENDS];
	uint32_t nends;
	struct mad mad[WORLD_MADS];
	uint32_t nmads;
	struct request request[WORLD_ENDS];
	uint32_t nrequests;
	uint32_t connects_left;
	uint64_t next_connect_ns;
	uint32_t established, unreachable, rejected, lost, doubled, deaths;
	bool verbose, failed;
	char why[256];
};

/* world.c */
/* Runs the schedule of seed. True: no violation. */
bool world_run(struct world *w, uint64_t seed, const struct config *forced);
void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void world_log(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void world_digest(struct world *w, const void *bytes, uint32_t len);
/* A node loses its CM and its programs, and restarts without state. */
void world_kill(struct node *n);
struct node *world_node_of(struct world *w, const uint8_t gid[16]);

/* program.c */
void program_event(struct node *n, const struct cm_event *ev);
/* The node listens for connections and queries. */
void program_listen(struct node *n);
/* Starts one more connection, or SIDR query, from a node to another or itself. */
void program_connect(struct world *w);
/* The next action of e. */
void program_act(struct world *w, struct end *e);
/* The end of the schedule: destroys the listeners. */
void program_close(struct world *w);

#endif
