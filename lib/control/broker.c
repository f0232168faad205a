/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "control/daemon.h"
#include "control/log.h"
#include "control/log_event.h"
#include "control/session.h"
#include "map/mrfill.h"

#define SECOND_NS 1000000000ull
#define LIMIT_NS  (2 * SECOND_NS) /* limit that a request waits for its client's memory */
#define RETRY_NS  SECOND_NS       /* between two starts */
#define BATCH     16              /* results per turn of the loop */
#define LEFT_MAX  64u             /* ended connections without a broker; then no new ones */

static void on_message(struct watch *w, uint32_t events);

/* To the end of the first wait, or to the next start of a broker if there is none. */
static void
timer_set(struct broker *b)
{
	struct broker_wait *first = TAILQ_FIRST(&b->waits);
	uint64_t start = b->w.fd < 0 ? b->spawned_ns + RETRY_NS : 0;
	uint64_t at = first != NULL ? first->until_ns : 0;
	struct itimerspec ts = {0};

	if (start != 0 && (at == 0 || start < at))
		at = start;
	ts.it_value.tv_sec = (time_t)(at / SECOND_NS);
	ts.it_value.tv_nsec = (long)(at % SECOND_NS);
	timerfd_settime(b->timer.fd, TFD_TIMER_ABSTIME, &ts, NULL);
}

/* Ends a wait: the session continues with the result of the look-up, or with an error. */
static void
wait_end(struct broker *b, struct broker_wait *w, const struct mrmap_found *found, const int *fds)
{
	struct session *s = w->s;

	TAILQ_REMOVE(&b->waits, w, link);
	s->wait = NULL;
	b->found(s, &w->m, w->refusal, found, fds);
	free(w);
}

static void
wait_fail(struct broker *b, struct broker_wait *w, int err)
{
	const struct mrmap_found none = {.err = w->take ? -EPROTO : err};

	wait_end(b, w, &none, NULL);
}

static int
start(struct daemon *d)
{
	struct broker *b = &d->broker;
	int rc;

	b->spawned_ns = daemon_now_ns();
	rc = broker_spawn(b->starter, b->arg, &b->pid);
	if (rc < 0 && d->cfg->broker_socket != NULL) { /* its service may have been restarted */
		close(b->starter);
		b->starter = broker_starter_connect(d->cfg->broker_socket);
		rc = b->starter < 0 ? b->starter : broker_spawn(b->starter, b->arg, &b->pid);
	}
	if (rc < 0)
		return rc;
	b->w.fd = rc;
	b->w.ready = on_message;
	rc = loop_add(&d->loop, &b->w, EPOLLIN);
	if (rc < 0) {
		close(b->w.fd);
		b->w.fd = -1;
	}
	return rc;
}

/* Has the new broker close the connections that ended while there was none, and accepts more. */
static void
drop_left(struct daemon *d)
{
	struct broker_left *left = d->broker.left;
	uint32_t n = d->broker.nleft;

	d->broker.left = NULL;
	d->broker.nleft = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct ipc_peer peer = {.sock = left[i].sock,
					      .pidfd = -1,
					      .uid = left[i].uid};

		broker_drop(d, left[i].id, &peer, false);
	}
	free(left);
	if (n >= LEFT_MAX && d->broker.nleft < LEFT_MAX)
		loop_set(&d->loop, &d->listener, EPOLLIN);
}

static int
send_cmd(struct daemon *d, const struct broker_cmd *c, const int *fds, unsigned nfds)
{
	struct broker *b = &d->broker;
	int rc = b->w.fd >= 0 ? broker_send(b->w.fd, c, fds, nfds) : -EPIPE;

	if (rc < 0 && b->w.fd >= 0)
		shutdown(b->w.fd, SHUT_RDWR); /* on_message notices */
	return rc;
}

static void
ask_owners(struct daemon *d)
{
	const struct broker_cmd c = {.op = BROKER_OWNERS};

	d->broker.owners_asked = true; /* until the response: a broker may end before */
	(void)send_cmd(d, &c, NULL, 0);
}

static void
on_quota_asks(struct quota *q)
{
	ask_owners((struct daemon *)((char *)q - offsetof(struct daemon, quota)));
}

void
broker_reads_owners(struct daemon *d)
{
	quota_owners_look(&d->quota);
	d->quota.ask_owners = on_quota_asks;
}

