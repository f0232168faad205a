/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "control/log.h"
#include "control/throttle.h"
#include "control/session.h"

#define CGROUP_MAX 3000 /* of its path, or of the lines of version 1 */

/* Sets the timer to the oldest deadline of a connection without HELLO; stops it if none. */
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
		    "client of pid %d refused: closing earlier descriptors of uid %u still blocks",
		    peer->pid, peer->uid);
	turn_away(d, peer);
}

/*
 * Refuses a connection when no descriptor is left for it. As long as it is pending, the loop would
 * spin: close the spare descriptor, accept the connection and close it.
 */
static void
turn_away_blindly(struct daemon *d)
{
	struct ipc_peer peer;

	close(d->spare_fd);
	if (ipc_server_accept(&d->server, &peer) == 0)
		turn_away(d, &peer);
	d->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	LOG_LIMITED(WARNING, "a client refused: no descriptor left");
}

/* Creates a session for a connection, if its user may have one more. Returns 0 or -errno. */
static int
admit(struct daemon *d, const struct ipc_peer *peer)
{
	char cgroup[CGROUP_MAX] = "";
	struct quota_user *user;
	int rc;

	if (d->cfg->quota_by == QUOTA_BY_CGROUP)
		ipc_peer_cgroup(peer->pid, cgroup, sizeof(cgroup));
	user = quota_user_get_in(&d->quota, peer->uid, cgroup);
	if (user == NULL)
		return -ENOMEM;
	quota_refusal_clear(&d->quota);
	rc = quota_take(user, QUOTA_CLIENTS, 1);
	if (rc < 0)
		goto fail_user;
	rc = quota_take(user, QUOTA_NEW, 1);
	if (rc < 0)
		goto fail_clients;
	rc = quota_take(user, QUOTA_FDS, SESSION_FDS);
	if (rc < 0)
		goto fail_new;
	rc = session_create(d, peer, user, request_ready);
	if (rc < 0)
		goto fail_fds;
	/* The timer serves the first of them. */
	if (TAILQ_NEXT(TAILQ_FIRST(&d->new_sessions), new_link) == NULL)
		hello_timer_set(d);
	return 0;

fail_fds:
	quota_give(user, QUOTA_FDS, SESSION_FDS);
fail_new:
	quota_give(user, QUOTA_NEW, 1);
fail_clients:
	quota_give(user, QUOTA_CLIENTS, 1);
fail_user:
	if (d->quota.refusal[0] != '\0')
		LOG_LIMITED(WARNING, "client of pid %d refused: %s", peer->pid, d->quota.refusal);
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
		LOG(ERR, "option --socket-group: '%s' is not a group of this system", name);
		return -ENOENT;
	}
	*gid = g->gr_gid;
	return 0;
}

/* Returns advice about an error of the control socket. */
static const char *
advice(int rc)
{
	switch (rc) {
	case -EADDRINUSE:
		return ": a daemon listens there; --socket names another path";
	case -EEXIST:
		return ": a file that is not a socket; --socket names another path";
	case -EACCES:
	case -EROFS:
		return ": --socket names another path";
	case -ENOENT:
		return ": make its folder first";
	case -ENAMETOOLONG:
		return ": at most 107 characters";
	default:
		return "";
	}
}

int
listen_start(struct daemon *d)
{
	gid_t gid;
	int rc = group_id(d->cfg->socket_group, &gid);

	if (rc < 0)
		return rc;
	rc = hello_timer_open(d);
	if (rc < 0)
		return rc;
	rc = throttle_open(d);
	if (rc < 0)
		goto fail_hello;
	if (d->cfg->listener != 0)
		ipc_server_use(&d->server, d->cfg->listener, d->cfg->socket);
	else
		rc = ipc_server_listen(&d->server, d->cfg->socket, d->cfg->socket_mode, gid);
	if (rc < 0) {
		LOG(ERR, "socket %s: %s%s", d->cfg->socket, strerror(-rc), advice(rc));
		goto fail_rest;
	}
	if (d->cfg->confine_root)
		ipc_server_confine_root(&d->server);
	d->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	d->listener.fd = d->server.fd;
	d->listener.ready = on_connection;
	rc = loop_add(&d->loop, &d->listener, EPOLLIN);
	if (rc < 0)
		goto fail_server;
	/* Connections that were never accepted may hold descriptors, too. */
	broker_keep(d, BROKER_LISTENER, &(struct ipc_peer){.sock = d->server.fd, .pidfd = -1});
	return 0;

fail_server:
	ipc_server_close(&d->server);
fail_rest:
	throttle_close(d);
fail_hello:
	hello_timer_close(d);
	return rc;
}

void
listen_stop(struct daemon *d)
{
	struct session *s;

	session_users_changed(d);
	loop_del(&d->loop, &d->listener);
	ipc_server_close(&d->server);
	broker_release(d, BROKER_LISTENER, geteuid());
	while ((s = TAILQ_FIRST(&d->sessions)) != NULL)
		session_destroy(s);
	defer_drain(d);
	throttle_close(d);
	hello_timer_close(d);
	close(d->spare_fd);
}
