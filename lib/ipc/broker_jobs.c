/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker's threads for jobs that may block; their number per user is bounded. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "ipc/broker_parts.h"
#include "map/mrfill.h"

#define IDLE_MAX    4u /* idle threads that are kept */
#define STACK_BYTES (256u << 10)
#define RETRY_NS    1000000 /* retry after this if memory or channel space is short */

struct user {
	TAILQ_ENTRY(user) link;
	uint32_t uid;
	unsigned running, waiting;
	bool busy; /* reported to the daemon */
	TAILQ_HEAD(, job) queue;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static TAILQ_HEAD(, user) users = TAILQ_HEAD_INITIALIZER(users);
static unsigned nthreads;
static unsigned nuser_jobs; /* running jobs of all uids but root */
static unsigned nidle;      /* waiting threads without a wake-up pending */
static unsigned calls;      /* wake-ups that no waiting thread has consumed */
static int channel;

/* Sends a message with the descriptors of its result. False: no space in the channel now. */
static bool
put(const struct broker_msg *m, const int *fds, unsigned nfds)
{
	size_t len = m->says != BROKER_FOUND ? offsetof(struct broker_msg, found)
					     : offsetof(struct broker_msg, found.run) +
						       m->found.nruns * sizeof(m->found.run[0]);

	return broker_put(channel, m, len, fds, nfds, MSG_DONTWAIT) >= 0 ||
	       (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM);
}

void
jobs_tell(const struct broker_msg *m)
{
	/* Lost if the daemon does not read its channel; it has time limits. */
	(void)put(m, NULL, 0);
}

void
job_answer(struct job *job)
{
	struct broker_msg m = {.says = BROKER_FOUND,
			       .uid = job->cmd.uid,
			       .job = job->cmd.job,
			       .taken = job->taken,
			       .found = job->found};

	(void)put(&m, job->files.fd, job->found.err == 0 ? job->found.nfds : 0);
}

/* ---- users; called with the lock held ---- */

static struct user *
user_get(uint32_t uid)
{
	struct user *u;

	TAILQ_FOREACH (u, &users, link) {
		if (u->uid == uid)
			return u;
	}
	u = calloc(1, sizeof(*u));
	if (u == NULL)
		return NULL;
	u->uid = uid;
	TAILQ_INIT(&u->queue);
	TAILQ_INSERT_TAIL(&users, u, link);
	return u;
}

/* Called when u's number of jobs has changed. */
static void
user_changed(struct user *u)
{
	struct broker_msg m = {.uid = u->uid};
	bool busy = u->waiting >= (u->busy ? BROKER_USER_QUEUE / 2 : BROKER_USER_QUEUE);

	if (busy != u->busy) {
		m.says = busy ? BROKER_BUSY : BROKER_CLEAR;
		if (put(&m, NULL, 0))
			u->busy = busy;
	}
	if (u->running + u->waiting == 0 && !u->busy) {
		TAILQ_REMOVE(&users, u, link);
		free(u);
	}
}

/* Returns true if a job of u may run now. One uid's share of threads is reserved for root. */
static bool
thread_left(const struct user *u)
{
	return u->running < BROKER_USER_THREADS &&
	       (u->uid == 0 || nuser_jobs < BROKER_THREADS - BROKER_USER_THREADS);
}

/* Returns the next user that waits and may run a job; NULL: none. */
static struct user *
next_user(void)
{
	struct user *u;

	TAILQ_FOREACH (u, &users, link) {
		if (u->waiting > 0 && thread_left(u))
			break;
	}
	return u;
}

/* Returns the next job, round robin among the users that may run one. */
static struct job *
next_job(void)
{
	struct user *u = next_user();
	struct job *job;

	if (u == NULL)
		return NULL;
	job = TAILQ_FIRST(&u->queue);
	TAILQ_REMOVE(&u->queue, job, link);
	u->waiting--;
	u->running++;
	nuser_jobs += u->uid != 0;
	TAILQ_REMOVE(&users, u, link);
	TAILQ_INSERT_TAIL(&users, u, link);
	user_changed(u);
	return job;
}

static void *thread_main(void *arg);

static void
thread_add(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	nthreads++;
	if (pthread_create(&t, &attr, thread_main, NULL) != 0)
		nthreads--; /* an existing thread will run the job */
	pthread_attr_destroy(&attr);
}

/* Has a thread look for jobs. */
static void
thread_call(void)
{
	if (nidle > 0) {
		nidle--;
		calls++;
		pthread_cond_signal(&work);
	} else if (nthreads < BROKER_THREADS) {
		thread_add();
	}
}

static void *
thread_main(void *arg)
{
	bool stay = true;

	pthread_mutex_lock(&lock);
	while (stay) {
		struct job *job = next_job();
		struct user *u;

		if (job == NULL) {
			stay = nidle < IDLE_MAX;
			if (stay) {
				nidle++;
				while (calls == 0)
					pthread_cond_wait(&work, &lock);
				calls--;
			}
			continue;
		}
		u = job->user;
		stay = !job->ends_thread;
		pthread_mutex_unlock(&lock);
		job->run(job);
		pthread_mutex_lock(&lock);
		u->running--;
		nuser_jobs -= u->uid != 0;
		user_changed(u);
	}
	nthreads--;
	/* One that ends although it might run another job, which may have waited for it. */
	if (next_user() != NULL)
		thread_call();
	pthread_mutex_unlock(&lock);
	return NULL;
}

void
jobs_submit(struct job *job, uint32_t uid, void (*run)(struct job *))
{
	const struct timespec nap = {.tv_nsec = RETRY_NS};

	job->run = run;
	pthread_mutex_lock(&lock);
	while ((job->user = user_get(uid)) == NULL) {
		pthread_mutex_unlock(&lock);
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&lock);
	}
	TAILQ_INSERT_TAIL(&job->user->queue, job, link);
	job->user->waiting++;
	user_changed(job->user);
	if (thread_left(job->user))
		thread_call();
	pthread_mutex_unlock(&lock);
}

