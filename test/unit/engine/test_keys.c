/* SPDX-License-Identifier: BSD-3-Clause */
/* The key table, capabilities and QPN table (MEM-01, MEM-02, LIFE-02, LIFE-03). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "harness.h"

/* The caller draws all 32 bits of a key; the top bits are its slot. */
REQUIREMENT("MEM-01")
UNIT_TEST(caller_chooses_all_variable_bits_of_a_key)
{
	static const uint32_t keys[] = {0x20000123, 0x3fffffff, 0x40000000, 0xffffffff, 0x8badf00d};
	struct mr m[5];
	struct mr_table t;
	uint32_t i, bit;

	assert_int_equal(mr_table_init(&t, 16), 0);
	for (i = 0; i < 5; i++) {
		m[i] = (struct mr){.len = 8, .pd = 1};
		assert_int_equal(mr_table_add(&t, &m[i], keys[i]), 0);
		assert_int_equal(m[i].key, keys[i]);
	}
	for (i = 0; i < 5; i++) {
		assert_ptr_equal(mr_lookup(&t, keys[i], 1, 0, 8, 0), &m[i]);
		for (bit = 0; bit < 32; bit++)
			assert_null(mr_lookup(&t, keys[i] ^ 1u << bit, 1, 0, 8, 0));
	}
	mr_table_free(&t);
}

/* Of all keys of all slots, one is right. */
REQUIREMENT("MEM-01")
UNIT_TEST(guessed_key_fails)
{
	struct mr a = {.len = 8, .pd = 1};
	struct mr_table t;
	uint32_t slot, low, found = 0;

	assert_int_equal(mr_table_init(&t, 8), 0);
	assert_int_equal(mr_table_add(&t, &a, 0x90000abc), 0);
	for (slot = 0; slot < 8; slot++) {
		for (low = 0; low < 1 << 20; low++)
			found += mr_lookup(&t, slot << 29 | low | 1 << 28, 1, 0, 8, 0) != NULL;
	}
	assert_null(mr_lookup(&t, UINT32_MAX, 1, 0, 8, 0));
	assert_null(mr_lookup(&t, 0x80000abc, 1, 0, 8, 0));
	assert_int_equal(found, 1);
	mr_table_free(&t);
}

/* Key 0 is never valid, not even for a window without a key. */
REQUIREMENT("MEM-01")
UNIT_TEST(key_0_is_never_valid)
{
	struct mr a = {.len = 8, .pd = 1, .kind = MR_WINDOW_1}, window;
	struct mr_table t;
	uint32_t k;

	assert_int_equal(mr_table_init(&t, 1 << 21), 0);
	for (k = 0; k < 1 << 11; k++)
		assert_int_equal(mr_table_add(&t, &a, k), -EEXIST);
	assert_int_equal(mr_table_add(&t, &a, 1 << 11), 0);
	a.key = 0;
	assert_null(mr_lookup_remote(&t, 0, 1, 0, 0, 8, 0, &window));
	mr_table_free(&t);
}

/* The key of a deregistered region whose slot is reused or requested. */
REQUIREMENT("MEM-01")
UNIT_TEST(stale_key_fails)
{
	struct mr a = {.len = 8, .pd = 1}, b = a;
	struct mr_table t;

	assert_int_equal(mr_table_init(&t, 4), 0);
	assert_int_equal(mr_table_add(&t, &a, 0x80000101), 0);
	mr_table_del(&t, &a);
	assert_null(mr_lookup(&t, a.key, 1, 0, 8, 0));
	/* The next region in the slot gets neither that key nor one of the same window. */
	assert_int_equal(mr_table_add(&t, &b, 0x80000101), -EEXIST);
	assert_int_equal(mr_table_add(&t, &b, 0x800001ff), -EEXIST);
	assert_int_equal(mr_table_add(&t, &b, 0x80000201), 0);
	assert_null(mr_lookup(&t, a.key, 1, 0, 8, 0));
	assert_ptr_equal(mr_lookup(&t, b.key, 1, 0, 8, 0), &b);
	mr_table_free(&t);
}

