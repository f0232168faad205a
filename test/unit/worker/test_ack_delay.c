/* SPDX-License-Identifier: BSD-3-Clause */
/* When ACKs wait for the client's answer: ack_delay.c alone. */
#include <sched.h>
#include <string.h>
#include <rte_ethdev.h>
#include "qp/qp.h"
#include "worker/worker_parts.h"
#include "../../kit/unit.h"

#define HERE     1 /* the worker's CPU */
#define QPN      5
#define DEV      2
#define YIELD_NS 3000
#define SPIN_NS  1500  /* ack_delay.c's DELAY_SPIN_NS */
#define LONG_NS  60000 /* longer than a wait that was worth it */
#define SKIP_MAX 1024  /* ack_delay.c's DELAY_SKIP_MAX */

static bool may_yield;

bool
idle_may_yield(const struct worker *w)
{
	return may_yield;
}

int
sched_getcpu(void)
{
	return HERE;
}

static struct {
	struct worker worker;
	struct rte_ring out; /* empty */
	struct qp_table qps;
	struct qp *slot[8];
	struct qp qp;
	struct cq cq;
	struct uroce_cq_hdr hdr;
	struct rte_mbuf frame[8], *tx[8];
} t;

static int
setup(void **state)
{
	struct worker *w = &t.worker;

	memset(&t, 0, sizeof(t));
	may_yield = true;
	t.qps = (struct qp_table){.slot = t.slot, .mask = 7};
	t.slot[QPN] = &t.qp;
	t.qp.conn.qpn = QPN;
	t.qp.bind.recv_cq = &t.cq;
	cq_init(&t.cq, &t.hdr, 8);
	t.hdr.yield_cpu = HERE + 1;
	w->out = &t.out;
	w->engine.qps = &t.qps;
	w->engine.env.tx = t.tx;
	w->dev[DEV].own_queue = true;
	w->dev[DEV].queue.kind = PORT_UDP;
	for (unsigned i = 0; i < RTE_DIM(t.frame); i++) {
		t.frame[i].port = DEV;
		t.frame[i].hash.fdir.hi = QPN;
	}
	return 0;
}

/* The engine has built n frames, of which acks are ACKs, behind those that wait. */
static void
build(uint32_t n, uint32_t acks)
{
	struct qp_env *env = &t.worker.engine.env;

	for (uint32_t i = 0; i < n; i++, env->tx_n++)
		env->tx[env->tx_n] = &t.frame[env->tx_n];
	env->acks = acks;
}

static void
flush(void)
{
	t.worker.engine.env.tx_n = 0;
}

/* A message arrives. Returns true if its ACK waits. */
static bool
message(void)
{
	build(1, 1);
	ack_delay_run(&t.worker, 1);
	if (t.worker.hold.n == 0)
		flush();
	return t.worker.hold.n != 0;
}

/* After a yield of ns the client has posted `answers` requests. */
static void
after_yield(uint64_t ns, uint32_t answers)
{
	t.worker.now_ns += ns;
	build(answers, 0);
	ack_delay_run(&t.worker, 0);
	assert_int_equal(t.worker.hold.n, 0);
}

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

TEST(ack_waits_once_and_leaves_behind_the_answer)
{
	for (unsigned i = 0; i < 3; i++) {
		assert_true(message());
		assert_int_equal(t.worker.hold.n, 1);
		after_yield(YIELD_NS, 2);
		assert_int_equal(t.worker.engine.env.tx_n, 3);
		assert_ptr_equal(t.tx[0], &t.frame[1]);
		assert_ptr_equal(t.tx[1], &t.frame[2]);
		assert_ptr_equal(t.tx[2], &t.frame[0]);
		flush();
	}
}

