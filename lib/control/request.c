/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "control/log.h"
#include "control/log_event.h"
#include "control/obj.h"
#include "control/throttle.h"
#include "control/session.h"

#define REP_BODY_MAX 2048
_Static_assert(sizeof(struct uroce_list_devices_rep) <= REP_BODY_MAX, "largest reply fits");

/* At most ten lines a second. */
static void
log_refusal(struct session *s, uint16_t op, const char *why)
{
	static struct log_limit limit;
	struct log_fields f = {0};

	if (!log_allowed(&limit))
		return;
	log_field_client(&f, s);
	log_field(&f, "UROCE_OPERATION", "%s", ipc_op_get(op)->name);
	log_field(&f, "UROCE_REASON", "%s", why);
	log_event(RTE_LOG_NOTICE, LOG_EVENT_REFUSED, &f, "client %u: %s (pid %d): %s refused: %s",
		  s->id, s->comm, s->peer.pid, ipc_op_get(op)->name, why);
}

/* Sends a refusal and its reason, if any, and logs it unless quiet. Returns 0 or -errno. */
static int
session_reply_refusal(struct session *s, const struct uroce_ctrl_hdr *hdr, const char *why, int rc,
		      bool quiet)
{
	size_t len = strlen(why);

	if (len > 0 && !quiet)
		log_refusal(s, hdr->op, why);
	return ipc_reply_send(s->w.fd, hdr, (uint32_t)rc, why, (uint32_t)len, NULL, 0);
}

/* Refuses a request with the reason of its handler or of a quota, if any. Returns 0 or -errno. */
static int
session_refuse(struct session *s, const struct uroce_ctrl_hdr *hdr, const char *why, int rc,
	       bool quiet)
{
	return session_reply_refusal(s, hdr, *why != '\0' ? why : s->d->quota.refusal, rc, quiet);
}

static void
session_fail(struct session *s, uint16_t op, int rc)
{
	const struct ipc_op *form = ipc_op_get(op);

	LOG_LIMITED(NOTICE, "client %u: %s (pid %d): operation %s (%u): %s; connection ended",
		    s->id, s->comm, s->peer.pid, form != NULL ? form->name : "unknown", op,
		    strerror(-rc));
	session_destroy(s);
}

/* Stops receiving the client's requests until the current one has its reply. */
static void
session_pause(struct session *s)
{
	loop_del(&s->d->loop, &s->w);
}

/*
 * Continues after the reply. rc: its result. The session was out of the loop; session_destroy
 * removes it again, which is harmless.
 */
static void
session_resume(struct session *s, uint16_t op, int rc)
{
	if (rc == 0)
		rc = loop_add(&s->d->loop, &s->w, EPOLLIN);
	if (rc < 0)
		session_fail(s, op, rc);
}

static void
answer_later(struct session *s, int status, const void *body)
{
	const struct uroce_ctrl_hdr hdr = s->later.hdr;
	uint32_t len = ipc_op_get(hdr.op)->rep.len;
	int rc;

	quota_refusal_clear(&s->d->quota);
	rc = status != 0 ? session_refuse(s, &hdr, "", status, false)
			 : ipc_reply_send(s->w.fd, &hdr, 0, body, len, NULL, 0);
	session_resume(s, hdr.op, rc);
}

static void retry(struct session *s);

/*
 * Queues a request that failed with ENOMEM while ended sessions still hold resources. It is retried
 * whenever one of them is freed, and refused when all that had ended before the first attempt are:
 * sessions of others may end all the time. Returns false if a retry would not help.
 */
static bool
session_retries(struct session *s, const struct ipc_msg *m, const struct ctrl_req *req)
{
	const struct session *oldest = TAILQ_FIRST(&s->d->ending);

	if (s->retry_until == 0)
		s->retry_until = s->d->ended;
	if (req->nfds != 0 || oldest == NULL || oldest->ended > s->retry_until)
		return false;
	s->retry = malloc(sizeof(*s->retry));
	if (s->retry == NULL)
		return false;
	s->retry->hdr = m->hdr;
	s->retry->nfds = 0;
	memcpy(s->retry->body, m->body, m->hdr.len);
	s->retry_ready = retry;
	TAILQ_INSERT_TAIL(&s->d->retrying, s, retry_link);
	session_pause(s);
	return true;
}

