/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_mbuf.h>
#include "control/broker.h"
#include "control/device.h"
#include "control/handler.h"
#include "control/session.h"
#include "../../kit/unit.h"

struct worker {
	struct engine engine;
	unsigned index;
	struct counter_block counters;
	bool stopped;
	uint64_t reported;        /* the last grace period that it has reported for */
	struct worker_job *first; /* jobs to run, the oldest first */
};
struct worker_set {
	struct worker worker[FAKE_WORKERS];
	struct counter_block control;
	uint64_t token; /* of the last grace period */
};

char fake_said[512];
unsigned fake_qps, fake_doorbells, fake_polled, fake_calls, fake_connected;
uint8_t fake_host[16];
uint32_t fake_sends_to;
bool fake_sends;
struct rte_mbuf *fake_sent;
unsigned fake_waiting;
bool fake_stuck, fake_waits;
uint64_t fake_busy_ns[FAKE_WORKERS];
const struct qp *fake_moved;

static struct worker_set workers;
static int wake_fd;
static struct device device;

static void
say(const char *word)
{
	size_t len = strlen(fake_said);

	assert_in_range(len + strlen(word) + 2, 0, sizeof(fake_said));
	snprintf(fake_said + len, sizeof(fake_said) - len, "%s%s", len > 0 ? " " : "", word);
}

unsigned
worker_count(const struct worker_set *ws)
{
	return FAKE_WORKERS;
}

struct worker *
worker_get(struct worker_set *ws, unsigned i)
{
	assert_in_range(i, 0, FAKE_WORKERS - 1);
	return &ws->worker[i];
}

struct engine *
worker_engine(struct worker *w)
{
	return &w->engine;
}

unsigned
worker_index(const struct worker *w)
{
	return w->index;
}

struct counter_block *
worker_counters(struct worker *w, uint16_t dev)
{
	return &w->counters;
}

struct counter_block *
worker_control_obs(struct worker_set *ws, uint16_t dev)
{
	return &ws->control;
}

/* Remaining jobs, then a quiescent state: one round of the loop, or as many as needed. */
static void
run(struct worker *w)
{
	while (!w->stopped && w->first != NULL) {
		struct worker_job *job = w->first, *next = job->next;

		if (!job->run(w, job->arg))
			continue;
		w->first = next;
		job->done = 1;
	}
	if (!w->stopped)
		w->reported = workers.token;
}

void
worker_call(struct worker *w, void (*fn)(struct worker *w, void *arg), void *arg)
{
	if (fake_waits) {
		w->stopped = false;
		run(w);
	}
	assert_false(w->stopped); /* the control thread would wait for it */
	fake_calls++;
	fn(w, arg);
}

void
worker_call_all(struct worker_set *ws, void (*fn)(struct worker *w, void *arg), void *arg)
{
	for (unsigned i = 0; i < FAKE_WORKERS; i++)
		worker_call(&ws->worker[i], fn, arg);
}

void
worker_call_qps(struct worker_set *ws, void (*fn)(struct worker *w, void *arg), void *arg)
{
	worker_call_all(ws, fn, arg);
}

void
worker_call_qp(struct worker_set *ws, const struct qp *qp, void (*fn)(struct worker *w, void *arg),
	       void *arg)
{
	worker_call(&ws->worker[qp_worker(qp)], fn, arg);
}

/* QPs do not move here, but a move succeeds. */
void
worker_moves_stop(struct worker_set *ws)
{
}

void
worker_moves_go(struct worker_set *ws)
{
}

const char *
worker_move_qp(struct worker_set *ws, const struct qp *qp, unsigned i)
{
	fake_moved = qp;
	return NULL;
}

int
worker_node(const struct worker *w)
{
	return -1;
}

void
worker_usage_get(const struct worker *w, struct worker_usage *u)
{
	*u = (struct worker_usage){.busy_ns = fake_busy_ns[w->index],
				   .idle_ns = fake_now_ns - fake_busy_ns[w->index]};
}

void
worker_quiesce(struct worker_set *ws)
{
	say("quiesce");
}

void
fake_stop(unsigned i)
{
	workers.worker[i].stopped = true;
}

void
fake_resume(struct daemon *d, unsigned i)
{
	workers.worker[i].stopped = false;
	run(&workers.worker[i]);
	defer_poll(d);
}

bool
fake_turn(struct daemon *d)
{
	if (TAILQ_EMPTY(&d->turns)) {
		assert_int_equal(d->turn.events, 0); /* or the loop would spin */
		return false;
	}
	assert_int_equal(d->turn.events, EPOLLIN);
	d->turn.ready(&d->turn, EPOLLIN);
	return true;
}

