/* SPDX-License-Identifier: BSD-3-Clause */
/* The link's queue: its limit, its marks, and jitter that keeps the order of frames. */
#include <string.h>
#include "impair_fixture.h"
#include "wire/csum.h"
#include "wire/icrc.h"

static void
set_ecn(struct rte_mbuf *m, bool v6, uint8_t ecn)
{
	struct wire_ipv4 *ip = rte_pktmbuf_mtod_offset(m, struct wire_ipv4 *, WIRE_ETH_LEN);

	if (v6) {
		((struct wire_ipv6 *)ip)->ver_tc_flow |= rte_cpu_to_be_32((uint32_t)ecn << 20);
		return;
	}
	ip->tos |= ecn;
	ip->csum = 0;
	ip->csum = (rte_be16_t)~wire_ipv4_sum(ip);
}

/* A byte a microsecond. The frame that is being sent counts, too. */
FIXTURE_TEST(the_queue_takes_its_limit_and_no_more)
{
	struct fixture *r = *state;
	struct rte_mbuf *m = fixture_frame(WIRE_OP_SEND_ONLY, false, RIG_QPN, 0, RIG_PAYLOAD);
	uint32_t len = m->pkt_len, i;
	char spec[80];

	rte_pktmbuf_free(m);
	snprintf(spec, sizeof(spec), "rate=8Mbit,queue=%uB", 5 * len + 1);
	fixture_config(r, spec);
	fixture_stream(r, 0, 20, 20);
	assert_int_equal(CTR(r, QUEUE_DROP), 15);
	assert_int_equal(r->core.queue_peak, 5 * len);
	/* One byte too early for the next frame, then in time. */
	fixture_pass(r, (len - 2) * US);
	fixture_stream(r, 20, 1, 1);
	assert_int_equal(CTR(r, QUEUE_DROP), 16);
	fixture_pass(r, US);
	fixture_stream(r, 21, 2, 2);
	assert_int_equal(CTR(r, QUEUE_DROP), 17);
	for (i = 0; i < 10; i++)
		fixture_pass(r, len * US);
	EXPECT(r, 0, 1, 2, 3, 4, 21);
	assert_int_equal(CTR(r, RECEIVED), CTR(r, DELIVERED) + CTR(r, QUEUE_DROP));
	assert_int_equal(CTR(r, OVERFLOW), 0);
}

FIXTURE_TEST(what_waits_is_what_is_left_to_send)
{
	assert_int_equal(impair_queue_bytes(8000000, 5000, 5000), 0);
	assert_int_equal(impair_queue_bytes(8000000, 4000, 5000), 0);
	assert_int_equal(impair_queue_bytes(8000000, 105000, 5000), 100);
	assert_int_equal(impair_queue_bytes(0, 105000, 5000), 0);
	assert_int_equal(impair_queue_bytes(1000000000000, 20000000000, 0), 2500000000000);
}

/* Frames with this ECN field that are marked out of n, with 1000 bytes in the queue before each. */
static uint64_t
marks(struct fixture *r, const char *spec, bool v6, uint8_t ecn, uint32_t n)
{
	uint64_t before;
	uint32_t i;

	fixture_config(r, spec);
	before = CTR(r, QUEUE_MARK);
	for (i = 0; i < n; i++) {
		struct rte_mbuf *m = fixture_frame(WIRE_OP_SEND_ONLY, v6, RIG_QPN, i, 0);

		set_ecn(m, v6, ecn);
		r->core.link_free_ns = r->now + 1000;
		fixture_put_one(r, m);
		fixture_pass(r, 10 * US);
	}
	return CTR(r, QUEUE_MARK) - before;
}

FIXTURE_TEST(marks_follow_the_queue)
{
	struct fixture *r = *state;

	assert_int_equal(marks(r, "rate=8Gbit,kmin=1000B,kmax=2kB", false, 2, 300), 0);
	assert_int_equal(marks(r, "rate=8Gbit,kmax=1000B", false, 2, 300), 0);
	assert_int_equal(marks(r, "rate=8Gbit,kmin=500B,kmax=1000B,pmax=1%", false, 2, 300), 300);
	assert_int_equal(marks(r, "rate=8Gbit,kmin=500B,kmax=1000B,pmax=1%", true, 1, 300), 300);
	assert_int_equal(marks(r, "rate=8Gbit,kmin=500B,kmax=1000B", false, 0, 300), 0);
	assert_int_equal(marks(r, "rate=8Gbit,kmin=500B,kmax=1000B", true, 0, 300), 0);
	assert_int_equal(marks(r, "rate=8Gbit", false, 2, 100), 0);
	/* Half of pmax; four standard deviations of 1500 tosses. */
	assert_in_range(marks(r, "rate=8Gbit,kmin=500B,kmax=1500B,pmax=40%", false, 2, 1500),
			300 - 62, 300 + 62);
}

