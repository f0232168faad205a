/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of rdma_cm: lifetime, the token, quotas, clients that break the protocol. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "cm_client.h"
#include "control/throttle.h"

static uint32_t
get_event(struct cm_client *c)
{
	const struct rdma_ucm_get_event q = {0};
	struct rdma_ucm_event_resp r;

	return cm_ask(c, RDMA_USER_CM_CMD_GET_EVENT, &q, sizeof(q), &r, sizeof(r));
}

/* An id with one event, which waits. */
static uint32_t
id_with_event(struct cm_client *c)
{
	const struct sockaddr_in in = cm_ipv4("10.0.0.1", 7000);
	uint32_t id = cm_make_id(c, 1, RDMA_PS_TCP);

	assert_int_equal(cm_ask_addr(c, id, &in), 0);
	return id;
}

REQUIREMENT("CM-12")
CM_TEST(a_channel_is_readable_as_long_as_events_wait)
{
	char byte;

	assert_false(cm_readable(&one));
	assert_int_equal(get_event(&one), EAGAIN);
	id_with_event(&one);
	id_with_event(&one);
	assert_false(cm_taken);
	assert_true(cm_readable(&one));
	assert_int_equal(get_event(&one), 0);
	assert_false(cm_taken);
	assert_true(cm_readable(&one));
	assert_int_equal(get_event(&one), 0);
	assert_true(cm_taken);
	assert_false(cm_readable(&one));
	assert_int_equal(recv(one.fd, &byte, 1, MSG_DONTWAIT), -1);
	/* and again */
	id_with_event(&one);
	assert_true(cm_readable(&one));
	assert_int_equal(get_event(&one), 0);
	assert_true(cm_taken);
}

REQUIREMENT("CM-12")
CM_TEST(events_that_are_dropped_take_the_token_too)
{
	uint32_t id = id_with_event(&one);

	assert_true(cm_readable(&one));
	assert_int_equal(cm_end_id(&one, id), 0);
	assert_true(cm_taken);
	assert_false(cm_readable(&one));
}

/* The token stays in the socket when a process ends between the reply and its reading of it. */
CM_TEST(a_token_that_was_left_is_taken_later)
{
	const struct uroce_cm_req req = {.cmd = RDMA_USER_CM_CMD_GET_EVENT,
					 .in = sizeof(struct rdma_ucm_get_event),
					 .out = sizeof(struct rdma_ucm_event_resp)};
	const struct rdma_ucm_get_event q = {0};
	char reply[1024];

	id_with_event(&one);
	cm_client_send(&one, &req, &q, sizeof(q));
	assert_true(recv(one.commands, reply, sizeof(reply), MSG_DONTWAIT) > 0);
	assert_true(cm_readable(&one));
	assert_int_equal(get_event(&one), EAGAIN);
	assert_true(cm_taken);
	assert_false(cm_readable(&one));
}

static uint32_t
migrate(struct cm_client *to, const uint8_t *from, uint32_t id, uint32_t *reported)
{
	const struct rdma_ucm_migrate_id q = {.id = id};
	uint32_t status;

	cm_from = from;
	status = cm_ask(to, RDMA_USER_CM_CMD_MIGRATE_ID, &q, sizeof(q), reported, 4);
	cm_from = NULL;
	return status;
}

REQUIREMENT("CM-12")
CM_TEST(an_id_migrates_with_its_events)
{
	static const uint8_t nobody[UROCE_CM_CHANNEL_ID];
	uint32_t id = id_with_event(&one), reported = 9;

	assert_int_equal(migrate(&two, nobody, id, &reported), EINVAL);
	assert_int_equal(migrate(&two, two.secret, id, &reported), EINVAL);
	assert_int_equal(migrate(&two, one.secret, id + (1u << 20), &reported), ENOENT);
	assert_int_equal(migrate(&two, one.secret, id, &reported), 0);
	assert_int_equal(reported, 0);
	assert_true(cm_readable(&two));
	/* the other channel's next reply reports it */
	assert_int_equal(get_event(&one), EAGAIN);
	assert_true(cm_taken);
	assert_false(cm_readable(&one));
	assert_int_equal(get_event(&two), 0);
	assert_int_equal(cm_end_id(&two, id), 1);
}

REQUIREMENT("CM-12")
CM_TEST(the_last_copy_of_a_channel_ends_it)
{
	int copy = dup(one.fd);

	id_with_event(&one);
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 1);
	cm_client_close(&one);
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 1);
	close(copy);
	cm_turn();
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 0);
	assert_int_equal(d.quota.used_all[QUOTA_CM_CHANNELS], 1);
}

/* Commands end with the process; its ids remain for other holders of the channel. */
CM_TEST(the_end_of_the_commands_ends_nothing)
{
	id_with_event(&one);
	close(one.commands);
	one.commands = -1;
	cm_turn();
	assert_true(cm_readable(&one));
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 1);
}