void
worker_post(struct worker *w, struct worker_job *job)
{
	struct worker_job **last = &w->first;

	while (*last != NULL)
		last = &(*last)->next;
	job->next = NULL;
	job->done = 0;
	*last = job;
	run(w);
}

bool
worker_job_done(const struct worker_job *job)
{
	return job->done != 0;
}

uint64_t
worker_grace_start(struct worker_set *ws)
{
	say("grace");
	ws->token++;
	for (unsigned i = 0; i < FAKE_WORKERS; i++)
		run(&ws->worker[i]);
	return ws->token;
}

bool
worker_grace_over(struct worker_set *ws, uint64_t token)
{
	for (unsigned i = 0; i < FAKE_WORKERS; i++) {
		if (ws->worker[i].reported < token)
			return false;
	}
	return true;
}

void
worker_wait_readers(struct worker_set *ws)
{
	say("readers");
}

int
worker_adopt_qp(struct worker *w, struct qp *qp)
{
	fake_qps++;
	return 0;
}

void
worker_forget_qp(struct worker *w, struct qp *qp)
{
	assert_null(qp_table_find(w->engine.qps, qp->conn.qpn)); /* no packet finds it */
	say("forget");
	run_list_forget(&w->engine.run, qp);
	fake_qps--;
}

void
worker_send_posted(struct worker *w, struct qp *qp)
{
	say("send");
	if (fake_sends_to != 0)
		assert_non_null(qp_ah_get(qp->bind.ahs, fake_sends_to));
}

int
worker_add_doorbell(struct worker *w, struct uroce_db_ring *ring)
{
	fake_doorbells++;
	return 0;
}

void
worker_poll_doorbell(struct worker *w, struct uroce_db_ring *ring, uint32_t *waiter, uint8_t user,
		     worker_scan_fn *overflow, void *ctx)
{
	fake_polled++;
}

void
worker_blame_several(struct worker_set *ws, bool several)
{
}

void
worker_control_serves(struct worker_set *ws, uint8_t user)
{
}

uint64_t fake_paused_ns;

uint64_t
worker_paused_ns(const struct worker_set *ws, uint8_t user)
{
	return fake_paused_ns;
}

bool fake_distrust;

bool
worker_trusts(const struct worker_set *ws, uint8_t user)
{
	return !fake_distrust;
}

void
worker_leave_doorbell(struct worker *w, struct uroce_db_ring *ring)
{
	say("doorbell");
}

void
worker_close_doorbell(struct worker *w, struct uroce_db_ring *ring)
{
	fake_doorbells--;
}

int
worker_wake_fd(struct worker *w, const struct uroce_db_ring *ring)
{
	return wake_fd;
}

int
worker_states_fd(const struct worker_set *ws)
{
	return wake_fd;
}

int
worker_event_fd(struct worker_set *ws)
{
	return -1;
}

unsigned
worker_events(struct worker_set *ws, struct worker_event *ev, unsigned max)
{
	return 0;
}

void
worker_datagram_useful(struct worker_set *ws, const struct worker_event *ev)
{
}

void
worker_host_connected(struct worker_set *ws, const uint8_t gid[16], bool more)
{
	if (!more)
		assert_int_not_equal(fake_connected, 0);
	fake_connected += more ? 1 : -1;
	memcpy(fake_host, gid, 16);
}

uint32_t
worker_frames_waiting(const struct worker_set *ws)
{
	unsigned n = fake_waiting;

	if (!fake_stuck)
		fake_waiting -= n > 100 ? 100 : n;
	return n;
}

int
worker_send_frame(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m)
{
	if (!fake_sends)
		fail_msg("there is no port to send on");
	say("frame");
	rte_pktmbuf_free(fake_sent);
	fake_sent = m;
	fake_waiting++;
	return 0;
}

int
worker_send_loopback(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m)
{
	say("loopback");
	rte_pktmbuf_free(fake_sent);
	fake_sent = m;
	fake_waiting++;
	return 0;
}

uint64_t
timer_now_ns(void)
{
	return daemon_now_ns();
}

/*
 * An absent broker, which is not needed: no connection here carries descriptors. A program that
 * opens the real one (broker_open) gets that.
 */
#define WEAK __attribute__((weak))

bool WEAK
broker_keep(struct daemon *d, uint64_t id, const struct ipc_peer *peer)
{
	return false;
}

