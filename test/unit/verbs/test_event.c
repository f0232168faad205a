/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels, asynchronous events, garbled handles, a daemon that dies, and fork. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "provider_fixture.h"
#include "../../kit/hang.h"

static bool
readable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLIN);
}

/* The channel shows that libibverbs' write was hooked: /dev/null would not have created one. */
REQUIREMENT("CQ-01")
FIXTURE_TEST(completion_event_reaches_its_channel)
{
	struct fixture *r = *state;
	struct ibv_cq *cq = NULL;
	void *cookie = NULL;

	assert_int_equal(r->f->cq[0].channel, 1);
	assert_false(readable(r->channel->fd));
	fake_comp_event(r->f, 0, r->f->cq[0].user_handle);
	assert_true(readable(r->channel->fd));
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	assert_ptr_equal(cq, r->cq);
	assert_ptr_equal(cookie, r);
	assert_false(readable(r->channel->fd));
	ibv_ack_cq_events(cq, 1);
}

FIXTURE_TEST(nonblocking_channel_returns_eagain)
{
	struct fixture *r = *state;
	struct ibv_cq *cq;
	void *cookie;

	fcntl(r->channel->fd, F_SETFL, fcntl(r->channel->fd, F_GETFL) | O_NONBLOCK);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), -1);
	assert_int_equal(errno, EAGAIN);
}

FIXTURE_TEST(destroy_cq_drops_its_events)
{
	struct fixture *r = *state;
	struct ibv_cq *second = ibv_create_cq(r->ctx, 4, NULL, r->channel, 0);
	uint64_t stale = r->f->cq[1].user_handle, live = r->f->cq[0].user_handle;
	struct ibv_cq *cq;
	void *cookie;

	fake_comp_event(r->f, 0, stale);
	fake_comp_event(r->f, 0, live);
	fake_comp_event(r->f, 0, stale);
	assert_int_equal(ibv_destroy_cq(second), 0);
	assert_true(readable(r->channel->fd));
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	assert_ptr_equal(cq, r->cq);
	/* the last one is stale too: it must not make the channel look readable */
	assert_false(readable(r->channel->fd));
	ibv_ack_cq_events(cq, 1);
	/* nor is it taken for an event of a later CQ */
	second = ibv_create_cq(r->ctx, 4, NULL, r->channel, 0);
	assert_int_not_equal(r->f->cq[1].user_handle, stale);
	ibv_destroy_cq(second);
}

struct late_ack {
	struct ibv_cq *cq;
	const bool *live; /* in the fake daemon */
	pid_t destroyer;  /* thread */
	bool acked, slept;
};

static void *
ack_later(void *arg)
{
	struct late_ack *a = arg;

	a->slept = COMES_TRUE(!__atomic_load_n(a->live, __ATOMIC_RELAXED) &&
			      thread_sleeps(a->destroyer));
	__atomic_store_n(&a->acked, true, __ATOMIC_SEQ_CST);
	ibv_ack_cq_events(a->cq, 1);
	return NULL;
}

FIXTURE_TEST(destroy_cq_waits_for_the_ack)
{
	struct fixture *r = *state;
	struct ibv_cq *second = ibv_create_cq(r->ctx, 4, NULL, r->channel, 0);
	struct late_ack late = {.cq = second, .live = &r->f->cq[1].live, .destroyer = gettid()};
	struct ibv_cq *cq;
	void *cookie;
	pthread_t t;

	fake_comp_event(r->f, 0, r->f->cq[1].user_handle);
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	pthread_create(&t, NULL, ack_later, &late);
	assert_int_equal(ibv_destroy_cq(second), 0);
	assert_true(__atomic_load_n(&late.acked, __ATOMIC_SEQ_CST));
	pthread_join(t, NULL);
	assert_true(late.slept);
}

