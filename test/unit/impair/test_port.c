/* SPDX-License-Identifier: BSD-3-Clause */
/* The injector on queues of a real port: a pair of rings, tied back to back. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "impair_fixture.h"
#include "drivers/impair/impair.h"
#include "port/burst.h"
#include "port/port.h"
#include "../../kit/hang.h"

#define QUEUES 2

static struct port a, b;
static char err[200];

static int
port_group_setup(void **state)
{
	struct port_params params = {.nqueues = QUEUES};

	if (fixture_group_setup(state) != 0 || port_ring_pair("ia", "ib", QUEUES, 1024) != 0)
		return -1;
	params.name = "net_ring_ia";
	if (port_open(&a, &params, fixture_pool()) != 0)
		return -1;
	params.name = "net_ring_ib";
	return port_open(&b, &params, fixture_pool());
}

static int
port_group_teardown(void **state)
{
	port_close(&a);
	port_close(&b);
	return 0;
}

static void
attach(const char *spec)
{
	if (impair_attach(b.id, QUEUES, NULL, spec, err, sizeof(err)) != 0)
		fail_msg("%s", err);
}

static void
detach(void)
{
	assert_int_equal(impair_detach(b.id), 0);
	impair_reap(); /* only this thread polls */
}

static void
put(uint16_t queue, uint32_t psn)
{
	struct rte_mbuf *m = fixture_frame(WIRE_OP_SEND_ONLY, false, RIG_QPN, psn, RIG_PAYLOAD);

	assert_int_equal(port_tx_burst(a.id, queue, &m, 1), 1);
}

/* Poll once; what came joins r->out. */
static uint32_t
get(struct fixture *r, uint16_t queue)
{
	uint16_t n = port_rx_burst(b.id, queue, r->out + r->out_n, RIG_BURST);

	r->out_n += n;
	return n;
}

FIXTURE_TEST(detached_port_is_as_ever)
{
	struct impair_show s;
	struct fixture *r = *state;

	put(0, 1);
	get(r, 0);
	EXPECT(r, 1);
	assert_int_equal(impair_detach(b.id), -ENOENT);
	assert_int_equal(impair_show(b.id, &s), -ENOENT);
	assert_int_equal(impair_detach(RTE_MAX_ETHPORTS), -ENOENT);
}

FIXTURE_TEST(attach_drops_and_detach_ends_it)
{
	struct impair_show s;
	struct fixture *r = *state;

	attach("rule:nth=2,count=1,action=drop");
	put(0, 1);
	put(0, 2);
	put(0, 3);
	/* Each queue counts for itself. */
	put(1, 4);
	get(r, 0);
	get(r, 1);
	EXPECT(r, 1, 3, 4);
	assert_int_equal(impair_show(b.id, &s), 0);
	assert_string_equal(s.spec, "rule:nth=2,count=1,action=drop");
	assert_int_equal(s.ctr[IMPAIR_RECEIVED], 4);
	assert_int_equal(s.ctr[IMPAIR_DELIVERED], 3);
	assert_int_equal(s.ctr[IMPAIR_DROP], 1);
	assert_int_equal(s.nrules, 1);
	assert_int_equal(s.rule[0].matched, 4);
	assert_int_equal(s.rule[0].acted, 1);
	detach();
	put(0, 5);
	put(0, 6);
	get(r, 0);
	EXPECT(r, 1, 3, 4, 5, 6);
}

FIXTURE_TEST(empty_bursts_bring_what_waits)
{
	struct impair_show s;
	struct fixture *r = *state;

	attach("delay=500ms");
	put(1, 7);
	assert_int_equal(get(r, 1), 0);
	assert_int_equal(impair_show(b.id, &s), 0);
	assert_int_equal(s.held, 1);
	assert_true(COMES_TRUE(get(r, 1) != 0));
	EXPECT(r, 7);
	detach();
}

