/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection continues from its image on a fresh QP between two bursts of traffic (qp/image.h),
 * unnoticed by client and peer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "harness.h"
#include "conn_print.h"
#include "qp/image.h"

#define SQ  0x001000u
#define RQ  0x555000u
#define MTU 1024u

REQUIREMENT("REQ-01", "REQ-07")
BENCH_TEST(sends_in_flight_complete_after_a_move)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	client_does(c, 1, UROCE_WR_SEND, 8);
	client_does(c, 2, UROCE_WR_SEND, 3 * MTU);
	client_does(c, 3, UROCE_WR_RDMA_WRITE, 8);
	assert_int_equal(pkt_count(c), 5);
	peer_ack(c, SQ + 2); /* in the middle of the second */
	send_cqe(c, 1, QP_WC_SUCCESS);
	conn_move(c);
	pkt_none(c); /* nothing is retransmitted */
	client_does(c, 4, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 5);
	conn_move(c);
	peer_ack(c, SQ + 5);
	for (i = 2; i <= 4; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	cqe_none(c);
}

REQUIREMENT("REQ-04")
BENCH_TEST(lost_packet_is_retransmitted_after_a_move)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_does(c, 1, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	memset(c->sq.slots, 0xff,
	       c->sq.stride); /* the copy is used, not the client's present data */
	conn_move(c);
	bench_pass(c->b, 70000000); /* the ACK timeout is 67 ms */
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

REQUIREMENT("REQ-04")
BENCH_TEST(move_does_not_restore_used_retries)
{
	struct conn *c = conn_open(*state, CONN(cfg.retry_cnt = 1));

	client_does(c, 1, UROCE_WR_SEND, 8);
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	assert_int_equal(pkt_count(c), 2);
	conn_move(c);
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	state_expect(c, QP_ERR);
}

REQUIREMENT("REQ-08")
BENCH_TEST(half_answered_read_completes_after_a_move)
{
	struct conn *c = conn_open(*state, conn_rc);

	memset(c->local->bytes, 0, BENCH_BYTES);
	client_does(c, 1, UROCE_WR_RDMA_READ, 3 * MTU);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, MTU);
	conn_move(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 1, MTU, MTU);
	conn_move(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 2, 2 * MTU, MTU);
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes, bench_bytes, 3 * MTU);
	pkt_none(c);
}

REQUIREMENT("RSP-05")
BENCH_TEST(half_received_message_completes_after_a_move)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct uroce_sge sge[2] = {{LOCAL_VA, 1000, c->local->mr.key},
				   {LOCAL_VA + 5000, 3000, c->local->mr.key}};

	memset(c->local->bytes, 0, BENCH_BYTES);
	recv_post_sges(c, 7, sge, 2);
	recv_post(c, 8, 9000, 100);
	peer_send(c, WIRE_OP_SEND_FIRST, RQ, 0, MTU);
	ack_expect(c, RQ);
	memset(c->rq.slots, 0xff, c->rq.stride); /* what was taken counts */
	conn_move(c);
	peer_send(c, WIRE_OP_SEND_LAST, RQ + 1, MTU, 10);
	ack_expect(c, RQ + 1);
	assert_int_equal(recv_cqe(c, 7, QP_WC_SUCCESS).byte_len, MTU + 10);
	assert_memory_equal(c->local->bytes, bench_bytes, 1000);
	assert_memory_equal(c->local->bytes + 5000, bench_bytes + 1000, MTU + 10 - 1000);
	conn_move(c);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 0, 20);
	ack_expect(c, RQ + 2);
	recv_cqe(c, 8, QP_WC_SUCCESS);
}

REQUIREMENT("RSP-01", "RSP-04")
BENCH_TEST(duplicates_are_answered_after_a_move)
{
	struct conn_cfg cfg = conn_rc;
	struct wire_fields add = {.opcode = WIRE_OP_FETCH_ADD,
				  .psn = RQ,
				  .ackreq = true,
				  .va = REMOTE_VA,
				  .swap_add = 5};
	struct conn *c;
	uint64_t v;

	cfg.access |= MEM_REMOTE_ATOMIC;
	c = conn_open(*state, cfg);
	c->remote->mr.access |= MEM_REMOTE_ATOMIC;
	memset(c->remote->bytes, 0, 8);
	add.rkey = c->remote->mr.key;
	peer_put(c, add, 0, 0);
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ).orig == 0);
	peer_read(c, RQ + 1, REMOTE_VA + MTU, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 1);
	conn_move(c);
	peer_put(c, add, 0, 0); /* answered with the original result, not executed */
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ).orig == 0);
	memcpy(&v, c->remote->bytes, sizeof(v));
	assert_true(v == 5);
	peer_read(c, RQ + 1, REMOTE_VA + MTU, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 1);
	add.psn = RQ + 2;
	peer_put(c, add, 0, 0);
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + 2).orig == 5);
}