FIXTURE_TEST(async_events_name_their_object)
{
	struct fixture *r = *state;
	struct ibv_async_event ev;
	struct ibv_qp *gone = fixture_create_qp(r, IBV_QPT_RC);
	uint64_t stale = r->f->qp[1].user_handle;

	fake_async_event(r->f, stale, IBV_EVENT_QP_FATAL);
	ibv_destroy_qp(gone);
	assert_false(readable(r->ctx->async_fd));
	fake_async_event(r->f, r->f->qp[0].user_handle, IBV_EVENT_COMM_EST);
	fake_async_event(r->f, r->f->cq[0].user_handle, IBV_EVENT_CQ_ERR);
	fake_async_event(r->f, 1, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_COMM_EST);
	assert_ptr_equal(ev.element.qp, r->qp);
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev), 0);
	assert_ptr_equal(ev.element.cq, r->cq);
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(ev.element.port_num, 1);
	ibv_ack_async_event(&ev);
}

FIXTURE_TEST(garbled_handles_get_enoent)
{
	struct fixture *r = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	uint32_t qp = r->qp->handle, cq = r->cq->handle;

	r->qp->handle = 0xdead;
	r->cq->handle = 0xbeef;
	assert_int_equal(ibv_modify_qp(r->qp, &attr, IBV_QP_STATE), ENOENT);
	assert_int_equal(ibv_destroy_qp(r->qp), ENOENT);
	assert_int_equal(ibv_destroy_cq(r->cq), ENOENT);
	r->qp->handle = qp;
	r->cq->handle = cq;
}

REQUIREMENT("EVT-14")
FIXTURE_TEST(lost_daemon_raises_device_fatal)
{
	struct fixture *r = *state;
	struct ibv_async_event ev;
	struct ibv_cq *cq;
	void *cookie;
	struct ibv_wc wc;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	fake_die(r->f);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev), -1);
	assert_int_equal(errno, EIO);
	/* a thread that waits for completions is woken once and finds none */
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	assert_ptr_equal(cq, r->cq);
	ibv_ack_cq_events(cq, 1);
	assert_true(ibv_poll_cq(r->cq, 1, &wc) < 0);
	assert_int_equal(ibv_req_notify_cq(r->cq, 0), EIO);
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_post_send(r->qp, &wr, &bad), EIO);
	assert_null(ibv_alloc_pd(r->ctx));
	assert_int_equal(errno, EIO);
	/* objects can still be destroyed: the teardown of this test does */
}

/* A program that only polls notices it too. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(poller_sees_the_daemon_die)
{
	struct fixture *r = *state;
	struct ibv_wc wc;
	int n = 0;

	fake_die(r->f);
	for (unsigned int i = 0; i < 1u << 18 && n == 0; i++)
		n = ibv_poll_cq(r->cq, 1, &wc);
	assert_true(n < 0);
}

/* The child of a fork can do nothing and does not harm the parent. Returns 0 if that holds. */
static int
child_checks(struct fixture *r)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {0}, *rbad;
	struct ibv_cq *cq;
	void *cookie;
	struct ibv_wc wc;

	if (ibv_post_send(r->qp, &wr, &bad) != EIO || ibv_post_recv(r->qp, &rwr, &rbad) != EIO)
		return 1;
	if (ibv_poll_cq(r->cq, 1, &wc) >= 0 || ibv_req_notify_cq(r->cq, 0) != EIO)
		return 2;
	if (ibv_get_cq_event(r->channel, &cq, &cookie) != -1 || ibv_alloc_pd(r->ctx) != NULL)
		return 3;
	if (ibv_destroy_qp(r->qp) || ibv_destroy_cq(r->cq))
		return 4;
	ibv_close_device(r->ctx);
	return 0;
}

FIXTURE_TEST(fork_does_not_disturb_the_parent)
{
	struct fixture *r = *state;
	uint32_t seen[UROCE_CTRL_OPS];
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *cookie;
	int status;
	pid_t pid;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	fake_comp_event(r->f, 0, r->f->cq[0].user_handle);
	/* an unacknowledged event and an unpolled completion: the child owns neither */
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	fake_comp_event(r->f, 0, r->f->cq[0].user_handle);
	fake_complete(r->f, 0, (struct uroce_cqe){.wr_id = 77, .qp_num = 0x100});
	memcpy(seen, r->f->seen, sizeof(seen));
	pid = fork();
	if (pid == 0)
		_exit(child_checks(r));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_memory_equal(seen, r->f->seen, sizeof(seen));
	assert_int_equal(r->f->qp[0].sq->prod, 0);
	/* the event is still there for the parent */
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	ibv_ack_cq_events(cq, 2);
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 77);
}

