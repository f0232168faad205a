/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of a context: their references, and that all are freed (lib/control). */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "control/device.h"
#include "control/obj.h"
#include "fake.h"
#include "../../kit/unit.h"

static struct daemon d;
static struct session *s;
static int client;
static uint64_t before[QUOTA_NKINDS]; /* quota in use while the context had no object */

static int
setup(void **state)
{
	fake_open(&d);
	s = fake_session(&d, &client);
	memcpy(before, d.quota.used_all, sizeof(before));
	return 0;
}

static int
teardown(void **state)
{
	fake_close(&d);
	close(client);
	return 0;
}

/* A request that reports its status and whose reply begins with a handle. */
static uint32_t
make(uint16_t op, const void *req, size_t len, uint32_t *handle)
{
	uint8_t rep[512];
	uint32_t status = fake_ask(s, client, op, req, len, rep, ipc_op_get(op)->rep.len);

	if (status == 0)
		memcpy(handle, rep, sizeof(*handle));
	return status;
}

static uint32_t
end(uint16_t op, uint32_t handle)
{
	const struct uroce_handle req = {.handle = handle};

	return fake_ask(s, client, op, &req, sizeof(req), NULL, 0);
}

/* One object of each kind; later kinds refer to earlier ones. */
struct all {
	uint32_t pd, channel, cq, srq, mw, ah, qp;
};

static uint32_t
make_pd(struct all *a)
{
	return make(UROCE_CTRL_ALLOC_PD, NULL, 0, &a->pd);
}

static uint32_t
make_channel(struct all *a)
{
	return make(UROCE_CTRL_CREATE_CHANNEL, NULL, 0, &a->channel);
}

static uint32_t
make_cq(struct all *a)
{
	const struct uroce_create_cq_req req = {.cqe = 16, .channel = a->channel + 1};

	return make(UROCE_CTRL_CREATE_CQ, &req, sizeof(req), &a->cq);
}

static uint32_t
make_srq(struct all *a)
{
	const struct uroce_create_srq_req req = {.pd = a->pd, .max_wr = 16, .max_sge = 1};

	return make(UROCE_CTRL_CREATE_SRQ, &req, sizeof(req), &a->srq);
}

static uint32_t
make_mw(struct all *a)
{
	const struct uroce_alloc_mw_req req = {.pd = a->pd, .type = 2};

	return make(UROCE_CTRL_ALLOC_MW, &req, sizeof(req), &a->mw);
}

static uint32_t
make_ah(struct all *a)
{
	struct uroce_create_ah_req req = {.pd = a->pd,
					  .attr = {.sgid_index = 1, .is_global = 1, .port_num = 1}};

	memcpy(req.attr.dgid, s->dev->net.gid[1].gid, 16); /* its own: needs no neighbour */
	return make(UROCE_CTRL_CREATE_AH, &req, sizeof(req), &a->ah);
}

static uint32_t
make_qp(struct all *a)
{
	const struct uroce_create_qp_req req = {.qp_type = QP_TYPE_UD,
						.pd = a->pd,
						.send_cq = a->cq,
						.recv_cq = a->cq,
						.srq = a->srq + 1,
						.cap = {16, 16, 1, 1, 0}};

	return make(UROCE_CTRL_CREATE_QP, &req, sizeof(req), &a->qp);
}

static const struct row {
	const char *name;
	uint32_t (*make)(struct all *a);
	uint16_t end;     /* operation that destroys it; 0: only its session or descriptor does */
	size_t at;        /* its handle in struct all */
	const char *says; /* calls to workers when it is destroyed */
	enum quota_kind takes[4];
	unsigned ntakes;
} rows[] = {
	{"PD", make_pd, UROCE_CTRL_DEALLOC_PD, offsetof(struct all, pd), "", {QUOTA_PDS}, 1},
	{"channel", make_channel, 0, 0, "", {QUOTA_CHANNELS, QUOTA_FDS}, 2},
	{"CQ", make_cq, UROCE_CTRL_DESTROY_CQ, offsetof(struct all, cq), "", {QUOTA_CQS}, 1},
	{"SRQ", make_srq, UROCE_CTRL_DESTROY_SRQ, offsetof(struct all, srq), "", {QUOTA_SRQS}, 1},
	{"MW", make_mw, UROCE_CTRL_DEALLOC_MW, offsetof(struct all, mw), "grace", {QUOTA_MRS}, 1},
	{"AH", make_ah, UROCE_CTRL_DESTROY_AH, offsetof(struct all, ah), "grace", {QUOTA_AHS}, 1},
	{"QP",
	 make_qp,
	 UROCE_CTRL_DESTROY_QP,
	 offsetof(struct all, qp),
	 "forget grace",
	 {QUOTA_QPS},
	 1},
};
#define NROWS (sizeof(rows) / sizeof(rows[0]))

