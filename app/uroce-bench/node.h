/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes with a port between them, each on a separate core. A third process starts and
 * measures them.
 *
 *   wire.c       mode "wire"
 *   node_net.c   the network between two nodes: namespaces, interfaces, names of devices
 *   node_pair.c  two nodes started, controlled and measured
 *   node.c       a node: this program with a separate DPDK; a worker and queue pairs
 *   testpmd.c    Debian's dpdk-testpmd, between two nodes or in their place
 *
 * test/bench/limits has nodes that move frames without queue pairs.
 *
 * The network is in namespaces that only these processes use, and the children die with their
 * parent, so nothing remains however the parent ends.
 */
#ifndef UROCE_BENCH_NODE_H
#define UROCE_BENCH_NODE_H

#include <stdio.h>
#include <sys/types.h>
#include "bench.h"
#include "map/page.h"
#include "port/port.h"

#define NODE_MEM_BYTES (64u * 1024) /* memory for messages, unless one is larger */
#define NODE_NEAR_NS   100.0        /* cores with a larger distance are far */
#define NODE_DEVICE    256          /* bytes of a device's argument for EAL */
#define NODE_TRIES     5 /* attempts until something arrives: other processes may occupy a core */

enum node_role {
	NODE_RC,     /* queue pairs; side 0 requests, side 1 responds */
	NODE_FRAMES, /* test/bench/limits: side 0 sends frames, side 1 counts and frees them */
};

enum node_phase {
	NODE_START,   /* the port opens */
	NODE_CONNECT, /* the addresses and key of the other side are known; wait for the link */
	NODE_REST,    /* wait until nothing is in flight */
	NODE_PROBE,   /* a ping-pong over a cache line; the speed of each core */
	NODE_RUN,
};

/* Written by the node. */
struct node_side {
	uint32_t steps __attribute__((aligned(64))); /* last finished step */
	char error[160];                             /* reason of a failure, or "" */
	uint8_t mac[6];
	uint32_t key;
	double distance_ns, speed_ns;                /* bench_speed_here of its core */
	uint64_t count __attribute__((aligned(64))); /* RC: messages completed; else frames */
	uint64_t full; /* RC, at rest: number of places written, from the first */
};

/* Shared memory of the three processes. For RC the regions of both sides follow it. */
struct node_shared {
	struct bench_options o;
	enum node_role role;
	unsigned sides;              /* 2; 1: frames are only sent */
	unsigned cpu[3];             /* of both sides, and of a testpmd between them */
	char device[2][NODE_DEVICE]; /* a PCI address or a vdev; of a socket: its address */
	unsigned link;               /* of node_net_port */
	uint32_t link_mtu;
	size_t bytes;   /* of all of it */
	bool yields;    /* idle workers yield: other threads share their core */
	uint32_t slots; /* places in a region, stride bytes each */
	uint32_t stride;
	uint32_t frame; /* bytes; not for RC */
	uint64_t until; /* RC: side 0 stops posting at this number of messages, over all runs */
	uint32_t phase __attribute__((aligned(64)));
	uint32_t step; /* changes with every phase */
	uint32_t ping __attribute__((aligned(64)));
	struct node_side side[2];
};

/* Start of the region of side s. */
static inline uint8_t *
node_region(struct node_shared *sh, unsigned s)
{
	return (uint8_t *)sh + page_ceil(sizeof(*sh), PAGE_LEAST) +
	       (size_t)s * sh->slots * sh->stride;
}

/*
 * Enter new namespaces; before EAL starts. For BENCH_PORT_EAL the network remains the user's. Exits
 * with 1 if that is not permitted.
 */
void node_net_open(enum bench_port port);
/* Checks the port options. On an error: prints a message and exits with status 2. */
void node_net_check_options(const struct bench_options *o);
/*
 * Makes EAL arguments (of a socket: the address) for both ends of a port between two processes;
 * link, 0 .. 63, makes its names unique. Side 1 is the server, which starts first.
 */
void node_net_port(const struct bench_options *o, unsigned link, char device[2][NODE_DEVICE]);

