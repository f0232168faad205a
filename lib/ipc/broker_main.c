/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker's main thread, which never blocks. Jobs that may block are in broker_jobs.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "ipc/broker_parts.h"
#include "ipc/server.h"

#define TABLE     1024u /* hash buckets of connections */
#define SCM_LIMIT 253   /* most descriptors of a message: the kernel's SCM_MAX_FD */

static struct kept *table[TABLE];

union rights {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SCM_LIMIT * sizeof(int))];
};

static unsigned
rights_take(struct msghdr *msg, int *fds)
{
	unsigned nfds = 0;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(msg); cm != NULL; cm = CMSG_NXTHDR(msg, cm)) {
		unsigned n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(fds + nfds, CMSG_DATA(cm), n * sizeof(int));
		nfds += n;
	}
	return nfds;
}

static struct kept **
find_kept(uint64_t id)
{
	struct kept **p = &table[id % TABLE];

	while (*p != NULL && (*p)->id != id)
		p = &(*p)->next;
	return p;
}

static void
keep(const struct broker_cmd *c, const int *fds, unsigned nfds)
{
	struct kept **p = find_kept(c->id), *k = nfds > 0 ? calloc(1, sizeof(*k)) : NULL;

	if (k == NULL) {
		for (unsigned i = 0; i < nfds; i++)
			jobs_close(c->uid, fds[i]);
		return;
	}
	k->id = c->id;
	k->refs = 1;
	k->sock = fds[0];
	k->client = (struct mrmap_client){.pid = c->pid,
					  .pidfd = nfds > 1 ? fds[1] : -1,
					  .uid = c->uid,
					  .mem.fd = -1};
	k->next = *p;
	*p = k;
}

static void
drop(uint64_t id)
{
	struct kept **p = find_kept(id), *k = *p;

	if (k == NULL)
		return;
	*p = k->next;
	jobs_drop(k);
}

/*
 * Receives the message that is queued in the connection. Installing a descriptor and reading its
 * seals do not block. The buffer holds as many descriptors as a message can have, so that the
 * kernel closes none.
 */
