/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon is lost while threads wait for events, completions or queue space. All wake up, their
 * objects can be destroyed, and the device can be opened again (EVT-14, CQE-15).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "provider_fixture.h"

#define POSTERS 2
#define POLLERS 3
#define EACH    4000 /* WRs of a poster, at most */

static void
send_one(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_SEND}, *bad;

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

struct waiter {
	struct fixture *r;
	struct ibv_cq *cq;
	struct ibv_async_event ev;
	int rc;
	bool waiting;
	pthread_t t;
};

static void *
wait_cq_event(void *arg)
{
	struct waiter *w = arg;
	void *cookie;

	__atomic_store_n(&w->waiting, true, __ATOMIC_RELEASE);
	w->rc = ibv_get_cq_event(w->r->channel, &w->cq, &cookie);
	return NULL;
}

static void *
wait_async_event(void *arg)
{
	struct waiter *w = arg;

	__atomic_store_n(&w->waiting, true, __ATOMIC_RELEASE);
	w->rc = ibv_get_async_event(w->r->ctx, &w->ev);
	return NULL;
}

static void
waiter_start(struct waiter *w, struct fixture *r, void *(*fn)(void *))
{
	*w = (struct waiter){.r = r};
	assert_int_equal(pthread_create(&w->t, NULL, fn, w), 0);
	while (!__atomic_load_n(&w->waiting, __ATOMIC_ACQUIRE))
		sched_yield();
}

/* A program driven by events is woken and finds its outstanding WRs. */
REQUIREMENT("CQE-15", "EVT-14")
FIXTURE_TEST(waiting_program_is_woken_and_finds_its_wrs)
{
	struct fixture *r = *state;
	struct waiter comp, async;
	struct ibv_wc wc;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(ibv_req_notify_cq(r->cq, 0), 0);
	send_one(r->qp, 1);
	waiter_start(&comp, r, wait_cq_event);
	waiter_start(&async, r, wait_async_event);
	fake_die(r->f);
	pthread_join(comp.t, NULL);
	pthread_join(async.t, NULL);
	assert_int_equal(async.rc, 0);
	assert_int_equal(async.ev.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&async.ev);
	assert_int_equal(comp.rc, 0);
	assert_ptr_equal(comp.cq, r->cq);
	ibv_ack_cq_events(r->cq, 1);
	/* as such programs do it: arm, then poll */
	assert_int_equal(ibv_req_notify_cq(r->cq, 0), 0);
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_FATAL_ERR);
}

/*
 * The program polls one completion per event: an armed CQ with more entries raises another event.
 */
REQUIREMENT("CQE-15")
FIXTURE_TEST(cq_armed_with_entries_left_raises_another_event)
{
	struct fixture *r = *state;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *cookie;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	for (uint64_t id = 0; id < 3; id++)
		send_one(r->qp, id);
	fake_die(r->f);
	for (uint64_t id = 0; id < 3; id++) {
		assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
		ibv_ack_cq_events(cq, 1);
		assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, id);
	}
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_req_notify_cq(cq, 0), EIO);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), -EIO);
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), -1);
	assert_int_equal(errno, EIO);
}

/* Each CQ of the channel raises one event, after the daemon's own events; other CQs raise none. */
REQUIREMENT("EVT-14")
FIXTURE_TEST(each_cq_of_a_channel_raises_one_event)
{
	struct fixture *r = *state;
	struct ibv_cq *mine = ibv_create_cq(r->ctx, 4, NULL, r->channel, 0);
	struct ibv_cq *mute = ibv_create_cq(r->ctx, 4, NULL, NULL, 0);
	unsigned int seen[2] = {0};
	struct ibv_cq *cq;
	void *cookie;

	fake_comp_event(r->f, 0, r->f->cq[1].user_handle);
	fake_die(r->f);
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	assert_ptr_equal(cq, mine);
	ibv_ack_cq_events(cq, 1);
	fcntl(r->channel->fd, F_SETFL, fcntl(r->channel->fd, F_GETFL) | O_NONBLOCK);
	while (ibv_get_cq_event(r->channel, &cq, &cookie) == 0) {
		assert_true(cq == r->cq || cq == mine);
		seen[cq == mine]++;
		ibv_ack_cq_events(cq, 1);
	}
	assert_int_equal(errno, EIO);
	assert_int_equal(seen[0], 1);
	assert_int_equal(seen[1], 1);
	assert_int_equal(ibv_destroy_cq(mine), 0);
	assert_int_equal(ibv_destroy_cq(mute), 0);
}

/* Events may never be acknowledged: destroy does not wait, and a late acknowledgement is safe. */
REQUIREMENT("EVT-14")
FIXTURE_TEST(destroy_after_the_loss_does_not_wait_for_event_acks)
{
	struct fixture *r = *state;
	struct ibv_async_event ev[2];
	struct ibv_cq *cq;
	void *cookie;

	fake_async_event(r->f, r->f->qp[0].user_handle, IBV_EVENT_COMM_EST);
	fake_async_event(r->f, r->f->cq[0].user_handle, IBV_EVENT_CQ_ERR);
	fake_comp_event(r->f, 0, r->f->cq[0].user_handle);
	fake_die(r->f);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev[0]), 0);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev[1]), 0);
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	assert_false(prov_context_alive(prov_context_of(r->ctx)));
	assert_int_equal(ibv_destroy_qp(r->qp), 0);
	assert_int_equal(ibv_destroy_cq(r->cq), 0);
	r->qp = NULL;
	r->cq = NULL;
	ibv_ack_async_event(&ev[0]);
	ibv_ack_cq_events(cq, 1);
	/* a sanitizer sees whether that is still there */
	assert_int_equal(cq->comp_events_completed, 1);
	assert_int_equal(ev[0].element.qp->events_completed, 1);
}

