/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of a capture: order, wrap, lack of space. */
#include <stdlib.h>
#include <string.h>
#include <rte_mbuf.h>
#include "worker/capture.h"
#include "../../kit/unit.h"

#define RING      (1u << 17)
#define MAX_FRAME 9000

static uint8_t bytes[MAX_FRAME];

/* A frame of len bytes that start with its number, in one or two segments. */
static void
put(struct capture *c, uint32_t number, uint32_t len, bool sent)
{
	static uint8_t first[MAX_FRAME], second[MAX_FRAME];
	uint32_t split = number % 2 && len > 8 ? len / 2 : len;
	struct rte_mbuf tail = {.buf_addr = second, .data_len = (uint16_t)(len - split)};
	struct rte_mbuf m = {.buf_addr = first,
			     .data_len = (uint16_t)split,
			     .pkt_len = len,
			     .next = split < len ? &tail : NULL};

	memset(bytes, (int)number, sizeof(bytes));
	memcpy(bytes, &number, sizeof(number));
	memcpy(first, bytes, split);
	memcpy(second, bytes + split, len - split);
	/* A frame that is not passed on leaves no trace. */
	if (number % 3 == 0 && !capture_put(c, 999, &m, !sent))
		return;
	if (capture_put(c, 1000 + number, &m, sent))
		capture_commit(c, (struct capture_note){
					  number, number % 7, number % 5, {{(uint8_t)number}}});
}

static void
take(struct capture *c, uint32_t number, uint32_t len, bool sent)
{
	struct capture_frame f;

	assert_true(capture_peek(c, &f));
	assert_int_equal(f.len, len);
	assert_int_equal(f.frame_len, len);
	assert_int_equal(f.epoch_ns, 1000 + number);
	assert_true(f.sent == sent);
	assert_int_equal(f.note.qpn, number);
	assert_int_equal(f.note.drop, number % 7);
	assert_int_equal(f.note.flags, number % 5);
	assert_int_equal(f.note.fault.bytes[0], (uint8_t)number);
	memset(bytes, (int)number, sizeof(bytes));
	memcpy(bytes, &number, sizeof(number));
	assert_memory_equal(f.data, bytes, len);
	capture_done(c);
}

UNIT_TEST(captured_frames_equal_the_frames_on_the_wire)
{
	struct capture *c = capture_create(RING);
	struct capture_frame f;

	assert_false(capture_peek(c, &f));
	/* many laps of the ring, with frames that do not fit before its end */
	for (uint32_t i = 0; i < 1000; i++) {
		put(c, 2 * i, 60 + i * 37 % 8000, true);
		put(c, 2 * i + 1, 60 + i, false);
		take(c, 2 * i, 60 + i * 37 % 8000, true);
		take(c, 2 * i + 1, 60 + i, false);
		assert_false(capture_peek(c, &f));
	}
	assert_int_equal(capture_lost(c), 0);
	capture_free(c);
}

UNIT_TEST(frames_without_space_are_counted_and_spoil_nothing)
{
	struct capture *c = capture_create(RING);
	struct capture_frame f;
	uint32_t put_n = 0, next = 0;

	for (uint32_t round = 0; round < 20; round++) {
		uint64_t lost = capture_lost(c);

		while (capture_lost(c) == lost)
			put(c, put_n++, 4096 + round, false);
		/* all but the last are there, in order */
		for (; next + 1 < put_n; next++)
			take(c, next, 4096 + round, false);
		assert_false(capture_peek(c, &f));
		next = put_n;
	}
	assert_int_equal(capture_lost(c), 20);
	capture_free(c);
}