static int
take_message(struct job *job)
{
	static char body[UROCE_CTRL_MAX_MSG];
	union rights control;
	struct iovec iov = {body, sizeof(body)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	int fds[SCM_LIMIT];
	unsigned n = 0, got;

	if (recvmsg(job->kept->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	got = rights_take(&msg, fds);
	job->taken = true;
	for (; n < got && n < UROCE_CTRL_MAX_FDS && n < job->cmd.nfds; n++)
		job->fds[n] = fds[n];
	job->nfds = n;
	for (; n < got; n++)
		jobs_close(job->cmd.uid, fds[n]);
	if (got > UROCE_CTRL_MAX_FDS || job->nfds < job->cmd.nfds)
		return -EPROTO;
	return 0;
}

/* Returns true if the request needs only adopted files, so that nothing can block. */
static bool
finds_without_blocking(const struct uroce_reg_mr_req *req)
{
	for (uint32_t i = 0; i < req->npieces && i < UROCE_MR_MAX_PIECES; i++)
		if (req->piece[i].kind != UROCE_PIECE_FD && req->piece[i].kind != UROCE_PIECE_KEPT)
			return false;
	return true;
}

static void
find(const struct broker_cmd *c)
{
	struct kept *k = *find_kept(c->id);
	struct job *job = calloc(1, sizeof(*job));
	int rc = 0;

	if (job == NULL)
		return; /* the daemon has a time limit */
	job->cmd = *c;
	job->kept = k;
	if (k != NULL)
		k->client.copied = c->copied != 0; /* one FIND of a client at a time */
	if (k == NULL)
		rc = -ENOENT;
	else if (jobs_busy(c->uid))
		rc = -EBUSY;
	else if (c->take)
		rc = take_message(job);
	if (rc != 0) {
		job->found.err = rc;
		job_answer(job);
		job_free(job);
	} else if (!k->client.copied && finds_without_blocking(&c->req)) {
		mrmap_find(&k->client, &c->req, job->fds, job->nfds, &job->found, &job->files);
		job_answer(job);
		job_free(job);
	} else {
		if (job->taken)
			jobs_tell(&(struct broker_msg){.says = BROKER_TAKEN, .job = c->job});
		jobs_find(job);
	}
}

static void
copy(const struct broker_cmd *c, const int *fds, unsigned nfds)
{
	if (nfds == 2)
		copies_start(c->uid, c->mem, fds[0], fds[1]);
	for (unsigned i = 0; nfds != 2 && i < nfds; i++)
		close(fds[i]);
}

static void
settle(const struct broker_cmd *c)
{
	struct job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return; /* as in find */
	job->cmd = *c;
	job->found.path = UROCE_MR_PATH_SHARED;
	if (copies_settle(job))
		return;
	job->found.err = -ENOMEM;
	job_answer(job);
	job_free(job);
}

static void
pause_threads(const struct broker_cmd *c)
{
	struct kept *k = *find_kept(c->id);
	struct job *job = calloc(1, sizeof(*job));
	int rc = -ENOENT;

	if (job == NULL)
		return; /* as in find */
	job->cmd = *c;
	job->kept = k;
	if (k != NULL)
		rc = jobs_busy(c->uid) ? -EBUSY : pauses_begin(job);
	if (rc == 0)
		return;
	job->found.err = rc;
	job_answer(job);
	job_free(job);
}

static void
resume_threads(const struct broker_cmd *c)
{
	struct job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return; /* as in find */
	job->cmd = *c;
	if (pauses_end(c->id, job))
		return;
	job->found.err = -ETIMEDOUT;
	job_answer(job);
	job_free(job);
}

/* Local files of the host: opening them does not block. */
static void
open_owners(int chan)
{
	static const char *const path[] = {"/etc/subuid", "/etc/passwd"};
	const struct broker_msg m = {.says = BROKER_OWNED};
	unsigned n = 0;
	int fds[2];

	for (; n < 2; n++) {
		fds[n] = open(path[n], O_RDONLY | O_CLOEXEC);
		if (fds[n] < 0)
			break;
	}
	(void)broker_put(chan, &m, offsetof(struct broker_msg, found), fds, n, MSG_DONTWAIT);
	while (n > 0)
		close(fds[--n]);
}

static bool
serve_one(int chan)
{
	static struct broker_cmd c;
	union rights control;
	struct iovec iov = {&c, sizeof(c)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	int fds[SCM_LIMIT];
	unsigned nfds;
	ssize_t n = recvmsg(chan, &msg, MSG_CMSG_CLOEXEC);

	if (n < (ssize_t)BROKER_CMD_SHORT)
		return n < 0 && errno == EINTR;
	nfds = rights_take(&msg, fds);
	switch (c.op) {
	case BROKER_KEEP:
		keep(&c, fds, nfds);
		break;
	case BROKER_DROP:
		pauses_end(c.id, NULL);
		drop(c.id);
		break;
	case BROKER_PAUSE:
		pause_threads(&c);
		break;
	case BROKER_RESUME:
		resume_threads(&c);
		break;
	case BROKER_FIND:
		find(&c);
		break;
	case BROKER_COPY:
		copy(&c, fds, nfds);
		break;
	case BROKER_SETTLE:
		settle(&c);
		break;
	case BROKER_OWNERS:
		open_owners(chan);
		break;
	}
	return true;
}

/* Each client needs three descriptors. */
static void
raise_fd_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

/* libc's function for it came with 2.34, later than a release may need; the kernel's with 5.9. */
void
broker_close_above(int fd)
{
	long max = sysconf(_SC_OPEN_MAX);

	if (syscall(SYS_close_range, fd + 1, ~0u, 0) == 0)
		return;
	while (++fd < max)
		close(fd);
}

void
broker_main(int chan)
{
	sigset_t set;

	broker_close_above(chan); /* a stuck broker would never release them */
	/* The broker ends with the daemon, not by a Ctrl-C on the terminal. */
	sigfillset(&set);
	sigdelset(&set, SIGSYS); /* of a seccomp filter; blocked, it would kill */
	sigprocmask(SIG_SETMASK, &set, NULL);
	fcntl(chan, F_SETFD, FD_CLOEXEC);
	raise_fd_limit();
	pauses_open();
	jobs_open(chan);
	while (serve_one(chan))
		;
	/* The daemon is gone: let clients see it even if a close blocks. */
	for (unsigned i = 0; i < TABLE; i++) {
		for (struct kept *k = table[i]; k != NULL; k = k->next)
			shutdown(k->sock, SHUT_RDWR);
	}
	_exit(0);
}
