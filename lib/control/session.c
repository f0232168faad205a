/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "control/device.h"
#include "control/log.h"
#include "control/obj.h"
#include "control/ring.h"
#include "control/throttle.h"
#include "ipc/hello.h"

#define MAX_CHANNELS 512 /* of a client: each takes a descriptor of the daemon */

bool
session_may_change(const struct session *s)
{
	return s->state == IPC_STATE_OBSERVER && s->user->privileged;
}

bool
session_may_see(const struct session *s, const struct session *owner)
{
	return quota_who(s->user, s->peer.uid) == quota_who(owner->user, owner->peer.uid) ||
	       s->user->privileged;
}

/* Opens the resources of a context beyond its connection. */
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
	s->arena = ipc_arena_create((size_t)cfg->client_mem_mib << 20, s->d->huge,
				    qp_user_place(s->user->id));
	if (s->arena == NULL)
		goto fail_maps;
	rc = events_async_open(&s->async, s->d, async_fd);
	if (rc < 0)
		goto fail_arena;
	rc = session_doorbells_open(s);
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
	session_users_changed(s->d);
	return 0;

fail_doorbells:
	session_doorbells_free(s);
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

/* Called when the session has sent HELLO, or is about to end. */
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

	rc = ipc_hello_agree(&ipc_offer_own, hello, rep, rp->why);
	if (rc != 0)
		return rc;
	if (memchr(hello->device, '\0', sizeof(hello->device)) == NULL)
		return EINVAL;
	s->version = rep->version;
	s->features = rep->features;
	s->client_pid = hello->pid;
	rep->context = s->id;
	if (hello->device[0] == '\0') {
		s->state = IPC_STATE_OBSERVER;
		session_not_new(s);
		return 0;
	}
	dev = daemon_device_named(d, hello->device);
	if (dev == NULL || dev->port.gone)
		return ENODEV;
	/* Only the pidfd distinguishes the client from a later process of the same pid. */
	if (s->peer.pidfd < 0)
		return EPERM;
	rc = context_open(s, dev, &async_fd);
	if (rc < 0)
		return -rc;
	session_not_new(s);
	rep->flags = d->shared_cores ? UROCE_HELLO_YIELD : 0;
	rep->flags |= session_may_map(s) ? 0 : UROCE_HELLO_COPY;
	rep->nworkers = d->nworkers;
	rep->db_seg_bytes = s->doorbells.bytes;
	ctrl_rep_fd(rp, async_fd, true);
	ctrl_rep_fd(rp, s->doorbells.fd, false);
	for (uint32_t i = 0; i < d->nworkers; i++) {
		rep->db_off[i] = i * sizeof(struct uroce_db_ring);
		ctrl_rep_fd(rp, worker_wake_fd(worker_get(d->workers, i), session_doorbell(s, i)),
			    false);
	}
	ctrl_rep_fd(rp, worker_states_fd(d->workers), false);
	LOG(INFO, "client %u: %s (pid %d, uid %u) opened %s", s->id, s->comm, s->peer.pid,
	    s->peer.uid, dev->name);
	return 0;
}

/* Retries requests that were refused for lack of resources which s may have held. */
static void
retry_all(struct daemon *d)
{
	struct session_list list = TAILQ_HEAD_INITIALIZER(list);
	struct session *s;

	TAILQ_CONCAT(&list, &d->retrying, retry_link);
	while ((s = TAILQ_FIRST(&list)) != NULL) {
		TAILQ_REMOVE(&list, s, retry_link);
		s->retry_ready(s);
	}
}

static void
session_free(struct session *s)
{
	struct daemon *d = s->d;

	TAILQ_REMOVE(&d->ending, s, link);
	quota_user_put(s->user);
	free(s);
	retry_all(d);
}

/* Drops the last request, if it still waits, without a reply. */
static void
forget_request(struct session *s)
{
	broker_forget(s);
	if (s->later.defer != NULL)
		defer_cancel(s->d, s->later.defer);
	s->later.defer = NULL;
	if (s->retry == NULL)
		return;
	TAILQ_REMOVE(&s->d->retrying, s, retry_link);
	free(s->retry);
	s->retry = NULL;
}

void
session_destroy(struct session *s)
{
	struct daemon *d = s->d;

	/* Close the connection first, so that the client notices at once. */
	loop_del(&d->loop, &s->w);
	throttle_end(d, &s->throttle);
	broker_drop(d, s->id, &s->peer, s->kept);
	forget_request(s);
	if (s->deadline_ns != 0)
		session_not_new(s);
	if (s->peer.pidfd >= 0)
		close(s->peer.pidfd);
	TAILQ_REMOVE(&d->sessions, s, link);
	TAILQ_INSERT_TAIL(&d->ending, s, link);
	s->ended = ++d->ended;
	quota_give(s->user, QUOTA_FDS, SESSION_FDS);
	quota_give(s->user, QUOTA_CLIENTS, 1);
	if (s->state != IPC_STATE_CONTEXT) {
		session_free(s);
		return;
	}
	LOG(INFO, "client %u: %s (pid %d) closed the device", s->id, s->comm, s->peer.pid);
	session_end(s, session_free);
}

/* Reads the name of the client's program, for messages; it can be anything. */
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

static void
connection_broken(struct throttle *t)
{
	session_destroy(WATCH_OF(t, struct session, throttle));
}

int
session_create(struct daemon *d, const struct ipc_peer *peer, struct quota_user *user,
	       void (*ready)(struct watch *w, uint32_t events))
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
	s->w.ready = ready;
	s->throttle = (struct throttle){.w = &s->w, .user = user, .broken = connection_broken};
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
	return 0;
}
