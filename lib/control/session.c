/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/session.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "control/log.h"

#define CONTEXT_FDS  2   /* of a context by itself: its asynchronous socket, its doorbells .. */
#define CONTEXT_MAPS 1   /* of a context by itself: its doorbells */
#define CLIENT_FDS   2   /* of a connection: its socket, its pidfd */
#define MAX_CHANNELS 512 /* of a client: each is a descriptor here */

bool
session_may_change(const struct session *s)
{
	return s->state == IPC_STATE_OBSERVER && s->user->privileged;
}

bool
session_may_see(const struct session *s, const struct session *owner)
{
	return s->user == owner->user || s->user->privileged;
}

void
ctrl_rep_fd(struct ctrl_rep *rep, int fd, bool close_it)
{
	rep->fds[rep->nfds] = fd;
	rep->close_fd[rep->nfds++] = close_it;
}

void
ctrl_rep_ring(struct ctrl_rep *rep, struct session *s, const struct ipc_extent *ext,
	      uint32_t entries, uint32_t stride, struct uroce_ring_loc *loc)
{
	int fd;

	ipc_arena_locate(s->arena, ext, entries, stride, loc, &fd);
	if (fd >= 0)
		ctrl_rep_fd(rep, fd, false);
}

/* On the worker, its doorbell ring of the context being confused: look at every QP instead. */
static bool
on_doorbell_overflow(struct worker *w, void *ctx, bool first)
{
	struct session *s = ctx;
	struct obj_qp **at = &s->worker_scan[worker_index(w)];

	if (first)
		*at = LIST_FIRST(&s->worker_qps[worker_index(w)]);
	for (uint32_t i = 0; i < WORKER_SCAN_QPS && *at != NULL; i++) {
		engine_doorbell(worker_engine(w), (*at)->qp->qpn);
		*at = LIST_NEXT(*at, worker_link);
	}
	return *at != NULL;
}

int
session_ring_alloc(struct session *s, size_t bytes, struct ipc_extent *ext)
{
	struct quota *q = &s->d->quota;
	size_t own = (size_t)s->d->cfg->client_mem_mib << 20;
	uint64_t left = quota_left(s->user, QUOTA_QUEUE_MEM), grown;
	bool own_binds = own - s->arena_bytes <= left;
	bool fds = quota_left(s->user, QUOTA_FDS) > 0, maps = quota_left(s->user, QUOTA_MAPS) > 0;
	int rc;

	/* A new segment must be within all limits before it is made. */
	ipc_arena_set_limit(s->arena, !fds || !maps ? s->arena_bytes
				      : own_binds   ? own
						    : s->arena_bytes + left);
	rc = ipc_arena_alloc(s->arena, bytes, ext);
	grown = ipc_arena_bytes(s->arena) - s->arena_bytes;
	if (grown != 0) {
		quota_take(s->user, QUOTA_QUEUE_MEM, grown);
		quota_take(s->user, QUOTA_FDS, 1);
		quota_take(s->user, QUOTA_MAPS, 1);
		s->arena_bytes += grown;
		s->arena_segs++;
	}
	if (rc != -ENOMEM)
		return rc;
	/* For the sentence, there being less left than a new segment takes. */
	if (bytes < IPC_SEG_BYTES)
		bytes = IPC_SEG_BYTES;
	if (fds && maps && own_binds)
		snprintf(q->refusal, sizeof(q->refusal),
			 "uid %u wants %zu MiB more of queue memory in a client that holds %zu; a "
			 "client may hold %u (option client-mem)",
			 s->peer.uid, (bytes + (1u << 20) - 1) >> 20, s->arena_bytes >> 20,
			 s->d->cfg->client_mem_mib);
	else if (fds && maps && quota_take(s->user, QUOTA_QUEUE_MEM, bytes) == 0)
		quota_give(s->user, QUOTA_QUEUE_MEM, bytes);
	else if (!fds)
		quota_take(s->user, QUOTA_FDS, 1); /* there is none */
	else if (!maps)
		quota_take(s->user, QUOTA_MAPS, 1);
	return rc;
}

