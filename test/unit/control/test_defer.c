/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that do not run: requests that need them wait without blocking the control thread, which
 * serves other clients meanwhile (lib/control/defer.h). fake.c fails a test that calls a stopped
 * worker.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "control/device.h"
#include "control/obj.h"
#include "fake.h"
#include "../../kit/unit.h"

static struct daemon d;
struct client {
	struct session *s;
	int fd;
	uint32_t pd, cq;
};
static struct client a, b;

static uint32_t
make(struct client *c, uint16_t op, const void *req, size_t len)
{
	uint32_t handle;
	uint8_t rep[512];

	assert_int_equal(fake_ask(c->s, c->fd, op, req, len, rep, ipc_op_get(op)->rep.len), 0);
	memcpy(&handle, rep, sizeof(handle));
	return handle;
}

static void
ask_to_end(struct client *c, uint16_t op, uint32_t handle)
{
	const struct uroce_handle req = {.handle = handle};

	fake_send(c->s, c->fd, op, &req, sizeof(req));
}

static uint32_t
end(struct client *c, uint16_t op, uint32_t handle)
{
	ask_to_end(c, op, handle);
	return fake_receive(c->fd, op, NULL, 0);
}

static uint32_t
make_cq(struct client *c)
{
	const struct uroce_create_cq_req req = {.cqe = 16};

	return make(c, UROCE_CTRL_CREATE_CQ, &req, sizeof(req));
}

static uint32_t
make_qp(struct client *c)
{
	const struct uroce_create_qp_req req = {.qp_type = QP_TYPE_RC,
						.pd = c->pd,
						.send_cq = c->cq,
						.recv_cq = c->cq,
						.cap = {16, 16, 1, 1, 0}};

	return make(c, UROCE_CTRL_CREATE_QP, &req, sizeof(req));
}

static uint32_t
make_mw(struct client *c)
{
	const struct uroce_alloc_mw_req req = {.pd = c->pd, .type = 1};

	return make(c, UROCE_CTRL_ALLOC_MW, &req, sizeof(req));
}

/* Empty: without a broker nothing checks for lost memory. */
static uint32_t
make_mr(struct client *c)
{
	const struct uroce_reg_mr_req req = {.pd = c->pd, .access = MEM_LOCAL_WRITE | MEM_MW_BIND};

	return make(c, UROCE_CTRL_REG_MR, &req, sizeof(req));
}

static uint32_t
make_ah(struct client *c)
{
	struct uroce_create_ah_req req = {.pd = c->pd,
					  .attr = {.sgid_index = 1, .is_global = 1, .port_num = 1}};

	memcpy(req.attr.dgid, c->s->dev->net.gid[1].gid, 16);
	return make(c, UROCE_CTRL_CREATE_AH, &req, sizeof(req));
}

static void
client_open(struct client *c)
{
	c->s = fake_session(&d, &c->fd);
	c->pd = make(c, UROCE_CTRL_ALLOC_PD, NULL, 0);
	c->cq = make_cq(c);
}

static int
setup(void **state)
{
	fake_open(&d);
	client_open(&a);
	client_open(&b);
	return 0;
}

static int
teardown(void **state)
{
	for (unsigned i = 0; i < FAKE_WORKERS; i++)
		fake_resume(&d, i);
	fake_close(&d);
	close(a.fd);
	close(b.fd);
	assert_true(TAILQ_EMPTY(&d.deferred));
	for (unsigned k = 0; k < QUOTA_NKINDS; k++)
		assert_int_equal(d.quota.used_all[k], 0);
	return 0;
}

/* A request that needs no worker gets its reply at once, whatever other clients wait for. */
static void
assert_served(struct client *c)
{
	uint32_t mr = make_mr(c);

	assert_int_not_equal(mr, UINT32_MAX);
	assert_int_equal(end(c, UROCE_CTRL_DESTROY_CQ, make_cq(c)), 0);
	assert_int_equal(end(c, UROCE_CTRL_DEALLOC_PD, make(c, UROCE_CTRL_ALLOC_PD, NULL, 0)), 0);
}

static const struct {
	uint32_t (*make)(struct client *c);
	uint16_t end;
} kinds[] = {
	{make_qp, UROCE_CTRL_DESTROY_QP},
	{make_mr, UROCE_CTRL_DEREG_MR},
	{make_mw, UROCE_CTRL_DEALLOC_MW},
	{make_ah, UROCE_CTRL_DESTROY_AH},
};
#define NKINDS     (sizeof(kinds) / sizeof(kinds[0]))

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

