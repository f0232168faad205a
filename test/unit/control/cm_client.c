/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "control/session.h"
#include "control/slow_path.h"
#include "control/throttle.h"
#include "../../kit/unit_eal.h"

struct daemon d;
struct cm_client one, two;
bool cm_taken;
const uint8_t *cm_from;

static struct rte_mempool *pool;

void
cm_turn(void)
{
	struct epoll_event ev;

	while (epoll_wait(d.loop.epfd, &ev, 1, 0) == 1) {
		struct watch *w = ev.data.ptr;

		w->ready(w, ev.events);
	}
}

static uint32_t
receive_open(int sock, struct cm_client *c)
{
	struct {
		struct uroce_ctrl_hdr hdr;
		struct uroce_cm_open_rep rep;
		char why[UROCE_CTRL_MAX_WHY];
	} msg;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = {&msg, sizeof(msg)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};

	assert_true(recvmsg(sock, &m, MSG_DONTWAIT) >= (ssize_t)sizeof(msg.hdr));
	if (msg.hdr.status != 0)
		return msg.hdr.status;
	assert_int_equal(msg.hdr.nfds, 2);
	memcpy(c->secret, msg.rep.channel, sizeof(c->secret));
	memcpy(&c->fd, CMSG_DATA(&control.align), sizeof(int));
	memcpy(&c->commands, CMSG_DATA(&control.align) + sizeof(int), sizeof(int));
	return 0;
}

uint32_t
cm_client_open(struct cm_client *c, uid_t uid)
{
	const struct uroce_hello_req hello = {.pid = 1,
					      .version_min = UROCE_ABI_VERSION_MIN,
					      .version_max = UROCE_ABI_VERSION};
	const struct uroce_cm_open_req req = {0};
	struct uroce_hello_rep rep;
	struct session *s;
	uint32_t status;
	int sock;

	s = fake_connect_as(&d, uid, &sock);
	assert_int_equal(fake_ask(s, sock, UROCE_CTRL_HELLO, &hello, sizeof(hello), &rep,
				  sizeof(rep)),
			 0);
	fake_send(s, sock, UROCE_CTRL_CM_OPEN, &req, sizeof(req));
	status = receive_open(sock, c);
	close(sock);
	cm_turn();
	return status;
}

void
cm_client_close(struct cm_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	if (c->commands >= 0)
		close(c->commands);
	c->fd = c->commands = -1;
	cm_turn();
}

int
cm_setup(void **state)
{
	fake_open(&d);
	d.pool = pool;
	d.dev[0]->port.link_up = true;
	fake_sends = true;
	fake_sent = NULL;
	assert_int_equal(throttle_open(&d), 0);
	assert_int_equal(ucma_open(&d), 0);
	assert_int_equal(cm_client_open(&one, 0), 0);
	assert_int_equal(cm_client_open(&two, 0), 0);
	return 0;
}

int
cm_teardown(void **state)
{
	cm_client_close(&one);
	cm_deliver();
	cm_client_close(&two);
	cm_deliver();
	ucma_close(&d);
	throttle_close(&d);
	assert_int_equal(d.quota.used_all[QUOTA_CM_IDS], 0);
	assert_int_equal(d.quota.used_all[QUOTA_CM_CHANNELS], 0);
	assert_int_equal(d.quota.used_all[QUOTA_FDS], 0);
	rte_pktmbuf_free(fake_sent);
	fake_sends = false;
	fake_close(&d);
	assert_int_equal(rte_mempool_in_use_count(pool), 0);
	return 0;
}

void
cm_client_send(struct cm_client *c, const struct uroce_cm_req *req, const void *body, size_t len)
{
	uint8_t msg[4096];

	assert_in_range(sizeof(*req) + len, 0, sizeof(msg));
	memcpy(msg, req, sizeof(*req));
	if (len > 0)
		memcpy(msg + sizeof(*req), body, len);
	send(c->commands, msg, sizeof(*req) + len, MSG_DONTWAIT | MSG_NOSIGNAL);
	cm_turn();
}