REQUIREMENT("CM-15")
CM_TEST(the_daemon_hangs_up_when_it_ends)
{
	id_with_event(&one);
	ucma_close(&d);
	assert_true(cm_ended(&one));
	assert_true(cm_ended(&two));
}

CM_TEST(a_user_has_a_share_of_channels_and_ids)
{
	const struct rdma_ucm_create_id q = {.ps = RDMA_PS_TCP};
	struct cm_client c[16];
	uint32_t id, n = 0, ids = 0;

	/* three quarters of 16 and of 512 */
	while (cm_client_open(&c[n], 1000) == 0)
		n++;
	assert_int_equal(n, 12);
	while (cm_ask(&c[0], RDMA_USER_CM_CMD_CREATE_ID, &q, sizeof(q), &id, sizeof(id)) == 0)
		ids++;
	assert_int_equal(ids, 384);
	assert_int_equal(cm_ask(&c[0], RDMA_USER_CM_CMD_CREATE_ID, &q, sizeof(q), &id, sizeof(id)),
			 ENOMEM);
	/* others still get some */
	cm_end_id(&one, cm_make_id(&one, 1, RDMA_PS_TCP));
	cm_client_close(&c[0]);
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 0);
	while (n-- > 1)
		cm_client_close(&c[n]);
}

/* Ports below 1024 are for root and the daemon's user, in every way to bind an id to one. */
REQUIREMENT("CM-10")
CM_TEST(low_ports_are_for_root)
{
	static const uint16_t low[] = {1, 111, 1023};
	struct cm_client user;

	assert_int_equal(cm_client_open(&user, 1000), 0);
	for (unsigned i = 0; i < sizeof(low) / sizeof(low[0]); i++) {
		struct sockaddr_in in = cm_ipv4("10.0.0.1", low[i]);
		struct rdma_ucm_bind q = {.addr_size = sizeof(in)};
		struct rdma_ucm_resolve_addr r = {.src_size = sizeof(in),
						  .dst_size = sizeof(in),
						  .timeout_ms = 100};
		uint32_t id = cm_make_id(&user, 1, RDMA_PS_TCP);

		q.id = r.id = id;
		memcpy(&q.addr, &in, sizeof(in));
		memcpy(&r.src_addr, &in, sizeof(in));
		memcpy(&r.dst_addr, &in, sizeof(in));
		assert_int_equal(cm_ask(&user, RDMA_USER_CM_CMD_BIND, &q, sizeof(q), NULL, 0),
				 EACCES);
		assert_int_equal(cm_ask(&user, RDMA_USER_CM_CMD_RESOLVE_ADDR, &r, sizeof(r), NULL,
					0),
				 EACCES);
		cm_end_id(&user, id);
		/* root may */
		id = cm_make_id(&one, 1, RDMA_PS_TCP);
		cm_bind_to(&one, id, &in);
		cm_end_id(&one, id);
	}
	for (unsigned i = 0; i < 2; i++) {
		struct sockaddr_in in = cm_ipv4("10.0.0.1", i == 0 ? 1024 : 0);
		uint32_t id = cm_make_id(&user, 1, RDMA_PS_TCP);

		cm_bind_to(&user, id, &in);
		cm_end_id(&user, id);
	}
	cm_client_close(&user);
}

static void
ends_with(const struct uroce_cm_req *req, size_t len)
{
	static const uint8_t body[UROCE_CM_MAX_BODY];
	struct cm_client c;

	assert_int_equal(cm_client_open(&c, 0), 0);
	cm_make_id(&c, 1, RDMA_PS_TCP);
	cm_client_send(&c, req, body, len);
	assert_true(cm_ended(&c));
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 0);
	cm_client_close(&c);
}

CM_TEST(a_client_that_breaks_the_protocol_loses_its_channel)
{
	struct uroce_cm_req req = {.cmd = RDMA_USER_CM_CMD_GET_EVENT, .in = 8, .out = 512};

	ends_with(&req, 7);
	ends_with(&req, 9);
	req.in = UINT32_MAX;
	ends_with(&req, 8);
	req.in = 8;
	req.spare[15] = 1;
	ends_with(&req, 8);
	req.spare[15] = 0;
	req.in = UROCE_CM_MAX_BODY + 8;
	ends_with(&req, UROCE_CM_MAX_BODY);
}