static void
read_owners(struct broker *b, const int *fds, unsigned nfds)
{
	struct daemon *d = (struct daemon *)((char *)b - offsetof(struct daemon, broker));
	FILE *file[2] = {NULL, NULL};

	b->owners_asked = false;
	for (unsigned i = 0; i < nfds && i < 2; i++) {
		int own = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);

		file[i] = fdopen(own, "r");
		if (file[i] == NULL && own >= 0)
			close(own);
	}
	owner_read(&d->quota.owners, file[0], file[1]);
	for (unsigned i = 0; i < 2; i++)
		if (file[i] != NULL)
			fclose(file[i]);
}

/* Starts a new broker and passes it the connections. Look-ups of the lost broker fail. */
static void
restart(struct daemon *d)
{
	static const struct log_fields none;
	struct broker *b = &d->broker;
	struct broker_wait *w;
	struct session *s;
	int rc;

	if (b->w.fd >= 0) {
		loop_del(&d->loop, &b->w);
		close(b->w.fd);
		b->w.fd = -1;
		b->nbusy = 0;
		log_event(RTE_LOG_ERR, LOG_EVENT_BROKER_LOST, &none,
			  "the broker (pid %d) has ended", b->pid);
	}
	if (daemon_now_ns() - b->spawned_ns < RETRY_NS) {
		timer_set(b);
		return;
	}
	rc = start(d);
	if (rc < 0) {
		LOG_LIMITED(ERR, "no broker: %s; no memory can be registered", strerror(-rc));
		timer_set(b);
		return;
	}
	LOG(NOTICE, "the new broker is pid %d", b->pid);
	if (d->server.fd >= 0)
		broker_keep(d, BROKER_LISTENER,
			    &(struct ipc_peer){.sock = d->server.fd, .pidfd = -1});
	TAILQ_FOREACH (s, &d->sessions, link) {
		s->kept = broker_keep(d, s->id, &s->peer);
		rc = mrmap_copiers_renew(&s->copiers);
		if (rc < 0)
			LOG_LIMITED(ERR, "client %u: %s (pid %d): its memory is not copied: %s",
				    s->id, s->comm, s->peer.pid, strerror(-rc));
	}
	drop_left(d);
	if (b->owners_asked)
		ask_owners(d);
	while ((w = TAILQ_FIRST(&b->waits)) != NULL)
		wait_fail(b, w, -EIO);
}

static void
set_busy(struct broker *b, uint32_t uid, bool busy)
{
	uint32_t i = 0, *p;

	while (i < b->nbusy && b->busy[i] != uid)
		i++;
	if (!busy && i < b->nbusy) {
		b->busy[i] = b->busy[--b->nbusy];
	} else if (busy && i == b->nbusy) {
		p = realloc(b->busy, (b->nbusy + 1) * sizeof(*p));
		if (p == NULL)
			return;
		b->busy = p;
		b->busy[b->nbusy++] = uid;
	}
	LOG_LIMITED(WARNING, "uid %u: %s descriptors of its clients block when closed: %s", uid,
		    busy ? "too many" : "fewer",
		    busy ? "its connections are refused" : "it may connect again");
}

static void
handle(struct broker *b, const struct broker_msg *m, const int *fds, unsigned nfds)
{
	struct broker_wait *w;

	if (m->says == BROKER_BUSY || m->says == BROKER_CLEAR) {
		set_busy(b, m->uid, m->says == BROKER_BUSY);
		return;
	}
	if (m->says == BROKER_OWNED) {
		read_owners(b, fds, nfds);
		return;
	}
	if (m->says == BROKER_REFUSED) {
		b->refused((unsigned)m->job);
		return;
	}
	TAILQ_FOREACH (w, &b->waits, link) {
		if (w->job == m->job)
			break;
	}
	if (w == NULL)
		return; /* too late */
	if (m->says == BROKER_TAKEN || m->taken)
		w->take = false;
	if (m->says != BROKER_FOUND)
		return;
	if (w->take) /* busy: with its message unread the connection cannot continue */
		wait_fail(b, w, -EPROTO);
	else
		wait_end(b, w, &m->found, fds);
	timer_set(b);
}

