/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decision part of the fault injector. Frames in, frames out: pure and deterministic, with time as
 * a parameter and one 64-bit seed for all randomness. No clock, no port, no heap. impair.h attaches
 * it to receive queues of ports; impair_spec.h parses configurations.
 *
 *   in -> judge (random faults, rules) -> corrupt, mark, duplicate -> bottleneck -> delay
 *      -> reorder -> due frames, in the order of their due times -> out
 *
 * The bottleneck is a link of a rate with a queue in front of it. The queue has a limit in bytes,
 * and marks frames of IP that support ECN (ECT), of any protocol, by its length: never up to kmin,
 * always from kmax on, in between with a probability that rises from 0 to pmax.
 *
 * Frames that are not RoCEv2 (such as ARP) have no check that finds flipped bits: they are dropped,
 * duplicated, delayed, reordered and marked by the bottleneck, but never modified otherwise.
 */
#ifndef IMPAIR_CORE_H
#define IMPAIR_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rte_mbuf.h>

#define IMPAIR_MAX_RULES 16
#define IMPAIR_MAX_HOLD  4096      /* most delayed frames */
#define IMPAIR_MAX_BACK  64        /* most frames held back for reordering */
#define IMPAIR_MAX_BITS  32        /* most flipped bits per frame */
#define IMPAIR_BACK_NS   10000000u /* longest time that a frame is held back */
#define IMPAIR_PPM       1000000u

#define IMPAIR_COUNTERS(X)                                                                         \
	/* faults, each also an action of rules */                                                 \
	X(DROP, "drop")                                                                            \
	X(DUP, "dup")         /* a copy follows the frame */                                       \
	X(REORDER, "reorder") /* delivered after reorder_by later frames */                        \
	X(DELAY, "delay")                                                                          \
	X(CORRUPT, "corrupt")             /* flipped bits, found by the receiver's checks */       \
	X(CORRUPT_FIXED, "corrupt_fixed") /* flipped bits from the BTH on, with a right ICRC */    \
	X(CE, "ce")                       /* ECN bits of the IP header set to CE */                \
	/* other counters */                                                                       \
	X(RATE, "rate")             /* frames that waited for the link */                          \
	X(QUEUE_DROP, "queue_drop") /* dropped because the link's queue was full */                \
	X(QUEUE_MARK, "queue_mark") /* marked CE because of the length of the link's queue */      \
	X(RECEIVED, "received")     /* frames in */                                                \
	X(DELIVERED, "delivered")   /* frames out */                                               \
	X(OVERFLOW, "overflow")     /* dropped because too many frames were delayed */             \
	X(NO_MBUF, "no_mbuf")       /* not duplicated or not parsed: out of buffers */

#define IMPAIR_ENUM(id, name) IMPAIR_##id,
enum impair_counter { IMPAIR_COUNTERS(IMPAIR_ENUM) IMPAIR_NCOUNTERS };
#undef IMPAIR_ENUM
#define IMPAIR_NFAULTS IMPAIR_RATE /* counters before it are faults */

struct impair_params {         /* parameters of faults */
	uint32_t reorder_by;   /* frames, >= 1 */
	uint32_t corrupt_bits; /* 1 .. IMPAIR_MAX_BITS */
	uint64_t delay_ns;
	uint64_t jitter_ns; /* <= delay_ns: uniform in delay_ns +- jitter_ns */
};

/* Applies to RoCEv2 frames that meet all of its conditions. */
struct impair_rule {
	uint32_t action; /* enum impair_counter, a fault */
	bool has_qpn, has_opcode, has_psn, has_dst;
	uint32_t qpn; /* destination QPN */
	uint32_t opcode;
	uint32_t psn_first, psn_last; /* inclusive; wraps if last is before first */
	uint8_t dst[16];              /* destination address as a GID */
	uint32_t ppm;                 /* probability of acting on a match */
	uint64_t nth;                 /* from the n-th match on, >= 1 */
	uint64_t count;               /* most times that it acts; 0: no limit */
	struct impair_params p;
};