CM_TEST(descriptors_are_not_received)
{
	const struct uroce_cm_req req = {.cmd = RDMA_USER_CM_CMD_GET_EVENT, .in = 0};
	struct iovec iov = {(void *)(uintptr_t)&req, sizeof(req)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};

	control.align = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
					 .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.align), &one.fd, sizeof(int));
	assert_int_equal(sendmsg(one.commands, &m, 0), sizeof(req));
	cm_turn();
	/* the copy of the client's own descriptor that was sent is gone as well */
	assert_true(cm_ended(&one));
	/* nothing is received from the channel's socket */
	assert_int_equal(send(two.fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_false(cm_ended(&two));
}

CM_TEST(a_client_that_reads_no_replies_loses_its_channel)
{
	const struct uroce_cm_req req = {.cmd = RDMA_USER_CM_CMD_GET_EVENT, .in = 0};
	unsigned n = 0;

	while (!cm_ended(&one) && n++ < 100000)
		cm_client_send(&one, &req, NULL, 0);
	assert_true(cm_ended(&one));
	assert_false(cm_ended(&two));
}

/* Throttles u until the test ends it. */
static void
throttle(struct quota_user *u)
{
	u->throttled_until_ns = daemon_now_ns() + 3600u * 1000000000ull;
}

static void
throttle_is_over(struct quota_user *u)
{
	const struct itimerspec now = {.it_value.tv_nsec = 1};
	struct pollfd expired = {.fd = d.throttle_timer.fd, .events = POLLIN};

	fake_now_ns = u->throttled_until_ns;
	assert_return_code(timerfd_settime(d.throttle_timer.fd, 0, &now, NULL), 0);
	assert_int_equal(poll(&expired, 1, 60000), 1);
	cm_turn();
}

/* After a long request of any connection of the user, commands wait; root's do not. */
REQUIREMENT("CM-12")
CM_TEST(commands_of_a_throttled_user_wait)
{
	const struct rdma_ucm_create_id q = {.ps = RDMA_PS_TCP, .qp_type = 2};
	struct rdma_ucm_create_id_resp r;
	struct quota_user *u = quota_user_get(&d.quota, 1000);
	struct cm_client other;

	assert_int_equal(cm_client_open(&other, 1000), 0);
	throttle(u);
	assert_int_equal(cm_ask(&other, RDMA_USER_CM_CMD_CREATE_ID, &q, sizeof(q), &r, sizeof(r)),
			 FAKE_NO_REPLY);
	assert_false(TAILQ_EMPTY(&d.throttled));
	cm_make_id(&one, 1, RDMA_PS_TCP);
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 1);
	throttle_is_over(u);
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 2);
	assert_true(TAILQ_EMPTY(&d.throttled));
	/* one that ends while it waits is forgotten */
	throttle(u);
	assert_int_equal(cm_ask(&other, RDMA_USER_CM_CMD_CREATE_ID, &q, sizeof(q), &r, sizeof(r)),
			 0); /* the first reply */
	assert_false(TAILQ_EMPTY(&d.throttled));
	cm_client_close(&other);
	assert_true(TAILQ_EMPTY(&d.throttled));
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 1);
	quota_user_put(u);
}

/* While workers must not touch a user's memory, its commands wait, too. */
REQUIREMENT("CM-12")
CM_TEST(commands_of_a_paused_user_wait)
{
	const struct rdma_ucm_create_id q = {.ps = RDMA_PS_TCP, .qp_type = 2};
	struct rdma_ucm_create_id_resp r;
	struct quota_user *u = quota_user_get(&d.quota, 1000);
	struct cm_client other;

	assert_int_equal(cm_client_open(&other, 1000), 0);
	u->throttled_until_ns = 0;
	fake_paused_ns = 3600u * 1000000000ull;
	assert_int_equal(cm_ask(&other, RDMA_USER_CM_CMD_CREATE_ID, &q, sizeof(q), &r, sizeof(r)),
			 FAKE_NO_REPLY);
	assert_false(TAILQ_EMPTY(&d.throttled));
	u->throttled_until_ns = daemon_now_ns();
	throttle_is_over(u); /* the pause is not */
	assert_false(TAILQ_EMPTY(&d.throttled));
	fake_paused_ns = 0;
	throttle_is_over(u);
	assert_true(TAILQ_EMPTY(&d.throttled));
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 1);
	cm_client_close(&other);
	quota_user_put(u);
}

/* Executes a request of u that takes took_ns and computes for cpu_ns of it; was u throttled? */
static bool
throttled_by(struct quota_user *u, uint64_t took_ns, uint64_t cpu_ns)
{
	u->throttled_until_ns = 0;
	throttle_begin(&d, u);
	fake_now_ns += took_ns;
	fake_cpu_ns += cpu_ns;
	throttle_after(&d, u);
	return u->throttled_until_ns != 0;
}

/* A request that takes long throttles its user, unless it waited for a processor. */
REQUIREMENT("CM-12")
CM_TEST(computing_throttles_and_waiting_does_not)
{
	struct quota_user *u = quota_user_get(&d.quota, 1000), *root = quota_user_get(&d.quota, 0);

	for (unsigned i = 0; i < 3; i++) {
		assert_true(throttled_by(u, 10000000, 10000000));
		assert_false(throttled_by(u, 10000000, 0));
		assert_false(throttled_by(u, 0, 0));
	}
	root->privileged = true;
	assert_false(throttled_by(root, 10000000, 10000000));
	quota_user_put(u);
	quota_user_put(root);
}
