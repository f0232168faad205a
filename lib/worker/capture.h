/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture: copies the frames of one device that one worker handles into a ring of bytes. The worker
 * writes; one reader makes a file of them. A capture contains the frames that the engine gets and
 * makes: received frames after any hook on the port (the fault injector), sent frames when they are
 * built, in the order in which they were handled, stamped with the engine's time. It therefore
 * includes frames to a GID of the same device, and a frame that the port refuses at first appears
 * once. A fault injector reports the frames that it changed or lost (worker_capture_fault).
 *
 * A worker without captures pays for one test per iteration and burst. With a capture, a slow
 * reader never delays packets: frames that do not fit the ring are counted as lost.
 */
#ifndef WORKER_CAPTURE_H
#define WORKER_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;
struct worker_set;
struct capture;

#define CAPTURE_MAX_FRAME 65535 /* bytes kept of a frame */

/* Any thread. Creates a ring of bytes (a power of two, 2^17 .. 2^31). NULL: no memory. */
struct capture *capture_create(uint32_t bytes);
/* Frees c. No worker and no reader may use it any more. */
void capture_free(struct capture *c);

/*
 * Control thread. Makes worker i copy the frames it receives and sends on dev into cap[i]. cap NULL
 * ends the capture. On return no worker uses the previous rings.
 */
void worker_capture(struct worker_set *ws, uint16_t dev, struct capture *const *cap);

/* Describes what a fault injector did to a received frame (its format). All zero: nothing. */
#define CAPTURE_FAULT_BYTES 16
struct capture_fault {
	uint8_t bytes[CAPTURE_FAULT_BYTES];
};

/* What the worker knows about a frame besides its bytes. */
struct capture_note {
	uint32_t qpn;   /* local QP that made a sent frame; 0: none */
	uint16_t drop;  /* enum drop_reason of a received frame; DROP_NUM: not dropped */
	uint16_t flags; /* CAPTURE_* */
	struct capture_fault fault;
};
#define CAPTURE_AGAIN      1u  /* sent: a retransmission */
#define CAPTURE_DUPLICATE  2u  /* received: a request that was received before */
#define CAPTURE_OUT_OF_SEQ 4u  /* received: a request that came too early */
#define CAPTURE_STALE      8u  /* received: a response that nothing waits for */
#define CAPTURE_SLOW_PATH  16u /* received: for the control thread or the kernel */
#define CAPTURE_RNR        32u /* received: the response was receiver not ready */

/*
 * Worker of receive queue `queue` of dev, while it polls this queue. A fault injector on the queue
 * changed m. lost: m will not be received; otherwise it is received with this poll. Without a
 * capture of dev nothing happens.
 */
void worker_capture_fault(struct worker_set *ws, uint16_t dev, uint16_t queue,
			  const struct rte_mbuf *m, const struct capture_fault *fault, bool lost);

struct capture_frame {
	uint64_t epoch_ns; /* since 1970 */
	struct capture_note note;
	const uint8_t *data;
	uint32_t len; /* bytes kept */
	uint32_t frame_len;
	bool sent; /* else received */
};

/* Reader. Gets the oldest frame, valid until capture_done. Returns false if there is none. */
bool capture_peek(struct capture *c, struct capture_frame *f);
void capture_done(struct capture *c);
/* Any thread. Returns the number of frames lost because the ring was full. */
uint64_t capture_lost(const struct capture *c);

/*
 * Worker. Copies a frame that was received, or will be sent, at now_ns. The reader sees it after
 * capture_commit, before which the next frame replaces it. Returns false if the ring is full: the
 * frame is lost. Exposed for tests.
 */
bool capture_put(struct capture *c, uint64_t now_ns, const struct rte_mbuf *m, bool sent);
/* Worker. Passes the frame of the last capture_put, which was true, to the reader. */
void capture_commit(struct capture *c, struct capture_note note);

#endif