static uint32_t
handle_of(const struct all *a, const struct row *r)
{
	uint32_t handle;

	memcpy(&handle, (const char *)a + r->at, sizeof(handle));
	return handle;
}

/* Except the segments of rings, which a context keeps. */
static void
assert_held(const uint64_t *held, const char *when)
{
	for (unsigned k = 0; k < QUOTA_NKINDS; k++) {
		if (k == QUOTA_QUEUE_MEM || k == QUOTA_MAPS || k == QUOTA_FDS)
			continue;
		if (d.quota.used_all[k] != held[k])
			fail_msg("%s: %lu of kind %u are held, not %lu", when,
				 (unsigned long)d.quota.used_all[k], k, (unsigned long)held[k]);
	}
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

TEST(destroy_frees_the_object_and_ends_the_handle)
{
	uint64_t held[NROWS][QUOTA_NKINDS];
	struct all a = {0};

	for (unsigned i = 0; i < NROWS; i++) {
		memcpy(held[i], d.quota.used_all, sizeof(held[i]));
		assert_int_equal(rows[i].make(&a), 0);
		assert_int_equal(d.quota.used_all[rows[i].takes[0]], held[i][rows[i].takes[0]] + 1);
	}
	for (unsigned i = NROWS; i-- > 0;) {
		if (rows[i].end == 0)
			break; /* those before it stay: the CQ's channel is still there */
		fake_reset();
		assert_int_equal(end(rows[i].end, handle_of(&a, &rows[i])), 0);
		assert_string_equal(fake_said, rows[i].says);
		assert_held(held[i], rows[i].name);
		assert_int_equal(end(rows[i].end, handle_of(&a, &rows[i])), ENOENT);
		assert_held(held[i], rows[i].name);
	}
	assert_int_equal(fake_qps, 0);
}

TEST(referenced_objects_cannot_be_destroyed)
{
	struct uroce_mcast_req group = {.gid = {0xff, 0x0e, [15] = 1}};
	struct all a = {0};

	for (unsigned i = 0; i < NROWS; i++)
		assert_int_equal(rows[i].make(&a), 0);
	group.qp = a.qp;
	assert_int_equal(fake_ask(s, client, UROCE_CTRL_ATTACH_MCAST, &group, sizeof(group), NULL,
				  0),
			 0);
	assert_int_equal(end(UROCE_CTRL_DESTROY_QP, a.qp), EBUSY);
	assert_int_equal(fake_ask(s, client, UROCE_CTRL_DETACH_MCAST, &group, sizeof(group), NULL,
				  0),
			 0);
	assert_int_equal(end(UROCE_CTRL_DESTROY_CQ, a.cq), EBUSY);
	assert_int_equal(end(UROCE_CTRL_DESTROY_SRQ, a.srq), EBUSY);
	assert_int_equal(end(UROCE_CTRL_DESTROY_QP, a.qp), 0);
	/* each of the other three keeps the PD */
	assert_int_equal(end(UROCE_CTRL_DEALLOC_PD, a.pd), EBUSY);
	assert_int_equal(end(UROCE_CTRL_DESTROY_AH, a.ah), 0);
	assert_int_equal(end(UROCE_CTRL_DEALLOC_PD, a.pd), EBUSY);
	assert_int_equal(end(UROCE_CTRL_DEALLOC_MW, a.mw), 0);
	assert_int_equal(end(UROCE_CTRL_DEALLOC_PD, a.pd), EBUSY);
	assert_int_equal(end(UROCE_CTRL_DESTROY_SRQ, a.srq), 0);
	assert_int_equal(end(UROCE_CTRL_DEALLOC_PD, a.pd), 0);
	assert_int_equal(end(UROCE_CTRL_DESTROY_CQ, a.cq), 0);
}

/* A program may post datagrams, not wait for them, and destroy their address handle. */
REQUIREMENT("WIRE-07")
TEST(posted_datagrams_leave_before_their_address_handle)
{
	struct all a = {0};
	struct obj_qp *q;

	for (unsigned i = 0; i < NROWS; i++)
		assert_int_equal(rows[i].make(&a), 0);
	fake_reset();
	assert_int_equal(end(UROCE_CTRL_DESTROY_AH, a.ah), 0);
	assert_string_equal(fake_said, "grace"); /* nothing is posted */
	assert_int_equal(make_ah(&a), 0);
	fake_sends_to = a.ah;
	q = idtab_get(&s->qps, a.qp);
	q->qp->bind.sq.hdr->prod++;
	fake_reset();
	assert_int_equal(end(UROCE_CTRL_DESTROY_AH, a.ah), 0);
	assert_string_equal(fake_said, "send grace");
	assert_int_equal(end(UROCE_CTRL_DESTROY_QP, a.qp), 0);
}

TEST(qp_keeps_its_pd)
{
	struct all a = {0};

	for (unsigned i = 0; i < NROWS; i++)
		assert_int_equal(rows[i].make(&a), 0);
	assert_int_equal(end(UROCE_CTRL_DESTROY_AH, a.ah), 0);
	assert_int_equal(end(UROCE_CTRL_DEALLOC_MW, a.mw), 0);
	assert_int_equal(((struct obj_pd *)idtab_get(&s->pds, a.pd))->o.refs, 2);
	assert_int_equal(end(UROCE_CTRL_DESTROY_QP, a.qp), 0);
	assert_int_equal(((struct obj_pd *)idtab_get(&s->pds, a.pd))->o.refs, 1);
}

/* The workers know the hosts that QPs are connected to, until the last QP leaves. */
REQUIREMENT("CM-16")
TEST(hosts_of_connected_qps_are_known)
{
	const uint8_t *host = s->dev->net.gid[1].gid; /* its own: needs no neighbour */
	struct uroce_create_qp_req create = {.qp_type = QP_TYPE_UC, .cap = {16, 16, 1, 1, 0}};
	struct uroce_modify_qp_req req = {
		.attr = {.port_num = 1,
			 .path_mtu = 3,
			 .dest_qp_num = 7,
			 .ah = {.is_global = 1, .sgid_index = 1, .port_num = 1}}};
	struct all a = {0};
	uint32_t first = 0;

	for (unsigned i = 0; i < NROWS; i++)
		assert_int_equal(rows[i].make(&a), 0);
	create.pd = a.pd;
	create.send_cq = create.recv_cq = a.cq;
	memcpy(req.attr.ah.dgid, host, 16);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(make(UROCE_CTRL_CREATE_QP, &create, sizeof(create), &req.handle),
				 0);
		req.attr_mask = QP_STATE | QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS;
		req.attr.qp_state = QP_INIT;
		assert_int_equal(fake_ask(s, client, UROCE_CTRL_MODIFY_QP, &req, sizeof(req), NULL,
					  0),
				 0);
		assert_int_equal(fake_connected, i);
		req.attr_mask = QP_STATE | QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN;
		req.attr.qp_state = QP_RTR;
		assert_int_equal(fake_ask(s, client, UROCE_CTRL_MODIFY_QP, &req, sizeof(req), NULL,
					  0),
				 0);
		assert_int_equal(fake_connected, i + 1);
		assert_memory_equal(fake_host, host, 16);
		if (i == 0)
			first = req.handle;
	}
	req.attr_mask = QP_STATE;
	req.attr.qp_state = QP_RESET;
	assert_int_equal(fake_ask(s, client, UROCE_CTRL_MODIFY_QP, &req, sizeof(req), NULL, 0), 0);
	assert_int_equal(fake_connected, 1);
	assert_int_equal(end(UROCE_CTRL_DESTROY_QP, req.handle), 0);
	assert_int_equal(fake_connected, 1);
	assert_int_equal(end(UROCE_CTRL_DESTROY_QP, first), 0);
	assert_int_equal(fake_connected, 0);
}