static void
on_message(struct watch *w, uint32_t events)
{
	struct broker *b = WATCH_OF(w, struct broker, w);
	struct daemon *d = (struct daemon *)((char *)b - offsetof(struct daemon, broker));
	static struct broker_msg m;
	int fds[MRMAP_MAX_FDS];
	unsigned nfds;
	int rc = 1;

	for (unsigned i = 0; i < BATCH && rc == 1; i++) {
		rc = broker_receive(w->fd, &m, fds, &nfds);
		if (rc == 1)
			handle(b, &m, fds, nfds);
		while (nfds > 0) /* of memory and local files: checked by the broker */
			mrfill_close(fds[--nfds]);
	}
	if (rc != 1 && rc != -EAGAIN && rc != -EINTR)
		restart(d);
}

/* What the broker did not do for a request in time. */
static const char *
late_work(uint16_t op)
{
	switch (op) {
	case UROCE_CTRL_DEREG_MR:
		return "its memory could not be released";
	case UROCE_CTRL_PAUSE_THREADS:
	case UROCE_CTRL_RESUME_THREADS:
		return "its threads could not be stopped";
	default:
		return "its memory could not be looked up";
	}
}

static void
on_timer(struct watch *w, uint32_t events)
{
	struct broker *b = WATCH_OF(w, struct broker, timer);
	struct daemon *d = (struct daemon *)((char *)b - offsetof(struct daemon, broker));
	uint64_t now = daemon_now_ns(), n;
	struct broker_wait *first;

	if (read(w->fd, &n, sizeof(n)) < 0)
		return;
	if (b->w.fd < 0)
		restart(d);
	else
		on_message(&b->w, EPOLLIN); /* this thread may be late, not the broker */
	while ((first = TAILQ_FIRST(&b->waits)) != NULL && first->until_ns <= now) {
		LOG_LIMITED(NOTICE, "client %u: %s (pid %d): %s within %u s", first->s->id,
			    first->s->comm, first->s->peer.pid, late_work(first->m.hdr.op),
			    (unsigned)(LIMIT_NS / SECOND_NS));
		wait_fail(b, first, -ETIMEDOUT);
	}
	timer_set(b);
}

int
broker_open(struct daemon *d, broker_found *found, broker_refused *refused, const char *arg)
{
	struct broker *b = &d->broker;
	int rc;

	TAILQ_INIT(&b->waits);
	b->found = found;
	b->refused = refused;
	b->w.fd = -1;
	b->arg = arg;
	/* Now, so that the broker may use all CPUs of the daemon: its threads copy for workers. */
	b->starter = d->cfg->broker_socket != NULL ? broker_starter_connect(d->cfg->broker_socket)
						   : broker_starter_fork();
	if (b->starter < 0 && d->cfg->broker_socket != NULL) {
		LOG(ERR, "broker-socket %s: %s (systemctl start uroced-broker.socket)",
		    d->cfg->broker_socket, strerror(-b->starter));
		return b->starter;
	}
	if (b->starter < 0) {
		LOG(ERR, "the broker cannot be started: %s", strerror(-b->starter));
		return b->starter;
	}
	b->timer.ready = on_timer;
	b->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (b->timer.fd < 0)
		return -errno;
	rc = loop_add(&d->loop, &b->timer, EPOLLIN);
	if (rc == 0)
		rc = start(d);
	if (rc < 0)
		LOG(ERR, "the broker cannot be started: %s", strerror(-rc));
	return rc;
}

void
broker_close(struct daemon *d)
{
	struct broker *b = &d->broker;

	if (b->w.fd >= 0)
		close(b->w.fd);
	if (b->timer.fd > 0)
		close(b->timer.fd);
	if (b->starter > 0)
		close(b->starter);
	free(b->busy);
	free(b->left); /* the end of the process closes the sockets */
	b->busy = NULL;
	b->left = NULL;
	b->nbusy = b->nleft = 0;
	b->w.fd = b->timer.fd = b->starter = -1;
}

bool
broker_keep(struct daemon *d, uint64_t id, const struct ipc_peer *peer)
{
	struct broker_cmd c = {.op = BROKER_KEEP, .uid = peer->uid, .id = id, .pid = peer->pid};
	int fds[2] = {peer->sock, peer->pidfd};

	if (d->broker.w.fd < 0)
		restart(d);
	return send_cmd(d, &c, fds, peer->pidfd >= 0 ? 2 : 1) == 0;
}

bool
broker_release(struct daemon *d, uint64_t id, uint32_t uid)
{
	struct broker_cmd c = {.op = BROKER_DROP, .uid = uid, .id = id};

	return send_cmd(d, &c, NULL, 0) == 0;
}

/*
 * Keeps a connection that ended until a broker can close it. Nobody is charged for it, so that a
 * client could use up the daemon's descriptors by new connections: these wait for a broker, too.
 */
