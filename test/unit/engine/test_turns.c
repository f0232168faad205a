/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's own business: turns, full arrays, missing buffers, timers, paths. */
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "wire/icrc.h"

#define SQ 0x001000u
#define RQ 0x555000u

/* Frames that were built and not yet sent. */
static struct wire_pkt
frame_at(const struct engine *e, uint32_t i)
{
	const struct rte_mbuf *m = e->env.tx[i];
	struct wire_pkt pkt;

	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, &pkt), WIRE_OK);
	return pkt;
}

/* A port that takes nothing: the array fills to its end and no further, and nothing is lost. */
BENCH_TEST(full_tx_array_ends_the_run)
{
	struct conn *c = conn_open(*state, conn_rc), *other = conn_open(*state, conn_rc);
	struct qp_env *env = &c->b->engine.env;

	client_sends(c, 1, 100 * 1024);
	client_sends(other, 1, 100 * 1024);
	assert_true(engine_run(&c->b->engine, c->b->now));
	assert_int_equal(env->tx_n, ENGINE_TX_CAP);
	assert_true(engine_run(&c->b->engine, c->b->now));
	assert_int_equal(env->tx_n, ENGINE_TX_CAP);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8); /* there is no space for its response either */
	assert_true(engine_run(&c->b->engine, c->b->now));
	assert_int_equal(env->tx_n, ENGINE_TX_CAP);
	assert_int_equal(pkt_count(c), 100 + 100 + 1);
}

/* Without buffers there is no spinning and no loss; the QP continues when buffers return. */
BENCH_TEST(run_without_mbufs_sends_later)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct rte_mempool *pool = c->b->engine.env.pool;
	static struct rte_mbuf *all[8192];
	uint32_t n = 0;

	recv_post(c, 9, 0, 64);
	bench_run(c->b);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	while (n < 8192 && (all[n] = rte_pktmbuf_alloc(pool)) != NULL)
		n++;
	client_sends(c, 1, 8);
	assert_true(engine_run(&c->b->engine, c->b->now));
	assert_int_equal(c->b->engine.env.tx_n, 0);
	rte_pktmbuf_free_bulk(all, n);
	pkt_expect(c, WIRE_OP_ACK, RQ);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	pkt_none(c);
	recv_cqe(c, 9, QP_WC_SUCCESS);
}

/* A device with a separate pool: frames of requester and responder come from it. */
BENCH_TEST(frames_come_from_the_pool_of_their_device)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct engine *e = &c->b->engine;
	struct rte_mempool *all = e->env.pool;
	/* freed after the frames that still use it; it has a cache, all has none */
	struct rte_mempool *own = rte_pktmbuf_pool_create("own", 63, 8, 0, 4608, SOCKET_ID_ANY);

	assert_non_null(own);
	engine_set_pool(e, BENCH_DEV, own);
	recv_post(c, 9, 0, 64);
	bench_run(c->b);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	client_sends(c, 1, 8);
	engine_run(e, c->b->now);
	assert_int_equal(e->env.tx_n, 2);
	assert_ptr_equal(e->env.tx[0]->pool, own);
	assert_ptr_equal(e->env.tx[1]->pool, own);
	engine_set_pool(e, BENCH_DEV, NULL);
	client_sends(c, 2, 8);
	engine_run(e, c->b->now);
	assert_int_equal(e->env.tx_n, 3);
	assert_ptr_equal(e->env.tx[2]->pool, all);
	engine_set_pool(e, BENCH_DEV, own);
	client_sends(c, 3, 8);
	engine_run(e, c->b->now);
	assert_ptr_equal(e->env.tx[3]->pool, own);
	recv_cqe(c, 9, QP_WC_SUCCESS);
}

/*
 * Buffers run out in the middle of a message: packets with buffers are sent, the rest when buffers
 * return, and each packet once.
 */