/*
 * Replies to a well-formed request, or arranges a later reply. Returns -errno if the connection
 * must end.
 */
static int
session_answer(struct session *s, const struct ipc_msg *m, const struct ctrl_req *req)
{
	uint64_t body[REP_BODY_MAX / sizeof(uint64_t)] = {0};
	struct ctrl_rep rep = {.body = body};
	int rc;

	quota_refusal_clear(&s->d->quota);
	s->later = (struct ctrl_later){.hdr = m->hdr};
	rc = dispatch(s, m->hdr.op, req, &rep);
	if (rc == CTRL_LATER) {
		s->later.answer = answer_later;
		session_pause(s);
		return 0;
	}
	if (rc == ENOMEM && session_retries(s, m, req))
		return 0;
	if (rc != 0)
		return session_refuse(s, &m->hdr, rep.why, rc, rep.quiet);
	rc = ipc_reply_send(s->w.fd, &m->hdr, 0, body, ipc_op_get(m->hdr.op)->rep.len, rep.fds,
			    rep.nfds);
	for (unsigned i = 0; i < rep.nfds; i++) {
		if (rep.close_fd[i])
			close(rep.fds[i]);
	}
	return rc;
}

/* Returns true if the last request given to session_answer gets a later reply. */
static bool
session_waits(const struct session *s)
{
	return s->later.answer != NULL || s->retry != NULL;
}

/* Refuses a malformed request. */
static int
session_refuse_form(struct session *s, const struct ipc_msg *m, int rc)
{
	char why[UROCE_CTRL_MAX_WHY];

	ipc_msg_why(m, rc, why);
	return session_reply_refusal(s, &m->hdr, why, rc, false);
}

/* Returns the memory that m describes; NULL: none. */
static const struct uroce_reg_mr_req *
memory_of(const struct ipc_msg *m)
{
	const struct uroce_rereg_mr_req *re = (const void *)m->body;
	const struct uroce_reg_mr_req *q = (const void *)m->body;

	if (m->hdr.op == UROCE_CTRL_REREG_MR)
		q = &re->reg;
	else if (m->hdr.op != UROCE_CTRL_REG_MR)
		return NULL;
	return q->length != 0 || q->npieces != 0 ? q : NULL;
}

/* Handles memory in kept descriptors of the session, which needs no look-up. */
static int
session_answer_kept(struct session *s, const struct ipc_msg *m, const struct uroce_reg_mr_req *q)
{
	struct mrmap_client c = {.pid = -1, .pidfd = -1, .mem.fd = -1};
	struct ctrl_req req = {.body = m->body};
	struct mrmap_found found;
	struct mrmap_files files;

	mrmap_find(&c, q, NULL, 0, &found, &files);
	req.found = &found;
	return session_answer(s, m, &req);
}

static int
session_wait(struct session *s, const struct ipc_msg *m, bool fds, int refusal)
{
	int rc = broker_find(s, m, fds, refusal);

	if (rc == 0)
		session_pause(s);
	return rc;
}