FIXTURE_TEST(marked_frames_are_valid)
{
	struct fixture *r = *state;

	for (int v6 = 0; v6 < 2; v6++) {
		r->out_n = 0;
		assert_int_equal(marks(r, "rate=8Gbit,kmin=1B,kmax=2B", v6 != 0, 2, 1), 1);
		assert_int_equal(r->out_n, 1);
		assert_int_equal(fixture_pkt(r, 0).tclass & 3, 3);
		struct wire_pkt pkt = fixture_pkt(r, 0);

		assert_true(wire_icrc_check(&pkt));
		rte_pktmbuf_free(r->out[0]);
	}
	r->out_n = 0;
}

/* Any protocol of IP, with a VLAN tag and with options of IPv4, is marked. */
FIXTURE_TEST(frames_of_the_kernel_are_marked)
{
	struct fixture *r = *state;
	uint8_t ip[24] = {0x46, 0x02, 0, 60, 0,  1, 0x40, 0, 64, 6, 0, 0,
			  10,   0,    0, 1,  10, 0, 0,    2, 1,  1, 1, 0};
	struct rte_mbuf *m = rte_pktmbuf_alloc(fixture_pool());
	uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, 18 + 60);
	uint32_t sum = 0, i;

	for (i = 0; i < sizeof(ip); i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	memset(p, 0, 18 + 60);
	memcpy(p + 12, "\x81\x00\x00\x05\x08\x00", 6);
	memcpy(p + 18, ip, sizeof(ip));
	fixture_config(r, "rate=8Gbit,kmin=1B,kmax=2B");
	r->core.link_free_ns = r->now + 1000;
	fixture_put_one(r, m);
	fixture_pass(r, 10 * US);
	assert_int_equal(r->out_n, 1);
	p = rte_pktmbuf_mtod_offset(r->out[0], uint8_t *, 18);
	assert_int_equal(p[1], 3);
	for (i = sum = 0; i < sizeof(ip); i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	/* No IP at all, or too short for its type: passes as it is. */
	r->core.link_free_ns = r->now + 1000;
	fixture_put_one(r, fixture_arp());
	m = rte_pktmbuf_alloc(fixture_pool());
	p = (uint8_t *)rte_pktmbuf_append(m, 20);
	memset(p, 0xff, 20);
	memcpy(p + 12, "\x86\xdd", 2);
	fixture_put_one(r, m);
	fixture_pass(r, 10 * US);
	assert_int_equal(r->out_n, 3);
	assert_int_equal(CTR(r, QUEUE_MARK), 1);
}

/* A frame with another reference is marked in a copy. */
FIXTURE_TEST(a_shared_frame_is_not_changed)
{
	struct fixture *r = *state;
	struct rte_mbuf *m = fixture_frame(WIRE_OP_SEND_ONLY, false, RIG_QPN, 0, 0);

	set_ecn(m, false, 2);
	rte_mbuf_refcnt_update(m, 1);
	fixture_config(r, "rate=8Gbit,kmin=1B,kmax=2B");
	r->core.link_free_ns = r->now + 1000;
	fixture_put_one(r, m);
	fixture_pass(r, 10 * US);
	assert_int_equal(CTR(r, QUEUE_MARK), 1);
	assert_ptr_not_equal(r->out[0], m);
	assert_int_equal(rte_pktmbuf_mtod(m, uint8_t *)[WIRE_ETH_LEN + 1] & 3, 2);
	rte_pktmbuf_free(m);
}

FIXTURE_TEST(ordered_jitter_keeps_the_order)
{
	struct fixture *r = *state;
	uint32_t i;

	fixture_config(r, "delay=100us,jitter=100us,ordered=yes");
	fixture_stream(r, 0, 500, 1);
	for (i = 0; i < 60; i++)
		fixture_pass(r, 10 * US);
	assert_int_equal(r->out_n, 500);
	for (i = 0; i < 500; i++)
		assert_int_equal(fixture_psn(r, i), i);
}

UNIT_PROGRAM(fixture_group_setup, NULL);
