/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include "log.h"

#define REP_BODY_MAX 2048
#define MAX_CHANNELS 512 /* of a client: each is a descriptor here */
_Static_assert(sizeof(struct uroce_list_devices_rep) <= REP_BODY_MAX, "largest reply fits");

uint32_t
random_u32(void)
{
	uint32_t v;

	while (getrandom(&v, sizeof(v), 0) != sizeof(v))
		;
	return v;
}

bool
session_may_change(const struct session *s)
{
	return s->state == IPC_STATE_OBSERVER && (s->peer.uid == 0 || s->peer.uid == geteuid());
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
static void
on_doorbell_overflow(struct worker *w, void *ctx)
{
	struct session *s = ctx;
	struct obj_qp *q;

	LIST_FOREACH (q, &s->worker_qps[worker_index(w)], worker_link)
		engine_doorbell(worker_engine(w), q->qp->qpn);
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
	const struct options *opt = s->d->opt;
	int rc;

	s->arena = ipc_arena_create((size_t)opt->client_mem_mib << 20, s->d->huge);
	if (s->arena == NULL)
		return -ENOMEM;
	rc = events_async_open(&s->async, s->d, async_fd);
	if (rc < 0)
		goto fail_arena;
	rc = doorbells_open(s);
	if (rc < 0)
		goto fail_async;
	rc = ah_table_open(s);
	if (rc < 0)
		goto fail_doorbells;
	idtab_init(&s->mws, opt->max_mrs);
	idtab_init(&s->srqs, opt->max_qps);
	idtab_init(&s->pds, opt->max_pds);
	idtab_init(&s->mrs, opt->max_mrs);
	idtab_init(&s->channels, MAX_CHANNELS);
	idtab_init(&s->cqs, opt->max_cqs);
	idtab_init(&s->qps, opt->max_qps);
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
	qp_free_all(s);
	srq_free_all(s);
	ah_free_all(s);
	cq_free_all(s);
	mw_free_all(s);
	mr_free_all(s);
	channel_free_all(s);
	pd_free_all(s);
	doorbells_close(s);
	events_async_close(&s->async);
	ipc_arena_destroy(s->arena);
	idtab_free(&s->pds);
	idtab_free(&s->mrs);
	idtab_free(&s->mws);
	idtab_free(&s->srqs);
	idtab_free(&s->channels);
	idtab_free(&s->cqs);
	idtab_free(&s->qps);
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
	rep->flags = d->shared_cores ? UROCE_HELLO_YIELD : 0;
	rep->nworkers = d->nworkers;
	rep->worker_mask = d->nworkers - 1;
	rep->db_seg_bytes = s->doorbells.bytes;
	ctrl_rep_fd(rp, async_fd, true);
	ctrl_rep_fd(rp, s->doorbells.fd, false);
	for (uint32_t i = 0; i < d->nworkers; i++) {
		rep->db_off[i] = i * sizeof(struct uroce_db_ring);
		ctrl_rep_fd(rp, worker_wake_fd(worker_get(d->workers, i)), false);
	}
	LOG(INFO, "client %u: %s (pid %d, uid %u) opened %s", s->id, s->comm, s->peer.pid,
	    s->peer.uid, dev->name);
	return 0;
}

/* Answer one request; an error of the connection or of the protocol ends it: -errno. */
static int
session_answer(struct session *s, struct ipc_msg *m)
{
	uint64_t body[REP_BODY_MAX / sizeof(uint64_t)] = {0};
	struct ctrl_req req = {.body = m->body, .fds = m->fds};
	struct ctrl_rep rep = {.body = body};
	int rc = ipc_msg_check(m, s->state);

	if (rc < 0)
		return rc;
	req.nfds = m->nfds; /* after the check: it drops surplus descriptors */
	if (rc == 0)
		rc = dispatch(s, m->hdr.op, &req, &rep);
	if (rc == 0) {
		rc = ipc_reply_send(s->w.fd, &m->hdr, 0, body, ipc_op_get(m->hdr.op)->rep_len,
				    rep.fds, rep.nfds);
		for (unsigned i = 0; i < rep.nfds; i++) {
			if (rep.close_fd[i])
				close(rep.fds[i]);
		}
		return rc;
	}
	return ipc_reply_send(s->w.fd, &m->hdr, (uint32_t)rc, NULL, 0, NULL, 0);
}

static void
session_ready(struct watch *w, uint32_t events)
{
	static struct ipc_msg m; /* too large for a stack, and there is one control thread */
	struct session *s = WATCH_OF(w, struct session, w);
	int rc = ipc_msg_receive(w->fd, &m);

	if (rc == 1) {
		rc = session_answer(s, &m);
		ipc_msg_close_fds(&m);
		if (rc < 0)
			LOG_LIMITED(NOTICE,
				    "client %u: %s (pid %d): operation %u: %s; connection ended",
				    s->id, s->comm, s->peer.pid, m.hdr.op, strerror(-rc));
		else
			return;
	} else if (rc == -EAGAIN) {
		return;
	}
	session_destroy(s);
}

void
session_destroy(struct session *s)
{
	struct daemon *d = s->d;

	/* First of all: the client must find its connection closed, however long the rest takes. */
	loop_del(&d->loop, &s->w);
	close(s->w.fd);
	if (s->state == IPC_STATE_CONTEXT) {
		LOG(INFO, "client %u: %s (pid %d) closes", s->id, s->comm, s->peer.pid);
		context_close(s);
	}
	if (s->peer.pidfd >= 0)
		close(s->peer.pidfd);
	TAILQ_REMOVE(&d->sessions, s, link);
	d->nsessions--;
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

static int
session_create(struct daemon *d, const struct ipc_peer *peer)
{
	struct session *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL)
		return -ENOMEM;
	s->d = d;
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
	TAILQ_INSERT_TAIL(&d->sessions, s, link);
	d->nsessions++;
	return 0;
}

static void
turn_away(const struct ipc_peer *peer)
{
	close(peer->sock);
	if (peer->pidfd >= 0)
		close(peer->pidfd);
}

/*
 * No descriptor is left for the connection that waits, and as long as it waits the loop would spin:
 * give up the one kept for this, take the connection and end it.
 */
static void
turn_away_blindly(struct daemon *d)
{
	close(d->spare_fd);
	close(accept4(d->server.fd, NULL, NULL, SOCK_CLOEXEC));
	d->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	LOG_LIMITED(WARNING, "a client turned away: no descriptor left");
}

static void
on_connection(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, listener);
	struct ipc_peer peer;
	int rc = ipc_server_accept(&d->server, &peer);

	if (rc == -EMFILE || rc == -ENFILE) {
		turn_away_blindly(d);
	} else if (rc == 0 && d->nsessions >= d->opt->max_clients) {
		LOG_LIMITED(WARNING, "client of pid %d turned away: there are %u (--max-clients)",
			    peer.pid, d->nsessions);
		turn_away(&peer);
	} else if (rc == 0 && session_create(d, &peer) < 0) {
		turn_away(&peer);
	}
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
	int rc = group_id(d->opt->socket_group, &gid);

	if (rc < 0)
		return rc;
	rc = ipc_server_listen(&d->server, d->opt->socket, d->opt->socket_mode, gid);
	if (rc < 0) {
		LOG(ERR, "socket %s: %s", d->opt->socket, strerror(-rc));
		return rc;
	}
	d->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	d->listener.fd = d->server.fd;
	d->listener.ready = on_connection;
	rc = loop_add(&d->loop, &d->listener, EPOLLIN);
	if (rc < 0)
		ipc_server_close(&d->server);
	return rc;
}

void
session_unlisten(struct daemon *d)
{
	struct session *s;

	loop_del(&d->loop, &d->listener);
	ipc_server_close(&d->server);
	while ((s = TAILQ_FIRST(&d->sessions)) != NULL)
		session_destroy(s);
	close(d->spare_fd);
}