REQUIREMENT("MEM-03")
TEST(destroy_is_answered_when_no_worker_uses_the_object)
{
	for (unsigned k = 0; k < NKINDS; k++) {
		for (unsigned w = 0; w < FAKE_WORKERS; w++) {
			uint32_t handle = kinds[k].make(&a);

			fake_stop(w);
			assert_int_equal(end(&a, kinds[k].end, handle), FAKE_NO_REPLY);
			assert_served(&b);
			assert_int_equal(fake_receive(a.fd, kinds[k].end, NULL, 0), FAKE_NO_REPLY);
			fake_resume(&d, w);
			assert_int_equal(fake_receive(a.fd, kinds[k].end, NULL, 0), 0);
			assert_int_equal(end(&a, kinds[k].end, handle), ENOENT);
		}
	}
}

TEST(clients_wait_for_workers_side_by_side)
{
	uint32_t qp = make_qp(&a), mw = make_mw(&b);

	fake_stop(0);
	fake_stop(1);
	ask_to_end(&a, UROCE_CTRL_DESTROY_QP, qp);
	ask_to_end(&b, UROCE_CTRL_DEALLOC_MW, mw);
	fake_resume(&d, 1);
	assert_int_equal(fake_receive(a.fd, UROCE_CTRL_DESTROY_QP, NULL, 0), FAKE_NO_REPLY);
	assert_int_equal(fake_receive(b.fd, UROCE_CTRL_DEALLOC_MW, NULL, 0), FAKE_NO_REPLY);
	fake_resume(&d, 0);
	assert_int_equal(fake_receive(a.fd, UROCE_CTRL_DESTROY_QP, NULL, 0), 0);
	assert_int_equal(fake_receive(b.fd, UROCE_CTRL_DEALLOC_MW, NULL, 0), 0);
}

/* Its worker has resources for one QP a slot. */
TEST(a_qp_s_slot_is_free_when_its_worker_has_dropped_it)
{
	uint32_t handle = make_qp(&a);
	struct obj_qp *q = idtab_get(&a.s->qps, handle);
	uint32_t slot = q->qp->conn.qpn & d.qps.mask;

	fake_stop(0);
	fake_stop(1);
	ask_to_end(&a, UROCE_CTRL_DESTROY_QP, handle);
	assert_null(d.qps.slot[slot]); /* no packet finds it */
	assert_true(d.qpns.held[slot]);
	fake_resume(&d, 0);
	fake_resume(&d, 1);
	assert_false(d.qpns.held[slot]);
}

TEST(a_session_ends_without_the_control_thread_waiting)
{
	uint64_t qps = d.quota.used_all[QUOTA_QPS];

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < NKINDS; k++)
			kinds[k].make(&a);
	}
	fake_stop(1);
	session_destroy(a.s);
	assert_int_equal(recv(a.fd, &qps, 1, MSG_DONTWAIT), 0); /* the client sees it at once */
	assert_int_equal(d.quota.used_all[QUOTA_CLIENTS], 1);
	assert_int_equal(d.quota.used_all[QUOTA_QPS], 3);
	assert_false(TAILQ_EMPTY(&d.ending));
	assert_served(&b);
	fake_resume(&d, 1);
	assert_true(TAILQ_EMPTY(&d.ending));
	assert_int_equal(d.quota.used_all[QUOTA_QPS], 0);
	assert_int_equal(d.quota.used_all[QUOTA_CONTEXTS], 1);
	assert_int_equal(fake_qps, 0);
	assert_int_equal(fake_doorbells, FAKE_WORKERS);
}

/* The request's object ends with the session, once. */
TEST(a_session_ends_while_its_request_waits)
{
	for (unsigned k = 0; k < NKINDS; k++) {
		struct client c;
		uint32_t handle;

		client_open(&c);
		kinds[k].make(&c);
		handle = kinds[k].make(&c);
		fake_stop(0);
		fake_stop(1);
		ask_to_end(&c, kinds[k].end, handle);
		session_destroy(c.s);
		fake_resume(&d, 0);
		assert_false(TAILQ_EMPTY(&d.ending));
		fake_resume(&d, 1);
		assert_true(TAILQ_EMPTY(&d.ending));
		close(c.fd);
	}
}

