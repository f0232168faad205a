/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The broker's copy threads, one per address space with copied regions (map/copier.h). The daemon
 * bounds their number. If a thread is blocked on client memory when the daemon destroys its copier,
 * it stays until that access ends; this file bounds the number of such threads.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>
#include "ipc/broker_parts.h"
#include "map/copier.h"

#define STACK_BYTES (64u << 10)
#define SETTLE_NS   1000000 /* poll interval */

/*
 * The copy threads of one uid. Processes of a uid may share memory, so atomics on it exclude each
 * other. Another user's memory must not delay them.
 */
struct owner {
	LIST_ENTRY(owner) link;
	uint32_t uid, refs;
	pthread_mutex_t atomics;
};

struct copies {
	LIST_ENTRY(copies) link;
	struct owner *owner;
	struct copier_area *area;
	uint64_t id; /* of the address space */
	int mem;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, owner) owners = LIST_HEAD_INITIALIZER(owners);
static LIST_HEAD(, copies) all = LIST_HEAD_INITIALIZER(all);

/* ---- called with the lock held ---- */

static struct owner *
owner_get(uint32_t uid)
{
	struct owner *o;

	LIST_FOREACH (o, &owners, link) {
		if (o->uid == uid)
			break;
	}
	if (o == NULL) {
		o = calloc(1, sizeof(*o));
		if (o == NULL)
			return NULL;
		o->uid = uid;
		pthread_mutex_init(&o->atomics, NULL);
		LIST_INSERT_HEAD(&owners, o, link);
	}
	o->refs++;
	return o;
}

static void
owner_put(struct owner *o)
{
	if (--o->refs > 0)
		return;
	LIST_REMOVE(o, link);
	free(o);
}

static struct copies *
find_copies(uint64_t id)
{
	struct copies *c;

	LIST_FOREACH (c, &all, link) {
		if (c->id == id)
			break;
	}
	return c;
}

/* ---- copy threads ---- */

static void
copies_free(struct copies *c)
{
	copier_area_unmap(c->area);
	close(c->mem);
	free(c);
}

static void *
copies_main(void *arg)
{
	struct copies *c = arg;

	copier_serve(c->area, c->mem, &c->owner->atomics);
	pthread_mutex_lock(&lock);
	LIST_REMOVE(c, link);
	owner_put(c->owner);
	pthread_mutex_unlock(&lock);
	copies_free(c);
	return NULL;
}

static int
thread_start(struct copies *c)
{
	pthread_attr_t attr;
	pthread_t t;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(&t, &attr, copies_main, c);
	pthread_attr_destroy(&attr);
	return err;
}

void
copies_start(uint32_t uid, uint64_t id, int mem, int shared)
{
	struct copier_area *area = copier_area_map(shared);
	struct copies *c = calloc(1, sizeof(*c));
	bool ok = false;

	close(shared);
	if (area == NULL || c == NULL) {
		/* The daemon detects that its jobs fail. */
		if (area != NULL) {
			copier_area_refuse(area);
			copier_area_unmap(area);
		}
		free(c);
		close(mem);
		return;
	}
	c->area = area;
	c->id = id;
	c->mem = mem;
	pthread_mutex_lock(&lock);
	c->owner = owner_get(uid);
	if (c->owner != NULL) {
		LIST_INSERT_HEAD(&all, c, link);
		ok = thread_start(c) == 0;
		if (!ok) {
			LIST_REMOVE(c, link);
			owner_put(c->owner);
		}
	}
	pthread_mutex_unlock(&lock);
	if (!ok) {
		copier_area_refuse(area);
		copies_free(c);
	}
}

bool
copies_refused(uint32_t uid)
{
	struct copies *c;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	LIST_FOREACH (c, &all, link)
		n += c->owner->uid == uid && copier_area_closed(c->area);
	pthread_mutex_unlock(&lock);
	return n >= BROKER_USER_THREADS;
}

/* ---- jobs that wait for the end of a copy ---- */

struct settle {
	TAILQ_ENTRY(settle) link;
	struct job *job;
	uint64_t seen;  /* copier_area_waits */
	uint32_t looks; /* polls left: the daemon has a time limit */
};

static TAILQ_HEAD(, settle) settles = TAILQ_HEAD_INITIALIZER(settles);
static pthread_cond_t settle_work = PTHREAD_COND_INITIALIZER;
static bool settle_started;

static bool
settle_over(struct settle *s)
{
	const struct copies *c = find_copies(s->job->cmd.mem);

	if (c == NULL || copier_area_closed(c->area) || !copier_area_waits(c->area, &s->seen))
		return true;
	if (s->looks-- > 0)
		return false;
	s->job->found.err = -ETIMEDOUT;
	return true;
}

/* Never blocks, so one thread serves all users. */
static void *
settle_main(void *arg)
{
	const struct timespec nap = {.tv_nsec = SETTLE_NS};
	struct settle *s, *next;

	for (;;) {
		pthread_mutex_lock(&lock);
		while (TAILQ_EMPTY(&settles))
			pthread_cond_wait(&settle_work, &lock);
		for (s = TAILQ_FIRST(&settles); s != NULL; s = next) {
			next = TAILQ_NEXT(s, link);
			if (!settle_over(s))
				continue;
			TAILQ_REMOVE(&settles, s, link);
			job_answer(s->job);
			job_free(s->job);
			free(s);
		}
		pthread_mutex_unlock(&lock);
		nanosleep(&nap, NULL);
	}
	return NULL;
}

bool
copies_settle(struct job *job)
{
	struct settle *s = calloc(1, sizeof(*s));
	pthread_t t;

	if (s == NULL)
		return false;
	s->job = job;
	s->looks = (uint32_t)(COPIER_LIMIT_NS / SETTLE_NS);
	pthread_mutex_lock(&lock);
	if (!settle_started && pthread_create(&t, NULL, settle_main, NULL) == 0) {
		pthread_detach(t);
		settle_started = true;
	}
	if (settle_started) {
		TAILQ_INSERT_TAIL(&settles, s, link);
		pthread_cond_signal(&settle_work);
		s = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(s);
	return s == NULL;
}
