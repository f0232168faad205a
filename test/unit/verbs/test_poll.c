/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether an empty poll gives up the core (cq_idle.c): the provider against a fake daemon that
 * shares its cores; clock and scheduler are the test's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "idle.h"
#include "kit/fake_clock.h"
#include "provider_fixture.h"

#define POLL_NS   50
#define YIELD_NS  3000         /* another thread ran */
#define LONG_NS   300000000ull /* nothing that is over by then is still awaited */
#define MOMENT_NS 40000        /* before anybody sleeps */

static int cpu; /* this thread's, whatever the kernel does with it */

/* Replaces libc's. */
int
sched_getcpu(void)
{
	return cpu;
}

/* Polls the empty cq for ns; os counts yields and sleeps. */
static void
poll_for(struct ibv_cq *cq, uint64_t ns)
{
	uint64_t end = os.now_ns + ns;
	struct ibv_wc wc;

	os.yields = os.sleeps = 0;
	while (os.now_ns < end) {
		os.now_ns += POLL_NS;
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	}
}

static void
assert_keeps_core(struct ibv_cq *cq)
{
	poll_for(cq, 1000000);
	assert_int_equal(os.yields, 0);
	assert_int_equal(os.sleeps, 0);
}

static void
assert_gives_core_up(struct ibv_cq *cq)
{
	poll_for(cq, MOMENT_NS);
	assert_true(os.yields > 5);
}

static int
setup_with(void **state, const char *poll, uint32_t hello_flags)
{
	struct fixture *r;

	os.now_ns = 1000000;
	os.yield_ns = YIELD_NS;
	prov_idle = (struct prov_idle){0};
	if (poll)
		setenv("UROCE_POLL", poll, 1);
	else
		unsetenv("UROCE_POLL");
	fixture_setup(state);
	r = *state;
	/* The fixture's daemon has its own cores: a context of one that shares them. */
	ibv_destroy_qp(r->qp);
	ibv_destroy_cq(r->cq);
	ibv_destroy_comp_channel(r->channel);
	ibv_dealloc_pd(r->pd);
	ibv_close_device(r->ctx);
	r->channel = NULL;
	r->f->hello_flags = hello_flags;
	r->ctx = fixture_open(r);
	assert_non_null(r->ctx);
	r->pd = ibv_alloc_pd(r->ctx);
	r->cq = ibv_create_cq(r->ctx, 16, r, NULL, 0);
	assert_true(r->pd && r->cq);
	r->qp = fixture_create_qp(r, IBV_QPT_RC);
	assert_non_null(r->qp);
	fixture_qp_to(r->qp, IBV_QPS_RTS);
	return 0;
}

static int
setup(void **state)
{
	return setup_with(state, NULL, UROCE_HELLO_YIELD);
}

static int
setup_spin(void **state)
{
	return setup_with(state, "spin", UROCE_HELLO_YIELD);
}

static int
setup_yield(void **state)
{
	return setup_with(state, "yield", 0);
}

static int
setup_own_cores(void **state)
{
	return setup_with(state, "adaptive", 0);
}

static int
teardown(void **state)
{
	int rc = fixture_teardown(state);

	unsetenv("UROCE_POLL");
	return rc;
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

static void
post_send(struct fixture *r)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	assert_int_equal(ibv_post_send(r->qp, &wr, &bad), 0);
}

/* The fake's worker retires the posted unsignaled WRs without completions. */
static void
retire_all(struct fixture *r)
{
	struct uroce_ring_hdr *sq = r->f->qp[0].sq;

	sq->cons = sq->done = sq->prod;
}

TEST(nothing_outstanding_keeps_the_core)
{
	struct fixture *r = *state;

	assert_keeps_core(r->cq);
}

/* Programs post receives long before anything comes. */
TEST(posted_receives_keep_the_core)
{
	struct fixture *r = *state;
	struct ibv_recv_wr wr = {0}, *bad;

	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(ibv_post_recv(r->qp, &wr, &bad), 0);
	assert_keeps_core(r->cq);
}

TEST(sends_outstanding_give_the_core_up)
{
	struct fixture *r = *state;

	post_send(r);
	assert_gives_core_up(r->cq);
	assert_int_equal(os.sleeps, 0); /* only after many rounds */
	poll_for(r->cq, 1000000);
	assert_true(os.sleeps > 5);
	/* for as long as they are outstanding */
	poll_for(r->cq, LONG_NS);
	poll_for(r->cq, 1000000);
	assert_true(os.yields > 5 && os.sleeps > 5);
}

/* For a while an answer may come; after that an empty poll keeps the core. */
TEST(retired_sends_give_the_core_up_for_a_while)
{
	struct fixture *r = *state;

	post_send(r);
	retire_all(r);
	assert_gives_core_up(r->cq);
	poll_for(r->cq, LONG_NS);
	assert_in_range(os.sleeps, 1, 20); /* a small part of the time */
	assert_keeps_core(r->cq);
	post_send(r);
	assert_gives_core_up(r->cq);
}