/* Half of the slots, so that few draws collide. */
REQUIREMENT("MEM-01")
UNIT_TEST(full_key_table_refuses_a_region)
{
	struct mr m[5] = {{0}};
	struct mr_table t;
	uint32_t i;

	assert_int_equal(mr_table_init(&t, 8), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(mr_table_add(&t, &m[i], (i + 1) << 29 | i), 0);
	assert_int_equal(mr_table_add(&t, &m[4], 7u << 29), -ENOMEM);
	mr_table_del(&t, &m[3]);
	assert_int_equal(mr_table_add(&t, &m[4], 3u << 29 | 0x1000), -EEXIST); /* taken */
	assert_int_equal(mr_table_add(&t, &m[4], 7u << 29), 0);
	assert_int_equal(mr_table_init(&t, 3), -EINVAL);
	assert_int_equal(mr_table_init(&t, 1), -EINVAL);
	assert_int_equal(mr_table_init(&t, 1u << 22), -EINVAL);
	mr_table_free(&t);
}

/* mr_table_free frees all memory of the table. */
UNIT_TEST(key_table_frees_its_memory)
{
	size_t before = bench_heap();
	struct mr_table t;
	uint32_t n;

	for (n = 1 << 10; n <= MR_TABLE_MAX_SLOTS; n *= 2) {
		assert_int_equal(mr_table_init(&t, n), 0);
		mr_table_free(&t);
		assert_int_equal(bench_heap(), before);
	}
}

/* A hidden region is not found, keeps its slot, and returns with its key. */
REQUIREMENT("MEM-04")
UNIT_TEST(hidden_region_keeps_its_slot)
{
	struct mr a = {.len = 8, .pd = 1}, b = {.len = 8, .pd = 1}, none = {.pd = UINT32_MAX},
		  window;
	struct mr_table t;

	assert_int_equal(mr_table_init(&t, 4), 0);
	assert_int_equal(mr_table_add(&t, &a, 0x40000700), 0);
	mr_table_hide(&t, &a);
	mr_table_hide(&t, &a);
	assert_null(mr_lookup(&t, a.key, 1, 0, 8, 0));
	assert_null(mr_lookup_remote(&t, a.key, 1, 9, 0, 8, 0, &window));
	assert_null(mr_lookup(&t, 0x40000000, none.pd, 0, 0, 0));
	assert_int_equal(mr_table_add(&t, &b, 0x40001700), -EEXIST);
	assert_int_equal(mr_table_add(&t, &b, 0x80001700), 0);
	mr_table_show(&t, &a);
	assert_ptr_equal(mr_lookup(&t, a.key, 1, 0, 8, 0), &a);
	assert_ptr_equal(mr_lookup(&t, b.key, 1, 0, 8, 0), &b);
	mr_table_hide(&t, &a);
	mr_table_del(&t, &a);
	assert_int_equal(mr_table_add(&t, &a, 0x40001700), 0);
	mr_table_free(&t);
}

struct range {
	uint64_t addr, len;
	bool inside;
};

/* A region at the bottom, in the middle and at the top of the address space. */
REQUIREMENT("MEM-02")
UNIT_TEST(range_check_does_not_overflow)
{
	static const struct {
		uint64_t iova, len;
		struct range r[10];
	} cases[] = {
		{0,
		 100,
		 {{0, 100, true},
		  {0, 101, false},
		  {99, 1, true},
		  {100, 0, true},
		  {100, 1, false},
		  {1, UINT64_MAX, false},
		  {UINT64_MAX, 1, false},
		  {UINT64_MAX, 2, false},
		  {0, 0, true},
		  {101, 0, false}}},
		{4096,
		 4096,
		 {{4096, 4096, true},
		  {4095, 1, false},
		  {4095, 4097, false},
		  {8191, 1, true},
		  {8191, 2, false},
		  {4096, UINT64_MAX, false},
		  {4097, UINT64_MAX - 4096, false},
		  {0, 8192, false},
		  {8192, 0, true},
		  {4096, 0, true}}},
		{UINT64_MAX - 99,
		 100,
		 {{UINT64_MAX - 99, 100, true},
		  {UINT64_MAX - 99, 101, false},
		  {UINT64_MAX, 1, true},
		  {UINT64_MAX, 2, false},
		  {0, 0, true}, /* its end, like 100 and 8192 above */
		  {0, 1, false},
		  {UINT64_MAX - 100, 1, false},
		  {UINT64_MAX - 1, 2, true},
		  {UINT64_MAX - 1, 3, false},
		  {UINT64_MAX - 99, UINT64_MAX, false}}},
	};
	uint32_t i, j;

	for (i = 0; i < 3; i++) {
		struct mr m = {.iova = cases[i].iova, .len = cases[i].len, .pd = 1};
		struct mr_table t;

		assert_int_equal(mr_table_init(&t, 2), 0);
		assert_int_equal(mr_table_add(&t, &m, 0x80000005), 0);
		for (j = 0; j < 10; j++) {
			const struct range *r = &cases[i].r[j];

			if ((mr_lookup(&t, m.key, 1, r->addr, r->len, 0) != NULL) != r->inside)
				fail_msg("region %u range %u", i, j);
		}
		mr_table_free(&t);
	}
}

/* Every requested right must be granted and the protection domain must be the same. */
REQUIREMENT("MEM-02")
UNIT_TEST(access_needs_rights_and_the_protection_domain)
{
	struct mr_table t;
	uint32_t has, wants;

	for (has = 0; has < 16; has++) {
		struct mr m = {.len = 8, .pd = 5, .access = has};

		assert_int_equal(mr_table_init(&t, 2), 0);
		assert_int_equal(mr_table_add(&t, &m, 0x80000009), 0);
		for (wants = 0; wants < 16; wants++) {
			bool good = (wants & ~has) == 0;

			assert_int_equal(mr_lookup(&t, m.key, 5, 0, 8, wants) != NULL, good);
			assert_null(mr_lookup(&t, m.key, 4, 0, 8, wants));
			assert_null(mr_lookup(&t, m.key, 0, 0, 8, wants));
		}
		mr_table_free(&t);
	}
}

REQUIREMENT("LIFE-03")
UNIT_TEST(granted_capabilities_cover_the_request)
{
	static const struct uroce_qp_cap wants[] = {
		{0, 0, 0, 0, 0},
		{1, 1, 1, 1, 1},
		{17, 33, 3, 5, 65},
		{100, 1000, 8, 2, 220},
		{16384, 16384, 32, 32, 1024},
	};
	uint32_t i;

	for (i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		const struct uroce_qp_cap *w = &wants[i];
		struct uroce_qp_cap g;

		assert_int_equal(qp_cap_grant(w, &g), 0);
		assert_true(g.max_send_wr >= w->max_send_wr && g.max_send_wr >= 1);
		assert_true(g.max_recv_wr >= w->max_recv_wr && g.max_recv_wr >= 1);
		assert_true(g.max_send_sge >= w->max_send_sge);
		assert_true(g.max_recv_sge >= w->max_recv_sge);
		assert_true(g.max_inline >= w->max_inline);
		/* Rings are powers of two; granted SGEs and inline data fit a slot. */
		assert_int_equal(g.max_send_wr & (g.max_send_wr - 1), 0);
		assert_int_equal(g.max_recv_wr & (g.max_recv_wr - 1), 0);
		assert_true(g.max_inline <=
			    uroce_sq_stride(g.max_send_sge, g.max_inline) - UROCE_SEND_WQE_HDR);
	}
}

REQUIREMENT("LIFE-02")
UNIT_TEST(capabilities_over_the_limits_are_refused)
{
	static const struct uroce_qp_cap wants[] = {
		{16385, 1, 1, 1, 0}, {1, 16385, 1, 1, 0}, {1, 1, 33, 1, 0},
		{1, 1, 1, 33, 0},    {1, 1, 1, 1, 1025},  {UINT32_MAX, 1, 1, 1, 0},
	};
	uint32_t i;

	for (i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		struct uroce_qp_cap g = {7, 7, 7, 7, 7}, was = g;

		assert_int_equal(qp_cap_grant(&wants[i], &g), EINVAL);
		assert_memory_equal(&g, &was, sizeof(g));
	}
}

/* The largest path MTU whose packets fit the link, headers and all. */
REQUIREMENT("WIRE-05")
UNIT_TEST(path_mtu_is_the_largest_that_fits_the_link)
{
	static const uint32_t mtus[] = {256, 512, 1024, 2048, 4096};
	uint32_t i, most = 0;

	/* Of the packets that carry a payload, the one with the longest headers, over IPv6. */
	for (i = 0; i < 256; i++) {
		if (wire_op_table[i].flags & (WIRE_F_SEND | WIRE_F_WRITE))
			most = RTE_MAX(most, wire_op_table[i].hdr_len);
	}
	most += WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_ICRC_LEN;
	assert_int_equal(qp_mtu_code(0), 0);
	for (i = 0; i < 5; i++) {
		assert_int_equal(qp_mtu_code(mtus[i] + most), i + 1);
		assert_int_equal(qp_mtu_code(mtus[i] + most - 1), i);
	}
	assert_int_equal(qp_mtu_code(1500), 3);
	assert_int_equal(qp_mtu_code(9000), 5);
}
