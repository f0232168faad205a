/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero-copy frames: the payload stays in client memory until the port copies it, or until a
 * loopback frame is received. They have the same bytes as a copy, and payloads are copied wherever
 * the memory might change.
 */
#include <errno.h>
#include <string.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "qp/retire.h"
#include "qp/segs.h"

#define SQ         0x001000u /* as conn_rc has them */
#define RQ         0x555000u
#define VIEW_BYTES 500

static struct conn *
view_conn(void **state, struct conn_cfg cfg)
{
	struct bench *b = *state;

	engine_set_zero_copy(&b->engine, BENCH_DEV, VIEW_BYTES);
	return conn_open(b, cfg);
}

/* Number of mbuf segments of the emitted frames, which stay unexamined. */
static uint32_t
segs_of(struct conn *c, uint32_t frame)
{
	bench_run(c->b);
	assert_true(frame < c->b->nframes);
	return c->b->frame[frame]->nb_segs;
}

/* Every length around the threshold, the pads and the MTU, over both IPs. */
BENCH_TEST(zero_copy_frame_has_the_bytes_of_a_copy)
{
	static const uint32_t lens[] = {499, 500, 501, 502, 503, 1023, 1024, 1500, 1501, 2999};
	uint32_t v6, i, seen = 0, views = 0;

	for (v6 = 0; v6 < 2; v6++) {
		struct conn_cfg cfg = conn_rc;
		struct wire_pkt pkt;
		struct conn *c;

		cfg.v6 = v6;
		c = view_conn(state, cfg);
		for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			uint32_t off = 0;

			post(c, (struct wr){.id = i, .op = UROCE_WR_RDMA_WRITE, .len = lens[i]});
			bench_run(c->b);
			for (uint32_t k = 0; k < c->b->nframes; k++)
				views += c->b->frame[k]->nb_segs == 3;
			/* pkt_poll checks the ICRC */
			while (pkt_poll(c, &pkt)) {
				assert_int_equal(pkt.psn, conn_rc.sq_psn + seen++ % 14);
				assert_memory_equal(pkt.payload, c->local->bytes + off,
						    pkt.payload_len);
				off += pkt.payload_len;
			}
			assert_int_equal(off, lens[i]);
		}
	}
	assert_int_equal(seen, 2 * 14);
	assert_int_equal(views, 2 * 11); /* except 499, and the last packets of 1500 and 1501 */
}

/* AckReq is set in the last packet after it was built. */
BENCH_TEST(ackreq_can_be_set_after_a_zero_copy_frame_is_built)
{
	struct conn *c = view_conn(state, conn_rc);
	struct wire_pkt pkt;

	post_quiet(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .len = 600});
	post_quiet(c, (struct wr){.id = 2, .op = UROCE_WR_LOCAL_INV, .imm = 1});
	ring_doorbell(c);
	assert_int_equal(segs_of(c, 0), 3);
	assert_true(pkt_poll(c, &pkt));
	assert_true(pkt.ackreq);
	assert_int_equal(OBS(c, REQ_RETRANS), 0);
}

