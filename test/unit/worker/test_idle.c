/* SPDX-License-Identifier: BSD-3-Clause */
/* When a worker without work gives up its core. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_ethdev.h>
#include "idle_fixture.h"
#include "../../kit/hang.h"

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

TEST(worker_that_shares_a_core_yields_every_time)
{
	os.yield_ns = SWITCHED_NS;
	for (unsigned i = 1; i <= 5; i++) {
		empty();
		assert_int_equal(os.yields, i);
	}
}

TEST(lone_worker_spins_for_a_while)
{
	os.yield_ns = NOBODY_NS;
	for (unsigned i = 0; i < SPIN_NS / ROUND_NS; i++)
		empty();
	assert_int_equal(os.yields, 1);
	/* then another thread needs the core, and gets it every time */
	os.yield_ns = SWITCHED_NS;
	empty();
	assert_int_equal(os.yields, 2);
	empty();
	assert_int_equal(os.yields, 3);
}

TEST(worker_with_a_separate_core_never_yields)
{
	workers.idle = WORKER_IDLE_POLL;
	for (unsigned i = 0; i < 100; i++)
		empty();
	assert_int_equal(os.yields, 0);
}

TEST(port_without_notification_is_polled_every_2_ms)
{
	uint64_t want = FIRST_NS;

	for (unsigned i = 0; i < 12; i++) {
		until_asleep();
		assert_int_equal(os.slept_ns, want);
		want = 2 * want < MAX_NS ? 2 * want : MAX_NS;
	}
	/* work, and it begins anew */
	idle_busy(&worker);
	until_asleep();
	assert_int_equal(os.slept_ns, FIRST_NS);
}

/* Idles for a second, asleep again and again. */
static void
a_second(void)
{
	uint64_t end = os.now_ns + 1000000000;

	while (os.now_ns < end)
		until_asleep();
}

TEST(worker_with_notified_queues_sleeps_longer_each_time)
{
	uint64_t since = os.now_ns, want = FIRST_NS, idle;

	queue.inward = true;
	do {
		until_asleep();
		idle = worker.now_ns - since;
		want = want < MAX_NS ? want : MAX_NS;
		assert_true(os.slept_ns >= want);
		assert_true(os.slept_ns <= want || os.slept_ns <= idle / SLEEP_PART);
		want *= 2;
	} while (os.slept_ns < WOKEN_NS);
	assert_true(idle > SLEEP_PART * (uint64_t)MAX_NS);
	a_second();
	assert_int_equal(os.slept_ns, WOKEN_NS);
	worker.nrxqs = 0;
	until_asleep();
	assert_int_equal(os.slept_ns, WOKEN_NS);
	/* work, and it begins anew */
	idle_busy(&worker);
	until_asleep();
	assert_int_equal(os.slept_ns, FIRST_NS);
}

TEST(one_queue_without_notification_keeps_the_port_polled)
{
	struct worker_rxq two[2] = {{.inward = true}, {.q.port = 1}};

	worker.rxqs = two;
	worker.nrxqs = 2;
	a_second();
	assert_int_equal(os.slept_ns, MAX_NS);
	worker.rxqs = &queue;
}

TEST(port_that_may_hold_frames_is_polled)
{
	void *was = rte_eth_fp_ops[0].rxq.clbk, *hooks[1] = {NULL};

	queue.inward = true;
	rte_eth_fp_ops[0].rxq.clbk = hooks;
	a_second();
	assert_int_equal(os.slept_ns, WOKEN_NS);
	hooks[0] = &queue;
	until_asleep();
	assert_int_equal(os.slept_ns, MAX_NS);
	rte_eth_fp_ops[0].rxq.clbk = was;
}

TEST(no_sleep_outlasts_a_timer)
{
	unsigned sleeps;

	queue.inward = true;
	a_second();
	os.next_timer_ns = 123456;
	until_asleep();
	assert_int_equal(os.slept_ns, 123456);
	/* one that is near is waited for awake */
	os.next_timer_ns = 1000;
	sleeps = os.sleeps;
	for (unsigned i = 0; i < 100; i++)
		empty();
	assert_int_equal(os.sleeps, sleeps);
}