static int
session_request(struct session *s, struct ipc_msg *m)
{
	static const struct mrmap_found nothing = {.path = UROCE_MR_PATH_SHARED};
	const struct ctrl_req req = {.body = m->body, .found = &nothing};
	const struct uroce_reg_mr_req *q;
	int rc = ipc_msg_check(m, s->state, s->version);

	if (rc < 0)
		return rc;
	if (rc > 0)
		return session_refuse_form(s, m, rc);
	if (m->hdr.op == UROCE_CTRL_PAUSE_THREADS || m->hdr.op == UROCE_CTRL_RESUME_THREADS) {
		rc = broker_pause(s, m);
		if (rc == 0)
			session_pause(s);
		return rc < 0 ? session_refuse_form(s, m, -rc) : 0;
	}
	q = memory_of(m);
	if (q != NULL && session_may_map(s) && !mrmap_must_look(q))
		return session_answer_kept(s, m, q);
	if (q != NULL) {
		rc = session_wait(s, m, false, 0);
		return rc < 0 ? session_refuse_form(s, m, -rc) : 0;
	}
	return session_answer(s, m, &req);
}

static void
retry(struct session *s)
{
	struct ipc_msg *m = s->retry;
	uint16_t op = m->hdr.op;
	int rc;

	s->retry = NULL;
	rc = session_request(s, m);
	free(m);
	if (rc < 0 || (s->wait == NULL && !session_waits(s)))
		session_resume(s, op, rc);
}

/* Receives urocectl's file. Clients that may start a capture may end the daemon: trusted. */
static int
session_capture(struct session *s, struct ipc_msg *m)
{
	struct ctrl_req req = {.body = m->body, .fds = m->fds};
	int rc = ipc_msg_receive_fds(s->w.fd, m);

	if (rc == 1)
		rc = ipc_msg_check(m, s->state, s->version);
	else if (rc == 0)
		rc = -EPROTO;
	req.nfds = m->nfds;
	if (rc == 0)
		rc = session_answer(s, m, &req);
	else if (rc > 0)
		rc = session_refuse_form(s, m, rc);
	ipc_msg_close_fds(m);
	return rc;
}

/*
 * Handles a request whose descriptors are still queued in the connection. The daemon receives them
 * only from a client that may start a capture; the broker receives all others and returns the
 * useful ones.
 */
static int
session_request_fds(struct session *s, struct ipc_msg *m)
{
	int rc;

	m->nfds = m->hdr.nfds; /* as if they were received */
	rc = m->nfds > UROCE_CTRL_MAX_FDS ? -EPROTO : ipc_msg_check(m, s->state, s->version);
	m->nfds = 0;
	if (rc < 0)
		return rc;
	if (rc == 0 && m->hdr.op == UROCE_CTRL_CAPTURE && session_may_change(s))
		return session_capture(s, m);
	if (rc == 0 && m->hdr.op == UROCE_CTRL_HELLO)
		return -EPROTO;
	return session_wait(s, m, true, rc);
}

void
request_found(struct session *s, struct ipc_msg *m, int refusal, const struct mrmap_found *found,
	      const int *fds)
{
	struct ctrl_req req = {.body = m->body, .fds = fds, .nfds = found->nfds, .found = found};
	int rc;

	s->later.answer = NULL;
	if (found->err == -EPROTO)
		rc = -EPROTO;
	else if (refusal != 0)
		rc = session_refuse_form(s, m, refusal);
	else
		rc = session_answer(s, m, &req);
	if (rc < 0 || !session_waits(s))
		session_resume(s, m->hdr.op, rc);
}

void
request_ready(struct watch *w, uint32_t events)
{
	static struct ipc_msg m; /* too large for a stack; there is only one control thread */
	struct session *s = WATCH_OF(w, struct session, w);
	struct quota_user *u = s->user;
	struct daemon *d = s->d;
	int rc;

	if (throttle_waits(d, &s->throttle))
		return;
	throttle_begin(d, u);
	rc = ipc_msg_receive(w->fd, &m);
	if (rc == -EAGAIN) {
		throttle_after(d, u);
		return;
	}
	u->refs++; /* so that it outlives the session */
	s->retry_until = 0;
	if (rc > 0)
		rc = rc == 2 ? session_request_fds(s, &m) : session_request(s, &m);
	else if (rc == 0)
		session_destroy(s);
	if (rc < 0)
		session_fail(s, m.hdr.op, rc);
	throttle_after(d, u);
	quota_user_put(u);
}
