/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch that stores and forwards: one FIFO per egress port, all of them in one shared buffer.
 * It decides; the caller moves frames and has the clock. The last byte of the destination MAC
 * names the egress port.
 *
 *   admission  a frame that does not fit into the shared buffer or its port's limit is dropped
 *   marking    ECN: by the bytes that wait at the egress port before the frame (RED without an
 *              average, as switches do it for DCQCN): never up to kmin, always from kmax on, in
 *              between with a probability that rises from 0 to pmax. Only frames with ECT.
 *   pause      PFC: per ingress port, by the bytes in the buffer that came through it: XOFF above
 *              xoff_bytes, XON at or below xon_bytes
 */
#ifndef FABRIC_SWITCH_H
#define FABRIC_SWITCH_H

#include <stdbool.h>
#include <stdint.h>
#include "../prng.h"
#include "line.h"

#define SWITCH_PORTS 64u

struct switch_params {
	uint32_t ports;
	uint64_t shared_bytes;           /* of all frames in the switch */
	uint64_t port_bytes;             /* of the frames that wait at one egress port */
	uint64_t kmin_bytes, kmax_bytes; /* kmax 0: no marks */
	uint32_t pmax_ppm;
	uint64_t xoff_bytes, xon_bytes; /* xoff 0: no pause */
};

struct switch_port {
	struct line out;
	uint64_t held_bytes; /* in the buffer, of frames that came through this port */
	bool xoff;           /* its sender has got a pause frame */
	uint64_t sent_frames, sent_bytes, marked, unmarkable, dropped, pauses;
};

struct fabric_switch {
	struct switch_params p;
	uint64_t used_bytes;
	struct sim_rng rng;
	struct switch_port port[SWITCH_PORTS];
};

/* What the sender behind a port must be told. */
enum switch_flow { SWITCH_FLOW_SAME, SWITCH_XOFF, SWITCH_XON };

/* s: zeroed memory, whose lines get their rates from the caller. */
void switch_init(struct fabric_switch *s, const struct switch_params *p, uint64_t seed);
/*
 * A frame has arrived through port `in`: queues it at its egress port, or drops it. Consumes m,
 * whose segments must be one.
 */
enum switch_flow switch_receive(struct fabric_switch *s, uint64_t now_ns, uint32_t in,
				struct rte_mbuf *m);
/*
 * Sends what is due at port `out`. Returns true for each frame whose last bit has left; *flow is
 * then for the sender behind *in.
 */
bool switch_send(struct fabric_switch *s, uint64_t now_ns, uint32_t out, uint32_t *in,
		 uint32_t *bytes, enum switch_flow *flow);
/* Egress port of a frame, or SWITCH_PORTS: none. */
uint32_t switch_route(const struct fabric_switch *s, const struct rte_mbuf *m);
/* Probability of a mark in ppm for a queue of this length. */
uint32_t switch_mark_ppm(const struct switch_params *p, uint64_t queue_bytes);
/* Sets CE in an ECT frame of IPv4 or IPv6, with IPv4's checksum. False: not ECT. */
bool switch_mark(struct rte_mbuf *m);

#endif