/* A sleeping worker frees its core. */
TEST(no_yield_before_a_sleep)
{
	unsigned yields;

	until_asleep();
	yields = os.yields;
	for (unsigned i = 0; i < 5; i++)
		empty();
	assert_int_equal(os.sleeps, 6);
	assert_int_equal(os.yields, yields);
}

/* A port that has a descriptor for it wakes a worker that sleeps long. */
TEST(port_with_a_descriptor_is_not_polled)
{
	const uint64_t one = 1;
	uint64_t idle_since;

	queue.fd = eventfd(0, EFD_NONBLOCK);
	assert_true(queue.fd > 0);
	a_second();
	assert_int_equal(os.slept_ns, WOKEN_NS);
	assert_int_equal(os.fds, 3);
	idle_since = os.now_ns;
	assert_int_equal(write(queue.fd, &one, sizeof(one)), sizeof(one));
	until_asleep();
	assert_true(os.now_ns < idle_since + WOKEN_NS);
	/* the frame is found */
	idle_busy(&worker);
	assert_int_equal(read(queue.fd, &idle_since, sizeof(one)), sizeof(one));
	until_asleep();
	assert_int_equal(os.slept_ns, FIRST_NS);
	assert_int_equal(os.fds, 3);
	close(queue.fd);
}

/* The driver leaves a frame for lack of a buffer: its descriptor stays readable. */
TEST(spurious_descriptor_does_not_keep_the_worker_awake)
{
	const uint64_t one = 1;
	uint64_t start;

	queue.fd = eventfd(0, EFD_NONBLOCK);
	assert_int_equal(write(queue.fd, &one, sizeof(one)), sizeof(one));
	a_second();
	start = os.now_ns;
	os.sleeps = 0;
	while (os.now_ns < start + 1000000000) {
		until_asleep();
		/* nor does a frame wait longer than at other ports */
		assert_true(os.fds == 3 || os.slept_ns == MAX_NS);
	}
	assert_true(os.sleeps < 3 * (os.now_ns - start) / MAX_NS);
	assert_int_equal(queue.fd != 0, 1);
	close(queue.fd);
}

/* An interface that was down leaves an error in the socket, which is fetched. */
TEST(error_of_a_ports_socket_is_fetched)
{
	struct sockaddr_in to = {.sin_family = AF_INET}, nobody;
	socklen_t len = sizeof(to);
	struct pollfd p = {.events = POLLIN};
	int gone = socket(AF_INET, SOCK_DGRAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(gone, (struct sockaddr *)&to, len), 0);
	assert_int_equal(getsockname(gone, (struct sockaddr *)&to, &len), 0);
	/* It keeps the port from others, and receives only from an address that nobody has. */
	nobody = to;
	nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	assert_int_equal(connect(gone, (struct sockaddr *)&nobody, len), 0);
	p.fd = queue.fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(connect(p.fd, (struct sockaddr *)&to, len), 0);
	assert_int_equal(send(p.fd, "", 1, 0), 1); /* the peer is absent */
	assert_int_equal(poll(&p, 1, HANGS_S * 1000), 1);
	assert_true(p.revents & POLLERR);
	until_asleep();
	assert_int_equal(queue.fd, p.fd);
	assert_int_equal(poll(&p, 1, 0), 0);
	a_second();
	assert_int_equal(os.slept_ns, WOKEN_NS);
	close(gone);
	close(p.fd);
}

/* Without an error to fetch it is of no use. */
TEST(port_whose_descriptor_is_broken_is_polled)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	close(ends[1]);
	queue.fd = ends[0];
	until_asleep();
	assert_int_equal(queue.fd, 0);
	a_second();
	assert_int_equal(os.slept_ns, MAX_NS);
	assert_int_equal(os.fds, 2);
	close(ends[0]);
}