static void
leave(struct daemon *d, uint64_t id, const struct ipc_peer *peer)
{
	struct broker *b = &d->broker;
	struct broker_left *left = realloc(b->left, (b->nleft + 1) * sizeof(*left));

	if (left == NULL) {
		/* A descriptor that stays open is better than a blocked daemon. */
		LOG_LIMITED(ERR, "no broker: a connection of uid %u is not closed", peer->uid);
		return;
	}
	left[b->nleft++] = (struct broker_left){.id = id, .uid = peer->uid, .sock = peer->sock};
	b->left = left;
	if (b->nleft >= LEFT_MAX)
		loop_set(&d->loop, &d->listener, 0);
}

void
broker_drop(struct daemon *d, uint64_t id, const struct ipc_peer *peer, bool kept)
{
	bool empty = ipc_msg_end(peer->sock);

	kept = kept && d->broker.w.fd >= 0; /* a lost broker keeps nothing */
	if (!empty && !kept)
		kept = broker_keep(d, id, peer);
	if (!empty && !kept) {
		leave(d, id, peer);
		return;
	}
	/* In this order, so that the broker's close is the last one. */
	close(peer->sock);
	if (kept)
		broker_release(d, id, peer->uid);
}

bool
broker_refuses(const struct daemon *d, uint32_t uid)
{
	for (uint32_t i = 0; i < d->broker.nbusy; i++) {
		if (d->broker.busy[i] == uid)
			return true;
	}
	return false;
}

/* Sends c, a request about m, and makes s wait for the result. Returns 0 or -errno. */
static int
ask(struct session *s, const struct ipc_msg *m, struct broker_cmd *c, int refusal)
{
	struct broker *b = &s->d->broker;
	struct broker_wait *w = malloc(sizeof(*w));
	int rc;

	if (w == NULL)
		return -ENOMEM;
	c->uid = s->peer.uid;
	c->id = s->id;
	c->job = ++b->last_job;
	w->s = s;
	w->job = c->job;
	w->until_ns = daemon_now_ns() + LIMIT_NS;
	w->take = c->take;
	w->refusal = refusal;
	w->m.hdr = m->hdr;
	w->m.nfds = 0;
	memcpy(w->m.body, m->body, m->hdr.len);
	rc = send_cmd(s->d, c, NULL, 0);
	if (rc < 0) {
		free(w);
		return rc;
	}
	s->wait = w;
	TAILQ_INSERT_TAIL(&b->waits, w, link);
	if (TAILQ_FIRST(&b->waits) == w)
		timer_set(b);
	return 0;
}

int
broker_find(struct session *s, const struct ipc_msg *m, bool fds, int refusal)
{
	struct broker_cmd c = {.op = BROKER_FIND,
			       .copied = !session_may_map(s),
			       .take = fds,
			       .nfds = m->hdr.nfds};

	if (m->hdr.op == UROCE_CTRL_REREG_MR)
		c.req = ((const struct uroce_rereg_mr_req *)(const void *)m->body)->reg;
	else if (m->hdr.op == UROCE_CTRL_REG_MR)
		c.req = *(const struct uroce_reg_mr_req *)(const void *)m->body;
	return ask(s, m, &c, refusal);
}

int
broker_settle(struct session *s, const struct ipc_msg *m, uint64_t mem)
{
	struct broker_cmd c = {.op = BROKER_SETTLE, .mem = mem};

	return ask(s, m, &c, 0);
}

int
broker_pause(struct session *s, const struct ipc_msg *m)
{
	const struct uroce_pause_threads_req *q = (const void *)m->body;
	bool pause = m->hdr.op == UROCE_CTRL_PAUSE_THREADS;
	struct broker_cmd c = {.op = pause ? BROKER_PAUSE : BROKER_RESUME,
			       .tid = pause ? q->tid : 0};

	return ask(s, m, &c, 0);
}

int
broker_copy(void *ctx, uint64_t id, int mem, int shared)
{
	struct session *s = ctx;
	struct broker_cmd c = {.op = BROKER_COPY, .uid = s->peer.uid, .mem = id};
	int fds[2] = {mem, shared};

	return send_cmd(s->d, &c, fds, 2);
}

void
broker_forget(struct session *s)
{
	if (s->wait == NULL)
		return;
	TAILQ_REMOVE(&s->d->broker.waits, s->wait, link);
	free(s->wait);
	s->wait = NULL;
}
