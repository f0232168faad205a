/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of a packet does not grow with what a client has: counted in instructions. */
#include <stdlib.h>
#include <string.h>
#include "harness.h"
#include "requester/requester_parts.h"
#include "requester/selective.h"
#include "../../kit/steps.h"

#define SQ   0x001000u
#define DEEP QP_RTX_WQES /* WQEs in flight, at most */
#define FEW  16u

/* A connection with n WQEs in flight, of one packet each. */
static struct conn *
conn_busy(void **state, uint32_t n)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.sq_entries = cfg.cq_entries = 2 * DEEP;
	c = conn_open(*state, cfg);
	c->qp->conn.snd.cc.window_pkts = DEEP;
	for (uint32_t i = 0; i < n; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), n);
	assert_int_equal(c->qp->conn.snd.head - c->qp->conn.snd.tail, n);
	return c;
}

/* The work takes few instructions, and many with much more of what it must not depend on. */
static void
expect_less(const char *what, uint64_t few, uint64_t many, uint64_t limit)
{
	print_message("%s: %lu and %lu instructions\n", what, (unsigned long)few,
		      (unsigned long)many);
	if (!STEPS_COUNTED)
		skip();
	assert_true(few > 0 && many < limit);
}

struct look_up {
	struct qp *qp;
	uint32_t psn, i;
	struct qp_sq_entry *e;
};

static void
look_up(void *arg)
{
	struct look_up *l = arg;

	l->e = req_entry_of(l->qp, l->psn, &l->i);
}

/* Instructions to find the newest WQE in flight, from the oldest on. */
static uint64_t
look_up_steps(const struct conn *c, uint32_t n)
{
	struct look_up l = {.qp = c->qp, .psn = SQ + n - 1, .i = c->qp->conn.snd.tail};
	uint64_t steps = steps_of(look_up, &l);

	assert_ptr_equal(l.e, qp_sq_entry(c->qp, c->qp->conn.snd.head - 1));
	return steps;
}

BENCH_TEST(look_up_does_not_walk_the_wqes)
{
	uint64_t few = look_up_steps(conn_busy(state, FEW), FEW);
	uint64_t deep = look_up_steps(conn_busy(state, DEEP), DEEP);

	expect_less("look-up", few, deep, 3 * few);
}

/* Every WQE is found by its first and last PSN, from every WQE before it on. */
static void
look_up_from_all(struct conn *c, uint32_t at, uint32_t una)
{
	struct qp_snd *snd = &c->qp->conn.snd;
	struct qp_sq_entry *e = qp_sq_entry(c->qp, at);
	uint32_t end = psn_add(e->first_psn, e->npkts - 1), from;
	struct look_up l = {.qp = c->qp};

	for (from = snd->tail; from != at + 1; from++) {
		l.i = from;
		l.psn = at == snd->tail ? una : e->first_psn;
		look_up(&l);
		assert_ptr_equal(l.e, e);
		assert_int_equal(l.i, at);
		l.i = from;
		l.psn = end;
		look_up(&l);
		assert_ptr_equal(l.e, e);
	}
	if (at + 1 == snd->head)
		return;
	/* It is before the next one. */
	l.i = at + 1;
	look_up(&l);
	assert_null(l.e);
}

/*
 * WQEs without a PSN, with one, with several, and the largest ones: together they span more than
 * half of the circle of PSNs.
 */
BENCH_TEST(look_up_finds_wqes_of_every_size)
{
	static const uint32_t sizes[] = {1u << 23, 1, 0, 3, 1, 0, 0, 1,
					 64,       1, 1, 2, 1, 0, 5, 1u << 23};
	struct conn *c = conn_busy(state, RTE_DIM(sizes));
	struct qp_snd *snd = &c->qp->conn.snd;
	uint32_t psn = 0xffff00, una = psn_add(psn, sizes[0] - 9), k;
	struct look_up l = {.qp = c->qp};

	for (k = 0; k < RTE_DIM(sizes); k++) {
		struct qp_sq_entry *e = qp_sq_entry(c->qp, snd->tail + k);

		e->first_psn = psn;
		e->npkts = sizes[k];
		psn = psn_add(psn, sizes[k]);
	}
	snd->una_psn = una;
	for (k = 0; k < RTE_DIM(sizes); k++) {
		if (sizes[k] != 0)
			look_up_from_all(c, snd->tail + k, una);
	}
	l.i = snd->tail;
	l.psn = psn; /* behind all */
	look_up(&l);
	assert_null(l.e);
}

static void
rewind_all(void *arg)
{
	struct conn *c = arg;

	req_rewind(&c->b->engine.env, c->qp);
}

/* A NAK of the peer leads to a rewind. */
BENCH_TEST(rewind_does_not_walk_the_wqes)
{
	uint64_t few = steps_of(rewind_all, conn_busy(state, FEW));
	uint64_t deep = steps_of(rewind_all, conn_busy(state, DEEP));

	expect_less("rewind", few, deep, few + FEW);
}