/* Q_Keys with the high bit, such as QP1's, are for root and the daemon's user. */
REQUIREMENT("WIRE-08")
TEST(controlled_qkeys_are_for_root)
{
	struct uroce_modify_qp_req req = {.attr_mask = QP_STATE | QP_PKEY_INDEX | QP_PORT | QP_QKEY,
					  .attr = {.qp_state = QP_INIT, .port_num = 1}};
	static const uint32_t qkeys[] = {0x80010000, 0x80000000, 0xffffffff};
	struct all a = {0};

	for (unsigned i = 0; i < NROWS; i++)
		assert_int_equal(rows[i].make(&a), 0);
	req.handle = a.qp;
	for (unsigned i = 0; i < sizeof(qkeys) / sizeof(qkeys[0]); i++) {
		req.attr.qkey = qkeys[i];
		s->user->privileged = false;
		assert_int_equal(fake_ask(s, client, UROCE_CTRL_MODIFY_QP, &req, sizeof(req), NULL,
					  0),
				 EPERM);
		s->user->privileged = true;
		assert_int_equal(fake_ask(s, client, UROCE_CTRL_MODIFY_QP, &req, sizeof(req), NULL,
					  0),
				 0);
	}
	req.attr.qkey = 0x7fffffff;
	s->user->privileged = false;
	assert_int_equal(fake_ask(s, client, UROCE_CTRL_MODIFY_QP, &req, sizeof(req), NULL, 0), 0);
	s->user->privileged = true;
}