/* Counts what is left of a session that ends. */
static uint64_t
objects(void)
{
	return d.quota.used_all[QUOTA_QPS] + d.quota.used_all[QUOTA_CQS] +
	       d.quota.used_all[QUOTA_MRS] + d.quota.used_all[QUOTA_PDS];
}

/*
 * A client that owns many objects ends: a turn of the control thread's loop frees some of them, and
 * other clients have theirs in between.
 */
#define MANY       50u
#define SLICE_MOST 17u /* objects per turn */
TEST(a_session_of_many_objects_ends_in_slices)
{
	uint64_t left, of_b = 2; /* its PD and CQ */
	unsigned turns = 0;

	for (unsigned i = 0; i < MANY; i++) {
		make_mw(&a);
		make_cq(&a);
		make(&a, UROCE_CTRL_ALLOC_PD, NULL, 0);
	}
	left = objects();
	session_destroy(a.s);
	while (!TAILQ_EMPTY(&d.ending)) {
		assert_in_range(left - objects(), 0, SLICE_MOST);
		left = objects();
		assert_served(&b);
		assert_in_range(objects(), left, left + 1); /* b's region stays */
		left = objects();
		of_b++;
		assert_int_equal(fake_turn(&d), true);
		turns++;
	}
	assert_in_range(turns, 3 * MANY / SLICE_MOST, 3 * MANY);
	assert_int_equal(objects(), of_b);
	assert_false(fake_turn(&d));
}

/* Windows of other PDs are not looked at, however many: the end costs the owner's steps only. */
TEST(the_end_of_a_session_takes_no_steps_for_others)
{
	unsigned turns[2] = {0};

	for (unsigned more = 0; more < 2; more++) {
		struct client c;

		client_open(&c);
		make_mw(&c);
		make_mr(&c);
		for (unsigned i = 0; i < more * MANY; i++)
			make_mw(&b);
		session_destroy(c.s);
		while (fake_turn(&d))
			turns[more]++;
		close(c.fd);
	}
	assert_int_equal(turns[1], turns[0]);
}

/* Sessions that end take turns. */
TEST(sessions_that_end_take_turns)
{
	for (unsigned i = 0; i < MANY; i++)
		make_cq(&a);
	for (unsigned i = 0; i < MANY / 2; i++)
		make_cq(&b);
	session_destroy(a.s);
	session_destroy(b.s);
	/* b's end is not behind all of a's */
	while (TAILQ_NEXT(TAILQ_FIRST(&d.ending), link) != NULL)
		assert_true(fake_turn(&d));
	assert_ptr_equal(TAILQ_FIRST(&d.ending), a.s);
	while (fake_turn(&d))
		;
	assert_true(TAILQ_EMPTY(&d.ending));
}

/* A region of a's with a window of b's: the window has its region's address. */
static struct obj_mw *
bind_across(struct obj_mr **region)
{
	struct obj_mw *m;

	/* a window has the PD of its region: b imports a's */
	assert_int_equal(pd_make(b.s, ((struct obj_pd *)idtab_get(&a.s->pds, a.pd))->shared, &b.pd),
			 0);
	m = idtab_get(&b.s->mws, make_mw(&b));
	*region = idtab_get(&a.s->mrs, make_mr(&a));
	m->mr.parent = &(*region)->mr;
	(*region)->mr.windows = 1;
	return m;
}

static struct mr *
shown(const struct mr *mr)
{
	return d.mrs.slot[mr->slot];
}

REQUIREMENT("MEM-04")
TEST(windows_on_a_session_s_regions_are_unbound_when_quiescent)
{
	struct obj_mr *region;
	struct obj_mw *m = bind_across(&region);

	fake_stop(0);
	session_destroy(a.s);
	assert_ptr_equal(shown(&m->mr), &m->mr);
	assert_ptr_equal(m->mr.parent, &region->mr);
	fake_resume(&d, 0);
	assert_true(TAILQ_EMPTY(&d.ending));
	assert_null(m->mr.parent);
	assert_ptr_equal(shown(&m->mr), &m->mr); /* its owner may bind it again */
}

/* The window's session ends meanwhile: the window goes with it, after releasing the region. */
REQUIREMENT("MEM-04")
TEST(two_sessions_end_that_share_a_window)
{
	struct obj_mr *region;
	struct obj_mw *m = bind_across(&region);

	fake_stop(0);
	session_destroy(b.s);
	session_destroy(a.s);
	assert_ptr_equal(m->mr.parent, &region->mr);
	fake_resume(&d, 0);
	assert_true(TAILQ_EMPTY(&d.ending));
}