bool
jobs_busy(uint32_t uid)
{
	struct user *u;
	bool busy = false;

	pthread_mutex_lock(&lock);
	TAILQ_FOREACH (u, &users, link) {
		if (u->uid == uid)
			busy = u->waiting >= BROKER_USER_QUEUE;
	}
	pthread_mutex_unlock(&lock);
	return busy;
}

/* ---- jobs ---- */

static struct job *
job_new(void)
{
	const struct timespec nap = {.tv_nsec = RETRY_NS};
	struct job *job;

	while ((job = calloc(1, sizeof(*job))) == NULL)
		nanosleep(&nap, NULL);
	return job;
}

static void
run_close(struct job *job)
{
	close(job->fd);
	free(job);
}

void
jobs_close(uint32_t uid, int fd)
{
	struct job *job = job_new();

	job->fd = fd;
	jobs_submit(job, uid, run_close);
}

void
kept_put(struct kept *k)
{
	if (__atomic_sub_fetch(&k->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	close(k->sock);
	if (k->client.pidfd >= 0)
		close(k->client.pidfd);
	if (k->client.mem.fd >= 0)
		close(k->client.mem.fd);
	free(k);
}

static void
run_drop(struct job *job)
{
	kept_put(job->kept);
	free(job);
}

void
jobs_drop(struct kept *k)
{
	struct job *job = job_new();

	job->kept = k;
	jobs_submit(job, k->client.uid, run_drop);
}

void
job_free(struct job *job)
{
	for (unsigned i = 0; i < job->nfds; i++) {
		/*
		 * Files that can be sealed are memory: their close does not block. But it may be
		 * the last one, and free all that the client has put into them.
		 */
		if (fcntl(job->fds[i], F_GET_SEALS) >= 0 && mrfill_is_small(job->fds[i]))
			close(job->fds[i]);
		else
			jobs_close(job->cmd.uid, job->fds[i]);
	}
	free(job);
}

/*
 * Takes the client's cached state for a job. Returns false if the job must leave it alone: a client
 * has one request at a time, but the job of a request that the daemon gave up may still look. A job
 * that answers is done in a moment. It is waited for, because its client may already have the
 * answer and have sent the next request.
 */
static bool
client_take(struct kept *k)
{
	enum kept_use was = KEPT_UNUSED;

	while (!__atomic_compare_exchange_n(&k->use, &was, KEPT_LOOKING, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (was == KEPT_LOOKING)
			return false;
		was = KEPT_UNUSED;
		sched_yield();
	}
	return true;
}

static void
client_use(struct kept *k, enum kept_use use)
{
	__atomic_store_n(&k->use, use, __ATOMIC_RELEASE);
}

static void
run_find(struct job *job)
{
	struct kept *k = job->kept;
	struct mrmap_client alone, *c = &k->client;

	if (!client_take(k)) {
		alone = k->client;
		alone.mem.fd = -1;
		c = &alone;
	}
	mrmap_find(c, &job->cmd.req, job->fds, job->nfds, &job->found, &job->files);
	if (job->found.err == 0 && job->found.path == UROCE_MR_PATH_COPY &&
	    copies_refused(job->cmd.uid))
		job->found.err = -EBUSY;
	if (c == &k->client)
		client_use(k, KEPT_ANSWERING);
	job_answer(job);
	if (c == &k->client)
		client_use(k, KEPT_UNUSED);
	mrmap_files_close(&job->found, &job->files);
	if (c != &k->client && alone.mem.fd >= 0)
		close(alone.mem.fd);
	kept_put(k);
	job_free(job);
}

void
jobs_find(struct job *job)
{
	__atomic_add_fetch(&job->kept->refs, 1, __ATOMIC_RELAXED);
	jobs_submit(job, job->cmd.uid, run_find);
}

void
jobs_open(int chan)
{
	channel = chan;
}
