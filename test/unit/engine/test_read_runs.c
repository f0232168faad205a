/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * READs into memory that is accessed by ops: the responses of a burst, to one or several READs, are
 * stored by one operation.
 */
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"

#define SQ  conn_rc.sq_psn
#define MTU 1024u
#define LEN (2 * MTU - 9) /* of each READ: two responses */

/* One READ: LEN bytes of bench_bytes, from this offset on, to offset to of region mem. */
struct reading {
	const struct bench_region *mem;
	uint32_t to;
};

static struct conn *
conn_reading(void **state)
{
	struct conn *c = conn_open(*state, conn_rc);

	region_by_ops(c->local, UINT32_MAX);
	memset(c->local->bytes, 7, BENCH_BYTES);
	return c;
}

/* Posts READs with the ids 0 .. n - 1; their requests are sent. */
static void
reads_post(struct conn *c, const struct reading *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct uroce_sge sge = {.addr = r[i].mem->mr.iova + r[i].to,
					.length = LEN,
					.lkey = r[i].mem->mr.key};

		post(c, (struct wr){.id = i,
				    .op = UROCE_WR_RDMA_READ,
				    .flags = SIG,
				    .len = LEN,
				    .sge = &sge,
				    .nsge = 1});
		pkt_expect(c, WIRE_OP_READ_REQ, SQ + 2 * i);
	}
}

/* The responses with PSN offsets first .. first + n - 1 arrive in one burst. */
static void
responses(struct conn *c, uint32_t first, uint32_t n)
{
	struct rte_mbuf *m[16];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = first + i, bytes = k % 2 == 0 ? MTU : LEN - MTU;
		struct wire_fields f = {.opcode = k % 2 == 0 ? WIRE_OP_READ_RESP_FIRST
							     : WIRE_OP_READ_RESP_LAST,
					.psn = SQ + k,
					.syndrome = WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS};
		uint8_t frame[MTU + WIRE_MAX_OVERHEAD];
		uint32_t len = peer_frame(c, f, k * MTU, bytes, frame);

		m[i] = rte_pktmbuf_alloc(c->b->engine.env.pool);
		assert_non_null(m[i]);
		memcpy(rte_pktmbuf_append(m[i], (uint16_t)len), frame, len);
	}
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, n);
}

/* READ i has all its data, and no byte behind it. */
static void
data_expect(const struct reading *r, uint32_t i)
{
	const uint8_t *at = r->mem->bytes + r->to;

	assert_memory_equal(at, bench_bytes + 2 * i * MTU, LEN);
	assert_int_equal(at[LEN], 7);
}

REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(reads_of_a_burst_are_stored_at_once)
{
	struct conn *c = conn_reading(state);
	struct reading r[] = {{c->local, 8 * MTU}, {c->local, 0}, {c->local, 4 * MTU}};

	reads_post(c, r, 3);
	responses(c, 0, 6);
	assert_int_equal(c->local->stores, 1);
	for (uint32_t i = 0; i < 3; i++) {
		send_cqe(c, i, QP_WC_SUCCESS);
		data_expect(&r[i], i);
	}
}

