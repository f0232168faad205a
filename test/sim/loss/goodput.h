/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages from one engine to the other over links that lose frames (link.h). */
#ifndef LOSS_GOODPUT_H
#define LOSS_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

enum goodput_op { GOODPUT_WRITE, GOODPUT_SEND, GOODPUT_READ, GOODPUT_OPS };

struct goodput_run { /* operation, sizes and mode of the transfer */
	enum goodput_op op;
	uint32_t size, messages;
	uint32_t loss_ppm[2]; /* of frames from node 0 and from node 1 */
	uint8_t plain[2];     /* QP_PLAIN_* of the nodes */
	uint32_t queue;       /* queue capacity in front of either wire, in frames (struct link) */
	uint64_t seed;
	uint64_t most_ns; /* limit of virtual time */
};

struct goodput_result {
	double gbps;
	uint32_t done;
	bool failed; /* a message failed, or bytes differ */
	uint64_t probes, timeouts, naks, gaps, resent, spurious;
};

/* Call once: starts the EAL and makes frames. */
void goodput_open(void);
struct goodput_result goodput_measure(const struct goodput_run *r);

#endif