/* Each kind is refused for lack of each resource that it needs: nothing remains. */
TEST(refused_object_leaves_nothing)
{
	struct all a = {0};

	for (unsigned i = 0; i < NROWS; i++) {
		uint64_t held[QUOTA_NKINDS];

		memcpy(held, d.quota.used_all, sizeof(held));
		for (unsigned k = 0; k < rows[i].ntakes; k++) {
			struct quota_limit *limit = &d.quota.limit[rows[i].takes[k]];
			struct quota_limit was = *limit;
			struct all none = a;

			limit->all = d.quota.used_all[rows[i].takes[k]];
			assert_int_equal(rows[i].make(&none), ENOMEM);
			*limit = was;
			assert_held(held, rows[i].name);
			assert_int_equal(d.quota.used_all[QUOTA_FDS], held[QUOTA_FDS]);
		}
		assert_int_equal(rows[i].make(&a), 0);
	}
	/* nor does any reference remain to the objects they would have used */
	for (unsigned i = NROWS; rows[--i].end != 0;)
		assert_int_equal(end(rows[i].end, handle_of(&a, &rows[i])), 0);
	assert_int_equal(end(UROCE_CTRL_DEALLOC_PD, a.pd), 0);
}

/* No ring fits any more: resources taken before are returned. */
TEST(queue_without_memory_leaves_nothing)
{
	struct uroce_create_cq_req cq = {.cqe = EVENTS_MAX_CQE};
	struct uroce_create_srq_req srq = {.max_wr = QP_MAX_WR, .max_sge = 16};
	struct uroce_create_qp_req qp = {.qp_type = QP_TYPE_RC,
					 .cap = {QP_MAX_WR, QP_MAX_WR, 16, 16, 0}};
	uint32_t handle;
	uint64_t held[QUOTA_NKINDS];
	struct all a = {0};

	for (unsigned i = 0; rows[i].make != make_qp; i++)
		assert_int_equal(rows[i].make(&a), 0);
	memcpy(held, d.quota.used_all, sizeof(held));
	d.quota.limit[QUOTA_QUEUE_MEM].all = d.quota.used_all[QUOTA_QUEUE_MEM];
	qp.pd = srq.pd = a.pd;
	qp.send_cq = qp.recv_cq = a.cq;
	assert_int_equal(make(UROCE_CTRL_CREATE_CQ, &cq, sizeof(cq), &handle), ENOMEM);
	assert_held(held, "CQ");
	assert_int_equal(make(UROCE_CTRL_CREATE_SRQ, &srq, sizeof(srq), &handle), ENOMEM);
	assert_held(held, "SRQ");
	assert_int_equal(make(UROCE_CTRL_CREATE_QP, &qp, sizeof(qp), &handle), ENOMEM);
	assert_held(held, "QP");
	assert_int_equal(fake_qps, 0);
	assert_int_equal(((struct obj_pd *)idtab_get(&s->pds, a.pd))->o.refs, 3);
}

