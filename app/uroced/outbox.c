/* SPDX-License-Identifier: BSD-3-Clause */
#include "outbox.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#define SD_JOURNAL_SUPPRESS_LOCATION /* it would be the same for all entries */
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>

#define CLOSE_S 1

struct message {
	struct message *next;
	unsigned n;
	char text[]; /* n strings */
};

static struct outbox {
	bool open;
	pthread_t thread;
	pthread_mutex_t mutex; /* protects the fields below */
	pthread_cond_t wake;
	struct message *first, *last; /* waiting messages */
	unsigned nwaiting, lost;
	bool closing;
} outbox[OUTBOX_NUM] = {
	[OUTBOX_JOURNAL] = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER},
	[OUTBOX_MANAGER] = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER},
};

/* NULL until an outbox is opened. */
static __typeof__(&sd_notify) notify;
static __typeof__(&sd_journal_sendv) journal_sendv;

void *
outbox_libsystemd(const char *name)
{
	void *lib = dlopen("libsystemd.so.0", RTLD_NOW);

	return lib != NULL ? dlsym(lib, name) : NULL;
}

void
outbox_add(enum outbox_to to, const char *const *text, unsigned n)
{
	struct outbox *box = &outbox[to];
	struct message *e = NULL;
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		len += strlen(text[i]) + 1;
	pthread_mutex_lock(&box->mutex);
	if (box->nwaiting < OUTBOX_WAITING && !box->closing)
		e = malloc(sizeof(*e) + len);
	if (e == NULL) {
		box->lost++;
	} else {
		char *at = e->text;

		e->next = NULL;
		e->n = n;
		for (unsigned i = 0; i < n; i++)
			at = stpcpy(at, text[i]) + 1;
		*(box->first == NULL ? &box->first : &box->last->next) = e;
		box->last = e;
		box->nwaiting++;
		pthread_cond_signal(&box->wake);
	}
	pthread_mutex_unlock(&box->mutex);
}

static void
send_message(const struct outbox *box, const struct message *e)
{
	struct iovec iov[OUTBOX_FIELDS];
	const char *at = e->text;

	if (box == &outbox[OUTBOX_MANAGER]) {
		notify(0, e->text);
		return;
	}
	for (unsigned i = 0; i < e->n; i++) {
		iov[i] = (struct iovec){(char *)(uintptr_t)at, strlen(at)};
		at += iov[i].iov_len + 1;
	}
	journal_sendv(iov, (int)e->n);
}

static void
send_lost(unsigned lost)
{
	char text[80];
	struct iovec iov[] = {{text, 0}, {"PRIORITY=4", 10}, {"SYSLOG_IDENTIFIER=uroced", 24}};

	iov[0].iov_len =
		(size_t)snprintf(text, sizeof(text),
				 "MESSAGE=%u lines lost: the journal did not accept them", lost);
	journal_sendv(iov, 3);
}

/* Thread function: sends the messages of one outbox, oldest first, until it closes. */
static void *
send_messages(void *arg)
{
	struct outbox *box = arg;
	struct message *e;
	unsigned lost;

	pthread_mutex_lock(&box->mutex);
	for (;;) {
		e = box->first;
		if (e == NULL && box->closing)
			break;
		if (e == NULL) {
			pthread_cond_wait(&box->wake, &box->mutex);
			continue;
		}
		box->first = e->next;
		lost = box->lost;
		box->lost = 0;
		pthread_mutex_unlock(&box->mutex);
		if (lost != 0 && box == &outbox[OUTBOX_JOURNAL])
			send_lost(lost);
		send_message(box, e);
		free(e);
		pthread_mutex_lock(&box->mutex);
		box->nwaiting--;
	}
	pthread_mutex_unlock(&box->mutex);
	return NULL;
}

int
outbox_open(enum outbox_to to)
{
	struct outbox *box = &outbox[to];
	sigset_t all, before;
	int rc;

	notify = outbox_libsystemd("sd_notify");
	journal_sendv = outbox_libsystemd("sd_journal_sendv");
	if (notify == NULL || journal_sendv == NULL)
		return ELIBACC;
	/* signals are handled by the control thread */
	sigfillset(&all);
	sigdelset(&all, SIGSYS); /* sandbox.h */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&box->thread, NULL, send_messages, box);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	box->open = rc == 0;
	return rc;
}

static void
box_close(struct outbox *box)
{
	struct timespec until;

	if (!box->open)
		return;
	pthread_mutex_lock(&box->mutex);
	box->closing = true;
	pthread_cond_signal(&box->wake);
	pthread_mutex_unlock(&box->mutex);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += CLOSE_S;
	pthread_clockjoin_np(box->thread, NULL, CLOCK_MONOTONIC, &until);
}

void
outbox_close(void)
{
	for (unsigned i = 0; i < OUTBOX_NUM; i++)
		box_close(&outbox[i]);
}
