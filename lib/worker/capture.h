/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture: copies of the frames of one device as one worker sees them, in a ring of bytes between
 * the worker, which writes, and one reader, which makes a file of them. What is seen is what the
 * engine gets and makes: received frames behind anything that sits on the port (the fault
 * injector), frames to send at the moment they are built, in the very order in which they were
 * handled, stamped with the time that the engine had. So frames to a GID of the same device are
 * seen too, and a frame that the port refuses at first is seen once.
 *
 * A worker without captures pays for a test an iteration and a burst. One with writes no faster
 * than its reader reads: what finds no room is counted as lost, and packets go their way.
 */
#ifndef WORKER_CAPTURE_H
#define WORKER_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;
struct worker_set;
struct capture;

#define CAPTURE_MAX_FRAME 65535 /* bytes of a frame that are kept */

/* A ring of bytes (a power of two, 2^17 .. 2^31). NULL: no memory. Any thread. */
struct capture *capture_create(uint32_t bytes);
/* No worker and no reader uses it any more. */
void capture_free(struct capture *c);

/*
 * Control thread. From now on worker i copies what it receives and sends on dev into cap[i]; with
 * cap NULL no longer, and when this returns no worker uses what it had.
 */
void worker_capture(struct worker_set *ws, uint16_t dev, struct capture *const *cap);

struct capture_frame {
	uint64_t epoch_ns; /* since 1970 */
	const uint8_t *data;
	uint32_t len; /* kept */
	uint32_t frame_len;
	bool sent; /* or received */
};

/* The reader. The oldest frame, whose data stay until capture_done; false: none is there. */
bool capture_peek(struct capture *c, struct capture_frame *f);
void capture_done(struct capture *c);
/* Frames that found no room so far. Any thread. */
uint64_t capture_lost(const struct capture *c);

/* The worker: n frames were received, or are to be sent, at now_ns. Exposed for tests. */
void capture_put(struct capture *c, uint64_t now_ns, struct rte_mbuf *const *m, uint32_t n,
		 bool sent);

#endif
