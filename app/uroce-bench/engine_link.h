/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pair of engines (test/kit/engine_pair.h) with a clock, whose frames go through a pair of
 * net_ring ports. The options choose the messages.
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
	uint64_t lost_rng; /* --loss: state of the random numbers; the same in every run */
};

/* Connected, nothing posted. Exits with 1 when there is no memory. */
void engine_link_open(struct engine_link *l, const struct bench_options *o);
/* Frees everything except the ports, which the next link uses. */
void engine_link_close(struct engine_link *l);

/* Post the next message on connection i and, for SEND, its receive on the other side. */
void engine_link_post(struct engine_link *l, uint32_t i);
/* engine_pair_poll; exits with 1 when anything failed. */
uint32_t engine_link_poll(struct engine_link *l, unsigned side);

/* Send the frames that a node's engine has built. */
void engine_link_send(struct engine_link *l, unsigned side);
/*
 * Pass the frames that a node's port has received to its engine. Returns their number. With --loss:
 * one burst at most, as a worker does, so that frames wait in the port; drops their share.
 */
uint32_t engine_link_receive(struct engine_link *l, unsigned side);

/*
 * The minimum ns for a message of a sender without a transport: buffers from the pool, header
 * bytes, the CRC over BTH and the message in place, the port. Nothing may be in flight.
 */
double engine_link_bare_ns(struct engine_link *l);

/* Did the bytes of the last message in each place arrive? */
bool engine_link_verify(const struct engine_link *l);

#endif