/* The devices on the way between both sides. */
struct node_path {
	char node[2][NODE_DEVICE];
	/* of what forwards, which is the server and starts first */
	char between[4][NODE_DEVICE];
	unsigned nbetween; /* 0: nothing is between them */
	char order[16];    /* the numbers of its ports: it forwards between neighbours */
};
/* As node_net_port, but with what o->through puts between, which also uses link + 1. */
void node_net_path(const struct bench_options *o, unsigned link, struct node_path *path);
/* How many sides there are: 1 if the user named only one port. */
unsigned node_net_sides(const struct bench_options *o);
/* The CPU of side i; 2: of a testpmd. */
unsigned node_net_cpu(const struct bench_options *o, unsigned i);
/* The name of the port, for people. */
void node_net_name(const struct bench_options *o, char *name, size_t size);
/* The MTU of the interface below the port. */
uint32_t node_net_mtu(const struct bench_options *o);
/* Name of the interface below side s of an af_packet, af_xdp or socket port; size IF_NAMESIZE. */
void node_net_interface(char *name, unsigned link, unsigned s);
/* Is the port a socket of the kernel? Its sides are in two namespaces, which have addresses. */
bool node_net_is_socket(enum bench_port port);
/* Enter the network namespace of side s, which processes started from then on are in. */
void node_net_side(unsigned s);

struct testpmd {
	pid_t pid; /* 0: none */
	FILE *to, *from;
	unsigned nports;
};
/* Three testpmd: a sender and a receiver, on a core each, and one that forwards between them. */
struct testpmd_pair {
	struct testpmd side[2], between;
};
void testpmd_pair_open(struct testpmd_pair *t, const struct bench_options *o, unsigned link);
/* Received frames per second over run_ms; never 0, as with node_pair_run. */
double testpmd_pair_run(struct testpmd_pair *t, uint32_t frame, uint32_t run_ms);
void testpmd_pair_close(struct testpmd_pair *t);
/* Starts the testpmd that the path has between its ends, if any. */
void testpmd_between_open(struct testpmd *t, const struct bench_options *o,
			  const struct node_path *path);
/* Waits until all of its ports have a link. Does nothing if there is none, as the next one. */
void testpmd_wait_links(struct testpmd *t);
void testpmd_close(struct testpmd *t);

struct node_pair {
	struct node_shared *sh;
	pid_t pid[2];
	struct testpmd between;
};
/*
 * Start both nodes with a port of o's kind between them, wait until they are connected, and stop
 * them. link makes the port's names unique. Exits with 1 on failure.
 */
void node_pair_open(struct node_pair *p, const struct bench_options *o, enum node_role role,
		    unsigned link);
void node_pair_close(struct node_pair *p);

struct node_pair_sample {
	double rate; /* messages or frames per second */
	/* the worse value of before and after, of the slower core */
	double distance_ns, speed_ns;
};
/*
 * Run for o.run_ms, or o.count messages, then stop the pair. frame: bytes, not for RC. The rate is
 * never 0; exits with 1 if nothing arrives.
 */
void node_pair_run(struct node_pair *p, enum node_role role, uint32_t frame,
		   struct node_pair_sample *s);
/* ", near" or ", far": by the median of the figure "distance" of the current row. */
const char *node_pair_far(struct bench_report *r);
/* RC: are the received bytes correct? */
bool node_pair_verify(const struct node_pair *p);

/*
 * One run of a transfer: adds its figures, and those of the cores, to the row. other: measured
 * directly before; its distance and speed count, too. Returns packets a second.
 */
double wire_run(struct node_pair *p, struct bench_report *r, const struct node_pair_sample *other);
/* Adds the row of a transfer whose runs were measured; false if the bytes differ. Closes p. */
bool wire_end(struct node_pair *p, struct bench_report *r);
/*
 * Transfers and testpmd in turn, each on the same ports, which are opened for each run: adds their
 * row. Returns 0, or 1 if the bytes differ.
 */
int wire_in_turn(const struct bench_options *o, struct bench_report *r);
/* Bytes of the frames that carry most of the payload. */
uint32_t wire_frame(const struct bench_options *o);

/* main of a node: argv[2] is the descriptor of the shared memory, argv[3] the side. */
int node_main(int argc, char **argv);
/* In a node, first: maps what its arguments name. Exits with 2 if that is nothing. */
struct node_shared *node_enter(int argc, char **argv, unsigned *side);
/* In a node: starts DPDK and opens the port of its side; returns the pool of its packets. */
struct rte_mempool *node_port_open(struct node_shared *sh, unsigned side, struct port *port);
/* In a node: measure the cores' distance together with the other node, then this core's speed. */
void node_probe(struct node_shared *sh, unsigned side);
/* In a node: report the failure and wait to be killed. */
_Noreturn void node_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* In a node: wait for a phase that begins after step, and return its step. */
uint32_t node_next(const struct node_shared *sh, uint32_t step);
/* In a node: it has finished the phase of that step. */
void node_reached(struct node_side *me, uint32_t step);
/* In a node: wait until the port has a link; fails after 30 s. */
void node_link_wait(struct port *port);

#endif