/* Memory changes between CRC and copy: the frame is lost, and its retransmission is a copy. */
BENCH_TEST(memory_changed_in_flight_is_a_lost_frame)
{
	struct conn *c = view_conn(state, conn_rc);
	struct rte_mbuf *m;
	struct wire_pkt pkt;

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .flags = SIG, .len = 600});
	assert_int_equal(segs_of(c, 0), 3);
	m = c->b->frame[--c->b->nframes];
	c->local->bytes[300] ^= 1;
	assert_int_equal(rte_pktmbuf_linearize(m), 0);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, &pkt), WIRE_OK);
	assert_false(wire_icrc_check(&pkt));
	rte_pktmbuf_free(m);
	bench_pass(c->b, 100000000);
	assert_int_equal(segs_of(c, 0), 1);
	c->local->bytes[301] ^= 1;
	pkt = pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ);
	assert_true(wire_icrc_check(&pkt));
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* Data that is not one mapped piece: inline, in two SGEs, or accessed by calls. */
BENCH_TEST(inline_scattered_and_remote_data_is_copied)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;
	struct uroce_sge two[2];
	uint8_t data[600] = {0};

	cfg.max_inline = 1024;
	c = view_conn(state, cfg);
	post_inline(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE}, data, sizeof(data));
	assert_int_equal(segs_of(c, 0), 1);
	for (uint32_t i = 0; i < 2; i++)
		two[i] = (struct uroce_sge){LOCAL_VA + 1000 * i, 400, c->local->mr.key};
	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_WRITE, .sge = two, .nsge = 2});
	assert_int_equal(segs_of(c, 1), 1);
	post(c, (struct wr){.id = 3, .op = UROCE_WR_SEND, .len = 600});
	assert_int_equal(segs_of(c, 2), 3);
	region_by_ops(c->local, UINT32_MAX);
	post(c, (struct wr){.id = 4, .op = UROCE_WR_SEND, .len = 600});
	assert_int_equal(segs_of(c, 3), 1);
	assert_int_equal(pkt_count(c), 4);
}

/* A READ's source may change while it is read, and the requester would wait for a timeout. */
BENCH_TEST(read_responses_are_copied)
{
	struct conn *c = view_conn(state, conn_rc);

	peer_read(c, RQ, REMOTE_VA, 600);
	assert_int_equal(segs_of(c, 0), 1);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ);
}

/*
 * UC messages complete when built, before a port copies them, and the client may reuse the memory.
 */
BENCH_TEST(unreliable_messages_are_copied)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.type = QP_TYPE_UC;
	c = view_conn(state, cfg);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .flags = SIG, .len = 600});
	assert_int_equal(segs_of(c, 0), 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	c->local->bytes[300] ^= 1;
	pkt_expect(c, WIRE_OP_WRITE_ONLY | WIRE_SVC_UC, SQ); /* with a good ICRC */
}

/* A packet that crosses the end of the first SGE is gathered, not viewed past that end. */
BENCH_TEST(zero_copy_frame_ends_with_its_sge)
{
	struct conn *c = view_conn(state, conn_rc);
	struct uroce_sge two[] = {{LOCAL_VA, 1500, c->local->mr.key},
				  {LOCAL_VA + 60000, 1500, c->local->mr.key}};
	uint8_t want[3000], got[3000];
	struct wire_pkt pkt;
	uint32_t i, len = 0;

	memcpy(want, c->local->bytes, 1500);
	memcpy(want + 1500, c->local->bytes + 60000, 1500);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = two, .nsge = 2});
	for (i = 0; i < 3; i++)
		assert_int_equal(segs_of(c, i), i == 0 ? 3 : 1);
	while (pkt_poll(c, &pkt)) {
		memcpy(got + len, pkt.payload, pkt.payload_len);
		len += pkt.payload_len;
	}
	assert_int_equal(len, sizeof(want));
	assert_memory_equal(got, want, sizeof(want));
}

/* Pads are zero, although the segment still holds the ICRC of an earlier frame without a pad. */
BENCH_TEST(pad_of_a_zero_copy_frame_is_zero)
{
	static const uint8_t zeros[3];
	struct conn *c = view_conn(state, conn_rc);
	struct qp_segs *segs = c->b->engine.env.segs;
	struct wire_pkt pkt;
	uint32_t pad;

	c->b->engine.env.segs = qp_segs_create("one", 1, SOCKET_ID_ANY);
	assert_non_null(c->b->engine.env.segs);
	for (pad = 0; pad < 4; pad++) {
		post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .len = 600});
		assert_int_equal(segs_of(c, 0), 3);
		assert_true(pkt_poll(c, &pkt));
		pkt_none(c); /* and frees it */
		post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .len = 600 - pad});
		assert_int_equal(segs_of(c, 0), 3);
		assert_true(pkt_poll(c, &pkt));
		assert_int_equal(pkt.payload_len, 600 - pad);
		assert_memory_equal(pkt.payload + pkt.payload_len, zeros, pad);
		pkt_none(c);
	}
	qp_segs_free(c->b->engine.env.segs);
	c->b->engine.env.segs = segs;
}