BENCH_TEST(message_continues_when_buffers_return)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct engine *e = &c->b->engine;
	/* freed after the frames that the bench holds, with everything */
	struct rte_mempool *few = rte_pktmbuf_pool_create("few", 5, 0, 0, 4608, SOCKET_ID_ANY);
	uint32_t psn = SQ;

	assert_non_null(few);
	engine_set_pool(e, BENCH_DEV, few);
	client_sends(c, 1, 13 * 1024);
	while (engine_run(e, c->b->now)) {
		assert_int_equal(e->env.tx_n, 5);
		for (uint32_t i = 0; i < 5; i++, psn++) {
			assert_int_equal(frame_at(e, i).psn, psn);
			rte_pktmbuf_free(e->env.tx[i]);
		}
		e->env.tx_n = 0;
	}
	assert_int_equal(psn, SQ + 10);
	pkt_expect(c, WIRE_OP_SEND_MIDDLE, psn);
	pkt_expect(c, WIRE_OP_SEND_MIDDLE, psn + 1);
	pkt_expect(c, WIRE_OP_SEND_LAST, psn + 2);
	pkt_none(c);
	peer_ack(c, psn + 2);
	send_cqe(c, 1, QP_WC_SUCCESS);
	engine_set_pool(e, BENCH_DEV, NULL);
	assert_int_equal(OBS(c, REQ_RETRANS), 0);
}

/* A buffer's earlier use does not show: neither its data offset nor its offload flags. */
BENCH_TEST(old_contents_of_a_buffer_do_not_show)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct engine *e = &c->b->engine;
	static struct rte_mbuf *all[8192];
	uint32_t n = 0;

	while (n < 8192 && (all[n] = rte_pktmbuf_alloc(e->env.pool)) != NULL) {
		all[n]->data_off = (uint16_t)n;
		all[n]->data_len = 9;
		all[n]->pkt_len = 99;
		all[n++]->ol_flags = RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_VLAN;
	}
	rte_pktmbuf_free_bulk(all, n);
	recv_post(c, 9, 0, 64);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	client_sends(c, 1, 8);
	engine_run(e, c->b->now);
	assert_int_equal(e->env.tx_n, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(e->env.tx[i]->data_off, RTE_PKTMBUF_HEADROOM);
		assert_int_equal(e->env.tx[i]->pkt_len, e->env.tx[i]->data_len);
		assert_int_equal(e->env.tx[i]->ol_flags, 0);
		assert_int_equal(e->env.tx[i]->nb_segs, 1);
	}
	recv_cqe(c, 9, QP_WC_SUCCESS);
}

/* ACKs precede turns but take at most half of the space; then a turn follows. */
BENCH_TEST(responses_take_at_most_half_of_a_turn)
{
	struct conn *c[6];
	struct engine *e;
	uint32_t i;

	for (i = 0; i < 6; i++)
		c[i] = conn_open(*state, conn_rc);
	e = &c[0]->b->engine;
	bench_run(c[0]->b);
	client_sends(c[0], 1, (ENGINE_TX_CAP / 2 - 2) * 1024);
	engine_run(e, c[0]->b->now);
	assert_int_equal(e->env.tx_n, ENGINE_TX_CAP / 2 - 2);
	client_sends(c[1], 1, 8);
	for (i = 2; i < 6; i++) {
		recv_post(c[i], 9, 0, 64);
		peer_send(c[i], WIRE_OP_SEND_ONLY, RQ, 0, 8);
	}
	engine_run(e, c[0]->b->now);
	assert_int_equal(e->env.tx_n, ENGINE_TX_CAP / 2 + 3);
	i = ENGINE_TX_CAP / 2 - 2;
	assert_int_equal(frame_at(e, i++).opcode, WIRE_OP_ACK);
	assert_int_equal(frame_at(e, i++).opcode, WIRE_OP_ACK);
	assert_int_equal(frame_at(e, i++).opcode, WIRE_OP_SEND_ONLY);
	assert_int_equal(frame_at(e, i++).opcode, WIRE_OP_ACK);
	assert_int_equal(frame_at(e, i++).opcode, WIRE_OP_ACK);
}