/* Bursts that begin and end within a READ. Nothing of the next burst counts as stored. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(run_ends_with_its_burst)
{
	struct conn *c = conn_reading(state);
	struct reading r[] = {{c->local, 0}, {c->local, 4 * MTU}, {c->local, 8 * MTU}};

	reads_post(c, r, 3);
	responses(c, 0, 3);
	assert_int_equal(c->local->stores, 1);
	send_cqe(c, 0, QP_WC_SUCCESS);
	cqe_none(c);
	data_expect(&r[0], 0);
	assert_int_equal(r[1].mem->bytes[r[1].to + MTU], 7);
	responses(c, 3, 3);
	assert_int_equal(c->local->stores, 2);
	for (uint32_t i = 1; i < 3; i++) {
		send_cqe(c, i, QP_WC_SUCCESS);
		data_expect(&r[i], i);
	}
}

/* The last one of several READs into the same memory determines its contents. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(reads_into_the_same_memory_are_stored_in_order)
{
	struct conn *c = conn_reading(state);
	struct reading r[] = {{c->local, 0}, {c->local, 0}};

	reads_post(c, r, 2);
	responses(c, 0, 4);
	assert_int_equal(c->local->stores, 1);
	send_cqe(c, 0, QP_WC_SUCCESS);
	send_cqe(c, 1, QP_WC_SUCCESS);
	data_expect(&r[1], 1);
}

/* If the memory of the second READ is gone, the first one succeeds. */
REQUIREMENT("MEM-05", "CQE-04")
BENCH_TEST(later_read_fails_alone)
{
	struct conn *c = conn_reading(state);
	struct reading r[] = {{c->local, 0}, {c->local, 4 * MTU}};

	c->local->edge = 5 * MTU;
	reads_post(c, r, 2);
	responses(c, 0, 4);
	send_cqe(c, 0, QP_WC_SUCCESS);
	send_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	data_expect(&r[0], 0);
	assert_int_equal(c->local->bytes[4 * MTU], 7);
	state_expect(c, QP_ERR);
}

/* A READ into another region, whose bytes the operation does not reach. */
REQUIREMENT("MEM-05", "MEM-02")
BENCH_TEST(read_into_another_region_is_stored_there)
{
	struct conn *c = conn_reading(state);
	struct reading r[] = {{c->local, 0}, {c->remote, 4 * MTU}, {c->local, 4 * MTU}};

	region_by_ops(c->remote, UINT32_MAX);
	memset(c->remote->bytes, 7, BENCH_BYTES);
	reads_post(c, r, 3);
	responses(c, 0, 6);
	assert_int_equal(c->local->stores, 2);
	assert_int_equal(c->remote->stores, 1);
	for (uint32_t i = 0; i < 3; i++) {
		send_cqe(c, i, QP_WC_SUCCESS);
		data_expect(&r[i], i);
	}
}

/* Nothing completes while the memory is late. All of it is stored at once when it answers. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(late_run_is_stored_later)
{
	struct conn *c = conn_reading(state);
	struct reading r[] = {{c->local, 0}, {c->local, 4 * MTU}};

	reads_post(c, r, 2);
	c->local->late = 1;
	responses(c, 0, 4);
	cqe_none(c);
	assert_int_equal(c->local->stores, 0);
	bench_pass(c->b, 100000); /* RETRY_NS of engine/rx_late.c */
	for (uint32_t i = 0; i < 2; i++) {
		send_cqe(c, i, QP_WC_SUCCESS);
		data_expect(&r[i], i);
	}
	assert_int_equal(c->local->stores, 1);
	pkt_none(c);
}

/* A lost response ends the run: the READ behind it is requested again, not stored early. */
REQUIREMENT("MEM-05", "REQ-08")
BENCH_TEST(run_ends_before_a_lost_response)
{
	struct conn *c = conn_reading(state);
	struct reading r[] = {{c->local, 0}, {c->local, 4 * MTU}};
	struct rte_mbuf *m[2];

	reads_post(c, r, 2);
	for (uint32_t i = 0; i < 2; i++) { /* the first READ's last and the second one's last */
		struct wire_fields f = {.opcode = WIRE_OP_READ_RESP_LAST,
					.psn = SQ + 1 + 2 * i,
					.syndrome = WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS};
		uint8_t frame[MTU + WIRE_MAX_OVERHEAD];
		uint32_t len = peer_frame(c, f, (1 + 2 * i) * MTU, LEN - MTU, frame);

		m[i] = rte_pktmbuf_alloc(c->b->engine.env.pool);
		assert_non_null(m[i]);
		memcpy(rte_pktmbuf_append(m[i], (uint16_t)len), frame, len);
	}
	responses(c, 0, 1);
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, 2);
	send_cqe(c, 0, QP_WC_SUCCESS);
	cqe_none(c);
	data_expect(&r[0], 0);
	assert_int_equal(c->local->bytes[5 * MTU], 7);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 2);
	responses(c, 2, 2);
	send_cqe(c, 1, QP_WC_SUCCESS);
	data_expect(&r[1], 1);
}