/*
 * A look-up of memory that failed, because it took too long on a busy machine or the broker was
 * lost, is refused for that reason, also if the daemon is to keep the file: the context's first
 * memory.
 */
REQUIREMENT("MEM-05")
TEST(failed_look_up_gives_its_own_error)
{
	static const int errs[] = {ETIMEDOUT, EIO, EBUSY, EFAULT, EPERM, EMFILE, ENOMEM, EINVAL};
	struct uroce_reg_mr_req req = {.addr = 0x10018,
				       .length = 24,
				       .iova = 0x10018,
				       .npieces = 1,
				       .keep = 1,
				       .piece = {{.va = 0x10000,
						  .len = 0x10000,
						  .fd_off = 0x10000,
						  .kind = UROCE_PIECE_KEPT}}};
	uint64_t held[QUOTA_NKINDS];
	struct all a = {0};

	assert_int_equal(make_pd(&a), 0);
	memcpy(held, d.quota.used_all, sizeof(held));
	req.pd = a.pd;
	for (unsigned i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
		const struct mrmap_found found = {.err = -errs[i]};
		const struct ctrl_req q = {.body = &req, .found = &found};
		struct uroce_reg_mr_rep body;
		struct ctrl_rep rep = {.body = &body};

		assert_int_equal(mr_reg(s, &q, &rep), errs[i]);
		assert_held(held, "a region");
		assert_null(s->mrkept);
	}
}

TEST(end_of_a_session_frees_all_objects)
{
	struct session *other;
	int other_client;
	struct all a = {0};

	other = fake_session(&d, &other_client);
	for (unsigned n = 0; n < 3; n++) {
		for (unsigned i = 0; i < NROWS; i++)
			assert_int_equal(rows[i].make(&a), 0);
	}
	assert_int_equal(fake_qps, 3);
	assert_int_equal(fake_doorbells, 2 * FAKE_WORKERS);
	fake_reset();
	session_destroy(s);
	while (fake_turn(&d))
		;
	/* no QP moves when it leaves its worker, and all have left at the next grace period's end
	 */
	assert_string_equal(fake_said, "grace forget forget doorbell forget doorbell grace grace");
	assert_int_equal(fake_qps, 0);
	assert_int_equal(fake_doorbells, FAKE_WORKERS);
	assert_ptr_equal(TAILQ_FIRST(&d.sessions), other);
	assert_true(TAILQ_EMPTY(&d.dev[0]->qps));
	session_destroy(other);
	assert_int_equal(fake_doorbells, 0);
	for (unsigned k = 0; k < QUOTA_NKINDS; k++)
		assert_int_equal(d.quota.used_all[k], 0);
	assert_int_equal(d.cqs.used, 0);
	assert_int_equal(d.pds.used, 0);
	close(other_client);
}

/* Every worker is called once for its QPs: a call for each would hold up the other clients. */
REQUIREMENT("EVT-08", "EVT-09")
TEST(failed_queues_fail_their_qps_in_one_call_of_each_worker)
{
	struct all a = {0}, other = {0};
	struct obj_qp *q;
	unsigned n = 0;

	for (unsigned i = 0; i < NROWS; i++)
		assert_int_equal(rows[i].make(&a), 0);
	other.pd = a.pd;
	other.srq = UINT32_MAX; /* none */
	assert_int_equal(make_cq(&other), 0);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(make_qp(&other), 0);
	fake_reset();
	cq_failed(idtab_get(&s->cqs, other.cq));
	assert_int_equal(fake_calls, FAKE_WORKERS);
	TAILQ_FOREACH (q, &d.dev[0]->qps, dev_link)
		n += q->qp->conn.state == QP_ERR;
	assert_int_equal(n, 20);
	srq_failed(idtab_get(&s->srqs, a.srq));
	assert_int_equal(fake_calls, FAKE_WORKERS + 1);
	q = idtab_get(&s->qps, a.qp);
	assert_int_equal(q->qp->conn.state, QP_ERR);
}

/* The look-ups of memory that the broker was asked for; it answers none. */
static unsigned lookups;
int
broker_find(struct session *on, const struct ipc_msg *m, bool fds, int refusal)
{
	lookups++;
	return -EPIPE;
}