/* A READ does not precede turns, nor does an ACK that must wait for the READ. */
BENCH_TEST(reads_of_several_qps_take_turns)
{
	struct conn *c = conn_open(*state, conn_rc), *asked = conn_open(*state, conn_rc),
		    *other = conn_open(*state, conn_rc);
	struct engine *e = &c->b->engine;

	bench_run(c->b);
	client_sends(c, 1, 8);
	recv_post(asked, 9, 0, 64);
	peer_read(asked, RQ, REMOTE_VA, 2 * 1024);
	peer_send(asked, WIRE_OP_SEND_ONLY, RQ + 2, 0, 8);
	recv_post(other, 9, 0, 64);
	peer_send(other, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	engine_run(e, c->b->now);
	assert_int_equal(e->env.tx_n, 5);
	assert_int_equal(frame_at(e, 0).opcode, WIRE_OP_ACK);
	assert_int_equal(frame_at(e, 1).opcode, WIRE_OP_SEND_ONLY);
	assert_int_equal(frame_at(e, 2).opcode, WIRE_OP_READ_RESP_FIRST);
	assert_int_equal(frame_at(e, 3).opcode, WIRE_OP_READ_RESP_LAST);
	assert_int_equal(frame_at(e, 4).opcode, WIRE_OP_ACK);
}

/* Requests that c has sent, each for the first time. */
static uint32_t
sent(const struct conn *c)
{
	return c->qp->conn.snd.next_psn - SQ;
}

/* A QP waits for at most one quantum of each other QP. */
BENCH_TEST(turns_are_fair)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c[4];
	struct engine *e;
	uint32_t i;

	cfg.mtu_code = 1;
	for (i = 0; i < 4; i++) {
		c[i] = conn_open(*state, cfg);
		client_sends(c[i], 1, 100 * 256);
	}
	e = &c[0]->b->engine;
	for (i = 0; i < 4; i++) {
		e->env.tx_cap = e->env.tx_n + ENGINE_QUANTUM;
		engine_run(e, c[0]->b->now);
		assert_int_equal(sent(c[i]), ENGINE_QUANTUM);
		assert_int_equal(e->env.tx_n, ENGINE_QUANTUM);
		while (e->env.tx_n != 0)
			rte_pktmbuf_free(e->env.tx[--e->env.tx_n]);
	}
	e->env.tx_cap = ENGINE_TX_CAP;
}

/* A user's QP waits for at most one turn of another user's QPs, however many of these are busy. */
BENCH_TEST(users_take_turns)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *many[4], *other;
	struct engine *e;
	uint32_t i;

	cfg.mtu_code = 5;
	cfg.uid = 1000;
	for (i = 0; i < 4; i++)
		many[i] = conn_open(*state, cfg);
	cfg.uid = 1001;
	other = conn_open(*state, cfg);
	assert_int_not_equal(other->qp->bind.run_user, many[0]->qp->bind.run_user);
	e = &other->b->engine;
	bench_run(other->b);
	client_sends(many[0], 0, 8);
	bench_run(other->b);
	assert_int_equal(pkt_count(other), 1);
	for (i = 0; i < 4; i++)
		client_sends(many[i], 1, 30 * 4096);
	client_sends(other, 1, 8);
	engine_run(e, other->b->now);
	assert_int_equal(frame_at(e, 15).opcode, WIRE_OP_SEND_MIDDLE);
	assert_int_equal(frame_at(e, 16).opcode, WIRE_OP_SEND_ONLY);
	/* It has a turn as soon as it is ready again, in the middle of the others. */
	client_sends(other, 2, 8);
	assert_int_equal(e->env.tx_n, ENGINE_TX_BYTES / 4096 + 1);
	while (e->env.tx_n != 0)
		rte_pktmbuf_free(e->env.tx[--e->env.tx_n]);
	engine_run(e, other->b->now);
	for (i = 0; frame_at(e, i).opcode != WIRE_OP_SEND_ONLY; i++)
		assert_true(i < 16);
	/* Without them it is alone again. */
	while (engine_run(e, other->b->now) || e->env.tx_n != 0) {
		while (e->env.tx_n != 0)
			rte_pktmbuf_free(e->env.tx[--e->env.tx_n]);
	}
	client_sends(other, 3, 8);
	engine_run(e, other->b->now);
	assert_int_equal(e->env.tx_n, 1);
	assert_false(run_list_is_shared(&e->run));
}

static void
frames_free(struct engine *e)
{
	while (e->env.tx_n != 0)
		rte_pktmbuf_free(e->env.tx[--e->env.tx_n]);
}

/*
 * While a user is paused, its QPs send nothing, get nothing and no timer; other users' do. Then
 * they go on where they were.
 */