static struct uroce_db_ring *
doorbell_ring(struct session *s, uint32_t w)
{
	return (struct uroce_db_ring *)(s->doorbells.base + w * sizeof(struct uroce_db_ring));
}

static void
doorbells_close(struct session *s)
{
	while (s->ndoorbells > 0) {
		s->ndoorbells--;
		worker_del_doorbell(worker_get(s->d->workers, s->ndoorbells),
				    doorbell_ring(s, s->ndoorbells));
	}
	ipc_segment_destroy(&s->doorbells);
}

static int
doorbells_open(struct session *s)
{
	uint32_t n = s->d->nworkers;
	int rc = ipc_segment_create(&s->doorbells, n * sizeof(struct uroce_db_ring), false);

	while (rc == 0 && s->ndoorbells < n) {
		rc = worker_add_doorbell(worker_get(s->d->workers, s->ndoorbells),
					 doorbell_ring(s, s->ndoorbells), on_doorbell_overflow, s);
		if (rc == 0)
			s->ndoorbells++;
	}
	if (rc < 0 && s->doorbells.base != NULL)
		doorbells_close(s);
	return rc;
}

/* What a context holds beyond its connection. */
static int
context_open(struct session *s, struct device *dev, int *async_fd)
{
	const struct control_config *cfg = s->d->cfg;
	int rc = quota_take(s->user, QUOTA_CONTEXTS, 1);

	if (rc < 0)
		return rc;
	rc = quota_take(s->user, QUOTA_FDS, CONTEXT_FDS + s->d->nworkers);
	if (rc < 0)
		goto fail_contexts;
	rc = quota_take(s->user, QUOTA_MAPS, CONTEXT_MAPS);
	if (rc < 0)
		goto fail_fds;
	rc = -ENOMEM;
	s->arena = ipc_arena_create((size_t)cfg->client_mem_mib << 20, s->d->huge);
	if (s->arena == NULL)
		goto fail_maps;
	rc = events_async_open(&s->async, s->d, async_fd);
	if (rc < 0)
		goto fail_arena;
	rc = doorbells_open(s);
	if (rc < 0)
		goto fail_async;
	rc = ah_table_open(s);
	if (rc < 0)
		goto fail_doorbells;
	idtab_init(&s->mws, cfg->max_mrs);
	idtab_init(&s->srqs, cfg->max_srqs);
	idtab_init(&s->pds, cfg->max_pds);
	idtab_init(&s->mrs, cfg->max_mrs);
	idtab_init(&s->channels, MAX_CHANNELS);
	idtab_init(&s->cqs, cfg->max_cqs);
	idtab_init(&s->qps, cfg->max_qps);
	s->dev = dev;
	s->state = IPC_STATE_CONTEXT;
	return 0;

fail_doorbells:
	doorbells_close(s);
fail_async:
	events_async_close(&s->async);
	close(*async_fd);
fail_arena:
	ipc_arena_destroy(s->arena);
	s->arena = NULL;
fail_maps:
	quota_give(s->user, QUOTA_MAPS, CONTEXT_MAPS);
fail_fds:
	quota_give(s->user, QUOTA_FDS, CONTEXT_FDS + s->d->nworkers);
fail_contexts:
	quota_give(s->user, QUOTA_CONTEXTS, 1);
	return rc;
}