uint32_t
cm_ask(struct cm_client *c, uint32_t cmd, const void *body, size_t len, void *rep, size_t out)
{
	struct uroce_cm_req req = {.cookie = 7,
				   .cmd = cmd,
				   .in = (uint32_t)len,
				   .out = (uint32_t)out};
	struct {
		struct uroce_cm_rep rep;
		uint8_t body[UROCE_CM_MAX_BODY];
	} msg;
	ssize_t n;
	char token;

	if (cm_from != NULL)
		memcpy(req.from, cm_from, sizeof(req.from));
	cm_client_send(c, &req, body, len);
	n = recv(c->commands, &msg, sizeof(msg), MSG_DONTWAIT);
	if (n <= 0)
		return FAKE_NO_REPLY;
	assert_int_equal(msg.rep.cookie, 7);
	assert_int_equal(msg.rep.len, n - (ssize_t)sizeof(msg.rep));
	assert_in_range(msg.rep.len, 0, out);
	cm_taken = msg.rep.flags & UROCE_CM_TAKE_TOKEN;
	if (cm_taken)
		assert_int_equal(recv(c->fd, &token, 1, MSG_DONTWAIT), 1);
	if (msg.rep.status == 0 && msg.rep.len > 0)
		memcpy(rep, msg.body, msg.rep.len);
	return msg.rep.status;
}

static short
polled(const struct cm_client *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	poll(&p, 1, 0);
	return p.revents;
}

bool
cm_readable(const struct cm_client *c)
{
	return polled(c) == POLLIN;
}

bool
cm_ended(const struct cm_client *c)
{
	return polled(c) & POLLHUP;
}

uint32_t
cm_make_id(struct cm_client *c, uint64_t uid, uint16_t space)
{
	const struct rdma_ucm_create_id q = {.uid = uid, .ps = space, .qp_type = 2};
	struct rdma_ucm_create_id_resp r = {0};

	assert_int_equal(cm_ask(c, RDMA_USER_CM_CMD_CREATE_ID, &q, sizeof(q), &r, sizeof(r)), 0);
	assert_int_not_equal(r.id, 0);
	return r.id;
}

uint32_t
cm_end_id(struct cm_client *c, uint32_t id)
{
	const struct rdma_ucm_destroy_id q = {.id = id};
	struct rdma_ucm_destroy_id_resp r = {0};

	assert_int_equal(cm_ask(c, RDMA_USER_CM_CMD_DESTROY_ID, &q, sizeof(q), &r, sizeof(r)), 0);
	return r.events_reported;
}

void
cm_event(struct cm_client *c, uint32_t type, struct rdma_ucm_event_resp *ev)
{
	const struct rdma_ucm_get_event q = {0};
	struct rdma_ucm_event_resp spare;

	ev = ev != NULL ? ev : &spare;
	assert_true(cm_readable(c));
	assert_int_equal(cm_ask(c, RDMA_USER_CM_CMD_GET_EVENT, &q, sizeof(q), ev, sizeof(*ev)), 0);
	assert_int_equal(ev->event, type);
}

struct sockaddr_in
cm_ipv4(const char *address, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
	return in;
}

void
cm_bind_to(struct cm_client *c, uint32_t id, const struct sockaddr_in *addr)
{
	struct rdma_ucm_bind q = {.id = id, .addr_size = sizeof(*addr)};

	memcpy(&q.addr, addr, sizeof(*addr));
	assert_int_equal(cm_ask(c, RDMA_USER_CM_CMD_BIND, &q, sizeof(q), NULL, 0), 0);
}

uint32_t
cm_ask_addr(struct cm_client *c, uint32_t id, const struct sockaddr_in *addr)
{
	struct rdma_ucm_resolve_addr q = {.id = id, .timeout_ms = 2000, .dst_size = sizeof(*addr)};

	memcpy(&q.dst_addr, addr, sizeof(*addr));
	return cm_ask(c, RDMA_USER_CM_CMD_RESOLVE_ADDR, &q, sizeof(q), NULL, 0);
}

void
cm_resolve_to(struct cm_client *c, uint32_t id, const struct sockaddr_in *addr)
{
	const struct rdma_ucm_resolve_route q = {.id = id, .timeout_ms = 2000};

	assert_int_equal(cm_ask_addr(c, id, addr), 0);
	cm_event(c, CMA_EV_ADDR_RESOLVED, NULL);
	assert_int_equal(cm_ask(c, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &q, sizeof(q), NULL, 0), 0);
	cm_event(c, CMA_EV_ROUTE_RESOLVED, NULL);
}

void
cm_deliver(void)
{
	while (fake_sent != NULL) {
		struct rte_mbuf *m = fake_sent;

		fake_sent = NULL;
		slow_path_rx(d.dev[0], m);
		rte_pktmbuf_free(m);
	}
}

static int
start(void **state)
{
	pool = unit_eal_pool(127, 2048);
	return pool != NULL ? 0 : -1;
}

UNIT_PROGRAM(start, NULL);