REQUIREMENT("MEM-03")
TEST(a_region_with_a_window_is_in_use_again)
{
	uint32_t handle = make_mr(&a);
	struct obj_mr *region = idtab_get(&a.s->mrs, handle);

	fake_stop(0);
	ask_to_end(&a, UROCE_CTRL_DEREG_MR, handle);
	assert_ptr_equal(shown(&region->mr), &mr_hidden);
	region->mr.windows = 1; /* a bind that the stopped worker is executing */
	fake_resume(&d, 0);
	assert_int_equal(fake_receive(a.fd, UROCE_CTRL_DEREG_MR, NULL, 0), EBUSY);
	assert_ptr_equal(shown(&region->mr), &region->mr);
	region->mr.windows = 0;
	assert_int_equal(end(&a, UROCE_CTRL_DEREG_MR, handle), 0);
}

/* As if the client that closed had been gone when the request came. */
TEST(a_request_waits_for_what_closed_sessions_give_back)
{
	struct quota_limit *limit = &d.quota.limit[QUOTA_CQS];
	const struct uroce_create_cq_req req = {.cqe = 16};
	struct uroce_create_cq_rep rep;

	limit->all = d.quota.used_all[QUOTA_CQS];
	assert_int_equal(fake_ask(b.s, b.fd, UROCE_CTRL_CREATE_CQ, &req, sizeof(req), NULL, 0),
			 ENOMEM);
	fake_stop(0);
	session_destroy(a.s);
	fake_send(b.s, b.fd, UROCE_CTRL_CREATE_CQ, &req, sizeof(req));
	assert_int_equal(fake_receive(b.fd, UROCE_CTRL_CREATE_CQ, &rep, sizeof(rep)),
			 FAKE_NO_REPLY);
	fake_resume(&d, 0);
	assert_int_equal(fake_receive(b.fd, UROCE_CTRL_CREATE_CQ, &rep, sizeof(rep)), 0);
	limit->all = QUOTA_UNLIMITED;
	assert_served(&b);
}

/*
 * Sessions that end later do not make a request wait: a user that opens and closes devices all the
 * time would keep others that have reached their limits without a reply.
 */
TEST(a_request_does_not_wait_for_sessions_that_end_later)
{
	const struct uroce_create_cq_req req = {.cqe = 16};
	struct session later = {.ended = 0};

	d.quota.limit[QUOTA_CQS].all = 0; /* also without a's */
	fake_stop(0);
	session_destroy(a.s);
	fake_send(b.s, b.fd, UROCE_CTRL_CREATE_CQ, &req, sizeof(req));
	assert_int_equal(fake_receive(b.fd, UROCE_CTRL_CREATE_CQ, NULL, 0), FAKE_NO_REPLY);
	later.ended = ++d.ended;
	TAILQ_INSERT_TAIL(&d.ending, &later, link);
	fake_resume(&d, 0);
	assert_ptr_equal(TAILQ_FIRST(&d.ending), &later);
	assert_int_equal(fake_receive(b.fd, UROCE_CTRL_CREATE_CQ, NULL, 0), ENOMEM);
	assert_true(TAILQ_EMPTY(&d.retrying));
	/* The next request waits for it. */
	fake_send(b.s, b.fd, UROCE_CTRL_CREATE_CQ, &req, sizeof(req));
	assert_int_equal(fake_receive(b.fd, UROCE_CTRL_CREATE_CQ, NULL, 0), FAKE_NO_REPLY);
	assert_ptr_equal(TAILQ_FIRST(&d.retrying), b.s);
	session_destroy(b.s);
	TAILQ_REMOVE(&d.ending, &later, link);
}

TEST(a_session_ends_while_its_request_waits_for_others)
{
	const struct uroce_create_cq_req req = {.cqe = 16};

	d.quota.limit[QUOTA_CQS].all = d.quota.used_all[QUOTA_CQS];
	fake_stop(0);
	session_destroy(a.s);
	fake_send(b.s, b.fd, UROCE_CTRL_CREATE_CQ, &req, sizeof(req));
	assert_ptr_equal(TAILQ_FIRST(&d.retrying), b.s);
	session_destroy(b.s);
	assert_true(TAILQ_EMPTY(&d.retrying));
	fake_resume(&d, 0);
	assert_true(TAILQ_EMPTY(&d.ending));
}