/* A change keeps what waits and what was counted; frames that wait at the end are freed. */
FIXTURE_TEST(change_while_frames_wait)
{
	struct impair_show s;
	struct fixture *r = *state;

	attach("delay=10s");
	put(0, 1);
	get(r, 0);
	attach("drop=100%");
	put(0, 2);
	get(r, 0);
	impair_reap();
	assert_int_equal(r->out_n, 0);
	assert_int_equal(impair_show(b.id, &s), 0);
	assert_string_equal(s.spec, "drop=100%");
	assert_int_equal(s.ctr[IMPAIR_RECEIVED], 2);
	assert_int_equal(s.ctr[IMPAIR_DELAY], 1);
	assert_int_equal(s.ctr[IMPAIR_DROP], 1);
	assert_int_equal(s.held, 1);
	detach();
	assert_int_equal(rte_mempool_in_use_count(fixture_pool()), 0);
}

FIXTURE_TEST(what_is_refused_changes_nothing)
{
	struct impair_show s;
	struct fixture *r = *state;

	assert_int_equal(impair_attach(b.id, QUEUES, NULL, "drop=1", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "drop: '1' is not"));
	assert_int_equal(impair_show(b.id, &s), -ENOENT);
	assert_int_equal(impair_attach(31, 1, NULL, "", err, sizeof(err)), -ENODEV);
	assert_string_equal(err, "port 31: no such port");
	/* One queue more than there are: the successful ones are released. */
	assert_int_equal(impair_attach(b.id, QUEUES + 1, NULL, "drop=100%", err, sizeof(err)),
			 -EINVAL);
	assert_int_equal(impair_show(b.id, &s), -ENOENT);
	impair_reap();
	put(0, 1);
	get(r, 0);
	EXPECT(r, 1);
	attach("drop=100%");
	assert_int_equal(impair_attach(b.id, QUEUES, NULL, "seed=y", err, sizeof(err)), -EINVAL);
	put(0, 2);
	get(r, 0);
	EXPECT(r, 1);
	detach();
}

/* A worker that polls, and tells where it is quiescent, while this thread changes all it can. */
struct poller {
	uint32_t rounds; /* written by the poller */
	uint32_t stop;
	uint64_t got;
};

static void *
poll_queue(void *arg)
{
	struct rte_mbuf *m[RIG_BURST];
	struct poller *p = arg;
	uint16_t n;

	while (!__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) {
		n = port_rx_burst(b.id, 0, m, RIG_BURST);
		p->got += n;
		rte_pktmbuf_free_bulk(m, n);
		__atomic_add_fetch(&p->rounds, 1, __ATOMIC_RELEASE);
		if (n == 0)
			usleep(1);
	}
	return NULL;
}

static void
quiesce(struct poller *p)
{
	uint32_t seen = __atomic_load_n(&p->rounds, __ATOMIC_ACQUIRE);

	while (__atomic_load_n(&p->rounds, __ATOMIC_ACQUIRE) - seen < 2)
		usleep(10);
}

FIXTURE_TEST(change_under_a_running_worker)
{
	static const char *const specs[] = {"delay=5us", "dup=50%", "reorder=50%",
					    "rule:action=corrupt"};
	struct poller p = {0};
	pthread_t thread;
	uint32_t i;

	assert_int_equal(pthread_create(&thread, NULL, poll_queue, &p), 0);
	for (i = 0; i < 400; i++) {
		put(0, i);
		if (i % 8 == 7)
			assert_int_equal(impair_detach(b.id), 0);
		else
			attach(specs[i % 4]);
		put(0, i);
		if (i % 3 == 0) {
			quiesce(&p);
			impair_reap();
		}
	}
	quiesce(&p);
	__atomic_store_n(&p.stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	impair_detach(b.id);
	impair_reap();
	assert_true(p.got > 0);
}

UNIT_PROGRAM(port_group_setup, port_group_teardown);
