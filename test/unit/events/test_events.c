/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread and workers that always have another event for it
 * (lib/control/worker_events.c). */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "control/device.h"
#include "control/log.h"
#include "control/neigh.h"
#include "control/obj.h"
#include "control/slow_path.h"
#include "control/daemon.h"
#include "../../kit/unit.h"

#define EVENTS 100000u

/* Workers with events_left events of a destroyed CQ, and a descriptor that stays readable. */
static uint32_t events_left;
static int event_fd;

int daemon_logtype; /* in the place of daemon.c's */

bool
hostif_give(struct hostif *h, struct rte_mbuf *m)
{
	return false;
}

int
worker_event_fd(struct worker_set *ws)
{
	return event_fd;
}

unsigned
worker_events(struct worker_set *ws, struct worker_event *ev, unsigned max)
{
	unsigned n = events_left < max ? events_left : max;

	for (unsigned i = 0; i < n; i++)
		ev[i] = (struct worker_event){.kind = WORKER_EV_CQ, .id = i};
	events_left -= n;
	return n;
}

/* Functions that worker_events.c calls for events that do not occur here. */
void
defer_poll(struct daemon *d)
{
}

void
cq_failed(struct obj_cq *cq)
{
	fail();
}

void
srq_failed(struct obj_srq *srq)
{
	fail();
}

void
neigh_rx(struct device *dev, struct rte_mbuf *m)
{
	fail();
}

bool
slow_path_rx(struct device *dev, struct rte_mbuf *m)
{
	fail();
	return false;
}

void
worker_datagram_useful(struct worker_set *ws, const struct worker_event *ev)
{
	fail();
}

struct device *
daemon_device(const struct daemon *d, uint16_t port)
{
	fail();
	return NULL;
}

static struct daemon d;
static struct watch client;
static uint32_t left_then; /* when the client had its last turn */
static unsigned turns;

/* A client with ten requests. */
static void
on_client(struct watch *w, uint32_t events)
{
	left_then = events_left;
	d.loop.stop = ++turns == 10;
}

static int
setup(void **state)
{
	memset(&d, 0, sizeof(d));
	events_left = EVENTS;
	turns = 0;
	event_fd = eventfd(1, EFD_NONBLOCK);
	client = (struct watch){.fd = eventfd(1, EFD_NONBLOCK), .ready = on_client};
	idtab_init(&d.cqs, 64);
	return loop_init(&d.loop);
}

static int
teardown(void **state)
{
	idtab_free(&d.cqs);
	loop_close(&d.loop);
	close(event_fd);
	close(client.fd);
	return 0;
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

TEST(loop_takes_one_batch_of_events_a_turn)
{
	assert_int_equal(worker_events_start(&d), 0);
	d.worker_events.ready(&d.worker_events, EPOLLIN);
	assert_int_equal(events_left, EVENTS - 64);
	d.worker_events.ready(&d.worker_events, EPOLLIN);
	assert_int_equal(events_left, EVENTS - 2 * 64);
}

/* Waiting events do not precede clients again and again. */
TEST(clients_are_served_between_events)
{
	assert_int_equal(worker_events_start(&d), 0);
	assert_int_equal(loop_add(&d.loop, &client, EPOLLIN), 0);
	loop_run(&d.loop);
	assert_int_equal(turns, 10);
	assert_in_range(left_then, EVENTS - 11 * 64, EVENTS - 9 * 64);
}

/* At the end no client waits: all events are taken. */
TEST(no_event_is_left_at_the_end)
{
	assert_int_equal(worker_events_start(&d), 0);
	worker_events_stop(&d);
	assert_int_equal(events_left, 0);
}