/* Makes every call that takes the lock of a queue, which is never released. */
static int
child_calls(struct fixture *r, struct ibv_qp_ex *ex, struct ibv_srq *srq)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_srq_attr larger = {.max_wr = 64};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {0}, *rbad;

	alarm(HANGS_S);
	if (ibv_post_send(r->qp, &wr, &bad) != EIO || ibv_post_recv(r->qp, &rwr, &rbad) != EIO ||
	    ibv_post_srq_recv(srq, &rwr, &rbad) != EIO)
		return 1;
	ibv_wr_start(ex);
	if (ibv_wr_complete(ex) != EIO)
		return 2;
	if (ibv_modify_qp(r->qp, &reset, IBV_QP_STATE) == 0 || ibv_resize_cq(r->cq, 64) == 0 ||
	    ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR) == 0)
		return 3;
	return ibv_destroy_qp(r->qp) || ibv_destroy_srq(srq) ? 4 : 0;
}

/* Other threads of the parent were in a post or poll; the child does not have these threads. */
FIXTURE_TEST(fork_works_while_queues_are_locked)
{
	struct fixture *r = *state;
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(r->pd, &sattr);
	struct ibv_qp_init_attr_ex xattr = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(r->ctx, &xattr);
	struct prov_lock *lock[] = {&prov_qp_of(r->qp)->sq.lock, &prov_qp_of(r->qp)->rq.lock,
				    &prov_qp_of(qp)->sq.lock, &prov_srq_of(srq)->ring.lock,
				    &prov_cq_of(r->cq)->lock};
	int status;
	pid_t pid;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	for (size_t i = 0; i < sizeof(lock) / sizeof(lock[0]); i++)
		prov_lock(lock[i]);
	pid = fork();
	if (pid == 0)
		_exit(child_calls(r, ibv_qp_to_qp_ex(qp), srq));
	for (size_t i = 0; i < sizeof(lock) / sizeof(lock[0]); i++)
		prov_unlock(lock[i]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

FIXTURE_TEST(parent_domain_keeps_its_pd)
{
	struct fixture *r = *state;
	struct ibv_parent_domain_init_attr attr = {
		.pd = r->pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
	};
	struct ibv_pd *domain = ibv_alloc_parent_domain(r->ctx, &attr);

	assert_non_null(domain);
	assert_int_equal(domain->handle, r->pd->handle);
	assert_int_equal(ibv_dealloc_pd(r->pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(r->f->seen[UROCE_CTRL_DEALLOC_PD], 0);
	attr.comp_mask = 1u << 31;
	assert_null(ibv_alloc_parent_domain(r->ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

FIXTURE_TEST(refusals_reach_the_caller)
{
	struct fixture *r = *state;
	/* not beside a variable of the address sanitizer, which the provider reads if it is built
	 * so */
	static _Alignas(16384) char buf[16384];
	struct ibv_mr *mr;

	r->f->refuse[UROCE_CTRL_ALLOC_PD] = ENOMEM;
	assert_null(ibv_alloc_pd(r->ctx));
	assert_int_equal(errno, ENOMEM);
	r->f->refuse[UROCE_CTRL_REG_MR] = EACCES;
	assert_null(ibv_reg_mr(r->pd, buf, sizeof(buf), 0));
	assert_int_equal(errno, EACCES);
	assert_null(ibv_create_cq(r->ctx, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(r->ctx, 4, NULL, NULL, 99));
	mr = ibv_reg_mr(r->pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(mr->lkey, 0x111);
	assert_int_equal(mr->rkey, 0x222);
	assert_int_equal(r->f->mr.addr, (uintptr_t)buf);
	assert_int_equal(r->f->mr.length, sizeof(buf));
	assert_int_equal(r->f->mr.access, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

UNIT_TEST(open_without_a_daemon_fails)
{
	struct fixture r = {0};

	setenv(UROCE_SOCK_ENV, "/nonexistent/uroced.sock", 1);
	assert_null(fixture_open(&r));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(r.vdev.refcount, 1);
}