/* A client elsewhere, or one that the worker cannot give its core to: it polls for the answer. */
static void
expect_spin(void)
{
	memset(&t.worker.hold, 0, sizeof(t.worker.hold));
	assert_true(message());
	assert_true(t.worker.hold.spin);
	/* nothing yet */
	t.worker.now_ns += SPIN_NS / 2;
	ack_delay_run(&t.worker, 0);
	assert_int_equal(t.worker.hold.n, 1);
	/* in time */
	after_yield(SPIN_NS / 4, 1);
	assert_int_equal(t.worker.engine.env.tx_n, 2);
	assert_ptr_equal(t.tx[1], &t.frame[0]);
	flush();
	/* not in time */
	assert_true(message());
	after_yield(SPIN_NS, 0);
	assert_int_equal(t.worker.engine.env.tx_n, 1);
	flush();
	assert_false(message());
}

TEST(ack_waits_shortly_for_a_client_elsewhere)
{
	t.hdr.yield_cpu = HERE + 2;
	expect_spin();
	t.hdr.yield_cpu = 0; /* does not yield at all */
	expect_spin();
	t.hdr.yield_cpu = UINT32_MAX; /* forged */
	expect_spin();
	t.qp.bind.recv_cq = NULL;
	expect_spin();
	t.slot[QPN] = NULL;
	expect_spin();
}

TEST(worker_that_may_not_yield_polls_for_the_answer)
{
	may_yield = false;
	expect_spin();
	may_yield = true;
	memset(&t.worker.hold, 0, sizeof(t.worker.hold));
	assert_true(message());
	assert_false(t.worker.hold.spin);
}

TEST(only_acks_to_sockets_wait)
{
	struct worker_dev *d = &t.worker.dev[DEV];

	build(2, 1); /* an ACK and a request */
	ack_delay_run(&t.worker, 1);
	assert_int_equal(t.worker.hold.n, 0);
	flush();
	d->queue.kind = PORT_ETHDEV;
	assert_false(message());
	d->queue.kind = PORT_PACKET;
	d->own_queue = false;
	assert_false(message());
	d->own_queue = true;
	t.frame[0].hash.usr = QP_TX_LOOPBACK;
	assert_false(message());
	t.frame[0].hash.usr = QP_TX_WIRE;
	assert_true(message());
}

TEST(acks_of_a_burst_do_not_wait)
{
	build(5, 5);
	ack_delay_run(&t.worker, 5);
	assert_int_equal(t.worker.hold.n, 0);
	flush();
	build(1, 1); /* one for many packets */
	ack_delay_run(&t.worker, 5);
	assert_int_equal(t.worker.hold.n, 0);
	flush();
	t.worker.more = true; /* the engine has more to send */
	assert_false(message());
	t.worker.more = false;
	build(4, 4);
	ack_delay_run(&t.worker, 4);
	assert_int_equal(t.worker.hold.n, 4);
}

TEST(responses_keep_their_order_if_frames_were_handed_over)
{
	assert_true(message());
	build(1, 0);
	ack_delay_run(&t.worker, 1);
	assert_int_equal(t.worker.hold.n, 0);
	assert_ptr_equal(t.tx[0], &t.frame[0]);
	assert_ptr_equal(t.tx[1], &t.frame[1]);
}

/* Returns how many ACKs do not wait before the next one does. */
static unsigned
skipped(void)
{
	unsigned n = 0;

	while (!message())
		n++;
	return n;
}

TEST(waits_in_vain_become_rare)
{
	unsigned last = 0;

	assert_int_equal(skipped(), 0);
	for (unsigned i = 0; i < 12; i++) {
		unsigned n;

		after_yield(YIELD_NS, 0);
		flush();
		n = skipped();
		assert_true(n > last || n == SKIP_MAX);
		last = n;
	}
	assert_int_equal(last, SKIP_MAX);
	/* an answer: the next ACKs wait again */
	after_yield(YIELD_NS, 1);
	flush();
	assert_int_equal(skipped(), 0);
	/* an answer that came too late is none */
	after_yield(LONG_NS, 1);
	flush();
	assert_int_equal(skipped(), 1);
}