static bool
readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* First the worker polls the port, then, before the next sleep, it makes the system call. */
TEST(rings_are_taken_before_the_next_sleep_and_not_ahead_of_the_look)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	const uint64_t one = 1;
	int fd[2], slept_on[2];

	for (unsigned i = 0; i < 2; i++) {
		fd[i] = eventfd(0, EFD_NONBLOCK);
		assert_true(fd[i] >= 0);
	}
	slept_on[0] = fd[0];
	slept_on[1] = epoll_create1(0);
	assert_int_equal(epoll_ctl(slept_on[1], EPOLL_CTL_ADD, fd[1], &ev), 0);
	worker.own_fd = slept_on[0];
	worker.client_fd = slept_on[1];
	until_asleep();
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(write(fd[i], &one, sizeof(one)), sizeof(one));
		until_asleep();
		assert_true(readable(slept_on[i]));
		until_asleep(); /* and sleeps as without notification */
		assert_false(readable(slept_on[i]));
	}
	close(slept_on[1]);
	close(fd[0]);
	close(fd[1]);
}

/* Each time there was work, between two empty rounds. */
static void
empty_after_work(void)
{
	idle_busy(&worker);
	empty();
}

/* A thread that yields to computing threads gets its core back after all their time slices. */
TEST(worker_on_an_oversubscribed_core_sleeps_instead_of_yielding)
{
	os.yield_ns = LONG_NS;
	for (unsigned i = 1; i <= CROWD_ROW; i++) {
		assert_int_equal(os.sleeps, 0);
		empty_after_work();
		assert_int_equal(os.yields, i);
	}
	for (unsigned i = 1; i <= 100; i++) {
		empty_after_work();
		assert_int_equal(os.sleeps, i);
		assert_int_equal(os.slept_ns, FIRST_NS);
	}
	/* a timer that is near is waited for awake, and not elsewhere */
	os.next_timer_ns = 1000;
	empty_after_work();
	assert_int_equal(os.sleeps, 100);
	assert_int_equal(os.yields, CROWD_ROW);
	/* the crowd is gone */
	os.next_timer_ns = UINT64_MAX;
	os.yield_ns = SWITCHED_NS;
	os.now_ns += CROWD_FIRST_NS;
	for (unsigned i = 1; i <= 100; i++) {
		empty_after_work();
		assert_int_equal(os.yields, CROWD_ROW + i);
	}
	assert_int_equal(os.sleeps, 100);
}

/* Spinning threads of another scheduling group, which no yield reaches. */
TEST(gaps_of_a_spinning_worker_make_it_sleep)
{
	os.yield_ns = NOBODY_NS;
	for (unsigned i = 0; i < CROWD_ROW; i++) {
		assert_false(crowd_is(&worker.crowd, os.now_ns));
		idle_busy(&worker);
		for (unsigned k = 0; k < 300; k++)
			empty();
		os.now_ns += 3000000; /* the other's slice */
		empty();
	}
	os.sleeps = 0;
	empty_after_work();
	assert_int_equal(os.sleeps, 1);
}

/* Work takes time, too: a gap is one only between two rounds without work. */
TEST(time_of_work_is_no_gap)
{
	os.yield_ns = NOBODY_NS;
	for (unsigned i = 0; i < 2 * CROWD_ROW; i++) {
		for (unsigned k = 0; k < 300; k++)
			empty();
		os.now_ns += 3000000;
		idle_busy(&worker);
	}
	empty();
	assert_int_equal(os.sleeps, 0);
}

#define IDLE_CONTEXTS 768 /* of a user, by default */

/*
 * Each context has a ring. If a worker wrote to all of them before it sleeps, it would take their
 * cache lines from the clients. Here such a write ends the test with SIGSEGV.
 */
TEST(sleep_writes_nothing_to_the_rings_of_idle_contexts)
{
	static struct worker_doorbell bells[IDLE_CONTEXTS];
	size_t len = IDLE_CONTEXTS * sizeof(struct uroce_db_ring);
	struct uroce_db_ring *silent =
		mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(silent != MAP_FAILED);
	for (unsigned i = 0; i < IDLE_CONTEXTS; i++)
		bells[i] =
			(struct worker_doorbell){.ring = &silent[i], .waiter = &silent[i].waiter};
	worker.doorbells = bells;
	worker.ndoorbells = IDLE_CONTEXTS;
	for (unsigned i = 0; i < 3; i++)
		until_asleep();
	worker.doorbells = &bell;
	worker.ndoorbells = 1;
	munmap(silent, len);
}