TEST(a_completion_gives_the_core_up_for_a_while)
{
	struct fixture *r = *state;
	struct ibv_wc wc;

	assert_keeps_core(r->cq);
	fake_complete(r->f, 0, (struct uroce_cqe){.opcode = UROCE_CQE_RECV, .qp_num = 0x100});
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 1);
	assert_gives_core_up(r->cq);
	poll_for(r->cq, LONG_NS);
	assert_keeps_core(r->cq);
}

/* Of two CQs that a thread polls in turn, the one that nothing is to come to does not pause. */
TEST(only_the_cq_that_is_awaited_pauses)
{
	struct fixture *r = *state;
	struct ibv_cq *other = ibv_create_cq(r->ctx, 16, NULL, NULL, 0);
	struct ibv_wc wc;

	assert_non_null(other);
	post_send(r);
	assert_keeps_core(other);
	os.yields = 0;
	for (unsigned int i = 0; i < 20; i++) {
		assert_int_equal(ibv_poll_cq(other, 1, &wc), 0);
		assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
	}
	assert_in_range(os.yields, 15, 20);
	assert_int_equal(ibv_destroy_cq(other), 0);
}

/* The answer comes to another CQ than the send's completion. */
TEST(the_receive_cq_of_a_sender_pauses)
{
	struct fixture *r = *state;
	struct ibv_cq *recv_cq = ibv_create_cq(r->ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = r->cq,
		.recv_cq = recv_cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_qp *qp = ibv_create_qp(r->pd, &attr);

	assert_non_null(qp);
	fixture_qp_to(qp, IBV_QPS_RTS);
	assert_keeps_core(recv_cq);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_gives_core_up(recv_cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(recv_cq), 0);
}

/* The worker reads from the CQ on which CPU a thread yields; a thread that sleeps does not. */
TEST(cq_names_the_cpu_of_a_thread_that_yields)
{
	struct fixture *r = *state;
	const struct uroce_cq_hdr *hdr = r->f->cq[0].hdr;
	struct ibv_wc wc;

	for (cpu = 0; cpu < 3; cpu++) {
		post_send(r);
		assert_gives_core_up(r->cq);
		assert_int_equal(hdr->yield_cpu, cpu + 1);
		for (os.sleeps = 0; os.sleeps == 0;) {
			os.now_ns += POLL_NS;
			assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
		}
		assert_int_equal(hdr->yield_cpu, 0);
	}
}

/* Polls until the thread has slept n times. Returns the time that took. */
static uint64_t
until_slept(struct fixture *r, unsigned int n)
{
	uint64_t start = os.now_ns;
	struct ibv_wc wc;

	for (os.sleeps = 0; os.sleeps < n;) {
		os.now_ns += POLL_NS;
		assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
		assert_true(os.now_ns < start + LONG_NS);
	}
	return os.now_ns - start;
}

/* A completion comes, and is polled. */
static void
complete(struct fixture *r)
{
	struct ibv_wc wc;

	retire_all(r);
	fake_complete(r->f, 0, (struct uroce_cqe){.opcode = UROCE_CQE_RECV, .qp_num = 0x100});
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 1);
}

/* Waits for n completions, each of which ends a sleep. */
static void
sleep_through(struct fixture *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		post_send(r);
		until_slept(r, 1);
		complete(r);
	}
}

/* The threads that have to run are in another scheduling group, or take longer. */
TEST(waits_that_end_in_sleeps_begin_with_them)
{
	struct fixture *r = *state;

	sleep_through(r, 1 + 1 + 1 + 3 + 1);
	post_send(r);
	os.yields = 0;
	assert_in_range(until_slept(r, 1), PROV_SLEEP_LONG_NS,
			PROV_SLEEP_LONG_NS + SLACK_NS + 10 * POLL_NS);
	assert_int_equal(os.yields, 0);
	assert_int_equal(r->f->db[0]->waiter, 0); /* nobody waits after the sleep */
	/* no completion ended it: all begins anew, with short sleeps and soon with yields */
	complete(r);
	sleep_through(r, 1);
	assert_int_equal(futex.limit_ns, PROV_SLEEP_NS);
	post_send(r);
	until_slept(r, 1);
	assert_true(os.yields > 5);
}

/* Some waits still begin with yields, to find out when they are of use again. */
TEST(wait_that_ends_during_its_yields_ends_early_sleeps)
{
	struct fixture *r = *state;

	sleep_through(r, 1 + 1 + 1 + 3);
	for (unsigned int i = 0; i < 3; i++) {
		post_send(r);
		poll_for(r->cq, MOMENT_NS);
		assert_true(os.yields > 5);
		assert_int_equal(os.sleeps, 0);
		complete(r);
	}
}