/* Threads post and poll as the daemon dies: accepted WRs complete once, others are refused. */
struct storm {
	struct ibv_qp *qp[POSTERS];
	struct ibv_cq *cq;
	uint32_t accepted, polled;
	uint8_t done[POSTERS * EACH];
};

static void *
storm_post(void *arg)
{
	struct storm *s = arg;
	static uint32_t next;
	uint32_t me = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % POSTERS;

	for (uint32_t i = 0; i < EACH; i++) {
		struct ibv_send_wr wr = {.wr_id = me * EACH + i,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED},
				   *bad;
		int rc;

		while ((rc = ibv_post_send(s->qp[me], &wr, &bad)) == ENOMEM)
			sched_yield();
		if (rc) {
			assert_int_equal(rc, EIO);
			break;
		}
		__atomic_fetch_add(&s->accepted, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *
storm_poll(void *arg)
{
	struct storm *s = arg;
	struct ibv_wc wc[4];
	int n;

	while ((n = ibv_poll_cq(s->cq, 4, wc)) >= 0) {
		for (int i = 0; i < n; i++)
			__atomic_fetch_add(&s->done[wc[i].wr_id], 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&s->polled, (uint32_t)n, __ATOMIC_RELAXED);
		sched_yield();
	}
	assert_int_equal(n, -EIO);
	return NULL;
}

/* The worker: completes posted WRs up to a number. */
static void
storm_serve(struct fixture *r, uint32_t completions, enum fake_stop stop)
{
	while (completions) {
		for (unsigned int q = 1; q <= POSTERS && completions; q++) {
			struct uroce_ring_hdr *sq = r->f->qp[q].sq;
			struct fake_cq *cq = &r->f->cq[1];

			if (__atomic_load_n(&sq->prod, __ATOMIC_ACQUIRE) == sq->cons ||
			    cq->prod - __atomic_load_n(&cq->hdr->cons, __ATOMIC_ACQUIRE) >=
				    cq->entries) {
				sched_yield();
				continue;
			}
			fake_retire_send(r->f, q, 1, --completions ? FAKE_WHOLE : stop);
		}
	}
}

REQUIREMENT("CQE-15")
UNIT_TEST(threads_account_for_every_wr)
{
	for (enum fake_stop stop = FAKE_AT_CONS; stop < FAKE_STOPS; stop++) {
		struct storm *s = calloc(1, sizeof(*s));
		pthread_t t[POSTERS + POLLERS];
		struct fixture *r;
		uint32_t total = 0;

		fixture_setup(state);
		r = *state;
		s->cq = ibv_create_cq(r->ctx, 64, NULL, NULL, 0);
		for (unsigned int q = 0; q < POSTERS; q++) {
			struct ibv_qp_init_attr attr = {
				.send_cq = s->cq,
				.recv_cq = s->cq,
				.cap = {.max_send_wr = 32, .max_recv_wr = 1, .max_send_sge = 1},
				.qp_type = IBV_QPT_RC,
			};

			s->qp[q] = ibv_create_qp(r->pd, &attr);
			fixture_qp_to(s->qp[q], IBV_QPS_RTS);
		}
		for (unsigned int i = 0; i < POSTERS + POLLERS; i++)
			pthread_create(&t[i], NULL, i < POSTERS ? storm_post : storm_poll, s);
		storm_serve(r, 1000 + stop * 37, stop);
		fake_die(r->f);
		for (unsigned int i = 0; i < POSTERS + POLLERS; i++)
			pthread_join(t[i], NULL);
		for (unsigned int i = 0; i < POSTERS * EACH; i++) {
			assert_true(s->done[i] <= 1);
			total += s->done[i];
		}
		assert_int_equal(total, s->accepted);
		assert_int_equal(s->polled, s->accepted);
		for (unsigned int q = 0; q < POSTERS; q++)
			assert_int_equal(ibv_destroy_qp(s->qp[q]), 0);
		assert_int_equal(ibv_destroy_cq(s->cq), 0);
		fixture_teardown(state);
		free(s);
	}
}

/* The same process continues with the next daemon. */
REQUIREMENT("EVT-14")
FIXTURE_TEST(device_opens_again_after_a_restart)
{
	struct fixture *r = *state, again = {0};
	struct ibv_pd *pd;

	fake_die(r->f);
	assert_false(prov_context_alive(prov_context_of(r->ctx)));
	again.f = fake_start(NULL);
	again.ctx = fixture_open(&again);
	assert_non_null(again.ctx);
	pd = ibv_alloc_pd(again.ctx);
	assert_non_null(pd);
	assert_null(ibv_alloc_pd(r->ctx));
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	ibv_close_device(again.ctx);
	fake_stop(again.f);
}
