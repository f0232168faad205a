/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of a schedule. Every field is drawn from the seed and can be overridden on the
 * command line (--set name=value), to reduce a failing schedule.
 */
#ifndef PAIR_CONFIG_H
#define PAIR_CONFIG_H

#include <stdint.h>
#include "../prng.h"

/* The faults that may occur, which decide the checks. */
enum pair_family {
	PAIR_MUST_SUCCEED = 0, /* retries do not run out: every WQE must succeed */
	PAIR_FINITE =
		1, /* retry_cnt and rnr_retry of a real QP: errors are legal, hanging is not */
	PAIR_FAULTS = 2, /* some WQEs are deliberately wrong and must fail with the right status */
};

#define PAIR_CFG(X)                                                                                \
	X(family, "enum pair_family")                                                              \
	X(pairs, "connected QP pairs, 1 .. 8")                                                     \
	X(ops, "send WQEs a QP, at most")                                                          \
	X(oneway, "1: only the first QP of a pair sends")                                          \
	X(maxlen, "largest message, bytes")                                                        \
	X(mtu, "path MTU code 1 .. 5; 0: each pair its own")                                       \
	X(timeout, "local ACK timeout code; 0: never")                                             \
	X(retry, "retry_cnt")                                                                      \
	X(rnr_retry, "rnr_retry")                                                                  \
	X(rnr_code, "min_rnr_timer")                                                               \
	X(rd_atomic, "READs outstanding, at most")                                                 \
	X(depth, "WQEs of a queue, at most")                                                       \
	X(sge, "SGEs of a WQE, at most")                                                           \
	X(loss, "frames at which a burst of losses begins, ppm")                                   \
	X(burst, "mean length of a loss burst, frames")                                            \
	X(skip, "frames lost that a later one gives away, first time only, ppm")                   \
	X(forge, "forged doubles with a good ICRC, ppm")                                           \
	X(dup, "frames doubled, ppm")                                                              \
	X(corrupt, "frames damaged, ppm")                                                          \
	X(reorder, "frames held back, ppm")                                                        \
	X(hold_ns, "how long a frame is held back, at most")                                       \
	X(noise, "frames from nowhere for each real one, ppm")                                     \
	X(blackout_ns, "longest interval in which everything is lost; 0: none")                    \
	X(delay_ns, "one way delay")                                                               \
	X(jitter_ns, "added delay, at most; does not keep order")                                  \
	X(byte_ps, "picoseconds a byte takes on the link")                                         \
	X(queue, "KiB that wait for a link, at most; what comes then is lost")                     \
	X(rx_ring, "frames that a port's receive queue holds")                                     \
	X(tx_refuse, "bursts that the port does not take whole, ppm")                              \
	X(poll_ns, "time between two loops of a worker, mean")                                     \
	X(stall, "loops before which the worker is away for long, ppm")                            \
	X(step_ns, "time between two steps of a client, mean")                                     \
	X(ncq, "CQs of a node")                                                                    \
	X(cq_events,                                                                               \
	  "1: clients poll only after an event; 2: receive CQs armed for solicited ones")          \
	X(recv_late, "1: receives are posted late")                                                \
	X(small_pool, "1: the engine has few mbufs")                                               \
	X(loopback, "pairs whose both QPs are on one node, ppm")                                   \
	X(wrap, "1: PSNs start near the wrap")                                                     \
	X(scribble, "1: clients overwrite WQEs that the engine has taken")                         \
	X(copy_mr, "regions that are not mapped, ppm")                                             \
	X(srq, "1: all QPs of a node share an SRQ")                                                \
	X(dereg, "1: a window is deregistered in mid-run")                                         \
	X(race, "accesses to such a region in which a client posts, ppm")                          \
	X(rounds, "connections one after the other of the same QPs")                               \
	X(late_path, "1: the next hop is resolved late")                                           \
	X(apm, "1: alternate paths; the first dies once both ends are armed")                      \
	X(sqd, "1: send queues are drained and resumed in mid-run")                                \
	X(pace, "longest usual gap between two packets of a QP, ns; 0: no pace; not drawn")        \
	X(full, "READs request so many bytes at a time while their socket is full, not drawn")     \
	X(sr, "1: both sides have agreed to selective repeat; not drawn")                          \
	X(view, "payloads of so many bytes stay in client memory until they are sent; 0: none")    \
	X(mix, "operations: 0 all, 1 SEND, 2 WRITE, 3 READ, 4 READ and fenced WRITE, 5 with imm, " \
	       "6 atomics")

struct pair_cfg {
#define PAIR_CFG_FIELD(name, what) uint32_t name;
	PAIR_CFG(PAIR_CFG_FIELD)
#undef PAIR_CFG_FIELD
};

/* READs may be requested in parts of any size. */
static inline bool
pair_cfg_parts(const struct pair_cfg *c)
{
	return c->pace != 0 || c->full != 0;
}

/* Draw a whole configuration of the given family; PAIR_ANY_FAMILY: of any family. */
#define PAIR_ANY_FAMILY UINT32_MAX
void pair_cfg_draw(struct pair_cfg *cfg, struct sim_rng *r, uint32_t family);
/* Call after overrides: fixes contradictions between values, and applies the simulator's limits. */
void pair_cfg_settle(struct pair_cfg *cfg);
/* Parses "name=value". 0, or -EINVAL. */
int pair_cfg_set(struct pair_cfg *cfg, const char *text);
/* Prints all fields on a few lines of standard output. */
void pair_cfg_print(const struct pair_cfg *cfg);

#endif
