/* SPDX-License-Identifier: BSD-3-Clause */
/* Which frames a device leaves to the kernel (engine_set_hostif). */
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "victim.h"

/* A byte of good_frame that makes it another kind of frame, and whose that is. */
static const struct row {
	enum drop_reason why; /* without hostif, or in any case */
	bool v6, kernels;
	uint8_t at, to;
} rows[] = {
	{DROP_ETHERTYPE, false, true, 13, 0x08},  {DROP_IP_PROTOCOL, false, true, 23, 6},  /* TCP */
	{DROP_IP_PROTOCOL, true, true, 20, 6},    {DROP_IP_PROTOCOL, false, true, 23, 47}, /* GRE */
	{DROP_IPV6_EXTENSION, true, true, 20, 0}, {DROP_FRAGMENT, true, true, 20, 44},
	{DROP_FRAGMENT, false, true, 20, 0x20},   {DROP_UDP_PORT, false, true, 37, 0xb6},
	{DROP_UDP_PORT, true, true, 57, 0xb6},    {DROP_NOT_OURS, false, false, 1, 0x77},
	{DROP_BAD_VLAN, false, false, 12, 0x88}, /* 802.1ad, with byte 13 */
	{DROP_BAD_IP, false, false, 24, 0x55},   /* header checksum of RoCE */
	{DROP_BAD_UDP, true, false, 59, 9},       {DROP_BAD_ICRC, false, false, 60, 0x99},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void
rx_row(struct victim *v, const struct row *r)
{
	uint8_t frame[MAX_FRAME];
	uint32_t len = good_frame(v->c, frame);

	frame[r->at] = r->to;
	if (r->why == DROP_BAD_VLAN)
		frame[13] = 0xa8;
	frame_rx(v->c->b, frame, len);
}

BENCH_TEST(only_other_protocols_go_to_the_kernel)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		struct victim v = victim_open(state, rows[i].v6);

		engine_set_hostif(&v.c->b->engine, BENCH_DEV, true);
		rx_row(&v, &rows[i]);
		if (rows[i].kernels) {
			assert_int_equal(v.c->b->hosted, 1);
			assert_int_equal(OBS(v.c, SLOW_PATH), 1);
			assert_int_equal(DROPS(v.c, SLOW_PATH_FULL), 0);
			assert_int_equal(v.c->b->counters.drop[rows[i].why], 0);
		} else {
			assert_int_equal(v.c->b->hosted, 0);
			expect_dropped(&v, rows[i].why);
		}
		bench_teardown(state);
		bench_setup(state);
	}
}

BENCH_TEST(without_hostif_the_kernel_gets_none)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		struct victim v = victim_open(state, rows[i].v6);

		rx_row(&v, &rows[i]);
		assert_int_equal(v.c->b->hosted, 0);
		expect_dropped(&v, rows[i].why);
		bench_teardown(state);
		bench_setup(state);
	}
}

BENCH_TEST(a_full_queue_to_the_kernel_is_counted)
{
	struct victim v = victim_open(state, false);

	engine_set_hostif(&v.c->b->engine, BENCH_DEV, true);
	v.c->b->host_full = true;
	rx_row(&v, &rows[1]);
	expect_dropped(&v, DROP_SLOW_PATH_FULL);
}
