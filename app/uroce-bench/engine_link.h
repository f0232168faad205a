/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pair of engines (test/kit/engine_pair.h) whose frames go through a pair of net_ring ports, with
 * the messages that the options say, and a clock.
 */
#ifndef UROCE_BENCH_ENGINE_LINK_H
#define UROCE_BENCH_ENGINE_LINK_H

#include "bench.h"
#include "test/kit/engine_pair.h"

#define ENGINE_LINK_BURST 32 /* frames taken from a port at a time, as a worker does */

struct engine_link {
	struct bench_options o;
	struct engine_pair pair;
	uint64_t now_ns;
};

/* Connected, nothing posted. Exits with 1 when there is no memory. */
void engine_link_open(struct engine_link *l, const struct bench_options *o);
/* Frees all; the ports live on and are used by the next link. */
void engine_link_close(struct engine_link *l);

/* Post the next message on connection i; and for SEND its receive at the other side. */
void engine_link_post(struct engine_link *l, uint32_t i);
/* engine_pair_poll; exits with 1 when anything failed. */
uint32_t engine_link_poll(struct engine_link *l, unsigned side);

/* Send what a node's engine has built. */
void engine_link_send(struct engine_link *l, unsigned side);
/* Pass the frames that a node's port has received to its engine. Returns their number. */
uint32_t engine_link_receive(struct engine_link *l, unsigned side);

/*
 * ns a message, at best, of a sender that has no transport: buffers of the pool, bytes of headers,
 * the CRC of BTH and of the message where it lies, the port. Nothing may be under way.
 */
double engine_link_bare_ns(struct engine_link *l);

/* Did the bytes of the last message in each place arrive? */
bool engine_link_verify(const struct engine_link *l);

#endif
