/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-fabric: several hosts on one switch, on a virtual clock. Each host is an engine; frames are
 * the engine's real bytes, so a mark of the switch is in the IP header and the responder's CNP is a
 * real frame. One 64-bit seed gives one run, always the same.
 *
 *   line.c     one direction of a cable: what waits for it, its rate, its delay, pause
 *   switch.c   a shared buffer, marks by queue length, tail drop, pause frames; no clock
 *   host.c     a host: engine, QPs, clients that post WRITEs, latencies
 *   check.c    what holds for each frame and message
 *   fabric.c   hosts, switch and lines together; events in order of time
 *   measure.c  Jain's index, percentiles, rate over time
 *   incast.c   many senders to one receiver, and a flow beside them
 *   share.c    two flows over one bottleneck
 *   main.c     options, goals
 */
#ifndef FABRIC_LINE_H
#define FABRIC_LINE_H

#include <stdbool.h>
#include <stdint.h>

#define LINE_FRAMES 16384u /* waiting and on the wire; a power of two */

struct rte_mbuf;

/* A frame of a line, and the port of the switch through which it came (0 for a host's line). */
struct line_frame {
	struct rte_mbuf *m;
	uint64_t at_ns; /* on the wire: its arrival */
	uint32_t from;
};

/*
 * Frames leave in the order in which they came. One frame at a time takes its length at bps; it
 * counts as waiting until its last bit has left, and arrives delay_ns later. A paused line finishes
 * its current frame.
 */
struct line {
	uint64_t bps, delay_ns;
	uint64_t waiting_bytes;   /* the frame that is being sent included */
	uint64_t done_ns;         /* busy: its last bit leaves */
	uint64_t rest;            /* of the division that gave done_ns, so that no time is lost */
	uint32_t tail, cur, head; /* free running: [tail, cur) on the wire, [cur, head) waiting */
	bool busy, paused;
	struct line_frame frame[LINE_FRAMES];
};

/* Adds a frame; false: LINE_FRAMES are in the line. */
bool line_push(struct line *l, uint64_t now_ns, struct rte_mbuf *m, uint32_t from);
/*
 * If the last bit of a frame has left by now_ns: puts the frame on the wire, begins with the next
 * one and returns true with the frame's port and length. Call until it returns false.
 */
bool line_sent(struct line *l, uint64_t now_ns, uint32_t *from, uint32_t *bytes);
/* The next frame that has arrived by now_ns, which the caller then owns; NULL: none. */
struct rte_mbuf *line_arrived(struct line *l, uint64_t now_ns);
void line_pause(struct line *l, uint64_t now_ns, bool paused);
/* Time of the next event of the line: UINT64_MAX if it is idle. */
uint64_t line_next(const struct line *l);
/* Frees all frames. */
void line_drain(struct line *l);

#endif