BENCH_TEST(paused_users_wait)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c, *other;
	struct engine *e;
	uint32_t timers;

	cfg.uid = 1000;
	c = conn_open(*state, cfg);
	recv_post(c, 9, 0, 64);
	bench_run(c->b);
	cfg.uid = 1001;
	other = conn_open(*state, cfg);
	bench_run(c->b);
	e = &c->b->engine;
	client_sends(c, 1, 8); /* ready before the pause, and again within it */
	engine_pause_user(e, c->qp->bind.run_user, true);
	engine_pause_user(e, c->qp->bind.run_user, true);
	assert_false(engine_run(e, c->b->now));
	client_sends(c, 2, 8);
	client_sends(other, 3, 8);
	assert_false(engine_run(e, c->b->now));
	assert_int_equal(e->env.tx_n, 1);
	assert_int_equal(sent(c), 0);
	frames_free(e);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	assert_int_equal(c->b->counters.drop[DROP_PAUSED], 1);
	assert_int_equal(c->qp->conn.rcv.epsn, RQ);
	timers = c->b->timers_set;
	engine_timer(e, c->b->now, c->qp);
	assert_int_equal(c->b->timers_set, timers + 1);
	assert_true(c->qp->bind.timer_at_ns > c->b->now);

	engine_pause_user(e, c->qp->bind.run_user, false);
	engine_pause_user(e, c->qp->bind.run_user, false);
	engine_run(e, c->b->now);
	assert_int_equal(sent(c), 2);
	frames_free(e);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	assert_int_equal(c->b->counters.drop[DROP_PAUSED], 1);
	assert_int_equal(c->qp->conn.rcv.epsn, RQ + 1);
}

/* What busy users send is the same for each, however many of their QPs are busy. */
BENCH_TEST(users_have_equal_shares)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c[7];
	uint32_t of_many = 0, i, n;
	struct engine *e;

	cfg.mtu_code = 5;
	for (i = 0; i < 7; i++) {
		cfg.uid = i == 6 ? 1001 : 1000;
		c[i] = conn_open(*state, cfg);
		client_sends(c[i], 1, 30 * 4096);
	}
	client_sends(c[6], 2, 30 * 4096);
	client_sends(c[6], 3, 30 * 4096);
	e = &c[0]->b->engine;
	for (n = 0; n < 2; n++) {
		engine_run(e, c[0]->b->now);
		while (e->env.tx_n != 0)
			rte_pktmbuf_free(e->env.tx[--e->env.tx_n]);
	}
	for (i = 0; i < 6; i++)
		of_many += sent(c[i]);
	assert_in_range(of_many, sent(c[6]) - 16, sent(c[6]) + 16);
	assert_int_equal(of_many + sent(c[6]), 2 * ENGINE_TX_BYTES / 4096);
}

/* Of long packets a turn has fewer, be they requests or responses. */
BENCH_TEST(turns_of_long_packets_are_limited_in_bytes)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c, *asked, *other;
	struct engine *e;
	uint32_t i, resp = 0;

	cfg.mtu_code = 5;
	c = conn_open(*state, cfg);
	asked = conn_open(*state, cfg);
	other = conn_open(*state, conn_rc);
	e = &c->b->engine;
	bench_run(c->b);
	peer_read(asked, RQ, REMOTE_VA, 28 * 4096);
	client_sends(c, 1, 28 * 4096);
	client_sends(other, 1, 8);
	engine_run(e, c->b->now);
	assert_int_equal(e->env.tx_n, 28 + 28 + 1);
	for (i = 0; frame_at(e, i).opcode != WIRE_OP_SEND_ONLY; i++)
		resp += (frame_at(e, i).op->flags & WIRE_F_RESP) != 0;
	assert_int_equal(i, 16 + 16); /* and then 12 of each */
	assert_int_equal(resp, 16);
}

/* A lone QP sends a full burst in one turn, which requests fewer ACKs than many turns would. */
REQUIREMENT("RSP-02")
BENCH_TEST(lone_qp_has_long_turns)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c, *other;
	struct engine *e;
	uint32_t i;

	cfg.mtu_code = 5;
	cfg.sq_entries = cfg.cq_entries = 64;
	c = conn_open(*state, cfg);
	e = &c->b->engine;
	bench_run(c->b);
	for (i = 0; i < 48; i++)
		client_sends(c, i, 4096);
	engine_run(e, c->b->now);
	assert_int_equal(e->env.tx_n, 48);
	for (i = 0; i < 48; i++)
		assert_int_equal(frame_at(e, i).ackreq, i == 31 || i == 47);
	assert_int_equal(pkt_count(c), 48);
	peer_ack(c, SQ + 47);
	other = conn_open(*state, conn_rc);
	bench_run(c->b); /* until the queue is empty: c's client rings a doorbell again */
	for (i = 0; i < 17; i++)
		client_sends(c, i, 4096);
	client_sends(other, 1, 8);
	engine_run(e, c->b->now);
	assert_int_equal(e->env.tx_n, 18);
	for (i = 0; i < 18; i++)
		assert_int_equal(frame_at(e, i).ackreq, i >= 15);
}

