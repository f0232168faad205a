/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes with a port between them, one a core, measured by a third that started them.
 *
 *   wire.c          mode "wire"
 *   limit_port.c    mode "limit" of a port
 *   node_net.c      the environment of both processes: namespaces, interfaces, sockets
 *   node_pair.c     start two nodes, tell them what to do, read their counters
 *   node.c          a node: this program started again with its own DPDK; bare frames, no QPs
 *   node_rc.c       a node that has a worker with queue pairs, and plays their client
 *   testpmd_pair.c  the same by Debian's dpdk-testpmd
 *
 * The network lives in namespaces that belong to these processes alone, and the children die with
 * their parent: whatever ends it, nothing stays behind.
 */
#ifndef UROCE_BENCH_NODE_PAIR_H
#define UROCE_BENCH_NODE_PAIR_H

#include <stdio.h>
#include <sys/types.h>
#include "bench.h"
#include "port/port.h"

#define NODE_MEM_BYTES (64u * 1024) /* messages move within this much, unless one is larger */
#define NODE_FRAMES    512          /* in flight in role NODE_SWAP */
#define NODE_NEAR_NS   100.0        /* cores further from each other than this are far */
#define NODE_TRIES     5            /* at frames alone: others may have a core all the time */

enum node_role {
	NODE_RC,     /* queue pairs; side 0 requests, side 1 responds */
	NODE_ONEWAY, /* side 0 sends frames, side 1 counts and frees them */
	NODE_SWAP,   /* side 1 sends back what it gets, MACs swapped; side 0 sends that again */
};

enum node_phase {
	NODE_START,   /* the port opens */
	NODE_CONNECT, /* the other side's addresses and key are there; wait for the link */
	NODE_REST,    /* nothing moves any more */
	NODE_PROBE,   /* a ping-pong over a cache line; the speed of each core */
	NODE_RUN,
};

/* Written by the node. */
struct node_side {
	uint32_t steps __attribute__((aligned(64))); /* the shared step that it has done */
	char error[160];                             /* why it goes no further */
	uint8_t mac[6];
	uint32_t key;
	double distance_ns, speed_ns;                /* bench_speed_here of its core */
	uint64_t count __attribute__((aligned(64))); /* RC: messages completed; else frames */
	uint64_t frames;                             /* RC: sent by the worker */
	uint64_t again;                              /* RC: packets sent again */
	uint64_t full; /* RC, at rest: places from the first that messages went to */
};

/* Memory that the three processes share; behind it each side's region, for RC. */
struct node_shared {
	struct bench_options o;
	enum node_role role;
	unsigned cpu[2];
	char vdev[2][256];
	uint32_t link_mtu;
	size_t bytes;   /* of all of it */
	bool yields;    /* idle workers give way to who shares their core */
	uint32_t slots; /* places in a region, stride bytes each */
	uint32_t stride;
	uint32_t frame; /* bytes; not for RC */
	uint64_t until; /* RC: messages of side 0, all runs together, at which it posts no more */
	uint32_t phase __attribute__((aligned(64)));
	uint32_t step; /* changes with every phase */
	uint32_t ping __attribute__((aligned(64)));
	struct node_side side[2];
};

/* Where side s's region starts. */
static inline uint8_t *
node_region(struct node_shared *sh, unsigned s)
{
	return (uint8_t *)sh + ((sizeof(*sh) + 4095) & ~4095ul) +
	       (size_t)s * sh->slots * sh->stride;
}

/* Namespaces of our own. Before EAL starts. Exits with 1 where it may not. */
void node_net_open(void);
/* Nothing of this name can be said for the option: exits with 2. */
void node_net_check_options(const struct bench_options *o);
/*
 * The port between two processes, as EAL arguments for each end; link tells it from others. The
 * server's end, which starts first, is side 1.
 */
void node_net_port(enum bench_port port, unsigned link, uint32_t mtu, char vdev[2][256]);
/* What an interface or a driver needs for packets of this path MTU. */
uint32_t node_net_mtu(enum bench_port port, uint32_t mtu);

struct node_pair {
	struct node_shared *sh;
	pid_t pid[2];
};
/*
 * Start both nodes and wait until they are connected; they rest, stopped. vdev NULL: a port of o's
 * kind between them. Exits with 1 where that fails.
 */
void node_pair_open(struct node_pair *p, const struct bench_options *o, enum node_role role,
		    unsigned link, char (*vdev)[256]);
void node_pair_close(struct node_pair *p);

struct node_pair_sample {
	double rate; /* messages or frames a second */
	double frames[2];
	double again; /* packets sent again, a second */
	/* the worse one of before and after; and of the slower core */
	double distance_ns, speed_ns;
};
/*
 * Run for o.run_ms, or o.count messages. frame: bytes, not for RC. The pair is stopped afterwards.
 * Frames alone: the rate is not 0, figures being held against it; exits with 1 where none come.
 */
void node_pair_run(struct node_pair *p, enum node_role role, uint32_t frame,
		   struct node_pair_sample *s);
/* ", near" or ", far": by the median of the figure "distance" of the row under way. */
const char *node_pair_far(struct bench_report *r);
/* RC: did the bytes arrive? */
bool node_pair_verify(const struct node_pair *p);

/* A node; main's, when started as one. */
int node_main(const char *fd, const char *side);
/* In a node: count turns of the ping-pong with the other, then look at this core's speed. */
void node_probe(struct node_shared *sh, unsigned side);
/* In a node: cannot go on. */
_Noreturn void node_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* In a node: wait for a phase that begins after step, and return its step. */
uint32_t node_next(const struct node_shared *sh, uint32_t step);
/* In a node: it has done what the phase of that step asks for. */
void node_reached(struct node_side *me, uint32_t step);
/* In a node with role NODE_RC: does not return. */
_Noreturn void node_rc_main(struct node_shared *sh, unsigned side, struct port *port,
			    struct rte_mempool *pool);

/* testpmd, sending on one core and receiving on the other. */
struct testpmd_pair {
	pid_t pid[2];
	FILE *to[2], *from[2];
};
void testpmd_pair_open(struct testpmd_pair *t, const struct bench_options *o, unsigned link);
/* Frames a second that the receiver got, in run_ms; not 0, as of node_pair_run. */
double testpmd_pair_run(struct testpmd_pair *t, uint32_t frame, uint32_t run_ms);
void testpmd_pair_close(struct testpmd_pair *t);
/* One testpmd that forwards between two ports; returns when it does. */
pid_t testpmd_forward(const char *vdev0, const char *vdev1);

#endif