/*
 * Workers have had to wait for the user's memory: the reply to HELLO says that it is copied, and
 * regions that need no look-up when they are mapped get one.
 */
TEST(memory_of_a_user_who_made_workers_wait_is_not_mapped)
{
	const struct uroce_hello_req hello = {.device = "t0",
					      .pid = 1,
					      .version_min = UROCE_ABI_VERSION_MIN,
					      .version_max = UROCE_ABI_VERSION};
	struct uroce_reg_mr_req region = {
		.access = MEM_LOCAL_WRITE,
		.addr = 1 << 20,
		.length = 1 << 20,
		.npieces = 1,
		.piece = {{.kind = UROCE_PIECE_KEPT, .va = 1 << 20, .len = 1 << 20}}};
	struct uroce_hello_rep rep;
	struct session *other;
	uint32_t handle;
	int fd;

	assert_int_equal(make(UROCE_CTRL_ALLOC_PD, NULL, 0, &region.pd), 0);
	for (unsigned distrust = 0; distrust < 2; distrust++) {
		fake_distrust = distrust;
		other = fake_connect(&d, &fd);
		assert_int_equal(fake_ask(other, fd, UROCE_CTRL_HELLO, &hello, sizeof(hello), &rep,
					  sizeof(rep)),
				 0);
		assert_int_equal(rep.flags & UROCE_HELLO_COPY, distrust ? UROCE_HELLO_COPY : 0);
		close(fd);
		assert_int_equal(make(UROCE_CTRL_REG_MR, &region, sizeof(region), &handle),
				 distrust ? EPIPE : EINVAL); /* nothing is kept */
		assert_int_equal(lookups, distrust);
	}
	fake_distrust = false;
}

/* A message that is not a request ends the connection and all its objects. */
TEST(malformed_message_ends_the_session)
{
	struct all a = {0};

	assert_int_equal(make_pd(&a), 0);
	assert_int_equal(send(client, "nonsense", 8, 0), 8);
	s->w.ready(&s->w, EPOLLIN);
	assert_true(TAILQ_EMPTY(&d.sessions));
	assert_int_equal(d.quota.used_all[QUOTA_PDS], 0);
	assert_int_equal(recv(client, &a, sizeof(a), MSG_DONTWAIT), 0);
}

/* Replaces the session of the test. sealed: its doorbells. */
static void
session_again(bool sealed)
{
	session_destroy(s);
	close(client);
	fake_unsealed = !sealed;
	s = fake_session(&d, &client);
	fake_unsealed = false;
}

/* Holes in them would make workers wait. */
TEST(workers_poll_doorbells_from_the_first_qp_on_if_they_are_sealed)
{
	for (unsigned sealed = 0; sealed < 2; sealed++) {
		uint32_t expected = sealed ? 0 : EPERM;
		struct all a = {0};

		session_again(sealed);
		for (unsigned i = 0; rows[i].make != make_qp; i++)
			assert_int_equal(rows[i].make(&a), 0);
		assert_int_equal(fake_polled, 0);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(make_qp(&a), expected);
		assert_int_equal(fake_polled, sealed ? FAKE_WORKERS : 0);
	}
}

TEST(rings_are_made_in_sealed_segments_only)
{
	const struct uroce_create_cq_req req = {.cqe = 16};
	uint32_t handle;

	fake_unsealed = true;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(fake_ask(s, client, UROCE_CTRL_CREATE_CQ, &req, sizeof(req), NULL,
					  0),
				 ENOSPC);
		/* The same segment is offered again and again. */
		assert_int_equal(d.quota.used_all[QUOTA_QUEUE_MEM],
				 before[QUOTA_QUEUE_MEM] + IPC_SEG_BYTES);
		assert_int_equal(d.quota.used_all[QUOTA_FDS], before[QUOTA_FDS] + 1);
	}
	fake_unsealed = false;
	assert_int_equal(make(UROCE_CTRL_CREATE_CQ, &req, sizeof(req), &handle), 0);
	assert_int_equal(d.quota.used_all[QUOTA_QUEUE_MEM],
			 before[QUOTA_QUEUE_MEM] + IPC_SEG_BYTES);
	/* Nobody lacks one now. */
	assert_int_equal(fake_ask(s, client, UROCE_CTRL_SEGMENT, NULL, 0, NULL, 0), EINVAL);
}