void WEAK
broker_drop(struct daemon *d, uint64_t id, const struct ipc_peer *peer, bool kept)
{
	close(peer->sock);
}

void WEAK
broker_forget(struct session *s)
{
}

int WEAK
broker_find(struct session *s, const struct ipc_msg *m, bool fds, int refusal)
{
	return -EPIPE;
}

int WEAK
broker_settle(struct session *s, const struct ipc_msg *m, uint64_t mem)
{
	return -EPIPE;
}

int WEAK
broker_pause(struct session *s, const struct ipc_msg *m)
{
	return -EPIPE;
}

int WEAK
broker_copy(void *ctx, uint64_t id, int mem, int shared)
{
	return -EPIPE;
}

/* Ports are not opened here. */
int
worker_add_port(struct worker_set *ws, struct port *p)
{
	return -ENODEV;
}

void
worker_del_port(struct worker_set *ws, struct port *p)
{
}

void
worker_pause_port(struct worker_set *ws, struct port *p)
{
}

void
worker_resume_port(struct worker_set *ws, struct port *p)
{
}

static void
env_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
}

static void
env_qp_wake(void *ctx, struct qp *qp)
{
}

static void
env_failed(void *ctx, const struct qp *qp)
{
}

static const struct qp_env_ops env_ops = {
	.async_event = env_async_event,
	.qp_wake = env_qp_wake,
	.failed = env_failed,
};

void
fake_open(struct daemon *d)
{
	static const struct control_program program;
	static const struct control_config cfg = {
		.hello_timeout_s = 10,
		.client_mem_mib = 64,
		.max_clients = 16,
		.max_pds = 128,
		.max_mrs = 128,
		.max_channels = 64,
		.max_cqs = 128,
		.max_srqs = 64,
		.max_qps = 64,
		.max_ahs = 64,
		.max_mcast = 64,
		.max_cm_channels = 16,
		.max_cm_ids = 512,
	};
	static const struct quota_machine machine = {1ull << 34, 65536, 1024};
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

	fake_clock_start();
	memset(d, 0, sizeof(*d));
	memset(&workers, 0, sizeof(workers));
	memset(&device, 0, sizeof(device));
	fake_qps = fake_doorbells = fake_polled = 0;
	fake_unsealed = false;
	memset(fake_busy_ns, 0, sizeof(fake_busy_ns));
	fake_moved = NULL;
	fake_reset();
	wake_fd = eventfd(0, EFD_NONBLOCK);
	d->cfg = &cfg;
	d->program = &program;
	d->nworkers = FAKE_WORKERS;
	d->worker_events.fd = -1;
	d->workers = &workers;
	quota_init(&d->quota, &cfg, &machine, 0);
	assert_int_equal(loop_init(&d->loop), 0);
	assert_int_equal(daemon_tables_open(d), 0);
	for (unsigned i = 0; i < FAKE_WORKERS; i++) {
		workers.worker[i].index = i;
		workers.worker[i].engine.qps = &d->qps;
		workers.worker[i].engine.env.ops = &env_ops;
		workers.worker[i].engine.env.ahead = &workers.worker[i].engine.ahead;
		workers.worker[i].engine.env.counters = &workers.worker[i].counters;
		run_list_init(&workers.worker[i].engine.run);
	}
	device.d = d;
	device.max_mtu = 3;
	device.pkey[0] = 0xffff;
	strcpy(device.name, "t0");
	TAILQ_INIT(&device.qps);
	TAILQ_INIT(&device.members);
	net_dev_init(&device.net, mac);
	assert_return_code(net_addr_add(&device.net, "10.0.0.1/24"), 0);
	assert_return_code(net_addr_add(&device.net, "fd00::1/64"), 0);
	d->dev[d->ndevs++] = &device;
}

void
fake_close(struct daemon *d)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&d->sessions)) != NULL)
		session_destroy(s);
	defer_drain(d);
	assert_int_equal(fake_connected, 0);
	device_addrs_clear(&device);
	daemon_tables_close(d);
	loop_close(&d->loop);
	close(wake_fd);
}

void
fake_reset(void)
{
	fake_said[0] = '\0';
	fake_calls = 0;
}

void
fake_send(struct session *s, int client, uint16_t op, const void *req, size_t req_len)
{
	struct uroce_ctrl_hdr hdr = {UROCE_CTRL_MAGIC, UROCE_ABI_VERSION, op, 1, 0,
				     (uint32_t)req_len};
	uint8_t msg[4096];

	assert_in_range(sizeof(hdr) + req_len, 0, sizeof(msg));
	memcpy(msg, &hdr, sizeof(hdr));
	if (req_len > 0)
		memcpy(msg + sizeof(hdr), req, req_len);
	assert_int_equal(send(client, msg, sizeof(hdr) + req_len, 0), sizeof(hdr) + req_len);
	s->w.ready(&s->w, EPOLLIN);
}