/* Between the announcement and the sleep every CQ is polled; a completion in between is not lost.
 */
TEST(completion_between_announcement_and_sleep_prevents_the_sleep)
{
	struct fixture *r = *state;
	struct uroce_db_ring *db = r->f->db[0];
	struct ibv_wc wc;

	sleep_through(r, 1);
	post_send(r);
	for (os.sleeps = 0; db->waiter == 0; os.now_ns += POLL_NS) {
		assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
		assert_int_equal(os.sleeps, 0);
	}
	assert_true(uroce_waiter_is_on(db->waiter, (uint32_t)cpu));
	/* the worker completes to another CQ of the context, and takes the word */
	db->waiter = 0;
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
	assert_int_equal(os.sleeps, 0);
}

static uint64_t
rings(struct fixture *r)
{
	uint64_t count = 0;

	return read(r->f->wake_fd[0], &count, sizeof(count)) == sizeof(count) ? count : 0;
}

/* A worker that sleeps on this CPU is woken so that it polls while this thread sleeps, but once. */
TEST(sleeping_worker_is_woken_once_for_each_progress)
{
	struct fixture *r = *state;
	struct uroce_worker_state *worker = &r->f->states[0];
	struct ibv_recv_wr recv_wr = {0}, *bad;
	int flags = fcntl(r->f->wake_fd[0], F_GETFL);

	assert_int_equal(fcntl(r->f->wake_fd[0], F_SETFL, flags | O_NONBLOCK), 0);
	post_send(r);
	complete(r);
	rings(r);
	worker->asleep = 1;
	worker->cpu = (uint32_t)cpu + 2;
	until_slept(r, 1);
	assert_int_equal(rings(r), 0); /* elsewhere */
	worker->cpu--;
	complete(r);
	until_slept(r, 3);
	assert_int_equal(rings(r), 1);
	/* by the send's doorbell, whatever is posted before the worker runs */
	complete(r);
	r->f->qp[0].sq->armed = 1;
	post_send(r);
	assert_int_equal(ibv_post_recv(r->qp, &recv_wr, &bad), 0);
	until_slept(r, 1);
	assert_int_equal(rings(r), 1);
}

static void
a_sender_keeps_the_core(struct fixture *r)
{
	post_send(r);
	assert_keeps_core(r->cq);
	assert_int_equal(r->f->cq[0].hdr->yield_cpu, 0);
}

UNIT_TEST_IN(spin_keeps_the_core, setup_spin, teardown)
{
	a_sender_keeps_the_core(*state);
}

UNIT_TEST_IN(cores_that_are_not_shared_are_kept, setup_own_cores, teardown)
{
	a_sender_keeps_the_core(*state);
}

UNIT_TEST_IN(yield_never_sleeps, setup_yield, teardown)
{
	struct fixture *r = *state;

	assert_gives_core_up(r->cq);
	post_send(r);
	poll_for(r->cq, LONG_NS);
	assert_true(os.yields > 1000);
	assert_int_equal(os.sleeps, 0);
}

/* stderr, while call runs, into text. */
static enum prov_poll_mode
mode_of(const char *value, int *rc, char *text, size_t room)
{
	enum prov_poll_mode mode = PROV_POLL_ADAPTIVE;
	int old = dup(STDERR_FILENO), pipes[2];
	ssize_t n;

	assert_int_equal(pipe(pipes), 0);
	setenv("UROCE_POLL", value, 1);
	dup2(pipes[1], STDERR_FILENO);
	close(pipes[1]);
	*rc = prov_poll_mode(true, &mode);
	fflush(stderr);
	dup2(old, STDERR_FILENO);
	close(old);
	n = read(pipes[0], text, room - 1);
	close(pipes[0]);
	text[n < 0 ? 0 : n] = 0;
	unsetenv("UROCE_POLL");
	return mode;
}

UNIT_TEST(values_of_UROCE_POLL_are_checked)
{
	static const char *const bad[] = {"", "Spin", "busy", "yield "};
	char text[256];
	int rc;

	(void)state;
	assert_int_equal(mode_of("adaptive", &rc, text, sizeof(text)), PROV_POLL_ADAPTIVE);
	assert_int_equal(rc, 0);
	assert_int_equal(mode_of("spin", &rc, text, sizeof(text)), PROV_POLL_SPIN);
	assert_int_equal(rc, 0);
	assert_int_equal(mode_of("yield", &rc, text, sizeof(text)), PROV_POLL_YIELD);
	assert_int_equal(rc, 0);
	assert_string_equal(text, "");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		mode_of(bad[i], &rc, text, sizeof(text));
		assert_int_equal(rc, EINVAL);
		assert_non_null(strstr(text, bad[i]));
		assert_non_null(strstr(text, "spin, yield or adaptive"));
	}
}