REQUIREMENT("QP-19")
BENCH_TEST(qp_in_error_keeps_flushing_after_a_move)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_does(c, 1, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 1);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	send_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	conn_move(c);
	state_expect(c, QP_ERR);
	client_does(c, 2, UROCE_WR_SEND, 8);
	recv_post(c, 3, 0, 8);
	ring_doorbell(c);
	send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	recv_cqe(c, 3, QP_WC_WR_FLUSH_ERR);
	pkt_none(c);
}

/* Result of qp_image_load for c's image with the byte at offset off changed, less bytes shorter. */
static int
load_changed(struct conn *c, size_t off, int less)
{
	size_t bytes = qp_image_bytes(c->qp);
	uint8_t *image = malloc(bytes);
	struct qp *fresh = conn_fresh_qp(c);
	struct qp_conn was = fresh->conn;
	int rc;

	qp_image_save(c->qp, image);
	image[off]++;
	rc = qp_image_load(fresh, c->b->sqes, image, bytes - (size_t)less);
	if (rc != 0)
		assert_memory_equal(&fresh->conn, &was, sizeof(was));
	qp_sqes_drop(&fresh->bind.sqes, c->b->sqes);
	qp_free(fresh);
	free(image);
	return rc;
}

BENCH_TEST(image_that_does_not_fit_is_refused)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_does(c, 1, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 1);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, spare2), 0), 0);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, version), 0), -EPROTO);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, qpn), 0), -EINVAL);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, type), 0), -EINVAL);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, cap), 0), -EINVAL);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, snd.head), 0), -EINVAL);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, snd.head) + 3, 0), -EINVAL);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, spare2), 1), -EINVAL);
	assert_int_equal(load_changed(c, 0, (int)qp_image_bytes(c->qp) - 4), -EINVAL);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

BENCH_TEST(image_without_space_for_copies_is_refused)
{
	struct bench *b = *state;
	struct conn *c;

	qp_sqe_pool_free(b->sqes);
	b->sqes = qp_sqe_pool_create(1, 0);
	assert_non_null(b->sqes);
	b->engine.env.sqes = b->sqes;
	c = conn_open(b, conn_rc);
	client_does(c, 1, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 1);
	assert_int_equal(load_changed(c, offsetof(struct qp_conn, spare2), 0), -ENOMEM);
	conn_move(c);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/*
 * A new field that qp_conn_print leaves out fails this: each bit of a connection that is not
 * padding changes the text.
 */
BENCH_TEST(every_field_of_a_connection_is_printed)
{
#if __has_builtin(__builtin_clear_padding)
	static char all[QP_CONN_PRINT_BYTES], text[QP_CONN_PRINT_BYTES];
	static uint8_t is_field[sizeof(struct qp_conn)];
	static union {
		struct qp_conn conn;
		uint8_t bytes[sizeof(struct qp_conn)];
	} u;
	size_t i, len;

	memset(&u, 0xff, sizeof(u));
	__builtin_clear_padding(&u.conn);
	memcpy(is_field, u.bytes, sizeof(is_field));
	len = qp_conn_print(&u.conn, text, sizeof(text));
	assert_in_range(len, 1000, sizeof(text) - 1); /* numbers have never more digits */
	memset(&u, 0, sizeof(u));
	qp_conn_print(&u.conn, all, sizeof(all));
	for (i = 0; i < 8 * sizeof(u.bytes); i++) {
		if ((is_field[i / 8] >> i % 8 & 1) == 0)
			continue;
		u.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		qp_conn_print(&u.conn, text, sizeof(text));
		if (strcmp(text, all) == 0)
			fail_msg("byte %zu bit %zu of struct qp_conn is not printed", i / 8, i % 8);
		u.bytes[i / 8] = 0;
	}
#else
	skip();
#endif
}

BENCH_TEST(text_of_a_connection_is_cut_off)
{
	struct conn *c = conn_open(*state, conn_rc);
	char all[QP_CONN_PRINT_BYTES], some[100];
	size_t len = qp_conn_print(&c->qp->conn, all, sizeof(all));

	assert_int_equal(strlen(all), len);
	assert_non_null(strstr(all, "\nsnd.una_psn 4096\n"));
	memset(some, 'x', sizeof(some));
	assert_int_equal(qp_conn_print(&c->qp->conn, some, sizeof(some) - 1), len);
	assert_int_equal(strlen(some), sizeof(some) - 2);
	assert_memory_equal(some, all, sizeof(some) - 2);
	assert_int_equal(some[sizeof(some) - 1], 'x');
	assert_int_equal(qp_conn_print(&c->qp->conn, NULL, 0), len);
}