bool fake_unsealed;

/* Closes the descriptors of a reply; seals the segment among them, as its client must. */
static void
take_fds(uint16_t op, struct cmsghdr *cm, uint32_t n)
{
	uint32_t segment = op == UROCE_CTRL_HELLO ? 1 : op == UROCE_CTRL_SEGMENT ? 0 : UINT32_MAX;

	for (uint32_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cm) + i * sizeof(fd), sizeof(fd));
		if (i == segment && !fake_unsealed)
			assert_return_code(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), errno);
		close(fd);
	}
}

uint32_t
fake_receive(int client, uint16_t op, void *rep, size_t rep_len)
{
	struct uroce_ctrl_hdr hdr;
	uint8_t msg[4096];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(UROCE_HELLO_FDS * sizeof(int))];
	} control = {0};
	struct iovec iov = {msg, sizeof(msg)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(client, &m, MSG_DONTWAIT);

	if (n < 0)
		return FAKE_NO_REPLY;
	assert_in_range(n, sizeof(hdr), sizeof(msg));
	memcpy(&hdr, msg, sizeof(hdr));
	assert_int_equal(hdr.op, op);
	if (hdr.nfds > 0)
		take_fds(op, CMSG_FIRSTHDR(&m), hdr.nfds);
	if (hdr.status == 0 && rep_len > 0) {
		assert_int_equal(hdr.len, rep_len);
		memcpy(rep, msg + sizeof(hdr), rep_len);
	}
	return hdr.status;
}

uint32_t
fake_ask(struct session *s, int client, uint16_t op, const void *req, size_t req_len, void *rep,
	 size_t rep_len)
{
	struct uroce_segment_rep seg;
	uint32_t status;

	for (unsigned i = 0;; i++) {
		fake_send(s, client, op, req, req_len);
		status = fake_receive(client, op, rep, rep_len);
		if (status != ENOSPC || i == 2)
			return status;
		fake_send(s, client, UROCE_CTRL_SEGMENT, NULL, 0);
		status = fake_receive(client, UROCE_CTRL_SEGMENT, &seg, sizeof(seg));
		if (status != 0)
			return status;
	}
}

struct session *
fake_connect_as(struct daemon *d, uid_t uid, int *client)
{
	struct quota_user *user = quota_user_get(&d->quota, uid);
	struct ipc_peer peer = {0};
	int sv[2];

	assert_non_null(user);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sv), 0);
	peer.sock = sv[0];
	peer.uid = uid;
	peer.pidfd = dup(wake_fd);
	peer.pid = getpid();
	assert_int_equal(quota_take(user, QUOTA_CLIENTS, 1), 0);
	assert_int_equal(quota_take(user, QUOTA_NEW, 1), 0);
	assert_int_equal(quota_take(user, QUOTA_FDS, SESSION_FDS), 0);
	assert_int_equal(session_create(d, &peer, user, request_ready), 0);
	*client = sv[1];
	return TAILQ_LAST(&d->sessions, session_list);
}

struct session *
fake_connect(struct daemon *d, int *client)
{
	return fake_connect_as(d, 0, client);
}

struct session *
fake_session(struct daemon *d, int *client)
{
	struct uroce_hello_req hello = {
		.device = "t0",
		.pid = 1,
		.version_min = UROCE_ABI_VERSION_MIN,
		.version_max = UROCE_ABI_VERSION,
	};
	struct session *s = fake_connect(d, client);
	struct uroce_hello_rep rep;

	assert_int_equal(fake_ask(s, *client, UROCE_CTRL_HELLO, &hello, sizeof(hello), &rep,
				  sizeof(rep)),
			 0);
	assert_int_equal(rep.nworkers, FAKE_WORKERS);
	return s;
}

/* No device here has an interface of the kernel. */
void
worker_set_host(struct worker_set *ws, uint16_t dev, struct worker_host *h)
{
}

bool
worker_host_put(struct worker_host *h, struct rte_mbuf *m)
{
	return false;
}

bool
worker_host_sleeps(struct worker_host *h)
{
	return true;
}

void
worker_host_awake(struct worker_host *h)
{
}

uint32_t
worker_send_host(struct worker_set *ws, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	return 0;
}
