/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages from one engine to the other over links that lose frames (link.h). */
#ifndef LOSS_GOODPUT_H
#define LOSS_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

#define GOODPUT_DEPTH 64

enum goodput_op { GOODPUT_WRITE, GOODPUT_SEND, GOODPUT_READ, GOODPUT_OPS };

struct goodput_run { /* operation, sizes and mode of the transfer */
	enum goodput_op op;
	uint32_t size, messages;
	uint32_t depth;       /* messages in flight, 1 .. GOODPUT_DEPTH */
	uint32_t loss_ppm[2]; /* of frames from node 0 and from node 1 */
	uint8_t plain[2];     /* QP_PLAIN_* of the nodes */
	bool sr;              /* both have agreed to selective repeat */
	uint32_t late;        /* frames from node 0 are overtaken by up to so many */
	uint32_t delay_ns;    /* of either wire */
	uint32_t queue;       /* queue capacity in front of either wire, in frames (struct link) */
	uint64_t seed;
	uint64_t most_ns; /* limit of virtual time */
};

struct goodput_result {
	double gbps;
	uint64_t p99_ns; /* of a message's time; 0 with a depth of more than 1 */
	uint32_t done;
	bool failed; /* a message failed, or bytes differ */
	uint64_t probes, timeouts, naks, gaps, resent, spurious;
	uint64_t lost;      /* frames, both ways */
	uint64_t selective; /* packets sent again alone */
	uint64_t vain;      /* of these, the original had arrived */
	uint64_t settled;   /* packets sent when the last packet was sent again alone */
};

/* Call once: starts the EAL and makes frames. */
void goodput_open(void);
struct goodput_result goodput_measure(const struct goodput_run *r);

#endif
