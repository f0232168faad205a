/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "map/mrfill.h"
#include "map/page.h"

#define AT_ONCE     (256u << 10) /* up to this many bytes the caller does the work itself */
#define UNMAP_ONCE  (4u << 20)
#define BATCH_BYTES (2u << 20)
#define BLOCK_BYTES 512 /* of st_blocks */

struct unmap {
	STAILQ_ENTRY(unmap) link;
	uint8_t *at;
	size_t len;
	int fd;     /* closed at the end; -1: none */
	void *debt; /* of mrfill_unmap */
};

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t work; /* for the thread */
	pthread_cond_t idle; /* for mrfill_cancel */
	TAILQ_HEAD(, mrfill) fills;
	STAILQ_HEAD(, unmap) unmaps;
	STAILQ_HEAD(, unmap) done; /* their debts are returned by mrfill_unmapped */
	unsigned ndone;            /* written under the mutex, read without it */
	bool started;
} mapper = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.idle = PTHREAD_COND_INITIALIZER,
	.fills = TAILQ_HEAD_INITIALIZER(mapper.fills),
	.unmaps = STAILQ_HEAD_INITIALIZER(mapper.unmaps),
	.done = STAILQ_HEAD_INITIALIZER(mapper.done),
};

/* Fills entries for the existing pages of at most one batch. Failure only costs time later. */
static void
fill_batch(uint8_t *at, size_t len)
{
	unsigned char exists[BATCH_BYTES / PAGE_LEAST];
	size_t page = page_bytes(), n = len / page, end;

	if (mincore(at, len, exists) != 0)
		return;
	for (size_t i = 0; i < n; i = end + 1) {
		for (end = i; end < n && (exists[end] & 1) != 0; end++)
			;
		if (end > i)
			(void)madvise(at + i * page, (end - i) * page, MADV_POPULATE_READ);
	}
}

/*
 * Mutex held. mrfill_cancel reads the state without it: a thread that sets MRFILL_NONE no longer
 * uses f.
 */
static void
set_state(struct mrfill *f, int state)
{
	__atomic_store_n(&f->state, state, __ATOMIC_RELEASE);
}

/* Called and returns with the mutex held. */
static void
fill_some(struct mrfill *f)
{
	size_t len = f->left < BATCH_BYTES ? f->left : BATCH_BYTES;
	uint8_t *at = f->at;

	set_state(f, MRFILL_RUNNING);
	f->at += len;
	f->left -= len;
	pthread_mutex_unlock(&mapper.mutex);
	fill_batch(at, len);
	pthread_mutex_lock(&mapper.mutex);
	set_state(f, MRFILL_QUEUED);
	TAILQ_REMOVE(&mapper.fills, f, link);
	if (f->left > 0)
		TAILQ_INSERT_TAIL(&mapper.fills, f, link); /* round robin */
	else
		set_state(f, MRFILL_NONE);
	pthread_cond_broadcast(&mapper.idle);
}

static void
unmap_some(struct unmap *u)
{
	size_t len = u->len < UNMAP_ONCE ? u->len : UNMAP_ONCE;

	pthread_mutex_unlock(&mapper.mutex);
	/* Unmapping a part may exceed the limit of mappings by splitting one; all of it cannot. */
	if (len > 0 && munmap(u->at, len) != 0) {
		len = u->len;
		munmap(u->at, len);
	}
	if (u->fd >= 0)
		close(u->fd);
	pthread_mutex_lock(&mapper.mutex);
	if (len > 0) { /* at may be NULL: a descriptor to close only */
		u->at += len;
		u->len -= len;
	}
	if (u->len == 0) {
		STAILQ_REMOVE(&mapper.unmaps, u, unmap, link);
		if (u->debt == NULL) {
			free(u);
			return;
		}
		STAILQ_INSERT_TAIL(&mapper.done, u, link);
		__atomic_store_n(&mapper.ndone, mapper.ndone + 1, __ATOMIC_RELAXED);
	}
}