/* In the order of who uses whom: queues, then what they complete to and read from, then memory. */
static void
context_close(struct session *s)
{
	qp_detach_all(s);
	mw_detach_all(s);
	mr_detach_all(s);
	worker_quiesce(s->d->workers);
	mw_release(s->d);
	qp_free_all(s);
	srq_free_all(s);
	ah_free_all(s);
	cq_free_all(s);
	mw_free_all(s);
	mr_free_all(s);
	mr_kept_free(s);
	channel_free_all(s);
	pd_free_all(s);
	doorbells_close(s);
	events_async_close(&s->async);
	ipc_arena_destroy(s->arena);
	quota_give(s->user, QUOTA_QUEUE_MEM, s->arena_bytes);
	quota_give(s->user, QUOTA_FDS, s->arena_segs + CONTEXT_FDS + s->d->nworkers);
	quota_give(s->user, QUOTA_MAPS, s->arena_segs + CONTEXT_MAPS);
	quota_give(s->user, QUOTA_CONTEXTS, 1);
	idtab_free(&s->pds);
	idtab_free(&s->mrs);
	idtab_free(&s->mws);
	idtab_free(&s->srqs);
	idtab_free(&s->channels);
	idtab_free(&s->cqs);
	idtab_free(&s->qps);
}

/* It has said HELLO, or is about to end. */
static void
session_not_new(struct session *s)
{
	TAILQ_REMOVE(&s->d->new_sessions, s, new_link);
	quota_give(s->user, QUOTA_NEW, 1);
	s->deadline_ns = 0;
}

int
session_hello(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_hello_req *hello = req->body;
	struct uroce_hello_rep *rep = rp->body;
	struct daemon *d = s->d;
	struct device *dev;
	int rc, async_fd;

	if (memchr(hello->device, '\0', sizeof(hello->device)) == NULL)
		return EINVAL;
	s->client_pid = hello->pid;
	rep->context = s->id;
	if (hello->device[0] == '\0') {
		s->state = IPC_STATE_OBSERVER;
		session_not_new(s);
		return 0;
	}
	dev = daemon_device_named(d, hello->device);
	if (dev == NULL)
		return ENODEV;
	/* By it alone is the client told from a later process of the same pid. */
	if (s->peer.pidfd < 0)
		return EPERM;
	rc = context_open(s, dev, &async_fd);
	if (rc < 0)
		return -rc;
	session_not_new(s);
	rep->flags = d->shared_cores ? UROCE_HELLO_YIELD : 0;
	rep->nworkers = d->nworkers;
	rep->worker_mask = d->nworkers - 1;
	rep->db_seg_bytes = s->doorbells.bytes;
	ctrl_rep_fd(rp, async_fd, true);
	ctrl_rep_fd(rp, s->doorbells.fd, false);
	for (uint32_t i = 0; i < d->nworkers; i++) {
		rep->db_off[i] = i * sizeof(struct uroce_db_ring);
		ctrl_rep_fd(rp, worker_wake_fd(worker_get(d->workers, i), doorbell_ring(s, i)),
			    false);
	}
	LOG(INFO, "client %u: %s (pid %d, uid %u) opened %s", s->id, s->comm, s->peer.pid,
	    s->peer.uid, dev->name);
	return 0;
}

void
session_destroy(struct session *s)
{
	struct daemon *d = s->d;

	/* First of all: the client must find its connection closed, however long the rest takes. */
	loop_del(&d->loop, &s->w);
	session_rest_end(s);
	broker_drop(d, s->id, &s->peer, s->kept);
	broker_forget(s);
	if (s->state == IPC_STATE_CONTEXT) {
		LOG(INFO, "client %u: %s (pid %d) closes", s->id, s->comm, s->peer.pid);
		context_close(s);
	}
	if (s->deadline_ns != 0)
		session_not_new(s);
	if (s->peer.pidfd >= 0)
		close(s->peer.pidfd);
	TAILQ_REMOVE(&d->sessions, s, link);
	quota_give(s->user, QUOTA_FDS, CLIENT_FDS);
	quota_give(s->user, QUOTA_CLIENTS, 1);
	quota_user_put(s->user);
	free(s);
}