/* A run of the engine is limited too: its frames are sent before it builds more. */
BENCH_TEST(runs_of_long_packets_are_limited_in_bytes)
{
	struct conn_cfg cfg = conn_rc;
	struct engine *e = &((struct bench *)*state)->engine;
	uint32_t i;

	cfg.mtu_code = 5;
	for (i = 0; i < 5; i++)
		client_sends(conn_open(*state, cfg), 1, 30 * 4096);
	assert_true(engine_run(e, ((struct bench *)*state)->now));
	assert_int_equal(e->env.tx_n, ENGINE_TX_BYTES / 4096);
	assert_true(engine_run(e, ((struct bench *)*state)->now));
	assert_int_equal(e->env.tx_n, ENGINE_TX_BYTES / 4096);
	/* The port takes half of them. */
	e->env.tx_n /= 2;
	rte_pktmbuf_free_bulk(e->env.tx + e->env.tx_n, e->env.tx_n);
	assert_true(engine_run(e, ((struct bench *)*state)->now));
	assert_in_range(e->env.tx_n, ENGINE_TX_BYTES / 4096,
			(ENGINE_TX_BYTES + QP_TURN_BYTES) / 4096 - 1);
}

/* Answering a READ does not block the QP's own requests. */
BENCH_TEST(requester_and_responder_both_make_progress)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct wire_pkt p;
	uint32_t resp = 0, req = 0;

	peer_read(c, RQ, REMOTE_VA, 64 * 1024);
	client_sends(c, 1, 30 * 1024);
	while (pkt_poll(c, &p)) {
		if (p.op->flags & WIRE_F_RESP)
			resp++;
		else
			req++;
	}
	assert_int_equal(resp, 64);
	assert_int_equal(req, 30);
}

BENCH_TEST(forgotten_qp_is_off_the_run_list)
{
	struct conn *c = conn_open(*state, conn_rc), *other = conn_open(*state, conn_rc);

	client_sends(c, 1, 8);
	client_sends(other, 1, 8);
	engine_last_turn(&c->b->engine, c->b->now, c->qp);
	engine_forget(&c->b->engine, c->qp);
	engine_forget(&c->b->engine, c->qp);
	assert_int_equal(pkt_count(other), 1); /* RC has no last turn */
}

/*
 * A message is executed, its receiver has seen the data and destroys the QP before the next turn:
 * the requester gets its ACK, as from a NIC.
 */
REQUIREMENT("RSP-02")
BENCH_TEST(executed_request_is_acknowledged_before_destroy)
{
	struct conn *c = conn_open(*state, conn_rc);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	engine_last_turn(&c->b->engine, c->b->now, c->qp);
	engine_forget(&c->b->engine, c->qp);
	pkt_expect(c, WIRE_OP_ACK, RQ);
	pkt_none(c);
}

/* A timer that fires early is armed again and does nothing else. */
REQUIREMENT("REQ-04")
BENCH_TEST(early_timer_rearms_and_does_nothing_else)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint64_t due;

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	due = c->qp->bind.timer_at_ns;
	assert_true(due > c->b->now);
	engine_timer(&c->b->engine, c->b->now + 5, c->qp);
	pkt_none(c);
	assert_true(c->qp->bind.timer_at_ns == due);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 0);
	/* The same with nothing outstanding. */
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	engine_timer(&c->b->engine, due + 1, c->qp);
	pkt_none(c);
	assert_int_equal(c->qp->bind.timer_at_ns, 0);
}

/* A nearer deadline than the timer set: the RNR wait must not wait for the ACK timeout's. */
REQUIREMENT("REQ-06")
BENCH_TEST(timer_is_brought_forward)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_nak(c, SQ, WIRE_SYN_RNR | 1); /* 10 us; the ACK timeout is 67 ms */
	assert_true(c->qp->bind.timer_at_ns == c->b->now + 10000);
}

/* A GID of the same device: the frame is marked and never reaches the wire. */
BENCH_TEST(loopback_frames_are_marked)
{
	struct conn *c = conn_open(*state, CONN(cfg.state = QP_RESET));

	c->path.loopback = true;
	conn_raise(c, &conn_rc);
	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY,
		   SQ); /* the harness compares the mark with qp->conn.loopback */
	assert_true(c->qp->conn.loopback);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	answer_expect(c, RQ, WIRE_SYN_RNR | 12);
}