/* It forgets which READs were requested, and these are counted again when they are. */
REQUIREMENT("REQ-02")
BENCH_TEST(rewind_counts_reads_again)
{
	struct conn *c = conn_busy(state, 3);
	uint32_t i;

	client_does(c, 3, UROCE_WR_RDMA_READ, 8);
	client_sends(c, 4, 8);
	client_does(c, 5, UROCE_WR_RDMA_READ, 8);
	assert_int_equal(pkt_count(c), 3);
	assert_int_equal(c->qp->conn.snd.rd_out, 2);
	rewind_all(c);
	assert_int_equal(c->qp->conn.snd.rd_out, 0);
	for (i = c->qp->conn.snd.tail; i != c->qp->conn.snd.head; i++)
		assert_false(qp_sq_entry(c->qp, i)->rd_counted);
	engine_wake(&c->b->engine, c->qp);
	assert_int_equal(pkt_count(c), 6);
	assert_int_equal(c->qp->conn.snd.rd_out, 2);
}

#define MANY_MEMBERS 4096u
#define QKEY         0x11223344u

struct datagram {
	struct conn *c;
	uint8_t frame[WIRE_MAX_OVERHEAD + 64];
	uint32_t len;
};

static void
receive(void *arg)
{
	struct datagram *d = arg;

	frame_rx(d->c->b, d->frame, d->len);
	bench_run(d->c->b);
}

/*
 * Instructions to receive a datagram, sent to the QP's address or to its group, on a device on
 * which other QPs have n memberships of other groups.
 */
static uint64_t
receive_steps(struct conn *c, bool to_group, uint32_t n)
{
	static struct engine_member member[MANY_MEMBERS + 1];
	static const uint8_t group[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	struct engine_addrs addrs = {.ngids = 1,
				     .gid = (const uint8_t(*)[16])c->peer_path.dgid,
				     .nmembers = n + 1,
				     .member = member};
	struct wire_path path = c->peer_path;
	struct datagram d = {.c = c};
	uint32_t i, k = 0;
	uint64_t steps;

	for (i = 0; i <= n; i++) {
		memcpy(member[i].gid, group, 16);
		member[i].gid[14] = (uint8_t)(i < n / 2 ? 1 : i == n / 2 ? 2 : 3);
		member[i].qpn = i == n / 2 ? c->qp->conn.qpn : 0x1000 + k++;
	}
	if (to_group) {
		memcpy(path.dgid, group, 16);
		memcpy(path.dmac, (const uint8_t[]){0x01, 0, 0x5e, 1, 2, 3}, 6);
	}
	wire_tmpl_init(&c->peer, &path, to_group ? WIRE_MULTICAST_QPN : c->qp->conn.qpn, 0xffff);
	d.len = peer_frame(c,
			   (struct wire_fields){.opcode = WIRE_SVC_UD | WIRE_OP_SEND_ONLY,
						.psn = 1,
						.qkey = QKEY,
						.src_qpn = 7},
			   0, 16, d.frame);
	engine_set_addrs(&c->b->engine, BENCH_DEV, &addrs);
	recv_post(c, n, 0, 200);
	steps = steps_of(receive, &d);
	recv_cqe(c, n, QP_WC_SUCCESS);
	engine_set_addrs(&c->b->engine, BENCH_DEV, NULL);
	return steps;
}

/* A user may have thousands of memberships; other users receive on the same device. */
REQUIREMENT("WIRE-10")
BENCH_TEST(datagram_does_not_walk_the_members)
{
	struct conn *c = conn_open(*state, CONN(cfg.type = QP_TYPE_UD, cfg.qkey = QKEY));

	for (uint32_t to_group = 0; to_group < 2; to_group++) {
		uint64_t few, many;

		receive_steps(c, to_group, 1); /* the header cache learns the frame */
		few = receive_steps(c, to_group, 2);
		many = receive_steps(c, to_group, MANY_MEMBERS);
		expect_less(to_group ? "to a group" : "to the QP", few, many, 2 * few);
	}
}

#define PARKED 500u

/* A client's paced QPs may all be due at once: each call wakes some, each QP once. */
BENCH_TEST(parked_qps_wake_a_few_at_a_time)
{
	static struct run_list l;
	struct qp *qps = aligned_alloc(64, PARKED * sizeof(*qps)), *qp;
	uint64_t now = 5000000, at = now + 3000;
	uint32_t i, woken = 0, n;

	assert_non_null(qps);
	memset(qps, 0, PARKED * sizeof(*qps));
	run_list_init(&l);
	for (i = 0; i < PARKED; i++) {
		/* the last has another time in the same slot */
		qp_deadline_set(&qps[i].conn, QP_DEADLINE_PACE, at + (i == PARKED - 1 ? 40 : 0));
		run_list_park(&l, &qps[i], now);
	}
	assert_in_range(run_list_next_ns(&l), at - (1 << RUN_SLOT_SHIFT), at);
	run_list_wake_due(&l, at - 1);
	assert_null(run_list_first(&l));
	while (woken < PARKED - 1) {
		run_list_wake_due(&l, at);
		for (n = 0; (qp = run_list_first(&l)) != NULL; n++) {
			assert_ptr_not_equal(qp, &qps[PARKED - 1]);
			run_list_take(&l, qp);
		}
		woken += n;
		assert_in_range(n, 1, RUN_WAKES);
		assert_true(l.parked == PARKED - woken);
		if (woken < PARKED - 1)
			assert_true(run_list_next_ns(&l) <= at);
	}
	run_list_wake_due(&l, at + 39);
	assert_null(run_list_first(&l));
	assert_int_equal(run_list_next_ns(&l), at + 40);
	run_list_wake_due(&l, at + 40);
	assert_ptr_equal(run_list_first(&l), &qps[PARKED - 1]);
	assert_int_equal(l.parked, 0);
	free(qps);
}