/* Name of the client's program, for people; it can be anything. */
static void
peer_comm(pid_t pid, char comm[16])
{
	char path[40];
	FILE *f;

	strcpy(comm, "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return;
	if (fgets(comm, 16, f) != NULL)
		comm[strcspn(comm, "\n")] = '\0';
	for (char *c = comm; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
	fclose(f);
}

/* At the deadline of the oldest connection without HELLO; never, when there is none. */
static void
hello_timer_set(struct daemon *d)
{
	const struct session *s = TAILQ_FIRST(&d->new_sessions);
	struct itimerspec at = {0};

	if (s != NULL) {
		at.it_value.tv_sec = (time_t)(s->deadline_ns / 1000000000u);
		at.it_value.tv_nsec = (long)(s->deadline_ns % 1000000000u);
	}
	timerfd_settime(d->hello_timer.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void
on_hello_timer(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, hello_timer);
	uint64_t n, now = daemon_now_ns();
	struct session *s;

	if (read(w->fd, &n, sizeof(n)) < 0)
		return;
	while ((s = TAILQ_FIRST(&d->new_sessions)) != NULL && s->deadline_ns <= now) {
		LOG_LIMITED(NOTICE,
			    "client %u: %s (pid %d, uid %u): no HELLO within %u s (option "
			    "hello-timeout); connection ended",
			    s->id, s->comm, s->peer.pid, s->peer.uid, d->cfg->hello_timeout_s);
		session_destroy(s);
	}
	hello_timer_set(d);
}

static int
hello_timer_open(struct daemon *d)
{
	int rc;

	d->hello_timer.ready = on_hello_timer;
	d->hello_timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (d->hello_timer.fd < 0)
		return -errno;
	rc = loop_add(&d->loop, &d->hello_timer, EPOLLIN);
	if (rc < 0)
		close(d->hello_timer.fd);
	return rc;
}

static void
hello_timer_close(struct daemon *d)
{
	loop_del(&d->loop, &d->hello_timer);
	close(d->hello_timer.fd);
}

/* user, its reference, and a connection and a new one of its quota become the session's. */
static int
session_create(struct daemon *d, const struct ipc_peer *peer, struct quota_user *user)
{
	struct session *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL)
		return -ENOMEM;
	s->d = d;
	s->user = user;
	mr_copies_open(s);
	s->peer = *peer;
	s->id = ++d->next_session;
	s->w.fd = peer->sock;
	s->w.ready = session_ready;
	peer_comm(peer->pid, s->comm);
	rc = loop_add(&d->loop, &s->w, EPOLLIN);
	if (rc < 0) {
		free(s);
		return rc;
	}
	s->deadline_ns = daemon_now_ns() + d->cfg->hello_timeout_s * 1000000000ull;
	s->kept = broker_keep(d, s->id, peer);
	TAILQ_INSERT_TAIL(&d->sessions, s, link);
	TAILQ_INSERT_TAIL(&d->new_sessions, s, new_link);
	if (TAILQ_FIRST(&d->new_sessions) == s)
		hello_timer_set(d);
	return 0;
}

static void
turn_away(struct daemon *d, const struct ipc_peer *peer)
{
	broker_drop(d, ++d->next_session, peer, false);
	if (peer->pidfd >= 0)
		close(peer->pidfd);
}

static void
turn_away_hung(struct daemon *d, const struct ipc_peer *peer)
{
	LOG_LIMITED(WARNING,
		    "client of pid %d turned away: what uid %u gave before hangs on being closed",
		    peer->pid, peer->uid);
	turn_away(d, peer);
}

/*
 * No descriptor is left for the connection that waits, and as long as it waits the loop would spin:
 * give up the one kept for this, take the connection and end it.
 */
static void
turn_away_blindly(struct daemon *d)
{
	struct ipc_peer peer;

	close(d->spare_fd);
	if (ipc_server_accept(&d->server, &peer) == 0)
		turn_away(d, &peer);
	d->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	LOG_LIMITED(WARNING, "a client turned away: no descriptor left");
}

/* A connection that was accepted becomes a session, if its user may have one more. 0 or -errno. */
static int
admit(struct daemon *d, const struct ipc_peer *peer)
{
	struct quota_user *user = quota_user_get(&d->quota, peer->uid);
	int rc;

	if (user == NULL)
		return -ENOMEM;
	quota_refusal_clear(&d->quota);
	rc = quota_take(user, QUOTA_CLIENTS, 1);
	if (rc < 0)
		goto fail_user;
	rc = quota_take(user, QUOTA_NEW, 1);
	if (rc < 0)
		goto fail_clients;
	rc = quota_take(user, QUOTA_FDS, CLIENT_FDS);
	if (rc < 0)
		goto fail_new;
	rc = session_create(d, peer, user);
	if (rc < 0)
		goto fail_fds;
	return 0;

fail_fds:
	quota_give(user, QUOTA_FDS, CLIENT_FDS);
fail_new:
	quota_give(user, QUOTA_NEW, 1);
fail_clients:
	quota_give(user, QUOTA_CLIENTS, 1);
fail_user:
	if (d->quota.refusal[0] != '\0')
		LOG_LIMITED(WARNING, "client of pid %d turned away: %s", peer->pid,
			    d->quota.refusal);
	quota_user_put(user);
	return rc;
}

static void
on_connection(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, listener);
	struct ipc_peer peer;
	int rc = ipc_server_accept(&d->server, &peer);

	if (rc == -EMFILE || rc == -ENFILE)
		turn_away_blindly(d);
	else if (rc == 0 && broker_refuses(d, peer.uid))
		turn_away_hung(d, &peer);
	else if (rc == 0 && admit(d, &peer) < 0)
		turn_away(d, &peer);
}

static int
group_id(const char *name, gid_t *gid)
{
	struct group *g;
	char *end;

	*gid = IPC_GROUP_KEEP;
	if (name == NULL)
		return 0;
	*gid = (gid_t)strtoul(name, &end, 10);
	if (*end == '\0')
		return 0;
	g = getgrnam(name);
	if (g == NULL) {
		LOG(ERR, "option --socket-group: '%s' is no group of this system", name);
		return -ENOENT;
	}
	*gid = g->gr_gid;
	return 0;
}

int
session_listen(struct daemon *d)
{
	gid_t gid;
	int rc = group_id(d->cfg->socket_group, &gid);

	if (rc < 0)
		return rc;
	rc = hello_timer_open(d);
	if (rc < 0)
		return rc;
	rc = rest_open(d);
	if (rc < 0)
		goto fail_hello;
	rc = ipc_server_listen(&d->server, d->cfg->socket, d->cfg->socket_mode, gid);
	if (rc < 0) {
		LOG(ERR, "socket %s: %s", d->cfg->socket, strerror(-rc));
		goto fail_rest;
	}
	d->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	d->listener.fd = d->server.fd;
	d->listener.ready = on_connection;
	rc = loop_add(&d->loop, &d->listener, EPOLLIN);
	if (rc < 0)
		goto fail_server;
	/* Its queue of connections that were never taken may hold descriptors, too. */
	broker_keep(d, BROKER_LISTENER, &(struct ipc_peer){.sock = d->server.fd, .pidfd = -1});
	return 0;

fail_server:
	ipc_server_close(&d->server);
fail_rest:
	rest_close(d);
fail_hello:
	hello_timer_close(d);
	return rc;
}

void
session_unlisten(struct daemon *d)
{
	struct session *s;

	loop_del(&d->loop, &d->listener);
	ipc_server_close(&d->server);
	broker_release(d, BROKER_LISTENER, geteuid());
	while ((s = TAILQ_FIRST(&d->sessions)) != NULL)
		session_destroy(s);
	rest_close(d);
	hello_timer_close(d);
	close(d->spare_fd);
}