/* Gives b the frame without its ICRC, as a loopback frame or as one from outside. */
static void
put_unsealed(struct bench *b, const uint8_t *frame, uint32_t len, bool own)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(b->engine.env.pool);
	uint8_t *p;

	assert_non_null(m);
	p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	memcpy(p, frame, len);
	memset(p + len - WIRE_ICRC_LEN, 0, WIRE_ICRC_LEN);
	if (own)
		engine_rx_loopback(&b->engine, b->now, BENCH_DEV, &m, 1);
	else
		engine_rx(&b->engine, b->now, BENCH_DEV, &m, 1);
}

/* Frames within the engine have no ICRC; frames from and to the outside need one. */
REQUIREMENT("WIRE-03")
BENCH_TEST(loopback_needs_no_icrc)
{
	struct conn *c = conn_open(*state, CONN(cfg.state = QP_RESET));
	struct wire_pkt pkt;
	uint8_t frame[WIRE_MAX_OVERHEAD + 8];
	uint32_t len;

	c->path.loopback = true;
	conn_raise(c, &conn_rc);
	client_sends(c, 1, 8);
	assert_true(pkt_poll(c, &pkt));
	assert_false(wire_icrc_check(&pkt));

	recv_post(c, 1, 0, 64);
	len = peer_frame(c, (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY, .psn = RQ}, 0, 8,
			 frame);
	put_unsealed(c->b, frame, len, false);
	pkt_none(c);
	assert_int_equal(c->b->counters.drop[DROP_BAD_ICRC], 1);
	put_unsealed(c->b, frame, len, true);
	recv_cqe(c, 1, QP_WC_SUCCESS);

	wire_tmpl_init(&c->peer, &c->peer_path, BENCH_QPN + 1, 0xffff);
	len = peer_frame(c, (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY, .psn = RQ}, 0, 8,
			 frame);
	put_unsealed(c->b, frame, len, true);
	assert_int_equal(c->b->handoffs, 1); /* the harness checks its ICRC */
}

/* The next hop is not yet known: responses wait for it. */
REQUIREMENT("RSP-02")
BENCH_TEST(responses_wait_for_the_next_hop)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint8_t mac[6] = {2, 9, 9, 9, 9, 9};

	c->qp->conn.path_ok = false;
	recv_post(c, 1, 0, 64);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_read(c, RQ + 1, REMOTE_VA, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	pkt_none(c);
	memcpy(c->path.wire.dmac, mac, 6);
	qp_path_resolved(&c->b->engine.env, c->qp, mac);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 1);
	pkt_none(c);
	client_sends(c, 2, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
}

/* Bytes of the frames in tx from index i on. */
static uint64_t
bytes_from(const struct engine *e, uint32_t i)
{
	uint64_t n = 0;

	for (; i < e->env.tx_n; i++)
		n += e->env.tx[i]->pkt_len;
	return n;
}

/* A QP's traffic: its frames with headers, in its turns and ahead of them, and no other QP's. */
BENCH_TEST(frames_count_as_their_qps_traffic)
{
	struct conn *c = conn_open(*state, conn_rc), *other = conn_open(*state, conn_rc);
	struct engine *e = &c->b->engine;
	uint64_t sent, got;

	client_sends(c, 1, 5000);
	assert_true(!engine_run(e, c->b->now));
	sent = bytes_from(e, 0);
	assert_true(sent > 5000);
	assert_int_equal(c->qp->conn.tx_bytes, sent);
	assert_int_equal(other->qp->conn.tx_bytes, 0);

	recv_post(other, 2, 0, 64);
	peer_send(other, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	got = other->qp->conn.rx_bytes;
	assert_true(got > 8 + WIRE_BTH_LEN);
	assert_int_equal(c->qp->conn.rx_bytes, 0);
	(void)engine_run(e, c->b->now);
	assert_int_equal(other->qp->conn.tx_bytes, bytes_from(e, 0) - sent); /* its ACK */
	assert_true(other->qp->conn.tx_bytes != 0);
	assert_int_equal(c->qp->conn.tx_bytes, sent);

	peer_send(other, WIRE_OP_SEND_ONLY, RQ, 0, 8); /* a duplicate is traffic, too */
	assert_int_equal(other->qp->conn.rx_bytes, 2 * got);
	other->qp->conn.state = QP_ERR; /* does not take it */
	peer_send(other, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	assert_int_equal(other->qp->conn.rx_bytes, 2 * got);
}