struct impair_cfg {
	uint64_t seed;
	uint32_t ppm[IMPAIR_NFAULTS]; /* probability of each fault on each frame */
	struct impair_params p;       /* of these random faults */
	uint64_t rate_bps;            /* link rate in bits of frames per second; 0: no limit */
	/* Of the link's queue; all 0 without a rate. */
	uint64_t queue_bytes;            /* most bytes in it; 0: no limit but hold */
	uint64_t kmin_bytes, kmax_bytes; /* kmin <= kmax; kmax 0: no marks */
	uint32_t pmax_ppm;
	bool ordered;  /* no frame overtakes another one by jitter */
	uint32_t hold; /* most delayed frames, 1 .. IMPAIR_MAX_HOLD */
	uint32_t nrules;
	struct impair_rule rule[IMPAIR_MAX_RULES];
};

/* What was done to a frame. All zero: nothing. */
struct impair_fate {
	uint16_t faults;              /* bits 1 << enum impair_counter */
	bool copy;                    /* the frame is the copy that DUP made */
	uint8_t rule[IMPAIR_NFAULTS]; /* of each fault: its rule, from 1; 0: a random fault */
};
/* A frame with one of these faults is freed, not delivered. */
#define IMPAIR_LOST (1u << IMPAIR_DROP | 1u << IMPAIR_QUEUE_DROP | 1u << IMPAIR_OVERFLOW)

/*
 * Receives each frame with a fault, on the thread of impair_core_burst: before a lost frame is
 * freed, and before any other frame is stored in m. m remains the injector's.
 */
typedef void impair_tell(void *arg, const struct rte_mbuf *m, const struct impair_fate *fate);

struct impair_held {
	uint64_t due_ns;
	uint64_t seq; /* order among those due at the same time */
	struct rte_mbuf *m;
	struct impair_fate fate;
};
struct impair_back {
	struct rte_mbuf *m;
	struct impair_fate fate;
	uint32_t left; /* frames that must still pass it */
	uint64_t until_ns;
	uint64_t due_ns;
};
struct impair_rule_stats {
	uint64_t matched; /* frames that met the conditions */
	uint64_t acted;
};

/* State of one receive queue. Other threads may read single counters. */
struct impair_core {
	const struct impair_cfg *cfg;
	impair_tell *tell; /* NULL: nobody */
	void *tell_arg;
	uint64_t rng;
	uint64_t seq;
	uint64_t link_free_ns;
	uint64_t last_due_ns; /* ordered: of the last frame */
	uint64_t queue_peak;  /* most bytes in the link's queue since the configuration */
	uint64_t ctr[IMPAIR_NCOUNTERS];
	struct impair_rule_stats rule[IMPAIR_MAX_RULES];
	uint32_t back_n, heap_n;
	struct impair_back back[IMPAIR_MAX_BACK]; /* in order of arrival */
	struct impair_held heap[IMPAIR_MAX_HOLD]; /* min-heap by due time */
};

/*
 * Use cfg from now on; the caller keeps it alive until the next configuration. The random sequence
 * and the rules' match counts restart; delayed frames stay delayed; counters continue. stream:
 * distinguishes cores with the same seed (the queue). A core starts as zeroed memory, and this must
 * be the first call.
 */
void impair_core_config(struct impair_core *c, const struct impair_cfg *cfg, uint32_t stream);

/*
 * Process n frames that arrived at now_ns (which never goes back) in m, an array with space for cap
 * >= n. Takes them over, stores the frames that are due in m and returns their number, at most cap.
 * Other frames remain for later calls, which may have n 0. The result does not depend on how frames
 * that arrive at the same time are split into calls, as long as neither cap nor hold is reached.
 */
uint32_t impair_core_burst(struct impair_core *c, uint64_t now_ns, struct rte_mbuf **m, uint32_t n,
			   uint32_t cap);

/*
 * Bytes in the queue of a link of rate_bps (0: none) that is busy until link_free_ns, the frame
 * that is being sent included.
 */
static inline uint64_t
impair_queue_bytes(uint64_t rate_bps, uint64_t link_free_ns, uint64_t now_ns)
{
	if (link_free_ns <= now_ns)
		return 0;
	return (uint64_t)((unsigned __int128)(link_free_ns - now_ns) * rate_bps / 8000000000u);
}

/*
 * Writes fate as words to text, at most len bytes with the NUL, 200 are enough: "corrupted (rule
 * 3), delayed". Any thread.
 */
void impair_fate_text(const struct impair_fate *fate, char *text, size_t len);

/* Free all frames that are delayed or held back. */
void impair_core_drain(struct impair_core *c);

#endif