/*
 * mbuf segments return with their frames and are not lent again before. Until then payloads are
 * copied.
 */
BENCH_TEST(mbuf_segments_return_to_their_pool)
{
	struct conn *c = view_conn(state, conn_rc);
	struct qp_segs *segs = c->b->engine.env.segs;
	struct wire_pkt pkt;
	uint32_t i;

	c->b->engine.env.segs = qp_segs_create("few", 2, SOCKET_ID_ANY);
	assert_non_null(c->b->engine.env.segs);
	post(c, (struct wr){.id = 0,
			    .op = UROCE_WR_SEND,
			    .len = 600}); /* only the first pair is lent */
	assert_int_equal(segs_of(c, 0), 3);
	assert_false(qp_segs_whole(c->b->engine.env.segs));
	assert_true(pkt_poll(c, &pkt));
	pkt_none(c);
	assert_true(qp_segs_whole(c->b->engine.env.segs));
	for (uint32_t round = 0; round < 3; round++) {
		for (i = 0; i < 3; i++)
			post(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .len = 600 + i});
		for (i = 0; i < 3; i++)
			assert_int_equal(segs_of(c, i), i < 2 ? 3 : 1);
		assert_false(qp_segs_whole(c->b->engine.env.segs));
		for (i = 0; i < 3; i++) { /* pkt_poll checks the ICRC */
			assert_true(pkt_poll(c, &pkt));
			assert_int_equal(pkt.payload_len, 600 + i);
			assert_memory_equal(pkt.payload, c->local->bytes, 600 + i);
		}
		pkt_none(c); /* and frees the last */
		assert_true(qp_segs_whole(c->b->engine.env.segs));
		peer_ack(c, pkt.psn);
	}
	qp_segs_free(c->b->engine.env.segs);
	c->b->engine.env.segs = NULL;
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .len = 600});
	assert_int_equal(segs_of(c, 0), 1);
	c->b->engine.env.segs = segs;
}

/* The name is taken: qp_segs_create fails and leaks no memory. */
BENCH_TEST(mbuf_segments_need_an_unused_pool_name)
{
	struct qp_segs *first = qp_segs_create("taken", 2, SOCKET_ID_ANY);
	size_t before = 0;

	assert_non_null(first);
	for (uint32_t i = 0; i < 3; i++) {
		rte_errno = 0;
		assert_null(qp_segs_create("taken", 1000, SOCKET_ID_ANY));
		assert_int_equal(rte_errno, EEXIST);
		if (i == 0) /* the first log line may allocate memory */
			before = bench_heap();
	}
	assert_int_equal(bench_heap(), before);
	qp_segs_free(first);
}

/* The key is no longer valid when the packet is built. */
REQUIREMENT("MEM-03")
BENCH_TEST(zero_copy_send_with_a_stale_key_fails)
{
	struct conn *c = view_conn(state, conn_rc);

	region_drop(c->b, c->local);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .len = 600});
	pkt_none(c);
	send_cqe(c, 1, QP_WC_LOC_PROT_ERR);
}

/* A connection to a QP of the same device. */
static struct conn *
loop_conn(void **state, struct conn_cfg cfg)
{
	struct bench *b = *state;
	enum qp_state to = cfg.state;
	struct conn *c;

	engine_set_loop_zero_copy(&b->engine, VIEW_BYTES);
	cfg.state = QP_RESET;
	c = conn_open(b, cfg);
	c->path.loopback = true;
	cfg.state = to;
	conn_raise(c, &cfg);
	return c;
}

/* The last frame of the engine, unexamined. */
static struct rte_mbuf *
last_frame(struct conn *c)
{
	bench_run(c->b);
	assert_true(c->b->nframes > 0);
	return c->b->frame[c->b->nframes - 1];
}

