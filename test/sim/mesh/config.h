/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of a schedule of the mesh: drawn from the seed, overridden by --set name=value. */
#ifndef MESH_CONFIG_H
#define MESH_CONFIG_H

#include <stdint.h>
#include "../prng.h"

#define MESH_CFG(X)                                                                                \
	X(nodes, "2 or 3")                                                                         \
	X(workers, "of a node: 1, 2 or 4")                                                         \
	X(rc, "connected RC pairs")                                                                \
	X(uc, "connected UC pairs")                                                                \
	X(ud, "UD QPs")                                                                            \
	X(must, "1: RC WQEs must all succeed: retries do not run out, nothing is taken away")      \
	X(lives, "connections one after the other, of each pair")                                  \
	X(ops, "send WQEs of a QP and life, at most")                                              \
	X(maxlen, "largest message, bytes")                                                        \
	X(mtu, "path MTU code 1 .. 5; 0: each life its own")                                       \
	X(depth, "WQEs of a queue, at most")                                                       \
	X(sge, "SGEs of a WQE, at most")                                                           \
	X(timeout, "local ACK timeout code")                                                       \
	X(retry, "retry_cnt")                                                                      \
	X(rnr_retry, "rnr_retry")                                                                  \
	X(rnr_code, "min_rnr_timer; 32: each life its own")                                        \
	X(rd_atomic, "READs and atomics outstanding, at most")                                     \
	X(loss, "frames lost, ppm")                                                                \
	X(ackloss, "answers lost beside, ppm")                                                     \
	X(dup, "frames doubled, ppm")                                                              \
	X(reorder, "frames held back, ppm")                                                        \
	X(hold_ns, "how long, at most")                                                            \
	X(corrupt, "frames damaged, ppm")                                                          \
	X(forge, "UC and UD frames beside which comes a forged one with a good ICRC, ppm")         \
	X(blackout_ns, "longest interval in which a node is cut off; 0: none")                     \
	X(delay_ns, "one way delay")                                                               \
	X(jitter_ns, "added delay, at most; does not keep order")                                  \
	X(byte_ps, "picoseconds a byte takes on a link")                                           \
	X(rx_ring, "frames that a worker's receive queue holds")                                   \
	X(handoff, "frames that the ring between workers holds")                                   \
	X(rss, "1: any worker may get any frame; 0: flows stay together")                          \
	X(tx_refuse, "bursts that the port does not take whole, ppm")                              \
	X(poll_ns, "time between two loops of a worker, mean")                                     \
	X(stall, "loops before which a worker is away for long, ppm")                              \
	X(step_ns, "time between two steps of a client, mean")                                     \
	X(pace, "longest usual gap between two packets of a QP, ns; 0: no pace; not drawn")        \
	X(sr, "1: both sides have agreed to selective repeat; not drawn")                          \
	X(view, "payloads of so many bytes stay in client memory until they are sent; 0: none")    \
	X(small_pool, "1: the engines have few mbufs")                                             \
	X(loopback, "pairs on one node, ppm")                                                      \
	X(copy_mr, "regions that are not mapped, ppm")                                             \
	X(srq, "QPs on their worker's SRQ, ppm")                                                   \
	X(recv_late, "client steps after which receives come late, ppm")                           \
	X(wrap, "1: PSNs start near the wrap")                                                     \
	X(windows, "RC WQEs that are about memory windows, ppm")                                   \
	X(faults, "send WQEs that are wrong on purpose, ppm")                                      \
	X(kill, "lives that end in mid-traffic, ppm")                                              \
	X(dereg, "lives in which a region goes away or changes, ppm")                              \
	X(sqd, "lives in which a send queue is drained and resumed, ppm")                          \
	X(resize, "client steps in which a CQ is resized, ppm")                                    \
	X(mcast, "datagrams to a group, ppm")                                                      \
	X(late_ah, "datagrams through a handle whose next hop is not known yet, ppm")              \
	X(late, "accesses to regions that are not mapped which have to come again, ppm")           \
	X(move, "loops in which a QP moves to another worker of its node, ppm; not drawn")

struct mesh_cfg {
#define MESH_CFG_FIELD(name, what) uint32_t name;
	MESH_CFG(MESH_CFG_FIELD)
#undef MESH_CFG_FIELD
};

/* must: 0, 1, or 2 to draw it as well. */
void mesh_cfg_draw(struct mesh_cfg *cfg, struct sim_rng *r, uint32_t must);
/* Call after overrides: fixes contradictions between values, and applies the simulator's limits. */
void mesh_cfg_settle(struct mesh_cfg *cfg);
/* Parses "name=value". 0, or -EINVAL. */
int mesh_cfg_set(struct mesh_cfg *cfg, const char *text);
void mesh_cfg_print(const struct mesh_cfg *cfg);

#endif
