/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault injector, the part that decides. Frames in, frames out: pure and deterministic, with
 * time as a parameter and one 64-bit seed for all that is random. No clock, no port, no heap.
 * impair.h ties it to the receive queues of ports; impair_spec.h makes configurations from text.
 *
 *   in -> judge (random faults, rules) -> corrupt, mark, duplicate -> link rate -> delay -> reorder
 *      -> what is due, in the order in which it became due -> out
 *
 * Frames that are not RoCEv2 (ARP and the like) have no check that finds flipped bits: they are
 * dropped, duplicated, delayed and reordered like others, but never changed.
 */
#ifndef IMPAIR_CORE_H
#define IMPAIR_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>

#define IMPAIR_MAX_RULES 16
#define IMPAIR_MAX_HOLD  4096      /* frames that wait to be due */
#define IMPAIR_MAX_BACK  64        /* frames that wait for others to pass them */
#define IMPAIR_MAX_BITS  32        /* flipped in a frame */
#define IMPAIR_BACK_NS   10000000u /* a frame that nothing passes goes on after so long */
#define IMPAIR_PPM       1000000u

#define IMPAIR_COUNTERS(X)                                                                         \
	/* faults, each also an action of rules */                                                 \
	X(DROP, "drop")                                                                            \
	X(DUP, "dup")         /* a copy follows the frame */                                       \
	X(REORDER, "reorder") /* goes on after reorder_by later frames have */                     \
	X(DELAY, "delay")                                                                          \
	X(CORRUPT, "corrupt")             /* flipped bits, which its receiver's checks find */     \
	X(CORRUPT_FIXED, "corrupt_fixed") /* flipped bits from the BTH on under a right ICRC */    \
	X(CE, "ce")                       /* ECN bits of the IP header set to CE */                \
	/* what else is counted */                                                                 \
	X(RATE, "rate")           /* frames that waited for the link */                            \
	X(RECEIVED, "received")   /* frames in */                                                  \
	X(DELIVERED, "delivered") /* frames out */                                                 \
	X(OVERFLOW, "overflow")   /* dropped for want of room among those that wait */             \
	X(NO_MBUF, "no_mbuf")     /* not duplicated or not looked into for want of a buffer */

#define IMPAIR_ENUM(id, name) IMPAIR_##id,
enum impair_counter { IMPAIR_COUNTERS(IMPAIR_ENUM) IMPAIR_NCOUNTERS };
#undef IMPAIR_ENUM
#define IMPAIR_NFAULTS IMPAIR_RATE /* those before it are faults */
extern const char *const impair_counter_name[IMPAIR_NCOUNTERS];

struct impair_params {         /* of faults that have any */
	uint32_t reorder_by;   /* frames, >= 1 */
	uint32_t corrupt_bits; /* 1 .. IMPAIR_MAX_BITS */
	uint64_t delay_ns;
	uint64_t jitter_ns; /* <= delay_ns: uniform in delay_ns +- jitter_ns */
};

/* Applies to RoCEv2 frames that meet all conditions it has. */
struct impair_rule {
	uint32_t action; /* enum impair_counter, a fault */
	bool has_qpn, has_opcode, has_psn, has_dst;
	uint32_t qpn; /* destination QPN */
	uint32_t opcode;
	uint32_t psn_first, psn_last; /* inclusive; wraps where last is before first */
	uint8_t dst[16];              /* destination address as a GID */
	uint32_t ppm;                 /* acts with this probability */
	uint64_t nth;                 /* from the n-th match on, >= 1 */
	uint64_t count;               /* acts at most so often; 0: no limit */
	struct impair_params p;
};

struct impair_cfg {
	uint64_t seed;
	uint32_t ppm[IMPAIR_NFAULTS]; /* probability of each fault on each frame */
	struct impair_params p;       /* of these random faults */
	uint64_t rate_bps;            /* bits of frame per second that the link carries; 0: any */
	uint32_t hold;                /* frames that may wait to be due, 1 .. IMPAIR_MAX_HOLD */
	uint32_t nrules;
	struct impair_rule rule[IMPAIR_MAX_RULES];
};

struct impair_held {
	uint64_t due_ns;
	uint64_t seq; /* order among those due at the same time */
	struct rte_mbuf *m;
};
struct impair_back {
	struct rte_mbuf *m;
	uint32_t left; /* frames that are still to pass it */
	uint64_t until_ns;
	uint64_t due_ns;
};
struct impair_rule_stats {
	uint64_t matched; /* frames that met the conditions */
	uint64_t acted;
};

/* The state of one receive queue. Counters may be read by another thread, each for itself. */
struct impair_core {
	const struct impair_cfg *cfg;
	uint64_t rng;
	uint64_t seq;
	uint64_t link_free_ns;
	uint64_t ctr[IMPAIR_NCOUNTERS];
	struct impair_rule_stats rule[IMPAIR_MAX_RULES];
	uint32_t back_n, heap_n;
	struct impair_back back[IMPAIR_MAX_BACK]; /* in the order of arrival */
	struct impair_held heap[IMPAIR_MAX_HOLD]; /* the first is the next to be due */
};

/*
 * Work by cfg from now on, which stays the caller's and must live until the next configuration:
 * the random sequence starts anew and rules have matched nothing yet; frames that wait go on
 * waiting, counters go on counting. stream: tells cores with the same seed apart (the queue). A
 * core starts out as zeroed memory, and nothing else may be called before this.
 */
void impair_core_config(struct impair_core *c, const struct impair_cfg *cfg, uint32_t stream);

/*
 * n frames arrived at now_ns (which never goes back) in m, an array with room for cap >= n. Takes
 * them, leaves in m those that are to be delivered now and returns their number, at most cap; more
 * wait for the next call, which may well have n 0. What comes out does not depend on how frames
 * that arrive at the same time are split into calls, as long as neither cap nor hold is reached.
 */
uint32_t impair_core_burst(struct impair_core *c, uint64_t now_ns, struct rte_mbuf **m, uint32_t n,
			   uint32_t cap);

/* Free all frames that wait. */
void impair_core_drain(struct impair_core *c);

#endif