/* Loopback frames keep their payload in client memory, and its latest contents count. */
BENCH_TEST(zero_copy_frames_loop_back)
{
	static const uint32_t lens[] = {499, 500, 501, 502, 503, 1024};

	for (uint32_t v6 = 0; v6 < 2; v6++) {
		struct conn_cfg cfg = conn_rc;
		struct wire_pkt pkt;
		struct conn *c;

		cfg.v6 = v6;
		c = loop_conn(state, cfg);
		for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			const struct rte_mbuf *m;

			post(c, (struct wr){.id = i, .op = UROCE_WR_RDMA_WRITE, .len = lens[i]});
			m = last_frame(c);
			assert_int_equal(m->nb_segs, 1);
			assert_int_equal(qp_view_is(m), lens[i] >= VIEW_BYTES);
			c->local->bytes[i] ^= 0xff;
			assert_true(pkt_poll(c, &pkt)); /* makes it a linear frame */
			assert_int_equal(pkt.payload_len, lens[i]);
			assert_int_equal(pkt.payload[0] == c->local->bytes[0],
					 i != 0 || lens[i] >= VIEW_BYTES);
			assert_memory_equal(pkt.payload + 1, c->local->bytes + 1, lens[i] - 1);
		}
	}
}

/*
 * Payloads whose memory may change before reception are copied: of UC, which completes before it is
 * received, and of READ responses, which a WRITE to that memory may follow.
 */
BENCH_TEST(read_responses_and_uc_loop_back_as_copies)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c = loop_conn(state, cfg);

	peer_read(c, RQ, REMOTE_VA, 600);
	assert_false(qp_view_is(last_frame(c)));
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ);
	cfg.type = QP_TYPE_UC;
	c = loop_conn(state, cfg);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .len = 600});
	assert_false(qp_view_is(last_frame(c)));
	pkt_expect(c, WIRE_OP_WRITE_ONLY | WIRE_SVC_UC, SQ);
}

/* A zero-copy frame for c with the headers of frame and len bytes of payload at payload. */
static struct rte_mbuf *
make_view(struct conn *c, const uint8_t *frame, uint32_t frame_len, const uint8_t *payload,
	  uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(c->b->engine.env.pool);
	struct wire_pkt pkt;
	uint32_t hdr_len;

	assert_non_null(m);
	assert_int_equal(wire_parse(frame, frame_len, &pkt), WIRE_OK);
	assert_int_equal(pkt.payload_len, len);
	hdr_len = (uint32_t)(pkt.payload - frame);
	memcpy(rte_pktmbuf_mtod(m, uint8_t *), frame, hdr_len);
	qp_view_set(m, hdr_len, (struct qp_view){payload, len, c->qp->conn.qpn}, frame_len);
	return m;
}

/* The engine gets the same. */
static void
put_view(struct conn *c, const uint8_t *frame, uint32_t frame_len, const uint8_t *payload,
	 uint32_t len)
{
	struct rte_mbuf *m = make_view(c, frame, frame_len, payload, len);

	engine_rx_loopback(&c->b->engine, c->b->now, BENCH_DEV, &m, 1);
}

/* To where it goes: the region of a WRITE, be it the very one it comes from; two SGEs. */
BENCH_TEST(loopback_zero_copy_frames_are_received)
{
	struct conn *c = loop_conn(state, conn_rc);
	uint8_t frame[WIRE_MAX_OVERHEAD + 1024], bytes[601], was[601];
	struct wire_fields f = {.opcode = WIRE_OP_WRITE_ONLY, .psn = RQ, .dmalen = 601};
	uint32_t len, i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	f.va = REMOTE_VA;
	f.rkey = c->remote->mr.key;
	len = peer_frame(c, f, 0, 601, frame);
	put_view(c, frame, len, bytes, 601);
	assert_memory_equal(c->remote->bytes, bytes, 601);

	f.psn++;
	f.va = REMOTE_VA + 10;
	memcpy(was, c->remote->bytes, 601);
	len = peer_frame(c, f, 0, 601, frame);
	put_view(c, frame, len, c->remote->bytes, 601);
	assert_memory_equal(c->remote->bytes + 10, was, 601);

	f = (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY, .psn = RQ + 2};
	recv_post(c, 1, 0, 1024);
	len = peer_frame(c, f, 0, 601, frame);
	put_view(c, frame, len, bytes, 601);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes, bytes, 601);
}

