/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pauses of clients' threads (map/pause.h). Each is a job, whose thread stops them, waits for the
 * end of the pause, lets them continue, and ends.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include "ipc/broker_parts.h"
#include "map/pause.h"

#define START_MS 500 /* a job that begins later would answer a daemon that waits no longer */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over;
static TAILQ_HEAD(, job) pauses = TAILQ_HEAD_INITIALIZER(pauses); /* not over yet; under lock */

void
pauses_open(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&over, &attr);
	pthread_condattr_destroy(&attr);
}

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int
stop(const struct job *job, struct pause **p)
{
	const struct mrmap_client *c = &job->kept->client;
	int rc;

	if (now_ms() > job->pause.start_by_ms)
		return -EBUSY;
	if (!mrmap_client_is(c))
		return -EPERM;
	rc = pause_begin(c->pid, (pid_t)job->cmd.tid, p);
	/* It may have executed a set-user-id program meanwhile. */
	if (rc == 0 && !mrmap_client_is(c)) {
		pause_end(*p);
		rc = -EPERM;
	}
	return rc;
}

/* Waits until the pause of job is over. Returns the RESUME to answer, or NULL. */
static struct job *
await_end(struct job *job, bool paused)
{
	uint64_t end_ms = now_ms() + UROCE_PAUSE_MS;
	struct timespec until = {.tv_sec = (time_t)(end_ms / 1000),
				 .tv_nsec = (long)(end_ms % 1000) * 1000000};

	pthread_mutex_lock(&lock);
	while (paused && !job->pause.over &&
	       pthread_cond_timedwait(&over, &lock, &until) != ETIMEDOUT)
		;
	TAILQ_REMOVE(&pauses, job, pause.link);
	pthread_mutex_unlock(&lock);
	return job->pause.resume;
}

static void
run_pause(struct job *job)
{
	struct job *resume;
	struct pause *p;
	int rc = stop(job, &p);

	job->found.err = rc;
	if (rc == 0)
		job_answer(job);
	resume = await_end(job, rc == 0);
	if (rc == 0)
		pause_end(p);
	else
		job_answer(job); /* now, so that the client's next attempt finds no pause */
	if (resume != NULL) {
		resume->found.err = rc == 0 ? 0 : -ETIMEDOUT;
		job_answer(resume);
		job_free(resume);
	}
	kept_put(job->kept);
	job_free(job);
}

/* The pause of connection id that has not been ended; NULL: none. Lock held. */
static struct job *
find_pause(uint64_t id)
{
	struct job *job;

	TAILQ_FOREACH (job, &pauses, pause.link) {
		if (job->cmd.id == id && !job->pause.over)
			break;
	}
	return job;
}

int
pauses_begin(struct job *job)
{
	bool first;

	pthread_mutex_lock(&lock);
	first = find_pause(job->cmd.id) == NULL;
	if (first)
		TAILQ_INSERT_TAIL(&pauses, job, pause.link);
	pthread_mutex_unlock(&lock);
	if (!first)
		return -EBUSY;
	job->pause.start_by_ms = now_ms() + START_MS;
	job->ends_thread = true;
	__atomic_add_fetch(&job->kept->refs, 1, __ATOMIC_RELAXED);
	jobs_submit(job, job->cmd.uid, run_pause);
	return 0;
}

bool
pauses_end(uint64_t id, struct job *resume)
{
	struct job *job;

	pthread_mutex_lock(&lock);
	job = find_pause(id);
	if (job != NULL) {
		job->pause.over = true;
		job->pause.resume = resume;
		pthread_cond_broadcast(&over);
	}
	pthread_mutex_unlock(&lock);
	return job != NULL;
}