static void *
mapper_main(void *arg)
{
	pthread_mutex_lock(&mapper.mutex);
	for (;;) {
		if (TAILQ_EMPTY(&mapper.fills) && STAILQ_EMPTY(&mapper.unmaps))
			pthread_cond_wait(&mapper.work, &mapper.mutex);
		/* Alternate, so that clients that fill all the time cannot delay the unmapping. */
		if (!TAILQ_EMPTY(&mapper.fills))
			fill_some(TAILQ_FIRST(&mapper.fills));
		if (!STAILQ_EMPTY(&mapper.unmaps))
			unmap_some(STAILQ_FIRST(&mapper.unmaps));
	}
	return arg;
}

/* Mutex held. Starts the thread if it does not run yet. Returns false on failure. */
static bool
mapper_start(void)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;

	if (mapper.started)
		return true;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* lib/map/sigbus.h */
	sigdelset(&all, SIGSYS); /* of a seccomp filter */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	mapper.started = pthread_create(&thread, &attr, mapper_main, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return mapper.started;
}

void
mrfill_start(struct mrfill *f, uint8_t *at, size_t len)
{
	f->state = MRFILL_NONE;
	if (len <= AT_ONCE) {
		fill_batch(at, len);
		return;
	}
	pthread_mutex_lock(&mapper.mutex);
	if (mapper_start()) {
		f->at = at;
		f->left = len;
		set_state(f, MRFILL_QUEUED);
		TAILQ_INSERT_TAIL(&mapper.fills, f, link);
		pthread_cond_signal(&mapper.work);
	}
	pthread_mutex_unlock(&mapper.mutex);
}

void
mrfill_cancel(struct mrfill *f)
{
	if (__atomic_load_n(&f->state, __ATOMIC_ACQUIRE) == MRFILL_NONE)
		return;
	pthread_mutex_lock(&mapper.mutex);
	if (f->state == MRFILL_RUNNING)
		f->left = 0; /* ends with the batch */
	while (f->state == MRFILL_RUNNING)
		pthread_cond_wait(&mapper.idle, &mapper.mutex);
	if (f->state == MRFILL_QUEUED)
		TAILQ_REMOVE(&mapper.fills, f, link);
	f->state = MRFILL_NONE;
	pthread_mutex_unlock(&mapper.mutex);
}

/* Passes the range to the thread. False: the caller must unmap it. */
static bool
queue_unmap(uint8_t *at, size_t len, int fd, void *debt)
{
	struct unmap *u = malloc(sizeof(*u));
	bool queued;

	if (u == NULL)
		return false;
	*u = (struct unmap){.at = at, .len = len, .fd = fd, .debt = debt};
	pthread_mutex_lock(&mapper.mutex);
	queued = mapper_start();
	if (queued) {
		STAILQ_INSERT_TAIL(&mapper.unmaps, u, link);
		pthread_cond_signal(&mapper.work);
	}
	pthread_mutex_unlock(&mapper.mutex);
	if (!queued)
		free(u);
	return queued;
}

bool
mrfill_unmap(uint8_t *at, size_t len, bool last, void *debt)
{
	if ((last || len > UNMAP_ONCE) && queue_unmap(at, len, -1, debt))
		return true;
	munmap(at, len);
	return false;
}

void *
mrfill_unmapped(void)
{
	struct unmap *u;
	void *debt;

	if (__atomic_load_n(&mapper.ndone, __ATOMIC_RELAXED) == 0)
		return NULL;
	pthread_mutex_lock(&mapper.mutex);
	u = STAILQ_FIRST(&mapper.done);
	STAILQ_REMOVE_HEAD(&mapper.done, link);
	__atomic_store_n(&mapper.ndone, mapper.ndone - 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&mapper.mutex);
	debt = u->debt;
	free(u);
	return debt;
}

bool
mrfill_is_small(int fd)
{
	struct stat st;

	/* Pages may lie beyond the end. */
	return fstat(fd, &st) == 0 && st.st_size <= UNMAP_ONCE &&
	       st.st_blocks <= UNMAP_ONCE / BLOCK_BYTES;
}

void
mrfill_close(int fd)
{
	if (mrfill_is_small(fd) || !queue_unmap(NULL, 0, fd, NULL))
		close(fd);
}