/* The client may reuse the memory of a flushed WQE: its frame counts as lost. */
REQUIREMENT("QP-19")
BENCH_TEST(zero_copy_frames_of_a_flushed_qp_are_not_received)
{
	struct conn *from = loop_conn(state, conn_rc), *c = loop_conn(state, conn_rc);
	uint8_t frame[WIRE_MAX_OVERHEAD + 1024], bytes[601] = {1, 2, 3};
	struct wire_fields f = {.opcode = WIRE_OP_SEND_ONLY, .psn = RQ};
	uint32_t len = peer_frame(c, f, 0, 601, frame);

	recv_post(c, 1, 0, 1024);
	qp_error(&c->b->engine.env, from->qp, QP_WC_SUCCESS);
	put_view(from, frame, len, bytes, 601);
	assert_int_equal(DROPS(c, QP_STATE), 1);
	cqe_none(c);
	put_view(c, frame, len, bytes, 601); /* of one that works */
	recv_cqe(c, 1, QP_WC_SUCCESS);
}

/* Nor are they kept as copies if they must wait, even if their QP is ready again by then. */
REQUIREMENT("QP-19")
BENCH_TEST(zero_copy_frames_of_a_flushed_qp_are_not_kept)
{
	struct conn *from = loop_conn(state, conn_rc), *c = loop_conn(state, conn_rc);
	struct engine *e = &c->b->engine;
	uint8_t frame[WIRE_MAX_OVERHEAD + 1024], bytes[601] = {1, 2, 3};
	struct wire_fields f = {.opcode = WIRE_OP_SEND_ONLY, .psn = RQ};
	uint32_t len = peer_frame(c, f, 0, 601, frame);
	struct rte_mbuf *kept = make_view(from, frame, len, bytes, 601),
			*lost = make_view(from, frame, len, bytes, 601);

	recv_post(c, 1, 0, 1024);
	engine_own(e, kept);
	qp_error(&e->env, from->qp, QP_WC_SUCCESS);
	bytes[0] = 4;
	engine_own(e, lost);
	from->qp->conn.state = QP_RTS;

	engine_rx_loopback(e, c->b->now, BENCH_DEV, &lost, 1);
	engine_rx_loopback(e, c->b->now, BENCH_DEV, &kept, 1);
	assert_int_equal(DROPS(c, QP_STATE), 1);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	bytes[0] = 1;
	assert_memory_equal(c->local->bytes, bytes, 601);
}

/* A frame to a QP of another worker has its own bytes and an ICRC, which the harness checks. */
BENCH_TEST(zero_copy_frames_are_handed_off_as_copies)
{
	struct conn *c = loop_conn(state, conn_rc);
	uint8_t frame[WIRE_MAX_OVERHEAD + 1024];
	uint32_t len;

	wire_tmpl_init(&c->peer, &c->peer_path, BENCH_QPN + 1, 0xffff);
	len = peer_frame(c, (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY, .psn = RQ}, 0, 601,
			 frame);
	put_view(c, frame, len, c->local->bytes, 601);
	assert_int_equal(c->b->handoffs, 1);
	qp_error(&c->b->engine.env, c->qp, QP_WC_SUCCESS);
	put_view(c, frame, len, c->local->bytes, 601);
	assert_int_equal(c->b->handoffs, 1);
	assert_int_equal(DROPS(c, QP_STATE), 1);
}
