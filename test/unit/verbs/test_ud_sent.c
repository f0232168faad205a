/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams that were posted are sent before their QP or address handle is destroyed. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "provider_fixture.h"

/* Yields are the waits for a worker: there is none while a reply is awaited (sched/waiting.h). */
static int
setup(void **state)
{
	struct fixture *r;

	fixture_setup(state);
	r = *state;
	prov_context_of(r->ctx)->ipc.spin.skip = UINT32_MAX;
	return 0;
}

#define UD 1 /* the fake's index of the UD QP: 0 is the fixture's */

static struct ibv_ah *
make_ah(struct fixture *r)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.sgid_index = 1};

	return ibv_create_ah(r->pd, &attr);
}

static void
post_datagrams(struct ibv_qp *qp, struct ibv_ah *ah, unsigned int n)
{
	struct ibv_sge sge = {.addr = 0x1000, .length = 100, .lkey = 7};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	wr.wr.ud.ah = ah;
	while (n--)
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

#define YIELD_NS 1000000u   /* duration of every sched_yield */
#define LATE     10u        /* yields until a late worker sends a datagram */
#define WAIT_NS  100000000u /* the longest wait for a worker */

/*
 * The clock of the provider, which only a yield moves, and a worker that wakes up late: it gets the
 * core in every LATE-th yield and sends one datagram.
 */
static struct {
	uint64_t now_ns;
	struct fake *f;
	unsigned int left; /* datagrams to send */
	unsigned int yields;
	uint32_t destroyed; /* requests op before it sent the last datagram */
	uint16_t op;
} late;

/* The next two replace libc's. */
int
clock_gettime(clockid_t id, struct timespec *ts)
{
	ts->tv_sec = (time_t)(late.now_ns / 1000000000);
	ts->tv_nsec = (long)(late.now_ns % 1000000000);
	return 0;
}

int
sched_yield(void)
{
	late.now_ns += YIELD_NS;
	if (late.left == 0 || ++late.yields % LATE != 0)
		return 0;
	late.destroyed = late.f->seen[late.op];
	fake_retire_send(late.f, UD, 0, FAKE_WHOLE);
	late.left--;
	return 0;
}

/* Destroys an AH or a QP, as the request op says, while a late worker sends. */
static void
destroy_late(struct fixture *r, uint16_t op)
{
	struct ibv_qp *qp = fixture_create_qp(r, IBV_QPT_UD);
	struct ibv_ah *ah = make_ah(r);
	uint32_t before = r->f->seen[op];

	fixture_qp_to(qp, IBV_QPS_RTS);
	post_datagrams(qp, ah, 3);
	late.f = r->f;
	late.op = op;
	late.yields = 0;
	late.left = 3;
	if (op == UROCE_CTRL_DESTROY_AH)
		assert_int_equal(ibv_destroy_ah(ah), 0);
	else
		assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(late.left, 0);
	assert_int_equal(late.destroyed, before);
	assert_int_equal(r->f->seen[op], before + 1);
	if (op == UROCE_CTRL_DESTROY_AH)
		assert_int_equal(ibv_destroy_qp(qp), 0);
	else
		assert_int_equal(ibv_destroy_ah(ah), 0);
}

#define TEST(name) UNIT_TEST_IN(name, setup, fixture_teardown)

TEST(destruction_waits_for_a_late_worker)
{
	destroy_late(*state, UROCE_CTRL_DESTROY_AH);
	destroy_late(*state, UROCE_CTRL_DESTROY_QP);
}

/* One wait of 100 ms, however many address handles are destroyed. */
TEST(destruction_waits_once_for_a_worker_that_does_not_send)
{
	struct fixture *r = *state;
	struct ibv_qp *qp = fixture_create_qp(r, IBV_QPT_UD);
	struct ibv_ah *ah[100];
	uint64_t start;

	for (unsigned int i = 0; i < 100; i++)
		ah[i] = make_ah(r);
	fixture_qp_to(qp, IBV_QPS_RTS);
	post_datagrams(qp, ah[0], 1);
	start = late.now_ns;
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(ibv_destroy_ah(ah[i]), 0);
	assert_in_range(late.now_ns - start, WAIT_NS, WAIT_NS + 2 * YIELD_NS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* With thousands of connections, the end of one must not read the queues of all others. */
TEST(only_qps_of_type_ud_are_waited_for)
{
	struct fixture *r = *state;
	struct prov_context *ctx = prov_context_of(r->ctx);
	struct ibv_qp *ud = fixture_create_qp(r, IBV_QPT_UD), *rc;

	assert_ptr_equal(LIST_FIRST(&ctx->ud_qps), prov_qp_of(ud));
	rc = fixture_create_qp(r, IBV_QPT_RC);
	assert_ptr_equal(LIST_FIRST(&ctx->ud_qps), prov_qp_of(ud));
	assert_null(LIST_NEXT(prov_qp_of(ud), ud_link));
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
	assert_true(LIST_EMPTY(&ctx->ud_qps));
}
