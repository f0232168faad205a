/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of the peer with something bent, and their ICRC right; IPv4 only. */
#ifndef TEST_ENGINE_BEND_H
#define TEST_ENGINE_BEND_H

#include "harness.h"
#include "wire/csum.h"

#define BEND_FRAME (WIRE_MAX_OVERHEAD + 4096) /* room for one */

/* A frame to be bent; BTH at c->peer.bth_off. */
static inline uint32_t
bend_request(struct conn *c, uint8_t op, uint32_t psn, uint32_t len, uint8_t *frame)
{
	struct wire_fields f = {.opcode = op,
				.psn = psn,
				.ackreq = true,
				.va = REMOTE_VA,
				.rkey = c->remote->mr.key,
				.dmalen = len};

	return peer_frame(c, f, 0, len, frame);
}

static inline void
bend_opcode(struct conn *c, uint8_t *frame, uint8_t op)
{
	frame[c->peer.bth_off] = op;
}

static inline void
bend_pad(struct conn *c, uint8_t *frame, uint32_t pad)
{
	frame[c->peer.bth_off + 1] = (uint8_t)((frame[c->peer.bth_off + 1] & ~0x30) | pad << 4);
}

/*
 * Removes by bytes from the payload's end of an IPv4 frame, before the ICRC. Returns the new
 * length.
 */
static inline uint32_t
bend_shorten(struct conn *c, uint8_t *frame, uint32_t len, uint32_t by)
{
	struct wire_ipv4 *ip = (struct wire_ipv4 *)(frame + c->peer.ip_off);
	struct wire_udp *udp = (struct wire_udp *)(ip + 1);

	ip->total_len = rte_cpu_to_be_16((uint16_t)(rte_be_to_cpu_16(ip->total_len) - by));
	udp->len = rte_cpu_to_be_16((uint16_t)(rte_be_to_cpu_16(udp->len) - by));
	ip->csum = 0;
	ip->csum = (rte_be16_t)~wire_ipv4_sum(ip);
	return len - by;
}

static inline void
bend_put(struct conn *c, uint8_t *frame, uint32_t len)
{
	frame_seal(c, frame, len);
	frame_rx(c->b, frame, len);
}

static inline void
bend_put_reserved(struct conn *c, uint8_t op, uint32_t psn)
{
	uint8_t frame[BEND_FRAME];
	uint32_t len = bend_request(c, WIRE_OP_WRITE_ONLY, psn, 16, frame);

	bend_opcode(c, frame, op);
	bend_put(c, frame, len);
}

/* A new bench, for the next row of a table; connections of the old one are gone. */
static inline void
next_bench(void **state)
{
	assert_int_equal(bench_teardown(state), 0);
	bench_setup(state);
}

static inline void
expect_untouched(const struct bench_region *r)
{
	uint32_t i;

	for (i = 0; i < r->mr.len; i++)
		assert_int_equal(r->bytes[i], 0);
}

static inline uint64_t
all_drops(const struct conn *c)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < DROP_NUM; i++)
		n += c->b->counters.drop[i];
	return n;
}

#endif
